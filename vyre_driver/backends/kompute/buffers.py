"""Buffers as kompute tensors: raw 32-bit words, whatever the array's type.

kompute knows five element types; any other travels as words, padded to 4 bytes. A tensor is a device buffer and a mapped
staging buffer of the same size, and its size is a uint32 number of bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_driver.errors import LimitExceeded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from vyre_driver.backends.kompute.device import KomputeDevice

_WORD_BYTES = 4
_MAX_TENSOR_BYTES = 2**32 - _WORD_BYTES  # kompute counts bytes in a uint32


class TensorBuffer:
    """One storage buffer of ``byte_len`` bytes, its host side zero at first.

    Its host side is kompute's staging memory: it is written and read here by copying, and no view of it leaves.
    """

    def __init__(self, device: KomputeDevice, byte_len: int) -> None:
        """Allocate device and staging memory; the caller has checked and reserved the size."""
        self.byte_len = byte_len
        self.tensor: Any = device.manager.tensor_t(np.zeros(padded(byte_len) // _WORD_BYTES, np.uint32))

    def write(self, array: NDArray[Any]) -> None:
        """Copy a contiguous array of ``byte_len`` bytes into staging memory."""
        self._staging()[:] = array.reshape(-1).view(np.uint8)

    def read(self, shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> NDArray[Any]:
        """Return a new array holding the ``byte_len`` bytes of staging memory."""
        return self._staging().copy().view(dtype).reshape(shape)

    def _staging(self) -> NDArray[Any]:
        return np.asarray(self.tensor.data()).view(np.uint8)[: self.byte_len]


def padded(byte_len: int) -> int:
    """Return the bytes rounded up to whole 32-bit words."""
    return -(-byte_len // _WORD_BYTES) * _WORD_BYTES


def check_sizes(device: KomputeDevice, sizes: Sequence[tuple[str, int]]) -> None:
    """Return if each (name, bytes) fits into one storage buffer of the device.

    Raises
    ------
    LimitExceeded
        2104 if a buffer is over the device's range, or over kompute's 4 GiB.
    """
    limit = min(device.physical.limits.max_storage_buffer_range, _MAX_TENSOR_BYTES)
    for name, byte_len in sizes:
        if byte_len > limit:
            raise LimitExceeded(
                f"buffer {name!r} has {byte_len} bytes, and {device.physical.name!r} allows {limit} bytes a buffer",
                fix="pass it in parts",
                binding=name,
                value=byte_len,
                limit=limit,
            )
