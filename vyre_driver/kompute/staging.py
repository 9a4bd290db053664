"""Pinned memory through which long arrays travel that are not pinned themselves, in pieces.

Several threads of the host copy one piece while the bus moves those before it. All buffers of a device share the few areas.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import numpy as np

from vyre_driver.kompute.pinned import part_of_pinned, pinned_array
from vyre_driver.kompute.results import VK_TIMEOUT
from vyre_driver.process.call_lock import call_lock
from vyre_driver.vulkan.layer import _layer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from vyre_driver.kompute.deadline import Deadline
    from vyre_driver.kompute.device import KomputeDevice

_AREAS = 4
_AREA_BYTES = 1 << 25  # 0.65 ms of the bus, beside which a submission and the start of 16 threads are little


class Area:
    """Pinned bytes, and for who uses it the copy of the device's that last did."""

    __slots__ = ("bytes", "copy", "handle", "offset", "pages")

    def __init__(self, device: KomputeDevice, byte_len: int) -> None:
        """Pin the memory; raises as ``pinned_array``."""
        self.bytes: NDArray[np.uint8] = pinned_array(device, byte_len, np.uint8)
        part = part_of_pinned(device, self.bytes)
        assert part is not None  # noqa: S101 -- it was pinned for this device
        self.handle, self.offset, self.pages = part
        self.copy: _layer.Transfer | None = None


class Staging:
    """The areas of one device, used one after the other; one copy at a time goes through them.

    After a time-out or an interrupt the device may still be at an area: who needs it next waits for that.
    """

    def __init__(self, device: KomputeDevice) -> None:
        """Have no areas until there is something to copy."""
        self._device = device
        self._areas: deque[Area] = deque()  # the one that was used longest ago first
        self._lock = call_lock("a long copy")

    def write(
        self, place: tuple[int, int], raw: NDArray[np.uint8], deadline: Deadline, keep: object, *, wait: bool = False
    ) -> None:
        """Copy bytes to a VkBuffer, from a byte of it on, after all that was submitted before.

        The array may be changed afterwards. What is submitted later sees the bytes, and with ``wait`` they have arrived.
        ``keep`` is held until then. Raises as ``Submission.wait``.
        """
        storage, offset = place
        with deadline.holding(self._lock):
            for first, last in _pieces(raw.nbytes):
                area = self._take(deadline)
                _layer.copy_bytes(area.bytes[: last - first], raw[first:last])
                self._submit(area, (area.handle, area.offset, storage, offset + first, last - first), keep)
            while wait and (pending := [one for one in self._areas if one.copy is not None]):
                self._finish(pending[0], deadline)

    def read(self, place: tuple[int, int], out: NDArray[np.uint8], deadline: Deadline, keep: object) -> None:
        """Copy bytes of a VkBuffer, from a byte of it on, into an array, after all that was submitted before; as ``write``."""
        storage, offset = place
        with deadline.holding(self._lock):
            arriving: deque[tuple[Area, NDArray[np.uint8]]] = deque()
            for first, last in _pieces(out.nbytes):
                if len(arriving) == _AREAS:
                    self._collect(*arriving.popleft(), deadline)
                area = self._take(deadline)
                self._submit(area, (storage, offset + first, area.handle, area.offset, last - first), keep)
                arriving.append((area, out[first:last]))
            while arriving:
                self._collect(*arriving.popleft(), deadline)

    def close(self) -> None:
        """Let the areas go; the device has ended its work."""
        self._areas.clear()

    def _take(self, deadline: Deadline) -> Area:
        """Return the area that was used longest ago, or a new one, when the device is done with it."""
        if len(self._areas) < _AREAS and not (self._areas and self._areas[0].copy is None):
            self._areas.appendleft(Area(self._device, _AREA_BYTES))
        area = self._areas[0]
        self._finish(area, deadline)
        self._areas.rotate(-1)
        return area

    def _submit(self, area: Area, region: tuple[int, int, int, int, int], keep: object) -> None:
        device = self._device
        assert device.layer is not None  # noqa: S101 -- without it nothing is pinned
        area.copy = _layer.Transfer(device.layer, [region], (device.manager, keep, area.pages))
        device.raise_failure(area.copy.submit())

    def _collect(self, area: Area, target: NDArray[np.uint8], deadline: Deadline) -> None:
        self._finish(area, deadline)
        _layer.copy_bytes(target, area.bytes[: target.nbytes])

    def _finish(self, area: Area, deadline: Deadline) -> None:
        """Wait for the copy that last used an area; raises as ``Submission.wait``."""
        if area.copy is None:
            return
        result = area.copy.wait(deadline.left_ns())
        if result == VK_TIMEOUT:
            raise deadline.passed()
        self._device.check_result(result)
        area.copy = None


def _pieces(byte_len: int) -> Iterator[tuple[int, int]]:
    for first in range(0, byte_len, _AREA_BYTES):
        yield first, min(first + _AREA_BYTES, byte_len)
