"""Arrays that stay on the device between dispatches."""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_driver.binding.arguments import as_array, raw_bytes
from vyre_driver.checks import is_whole, items_of
from vyre_driver.errors import DispatchFailed, InvalidInput
from vyre_driver.kompute.deadline import Deadline
from vyre_driver.kompute.memory import TensorBuffer, check_sizes
from vyre_driver.kompute.submission import Submission, wait_for_earlier_work
from vyre_driver.process.call_lock import call_lock

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import DTypeLike, NDArray

    from vyre_driver.kompute.device import KomputeDevice


_TEXT = "U"


class Lifetime:
    """Goes when its buffer is closed or collected; others watch it through weak references."""


_ENDED = Lifetime()


class Buffer:
    """A resident array: bound to kernels as it is, read and written by copying.

    ``shape`` and ``dtype`` are what ``read`` gives back. The memory goes with the last kernel or batch that is bound to it.
    """

    def __init__(self, device: KomputeDevice, shape: int | Iterable[int], dtype: DTypeLike) -> None:
        """Allocate it; made by ``Driver.buffer`` and ``Driver.empty``."""
        self.shape = _checked_shape(shape)
        self.dtype = checked_dtype(dtype)
        self.nbytes = math.prod(self.shape) * self.dtype.itemsize
        if self.nbytes == 0:
            raise InvalidInput(
                f"a buffer of shape {self.shape} and type {self.dtype} has 0 bytes of numbers",
                fix="make a buffer of numbers, with at least one element",
            )
        check_sizes(device, [("a resident buffer", self.nbytes)])
        self.device = device
        self._memory: TensorBuffer | None = TensorBuffer(device, self.nbytes, self.dtype.itemsize)
        self.lifetime = Lifetime()
        self._transfers: dict[str, Submission] = {}
        self._lock = call_lock("the buffer")

    @property
    def memory(self) -> TensorBuffer:
        """The memory on the device.

        Raises
        ------
        DispatchFailed
            After ``close``, or if the device cannot be used; a subclass says why, as DeviceLost does.
        """
        self.device.check_usable()
        if self._memory is None:
            raise DispatchFailed("the buffer is closed", fix="make a new one")
        return self._memory

    def write(self, array: object, timeout: float | None = None) -> None:
        """Copy an array of the same type and number of elements, or as many raw bytes, to the device, after all work before.

        Work submitted before still sees what the buffer held. No other thread may submit work that uses the buffer meanwhile.

        Parameters
        ----------
        timeout
            Seconds in all; None waits for ever. Only under the vyre layer does a wait end before the work.

        Raises
        ------
        InvalidInput
            If the array has another type or size, or ``timeout`` is not a number of seconds.
        DispatchTimeout
            If it takes longer: what the buffer holds is not known then.
        DispatchFailed
            After ``close``, or if the device fails; a subclass says why, as DeviceLost does.
        """
        raw = raw_bytes(array)
        given = as_array(array) if raw is None or raw.nbytes != self.nbytes else raw.view(self.dtype)
        if given.dtype != self.dtype or given.nbytes != self.nbytes:
            raise InvalidInput(
                f"the buffer holds {self.nbytes} bytes of {self.dtype} and got {given.nbytes} bytes of {given.dtype}",
                fix="write an array of the buffer's type and size",
                expected_bytes=self.nbytes,
                received_bytes=given.nbytes,
            )
        deadline = Deadline(timeout, self.device.physical.name)
        with self.device.in_use, deadline.holding(self._lock):
            memory = self.memory
            if memory.is_mapped:
                wait_for_earlier_work(self.device, deadline)
            elif "up" in self._transfers:  # which a time-out may have left running
                self._transfers["up"].finish(deadline)
            memory.write(np.ascontiguousarray(given))
            if not memory.is_mapped:
                self._transfer("up", memory, deadline)

    def read(self, timeout: float | None = None) -> NDArray[Any]:
        """Return a copy of what the device holds, after all work submitted before.

        Parameters
        ----------
        timeout
            Seconds in all; None waits for ever. Only under the vyre layer does a wait end before the work.

        Raises
        ------
        DispatchTimeout
            If it takes longer.
        DispatchFailed
            After ``close``, or if the device fails; a subclass says why, as DeviceLost does.
        InvalidInput
            If ``timeout`` is not a number of seconds.
        """
        deadline = Deadline(timeout, self.device.physical.name)
        with self.device.in_use, deadline.holding(self._lock):
            memory = self.memory
            if memory.is_shared:
                wait_for_earlier_work(self.device, deadline)
            else:
                self._transfer("down", memory, deadline)
            return memory.read(self.shape, self.dtype)

    def close(self) -> None:
        """Give the memory back once nothing is bound to it; a second call does nothing."""
        with self._lock:
            self._transfers.clear()
            self._memory = None
            self.lifetime = _ENDED

    def _transfer(self, direction: str, memory: TensorBuffer, deadline: Deadline) -> None:
        """Copy between the staging side and the device, and wait."""
        submission = self._transfers.get(direction)
        if submission is None:
            api = self.device.api
            operation = api.sync_device([memory.tensor]) if direction == "up" else api.sync_local([memory.tensor])
            submission = self._transfers[direction] = Submission(self.device, [[operation]], keep=memory)
        submission.run(deadline)


def check_buffers(device: KomputeDevice, given: Sequence[object]) -> None:
    """Check that all are buffers of this device, and raise InvalidInput otherwise."""
    for number, one in enumerate(given, start=1):
        if not isinstance(one, Buffer):
            raise InvalidInput(
                f"argument {number} of bind is of type {type(one).__name__}, and bind takes resident buffers",
                fix="make one with driver.buffer(array), or call the kernel with arrays",
            )
        if one.device is not device:
            raise InvalidInput(
                f"argument {number} of bind is a buffer of another driver, on {one.device.physical.name!r}",
                fix="make it with the driver that compiled the kernel",
            )


def _checked_shape(shape: object) -> tuple[int, ...]:
    if type(shape) is int and shape >= 0:
        return (shape,)
    axes: list[Any] | None = [shape] if is_whole(shape) else items_of(shape)
    if axes is None or not all(is_whole(axis) and operator.index(axis) >= 0 for axis in axes):
        raise InvalidInput(
            f"the shape of a buffer is {shape!r}, which is not integers of at least 0",
            fix="give the number of elements, or a tuple of such numbers",
        )
    return tuple(operator.index(axis) for axis in axes)


def checked_dtype(dtype: DTypeLike) -> np.dtype[Any]:
    """Return the type of a buffer's elements.

    Raises
    ------
    InvalidInput
        If numpy does not know it, or it is none of numbers: text, Python's objects, an array of its own, or of no
        bytes.
    """
    try:
        found = None if dtype is None else np.dtype(dtype)
    except (TypeError, ValueError, SyntaxError) as error:
        raise InvalidInput(
            f"the type of a buffer is {dtype!r}, which numpy does not know ({error})", fix="give a type such as numpy.float32"
        ) from error
    if found is None or found.hasobject or found.kind == _TEXT or found.subdtype is not None or not found.itemsize:
        fix = "give a type such as numpy.float32"
        if found is not None and found.subdtype is not None:
            fix = f"give {found.base}, and its shape {found.shape} as the last axes of the buffer's"
        raise InvalidInput(f"the type of a buffer is {dtype!r}, which is not a type of numbers", fix=fix)
    return found
