"""Arrays that stay on the device between dispatches, and views of them."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, NoReturn, overload

import numpy as np

from vyre_driver.binding.arguments import as_array, raw_bytes
from vyre_driver.checks import is_whole
from vyre_driver.display.line import count, facts, one_line
from vyre_driver.errors import CopyNeeded, DispatchFailed, InvalidInput
from vyre_driver.kompute.arithmetic import NoArithmetic
from vyre_driver.kompute.attributes import ArrayFacts
from vyre_driver.kompute.deadline import Deadline
from vyre_driver.kompute.elements import checked_dtype, checked_shape, element_bytes, fill_by_copies, reshaped, result_array
from vyre_driver.kompute.exports import capsule_of, device_of, sharing_gpu
from vyre_driver.kompute.indexing import select
from vyre_driver.kompute.memory import LONGEST_PATTERN, TensorBuffer, check_sizes
from vyre_driver.process.call_lock import call_lock
from vyre_driver.telemetry.stages import Stage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from types import TracebackType

    from numpy.typing import DTypeLike, NDArray

    from vyre_driver.kompute.cuda import Gpu
    from vyre_driver.kompute.device import KomputeDevice


class Lifetime:
    """Goes when its buffer is closed or collected; others watch it through weak references."""


_ENDED = Lifetime()
_numbers = itertools.count(1)


class Storage:
    """The memory that a buffer and its views share."""

    __slots__ = ("_lifetime", "gpu", "is_closed", "lock", "memory", "number")

    def __init__(self, memory: TensorBuffer | None, gpu: Gpu | None = None) -> None:
        self.memory = memory
        self.gpu = gpu
        self.number = next(_numbers)
        self.is_closed = False
        self._lifetime: Lifetime | None = None
        self.lock = call_lock("the buffer")

    @property
    def lifetime(self) -> Lifetime:
        """What goes when the memory is closed or collected; made when it is first asked for, which few buffers are."""
        if self.is_closed:
            return _ENDED
        lifetime = self._lifetime
        if lifetime is None:
            lifetime = self._lifetime = Lifetime()  # of two threads one has a watch that ends at once
        return lifetime

    def close(self) -> None:
        """Let the memory go, once nothing is bound to it."""
        with self.lock:
            self.is_closed = True  # before the memory goes, for those who look for that without the lock
            self.memory = None
            self._lifetime = None


class Buffer(ArrayFacts, NoArithmetic):
    """A resident array, or a view of one: given to kernels as it is, read and written by copying.

    ``shape`` and ``dtype`` are what ``read`` gives back. Indexing with integers and slices, ``reshape`` and ``view`` give views
    of the same memory. The memory goes with the last view, kernel and batch that uses it, and with ``close`` for every later
    user. It is no numpy array: kernels do the arithmetic.

    Whatever is done to overlapping memory takes effect in the order in which it was asked for: kernels, copies, fills, writes
    and reads.
    """

    __slots__ = ()
    device: KomputeDevice
    _storage: Storage

    def __init__(
        self,
        device: KomputeDevice,
        shape: int | Iterable[int],
        dtype: DTypeLike | None,
        name: str = "",
        share: str | None = None,
    ) -> None:
        """Allocate it; made by ``Driver.buffer``, ``Driver.empty`` and ``Driver.zeros``."""
        self._set_facts(device, checked_shape(shape), checked_dtype(dtype), name, 0)
        byte_len, element_bytes = self.nbytes, self.dtype.itemsize
        if byte_len > device.longest_buffer:
            check_sizes(device, [("a resident buffer", byte_len)])
        gpu = None if share is None else sharing_gpu(device, share)
        memory: TensorBuffer | None = None
        if byte_len and device.allocate is not None:
            memory = device.allocate(byte_len, element_bytes, gpu, name)
        elif byte_len:
            memory = TensorBuffer(device, byte_len, element_bytes, gpu, name)
        storage = Storage(memory, gpu)
        self._set_storage(storage, storage.number, is_view=False)

    @property
    def is_closed(self) -> bool:
        """Whether ``close`` was called, of it or of the buffer that it is a view of."""
        return self._storage.is_closed

    @property
    def lifetime(self) -> Lifetime:
        """What goes when the memory is closed or collected."""
        return self._storage.lifetime

    @property
    def span(self) -> tuple[int, int, int]:
        """Which memory, and where in it the bytes begin and end; no memory and no bytes where it has no elements."""
        if not self.nbytes:
            return (0, 0, 0)
        return (id(self._storage.memory or self.memory), self.offset, self.offset + self.nbytes)

    @property
    def memory(self) -> TensorBuffer:
        """The memory on the device; there is none of a buffer without elements.

        Raises
        ------
        DispatchFailed
            After ``close``, or if the device cannot be used; a subclass says why, as DeviceLost does.
        """
        memory = self._storage.memory
        self.device.check_usable()
        if memory is None:
            self.check_open()
            raise InvalidInput(f"{self.described} has no elements, and no memory", fix="leave it out")
        return memory

    def write(self, array: object, timeout: float | Deadline | None = None) -> None:
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
                f"{self.described} holds {self.nbytes} bytes of {self.dtype} and got {given.nbytes} bytes of {given.dtype}",
                fix="write an array of the buffer's type and size",
                expected_bytes=self.nbytes,
                received_bytes=given.nbytes,
            )
        data, at = np.ascontiguousarray(given), self.offset
        self._move(timeout, lambda memory, deadline: memory.write_range(at, data, deadline), Stage.WRITE_BUFFER)

    def read(self, timeout: float | Deadline | None = None, *, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Return a copy of what the device holds, after all work submitted before.

        No other thread may submit work that writes to the buffer meanwhile: long arrays come in pieces, each of its time.

        Parameters
        ----------
        timeout
            Seconds in all; None waits for ever. Only under the vyre layer does a wait end before the work.
        out
            A contiguous array or tensor of the same shape and type to copy into, which is returned; None makes one.

        Raises
        ------
        DispatchTimeout
            If it takes longer; what ``out`` holds is not known then.
        DispatchFailed
            After ``close``, or if the device fails; a subclass says why, as DeviceLost does.
        InvalidInput
            If ``timeout`` is not a number of seconds, or ``out`` does not fit.
        """
        if isinstance(timeout, np.ndarray):
            raise InvalidInput(f"read of {self.described} got an array as its time-out", fix="give it by name: read(out=array)")
        found, whole = result_array(out, self.shape, self.dtype, self), (self.offset, self.nbytes)
        into = found.reshape(-1).view(np.uint8) if self.nbytes else None
        self._move(timeout, lambda memory, deadline: memory.read_range(*whole, deadline, into), Stage.READ_BUFFER)
        return found if out is None else out

    def fill(self, value: object, timeout: float | Deadline | None = None) -> None:
        """Set every element to one value of its type, after all work submitted before; raises as ``write``."""
        pattern = element_bytes(value, self.dtype, self.described)
        fill: Any = fill_by_copies if len(pattern) > LONGEST_PATTERN else lambda memory, *how: memory.fill_range(*how)
        self._move(timeout, lambda *one: fill(one[0], self.offset, self.nbytes, pattern, one[1]), Stage.FILL_BUFFER)

    def copy_to(self, target: Buffer, timeout: float | Deadline | None = None) -> None:
        """Copy it on the device into a buffer of the same shape and type, after all work submitted before.

        The target may overlap it. To a buffer of another driver the copy goes through the host. Raises as ``write``.
        """
        if not isinstance(target, Buffer) or target.shape != self.shape or target.dtype != self.dtype:
            raise InvalidInput(
                f"{self.described} cannot be copied to {target!r}, which is of another shape or type",
                fix="copy it to one of that shape and type; reshape() and view() give views of another",
            )
        self.check_open()
        if target.device is not self.device or self.overlaps(target):
            deadline = timeout if isinstance(timeout, Deadline) else Deadline(timeout, self.device.physical.name)
            target.write(self.read(deadline), deadline)
            return
        how = self.offset, target.offset, self.nbytes
        target._move(timeout, lambda memory, end: memory.copy_range(self.memory, *how, end), Stage.COPY_BUFFER)

    def overlaps(self, other: Buffer) -> bool:
        """Whether both have bytes of memory in common."""
        is_same = self._storage is other._storage and self.nbytes and other.nbytes
        return bool(is_same) and self.offset < other.offset + other.nbytes and other.offset < self.offset + self.nbytes

    def reshape(self, *shape: int | Sequence[int]) -> Buffer:
        """Return a view of another shape with as many elements; one length may be -1, as numpy has it."""
        found = reshaped(self.size, shape[0] if len(shape) == 1 and not is_whole(shape[0]) else shape, self.described)
        return self._part(0, found, self.dtype)

    def view(self, dtype: DTypeLike) -> Buffer:
        """Return a view of the same bytes as another type; the last axis has as many elements as its bytes make.

        Raises InvalidInput if they make no whole number, or ``dtype`` is not a type of numbers.
        """
        wanted = checked_dtype(dtype)
        if wanted.itemsize == self.itemsize:
            return self._part(0, self.shape, wanted)
        row = (self.shape[-1] if self.shape else 1) * self.itemsize
        if not self.shape or row % wanted.itemsize:
            raise InvalidInput(
                f"the last axis of {self.described} has {row} bytes, which is not a whole number of {wanted.itemsize}-byte "
                f"elements of {wanted}",
                fix="reshape it first",
            )
        return self._part(0, (*self.shape[:-1], row // wanted.itemsize), wanted)

    @overload
    def __getitem__(self, key: NoReturn) -> Any: ...  # noqa: ANN401 -- for checkers it is an array of any element of kernels

    @overload
    def __getitem__(self, key: object) -> Buffer: ...

    def __getitem__(self, key: object) -> Buffer:
        """Return a view of what integers, slices and an ellipsis select, which must be one piece of memory.

        Raises
        ------
        IndexOutOfRange
            If an integer is out of range, or there are more items than axes.
        InvalidInput
            If it is another index, or what it selects does not lie in one piece.
        """
        first, shape = select(self.shape, key)
        return self._part(first * self.itemsize, shape, self.dtype)

    def __setitem__(self, key: object, value: object) -> None:
        """Write an array to what an index selects, copy a buffer to it, or fill it with a number; raises as they do."""
        part = self[key]
        if isinstance(value, Buffer):
            value.copy_to(part)
        elif raw_bytes(value) is not None:
            part.write(value)
        elif isinstance(value, tuple) and self.dtype.names is not None:
            part.fill(value)
        else:
            (part.write if as_array(value, self.described).ndim else part.fill)(value)

    def __len__(self) -> int:
        """Return the length of the first axis."""
        if not self.shape:
            raise TypeError(f"{self.described} has no axes, and no length. Fix: use size.")
        return self.shape[0]

    def __iter__(self) -> Any:  # noqa: ANN401 -- never returns
        """Refuse: each element would be a transfer of its own."""
        raise TypeError(f"{self.described} is not iterated over on the host. Fix: iterate over read().")

    __reversed__ = __iter__

    def __copy__(self) -> Buffer:
        """Return a new buffer with the same contents, copied on the device."""
        made: Buffer = self.device.make_room(lambda: Buffer(self.device, self.shape, self.dtype, self.name))
        self.copy_to(made)
        return made

    def __deepcopy__(self, memo: object) -> Buffer:
        """Return a new buffer with the same contents, copied on the device."""
        return self.__copy__()

    def __reduce__(self) -> Any:  # noqa: ANN401 -- never returns
        """Refuse to be pickled: its memory is the device's."""
        raise TypeError(f"{self.described} lives on a device and cannot be pickled. Fix: pickle read().")

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:  # noqa: FBT001 -- numpy's protocol
        """Return a copy as a numpy array, after all work submitted before; raises CopyNeeded for ``copy=False``."""
        if copy is False:
            raise CopyNeeded(f"{self.described} cannot be a numpy array without a copy", fix="leave copy=False out")
        found = self.read()
        return found if dtype is None else found.astype(dtype, copy=False)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return DLPack's device: CUDA where that shares it, the CPU where the host sees the memory, else Vulkan."""
        return device_of(self, self._storage.gpu)

    def __dlpack__(
        self,
        *,
        stream: object = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object:
        """Return it as a DLPack capsule, after all work submitted before.

        Of a buffer that is shared with CUDA it is that memory, without a copy, unless the CPU's or a copy is asked for
        (docs/cuda.md). Of any other it is in the memory of the CPU: without a copy where the host sees the memory (CPU devices
        and integrated GPUs); elsewhere a copy must be asked for, by ``copy=True`` or by the device of the CPU.

        An array that is no copy sees what kernels write later, and the memory stays until the consumer lets go of it.

        Raises
        ------
        CopyNeeded
            If the host does not see the memory, and no copy was asked for, or another device.
        InvalidInput
            If elements are structures, and the memory is shared with CUDA.
        """
        return capsule_of(self, self._storage.gpu, stream, max_version, dl_device, copy)

    def __enter__(self) -> Buffer:
        """Return the buffer itself; raises DispatchFailed once it is closed."""
        self.check_open()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        """Close it."""
        self.close()

    def close(self) -> None:
        """Give the memory back once nothing is bound to it; its views are closed with it. A second call does nothing.

        Of a view: that alone is closed.
        """
        closed = Storage(None) if self._is_view else self._storage
        closed.close()
        self._set_storage(closed, closed.number, is_view=self._is_view)  # nothing is remembered of it

    def __repr__(self) -> str:
        """Return its name, shape, type, bytes, device and state on one line."""
        name = f"Buffer {self.name!r}" if self.name else "Buffer"
        where = f"on {self.device.physical.name!r}"
        return one_line(name, f"shape {self.shape}", str(self.dtype), count(self.nbytes, "byte"), where, self._state)

    def _repr_html_(self) -> str:
        found = {"shape": self.shape, "type": self.dtype, "bytes": self.nbytes, "device": self.device.physical.name}
        return facts(f"Buffer {self.name}".strip(), found | ({"state": self._state} if self._state else {}))

    @property
    def _state(self) -> str:
        return "closed" if self.is_closed or self.device.in_use.closed else "a view" if self._is_view else ""

    @property
    def described(self) -> str:
        """Name, shape and type, for a message."""
        name = f" {self.name!r}" if self.name else ""
        return f"Buffer{name} of shape {self.shape} and type {self.dtype}"

    def check_open(self) -> None:
        """Check that it may be used; raises DispatchFailed after ``close``, or if the device cannot be used."""
        self.device.check_usable()
        if self.is_closed:
            raise DispatchFailed("the buffer is closed", fix="make a new one")

    def _part(self, offset: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Buffer:
        """Return a view of so much from ``offset`` bytes on."""
        made = Buffer.__new__(Buffer)
        made._set_facts(self.device, shape, dtype, self.name, self.offset + offset)  # noqa: SLF001 -- its own class
        form = (self._storage.number, made.offset, shape, dtype)
        made._set_storage(self._storage, form, is_view=True)  # noqa: SLF001 -- the same
        return made

    def _move(self, timeout: float | Deadline | None, move: Callable[[TensorBuffer, Deadline], object], stage: Stage) -> None:
        """Call what moves bytes of the memory, with no other call of the buffer beside it; nothing where there are none."""
        deadline = timeout if isinstance(timeout, Deadline) else Deadline(timeout, self.device.physical.name)
        with self.device.in_use, deadline.holding(self._storage.lock):
            self.check_open()
            if self.nbytes:
                began = self.device.timeline.now()
                move(self.memory, deadline)
                self.device.timeline.add(stage, began, 0, (self.name, self.nbytes))
