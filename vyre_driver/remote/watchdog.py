"""A deadline for a whole operation on a store, kept by a thread that ends the connection when it has passed.

The time-outs of client libraries bound single reads: a server that sends a byte each tenth of a second keeps them waiting.
"""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from vyre_driver.process.threads import start_all

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_AGAIN_S = 0.02


class Watchdog:
    """Serves the one thread that asks a store. Its own thread starts with the first deadline, and sleeps between them."""

    def __init__(self) -> None:
        """Start no thread yet."""
        self._changed = threading.Condition()
        self._due: tuple[float, Callable[[], None]] | None = None
        self._looks_at: float | None = None  # when the thread looks next; None: when it is woken
        self._is_started = False
        self.is_overdue = False
        """Whether the latest operation was ended for being late."""

    @contextmanager
    def within(self, seconds: float, end: Callable[[], None]) -> Iterator[None]:
        """Call ``end`` on another thread if the block takes longer than so many seconds, and again until it has ended."""
        if not self._is_started:
            start_all([threading.Thread(target=self._watch, name="vyre_driver store deadlines", daemon=True)])
            self._is_started = True
        with self._changed:
            self.is_overdue = False
            self._due = time.monotonic() + seconds, end
            if self._looks_at is None or self._due[0] < self._looks_at:
                self._changed.notify()
        try:
            yield
        finally:
            with self._changed:
                self._due = None

    def _watch(self) -> None:
        with self._changed:
            while True:
                now = time.monotonic()
                if self._due is not None and self._due[0] <= now:
                    # Again and again: between two questions there is no connection to end, and the next one makes another.
                    end, self.is_overdue = self._due[1], True
                    self._due = now + _AGAIN_S, end
                    end()
                self._looks_at = None if self._due is None else self._due[0]
                self._changed.wait(None if self._looks_at is None else self._looks_at - now)
