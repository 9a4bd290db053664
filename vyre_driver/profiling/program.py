"""All drivers that a process opens, profiled from then on to the end of a program or of the process."""

from __future__ import annotations

import atexit
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from vyre_driver import settings
from vyre_driver.errors import InvalidSetting
from vyre_driver.profiling.profile import Profile
from vyre_driver.profiling.recorder import Recorder
from vyre_driver.runtime.base import OPENED

if TYPE_CHECKING:
    from vyre_driver.runtime.base import BaseDriver


class ProgramProfile(Profile):
    """A profile of every driver that this process opens from ``start`` to ``stop``, and of no fork's."""

    def __init__(self, events: int | None = None) -> None:
        """Record nothing yet; ``events`` as of ``Driver.profile``."""
        super().__init__((), events)
        self._lock = threading.Lock()

    @property
    def has_drivers(self) -> bool:
        """Whether any was opened."""
        return bool(self._recorders)

    def start(self) -> None:
        """Begin with the next driver that is opened."""
        super().start()
        OPENED.append(self._follow)

    def stop(self) -> None:
        """End with those that are open now."""
        if self._follow in OPENED:
            OPENED.remove(self._follow)
        super().stop()

    def _follow(self, driver: BaseDriver) -> None:
        if os.getpid() == self._pid:
            made = Recorder(driver, self._most)
            made.start()
            with self._lock:
                self._recorders.append(made)


_of_process: list[tuple[int, ProgramProfile]] = []


def trace_until_exit() -> None:
    """Have the drivers that are opened from now on traced into the file that VYRE_TRACE names, when the process ends.

    Raises
    ------
    InvalidSetting
        If the file cannot be written.
    """
    if any(pid == os.getpid() for pid, _ in _of_process):
        return
    path = settings.absolute_path(settings.TRACE)
    assert path is not None  # noqa: S101 -- the caller has looked
    named = Path(str(path).replace("{pid}", str(os.getpid())))
    if named.is_dir() or not os.access(named.parent, os.W_OK):
        where = "which is a folder" if named.is_dir() else "in a folder that is not there or cannot be written"
        raise InvalidSetting(
            f"{settings.TRACE.variable} is {str(path)!r}, {where}",
            fix=f"set {settings.TRACE.variable} to a file in a folder that is there and may be written to, or unset it",
            variable=settings.TRACE.variable,
            value=str(path),
        )
    made = ProgramProfile()
    made.start()
    _of_process.append((os.getpid(), made))
    atexit.register(_write_at_exit, made, named)


def _write_at_exit(profile: ProgramProfile, path: Path) -> None:
    if (os.getpid(), profile) not in _of_process:  # a fork
        return
    profile.stop()
    if profile.has_drivers:
        profile.save(path)
