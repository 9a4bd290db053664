"""Arrays that stay on the device between dispatches."""

from __future__ import annotations

import math
import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_driver.backends.kompute.buffers import TensorBuffer, check_sizes
from vyre_driver.backends.kompute.submission import Submission, wait_for_earlier_work
from vyre_driver.errors import DispatchFailed, InvalidInput

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vyre_driver.backends.kompute.device import KomputeDevice


class Buffer:
    """A resident array: bound to kernels as it is, read and written by copying.

    ``shape`` and ``dtype`` are what ``read`` gives back. The memory goes with the last kernel or batch that is bound to it.
    """

    def __init__(self, device: KomputeDevice, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        """Allocate it; made by ``Driver.buffer`` and ``Driver.empty``."""
        self.shape = shape
        self.dtype = dtype
        self.nbytes = math.prod(shape) * dtype.itemsize
        if dtype.hasobject or self.nbytes == 0:
            raise InvalidInput(
                f"a buffer of shape {shape} and type {dtype} has {self.nbytes} bytes of numbers",
                fix="make a buffer of numbers, with at least one element",
            )
        check_sizes(device, [("resident", self.nbytes)])
        self._device = device
        self._memory: TensorBuffer | None = TensorBuffer(device, self.nbytes)
        self._transfers: dict[str, Submission] = {}
        self._lock = threading.Lock()

    @property
    def memory(self) -> TensorBuffer:
        """The memory on the device.

        Raises
        ------
        DispatchFailed
            1005 after ``close``, or when the device cannot be used (with its kin).
        """
        self._device.check_usable()
        if self._memory is None:
            raise DispatchFailed("the buffer is closed", fix="make a new one")
        return self._memory

    def write(self, array: object) -> None:
        """Copy an array of the same type and number of elements to the device, after all work submitted before.

        It is there when this returns. Another thread must not submit work that uses the buffer meanwhile.

        Raises
        ------
        InvalidInput
            2201 if the array has another type or size.
        DispatchFailed
            1005 and its kin.
        """
        given = np.asarray(array)
        if given.dtype != self.dtype or given.nbytes != self.nbytes:
            raise InvalidInput(
                f"the buffer holds {self.nbytes} bytes of {self.dtype} and got {given.nbytes} bytes of {given.dtype}",
                fix="write an array of the buffer's type and size",
                expected_bytes=self.nbytes,
                received_bytes=given.nbytes,
            )
        with self._lock, self._device.in_use:
            memory = self.memory
            if memory.is_mapped:
                wait_for_earlier_work(self._device)
            memory.write(np.ascontiguousarray(given))
            if not memory.is_mapped:
                self._transfer("up", memory)

    def read(self) -> NDArray[Any]:
        """Return a copy of what the device holds, after all work submitted before.

        Raises
        ------
        DispatchFailed
            1005 and its kin.
        """
        with self._lock, self._device.in_use:
            memory = self.memory
            if memory.is_shared:
                wait_for_earlier_work(self._device)
            else:
                self._transfer("down", memory)
            return memory.read(self.shape, self.dtype)

    def close(self) -> None:
        """Give the memory back once nothing is bound to it; a second call does nothing."""
        with self._lock:
            self._transfers.clear()
            self._memory = None

    def _transfer(self, direction: str, memory: TensorBuffer) -> None:
        """Copy between the staging side and the device, and wait."""
        submission = self._transfers.get(direction)
        if submission is None:
            api = self._device.api
            operation = api.sync_device([memory.tensor]) if direction == "up" else api.sync_local([memory.tensor])
            submission = self._transfers[direction] = Submission(self._device, [[operation]], keep=memory)
        submission.run()
