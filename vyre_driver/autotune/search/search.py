"""Search for the best candidate: check each one, race them, and drop the slow ones.

The race goes in rungs. In each, all that are left are timed in turn, one run each and round after round, so that whatever makes
the device slower for a while falls on all of them. Then a candidate drops out that is surely too slow, or comes after one that
is surely as fast: most in the first rung. Those that are left are timed as often again, few a quarter more, until
the medians of all are known to 1 %.

Then the fastest race once more, those among them that dropped out too, until one is left or all are known to 0.2 %: a
candidate timed among others, or on a device below its full clock, is compared with the winner side by side. The device is
kept busy before either. Nothing is random: the same times give the same result.

Times are noisy: they vary by some per cent, now and then one is far too long, never one far too short. So a candidate is judged
by the median of its times, and the noise by their median absolute deviation, which such outliers do not move. Of n times with
the standard deviation s the median's standard error is 1.25 s / sqrt(n), and s is 1.48 deviations where they are spread as
usual. A deviation of few times may be small by chance, so the typical one of all candidates counts where it is larger.

Those within 2 % of the fastest are as fast, and of these the first in the order of preference wins, so that two tunings agree
although their times do not: they differ only where a candidate is by chance just 2 % slower. Between two tunings medians move,
by 3.5 % on an H200, whatever their noise: a candidate within 5.5 % may win another time, and is reported as a tie.

It knows neither kernels nor devices: a function makes a trial, which reports its own results.

Source: P. J. Rousseeuw and C. Croux, "Alternatives to the Median Absolute Deviation" (1993), for the factors.
"""

from __future__ import annotations

import math
import statistics
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from vyre_driver.autotune.search.outcomes import Abandoned, Outcome, Progress, SearchResult, Status, WrongOutputs, is_time
from vyre_driver.errors import DispatchTimeout, TuningFailed, VyreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from vyre_driver.autotune.search.outcomes import Budget, Trial
    from vyre_driver.autotune.search.space import Candidate

    Outputs = Sequence[NDArray[Any]]

TIE = 0.02
"""How much slower than the fastest still counts as equally fast."""
STABLE = 0.01
"""A winner is known when two standard errors of its median are within this part of it."""
PRECISE = 0.002
"""Finalists are not distinguished further when two standard errors of each are within this part."""
DRIFT = 0.035
"""How far medians may move from one tuning to another."""
FINALISTS = 16
"""How many are timed again in the final, at most."""

_SIGMA_OF_DEVIATION = 1.4826
_ERROR_OF_MEDIAN = 1.2533
_OUT = 3.0  # standard errors of each of two medians: one is surely slower; there are many candidates, and no second chance
_NOISE = 2.0  # or surely as fast, where an error costs little speed; less cannot be distinguished from chance


@dataclass(frozen=True, slots=True)
class Timing:
    """Median of some times and their median absolute deviation from it, in nanoseconds; of no times 0."""

    median_ns: float
    spread_ns: float
    samples: int

    @classmethod
    def of(cls, times: Sequence[float]) -> Timing:
        """Return that of these times."""
        if not times:
            return cls(0.0, 0.0, 0)
        median = statistics.median(times)
        return cls(median, statistics.median([abs(one - median) for one in times]), len(times))


def standard_errors(timings: Sequence[Timing]) -> list[float]:
    """Return the standard error of each median, as a part of it."""
    spreads = [_SIGMA_OF_DEVIATION * one.spread_ns / one.median_ns if one.median_ns else 0.0 for one in timings]
    typical = statistics.median(spreads)
    return [
        _ERROR_OF_MEDIAN * max(spread, typical) / math.sqrt(one.samples) for one, spread in zip(timings, spreads, strict=True)
    ]


def survivors(timings: Sequence[Timing]) -> list[int]:
    """Return the survivors of a round by their places in the order of preference; there is always one.

    Out are those surely slower than the fastest, and those after one that is surely as fast. That is more than the slower half
    as a rule, and less where many are as fast: of these none may go by chance, or two tunings would not agree.
    """
    least, most = _bounds(timings, _OUT)
    limit = min(most) * (1 + TIE)
    return [place for place, median in enumerate(least[: _first_sure(timings) + 1]) if median <= limit]


def _first_sure(timings: Sequence[Timing]) -> int:
    """Return the place of the first that is surely as fast as the fastest, the last place if none is."""
    least, most = _bounds(timings, _NOISE)
    limit = min(least) * (1 + TIE)
    return next((place for place, median in enumerate(most) if median <= limit), len(timings) - 1)


