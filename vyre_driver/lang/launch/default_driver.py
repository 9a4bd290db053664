"""The driver of calls that say none: one a process, opened when it is needed first."""

from __future__ import annotations

import atexit
import os
import threading
from typing import TYPE_CHECKING

from vyre_driver.driver import Driver

if TYPE_CHECKING:
    from vyre_driver.kompute.device import KomputeDevice


class DefaultDriver:
    """Holds the driver of this process; ``device`` is its device, None before the first call and in a forked child."""

    def __init__(self) -> None:
        """Open nothing."""
        self.device: KomputeDevice | None = None
        self._driver: Driver | None = None
        self._lock = threading.Lock()

    def get(self) -> Driver:
        """Return it, opened now if it is not, or was closed; raises as ``Driver`` does."""
        with self._lock:
            found = self._driver
            if found is None or found.is_closed:
                found = self._driver = Driver()
                self.device = found.context.device
            return found

    def close(self) -> None:
        """Close it if it is open; the next call opens another."""
        with self._lock:
            found, self._driver, self.device = self._driver, None, None
        if found is not None:
            found.close()

    def forget(self) -> None:
        """Have none, without closing the one of the process that this one was forked from."""
        self._driver = self.device = None
        self._lock = threading.Lock()


DEFAULT = DefaultDriver()
atexit.register(DEFAULT.close)
os.register_at_fork(after_in_child=DEFAULT.forget)


def default_driver() -> Driver:
    """Return the driver that kernels run on where a call says none: opened as VYRE_DEVICE says, and closed at the end.

    Raises
    ------
    VyreError
        As ``Driver()``.
    """
    return DEFAULT.get()
