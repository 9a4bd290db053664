"""What stands for the device of a child, and for its context: what buffers and kernels of several dispatches ask of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import numpy as np

from vyre_driver.errors import DispatchFailed, UnsupportedFeature
from vyre_driver.isolated.arena import copy_array, nbytes_of, place_in_arena, place_in_buffer
from vyre_driver.kompute.blocks import longest_buffer
from vyre_driver.kompute.buffer import Buffer, Storage
from vyre_driver.kompute.elements import fill_by_copies
from vyre_driver.runtime.room import Room
from vyre_driver.telemetry.events import EventKind

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from numpy.typing import NDArray

    from vyre_driver.isolated.process import Child, Handle
    from vyre_driver.kompute.deadline import Deadline
    from vyre_driver.telemetry.events import Events
    from vyre_driver.vulkan.devices import PhysicalDevice

_NS_PER_S = 1e9
_BYTE = np.dtype(np.uint8)
_FILLED_BY_NUMBERS: dict[int, np.dtype[Any]] = {1: np.dtype("u1"), 2: np.dtype("u2"), 4: np.dtype("u4"), 8: np.dtype("u8")}


class IsolatedUse:
    """The uses of a device, which the child counts; here only whether there may be any."""

    def __init__(self, device: IsolatedDevice) -> None:
        """Be those of this device."""
        self._device = device
        self.is_closed = False

    @property
    def closed(self) -> bool:
        """Whether the driver was closed, or its process has ended."""
        return self.is_closed or self._device.child.died is not None

    def check_usable(self) -> None:
        """Check that the device may be used; raises DispatchFailed after ``close``, or as ``Child.check_usable``."""
        if self.is_closed:
            raise DispatchFailed(f"{self._device.physical.name!r} is closed", fix="make a new Driver")
        self._device.child.check_usable()

    def __enter__(self) -> None:
        """Check that the device may be used."""
        self.check_usable()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        """Leave it."""


class IsolatedDevice:
    """The device that one child has open; what was made on it goes with that child."""

    backend_id = "kompute"
    shares_memory = False

    def __init__(self, child: Child, driver: Callable[[], Any]) -> None:
        """Be that of a child that has started; ``driver`` gives the driver, None once that is gone."""
        self.child = child
        self.driver = driver
        self.physical: PhysicalDevice = child.facts["device"]
        self.longest_buffer = longest_buffer(self.physical.limits)
        self.features: frozenset[str] = child.facts["features"]
        self.layer = "in the child"
        self.in_use = IsolatedUse(self)
        self.check_usable = self.in_use.check_usable
        self.timeline = driver().events.timeline

    def allocate(self, nbytes: int, itemsize: int, gpu: object = None, name: str = "") -> IsolatedMemory:
        """Return the memory of a resident buffer with elements of ``itemsize`` bytes; raises as ``Child.ask``."""
        if gpu is not None:
            raise not_here("memory shared with CUDA")
        word = next(one for one in (8, 4, 2, 1) if itemsize % one == 0)
        handle = self.child.handle()
        self.child.ask(f"a buffer of {nbytes} bytes", "allocate", handle.number, (nbytes // word,), f"u{word}", name)
        return IsolatedMemory(handle)

    def make_room(self, make: Callable[[], Any]) -> Any:  # noqa: ANN401 -- what it makes
        """Return what ``make`` returns: the child makes room by itself."""
        return make()

    def __getattr__(self, name: str) -> NoReturn:
        """Refuse what only the process has whose device it is."""
        raise not_here(f"device.{name}")


class IsolatedMemory:
    """The memory of a buffer in the child, moved through shared memory; raises as ``Child.ask``."""

    __slots__ = ("_handle",)

    def __init__(self, handle: Handle) -> None:
        """Be the memory of a buffer that the child has."""
        self._handle = handle

    @property
    def handle(self) -> Handle:
        """By which the child knows it."""
        return self._handle

    def write_range(self, offset: int, array: NDArray[Any], deadline: Deadline) -> None:
        """Copy a contiguous array in, from ``offset`` on."""
        arena = self._child.arena
        lease, place = None, arena.place_of(array)
        if place is None:
            lease = arena.lease(array.nbytes)
            copy_array(lease.array(array.shape, array.dtype), array)
            place = lease.offset
        source = ("array", place, (array.nbytes,), "|u1")
        self._ask("write", self._part(offset, array.nbytes), source, deadline, held=(lease, array))

    def read_range(self, offset: int, byte_len: int, deadline: Deadline, out: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Copy the bytes from ``offset`` on to ``out``."""
        arena = self._child.arena
        place = arena.place_of(out)
        if place is not None:
            self._ask("read", self._part(offset, byte_len), place_in_arena(place, out), deadline, held=out)
            return out
        lease = arena.lease(byte_len)
        found = lease.array((byte_len,), _BYTE)
        self._ask("read", self._part(offset, byte_len), place_in_arena(lease.offset, found), deadline, held=lease)
        copy_array(out, found)
        return out

    def fill_range(self, offset: int, byte_len: int, pattern: bytes, deadline: Deadline) -> None:
        """Fill with a pattern, over and over from ``offset`` on."""
        dtype = _FILLED_BY_NUMBERS.get(len(pattern))
        if dtype is None:
            fill_by_copies(self, offset, byte_len, pattern, deadline)  # type: ignore[arg-type] # it writes and copies ranges
            return
        part = place_in_buffer(self._handle.number, offset, (byte_len // dtype.itemsize,), dtype)
        self._ask("fill", part, int(np.frombuffer(pattern, dtype)[0]), deadline)

    def copy_range(self, source: IsolatedMemory, source_offset: int, offset: int, byte_len: int, deadline: Deadline) -> None:
        """Copy bytes of another buffer of the device, or of this one, to ``offset``."""
        self._ask("copy", source._part(source_offset, byte_len), self._part(offset, byte_len), deadline)

    @property
    def _child(self) -> Child:
        return self._handle.child

    def _part(self, offset: int, byte_len: int) -> tuple[Any, ...]:
        return place_in_buffer(self._handle.number, offset, (byte_len,), _BYTE)

    def _ask(self, step: str, first: object, second: object, deadline: Deadline, held: object = None) -> None:
        left = deadline.left_ns()
        timeout = None if left is None else left / _NS_PER_S
        self._child.ask(f"the {step} of a buffer", step, first, second, timeout, held=held, timeout=timeout)


def part_of(buffer: Any) -> tuple[Any, ...]:  # noqa: ANN401 -- a Buffer, whose memory is of a child
    """Return a resident buffer as it is sent; raises DispatchFailed where it is closed."""
    if not nbytes_of(buffer.shape, buffer.dtype):
        buffer.check_open()
        return place_in_buffer(0, 0, buffer.shape, buffer.dtype)
    return place_in_buffer(buffer.memory.handle.number, buffer.offset, buffer.shape, buffer.dtype)


def adopted(device: IsolatedDevice, memory: IsolatedMemory, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Buffer:
    """Return a buffer of memory that the child has made."""
    made = Buffer.__new__(Buffer)
    storage = Storage(memory)  # type: ignore[arg-type] # which stands for the child's
    made._set_facts(device, shape, dtype, "", 0)  # noqa: SLF001 -- as Buffer's own views are made
    made._set_storage(storage, storage.number, is_view=False)  # noqa: SLF001 -- the same
    return made


def not_here(what: str) -> UnsupportedFeature:
    """Return the error of what only a driver in this process has."""
    return UnsupportedFeature(
        f"an isolated driver works in another process, and has no {what} in this one", fix="use a Driver without isolated=True"
    )


_OF_CALLS = (EventKind.DISPATCH, EventKind.COMPLETE, EventKind.TUNE, EventKind.FAILURE)


class IsolatedRoom(Room):
    """What keeps buffers of the child between calls."""

    def empty(self) -> None:
        """Have all let go of what is not in use: it was in a process that is gone."""
        while self._let_go():
            pass


class DriverOfChild(Protocol):
    """An isolated driver, as its kernels and its context know it."""

    device: PhysicalDevice
    events: Events
    strict: bool
    room: IsolatedRoom

    def child(self) -> Child:
        """Return the process that is there."""

    def here(self) -> IsolatedDevice:
        """Return the device of that process."""

    def adopted(self, child: Child, number: int, _offset: int, shape: tuple[int, ...], dtype: Any) -> Buffer:  # noqa: ANN401 -- a type
        """Return a buffer that the child has made for the output of a call."""


class IsolatedContext:
    """What code above the driver finds of it."""

    def __init__(self, driver: DriverOfChild) -> None:
        """Be that of a driver."""
        self._driver = driver

    @property
    def device(self) -> IsolatedDevice:
        """The device of the process that is there; raises as ``IsolatedDriver.child``."""
        return self._driver.here()

    @property
    def room(self) -> IsolatedRoom:
        """What makes room on it, emptied where the process was replaced; raises as ``IsolatedDriver.child``."""
        self._driver.here()
        return self._driver.room

    @property
    def is_strict(self) -> bool:
        """Whether every call is checked."""
        return self._driver.strict

    def snapshot(self) -> dict[str, Any]:
        """Return what is known of the driver: of its process, and of calls what was counted in this one."""
        found: dict[str, Any] = self._driver.child().ask("the counters", "snapshot")
        ours, theirs = self._driver.events.snapshot(), found["events"]
        kinds = {**theirs["kinds"], **{kind.value: ours["kinds"][kind.value] for kind in _OF_CALLS}}
        return {**found, "events": {**ours, "kinds": kinds}}

    def __getattr__(self, name: str) -> NoReturn:
        """Refuse the rest: it is in the child."""
        raise not_here(f"context.{name}")
