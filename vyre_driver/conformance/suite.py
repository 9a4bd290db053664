"""Ask a backend many questions, and say which it answered as the reference does.

    from vyre_driver.conformance.suite import run
    report = run(my_backend, seed=1, count=300)
    assert not report.failures, report

Source: spec item 8.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from vyre_driver.backends.reference import DEFAULT_STEP_BUDGET, interpret
from vyre_driver.conformance.cases import hand_written
from vyre_driver.conformance.compare import DEFAULT_RULES, Difference, Rules, difference
from vyre_driver.conformance.generate import generate
from vyre_driver.conformance.options import Options
from vyre_driver.conformance.shrink import shrunk
from vyre_driver.errors import (
    DeviceLost,
    DispatchFailed,
    InvalidInput,
    InvalidProgram,
    LimitExceeded,
    UnsupportedFeature,
    VyreError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from vyre_driver.backends.reference import Interpretation
    from vyre_driver.conformance.case import Case, RunProgram
    from vyre_driver.ir.program import Program

_REASON_CHARACTERS = 120
_SHRINKING_STEP_BUDGET = 1 << 14  # a loop that lost its bound while shrinking would run for minutes


class Failure(NamedTuple):
    """A case that a backend answered otherwise, why, and what is left of it after shrinking, with its code as text.

    ``lost_with`` is the smaller case that the device was lost with while this one was shrunk, which ended that.
    """

    name: str
    why: str
    smallest: Case
    smallest_why: str
    assembly: str = ""
    lost_with: Case | None = None

    def describe(self) -> str:
        """Return the small program as text, its inputs, and its code where the backend gives that."""
        lines = [f"{self.name}: {self.why}", f"shrunk, with a grid of {self.smallest.grid} workgroups: {self.smallest_why}"]
        lines += _shown(self.smallest)
        if self.assembly:
            lines.append(self.assembly)
        if self.lost_with is not None:
            lines.append(f"the device was lost with this smaller one, in a grid of {self.lost_with.grid} workgroups:")
            lines += _shown(self.lost_with)
        return "\n".join(lines)


def _shown(case: Case) -> list[str]:
    return [str(case.program), *(f"  input {place}: {array!r}" for place, array in enumerate(case.inputs))]


class Answer(NamedTuple):
    """The result of one case: agreed, unless it was refused for a reason or failed.

    ``is_last`` says that the device was lost with it: the backend has no answer to another case.
    """

    name: str
    refusal: str | None = None
    failure: Failure | None = None
    is_last: bool = False


class _Deviation(NamedTuple):
    """How a backend departed from the reference: other numbers, an error (its name and code), or a refusal."""

    text: str
    error: str = ""
    is_refusal: bool = False
    is_loss: bool = False


class _Lost(Exception):
    """Raised while a case is shrunk: the device was lost with a smaller one."""

    def __init__(self, case: Case) -> None:
        """Keep that case."""
        super().__init__(case.name)
        self.case = case


@dataclass(slots=True)
class Report:
    """How many cases were asked, how many agreed, which were refused for what reason, and the failures."""

    asked: int = 0
    agreed: int = 0
    unsupported: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)

    def add(self, answer: Answer) -> None:
        """Count one more case."""
        self.asked += 1
        if answer.failure is not None:
            self.failures.append(answer.failure)
        elif answer.refusal is not None:
            self.unsupported[answer.refusal] += 1
        else:
            self.agreed += 1

    def __str__(self) -> str:
        """Return a table of a few lines."""
        lines = [f"asked {self.asked}, agreed {self.agreed}, failed {len(self.failures)}"]
        lines += [f"unsupported {count}: {reason}" for reason, count in self.unsupported.most_common()]
        lines += [f"failed {one.name}: {one.why}" for one in self.failures]
        return "\n".join(lines)


def random_cases(seed: int, count: int, options: Options | None = None) -> Iterator[Case]:
    """Yield the cases of ``count`` seeds from ``seed`` on."""
    for one in range(seed, seed + count):
        yield generate(one, options)


def run(  # noqa: PLR0913 -- which backend, which questions, which rules
    backend: RunProgram,
    seed: int = 0,
    count: int = 300,
    *,
    options: Options | None = None,
    rules: Rules = DEFAULT_RULES,
    max_failures: int = 10,
    by_hand: bool = True,
) -> Report:
    """Ask the hand-written cases, then random ones from ``seed`` on; stop after ``max_failures``, or a lost device."""
    options = Options() if options is None else options
    cases = hand_written(options) if by_hand else iter(())
    return ask(backend, chain(cases, random_cases(seed, count, options)), rules=rules, max_failures=max_failures)


def ask(
    backend: RunProgram, cases: Iterable[Case], *, rules: Rules = DEFAULT_RULES, max_failures: int = 10, shrink: bool = True
) -> Report:
    """Ask a backend these cases; stop after ``max_failures``, or when its device was lost."""
    report = Report()
    for case in cases:
        found = answer(backend, case, rules, shrink=shrink)
        report.add(found)
        if found.is_last or len(report.failures) >= max_failures:
            break
    return report


def answer(backend: RunProgram, case: Case, rules: Rules = DEFAULT_RULES, *, shrink: bool = True) -> Answer:
    """Return what a backend says to one case; one that the device is lost with is not shrunk."""
    found = _judged(backend, case, _reference(case).outputs, rules)
    if found is None:
        return Answer(case.name)
    if found.is_refusal:
        return Answer(case.name, refusal=found.text[:_REASON_CHARACTERS])
    smallest, why, lost_with = case, found.text, None
    if shrink and not found.is_loss:
        smallest, why, lost_with = _smallest(backend, case, rules, found)
    failure = Failure(case.name, found.text, smallest, why, _assembly(backend, smallest), lost_with)
    return Answer(case.name, failure=failure, is_last=found.is_loss or lost_with is not None)


def _assembly(backend: RunProgram, case: Case) -> str:
    """Return the code of a program as text, where the backend has a method ``assembly`` that gives it."""
    assembly: Callable[[Program], str] | None = getattr(backend, "assembly", None)
    try:
        return "" if assembly is None else assembly(case.program)
    except VyreError as error:  # perhaps the very failure
        return f"no code: {type(error).__name__} {error.code}: {error}"


def _reference(case: Case, step_budget: int = DEFAULT_STEP_BUDGET) -> Interpretation:
    return interpret(
        case.program,
        case.inputs,
        grid=case.grid,
        element_counts=case.element_counts,
        step_budget=step_budget,
        subgroup_lanes=case.subgroup_lanes,
    )


def _judged(backend: RunProgram, case: Case, expected: Sequence[NDArray[Any]], rules: Rules) -> _Deviation | None:
    """Return how a backend's answer is not the expected one."""
    try:
        received = backend(case.program, case.inputs, grid=case.grid, element_counts=case.element_counts)
    except VyreError as error:
        if (
            isinstance(error, UnsupportedFeature | LimitExceeded) or type(error) is InvalidProgram
        ):  # for want of a device's feature
            return _Deviation(error.problem, is_refusal=True)
        name = f"{type(error).__name__} {error.code}"
        return _Deviation(f"{name}: {error}", error=name, is_loss=isinstance(error, DeviceLost))
    found: Difference | None = difference(case, expected, received, rules)
    return None if found is None else _Deviation(str(found))


