"""The first submission of a device, which is a part of opening it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_driver.kompute.results import VK_TIMEOUT
from vyre_driver.vulkan.layer import _layer

if TYPE_CHECKING:
    from vyre_driver.kompute.device import KomputeDevice

WAIT_NS = 10_000_000


def submit_first(device: KomputeDevice) -> list[_layer.Transfer]:
    """Submit nothing, so that what a device does once for its first submission is a part of opening it.

    An H200 spends 1.2 ms on that, by which a server's first call would be late. Others may keep the device busy: the wait
    takes 10 ms at most, and returned is what is still under way, for ``end_first``. The device is closed where it fails.

    Raises
    ------
    DispatchFailed
        If it fails (DeviceLost, DeviceOutOfMemory).
    """
    try:
        first = _layer.Transfer(device.layer, ())
        device.raise_failure(first.submit())
        device.check_result(first.wait(WAIT_NS))
    except BaseException:
        device.close()
        raise
    return [first] if first.is_pending else []


def end_first(under_way: list[_layer.Transfer]) -> None:
    """Let go of the first submission if it has ended, which counts as pending until then; never waits."""
    try:
        first = under_way.pop()
    except IndexError:  # each has one thread that looks
        return
    if first.wait(0) == VK_TIMEOUT:
        under_way.append(first)
