"""The host's time of a moment on the device's clock.

Source: Vulkan 1.3, ``timestampPeriod`` and ``timestampValidBits``; VK_EXT_calibrated_timestamps.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vyre_driver.vulkan.layer import _layer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vyre_driver.kompute.device import KomputeDevice
    from vyre_driver.vulkan.layer._layer import Moment

_LEAST_APART_NS = 10_000_000  # two moments from which a rate is known
_ROUND_TRIPS = 5
_ROUND_TRIP_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class DeviceClock:
    """How to get from ticks to CLOCK_MONOTONIC: one moment at which both are known, and the ns of a tick."""

    ticks: int
    host_ns: int
    tick_ns: float
    bits: int
    deviation_ns: int

    def host_time_ns(self, ticks: int) -> int:
        """Return the host's time of a moment, which may lie before the known one."""
        apart = (ticks - self.ticks) % (1 << self.bits)
        if apart >= 1 << (self.bits - 1):
            apart -= 1 << self.bits
        return self.host_ns + round(apart * self.tick_ns)


def clock_of(moments: Sequence[Moment], period_ns: float, bits: int) -> DeviceClock | None:
    """Return the clock that goes through the first and the last of the moments; None without one.

    The two clocks run apart by some ns in a ms, which the moments tell where they are far enough apart.
    """
    if not moments:
        return None
    first, last = moments[0], moments[-1]
    ticks = (last.ticks - first.ticks) % (1 << bits)
    is_far = last.host_ns - first.host_ns >= _LEAST_APART_NS and ticks > 0
    tick_ns = (last.host_ns - first.host_ns) / ticks if is_far else period_ns
    return DeviceClock(first.ticks, first.host_ns, tick_ns, bits, max(first.deviation_ns, last.deviation_ns))


def moment_of(device: KomputeDevice) -> tuple[Moment | None, tuple[int, int] | None]:
    """Return a moment at which both clocks are known, and the host's times between which work was submitted to find it.

    A device that cannot tell is asked by round trips: its clock is written between the host's times of submission and end. Its
    intervals are being kept.
    """
    layer = device.layer
    if not device.is_timed:
        return None, None
    known = _layer.read_moment(layer)
    if known is not None or not layer.is_alive:
        return known or _layer.last_moment(layer), None
    began = time.monotonic_ns()
    sent = [trip for trip in (_round_trip(device, layer) for _ in range(_ROUND_TRIPS)) if trip is not None]
    ended = time.monotonic_ns()
    written = {one.submit_ns: one for one in _layer.intervals(layer) if began <= one.submit_ns <= ended}
    found = [
        _layer.Moment(one.last, (since + until) // 2, (until - since) // 2)
        for since, until in sent
        for one in [next((written[at] for at in written if since <= at <= until), None)]
        if one is not None
    ]
    return min(found, key=lambda one: one.deviation_ns, default=None), (began, ended)


def _round_trip(device: KomputeDevice, layer: _layer.LayerDevice) -> tuple[int, int] | None:
    """Return the host's times around empty work; None if it failed or took a second."""
    with device.in_use:
        empty = _layer.Transfer(layer, ())
        began = time.monotonic_ns()
        if empty.submit() is not None or empty.wait(_ROUND_TRIP_NS):
            return None
        return began, time.monotonic_ns()
