"""Buffers of a device's memory: raw bytes, padded to whole 32-bit words.

On a device with memory of its own, arrays go there and back through staging memory of the host's, of which each transfer
takes a piece for as long as the device is at it; where device and host share memory they are copied in place. Where the host
can write all of the device's memory (resizable BAR) the layer maps it: uploads go straight there, and staging is only for
reading back, which is slow over the bus. The device copies pinned arrays itself. What is long and not pinned goes in pieces
through the few areas that all buffers share (:mod:`vyre_driver.kompute.movers`).
"""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_driver.errors import LimitExceeded
from vyre_driver.kompute.pinned import part_of_pinned
from vyre_driver.kompute.submission import wait_for_earlier_work
from vyre_driver.kompute.transfers import Transfers
from vyre_driver.vulkan.layer import _layer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from vyre_driver.kompute._cuda import CudaMemory
    from vyre_driver.kompute.cuda import Gpu
    from vyre_driver.kompute.deadline import Deadline
    from vyre_driver.kompute.device import KomputeDevice
    from vyre_driver.kompute.pinned import PinnedPart
    from vyre_driver.kompute.transfers import Region
    from vyre_driver.vulkan.layer._layer import Allocation, Move

_WORD_BYTES = 4
_BYTES_IN_BUFFERS, _HALVES_IN_BUFFERS = "storageBuffer8BitAccess", "storageBuffer16BitAccess"
_HALF_BYTES = 2
LONGEST_PATTERN = 16
_STAGED_BYTES = 1 << 24  # at once
_PIECE_BYTES = 1 << 16  # of a fill that the device cannot do by words: so much comes from the host, and is doubled
LEAST_PINNED_WRITE = 1 << 19  # from here on the device's own copy is quicker than the host's to mapped memory: 35 us on an H200
LONG_BYTES = 1 << 26  # from here on by a mover: through mapped memory threads write 32 GB/s on an H200, and the bus moves 51
_READ_OVER_BUS_BYTES = 256  # take 2 to 4 us on an H200, where a copy to the staging buffer takes 5 us for any few bytes


