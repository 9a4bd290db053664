"""Memory layouts: scalars, vectors, matrices, arrays and structures, with offsets and strides in bytes.

Plain frozen values, made by types.py of a module's types; ``str`` of each is what a signature shows, for example
``vec4<f32>[3][n]``, where ``n`` is a length that run time decides.

Source: SPIR-V 1.6, 2.16.2 (explicit layout decorations Offset, ArrayStride, MatrixStride).
"""

from __future__ import annotations

import math
import operator
import struct
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, Union

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

_MAX_SHOWN = 32
_FLOAT_FORMATS = {16: "<e", 32: "<f", 64: "<d"}
# Floats that numpy does not have: kind -> its name, and ml_dtypes' name of the same numbers.
_ENCODED = {"bf": ("bf16", "bfloat16"), "e4m3": ("f8e4m3", "float8_e4m3fn"), "e5m2": ("f8e5m2", "float8_e5m2")}


@dataclass(frozen=True, slots=True)
class Scalar:
    """A scalar type: ``kind`` is ``u``, ``i``, ``f`` or ``b`` (bool), ``bits`` its width (32 for bool).

    Of the floats that numpy does not have ``kind`` is ``bf`` (bfloat16), ``e4m3`` or ``e5m2`` (float8); arrays hold their bits.
    """

    kind: str
    bits: int

    def __str__(self) -> str:
        """Return the short name, for example ``f32``."""
        if self.kind in _ENCODED:
            return _ENCODED[self.kind][0]
        return "bool" if self.kind == "b" else f"{self.kind}{self.bits}"

    @property
    def byte_len(self) -> int:
        """Bytes that a value takes in a buffer."""
        return self.bits // 8

    @property
    def dtype(self) -> str | None:
        """The numpy type string of the scalar in a buffer, of an encoded float's bits; None for bool, which has no layout."""
        return None if self.kind == "b" else f"<{'u' if self.is_encoded else self.kind}{self.bits // 8}"

    @property
    def is_encoded(self) -> bool:
        """Whether it is a float that numpy does not have, so that arrays hold its bits as unsigned words."""
        return self.kind in _ENCODED

    @property
    def of_ml_dtypes(self) -> str | None:
        """What ml_dtypes calls such numbers; None for those that numpy has itself."""
        return _ENCODED[self.kind][1] if self.kind in _ENCODED else None

    @property
    def stored(self) -> Scalar:
        """What it is in memory as numpy sees it: a bool that a program pushes is a word, an encoded float its bits."""
        return Scalar("u", self.bits) if self.kind == "b" or self.is_encoded else self

    def has_bits_in(self, dtype: np.dtype[Any]) -> bool:
        """Whether a type of numpy holds an encoded float's bits: unsigned words of its width, or ml_dtypes' type for it.

        That one is known by its name: only with ml_dtypes can there be an array of it.
        """
        is_own = dtype.name == self.of_ml_dtypes and dtype.itemsize == self.byte_len
        return self.is_encoded and (is_own or dtype == np.dtype(self.dtype))

    def encode(self, value: object) -> int:
        """Return the bits that stand for ``value``.

        Integer types take integers in range, floats any real number in range, bools only True and False. Encoded floats take
        numpy's scalars that hold their bits, for nothing tells whether an integer is one's value or its bits.

        Raises
        ------
        TypeError
            If the value is of another kind (a float for an integer, a number for a bool).
        OverflowError
            If it is out of range.
        """
        if self.kind == "b":
            if not isinstance(value, (bool, np.bool_)):
                raise TypeError(f"{value!r} is not True or False")
            return int(value)
        if self.is_encoded:
            if not isinstance(value, np.generic) or not self.has_bits_in(value.dtype):
                raise TypeError(
                    f"{value!r} does not have the bits of one (ml_dtypes.{self.of_ml_dtypes}, numpy.uint{self.bits})"
                )
            return int.from_bytes(value.tobytes(), sys.byteorder)
        if isinstance(value, (bool, np.bool_)):
            raise TypeError(f"{value!r} is a truth value, not a number")
        if self.kind == "f":
            if not isinstance(value, (int, float, np.integer, np.floating)):
                raise TypeError(f"{value!r} is not a real number")
            return int.from_bytes(struct.pack(_FLOAT_FORMATS[self.bits], float(value)), "little")
        return self._encode_integer(operator.index(value))  # type: ignore[arg-type]

    def parse(self, text: str) -> int | float | bool:
        """Return the value that a user's text means: ``12``, ``0xff``, ``-1``, ``2.5``, ``true``.

        Raises
        ------
        ValueError
            If the text is no such value; its range is checked by ``encode``.
        """
        if self.kind == "b":
            if text.lower() not in {"true", "false", "1", "0"}:
                raise ValueError(f"{text!r} is not true or false")
            return text.lower() in {"true", "1"}
        return float(text) if self.kind == "f" else int(text, 0)

    def _encode_integer(self, value: int) -> int:
        high = (1 << self.bits - (self.kind == "i")) - 1
        low = -high - 1 if self.kind == "i" else 0
        if not low <= value <= high:
            raise OverflowError(f"{value} is not between {low} and {high}")
        return value & (1 << self.bits) - 1


