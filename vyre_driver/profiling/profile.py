"""A profile: what drivers do within a block, for a trace, a summary and a report."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from vyre_driver.checks import is_whole
from vyre_driver.display.line import count, one_line
from vyre_driver.errors import DispatchFailed, ForkError, InvalidInput
from vyre_driver.process.whole_files import write_whole
from vyre_driver.profiling.bandwidth import known_bandwidth
from vyre_driver.profiling.recorder import Recorder
from vyre_driver.profiling.report import html_of
from vyre_driver.profiling.summary import text_of
from vyre_driver.profiling.trace_events import document_of, write_document

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from types import TracebackType

    from typing_extensions import Self

    from vyre_driver.profiling.recording import Recording
    from vyre_driver.profiling.trace_events import Document
    from vyre_driver.runtime.base import BaseDriver

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

    def save_html(
        self,
        path: str | os.PathLike[str],
        *,
        bandwidth: float | None = None,
        flops: Mapping[str, float] | None = None,
    ) -> None:
        """Write a report as one HTML file, which loads nothing and needs no JavaScript.

        Parameters
        ----------
        path
            The file.
        bandwidth
            As of ``summary``.
        flops
            Floating-point operations of one dispatch, by the name of the kernel: those have a place in the roofline.

        Raises
        ------
        DispatchFailed
            If the profile has not begun.
        OSError
            If the file cannot be written.
        """
        page = html_of(self.trace, self._bandwidth(bandwidth), flops or {})
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
