"""Who of several timed candidates is still in the race, and who has won it.

Times are noisy: they vary by some per cent, now and then one is far too long, never one far too short. So a candidate is judged
by the median of its times, and the noise by their median absolute deviation, which such outliers do not move. Of n times with
the standard deviation s the median's standard error is 1.25 s / sqrt(n), and s is 1.48 deviations where they are spread as
usual. A deviation of few times may be small by chance, so the typical one of all candidates counts where it is larger.

Those within 2 % of the fastest are as fast, and of these the first in the order of preference wins, so that two tunings agree
although their times do not: they differ only where a candidate is by chance just 2 % slower.

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
"""Where several are left, they are told apart no further when two standard errors of each are within this part."""

_SIGMA_OF_DEVIATION = 1.4826
_ERROR_OF_MEDIAN = 1.2533
_OUT = 3.0  # standard errors of each of two medians: one is surely slower; there are many candidates, and no second chance
_NOISE = 2.0  # or surely as fast, where an error costs little speed; less cannot be told from chance


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


def staying(timings: Sequence[Timing], *, halve: bool) -> list[int]:
    """Return who stays in the race, by their places in the order of preference; never nobody.

    Out is who is surely not as fast as the fastest, and who comes after one that surely is. With ``halve`` also the slower
    half, but for those within the noise of its upper end, and of being as fast as the fastest.
    """
    errors = standard_errors(timings)
    medians = [one.median_ns for one in timings]
    least, most = (
        [median * (1 + sign * _OUT * error) for median, error in zip(medians, errors, strict=True)] for sign in (-1, 1)
    )
    limit = min(most) * (1 + TIE)
    places = [place for place in range(_first_sure(medians, errors) + 1) if least[place] <= limit]
    if not halve:
        return places
    middle = sorted(range(len(medians)), key=medians.__getitem__)[(len(medians) - 1) // 2]
    nearly = min(medians) * (1 + TIE)
    return [place for place in places if least[place] <= most[middle] or medians[place] <= nearly]


def _first_sure(medians: Sequence[float], errors: Sequence[float]) -> int:
    """Return the place of the first that is surely as fast as the fastest, the last place if none is."""
    fastest = min(median * (1 - _NOISE * error) for median, error in zip(medians, errors, strict=True))
    for place, (median, error) in enumerate(zip(medians, errors, strict=True)):
        if median * (1 + _NOISE * error) <= fastest * (1 + TIE):
            return place
    return len(medians) - 1


def is_decided(timings: Sequence[Timing]) -> bool:
    """Whether more times would tell no more: the medians of those that are left are known well enough."""
    wanted = STABLE if len(timings) == 1 else PRECISE
    return all(_NOISE * error <= wanted for error in standard_errors(timings))


def winner(timings: Sequence[Timing]) -> int:
    """Return the place of the first that is as fast as the fastest, as far as the noise lets one tell: within 2 %, or it."""
    errors = standard_errors(timings)
    fastest = min(range(len(timings)), key=lambda place: timings[place].median_ns)
    for place, one in enumerate(timings):
        noise = _NOISE * math.hypot(errors[place], errors[fastest])
        if one.median_ns <= timings[fastest].median_ns * (1 + max(TIE, noise)):
            return place
    return fastest
