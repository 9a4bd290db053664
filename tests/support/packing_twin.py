"""Values packed by a layout, number by number with ``struct``: what vyre_driver.binding packs must be these bytes."""

from __future__ import annotations

import itertools
import struct
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from vyre_driver.spirv.layout import Array, Matrix, Member, Scalar, Struct, Vector

if TYPE_CHECKING:
    from vyre_driver.spirv.layout import MemoryType

SCALARS = [
    Scalar("f", 16),
    Scalar("f", 32),
    Scalar("f", 64),
    *(Scalar(kind, bits) for kind in "ui" for bits in (8, 16, 32, 64)),
]
_LETTERS = {
    "f16": "e",
    "f32": "f",
    "f64": "d",
    "u8": "B",
    "i8": "b",
    "u16": "H",
    "i16": "h",
    "u32": "I",
    "i32": "i",
    "u64": "Q",
}


def write(memory: bytearray, start: int, found: MemoryType, value: Any) -> None:  # noqa: ANN401 -- nested lists and mappings
    """Write a value of nested lists and mappings to its place."""
    match found:
        case Scalar():
            struct.pack_into(f"<{_LETTERS.get(str(found), 'q')}", memory, start, value)
        case Vector(scalar, components):
            for at in range(components):
                write(memory, start + at * scalar.byte_len, scalar, value[at])
        case Matrix(scalar, columns, rows, stride, row_major):
            for row, column in itertools.product(range(rows), range(columns)):
                line, across = (row, column) if row_major else (column, row)
                write(memory, start + line * stride + across * scalar.byte_len, scalar, value[row][column])
        case Array(element, int(count), stride):
            for at in range(count):
                write(memory, start + at * stride, element, value[at])
        case Struct(_, members):
            for member in members:
                write(memory, start + member.offset, member.type, value[member.name])


def end_of(found: MemoryType) -> int:
    """Return the bytes that a type takes, with what pads the last line of a matrix or element of an array."""
    return (
        max((one.offset + end_of(one.type) for one in found.members), default=0)
        if isinstance(found, Struct)
        else found.byte_len
    )


@st.composite
def types(draw: st.DrawFn, depth: int = 2) -> MemoryType:
    """A type of any form, with gaps as no compiler leaves them."""
    scalar, gap = draw(st.sampled_from(SCALARS)), draw(st.sampled_from([0, 0, 1, 3, 8]))
    match draw(st.integers(0, 4 if depth else 2)):
        case 0:
            return scalar
        case 1:
            return Vector(scalar, draw(st.integers(2, 4)))
        case 2:
            columns, rows, row_major = draw(st.integers(2, 4)), draw(st.integers(2, 4)), draw(st.booleans())
            return Matrix(scalar, columns, rows, scalar.byte_len * (columns if row_major else rows) + gap, row_major)
        case 3:
            element = draw(types(depth - 1))
            return Array(element, draw(st.integers(1, 3)), end_of(element) + gap)
    return draw(structs(depth - 1))


@st.composite
def structs(draw: st.DrawFn, depth: int = 2) -> Struct:
    """A structure whose members are placed in any order."""
    members, end = [], 0
    for name in draw(st.permutations("abc"))[: draw(st.integers(1, 3))]:
        member = Member(name, end + draw(st.sampled_from([0, 0, 1, 4])), draw(types(depth)))
        members.append(member)
        end = member.offset + end_of(member.type)
    return Struct("S", tuple(draw(st.permutations(members))), end)


@st.composite
def values(draw: st.DrawFn, found: MemoryType) -> Any:  # noqa: ANN401 -- nested lists and mappings
    """A value that fits the type."""
    match found:
        case Scalar("f"):
            return draw(st.floats(width=found.bits, allow_nan=False))
        case Scalar(kind, bits):
            low = -(1 << bits - 1) if kind == "i" else 0
            return draw(st.integers(low, low + (1 << bits) - 1))
        case Vector(scalar, components):
            return [draw(values(scalar)) for _ in range(components)]
        case Matrix(scalar, columns, rows):
            return [[draw(values(scalar)) for _ in range(columns)] for _ in range(rows)]
        case Array(element, int(count)):
            return [draw(values(element)) for _ in range(count)]
        case Struct(_, members):
            return {member.name: draw(values(member.type)) for member in members}
    raise TypeError(found)


def plain(array: Any) -> Any:  # noqa: ANN401 -- of numpy, or nested lists and mappings
    """Return an array of any type as nested lists and mappings."""
    names = array.dtype.names
    if names is None:
        return array.tolist()
    if array.shape:
        return [plain(one) for one in array]
    return {name: plain(array[name]) for name in names}