def _bounds(timings: Sequence[Timing], errors: float) -> tuple[list[float], list[float]]:
    """Return the least and the most that each median may be, so many standard errors from what it is."""
    both = list(zip((one.median_ns for one in timings), standard_errors(timings), strict=True))
    return [median * (1 - errors * error) for median, error in both], [median * (1 + errors * error) for median, error in both]


def is_decided(timings: Sequence[Timing], precision: float) -> bool:
    """Whether more times would tell no more: the medians of those that are left are known to this part of them."""
    wanted = STABLE if len(timings) == 1 else precision
    return all(_NOISE * error <= wanted for error in standard_errors(timings))


def nearest(timings: Sequence[Timing], within: float) -> list[int]:
    """Return the places of those that are within this part of the fastest, or may be, in the order of preference."""
    least, most = _bounds(timings, _NOISE)
    limit = min(most) * (1 + within)
    return [place for place, median in enumerate(least) if median <= limit]


def finalists(timings: Sequence[Timing]) -> list[int]:
    """Return the places of those that are to be timed again: the two fastest, and the first that are near them."""
    fastest = sorted(range(len(timings)), key=lambda place: timings[place].median_ns)[:2]
    others = [place for place in nearest(timings, 2 * TIE) if place not in fastest]
    return sorted(fastest + others[: FINALISTS - len(fastest)])


def winner(timings: Sequence[Timing]) -> int:
    """Return the place of the first that is as fast as the fastest, as far as the noise lets one tell: within 2 %, or it."""
    errors = standard_errors(timings)
    fastest = min(range(len(timings)), key=lambda place: timings[place].median_ns)
    for place, one in enumerate(timings):
        noise = _NOISE * math.hypot(errors[place], errors[fastest])
        if one.median_ns <= timings[fastest].median_ns * (1 + max(TIE, noise)):
            return place
    return fastest


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


_T = TypeVar("_T")
_FEW = 8
_LEAST_ROUNDS = 8  # of few
_SHOWN = 3
_WARM_UP_SHARE = 10  # of the seconds that are left
_LONGEST_WARM_UP = 3  # times the least
_WARM_UP_STEP_S = 0.1
_FASTER = 0.99  # and the clock still rises
_RIGHT = (None, Status.DROPPED)  # timed to an end
_TOO_SLOW = "slower than others, or no faster than an earlier one"


