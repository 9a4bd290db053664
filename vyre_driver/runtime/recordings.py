"""Several recordings of the same work, so that it can be handed over again while it is under way."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from vyre_driver.binding.arguments import check_switch
from vyre_driver.errors import LimitExceeded

if TYPE_CHECKING:
    from collections.abc import Callable

    from vyre_driver.kompute.submission import Submission

MOST_UNDER_WAY = 64


class Recordings:
    """A ring of recordings: each can be handed over once at a time, and a new one is made when all are under way."""

    __slots__ = ("_oldest", "_record", "_ring", "_what", "first")

    def __init__(self, record: Callable[[], Submission], what: str) -> None:
        """Record it once; ``what`` it is, for messages."""
        self._record = record
        self._what = what
        self.first = record()
        self._ring = [self.first]
        # The place of what was handed over the longest time ago. Only a hint: threads may change it at once.
        self._oldest = 0

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
        # Work ends in the order of submission: with the oldest under way all are, but where a run holds it, see the next one.
        handed_over = self._hand_over(2)
        if handed_over is None and len(self._ring) < MOST_UNDER_WAY:
            place = self._oldest
            self._ring.insert(place, self._record())
            handed_over = self._hand_over(1)
        if handed_over is None:
            handed_over = self._hand_over(len(self._ring)) or self._wait(block)
        return handed_over

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

    def _wait(self, block: bool | None) -> tuple[Submission, int]:  # noqa: FBT001 -- as submit's
        """Wait for the oldest and hand it over again, or refuse to."""
        if block is False or (block is None and _runs_an_event_loop()):
            raise LimitExceeded(
                f"{MOST_UNDER_WAY} submissions of {self._what} are under way, and this would be number {MOST_UNDER_WAY + 1}",
                fix="wait for one of their futures first, or call submit(block=True), which waits for the oldest",
                value=MOST_UNDER_WAY + 1,
                limit=MOST_UNDER_WAY,
            )
        one = self._ring[self._oldest % len(self._ring)]
        self._oldest += 1  # who waits beside this waits for the next one
        return one, one.submit()


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