class TensorBuffer:
    """One storage buffer of ``byte_len`` bytes.

    Mapped memory is written and read here by copying, under ``KomputeDevice.in_use``, and no view of it leaves.
    ``is_mapped``: ``write`` reaches what the device sees, so no work that uses the buffer may run meanwhile; otherwise a copy
    on the device must follow it. ``is_read_in_place``: ``read`` sees what the device sees, once the host has been shown it;
    otherwise such a copy must come before. ``is_shared``: host and device share the memory, so that both hold.
    ``is_staged``: arrays go through staging memory, or in place; ``write`` and ``read`` are for such a buffer, and have an area
    of their own, which they keep. ``allocation`` is the memory, and ``handle`` that of the buffer, for regions of the layer's.
    ``seen`` are the bytes that a shader may see.

    ``read_range``, ``write_range``, ``copy_range`` and ``fill_range`` move a part, after all work submitted before, and wait
    until the deadline for its end; they raise as ``Submission.wait``. After a time-out or an interrupt the device may still be
    at it: the next of them waits for that first, ``read`` and ``write`` do not. The caller checks the bounds, and holds
    ``KomputeDevice.in_use`` and a lock of this buffer's.
    """

    # What is asked of few buffers is in their dictionary, which the others do without: it takes longer than the memory.
    __slots__ = ("__dict__", "__weakref__", "_device", "_element_bytes", "allocation", "byte_len", "cuda")
    cuda: CudaMemory | None

    def __init__(
        self, device: KomputeDevice, byte_len: int, element_bytes: int, gpu: Gpu | None = None, name: str = ""
    ) -> None:
        """Allocate the memory; the caller has checked the size. ``element_bytes`` is how long an element of the buffer is.

        ``name`` is for the facts of the device's memory. With ``gpu`` CUDA sees the memory too: it has imported it then, as
        ``cuda``. What the buffer holds is not defined.

        Raises DeviceOutOfMemory if the device has not so much left, and what ``Gpu.import_memory`` raises.
        """
        self.byte_len = byte_len
        self._device = device
        self._element_bytes = element_bytes
        self.cuda = None
        whole = byte_len + -byte_len % _WORD_BYTES
        if gpu is None:
            self.allocation = device.memory.take(whole, name)
        else:
            self.allocation, exported = device.memory.export(whole, name)
            try:
                self.cuda = gpu.import_memory(exported, self.allocation)
            except BaseException:
                del self.allocation  # the error's traceback would keep it
                raise

    @property
    def handle(self) -> int:
        """The VkBuffer, for regions of the layer's."""
        return self.allocation.handle

    @functools.cached_property
    def seen(self) -> int:
        """A device without elements of 8 or 16 bits in buffers reads and writes the last ones as part of their word."""
        feature = _HALVES_IN_BUFFERS if self._element_bytes == _HALF_BYTES else _BYTES_IN_BUFFERS
        return self.byte_len if feature in self._device.features else padded(self.byte_len)

    @property
    def is_shared(self) -> bool:
        """Whether host and device share the memory."""
        return self._device.shares_memory

    @functools.cached_property
    def is_staged(self) -> bool:
        """Whether arrays go through staging memory, or in place, and not by movers."""
        device = self._device
        return device.shares_memory or self.byte_len < LONG_BYTES or not _layer.can_pin(device.layer)

    @functools.cached_property
    def is_mapped(self) -> bool:
        """Whether the host writes what the device sees."""
        return self._device.shares_memory or (self.is_staged and self.allocation.is_mapped)

    @property
    def is_read_in_place(self) -> bool:
        """Whether the host reads what the device has written."""
        return self._device.shares_memory or (self.is_mapped and self.byte_len <= _READ_OVER_BUS_BYTES)

    @functools.cached_property
    def _transfers(self) -> Transfers:
        """What the device copies for it: most buffers come and go without."""
        return Transfers(self._device)

    def write(self, array: NDArray[Any] | None) -> None:
        """Copy a contiguous array of ``byte_len`` bytes in; None writes zeros."""
        whole, part = self._written
        if array is None:
            whole[:] = 0
        else:
            _layer.copy_bytes(part, array)

    def read(self, shape: tuple[int, ...], dtype: np.dtype[Any], out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Return an array holding the ``byte_len`` bytes: ``out``, a contiguous one of this shape and type, or a new one."""
        found = np.empty(shape, dtype) if out is None else out
        _layer.copy_bytes(found, self._read)
        return found

    @functools.cached_property
    def _written(self) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """Where the host writes: with the padding, and without."""
        whole = self._bytes if self.is_mapped else self._staged
        return whole, whole[: self.byte_len]

    @functools.cached_property
    def _read(self) -> NDArray[np.uint8]:
        """Where the host reads."""
        return (self._bytes if self.is_read_in_place else self._staged)[: self.byte_len]

    @property
    def upload_region(self) -> Region:
        """What the device copies after ``write``, where it does not see what that writes."""
        return (self._staging.handle, 0, self.handle, 0, padded(self.byte_len))

    @property
    def readback_region(self) -> Region:
        """What the device copies before ``read``."""
        return (self.handle, 0, self._staging.handle, 0, padded(self.byte_len))

    def gains_from_parts(self, array: NDArray[Any] | None) -> bool:
        """Whether ``upload`` and ``download`` are the only ones it has, or the quicker ones: the array is pinned."""
        if not self.is_staged:
            return True
        return self.byte_len >= LEAST_PINNED_WRITE and array is not None and self.part_of_pinned(array) is not None

    def upload(self, array: NDArray[Any] | None, deadline: Deadline) -> None:
        """As ``write``, where the device sees it in all that is submitted afterwards, without a wait; not of what is moved."""
        pinned = None if array is None or self.byte_len < LEAST_PINNED_WRITE else self.part_of_pinned(array)
        storage = self.handle
        self._device.moved.add(0 if array is None else self.byte_len, 0)
        if pinned is not None:
            self._transfers.submit([(pinned.handle, pinned.offset, storage, 0, self.byte_len)], (self.allocation, pinned.pages))
        elif self.is_mapped:
            self.write(array)
        elif array is None:
            self._transfers.submit([(None, 0, storage, 0, padded(self.byte_len))], self.allocation)
        else:
            self._put(0, array.reshape(-1).view(np.uint8), deadline)

    def is_moved(self, array: NDArray[Any] | None) -> bool:
        """Whether a mover brings or takes an array: there is no staging buffer, and it is not pinned."""
        return not self.is_staged and array is not None and self.part_of_pinned(array) is None

    def move(self, array: NDArray[Any] | None, *, is_down: bool = False) -> Move:
        """Return how a mover brings a contiguous array of ``byte_len`` bytes, or zeros, or takes it away."""
        pinned = None if array is None else self.part_of_pinned(array)
        direct = self._bytes[: self.byte_len] if self.is_shared else None
        byte_len = padded(self.byte_len) if array is None and direct is None else self.byte_len
        place = None if pinned is None else (pinned.handle, pinned.offset)
        moved = 0 if array is None else byte_len
        self._device.moved.add(*((0, moved) if is_down else (moved, 0)))
        return is_down, self.handle, 0, byte_len, None if pinned is not None else array, place, direct

    def settle(self, deadline: Deadline) -> None:
        """Wait for what ``upload`` has submitted, and for what an earlier call left; raises as ``Submission.wait``."""
        self._transfers.settle(deadline)

    def read_range(
        self, offset: int, byte_len: int, deadline: Deadline, out: NDArray[np.uint8] | None = None
    ) -> NDArray[np.uint8]:
        """Return the bytes from ``offset`` on, in ``out`` where that is given: contiguous, of ``byte_len`` bytes."""
        found = np.empty(byte_len, np.uint8) if out is None else out
        self._device.moved.add(0, byte_len)
        if self.is_shared:
            wait_for_earlier_work(self._device, deadline)
        elif byte_len:
            return self._read_by_device(offset, found, deadline)
        _layer.copy_bytes(found, self._bytes[offset : offset + byte_len])
        return found

    def _read_by_device(self, offset: int, out: NDArray[np.uint8], deadline: Deadline) -> NDArray[np.uint8]:
        """Have the device copy into pinned memory, or into staging memory, from where the host copies what is there."""
        pinned = self.part_of_pinned(out)
        if pinned is not None:
            self._move([(self.handle, offset, pinned.handle, pinned.offset, out.nbytes)], deadline, pinned.pages)
        elif self.is_staged:
            for first, end in _pieces_of(out.nbytes):
                staging = self._device.memory.take_staging(end - first)
                self._move([(self.handle, offset + first, staging.handle, 0, end - first)], deadline, staging)
                _layer.copy_bytes(out[first:end], staging)
        else:
            self._device.movers.move([(True, self.handle, offset, out.nbytes, out, None, None)], deadline, self.allocation)
        return out

    def write_range(self, offset: int, array: NDArray[Any], deadline: Deadline) -> None:
        """Copy a contiguous array in, from ``offset`` on."""
        self._device.moved.add(array.nbytes, 0)
        pinned = self.part_of_pinned(array)
        if pinned is not None and not (self.is_mapped and array.nbytes < LEAST_PINNED_WRITE):
            self._move([(pinned.handle, pinned.offset, self.handle, offset, array.nbytes)], deadline, pinned.pages)
        elif array.nbytes and self.is_staged:
            self._put(offset, array.reshape(-1).view(np.uint8), deadline)
            self._transfers.settle(deadline)
        elif array.nbytes:
            move = (False, self.handle, offset, array.nbytes, array, None, None)
            self._device.movers.move([move], deadline, self.allocation)

    def part_of_pinned(self, array: NDArray[Any]) -> PinnedPart | None:
        """Return where a contiguous array lies in pinned memory that the device copies from and to itself; None elsewhere.

        Memory that host and device share is copied by the host, which a device that is the host's does not do faster.
        """
        return None if self.is_shared else part_of_pinned(self._device, array)

    def copy_range(self, source: TensorBuffer, source_offset: int, offset: int, byte_len: int, deadline: Deadline) -> None:
        """Copy bytes of another buffer of the device, or of this one, to ``offset``.

        Ranges of one buffer that overlap are the caller's to refuse: the device cannot copy them, and ValueError is raised.
        """
        if not byte_len:
            return
        self._move([(source.handle, source_offset, self.handle, offset, byte_len)], deadline, source.allocation)

    def fill_range(self, offset: int, byte_len: int, pattern: bytes, deadline: Deadline) -> None:
        """Fill with a pattern of 1 to 16 bytes, over and over from ``offset`` on; ``byte_len`` is a multiple of its length."""
        if not 1 <= len(pattern) <= LONGEST_PATTERN or byte_len % len(pattern):
            raise ValueError(f"a pattern of {len(pattern)} bytes does not fill {byte_len} bytes")
        storage, word = self.handle, (pattern * _WORD_BYTES)[:_WORD_BYTES]
        is_of_words = (offset | byte_len) % _WORD_BYTES == 0 and pattern * _WORD_BYTES == word * len(pattern)
        whole = np.frombuffer(pattern, np.uint8)
        if is_of_words and byte_len:
            # vkCmdFillBuffer writes the word in host order, as the bytes were given.
            self._move([(None, int.from_bytes(word, sys.byteorder), storage, offset, byte_len)], deadline)
        elif byte_len:
            done = min(byte_len, _PIECE_BYTES // len(pattern) * len(pattern))
            self.write_range(offset, np.tile(whole, done // len(pattern)), deadline)
            regions: list[Region] = []
            while done < byte_len:
                regions.append((storage, offset, storage, offset + done, min(done, byte_len - done)))
                done += regions[-1][-1]
            self._move(regions, deadline)

    def _put(self, offset: int, raw: NDArray[np.uint8], deadline: Deadline) -> None:
        """Write what the device sees once all that was submitted has ended; the caller settles."""
        if self.is_mapped:
            wait_for_earlier_work(self._device, deadline)
            _layer.copy_bytes(self._bytes[offset : offset + raw.nbytes], raw)
            return
        for first, end in _pieces_of(raw.nbytes):
            staging = self._device.memory.take_staging(end - first)
            _layer.copy_bytes(staging, raw[first:end])
            self._transfers.submit([(staging.handle, 0, self.handle, offset + first, end - first)], (self.allocation, staging))
            self._transfers.settle(deadline, 1)

    def _move(self, regions: Sequence[Region], deadline: Deadline, keep: object = None) -> None:
        """Let the device copy regions of this buffer, and of what ``keep`` holds, one after the other, and wait."""
        if regions:
            self._transfers.submit(regions, (self.allocation, keep))
        self._transfers.settle(deadline)

    def visible(self, offset: int, byte_len: int) -> NDArray[np.uint8]:
        """Return the bytes themselves, of memory that host and device share."""
        return self._bytes[offset : offset + byte_len]

    @functools.cached_property
    def _bytes(self) -> NDArray[np.uint8]:
        """What the device sees, of memory that is mapped, with the padding."""
        return np.frombuffer(memoryview(self.allocation), np.uint8)

    @functools.cached_property
    def part(self) -> _layer.Part:
        """All of it, as a launch binds it."""
        return _layer.Part(self.allocation, 0, self.seen)

    @property
    def held(self) -> tuple[Allocation, ...]:
        """The memory that has to stay as long as the device uses the buffer."""
        return (self.allocation, self._staging) if "_staging" in vars(self) else (self.allocation,)

    @functools.cached_property
    def _staging(self) -> Allocation:
        """The area of ``write`` and ``read``, which recorded work copies from and to."""
        return self._device.memory.take_staging(padded(self.byte_len))

    @functools.cached_property
    def _staged(self) -> NDArray[np.uint8]:
        return np.frombuffer(memoryview(self._staging), np.uint8)


def _pieces_of(byte_len: int) -> list[tuple[int, int]]:
    """Return where the pieces begin and end in which bytes go through staging memory."""
    return [(first, min(first + _STAGED_BYTES, byte_len)) for first in range(0, byte_len, _STAGED_BYTES)]


def padded(byte_len: int) -> int:
    """Return the bytes rounded up to whole 32-bit words."""
    return -(-byte_len // _WORD_BYTES) * _WORD_BYTES


def check_sizes(device: KomputeDevice, sizes: Sequence[tuple[str, int]]) -> None:
    """Check that each of (what it is, bytes) fits into one storage buffer of the device.

    Raises LimitExceeded if one is longer than the device's range, or than kompute's 4 GiB.
    """
    limit = device.longest_buffer
    for name, byte_len in sizes:
        if byte_len > limit:
            raise LimitExceeded(
                f"{name} has {byte_len} bytes, and {device.physical.name!r} allows {limit} bytes a buffer",
                fix="pass it in parts",
                what=name,
                value=byte_len,
                limit=limit,
            )
