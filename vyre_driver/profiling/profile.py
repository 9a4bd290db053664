"""Profiles, for a trace, a summary and a report: of what drivers do within a block, and of all that a process opens."""

from __future__ import annotations

import atexit
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from vyre_driver import settings
from vyre_driver.checks import is_whole
from vyre_driver.display.line import count, one_line
from vyre_driver.errors import DeviceOutOfMemory, DispatchFailed, ForkError, InvalidInput, InvalidSetting, UnsupportedFeature
from vyre_driver.process.whole_files import write_whole
from vyre_driver.profiling.recorder import DeviceClock, Recorder
from vyre_driver.profiling.report import html_of
from vyre_driver.profiling.summary import text_of
from vyre_driver.profiling.trace_events import document_of, write_document
from vyre_driver.runtime.base import OPENED
from vyre_driver.vulkan.layer import _layer

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType

    from typing_extensions import Self

    from vyre_driver.profiling.recorder import Recording
    from vyre_driver.profiling.trace_events import Document
    from vyre_driver.runtime.base import BaseDriver

_MOST_BYTES = 1 << 28
_COPIES = 8
_NS_PER_S = 1e9
_known: dict[bytes, float] = {}  # by the device's uuid


def known_bandwidth(driver: BaseDriver) -> float | None:
    """Return what ``measure_bandwidth`` found on the device before, or finds now; None where it cannot."""
    uuid = driver.device.device_uuid
    if uuid not in _known:
        try:
            _known[uuid] = measure_bandwidth(driver)
        except (UnsupportedFeature, DeviceOutOfMemory):
            return None
    return _known[uuid]


def measure_bandwidth(driver: BaseDriver) -> float:
    """Return the bytes a second that copies on the device read and write together, by the device's clock, the best of eight.

    It takes two buffers of up to 256 MiB, as large as the device allows, a 32nd of its memory at most.

    Raises
    ------
    UnsupportedFeature
        If the device has no clock that can be read.
    DeviceOutOfMemory
        If the buffers do not fit.
    DispatchFailed
        If the driver is closed, or the copies fail.
    """
    device = driver.context.device
    if not device.is_timed:
        raise UnsupportedFeature(
            f"{driver.device.name!r} has no clock by which copies could be timed",
            fix="give bandwidth= in bytes a second",
            feature="timestamps",
        )
    limit = driver.device.limits.max_storage_buffer_range
    byte_len = max(min(_MOST_BYTES, driver.device.device_local_bytes // 32, limit) & ~0xFF, 256)
    source, target = (driver.zeros(byte_len, "u1") for _ in range(2))
    family = driver.device.compute_family
    kept = _layer.keep_intervals(device.layer, _MOST_BYTES)
    try:
        before = len(_layer.intervals(device.layer))
        for _ in range(_COPIES):
            source.copy_to(target)
        found = _layer.intervals(device.layer)[before:]
    finally:
        del kept
        source.close()
        target.close()
    clock = DeviceClock(0, 0, driver.device.limits.timestamp_period_ns, family.timestamp_valid_bits if family else 64, 0)
    shortest = min((clock.host_time_ns(one.last - one.first) for one in found), default=0)
    return 2 * byte_len * _NS_PER_S / max(shortest, 1)


MOST_EVENTS = 250_000
_MOST = 1 << 24


class Profile:
    """What drivers do from the beginning of a ``with`` block to its end: made by ``Driver.profile`` and ``DriverPool.profile``.

    A block may be entered once. Within it and after it, the trace, the summary and what is saved have what was seen by then.
    Profiles of one driver may overlap: each has its own block. It holds its drivers.
    """

    def __init__(self, drivers: Iterable[BaseDriver], events: int | None = None, *, device_clock: bool = True) -> None:
        """Record nothing yet."""
        most = MOST_EVENTS if events is None else events
        if not is_whole(most) or not 0 < most <= _MOST:
            raise InvalidInput(
                f"events is {events!r}, which is not a whole number from 1 to {_MOST}",
                fix=f"leave it out, which keeps {MOST_EVENTS}",
            )
        self._most = int(most)
        self._pid = os.getpid()
        self._recorders = [Recorder(driver, self._most, device_clock=device_clock) for driver in drivers]
        self._state = "not begun"

    def start(self) -> None:
        """Begin, as entering the block does.

        Raises
        ------
        DispatchFailed
            If it has begun before, or a driver is closed.
        """
        if self._state != "not begun":
            raise DispatchFailed("the profile has begun before", fix="make another one: driver.profile()")
        self._state = "going on"
        try:
            for one in self._recorders:
                one.start()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End, as leaving the block does: what happens from now on is not seen. It may be called again."""
        self._state = "ended"
        for one in self._recorders:
            one.stop()

    def _recordings(self) -> list[Recording]:
        """Return what was seen of each driver in each process; raises as ``trace``."""
        if os.getpid() != self._pid:
            raise ForkError(
                f"a profile of process {self._pid} is used in its fork {os.getpid()}",
                fix="profile a driver that was made in this process",
            )
        if self._state == "not begun":
            raise DispatchFailed("the profile has not begun", fix="enter its with block, or call start()")
        return [found for one in self._recorders for found in one.recordings()]

    @property
    def trace(self) -> Document:
        """What was seen, in the JSON trace event format, as plain data (docs/profiling.md).

        Raises
        ------
        DispatchFailed
            If the profile has not begun.
        ForkError
            In a fork of the process that it was made in.
        """
        return document_of(self._recordings())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the trace as JSON, for ui.perfetto.dev or chrome://tracing; gzipped where the name ends in ``.gz``.

        Raises
        ------
        DispatchFailed
            If the profile has not begun.
        OSError
            If the file cannot be written.
        """
        write_document(Path(path), self.trace)

    def summary(self, *, bandwidth: float | None = None) -> str:
        """Return where the time went, as text: kernels by device time, what the host did, and when the device was idle.

        Parameters
        ----------
        bandwidth
            Bytes a second that the device's memory moves, which the kernels' are compared with. None measures it, once for
            each device, by copies of up to 256 MiB, as large as a buffer may be, where the driver is open; 0 leaves it out.

        Raises
        ------
        DispatchFailed
            If the profile has not begun.
        """
        return text_of(self.trace, self._bandwidth(bandwidth))

    def save_html(self, path: str | os.PathLike[str], *, bandwidth: float | None = None) -> None:
        """Write a report as one HTML file, which loads nothing and needs no JavaScript.

        Parameters
        ----------
        path
            The file.
        bandwidth
            As of ``summary``.

        Raises
        ------
        DispatchFailed
            If the profile has not begun.
        OSError
            If the file cannot be written.
        """
        page = html_of(self.trace, self._bandwidth(bandwidth))
        write_whole(Path(path), page.encode("utf-8", "backslashreplace"))

    def _bandwidth(self, given: float | None) -> float | None:
        if given is not None:
            return given or None
        here = [one.driver for one in self._recorders if one.device is not None and not one.driver.is_closed]
        is_one = len({one.driver.device.device_uuid for one in self._recorders}) == 1
        return known_bandwidth(here[0]) if here and is_one else None

    def __enter__(self) -> Self:
        """Begin; raises as ``start``."""
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None) -> None:
        """End, whatever the block raised."""
        self.stop()

    def __repr__(self) -> str:
        """Return what it is of, and how far it is, on one line."""
        names = ", ".join(dict.fromkeys(one.driver.device.name for one in self._recorders))
        return one_line("Profile", f"of {names or 'no driver'}", self._state, count(len(self._recorders), "driver"))


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
