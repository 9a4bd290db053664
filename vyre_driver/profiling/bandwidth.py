"""Bytes a second that a device's memory moves: measured by a copy from one buffer to another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_driver.errors import DeviceOutOfMemory, UnsupportedFeature
from vyre_driver.profiling.clocks import clock_of
from vyre_driver.vulkan.layer import _layer

if TYPE_CHECKING:
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
    clock = clock_of(
        [_layer.Moment(0, 0, 0)], driver.device.limits.timestamp_period_ns, family.timestamp_valid_bits if family else 64
    )
    assert clock is not None  # noqa: S101 -- there is a moment
    shortest = min((clock.host_time_ns(one.last - one.first) for one in found), default=0)
    return 2 * byte_len * _NS_PER_S / max(shortest, 1)