def search(  # noqa: PLR0913 -- what a search is made of, by keyword
    candidates: Iterable[Candidate],
    make: Callable[[Candidate], Trial],
    *,
    budget: Budget,
    agrees: Callable[[Outputs, Outputs], str | None],
    expected: Outputs | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> SearchResult:
    """Return the best of some candidates, given in the order of preference, and the outcome of each.

    Parameters
    ----------
    make
        Makes a candidate ready; it may raise, and what it made is closed before the search ends, however that is.
    agrees
        Compares the right outputs with a candidate's; returns None, or why they differ.
    expected
        The right outputs. Without them those of the first candidate that has some are the right ones.
        Candidates are made in the order of ``spread``, the first one first.
    on_progress
        Called with each candidate that is checked or out.
    clock
        Seconds from any time on.

    Raises
    ------
    TuningFailed
        If no candidate was right and timed within the budget; its ``outcomes`` say why not.
    """
    run = _Search(make, budget, agrees, expected, on_progress, clock)
    entrants = run.entrants = [Entrant(candidate) for candidate in candidates]
    try:
        run.run()
    finally:
        with ExitStack() as closing:
            for one in entrants:
                closing.callback(_close_quietly, one)
    return run.result()


def spread(entrants: Sequence[_T]) -> list[_T]:
    """Return the same, many of them in an order that goes all over: the first, that in the middle, those in the quarters.

    Neighbours in a space are much alike. Where there is no time for all, some of every kind are tried.
    """
    if len(entrants) <= _FEW:
        return list(entrants)
    bits = (len(entrants) - 1).bit_length()
    return [entrants[place] for place in sorted(range(len(entrants)), key=lambda place: f"{place:0{bits}b}"[::-1])]


class _Spent(Exception):
    """The budget is spent."""


@dataclass(slots=True)
class _Search:
    """A search under way."""

    make: Callable[[Candidate], Trial]
    budget: Budget
    agrees: Callable[[Outputs, Outputs], str | None]
    expected: Outputs | None
    on_progress: Callable[[Progress], None] | None
    clock: Callable[[], float]
    entrants: list[Entrant] = field(default_factory=list)
    reference: Candidate | None = None
    samples: int = 0
    began: float = field(init=False)

    def __post_init__(self) -> None:
        self.began = self.clock()

    @property
    def seconds(self) -> float:
        """Seconds since it began."""
        return self.clock() - self.began

    @property
    def _is_spent(self) -> bool:
        return self.samples >= self.budget.samples or self.seconds >= self.budget.seconds

    @property
    def _has_time_to_make(self) -> bool:
        return self.seconds < self.budget.seconds / 2

    @property
    def left(self) -> list[Entrant]:
        """The candidates in the race."""
        return [one for one in self.entrants if one.is_in]

    def run(self) -> None:
        """Check all, let them race, and close those that are left."""
        try:
            self._check_all()
            self._race(STABLE)
            self._final()
            self._verify()
        except Abandoned:
            pass  # the one that said so is out; those that were timed by now are compared
        for one in self.entrants:
            self._close(one)

    def result(self) -> SearchResult:
        """Return what was found, when every trial is closed; raises TuningFailed if nothing is right and timed."""
        outcomes = tuple(one.outcome for one in self.entrants)
        best = self._best()
        if best is None:
            by_status = [(status, sum(one.status is status for one in outcomes)) for status in Status]
            counts = ", ".join(f"{count} {status.value}" for status, count in by_status if count)
            raise TuningFailed(
                f"none of {len(outcomes)} candidates was right and timed in {self.seconds:.1f} s of {self.budget.seconds:g} s "
                f"({counts or 'there are none'}): {_reasons(outcomes) or 'nothing to try'}",
                fix="look at the outcomes, or give the tuner more time",
                outcomes=outcomes,
            )
        return SearchResult(outcomes, best.outcome, self.reference, self.samples, self.seconds, self._ties(best))

    def _check_all(self) -> None:
        """Make the candidates and compare what they give, as long as half of the time lasts."""
        for one in spread(self.entrants):
            if not self._has_time_to_make:
                one.detail = "the time to make candidates was spent"
                one.status = Status.NOT_TRIED
                continue
            self._guarded(one, self._check)
            self._report(one)

    def _race(self, precision: float) -> None:
        """Time the remaining candidates until they can be distinguished, or the budget is spent."""
        try:
            self._round(warm_up=True)  # which makes ready what is not: the device is idle for long
            self._keep_busy()
            rounds = self.budget.min_samples
            done = 0
            while self.left and done < self.budget.max_samples:
                for _ in range(min(rounds, self.budget.max_samples - done)):
                    self._round()
                    done += 1
                self._drop_slow()
                left = self.left
                if not left or is_decided([one.timing for one in left], precision):
                    break
                rounds = done if len(left) > _FEW else max(_LEAST_ROUNDS, done // 4)
        except _Spent:
            pass

    def _final(self) -> None:
        """Let the fastest race once more; where the budget ends that too soon, what they did before counts."""
        has_time = self._has_time_to_make
        timed = [one for one in self.entrants if one.times and (one.is_in or (one.status is Status.DROPPED and has_time))]
        if len(timed) < 2 or self._is_spent:
            return
        those = [timed[place] for place in finalists([one.timing for one in timed])]
        for one in self.left:
            if one not in those:
                self._out(one, Status.DROPPED, _TOO_SLOW)
        before = [(one, one.times, one.status, one.detail) for one in those]
        try:
            for one in those:
                one.times, one.status, one.detail = [], None, ""
                if one.trial is None:
                    self._guarded(one, self._make_again)
            self._race(PRECISE)
        finally:
            is_whole = all(len(one.times) >= self.budget.min_samples for one in those if one.status in _RIGHT)
            for one, times, status, detail in before:
                if not one.times or not is_whole:
                    one.times = times
                if one.status is None and not is_whole:
                    one.status, one.detail = status, detail

    def _keep_busy(self) -> None:
        """Let the first that can keep the device busy until its clock has risen."""
        for one in self.left:
            self._guarded(one, self._warm)
            if one.is_in:
                return
            self._report(one)

    def _warm(self, one: Entrant) -> None:
        """Run one until it becomes no faster. At first its times do not fall either, so that there is a least of seconds."""
        most = min(_LONGEST_WARM_UP * self.budget.warm_up, (self.budget.seconds - self.seconds) / _WARM_UP_SHARE)
        done, fastest = 0.0, math.inf
        while done < most:
            step = min(_WARM_UP_STEP_S, most - done)
            took = one.ready.keep_busy(step)
            done += step
            if done + step / 2 > self.budget.warm_up and took >= fastest * _FASTER:
                return
            fastest = min(fastest, took)

    def _ties(self, best: Entrant) -> tuple[Candidate, ...]:
        """Return the others that cannot be distinguished from the best."""
        timed = [one for one in self.entrants if one.times and one.status in _RIGHT]
        near = [timed[place] for place in nearest([one.timing for one in timed], TIE + DRIFT)]
        return tuple(one.candidate for one in near if one is not best)

    def _best(self) -> Entrant | None:
        """Return the best by now. Where the finalists fail at the end, one that was left behind is still right and timed."""
        timed = [one for one in self.entrants if one.times]
        able = [one for one in timed if one.status is None] or [one for one in timed if one.status is Status.DROPPED]
        return able[winner([one.timing for one in able])] if able else None

    def _verify(self) -> None:
        """Verify the best, and the next best where it is wrong."""
        best, status = None, None
        while best is None or best.status is not status:
            best = self._best()
            if best is None:
                return
            status = best.status
            self._guarded(best, self._verify_one)

    def _verify_one(self, one: Entrant) -> None:
        if one.trial is None:
            self._make_again(one)
        one.ready.verify()

    def _make_again(self, one: Entrant) -> None:
        one.trial = self.make(one.candidate)

    def _check(self, one: Entrant) -> None:
        one.trial = self.make(one.candidate)
        outputs = one.trial.outputs()
        if self.expected is None:
            self.expected, self.reference = outputs, one.candidate
            return
        why = self.agrees(self.expected, outputs)
        if why is not None:
            raise WrongOutputs(why)

    def _round(self, *, warm_up: bool = False) -> None:
        """Time everyone that is left once."""
        for one in self.left:
            if self._is_spent:
                raise _Spent
            self.samples += 1
            self._guarded(one, Entrant.warm_up if warm_up else Entrant.sample)
            if not one.is_in:
                self._report(one)

    def _drop_slow(self) -> None:
        left = self.left
        stay = set(survivors([one.timing for one in left])) if left else set()
        for place, one in enumerate(left):
            if place not in stay:
                self._out(one, Status.DROPPED, _TOO_SLOW)
                self._report(one)

    def _guarded(self, one: Entrant, step: Callable[[Entrant], None]) -> None:
        """Run one step of a candidate; an error in it removes only that candidate."""
        try:
            step(one)
        except Abandoned as error:
            cause = error.__cause__ or error
            self._out(one, Status.HUNG if isinstance(cause, DispatchTimeout) else Status.FAILED, str(error))
            raise
        except DispatchTimeout as error:
            self._out(one, Status.HUNG, str(error))
        except WrongOutputs as error:
            self._out(one, Status.WRONG, str(error))
        except Exception as error:  # noqa: BLE001 -- whatever a candidate does, the others are tried
            self._out(one, Status.FAILED, _said(error))

    def _out(self, one: Entrant, status: Status, detail: str) -> None:
        one.status, one.detail = status, detail
        self._close(one)

    def _close(self, one: Entrant) -> None:
        """Close the trial of one; what cannot even be closed has failed."""
        try:
            one.close()
        except Exception as error:  # noqa: BLE001 -- as above
            said = f"closing it failed: {_said(error)}"
            one.status, one.detail = Status.FAILED, f"{one.detail}; {said}" if one.detail else said

    def _report(self, one: Entrant) -> None:
        if self.on_progress is not None:
            tried = sum(each.trial is not None or each.status is not None for each in self.entrants)
            self.on_progress(Progress(tried, len(self.entrants), len(self.left), self.samples, self.seconds, one.outcome))


def _reasons(outcomes: Sequence[Outcome]) -> str:
    """Return why candidates are out, each reason once, with the first that it befell and how many more there are."""
    befallen: dict[str, list[Candidate]] = {}
    for one in outcomes:
        befallen.setdefault(one.detail.rstrip("."), []).append(one.candidate)
    shown = [f"{ones[0]}{f' and {len(ones) - 1} more' if ones[1:] else ''}: {why}" for why, ones in befallen.items()]
    return "; ".join(shown[:_SHOWN])


def _close_quietly(one: Entrant) -> None:
    """Close what an interrupted search leaves open: the interrupt is what is raised."""
    with suppress(Exception):
        one.close()


def _said(error: Exception) -> str:
    if isinstance(error, VyreError):
        return str(error)
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
