"""Several recordings of the same work, so that it can be handed over again while it is under way."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from vyre_driver.binding.arguments import check_switch
from vyre_driver.errors import LimitExceeded
from vyre_driver.runtime._runs import Ring

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vyre_driver.kompute.submission import Submission

MOST_UNDER_WAY = 64


class Recordings(Ring):
    """A ring of recordings: each can be handed over once at a time, and a new one is made when all are under way.

    All have the same ``values`` recorded: the push constants of a kernel, or of each kernel of a batch.
    """

    __slots__ = ("_earlier", "_oldest", "_record", "_ring", "_what", "values")

    first: Submission

    def __init__(
        self,
        record: Callable[[Any], Submission],
        values: tuple[Any, ...],
        what: str,
        earlier: Sequence[Submission] = (),
    ) -> None:
        """Record it once; ``what`` it is, for messages. ``earlier`` are submissions with other values, the oldest first."""
        self._record = record
        self._what = what
        self.values = values
        self.first = record(values)
        self._ring = [self.first]
        # The place of what was handed over the longest time ago. Only a hint: threads may change it at once.
        self._oldest = 0
        # Held until they have ended, for letting go of work that is under way waits for its end.
        self._earlier = list(earlier)

    def renewed(self, values: tuple[Any, ...]) -> Recordings:
        """Return recordings of the same work with other values; what is under way has those of these, and counts there too."""
        ring, oldest = self._ring[:], self._oldest
        oldest %= len(ring)
        self._retire()
        made = Recordings(self._record, values, self._what, [*self._earlier, *ring[oldest:], *ring[:oldest]])
        made._retire()
        return made

    def submit(self, block: bool | None) -> tuple[Submission, int]:  # noqa: FBT001 -- as its callers have it
        """Hand the work to the device; returns the recording and its generation.

        Raises
        ------
        LimitExceeded
            If ``MOST_UNDER_WAY`` of them are under way, and this is not to ``block``: None blocks where no event loop runs.
        InvalidInput
            If ``block`` is not a bool or None.
        """
        if block is not None:
            check_switch("block", block)
        while True:
            if self._earlier:
                self._retire()
            handed_over = self._try_submit(MOST_UNDER_WAY - len(self._earlier))
            if handed_over is not None:
                return handed_over
            self._check_may_wait(block)
            earlier = self._earlier[:1]
            if not earlier:
                one = self._ring[self._oldest % len(self._ring)]
                self._oldest += 1  # a thread that waits beside this one waits for the next
                return one, one.submit()
            earlier[0].finish()

    def _try_submit(self, most: int) -> tuple[Submission, int] | None:
        """Hand over a recording, one of ``most``; None if all are under way."""
        if most <= 0:
            return None
        # Work ends in the order of submission: with the oldest under way all are, but where a run holds it, see the next one.
        handed_over = self._hand_over(2)
        if handed_over is None and len(self._ring) < most:
            place = self._oldest
            self._ring.insert(place, self._record(self.values))
            handed_over = self._hand_over(1)
        return handed_over or self._hand_over(len(self._ring))

    def _hand_over(self, looks: int) -> tuple[Submission, int] | None:
        """Hand over one of the next ``looks`` recordings that is not under way; None if all are."""
        ring, oldest = self._ring, self._oldest
        for place in range(oldest, oldest + looks):
            one = ring[place % len(ring)]
            generation = one.try_submit()
            if generation is not None:
                self._oldest = (place + 1) % len(ring)
                return one, generation
        return None

    def _retire(self) -> None:
        """Let go of those with other values that have ended, from the oldest on."""
        for one in self._earlier[:]:
            if not one.is_idle():
                return
            with suppress(ValueError):  # another thread may have been quicker
                self._earlier.remove(one)

    def _check_may_wait(self, block: bool | None) -> None:  # noqa: FBT001 -- as submit's
        if block is False or (block is None and _runs_an_event_loop()):
            raise LimitExceeded(
                f"{MOST_UNDER_WAY} submissions of {self._what} are under way, and this would be number {MOST_UNDER_WAY + 1}",
                fix="wait for one of their futures first, or call submit(block=True), which waits for the oldest",
                value=MOST_UNDER_WAY + 1,
                limit=MOST_UNDER_WAY,
            )


def _runs_an_event_loop() -> bool:
    """Whether an event loop of asyncio runs on this thread, which must not stand still."""
    running = getattr(sys.modules.get("asyncio"), "get_running_loop", None)
    if running is None:
        return False
    try:
        running()
    except RuntimeError:
        return False
    return True
