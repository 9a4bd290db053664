"""What records one driver: its timeline, and the intervals of its device."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from vyre_driver.errors import DispatchFailed, VyreError
from vyre_driver.profiling.clocks import clock_of, moment_of
from vyre_driver.profiling.recording import Recording, device_spans, host_spans, spans_of_calls, with_submissions
from vyre_driver.vulkan.layer import _layer

if TYPE_CHECKING:
    from vyre_driver.kompute.device import KomputeDevice
    from vyre_driver.profiling.recording import DeviceSpan, HostSpan
    from vyre_driver.runtime.base import BaseDriver
    from vyre_driver.vulkan.layer._layer import Moment


class Recorder:
    """One driver, recorded from ``start`` to ``stop``; it is not closed or forgotten before that."""

    def __init__(self, driver: BaseDriver, most: int, *, device_clock: bool = True) -> None:
        """Record nothing yet; ``most`` events of the host and spans of the device are kept, these by the ``device_clock``."""
        self.driver = driver
        device: Any = driver.context.device
        self.device: KomputeDevice | None = device if hasattr(type(device), "is_timed") else None
        """The device, where it is open in this process: that of an isolated driver is not."""
        self._most, self._has_device_clock = most, device_clock
        self._pid = os.getpid()
        self._moments: list[Moment] = []
        self._trips: list[tuple[int, int]] = []
        self._began_ns = self._unix_ns = self._ended_ns = 0
        self._keeping: object = None  # which goes with it, whatever interrupts what is below
        self._keeping_intervals: object = None
        self._child: Any = None
        self._recordings: list[Recording] | None = None

    def start(self) -> None:
        """Begin; raises DispatchFailed if the driver is closed."""
        if self.driver.is_closed:
            raise DispatchFailed("the driver to be profiled is closed", fix="make a new Driver")
        device = self.device
        self._keeping = self.driver.events.timeline.keep(self._most)
        try:
            if device is None:
                self._child = self.driver.child()  # type: ignore[attr-defined] # which isolated drivers have
                self._child.ask("a profile", "start_profile", self._most, self._has_device_clock)
            elif device.is_timed and self._has_device_clock:
                self._keeping_intervals = _layer.keep_intervals(device.layer, self._most)
                self._look_at_clocks(device)
            self._began_ns, self._unix_ns = time.monotonic_ns(), time.time_ns()
        except BaseException:
            self._release()
            raise

    def stop(self) -> None:
        """End. It may be called again, and in a fork, where nothing was seen."""
        if not self._began_ns or self._ended_ns:
            return
        self._ended_ns = time.monotonic_ns()
        try:
            if os.getpid() == self._pid:
                if self.device is not None and self._keeping_intervals is not None:
                    self._look_at_clocks(self.device)
                self._recordings = self._seen()
        finally:
            self._release()

    def recordings(self) -> list[Recording]:
        """Return what was seen up to the end, or to now; of an isolated driver in both processes, once it has ended."""
        return self._seen() if self._recordings is None else self._recordings

    def _release(self) -> None:
        self._keeping = self._keeping_intervals = None

    def _look_at_clocks(self, device: KomputeDevice) -> None:
        try:
            moment, trips = moment_of(device)
        except DispatchFailed:  # it is closed, or lost
            moment, trips = _layer.last_moment(device.layer), None
        if moment is not None:
            self._moments.append(moment)
        if trips is not None:
            self._trips.append(trips)

    def _seen(self) -> list[Recording]:
        timeline = self.driver.events.timeline
        until = self._ended_ns or time.monotonic_ns()
        spans = [
            one
            for one in host_spans(timeline.events(), timeline.names())
            if self._began_ns <= one.began_ns and one.ended_ns <= until
        ]
        missing = {"host events beyond the limit": timeline.dropped}
        work: list[DeviceSpan] = [] if self._child is not None else spans_of_calls(spans)
        clock = "the host's clock, from submission to end"
        if self.device is not None and self._moments:
            spans, work, clock = self._with_device(self.device, self.device.layer, spans, until)
            found = _layer.missing_intervals(self.device.layer)
            missing |= dict(zip(_MISSING, found, strict=True))
        own = Recording(
            pid=self._pid,
            number=self.driver.number,
            device=self.driver.device.name,
            began_ns=self._began_ns,
            ended_ns=until,
            unix_ns=self._unix_ns,
            spans=spans,
            work=work,
            threads=timeline.threads(),
            clock=clock,
            missing={name: number for name, number in missing.items() if number},
        )
        return [own, *self._of_child()]

    def _with_device(
        self, device: KomputeDevice, layer: _layer.LayerDevice, spans: list[HostSpan], until: int
    ) -> tuple[list[HostSpan], list[DeviceSpan], str]:
        family = device.physical.compute_family
        bits = 64 if family is None else family.timestamp_valid_bits
        clock = clock_of(self._moments, device.physical.limits.timestamp_period_ns, bits)
        assert clock is not None  # noqa: S101 -- there is a moment
        intervals = [
            one
            for one in _layer.intervals(layer)
            if self._began_ns <= one.submit_ns <= until and not any(a <= one.submit_ns <= b for a, b in self._trips)
        ]
        how = "round trips" if self._trips else "calibrated timestamps"
        about = f"the device's clock, placed by {how} to {clock.deviation_ns} ns"
        return with_submissions(intervals, spans), device_spans(intervals, clock, spans), about

    def _of_child(self) -> list[Recording]:
        """Return what was seen in the child of an isolated driver, which is asked at the end; nothing where it has died."""
        if self._child is None or not self._ended_ns:
            return []
        with suppress(VyreError):
            found: list[Recording] = self._child.ask("the profile", "end_profile")
            return found
        return []


_MISSING = (
    "device spans beyond the limit",
    "submissions with 256 others under way",
    "submissions that had not ended",
)