def _smallest(backend: RunProgram, case: Case, rules: Rules, first: _Deviation) -> tuple[Case, str, Case | None]:
    """Return what is left of a failing case after shrinking, and why it fails: by the same error, or by a wrong number too.

    The last is the case that the device was lost with on the way, after which nothing more is tried.
    """
    smallest, why, lost_with = case, first.text, None

    def fails(smaller: Case) -> bool:
        nonlocal smallest, why
        try:
            known = _reference(smaller, _SHRINKING_STEP_BUDGET)
            found = None if known.order_mattered or known.stores_met else _judged(backend, smaller, known.outputs, rules)
        except (InvalidProgram, InvalidInput, DispatchFailed, UnsupportedFeature):
            return False  # no such program, or one without a result
        if found is not None and found.is_loss:
            raise _Lost(smaller)
        if found is None or (found.error, found.is_refusal) != (first.error, False):
            return False
        smallest, why = smaller, found.text
        return True

    try:
        shrunk(case, fails)
    except _Lost as loss:
        lost_with = loss.case
    return replace(smallest, name=f"{case.name}, shrunk"), why, lost_with


def failure_data(failure: Failure) -> dict[str, Any]:
    """Return a failure as plain data; ``text`` is what :meth:`Failure.describe` prints."""
    smallest = failure.smallest
    data = {"case": failure.name, "why": failure.why, "grid": list(smallest.grid), "program": str(smallest.program)}
    return {**data, "text": failure.describe()}
