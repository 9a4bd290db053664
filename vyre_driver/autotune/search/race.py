"""Decide which timed candidates stay in the race, and which has won.

Times are noisy: they vary by some per cent, now and then one is far too long, never one far too short. So a candidate is judged
by the median of its times, and the noise by their median absolute deviation, which such outliers do not move. Of n times with
the standard deviation s the median's standard error is 1.25 s / sqrt(n), and s is 1.48 deviations where they are spread as
usual. A deviation of few times may be small by chance, so the typical one of all candidates counts where it is larger.

Those within 2 % of the fastest are as fast, and of these the first in the order of preference wins, so that two tunings agree
although their times do not: they differ only where a candidate is by chance just 2 % slower. Between two tunings medians move,
by 3.5 % on an H200, whatever their noise: a candidate within 5.5 % may win another time, and is reported as a tie.

Source: P. J. Rousseeuw and C. Croux, "Alternatives to the Median Absolute Deviation" (1993), for the factors.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

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
