"""Ask a backend many questions, and say which it answered as the reference does.

    from vyre_driver.conformance.suite import run
    report = run(my_backend, seed=1, count=300)
    assert not report.failures, report

Source: spec item 8.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from vyre_driver.backends.reference import interpret
from vyre_driver.conformance.cases import hand_written
from vyre_driver.conformance.compare import DEFAULT_RULES, Difference, Rules, difference
from vyre_driver.conformance.generate import generate
from vyre_driver.conformance.options import Options
from vyre_driver.conformance.shrink import shrunk
from vyre_driver.errors import DispatchFailed, InvalidInput, InvalidProgram, UnsupportedFeature, VyreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from vyre_driver.backends.reference import Interpretation
    from vyre_driver.conformance.case import Case, RunProgram
    from vyre_driver.ir.program import Program

_REASON_CHARACTERS = 120


class Failure(NamedTuple):
    """A case that a backend answered otherwise, why, and what is left of it after shrinking."""

    name: str
    why: str
    smallest: Case
    smallest_why: str

    def describe(self, assembly: Callable[[Program], str] | None = None) -> str:
        """Return the small program as text, with its SPIR-V where the backend can give it."""
        lines = [f"{self.name}: {self.why}", f"shrunk, with a grid of {self.smallest.grid} workgroups: {self.smallest_why}"]
        lines.append(str(self.smallest.program))
        lines += [f"  input {place}: {array!r}" for place, array in enumerate(self.smallest.inputs)]
        if assembly is not None:
            lines.append(assembly(self.smallest.program))
        return "\n".join(lines)


@dataclass(slots=True)
class Report:
    """How many cases were asked, how many agreed, which were refused for what reason, and the failures."""

    asked: int = 0
    agreed: int = 0
    unsupported: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)

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
    cases = [*hand_written(options)] if by_hand else []
    return ask(backend, _both(cases, random_cases(seed, count, options)), rules=rules, max_failures=max_failures)


def _both(first: Iterable[Case], second: Iterable[Case]) -> Iterator[Case]:
    yield from first
    yield from second


def ask(
    backend: RunProgram, cases: Iterable[Case], *, rules: Rules = DEFAULT_RULES, max_failures: int = 10, shrink: bool = True
) -> Report:
    """Ask a backend these cases."""
    report = Report()
    for case in cases:
        report.asked += 1
        try:
            why = verdict(backend, case, rules)
        except UnsupportedFeature as refusal:
            report.unsupported[refusal.problem[:_REASON_CHARACTERS]] += 1
            continue
        if why is None:
            report.agreed += 1
            continue
        smallest, smallest_why = _smallest(backend, case, rules) if shrink else (case, why)
        report.failures.append(Failure(case.name, why, smallest, smallest_why or why))
        if len(report.failures) >= max_failures:
            break
    return report


def verdict(backend: RunProgram, case: Case, rules: Rules = DEFAULT_RULES) -> str | None:
    """Return how a backend's answer differs, None when it agrees.

    Raises
    ------
    UnsupportedFeature
        1002 if the backend refuses the program.
    """
    return _judged(backend, case, _reference(case).outputs, rules)


def _reference(case: Case) -> Interpretation:
    return interpret(case.program, case.inputs, grid=case.grid, element_counts=case.element_counts)


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
            known = _reference(smaller)
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
        "failed": [
            {"case": one.name, "why": one.why, "grid": list(one.smallest.grid), "program": str(one.smallest.program)}
            for one in report.failures
        ],
    }
