"""Pinned memory for the blocks that a worker makes or reads, used again when nothing refers to a block any more.

New pages are dear: the kernel zeroes each when it is touched first, and a device has to import them.
"""

from __future__ import annotations

import math
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_driver.errors import DeviceOutOfMemory
from vyre_driver.kompute.elements import checked_shape
from vyre_driver.kompute.pinned import PinnedMemory, can_pin, pinned_pages

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import DTypeLike, NDArray

    from vyre_driver.kompute.device import KomputeDevice
    from vyre_driver.vulkan.layer._layer import PinnedPages

_MOST_FREE = 4  # a worker has two threads: each uses a block while another waits
_LEAST_BYTES = 1 << 20


class _Lent(weakref.ref[PinnedMemory]):
    """Pages that an array lies in; the memory itself holds this, whose callback puts it among the free ones at its end."""

    __slots__ = ("byte_len", "pages")

    byte_len: int
    pages: PinnedPages


class PinnedBlocks:
    """Pinned pages of one device that no array lies in: four at most, the one that was freed last is taken first.

    May be used from several threads; what collects an array, at any time, does one atomic operation.
    """

    def __init__(self, device: KomputeDevice) -> None:
        """Begin without pages."""
        self._device = device
        self._free: deque[_Lent] = deque(maxlen=_MOST_FREE)

    def empty(self, shape: int | Iterable[int], dtype: DTypeLike) -> NDArray[Any]:
        """Return an array whose contents are not defined; it is not pinned if it is short, or nothing more can be pinned."""
        axes, kind = checked_shape(shape), np.dtype(dtype)
        byte_len = math.prod(axes) * kind.itemsize
        pages = None if kind.hasobject or kind.subdtype is not None else self._pages(byte_len)
        if pages is None:
            return np.empty(axes, kind)
        memory = PinnedMemory(self._device, pages, byte_len)
        memory.kept = lent = _Lent(memory, self._free.append)
        lent.byte_len, lent.pages = byte_len, pages
        return np.asarray(memory).view(kind).reshape(axes)

    def _pages(self, byte_len: int) -> PinnedPages | None:
        if byte_len < _LEAST_BYTES or not can_pin(self._device):
            return None
        found = self._taken(byte_len)
        if found is not None:
            return found
        try:
            with self._device.in_use:
                return pinned_pages(self._device, byte_len)
        except DeviceOutOfMemory:
            self._free.clear()
            return None

    def _taken(self, byte_len: int) -> PinnedPages | None:
        """Return free pages of just this length; those of other lengths stay."""
        for _ in range(_MOST_FREE):
            try:
                free = self._free.pop()
            except IndexError:
                return None
            if free.byte_len == byte_len:
                return free.pages
            self._free.appendleft(free)
        return None
