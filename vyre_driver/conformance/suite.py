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
from vyre_driver.errors import DispatchFailed, InvalidInput, InvalidProgram, UnsupportedFeature, VyreError

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
    try:
        why = verdict(backend, case, rules)
    except UnsupportedFeature as refusal:
        return Answer(case.name, refusal=refusal.problem[:_REASON_CHARACTERS])
    if why is None:
        return Answer(case.name)
    smallest, smallest_why = _smallest(backend, case, rules) if shrink else (case, why)
    return Answer(case.name, failure=Failure(case.name, why, smallest, smallest_why or why, _assembly(backend, smallest)))


def _assembly(backend: RunProgram, case: Case) -> str:
    if not isinstance(backend, ShowsAssembly):
        return ""
    try:
        return backend.assembly(case.program)
    except VyreError as error:  # perhaps the very failure
        return f"no code: {type(error).__name__} {error.code}: {error}"


def verdict(backend: RunProgram, case: Case, rules: Rules = DEFAULT_RULES) -> str | None:
    """Return how a backend's answer differs, None when it agrees.

    Raises
    ------
    UnsupportedFeature
        1002 if the backend refuses the program.
    """
    return _judged(backend, case, _reference(case).outputs, rules)


def _reference(case: Case, step_budget: int = DEFAULT_STEP_BUDGET) -> Interpretation:
    return interpret(case.program, case.inputs, grid=case.grid, element_counts=case.element_counts, step_budget=step_budget)


def _judged(backend: RunProgram, case: Case, expected: Sequence[NDArray[Any]], rules: Rules) -> str | None:
    try:
        received = backend(case.program, case.inputs, grid=case.grid, element_counts=case.element_counts)
    except UnsupportedFeature:
        raise
    except VyreError as error:
        return f"{type(error).__name__} {error.code}: {error}"
    found: Difference | None = difference(case, expected, received, rules)
    return None if found is None else str(found)


def _smallest(backend: RunProgram, case: Case, rules: Rules) -> tuple[Case, str]:
    """Return what is left of a failing case after shrinking, and why it fails."""
    last: list[str] = []

    def fails(smaller: Case) -> bool:
        try:
            known = _reference(smaller, _SHRINKING_STEP_BUDGET)
            why = None if known.order_mattered else _judged(backend, smaller, known.outputs, rules)
        except (InvalidProgram, InvalidInput, DispatchFailed, UnsupportedFeature):
            return False  # no such program, one without a result, or one that the backend does not run
        if why is not None:
            last[:] = [why]
        return why is not None

    smallest = shrunk(case, fails)
    return replace(smallest, name=f"{case.name}, shrunk"), last[0] if last else ""


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
