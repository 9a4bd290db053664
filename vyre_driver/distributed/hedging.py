"""When a call that takes long is begun once more on another worker."""

from __future__ import annotations

from statistics import median

_LEAST_DONE = 10
_TIMES_MEDIAN = 3.0
_MOST_TWINS = 0.05
_LEAST_TWINS = 2  # a worker has two threads: when it is slow, one call waits for the device behind the other


class Hedging:
    """Which of the calls under way are late. Times are in seconds, by any clock that does not go back.

    Once 10 calls have ended, and they are half of those begun or more, a call that takes more than 3 times their median is
    late. One in twenty of the calls begun may be hedged, and two in all cases.

    Source: the rule of backup tasks that Cubed uses for its array tasks, with a bound on how many there are.
    """

    def __init__(self) -> None:
        """Begin without calls."""
        self.begun = self.hedged = 0
        self._taken: list[float] = []

    def ended(self, seconds: float) -> None:
        """Learn from a call that has ended."""
        self._taken.append(seconds)

    def is_late(self, seconds: float) -> bool:
        """Return whether a call that has been under way for so long should be begun once more."""
        done = len(self._taken)
        if done < _LEAST_DONE or done * 2 < self.begun or self.hedged >= max(_LEAST_TWINS, int(self.begun * _MOST_TWINS)):
            return False
        return seconds > _TIMES_MEDIAN * median(self._taken)
