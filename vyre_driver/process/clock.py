"""The clock that waits go by: what it says now, sleeping by it, and conditions that are waited for by it.

Code that decides when to ask a store again, and how long to wait for it, gets one. So what a thousand machines would do in an
hour is found out by the same code within a minute, by a clock that goes on when all of them wait (benchmarks/fleet_clock.py).
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol

from vyre_driver.process._lock import Condition

if TYPE_CHECKING:
    from types import TracebackType


class Waited(Protocol):
    """A condition: a context manager within which it is waited for, and those who wait are woken."""

    def __enter__(self) -> object:
        """Take its lock."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None, /) -> object:
        """Give its lock back."""

    def wait(self, timeout: float) -> object:
        """Return when it was notified, or after so many seconds."""

    def notify_all(self) -> None:
        """Wake all who wait."""


class Clock:
    """The system's."""

    def now(self) -> float:
        """Return seconds that never go back."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Return after so many seconds."""
        time.sleep(seconds)

    def condition(self) -> Waited:
        """Return a condition, which Ctrl-C does not leave taken."""
        return Condition()


SYSTEM = Clock()
