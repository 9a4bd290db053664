"""The thread that ends the futures of one device that somebody waits for by other means than their ``result``.

It lives while there are such futures and a moment longer, so that one await after the other does not start a thread each time.
"""

from __future__ import annotations

import itertools
import logging
import threading
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, NamedTuple

from vyre_driver.process.threads import start_all

if TYPE_CHECKING:
    from collections.abc import Callable

_LOG = logging.getLogger("vyre_driver.kompute.poller")
_LINGERS_S = 0.02
_PAUSE_S = 0.001  # before a future is asked again whose condition somebody holds
# Of one wait: one that began to be followed late may be older than what is waited for.
_SHORTEST_SLICE_NS = 500_000
_LONGEST_SLICE_NS = 8_000_000


class Followed(NamedTuple):
    """What the poller asks of work."""

    is_over: Callable[[int], bool]
    """Whether the work has ended, after waiting so many nanoseconds for it at most."""
    notify: Callable[[], bool]
    """Notify those who wait; False where somebody holds the condition, and it has to be tried again."""
    forget: Callable[[], None]
    """In a forked child: know that the end will never be seen there."""


class Poller:
    """Follows work until it ends. What it holds on to of a device is that work alone."""

    def __init__(self) -> None:
        """Follow nothing."""
        # No lock, which the thread that an interrupt or a collection of garbage breaks into might hold: each step is one
        # operation of a dict, a queue or a lock that nobody waits for.
        self._followed: dict[tuple[int, int], Followed] = {}
        self._numbers = itertools.count()
        self._wakes: SimpleQueue[None] = SimpleQueue()
        self._serving = threading.Lock()  # held by the thread

    def follow(self, number: int, work: Followed) -> None:
        """Notify those who wait for work when it has ended; ``number`` is its place in the order of submission.

        Raises
        ------
        RuntimeError
            If the system gives no thread; it may be tried again.
        """
        # A key of its own: two threads may follow the same work, and an interrupt takes back what one of them began.
        key = number, next(self._numbers)
        was_empty = not self._followed
        try:
            self._followed[key] = work
            if not self._serving.locked():
                start_all([threading.Thread(target=self._serve, name="vyre_driver futures", daemon=True)])
            elif was_empty:
                self._wakes.put(None)
        except BaseException:
            self._followed.pop(key, None)
            raise

    def abandon(self) -> None:
        """In a forked child, where there is no such thread: forget all, and start anew."""
        followed = list(self._followed.values())
        self._followed, self._wakes, self._serving = {}, SimpleQueue(), threading.Lock()
        for work in followed:
            work.forget()

    def _serve(self) -> None:
        """Serve until there is nothing to follow; where another thread serves already, do nothing."""
        serving = self._serving  # in a child forked by a callback it is another one
        while serving.acquire(blocking=False):
            try:
                self._notify_all()
            except Exception:  # noqa: BLE001 -- such as MemoryError: the others are notified all the same
                _LOG.exception("a future could not be completed")
            finally:
                serving.release()
            if not self._followed:  # a thread that began to follow something since saw this one, and started none
                return

    def _notify_all(self) -> None:
        slice_ns = _SHORTEST_SLICE_NS
        while self._followed or self._is_woken(_LINGERS_S):
            notified, is_refused = self._notify_ended(slice_ns)
            slice_ns = _SHORTEST_SLICE_NS if notified else min(2 * slice_ns, _LONGEST_SLICE_NS)
            if is_refused:
                self._is_woken(_PAUSE_S)

    def _notify_ended(self, slice_ns: int) -> tuple[int, bool]:
        """Notify of what has ended, up to the first that has not; returns of how much, and whether any has to be tried again.

        Work ends in the order of submission: the fence of a submission covers those before it (Vulkan, "Fences").
        """
        notified, is_refused = 0, False
        for key in sorted(list(self._followed)):  # noqa: C414 -- a copy in one step
            work = self._followed.get(key)
            if work is None:
                continue
            if not work.is_over(slice_ns):
                break
            if work.notify():
                self._followed.pop(key, None)
                notified += 1
            else:
                is_refused = True
        return notified, is_refused

    def _is_woken(self, within_s: float) -> bool:
        try:
            self._wakes.get(timeout=within_s)
        except Empty:
            return False
        return True
