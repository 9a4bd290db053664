"""The inputs and results of a search: the budget, the trial of one candidate, and the outcome of each.

Source: spec items 2.4 and 6.1; the rest is ours.
"""

from __future__ import annotations

import enum
import math
import numbers
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from vyre_driver.autotune.store.record import Timing, format_timings
from vyre_driver.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from vyre_driver.autotune.search.space import Candidate


@dataclass(frozen=True, slots=True)
class Budget:
    """The limits of a search; nothing new is begun once they are reached, and work that is under way is finished.

    Parameters
    ----------
    seconds
        Of the whole search. No further candidate is made once half of them are spent, so that there is time to time.
    samples
        Runs that are timed, of all candidates together, warm-ups counted.
    min_samples, max_samples
        Of one candidate: before it may be dropped as slow, and after which it is not timed again; without its warm-up. The
        fastest are timed as often again in the final.
    run_timeout
        Seconds that one run may take.
    make_timeout
        Seconds that it may take to make one ready, kept where that is done in another process.
    warm_up
        Seconds of work before runs are timed, up to three times as many where runs still become faster; a tenth of what is left
        at most. The clock of an idle device is low, and rises while it works. 0 gives it none.

    Raises
    ------
    InvalidInput
        If one is not above 0 (``warm_up``: is below 0), or the least samples are more than the most.
    """

    seconds: float = 120.0
    samples: int = 100_000
    min_samples: int = 5
    max_samples: int = 400
    run_timeout: float = 10.0
    make_timeout: float = 60.0
    warm_up: float = 0.5

    def __post_init__(self) -> None:
        """Check each number."""
        for name in ("seconds", "samples", "min_samples", "max_samples", "run_timeout", "make_timeout"):
            value = getattr(self, name)
            if not _is_real(value) or not value > 0:
                raise InvalidInput(f"{name} of a tuning budget is {value!r}", fix="give a number above 0", field=name)
        if not _is_real(self.warm_up) or not self.warm_up >= 0:
            raise InvalidInput(
                f"warm_up of a tuning budget is {self.warm_up!r}", fix="give seconds, or 0 for none", field="warm_up"
            )
        if self.min_samples > self.max_samples:
            raise InvalidInput(
                f"a tuning budget asks for at least {self.min_samples} samples and at most {self.max_samples}",
                fix="give a min_samples of at most max_samples",
                field="min_samples",
            )


def _is_real(value: object) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


class Status(enum.Enum):
    """The status of a candidate."""

    TIMED = "timed"
    """Right, and in the race to its end."""
    DROPPED = "dropped"
    """Right, timed, and left behind as too slow, or as no better than an earlier one."""
    FAILED = "failed"
    """It could not be made or run."""
    HUNG = "hung"
    """A run of it did not end in time."""
    WRONG = "wrong"
    """Its outputs are not the right ones."""
    NOT_TRIED = "not tried"
    """The budget was spent, or the device out of order, before it was timed."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one candidate.

    ``samples`` were timed; ``median_ns`` is their median and ``spread_ns`` their median absolute deviation from it, both 0
    where there are none. ``detail`` says why it is out, empty for what is ``TIMED``.
    """

    candidate: Candidate
    status: Status
    samples: int = 0
    median_ns: float = 0.0
    spread_ns: float = 0.0
    detail: str = ""


@dataclass(frozen=True, slots=True)
class SearchResult:
    """All outcomes in the order of preference, the best of them, and the time and the timed runs that it took.

    ``reference`` is the candidate whose outputs the others were compared with, None where the right result was known.
    ``ties`` are the others that cannot be distinguished from the best: in another search one of them may win.
    """

    outcomes: tuple[Outcome, ...]
    best: Outcome
    reference: Candidate | None
    samples: int
    seconds: float
    ties: tuple[Candidate, ...] = ()

    @property
    def timings(self) -> str:
        """The times as a record keeps them: the best's first, then the fastest others'."""
        others = sorted((one for one in self.outcomes if one.samples and one != self.best), key=lambda one: one.median_ns)
        return format_timings(
            Timing(str(one.candidate), round(one.median_ns), round(one.spread_ns), one.samples) for one in (self.best, *others)
        )


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a search: candidates done or in the race, those still in it, timed runs, seconds, the last outcome."""

    tried: int
    total: int
    racing: int
    samples: int
    seconds: float
    latest: Outcome


class Trial(Protocol):
    """A candidate made ready on a device. Each method may raise."""

    def outputs(self) -> Sequence[NDArray[Any]]:
        """Return what a run on fresh inputs gives."""

    def sample(self) -> float:
        """Return the nanoseconds of one run, before which the inputs were restored."""

    def keep_busy(self, seconds: float) -> float:
        """Run again and again for so many seconds, so that the device's clock rises; returns the nanoseconds of a run then."""

    def verify(self) -> None:
        """Check that the best candidate is right at the size it was timed at, where ``outputs`` were of a smaller one.

        Raises
        ------
        WrongOutputs
            If its outputs are wrong.
        """

    def close(self) -> None:
        """Give back what it holds; called once."""


class WrongOutputs(Exception):
    """A trial's own word that its outputs are wrong, and why: it may know more than the search."""


class Abandoned(Exception):
    """A trial's word that no other can be run any more; what was found by then counts.

    Raised from the error of the trial itself.
    """


def is_time(nanoseconds: float) -> bool:
    """Whether this can be the time of a run."""
    return math.isfinite(nanoseconds) and nanoseconds >= 0