@dataclass(frozen=True, slots=True)
class Vector:
    """``components`` scalars one after the other."""

    scalar: Scalar
    components: int

    def __str__(self) -> str:
        """Return for example ``vec4<f32>``."""
        return f"vec{self.components}<{self.scalar}>"

    @property
    def byte_len(self) -> int:
        """Bytes that a value takes."""
        return self.scalar.byte_len * self.components


@dataclass(frozen=True, slots=True)
class Matrix:
    """``columns`` vectors of ``rows`` scalars; ``stride`` is bytes from one column to the next, or row if ``row_major``.

    Rows and columns are those of the source: HLSL's ``float2x3`` has 2 rows, and SPIR-V calls them columns.
    """

    scalar: Scalar
    columns: int
    rows: int
    stride: int
    row_major: bool

    def __str__(self) -> str:
        """Return for example ``mat4x3<f32>``: four columns of three."""
        return f"mat{self.columns}x{self.rows}<{self.scalar}>"

    @property
    def byte_len(self) -> int:
        """Bytes that a value takes, with what pads its rows or columns."""
        return (self.rows if self.row_major else self.columns) * self.stride


@dataclass(frozen=True, slots=True)
class Array:
    """Elements at multiples of ``stride`` bytes; ``count`` is None for a run-time array.

    ``is_specialized`` says that specialization constants decide the count, which is of their defaults then, or None where it
    cannot be determined.
    """

    element: MemoryType
    count: int | None
    stride: int
    is_specialized: bool = False

    def __str__(self) -> str:
        """Return the element with the counts of all dimensions, the outermost first."""
        base, counts = self.element, [self]
        while isinstance(base, Array):
            counts.append(base)
            base = base.element
        return f"{base}{''.join('[n]' if one.is_open else f'[{one.count}]' for one in counts)}"

    @property
    def is_open(self) -> bool:
        """Whether the module fixes no count."""
        return self.count is None or self.is_specialized

    @property
    def byte_len(self) -> int:
        """Bytes that all elements take; 0 for a run-time array."""
        return (self.count or 0) * self.stride


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a structure, ``offset`` bytes from its start; what decorations leave open to the shader."""

    name: str
    offset: int
    type: MemoryType
    readable: bool = True
    writable: bool = True


@dataclass(frozen=True, slots=True)
class Struct:
    """A structure; ``byte_len`` is the end of its last member, without padding and with a run-time array counted as none."""

    name: str
    members: tuple[Member, ...]
    byte_len: int

    def __str__(self) -> str:
        """Return its name."""
        return shown(self.name) or "struct"

    @property
    def text(self) -> str:
        """Its members, 32 at most: the type alone of an only one at offset 0, else as in ``{size: u32, data: f32[n]}``."""
        if len(self.members) == 1 and self.members[0].offset == 0:
            return str(self.members[0].type)
        members = [f"{shown(one.name)}: {one.type}" for one in self.members[:_MAX_SHOWN]]
        left = len(self.members) - len(members)
        return f"{{{', '.join(members)}{f', and {left} more' if left else ''}}}"


@dataclass(frozen=True, slots=True)
class Address:
    """A 64-bit device address (``PhysicalStorageBuffer``)."""

    @property
    def byte_len(self) -> int:
        """Bytes that an address takes."""
        return 8

    def __str__(self) -> str:
        """Return ``address``."""
        return "address"


MemoryType: TypeAlias = Union[Scalar, Vector, Matrix, Array, Struct, Address]  # noqa: UP007 -- Array is named before it is there


def shown(name: str) -> str:
    """Return a module's name for a line of text: what a terminal would obey is escaped."""
    return name if name.isprintable() else name.encode("unicode_escape").decode("ascii")


@dataclass(frozen=True, slots=True)
class Padded:
    """An element with bytes in it, or after it, that no value lies in: its type, and where one begins and the next.

    ``stride`` is bytes from one element to the next, ``value_bytes`` how many of them are values. ``scalar`` is the type of all
    the numbers, None where there are several.
    """

    type: MemoryType
    stride: int
    value_bytes: int
    scalar: Scalar | None


@dataclass(frozen=True, slots=True)
class Element:
    """One element of a buffer.

    ``stride`` is bytes from one element to the next. ``scalar`` and ``components`` say that an element is so many tightly
    packed scalars; ``scalar`` is None for structures and padded types, which travel as raw bytes. ``padded`` describes those
    that are padded, by what the shader calls an element; of several views, the first that is.
    """

    stride: int
    scalar: Scalar | None
    components: int
    padded: Padded | None = field(default=None, compare=False)


