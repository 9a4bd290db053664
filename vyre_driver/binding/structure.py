"""numpy's view of a buffer: the types of its elements, and copies between arrays of values and the bytes of memory.

An array of values has what a caller thinks in: a ``vec3`` is three numbers, a matrix has the shape (rows, columns) however the
shader lays it out. Any such number lies at regular distances in memory, so each member is one strided view of the bytes.

Source: SPIR-V 1.6, 2.16.2 (Offset, ArrayStride, MatrixStride, RowMajor).
"""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from vyre_driver.spirv.layout import Array, Matrix, Member, Numbers, Scalar, Struct, Vector, numbers_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from numpy.typing import NDArray

    from vyre_driver.spirv.layout import MemoryType

    Axes = tuple[tuple[int, int], ...]  # (count, stride in bytes) of each
    Memory = memoryview | NDArray[np.uint8]


class Misfit(NamedTuple):
    """Where an array's type is not that of the values, and both."""

    path: str
    expected: str
    received: str


@dataclass(frozen=True, slots=True)
class Elements:
    """Values of one type in memory, ``stride`` bytes apart.

    ``dtype`` is numpy's type of a structure, or of each of the numbers, which have ``shape`` then. ``is_memory`` says that an
    array of them lies as the memory does, byte for byte.
    """

    type: MemoryType
    stride: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    is_memory: bool

    @property
    def is_structure(self) -> bool:
        """Whether an element is a structure."""
        return isinstance(self.type, Struct)

    def pack(self, values: NDArray[Any]) -> NDArray[np.uint8]:
        """Return the bytes of an array of values; the axes before those of an element are counted through."""
        count = self._count(values.shape)
        memory = np.zeros(count * self.stride, np.uint8)
        for inside, given in _parts(self.type, memory, 0, ((count, self.stride),), values.reshape(count, *self.shape)):
            inside[...] = given
        return memory

    def unpack(self, memory: NDArray[Any], shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
        """Return the values in bytes, as an array of this shape and type; the reverse of ``pack``."""
        values, count = np.zeros(shape, dtype), self._count(shape)
        flat = np.ascontiguousarray(memory).reshape(-1).view(np.uint8)
        for inside, wanted in _parts(self.type, flat, 0, ((count, self.stride),), values.reshape(count, *self.shape)):
            wanted[...] = inside
        return values

    def padding(self) -> NDArray[np.bool_]:
        """Return which bytes of an element no value lies in."""
        memory = np.ones(self.stride, np.uint8)
        values = np.zeros((1, *self.shape), self.dtype)
        for inside, _ in _parts(self.type, memory, 0, ((1, self.stride),), values):
            inside[...] = 0
        return memory.astype(np.bool_)

    def _count(self, shape: tuple[int, ...]) -> int:
        return math.prod(shape[: len(shape) - len(self.shape)])


@dataclass(frozen=True, slots=True)
class BufferLayout:
    """The layout of a buffer by its block: a header of members, then ``elements``; ``count`` is None for a run-time array."""

    block: Struct
    elements: Elements
    header_bytes: int
    count: int | None

    @property
    def is_one_array(self) -> bool:
        """Whether the buffer is an array and nothing else."""
        return self.elements.type is not self.block and not self.header_bytes and isinstance(self.block.members[0].type, Array)

    def sized(self, count: int) -> Struct:
        """Return the block with so many elements in place of those that run time decides."""
        if self.count is not None:
            return self.block
        *before, last = self.block.members
        array = Array(self.elements.type, count, self.elements.stride)
        return replace(
            self.block,
            members=(*before, replace(last, type=array)),
            byte_len=self.header_bytes + count * self.elements.stride,
        )

    def padding(self, byte_len: int) -> NDArray[np.bool_] | None:
        """Return which bytes of a buffer of so many no value lies in; None where it has none but values."""
        element = self.elements.padding()
        first = self.whole(1) if self.header_bytes else None
        header = np.zeros(self.header_bytes, np.bool_) if first is None else first.padding()[: self.header_bytes]
        if not (element.any() or header.any()):
            return None
        return np.concatenate([header, np.tile(element, (byte_len - self.header_bytes) // self.elements.stride)])

    def whole(self, count: int) -> Elements | None:
        """Return the buffer with so many elements as one value; None if it is too large for a type of numpy."""
        block = self.sized(count)
        return _elements(block, block.byte_len)


class ResultForm(NamedTuple):
    """How an output is read: as an array of ``shape`` and ``dtype``, of which ``finish`` makes what the caller gets."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    elements: Elements | None = None
    values: tuple[tuple[int, ...], np.dtype[Any]] = ((), np.dtype(np.uint8))

    @property
    def returned(self) -> tuple[tuple[int, ...], np.dtype[Any]]:
        """Shape and type of what the caller gets."""
        return (self.shape, self.dtype) if self.elements is None else self.values

    def finish(self, read: NDArray[Any]) -> NDArray[Any]:
        """Return the caller's array: the values in the bytes that were read, or what was read."""
        return read if self.elements is None else self.elements.unpack(read, *self.values)


@functools.lru_cache(256)
def layout_of(block: Struct) -> BufferLayout | None:
    """Return the layout of a buffer; None where numpy or names cannot express it, and only bytes will do."""
    last = block.members[-1]
    is_array = isinstance(last.type, Array) and (last.type.is_open or len(block.members) == 1)
    if not _is_sound(_closed(block) if is_array else block):
        return None
    count: int | None = 1
    if isinstance(last.type, Array) and is_array:
        element, stride, header = last.type.element, last.type.stride, last.offset
        count = None if last.type.is_open else last.type.count
    elif len(block.members) == 1 and last.offset == 0 and numbers_of(last.type) is not None:
        element, stride, header = last.type, block.byte_len, 0
    else:
        element, stride, header = block, block.byte_len, 0
    elements = _elements(element, stride)
    return None if elements is None else BufferLayout(block, elements, header, count)


def _closed(block: Struct) -> Struct:
    """Return a block with one element in its array: the rest of it is judged alike."""
    *before, last = block.members
    found = last.type
    one = replace(last, type=Array(found.element, 1, found.stride)) if isinstance(found, Array) else last
    return replace(block, members=(*before, one))


def _elements(found: MemoryType, stride: int) -> Elements | None:
    numbers = numbers_of(found)
    try:
        dtype = _value_dtype(found, stride) if numbers is None else np.dtype(numbers.scalar.dtype)
    except ValueError:  # it takes 2 GiB or more, or has more axes than numpy knows
        return None
    shape = () if numbers is None else numbers.shape
    size = dtype.itemsize * math.prod(shape)
    return Elements(found, stride, dtype, shape, size == stride and _is_memory(found))


def _value_dtype(found: MemoryType, stride: int) -> np.dtype[Any]:
    numbers = numbers_of(found)
    if numbers is not None:
        return np.dtype((numbers.scalar.dtype, numbers.shape))
    if isinstance(found, Struct):
        return _structure_dtype(found, stride)
    axes, element, inner = _axes(found)
    return np.dtype((_value_dtype(element, inner), tuple(count for count, _ in axes)))


def _structure_dtype(found: Struct, stride: int) -> np.dtype[Any]:
    """Return numpy's type of a structure: ``stride`` bytes, or more, as numpy pads the last element of an array too."""
    formats = [_value_dtype(one.type, _extent(one.type)) for one in found.members]
    offsets = [one.offset for one in found.members]
    ends = [offset + dtype.itemsize for offset, dtype in zip(offsets, formats, strict=True)]
    names = [one.name for one in found.members]
    return np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": max(stride, *ends)})


def _axes(found: MemoryType) -> tuple[Axes, MemoryType, int]:
    """Return the axes of an array of structures, the structure, and the stride of the innermost."""
    axes: list[tuple[int, int]] = []
    while isinstance(found, Array):
        axes.append((found.count or 0, found.stride))
        found = found.element
    return tuple(axes), found, axes[-1][1]


def _extent(found: MemoryType) -> int:
    """Return where the last value ends: another member may begin in the padding after it."""
    match found:
        case Matrix(scalar, columns, rows, stride, row_major):
            lines, across = (rows, columns) if row_major else (columns, rows)
            return (lines - 1) * stride + across * scalar.byte_len
        case Array(element, int(count), stride):
            return (count - 1) * stride + _extent(element)
        case Struct(_, members):
            return max(member.offset + _extent(member.type) for member in members)
    return found.byte_len


def _is_sound(found: MemoryType) -> bool:
    """Whether each value has a place and a name of its own, and a type that numpy knows."""
    match found:
        case Scalar() | Vector():
            scalar = found if isinstance(found, Scalar) else found.scalar
            return scalar.dtype is not None
        case Matrix(scalar, columns, rows, stride, row_major):
            return scalar.dtype is not None and stride >= scalar.byte_len * (columns if row_major else rows)
        case Array(element, int(count), stride, False):
            return count > 0 and _is_sound(element) and stride >= _extent(element)
        case Struct(_, members) if members:
            return (
                len({one.name for one in members}) == len(members)
                and all(_is_sound(one.type) for one in members)
                and _are_apart(members)
            )
    return False


def _are_apart(members: tuple[Member, ...]) -> bool:
    placed = sorted(members, key=lambda one: one.offset)
    return all(one.offset + _extent(one.type) <= after.offset for one, after in itertools.pairwise(placed))


def _strides(found: MemoryType) -> tuple[int, ...]:
    """Return the bytes from one number to the next along each axis of ``numbers_of``."""
    match found:
        case Vector(scalar):
            return (scalar.byte_len,)
        case Matrix(scalar, _, _, stride, row_major):
            return (stride, scalar.byte_len) if row_major else (scalar.byte_len, stride)
        case Array(element, _, stride):
            return (stride, *_strides(element))
    return ()


def _is_memory(found: MemoryType) -> bool:
    """Whether the numbers of a type lie in memory as numpy places those of its values."""
    numbers = numbers_of(found)
    if numbers is not None:
        following = [numbers.scalar.byte_len * math.prod(numbers.shape[at + 1 :]) for at in range(len(numbers.shape))]
        return _strides(found) == tuple(following)
    if isinstance(found, Struct):
        return all(_is_memory(member.type) for member in found.members)
    axes, element, stride = _axes(found)
    following = [stride * math.prod(count for count, _ in axes[at + 1 :]) for at in range(len(axes))]
    return [step for _, step in axes] == following and _is_memory(element)


def view_of(memory: Memory, start: int, found: MemoryType, numbers: Numbers, outer: Axes = ()) -> NDArray[Any]:
    """Return the numbers of a type at a place in memory, below the axes ``outer``."""
    shape = (*(count for count, _ in outer), *numbers.shape)
    if 0 in shape:  # numpy asks for memory even then
        return np.empty(shape, numbers.scalar.dtype)
    strides = (*(stride for _, stride in outer), *_strides(found))
    return np.ndarray(shape, numbers.scalar.dtype, memory, start, strides)


def write_structures(memory: Memory, start: int, found: MemoryType, values: NDArray[Any]) -> None:
    """Write a structure or an array of structures, whose fields fit, to its place in memory."""
    for inside, given in _parts(found, memory, start, (), values):
        inside[...] = given


def _parts(
    found: MemoryType, memory: Memory, start: int, outer: Axes, values: NDArray[Any]
) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
    """Give the numbers of each member, in memory and in an array of values."""
    numbers = numbers_of(found)
    if numbers is not None:
        yield view_of(memory, start, found, numbers, outer), values
    elif isinstance(found, Struct):
        for member in found.members:
            yield from _parts(member.type, memory, start + member.offset, outer, values[member.name])
    else:
        axes, element, _ = _axes(found)
        yield from _parts(element, memory, start, (*outer, *axes), values)


def shape_of(found: MemoryType) -> tuple[int, ...]:
    """Return the axes of a structure (none) or of an array of structures."""
    return tuple(count for count, _ in _axes(found)[0]) if isinstance(found, Array) else ()


def misfit_of(found: MemoryType, dtype: np.dtype[Any], path: str = "") -> Misfit | None:
    """Return where the fields of a type differ from the members of a structure, or None; places and order do not count."""
    numbers = numbers_of(found)
    if numbers is not None:
        expected = np.dtype((numbers.scalar.dtype, numbers.shape))
        return None if dtype == expected else Misfit(path, str(expected), str(dtype))
    if isinstance(found, Array):
        shape = shape_of(found)
        if dtype.shape != shape:
            return Misfit(path, f"an array of shape {shape}", f"one of shape {dtype.shape}")
        found = _axes(found)[1]
    fields: Mapping[str, Any] = dtype.base.fields or {}
    names = {member.name for member in found.members} if isinstance(found, Struct) else set()
    if set(fields) != names:
        return Misfit(path, f"the fields {_quoted(names)}", f"{_quoted(fields) if fields else dtype}")
    members = found.members if isinstance(found, Struct) else ()
    inner = (misfit_of(one.type, fields[one.name][0], f"{path}.{one.name}" if path else one.name) for one in members)
    return next((one for one in inner if one is not None), None)


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(sorted(repr(str(name)) for name in names))
