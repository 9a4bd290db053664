"""What waits to be sent to a store: entries and tuning records that were made here, and the names of entries that were used."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from vyre_driver.remote.store import Store

MOST_ENTRIES, MOST_BYTES = 32, 64 << 20
MOST_NAMES = 256
SPREAD_S = 2.0  # machines that have compiled the same at the same moment come one after the other
REST_S = 300.0  # after the store was full


@dataclass(frozen=True, slots=True)
class Upload:
    """``send`` gives a store what waits and returns whether it had not been there; ``note`` counts what becomes of it."""

    send: Callable[[Store], bool] = field(compare=False)
    byte_len: int
    note: Callable[[str], None] = field(compare=False)
    due: float = 0.0


class Uploads:
    """At most 32 values or 64 MiB, and 256 names. Added to by any thread, taken from by one; each step is one of a list."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, spread: Callable[[], float] = random.random) -> None:
        """Have nothing to send."""
        self._clock, self._spread = clock, spread
        self._waiting: list[Upload] = []
        self._names: dict[str, None] = {}
        self._rests_until = 0.0
        self.is_hurried = False
        """Whether what is not due is sent all the same: the process ends."""

    def add(self, send: Callable[[Store], bool], byte_len: int, note: Callable[[str], None], *, at_once: bool = False) -> bool:
        """Have so many bytes sent within the next 2 s, or ``at_once``; returns whether there was room."""
        waiting = self._waiting
        if len(waiting) >= MOST_ENTRIES or sum(one.byte_len for one in list(waiting)) + byte_len > MOST_BYTES:
            return False
        waiting.append(Upload(send, byte_len, note, self._clock() + (0.0 if at_once else SPREAD_S * self._spread())))
        return True

    def touch(self, name: str) -> None:
        """Have a name's use told with the next 256; more are forgotten."""
        if len(self._names) < MOST_NAMES:
            self._names[name] = None

    def next_due(self) -> float | None:
        """Return in how many seconds something is due; None when nothing waits."""
        waiting = list(self._waiting)
        if not waiting:
            return None
        now = self._clock()
        soonest = min(one.due for one in waiting)
        return 0.0 if self.is_hurried else max(0.0, max(soonest, self._rests_until) - now)

    def take(self) -> Upload | None:
        """Return a value that is due, which no longer waits."""
        if self.next_due() != 0.0:
            return None
        soonest = min(list(self._waiting), key=lambda one: one.due)
        self._waiting.remove(soonest)
        return soonest

    def put_back(self, upload: Upload, after_s: float) -> None:
        """Have a value wait on that could not be sent now."""
        self._waiting.append(replace(upload, due=self._clock() + after_s))

    def rest(self) -> None:
        """Send nothing for five minutes: the store is full."""
        self._rests_until = self._clock() + REST_S

    def take_names(self) -> list[str]:
        """Return the names that were used, which are forgotten."""
        names, self._names = self._names, {}
        return list(names)
