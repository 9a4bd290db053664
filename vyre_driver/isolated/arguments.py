"""Arguments of a call made ready for the child: arrays are written to shared memory, once, unless they lie there.

Of calls of a form that has been seen only offsets and numbers travel, and outputs are written where they are wanted. A form is
what of a call stays the same while its contents change: shapes and types of its arrays, the names of its numbers, its grid. The
first call of a form says it all, and tells how large the outputs are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from vyre_driver.binding.arguments import as_array, raw_bytes
from vyre_driver.errors import InvalidInput
from vyre_driver.isolated.arena import VALUE, Encoded, copy_array, dtype_of, nbytes_of, place_in_arena
from vyre_driver.isolated.device import part_of
from vyre_driver.kompute.buffer import Buffer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from vyre_driver.isolated.arena import Arena, Lease
    from vyre_driver.isolated.process import Child, Handle

_SENT_AS_THEY_ARE = (bool, int, float, complex, str, list, tuple, np.generic, type(None), Mapping, np.ma.MaskedArray)


class Sent:
    """The arguments of one call as they are sent, and what has to stay as it is until the answer has come."""

    __slots__ = ("_child", "arrays", "copied_back", "held", "named", "objects")

    def __init__(self, child: Child, arrays: Sequence[object], named: Mapping[str, object]) -> None:
        """Write arrays to shared memory.

        Raises
        ------
        InvalidInput
            If a buffer is of another driver, or an array is none.
        DispatchFailed
            If a buffer is closed, or no shared memory is left.
        """
        self._child = child
        self.held: list[object] = []
        self.objects: list[object] = [*arrays, *named.values()]
        self.copied_back: list[tuple[NDArray[Any], NDArray[Any]]] = []
        self.arrays = [self._argument(one) for one in arrays]
        self.named = {name: self._argument(one) for name, one in named.items()}

    def target(self, given: object) -> Encoded | None:
        """Return what is written as it is sent; an array elsewhere is written by ``finish``."""
        if given is None:
            return None
        self.objects.append(given)
        if isinstance(given, Buffer):
            return self._buffer(given)
        if not isinstance(given, np.ndarray) or given.dtype.hasobject:
            return (VALUE, given)
        if not given.flags.c_contiguous or not given.flags.writeable:
            problem = "cannot be written to" if given.flags.c_contiguous else "is not contiguous"
            raise InvalidInput(f"out= {problem}", fix="give a contiguous array that can be written to, and copy from that")
        place = self._child.arena.place_of(given)
        if place is not None:
            self.held.append(given)
            return place_in_arena(place, given)
        found, sent = self.room(given.shape, given.dtype)
        self.copied_back.append((given, found))
        return sent

    def room(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> tuple[NDArray[Any], Encoded]:
        """Return an array of shared memory, and how it is sent."""
        lease = self._child.arena.lease(nbytes_of(shape, dtype))
        found = lease.array(shape, dtype)
        self.held.append(found)
        return found, place_in_arena(lease.offset, found)

    def finish(self) -> None:
        """Write to the targets outside the shared memory what the child has left for them."""
        for target, found in self.copied_back:
            copy_array(target, found)

    def _argument(self, given: object) -> Encoded:
        if type(given) is not np.ndarray:
            if isinstance(given, Buffer):
                return self._buffer(given)
            if isinstance(given, _SENT_AS_THEY_ARE):
                return (VALUE, given)
            raw = raw_bytes(given)
            if raw is not None:
                return (VALUE, raw.tobytes())  # the kernel gives bytes the type of their buffer
            given = as_array(given)
        if given.dtype.hasobject:
            return (VALUE, given)
        place = self._child.arena.place_of(given)
        if place is not None and given.flags.c_contiguous:
            self.held.append(given)
            return place_in_arena(place, given)
        copy, sent = self.room(given.shape, given.dtype)
        copy_array(copy, given)
        return sent

    def _buffer(self, given: Buffer) -> Encoded:
        """Return a resident buffer as it is sent; raises InvalidInput for one of another driver."""
        device: Any = given.device
        given.check_open()
        if getattr(device, "child", None) is not self._child:
            raise InvalidInput(
                f"{given.described} is of another driver than the kernel", fix="make it by the driver that compiled the kernel"
            )
        self.held.append(given)
        return part_of(given)


_ALIGNED = 256
_MOST_VIEWS = 64
_SMALL_BYTES = 1 << 14  # of all arrays of a call: to copy so many takes less time than to give a result a place of its own
_MOST_AREAS = 8
_GRID = frozenset({"workgroups", "invocations"})


def form_key(
    arrays: Sequence[object], named: Mapping[str, object], options: Mapping[str, Any], out: Sequence[object]
) -> tuple[object, ...] | None:
    """Return what tells a form from others; None for a call that is not plain arrays, numbers and a grid."""
    found: list[object] = [len(arrays)]
    for one in arrays:
        if type(one) is not np.ndarray:
            return None
        found += (one.shape, one.dtype)
    for one in out:
        if type(one) is not np.ndarray or not one.flags.c_contiguous or not one.flags.writeable:
            return None
        found += (one.shape, one.dtype)
    if not _add_numbers(found, named) or (options and not _add_options(found, options)):
        return None
    return tuple(found)


def _add_numbers(found: list[object], numbers: object) -> bool:
    """Add the names of numbers to a key; returns False where they are not all numbers of Python."""
    if type(numbers) is not dict:
        return False
    found += (len(numbers), *numbers)
    return not any(type(value) is not int and type(value) is not float for value in numbers.values())


def _add_options(found: list[object], options: Mapping[str, Any]) -> bool:
    """Add the grid and the names of push constants to a key; returns False where there is more, or other kinds of them."""
    for name, value in options.items():
        if name in _GRID:
            # Only integers: 2.0 and True are refused, and are equal keys to 2 and 1.
            if type(value) is not int and (type(value) is not tuple or any(type(axis) is not int for axis in value)):
                return False
            found += (name, value)
        elif name == "push_constants":
            if not _add_numbers(found, value):
                return False
        elif name != "timeout":
            return False
    return True


class _Area(NamedTuple):
    """Shared memory for all arrays of a small call, which one call at a time has."""

    lease: Lease
    places: tuple[int, ...]
    inputs: list[NDArray[Any]]
    outputs: list[NDArray[Any]]


class Form:
    """A form of one kernel in one child, which knows it by a number. Used by several threads."""

    __slots__ = ("_areas", "_inputs", "_is_small", "_number", "_outputs", "_views", "nbytes")

    def __init__(self, number: int, arrays: Sequence[NDArray[Any]], outputs: Sequence[NDArray[Any]]) -> None:
        """Be the form of a call with these arrays, which gave these outputs."""
        self._number = number
        self._inputs: list[tuple[int, tuple[int, ...], np.dtype[Any]]] = []
        self.nbytes = 0
        for one in arrays:
            self._inputs.append((self.nbytes, one.shape, one.dtype))
            self.nbytes = (self.nbytes + one.nbytes + _ALIGNED - 1) & -_ALIGNED
        self._outputs = [(one.shape, one.dtype, nbytes_of(one.shape, one.dtype)) for one in outputs]
        self._views: dict[int, list[NDArray[Any]]] = {}
        self._areas: list[_Area] = []  # which no call has
        self._is_small = self.nbytes + sum(nbytes + _ALIGNED for _, _, nbytes in self._outputs) <= _SMALL_BYTES

    def told(self) -> tuple[list[tuple[tuple[int, ...], Any]], list[tuple[tuple[int, ...], Any]]]:
        """Return the shapes and types of its inputs and outputs, as they are sent."""
        inputs = [(shape, dtype_of(dtype)) for _, shape, dtype in self._inputs]
        return inputs, [(shape, dtype_of(dtype)) for shape, dtype, _ in self._outputs]

    def call(  # noqa: PLR0913 -- a call, taken apart
        self,
        kernel: Handle,
        what: str,
        arrays: Sequence[NDArray[Any]],
        numbers: tuple[float, ...],
        out: Sequence[NDArray[Any]],
        timeout: float | None,
    ) -> list[NDArray[Any]]:
        """Call the kernel, and return the outputs, which are those of ``out`` where it gives them; raises as ``Child.ask``."""
        if self._is_small:
            return self._call_small(kernel, what, arrays, numbers, out, timeout)
        arena = kernel.child.arena
        lease = None
        places: list[int] = []
        views: Sequence[NDArray[Any]] = ()
        for place, one in enumerate(arrays):
            offset = None if one.base is None or not one.flags.c_contiguous else arena.place_of(one)
            if offset is not None:
                places.append(offset)
                continue
            if lease is None:
                lease = arena.lease(self.nbytes)
                views = self._views.get(lease.offset) or self._viewed(lease)
            copy_array(views[place], one)
            places.append(lease.offset + self._inputs[place][0])
        targets = [self._target(arena, place, out) for place in range(len(self._outputs))]
        places += [place for place, _ in targets]
        outputs = [found for _, found in targets]
        held, call = (lease, arrays, outputs), (kernel.number, self._number, tuple(places), numbers, timeout)
        kernel.child.ask(what, "again", *call, held=held, timeout=timeout)
        for target, found in zip(out, outputs, strict=False):
            if target is not found:
                copy_array(target, found)
        return list(out) if out else outputs

    def _call_small(  # noqa: PLR0913 -- as ``call``
        self,
        kernel: Handle,
        what: str,
        arrays: Sequence[NDArray[Any]],
        numbers: tuple[float, ...],
        out: Sequence[NDArray[Any]],
        timeout: float | None,
    ) -> list[NDArray[Any]]:
        """Call it with copies of all arrays in an area that is kept for the next call.

        An area whose call was broken off is not used again: it goes back when the child is done with it.
        """
        try:
            area = self._areas.pop()
        except IndexError:  # each has its call
            area = self._new_area(kernel.child.arena)
        for copy, one in zip(area.inputs, arrays, strict=True):
            copy[...] = one
        call = kernel.number, self._number, area.places, numbers, timeout
        kernel.child.ask(what, "again", *call, held=area, timeout=timeout)
        if out:
            for target, found in zip(out, area.outputs, strict=True):
                target[...] = found
            outputs = list(out)
        else:
            outputs = [found.copy() for found in area.outputs]
        if len(self._areas) < _MOST_AREAS:
            self._areas.append(area)
        return outputs

    def _new_area(self, arena: Arena) -> _Area:
        lease = arena.lease(_SMALL_BYTES)
        places = [lease.offset + begin for begin, _, _ in self._inputs]
        inputs = [arena.array(lease.offset + begin, shape, dtype) for begin, shape, dtype in self._inputs]
        outputs = []
        begin = self.nbytes
        for shape, dtype, nbytes in self._outputs:
            places.append(lease.offset + begin)
            outputs.append(arena.array(places[-1], shape, dtype))
            begin += -(-nbytes // _ALIGNED) * _ALIGNED
        return _Area(lease, tuple(places), inputs, outputs)

    def _target(self, arena: Arena, number: int, out: Sequence[NDArray[Any]]) -> tuple[int, NDArray[Any]]:
        """Return where an output is written, and the array there: that of ``out`` where it lies in the shared memory."""
        place = arena.place_of(out[number]) if out else None
        if place is not None:
            return place, out[number]
        shape, dtype, nbytes = self._outputs[number]
        room = arena.lease(nbytes)
        return room.offset, room.array(shape, dtype)

    def _viewed(self, lease: Lease) -> list[NDArray[Any]]:
        """Return the inputs at a lease's place as arrays that do not hold it: only the holder of the place writes to them."""
        if len(self._views) >= _MOST_VIEWS:
            self._views.clear()
        found = [lease.arena.array(lease.offset + begin, shape, dtype) for begin, shape, dtype in self._inputs]
        self._views[lease.offset] = found
        return found