def packed(found: MemoryType) -> tuple[Scalar, int] | None:
    """Return (scalar, how many) when a type is nothing but tightly packed scalars of one kind, else None."""
    match found:
        case Scalar():
            return found, 1
        case Vector(scalar, components):
            return scalar, components
        case Array(element, int(count), stride, False):
            inner = packed(element)
            if inner is not None and stride == inner[0].byte_len * inner[1]:
                return inner[0], inner[1] * count
    return None


def scalars_of(found: MemoryType) -> tuple[int, frozenset[Scalar]]:
    """Return how many bytes of a type are values, and of which types they are; an array without a count has one element."""
    match found:
        case Scalar():
            return found.byte_len, frozenset({found})
        case Vector(scalar):
            return found.byte_len, frozenset({scalar})
        case Matrix(scalar, columns, rows):
            return scalar.byte_len * columns * rows, frozenset({scalar})
        case Array(element, count):
            size, kinds = scalars_of(element)
            return size * (count or 1), kinds
        case Struct(_, members):
            parts = [scalars_of(member.type) for member in members]
            return sum(size for size, _ in parts), frozenset().union(*(kinds for _, kinds in parts))
    return found.byte_len, frozenset()


def _padded(found: MemoryType, stride: int) -> Padded | None:
    value_bytes, kinds = scalars_of(found)
    return Padded(found, stride, value_bytes, next(iter(kinds)) if len(kinds) == 1 else None) if value_bytes < stride else None


def element_of(array: Array) -> Element:
    """Return the element of an array."""
    inner = packed(array.element)
    if inner is None or inner[0].dtype is None or inner[0].byte_len * inner[1] != array.stride:
        return Element(array.stride, None, array.stride, _padded(array.element, array.stride))
    return Element(array.stride, *inner)


def buffer_shape(block: Struct) -> tuple[int, Element, int | None]:
    """Return a buffer's header bytes, element and count.

    An array alone is elements, so is one after a header; the rest is one structure. An array whose length is specialized is
    sized at run time, as far as its default tells.
    """
    last = block.members[-1]
    if isinstance(last.type, Array) and (last.type.is_open or len(block.members) == 1):
        return last.offset, element_of(last.type), None if last.type.is_open else last.type.count
    byte_len = block.byte_len
    inner = packed(last.type) if len(block.members) == 1 and last.offset == 0 else None
    if inner is not None and inner[0].dtype is not None:
        return 0, Element(byte_len, *inner), 1
    return 0, Element(byte_len, None, byte_len, _padded(block, byte_len)), 1


def shape_of_views(blocks: Sequence[Struct]) -> tuple[int, Element, int | None, int]:
    """Return header bytes, element and count of a buffer that does for all of these, and the bytes that it has at least.

    Views that differ leave the least header, and what all sizes, strides and headers are whole numbers of as the element:
    of scalars where all have the same, else of raw bytes. The count is fixed where each view's is, by the largest. The least
    bytes are 0 where the shape says all, as it does of one view.
    """
    shapes = [buffer_shape(block) for block in blocks]
    if len(set(shapes)) == 1:
        return (*shapes[0], 0)
    header = min(start for start, _, _ in shapes)
    least = max(start + (count or 1) * element.stride for start, element, count in shapes)
    is_fixed = all(count is not None for _, _, count in shapes)
    step = math.gcd(*[element.stride for _, element, _ in shapes], *[start - header for start, _, _ in shapes])
    if is_fixed:
        step = math.gcd(step, least - header)
    scalars = {element.scalar for _, element, _ in shapes}
    scalar = scalars.pop() if len(scalars) == 1 else None
    if scalar is None or step % scalar.byte_len:
        padded = next((element.padded for _, element, _ in shapes if element.padded is not None), None)
        element = Element(step, None, step, padded)
    else:
        element = Element(step, scalar, step // scalar.byte_len)
    return header, element, (least - header) // step if is_fixed else None, least


class Numbers(NamedTuple):
    """A type of numbers alone: what each is, and their shape as numpy has it."""

    scalar: Scalar
    shape: tuple[int, ...]


def numbers_of(found: MemoryType) -> Numbers | None:
    """Return a type as numbers; None for one with structures in it."""
    match found:
        case Scalar():
            return Numbers(found, ())
        case Vector(scalar, components):
            return Numbers(scalar, (components,))
        case Matrix(scalar, columns, rows):
            return Numbers(scalar, (rows, columns))
        case Array(element, int(count)):
            inner = numbers_of(element)
            return None if inner is None else Numbers(inner.scalar, (count, *inner.shape))
    return None
