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
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from vyre_driver.backends.reference import DEFAULT_STEP_BUDGET, interpret
from vyre_driver.conformance.cases import hand_written
from vyre_driver.conformance.compare import DEFAULT_RULES, Difference, Rules, difference
from vyre_driver.conformance.generate import generate
from vyre_driver.conformance.options import Options
from vyre_driver.conformance.shrink import shrunk
from vyre_driver.errors import DispatchFailed, InvalidInput, InvalidProgram, LimitExceeded, UnsupportedFeature, VyreError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from vyre_driver.backends.reference import Interpretation
    from vyre_driver.conformance.case import Case, RunProgram
    from vyre_driver.ir.program import Program

_REASON_CHARACTERS = 120
_SHRINKING_STEP_BUDGET = 1 << 14  # a loop that lost its bound while shrinking would run for minutes


@runtime_checkable
class ShowsAssembly(Protocol):
    """What a backend may have beside being called: ``assembly`` gives the code of a program as text."""

    def assembly(self, program: Program) -> str:
        """Return it."""
        ...


class Failure(NamedTuple):
    """A case that a backend answered otherwise, why, and what is left of it after shrinking, with its code as text."""

    name: str
    why: str
    smallest: Case
    smallest_why: str
    assembly: str = ""

    def describe(self) -> str:
        """Return the small program as text, its inputs, and its code where the backend gives that."""
        lines = [f"{self.name}: {self.why}", f"shrunk, with a grid of {self.smallest.grid} workgroups: {self.smallest_why}"]
        lines.append(str(self.smallest.program))
        lines += [f"  input {place}: {array!r}" for place, array in enumerate(self.smallest.inputs)]
        return "\n".join([*lines, self.assembly] if self.assembly else lines)


class Answer(NamedTuple):
    """What came of one case: agreed, unless it was refused for a reason or failed."""

    name: str
    refusal: str | None = None
    failure: Failure | None = None


class _Otherwise(NamedTuple):
    """What a backend did instead: gave other numbers, raised an error (its name and code), or refused."""

    text: str
    error: str = ""
    is_refusal: bool = False


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
    """Ask the hand-written cases, then random ones from ``seed`` on; stop after ``max_failures``."""
    options = Options() if options is None else options
    cases = hand_written(options) if by_hand else iter(())
    return ask(backend, chain(cases, random_cases(seed, count, options)), rules=rules, max_failures=max_failures)


def ask(
    backend: RunProgram, cases: Iterable[Case], *, rules: Rules = DEFAULT_RULES, max_failures: int = 10, shrink: bool = True
) -> Report:
    """Ask a backend these cases."""
    report = Report()
    for case in cases:
        report.add(answer(backend, case, rules, shrink=shrink))
        if len(report.failures) >= max_failures:
            break
    return report


def answer(backend: RunProgram, case: Case, rules: Rules = DEFAULT_RULES, *, shrink: bool = True) -> Answer:
    """Return what a backend says to one case."""
    found = _judged(backend, case, _reference(case).outputs, rules)
    if found is None:
        return Answer(case.name)
    if found.is_refusal:
        return Answer(case.name, refusal=found.text[:_REASON_CHARACTERS])
    smallest, last = _smallest(backend, case, rules, found) if shrink else (case, found)
    return Answer(case.name, failure=Failure(case.name, found.text, smallest, last.text, _assembly(backend, smallest)))


def _assembly(backend: RunProgram, case: Case) -> str:
    if not isinstance(backend, ShowsAssembly):
        return ""
    try:
        return backend.assembly(case.program)
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


def _judged(backend: RunProgram, case: Case, expected: Sequence[NDArray[Any]], rules: Rules) -> _Otherwise | None:
    """Return how a backend's answer is not the expected one."""
    try:
        received = backend(case.program, case.inputs, grid=case.grid, element_counts=case.element_counts)
    except VyreError as error:
        if (
            isinstance(error, UnsupportedFeature | LimitExceeded) or type(error) is InvalidProgram
        ):  # for want of a device's feature
            return _Otherwise(error.problem, is_refusal=True)
        name = f"{type(error).__name__} {error.code}"
        return _Otherwise(f"{name}: {error}", error=name)
    found: Difference | None = difference(case, expected, received, rules)
    return None if found is None else _Otherwise(str(found))


def _smallest(backend: RunProgram, case: Case, rules: Rules, first: _Otherwise) -> tuple[Case, _Otherwise]:
    """Return what is left of a failing case after shrinking, and why it fails: by the same error, or by a wrong number too."""
    last = [first]

    def fails(smaller: Case) -> bool:
        try:
            known = _reference(smaller, _SHRINKING_STEP_BUDGET)
            found = None if known.order_mattered or known.stores_met else _judged(backend, smaller, known.outputs, rules)
        except (InvalidProgram, InvalidInput, DispatchFailed, UnsupportedFeature):
            return False  # no such program, or one without a result
        if found is None or (found.error, found.is_refusal) != (first.error, False):
            return False
        last[:] = [found]
        return True

    smallest = shrunk(case, fails)
    return replace(smallest, name=f"{case.name}, shrunk"), last[0]


def as_data(report: Report) -> dict[str, Any]:
    """Return a report as plain data."""
    return {
        "asked": report.asked,
        "agreed": report.agreed,
        "unsupported": dict(report.unsupported.most_common()),
        "failed": [failure_data(one) for one in report.failures],
    }


def failure_data(failure: Failure) -> dict[str, Any]:
    """Return a failure as plain data; ``text`` is what :meth:`Failure.describe` prints."""
    smallest = failure.smallest
    told = {"case": failure.name, "why": failure.why, "grid": list(smallest.grid), "program": str(smallest.program)}
    return {**told, "text": failure.describe()}
