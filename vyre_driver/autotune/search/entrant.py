"""One candidate of a search and the timings taken of it so far."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vyre_driver.autotune.search.outcomes import Outcome, Status, is_time
from vyre_driver.autotune.search.race import Timing

if TYPE_CHECKING:
    from vyre_driver.autotune.search.outcomes import Trial
    from vyre_driver.autotune.search.space import Candidate


@dataclass(slots=True)
class Entrant:
    """One candidate and its timings so far; it has no status as long as it is in the race.

    The time of the warm-up ``is_cold``, and counts until there is another.
    """

    candidate: Candidate
    trial: Trial | None = None
    times: list[float] = field(default_factory=list)
    is_cold: bool = False
    status: Status | None = None
    detail: str = ""

    @property
    def is_in(self) -> bool:
        """Whether it is still in the race."""
        return self.trial is not None and self.status is None

    @property
    def timing(self) -> Timing:
        """The summary of its times."""
        return Timing.of(self.times)

    @property
    def outcome(self) -> Outcome:
        """Its outcome, if the search ended now."""
        timing = self.timing
        status, detail = self.status, self.detail
        if status is None:
            status = Status.TIMED if self.times else Status.NOT_TRIED
            detail = "" if self.times else "the search ended before it was timed"
        return Outcome(self.candidate, status, timing.samples, timing.median_ns, timing.spread_ns, detail)

    @property
    def ready(self) -> Trial:
        """Its trial; only of one that is in the race."""
        assert self.trial is not None  # noqa: S101 -- it is in the race
        return self.trial

    def sample(self) -> None:
        """Time one run; raises ValueError if that is not a time."""
        nanoseconds = self.ready.sample()
        if not is_time(nanoseconds):
            raise ValueError(f"a run took {nanoseconds} ns")
        if self.is_cold:
            self.times.clear()
        self.times.append(nanoseconds)
        self.is_cold = False

    def warm_up(self) -> None:
        """Time one run, which counts only until there is another."""
        self.sample()
        self.is_cold = True

    def close(self) -> None:
        """Close its trial, once."""
        trial, self.trial = self.trial, None
        if trial is not None:
            trial.close()
