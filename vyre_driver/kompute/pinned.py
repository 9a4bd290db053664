"""Arrays of the host that a device copies from and to by itself: pinned memory.

The pages are this process's own, imported into the device (VK_EXT_external_memory_host), so that an array outlives the driver
that it was made for, and is an array like any other then. What is pinned is found again by the arrays' ``base``, which numpy
keeps for every view.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from vyre_driver.errors import DeviceOutOfMemory, UnsupportedFeature
from vyre_driver.kompute.elements import checked_dtype, checked_shape
from vyre_driver.kompute.results import VK_ERROR_DEVICE_LOST
from vyre_driver.vulkan.layer import _layer

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from numpy.typing import DTypeLike, NDArray

    from vyre_driver.kompute.device import KomputeDevice


class PinnedMemory:
    """Pinned pages: the base of the arrays that lie in them."""

    __slots__ = ("__array_interface__", "__weakref__", "device", "kept", "pages")

    def __init__(self, device: KomputeDevice, pages: _layer.PinnedPages, byte_len: int) -> None:
        """Hold the pages; arrays may have ``byte_len`` bytes of them."""
        self.device = device
        self.pages = pages
        self.kept: object = None
        """What is to live as long as this."""
        self.__array_interface__ = {"shape": (byte_len,), "typestr": "|u1", "data": (pages.address, False), "version": 3}
        device.keep_holder(pages)


class PinnedPart(NamedTuple):
    """Where an array lies in pinned memory: the VkBuffer, bytes from its beginning, and what has to stay meanwhile."""

    handle: int
    offset: int
    pages: _layer.PinnedPages


def pinned_array(device: KomputeDevice, shape: int | Iterable[int], dtype: DTypeLike | None) -> NDArray[Any]:
    """Return an array of zeros in pinned memory; raises as ``Driver.pinned``."""
    axes, kind = checked_shape(shape), checked_dtype(dtype)
    byte_len = math.prod(axes) * kind.itemsize
    with device.in_use:
        if not can_pin(device):
            raise UnsupportedFeature(
                f"{device.physical.name!r} cannot copy from this process's memory by itself: that takes "
                "VK_EXT_external_memory_host",
                fix="use numpy.empty(), whose arrays are copied by the host",
                feature="VK_EXT_external_memory_host",
            )
        if not byte_len:
            return np.empty(axes, kind)
        pages = pinned_pages(device, byte_len)
    return np.asarray(PinnedMemory(device, pages, byte_len)).view(kind).reshape(axes)


def can_pin(device: KomputeDevice) -> bool:
    """Return whether the device can copy from and to this process's own pages."""
    return _layer.can_pin(device.layer)


def pinned_pages(device: KomputeDevice, byte_len: int) -> _layer.PinnedPages:
    """Return zeroed pages of the host that the device has imported; it must be one that ``can_pin``.

    Raises
    ------
    DeviceOutOfMemory
        If the host or this process has not so much left, or the device does not import it.
    DeviceLost
        If the device is lost.
    """
    check_available(byte_len)
    try:
        pages = _layer.pin_pages(device.layer, byte_len)
    except MemoryError:
        raise DeviceOutOfMemory(
            f"this process gets no {byte_len} bytes of memory to pin",
            fix="raise the limit of its address space (ulimit -v), or pin less at once and use it again for the next piece",
            requested_bytes=byte_len,
        ) from None
    if not isinstance(pages, _layer.Failure):
        return pages
    if pages.result == VK_ERROR_DEVICE_LOST:
        raise device.error_of(pages)
    raise DeviceOutOfMemory(
        f"{device.physical.name!r} does not import {byte_len} bytes of the host's memory (VkResult {pages.result})",
        fix="let go of pinned arrays, or pin less at once and use it again for the next piece",
        requested_bytes=byte_len,
    )


def part_of_pinned(device: KomputeDevice, array: NDArray[Any]) -> PinnedPart | None:
    """Return where a contiguous array lies in memory that is pinned for the device; None if it does not."""
    base: object = array.base
    while isinstance(base, np.ndarray):
        base = base.base
    if type(base) is not PinnedMemory or base.device is not device or not array.nbytes:
        return None
    return PinnedPart(base.pages.handle, int(array.ctypes.data) - base.pages.address, base.pages)


def check_available(byte_len: int) -> None:
    """Check that the host has so much memory left: pages that are touched beyond it end a process, which Linux picks.

    Raises DeviceOutOfMemory.
    """
    available = available_bytes()
    if available is not None and byte_len > available:
        raise DeviceOutOfMemory(
            f"pinned memory of {byte_len} bytes is more than the host can give, which has {available} bytes left",
            fix="pin less at once, and use it again for the next piece",
            requested_bytes=byte_len,
            available_bytes=available,
        )


def available_bytes(path: Path | str = "/proc/meminfo") -> int | None:
    """Return the bytes that the host can give without swapping (``MemAvailable``); None where it does not say so."""
    try:
        with open(path, encoding="ascii", errors="replace") as lines:  # noqa: PTH123 -- of a path as it comes
            for line in lines:
                name, _, amount = line.partition(":")
                if name == "MemAvailable":
                    return int(amount.split()[0]) * 1024
    except (OSError, ValueError, IndexError):
        return None
    return None
