"""Locks for the length of a call, and the error of a thread that would wait for itself."""

from __future__ import annotations

from functools import partial

from vyre_driver.errors import DispatchFailed
from vyre_driver.process._lock import CallLock


def call_lock(what: str) -> CallLock:
    """Return a lock for calls of ``what``; the thread that holds it gets DispatchFailed 1005 where it asks for it again."""
    return CallLock(partial(refused, what, "called", "another call of it"))


def refused(what: str, done: str, within: str) -> DispatchFailed:
    """Return the error of a thread that would wait for itself: what was done in the middle of what."""
    return DispatchFailed(
        f"{what} was {done} in the middle of {within} on the same thread, by a signal handler, a finalizer (__del__) "
        "or a listener, and would have waited for itself",
        fix="make that call from another thread, or after the first one has returned",
        what=what,
    )
