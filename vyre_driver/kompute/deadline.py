"""Deadlines of waits."""

from __future__ import annotations

import threading
import time
from numbers import Real
from typing import TYPE_CHECKING, Any

from vyre_driver.errors import DispatchTimeout, InvalidInput
from vyre_driver.vulkan.layer import _layer

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from vyre_driver.process._lock import CallLock

NS_PER_S = 1_000_000_000
_MAX_S = 2**32  # 136 years; what waits takes a uint64 number of ns


class Deadline:
    """The end of a wait of ``timeout_s`` seconds that begins now; None, and more than 136 years, have no end."""

    __slots__ = ("_at_ns", "_device_name", "_timeout_s")

    def __init__(self, timeout_s: object, device_name: str) -> None:
        """Begin; raises InvalidInput if ``timeout_s`` is neither None nor a number of at least 0."""
        self._timeout_s = timeout_s
        self._device_name = device_name
        self._at_ns: int | None = None
        if timeout_s is None:
            return
        is_number = isinstance(timeout_s, Real) and not isinstance(timeout_s, bool)
        seconds: Any = timeout_s
        if not is_number or not seconds >= 0:
            raise InvalidInput(
                f"timeout is {timeout_s!r}, which is not a number of seconds of at least 0",
                fix="give seconds, or None to wait for ever",
            )
        if seconds < _MAX_S:
            self._at_ns = time.monotonic_ns() + int(float(seconds) * NS_PER_S)

    def left_ns(self) -> int | None:
        """Return the ns that are left, None without an end."""
        return None if self._at_ns is None else max(0, self._at_ns - time.monotonic_ns())

    def holding(self, lock: threading.Lock | CallLock) -> AbstractContextManager[object]:
        """Take the lock for a block, if it comes free in time; raises as ``passed``."""
        if self._at_ns is None:
            return lock
        return _layer.Hold(lock, min((self.left_ns() or 0) / NS_PER_S, threading.TIMEOUT_MAX), self.passed)

    def passed(self) -> DispatchTimeout:
        """Return the error of work that did not end in time."""
        return DispatchTimeout(
            f"the work on {self._device_name!r} did not end in {self._timeout_s} s and is still running",
            fix="wait longer, or make the shader do less in one dispatch",
            timeout_s=self._timeout_s,
        )
