"""Calls of a form that has been seen: only offsets and numbers travel, and outputs are written where they are wanted.

A form is what of a call stays the same while its contents change: shapes and types of its arrays, the names of its numbers, its
grid. The first call of a form says it all, and tells how large the outputs are (:mod:`vyre_driver.isolated.arguments`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from vyre_driver.isolated.arena import copy_array, nbytes_of
from vyre_driver.isolated.places import dtype_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from vyre_driver.isolated.arena import Arena, Lease
    from vyre_driver.isolated.process import Handle

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
