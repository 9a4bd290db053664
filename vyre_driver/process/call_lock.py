"""Locks for the length of a call, and the error of a thread that would wait for itself."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import TYPE_CHECKING

from vyre_driver.errors import DispatchFailed
from vyre_driver.process._lock import CallLock

if TYPE_CHECKING:
    from collections.abc import Callable


def call_lock(what: str) -> CallLock:
    """Return a lock for calls of ``what``; the thread that holds it gets DispatchFailed 1005 where it asks for it again."""
    return CallLock(_refusal(what))


@lru_cache(maxsize=16)
def _refusal(what: str) -> Callable[[], DispatchFailed]:
    """Return what makes the error; the same few are asked for again and again."""
    return partial(refused, what, "called", "another call of it")


def refused(what: str, done: str, within: str) -> DispatchFailed:
    """Return the error of a thread that would wait for itself: what was done in the middle of what."""
    return DispatchFailed(
        f"{what} was {done} in the middle of {within} on the same thread, by a signal handler, a finalizer (__del__) "
        "or a listener, and would have waited for itself",
        fix="make that call from another thread, or after the first one has returned",
        what=what,
    )
