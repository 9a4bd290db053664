"""Buffers as kompute tensors: raw 32-bit words, whatever the array's type.

kompute knows five element types; any other travels as words, padded to 4 bytes. A tensor's size is a uint32 number of bytes. On
a device with memory of its own a tensor is a device buffer and a mapped staging buffer; where device and host share
memory it is one mapped buffer. Where the host can write all of the device's memory (resizable BAR) the layer maps the device
buffer too: uploads go straight there, and the staging buffer is only for reading back, which is slow over the bus.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_driver.errors import LimitExceeded
from vyre_driver.vulkan.layer import _layer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from vyre_driver.kompute.device import KomputeDevice

_WORD_BYTES = 4
_BYTES_IN_BUFFERS, _HALVES_IN_BUFFERS = "storageBuffer8BitAccess", "storageBuffer16BitAccess"
_HALF_BYTES = 2
_MAX_TENSOR_BYTES = 2**32 - _WORD_BYTES  # kompute counts bytes in a uint32


class TensorBuffer:
    """One storage buffer of ``byte_len`` bytes.

    Mapped memory is written and read here by copying, under ``KomputeDevice.in_use``, and no view of it leaves.
    ``is_mapped``: ``write`` reaches what the device sees, so no work that uses the buffer may run meanwhile; otherwise a copy
    on the device must follow it. ``is_shared``: ``read`` sees what the device sees; otherwise such a copy must come before.
    """

    def __init__(self, device: KomputeDevice, byte_len: int, element_bytes: int) -> None:
        """Allocate the memory; the caller has checked the size. ``element_bytes`` is how long an element of the buffer is.

        Raises DeviceOutOfMemory if the device has not so much left.
        """
        words = padded(byte_len) // _WORD_BYTES
        # A device without elements of 8 or 16 bits in buffers reads and writes the last ones as part of their word.
        is_exact = (_HALVES_IN_BUFFERS if element_bytes == _HALF_BYTES else _BYTES_IN_BUFFERS) in device.features
        seen = byte_len if is_exact else words * _WORD_BYTES
        self.byte_len = byte_len
        self._device = device
        self.handle = 0
        self.is_shared = device.shares_memory
        kind = device.api.tensor_types.host if self.is_shared else device.api.tensor_types.device
        self._reservation = device.reserve(words * _WORD_BYTES)
        try:
            self.tensor, mapped = device.call_kompute(
                "allocate a buffer",
                lambda manager: _layer.create_buffer(
                    device.layer, manager.tensor_t, (np.zeros(words, np.uint32), kind), seen, want_mapping=not self.is_shared
                ),
            )
        except BaseException:
            del self._reservation  # the error's traceback would keep it
            raise
        self._mapped: NDArray[np.uint8] | None = None if mapped is None else np.frombuffer(mapped, np.uint8)[:byte_len]
        self.is_mapped = self.is_shared or mapped is not None
        device.keep_holder(self)

    def write(self, array: NDArray[Any] | None) -> None:
        """Copy a contiguous array of ``byte_len`` bytes in; None writes zeros."""
        target = self._host if self._mapped is None else self._mapped
        target[:] = 0 if array is None else array.reshape(-1).view(np.uint8)

    def read(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
        """Return a new array holding the ``byte_len`` bytes."""
        return self._host.copy().view(dtype).reshape(shape)

    def visible(self, offset: int, byte_len: int) -> NDArray[np.uint8]:
        """Return the bytes themselves, of a device that shares its memory with the host."""
        return self._host[offset : offset + byte_len]

    # provisional
    def read_range(self, offset: int, into: Any, deadline: Any) -> None:
        from vyre_driver.kompute.submission import Submission, wait_for_earlier_work

        if self.is_shared:
            wait_for_earlier_work(self._device, deadline)
        else:
            Submission(self._device, [[self._device.api.sync_local([self.tensor])]], keep=self).run(deadline)
        into[:] = self._host[offset : offset + into.nbytes]

    def write_range(self, offset: int, data: Any, deadline: Any) -> None:
        from vyre_driver.kompute.submission import Submission, wait_for_earlier_work

        wait_for_earlier_work(self._device, deadline)
        target = self._host if self._mapped is None else self._mapped
        target[offset : offset + data.nbytes] = data
        if not self.is_mapped:
            Submission(self._device, [[self._device.api.sync_device([self.tensor])]], keep=self).run(deadline)

    def fill_range(self, offset: int, byte_len: int, pattern: Any, deadline: Any) -> None:
        self.write_range(offset, np.frombuffer(pattern * (byte_len // len(pattern)), np.uint8), deadline)

    def copy_range(self, source: Any, source_offset: int, offset: int, byte_len: int, deadline: Any) -> None:
        got = np.empty(byte_len, np.uint8)
        source.read_range(source_offset, got, deadline)
        self.write_range(offset, got, deadline)

    @functools.cached_property
    def _host(self) -> NDArray[np.uint8]:
        return np.asarray(self.tensor.data()).view(np.uint8)[: self.byte_len]


def padded(byte_len: int) -> int:
    """Return the bytes rounded up to whole 32-bit words."""
    return -(-byte_len // _WORD_BYTES) * _WORD_BYTES


def check_sizes(device: KomputeDevice, sizes: Sequence[tuple[str, int]]) -> None:
    """Check that each of (what it is, bytes) fits into one storage buffer of the device.

    Raises LimitExceeded if one is over the device's range, or over kompute's 4 GiB.
    """
    limit = min(device.physical.limits.max_storage_buffer_range, _MAX_TENSOR_BYTES)
    for name, byte_len in sizes:
        if byte_len > limit:
            raise LimitExceeded(
                f"{name} has {byte_len} bytes, and {device.physical.name!r} allows {limit} bytes a buffer",
                fix="pass it in parts",
                what=name,
                value=byte_len,
                limit=limit,
            )
