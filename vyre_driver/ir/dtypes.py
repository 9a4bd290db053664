"""The types of buffer elements and values.

A type is its tag and its parameters; ``encoded`` writes both down without ambiguity, and is what every digest sees.
Source: spec item 1.1, one row a type.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from vyre_driver.checks import U8_MAX, U32_MAX, U64_MAX
from vyre_driver.ir.fields import instance, refuse, whole
from vyre_driver.ir.quantization import QuantizationScale, QuantizationZeroPoint

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_TYPE_NESTING = 64

ARRAY, TENSOR, BYTES, HANDLE, VEC, TENSOR_SHAPED = 0x08, 0x0D, 0x07, 0x13, 0x14, 0x15
SPARSE_CSR, SPARSE_COO, SPARSE_BSR, DEVICE_MESH, QUANTIZED, OPAQUE = 0x16, 0x17, 0x18, 0x1E, 0x1F, 0x80

_MIB = 1 << 20


class _Row(NamedTuple):
    """One row of the table: sizes in bytes, width in bits, None where there is none; ``constant`` is the name in DataType."""

    name: str
    min_bytes: int
    size_bytes: int | None
    bit_width: int | None
    constant: str = ""


def _fixed(name: str, byte_len: int, constant: str = "") -> _Row:
    return _Row(name, byte_len, byte_len, 8 * byte_len, constant)


_ROWS = {
    0x01: _fixed("u32", 4, constant="U32"),
    0x02: _fixed("i32", 4, constant="I32"),
    0x03: _fixed("u64", 8, constant="U64"),
    0x04: _fixed("vec2<u32>", 8, constant="Vec2U32"),
    0x05: _fixed("vec4<u32>", 16, constant="Vec4U32"),
    0x06: _fixed("bool", 4, constant="Bool"),
    BYTES: _Row("bytes", 0, 1, 8, constant="Bytes"),
    ARRAY: _Row("array", 0, None, None),
    0x09: _fixed("f16", 2, constant="F16"),
    0x0A: _fixed("bf16", 2, constant="BF16"),
    0x0B: _fixed("f32", 4, constant="F32"),
    0x0C: _fixed("f64", 8, constant="F64"),
    TENSOR: _Row("tensor", 0, None, None, constant="Tensor"),
    0x0E: _fixed("u8", 1, constant="U8"),
    0x0F: _fixed("u16", 2, constant="U16"),
    0x10: _fixed("i8", 1, constant="I8"),
    0x11: _fixed("i16", 2, constant="I16"),
    0x12: _fixed("i64", 8, constant="I64"),
    HANDLE: _fixed("handle", 4),
    VEC: _Row("vec", 0, None, None),
    TENSOR_SHAPED: _Row("tensor", 0, None, None),
    SPARSE_CSR: _Row("sparse_csr", 0, None, None),
    SPARSE_COO: _Row("sparse_coo", 0, None, None),
    SPARSE_BSR: _Row("sparse_bsr", 0, None, None),
    0x19: _fixed("f8e4m3", 1, constant="F8E4M3"),
    0x1A: _fixed("f8e5m2", 1, constant="F8E5M2"),
    0x1B: _Row("i4", 1, 1, 4, constant="I4"),
    0x1C: _Row("fp4", 1, 1, 4, constant="FP4"),
    0x1D: _Row("nf4", 1, 1, 4, constant="NF4"),
    DEVICE_MESH: _Row("device_mesh", 0, 4, 32),
    QUANTIZED: _Row("quantized", 0, None, None),
    OPAQUE: _Row("opaque", 0, None, None),
}
_WITH_ELEMENT = frozenset({VEC, TENSOR_SHAPED, SPARSE_CSR, SPARSE_COO, SPARSE_BSR, QUANTIZED})
_PARAMETERIZED = _WITH_ELEMENT | {ARRAY, HANDLE, DEVICE_MESH, OPAQUE}
_PARAMETER_COUNTS = {ARRAY: 1, HANDLE: 1, OPAQUE: 1, VEC: 1, SPARSE_BSR: 2}
_MOST = {VEC: U8_MAX, ARRAY: U64_MAX}  # of a parameter; the others take u32
_LISTS = frozenset({TENSOR_SHAPED, DEVICE_MESH})
_QUANTIZED_STORAGE = frozenset({0x0E, 0x0F, 0x10, 0x11, 0x19, 0x1A, 0x1B, 0x1C, 0x1D})


class _Constants:
    """The types without parameters; apart, so that what prints a dataclass by its fields does not print them with each type."""

    __slots__ = ()

    U32: ClassVar[DataType]
    I32: ClassVar[DataType]
    U64: ClassVar[DataType]
    Vec2U32: ClassVar[DataType]
    Vec4U32: ClassVar[DataType]
    Bool: ClassVar[DataType]
    Bytes: ClassVar[DataType]
    F16: ClassVar[DataType]
    BF16: ClassVar[DataType]
    F32: ClassVar[DataType]
    F64: ClassVar[DataType]
    Tensor: ClassVar[DataType]
    U8: ClassVar[DataType]
    U16: ClassVar[DataType]
    I8: ClassVar[DataType]
    I16: ClassVar[DataType]
    I64: ClassVar[DataType]
    F8E4M3: ClassVar[DataType]
    F8E5M2: ClassVar[DataType]
    I4: ClassVar[DataType]
    FP4: ClassVar[DataType]
    NF4: ClassVar[DataType]


@dataclass(frozen=True, slots=True, repr=False)
class DataType(_Constants):
    """A data type; use the constants (``DataType.F32``) and constructors (``DataType.vec(DataType.F32, 4)``).

    ``parameters`` are u32: element bytes of an array (u64), id of a handle or an opaque type, count of a vector, shape of a
    tensor, block rows and columns, axes of a mesh. A constructor refuses what has no encoding at all; :meth:`validate_layout`
    refuses what has no layout.
    """

    wire_tag: int
    element: DataType | None = None
    parameters: tuple[int, ...] = ()
    scale: QuantizationScale | None = None
    zero_point: QuantizationZeroPoint | None = None
    nesting: int = field(init=False, compare=False)
    encoded: bytes = field(init=False, compare=False)

    def __post_init__(self) -> None:
        """Check the shape of the type against its tag and write down its encoding."""
        _check_shape(self)
        nesting = 1 + (self.element.nesting if self.element is not None else 0)
        if nesting > MAX_TYPE_NESTING:
            refuse(f"a data type nests {nesting} deep, over the limit of {MAX_TYPE_NESTING}", "nest it less")
        object.__setattr__(self, "nesting", nesting)
        object.__setattr__(self, "encoded", _encode(self))

    def __hash__(self) -> int:
        """Hash what the digests see."""
        return hash(self.encoded)

    def __copy__(self) -> DataType:
        """Return itself: it cannot change."""
        return self

    def __deepcopy__(self, memo: object) -> DataType:
        """Return itself: it cannot change."""
        return self

    @classmethod
    def array(cls, element_size: int) -> DataType:
        """Return raw elements of ``element_size`` bytes each (u64; a program on the wire takes u32)."""
        return cls(ARRAY, parameters=(element_size,))

    @classmethod
    def handle(cls, type_id: int) -> DataType:
        """Return a handle to a resource of the registered type ``type_id`` (u32)."""
        return cls(HANDLE, parameters=(type_id,))

    @classmethod
    def vec(cls, element: DataType, count: int) -> DataType:
        """Return ``count`` (u8) values of ``element``, one after the other."""
        return cls(VEC, element, (count,))

    @classmethod
    def tensor_shaped(cls, element: DataType, shape: Sequence[int]) -> DataType:
        """Return a dense tensor whose shape (u32 each) is part of its type."""
        return cls(TENSOR_SHAPED, element, tuple(shape))

    @classmethod
    def sparse_csr(cls, element: DataType) -> DataType:
        """Return a matrix in compressed rows."""
        return cls(SPARSE_CSR, element)

    @classmethod
    def sparse_coo(cls, element: DataType) -> DataType:
        """Return a matrix as coordinates and values."""
        return cls(SPARSE_COO, element)

    @classmethod
    def sparse_bsr(cls, element: DataType, block_rows: int, block_cols: int) -> DataType:
        """Return a matrix in compressed rows of dense blocks (u32 each)."""
        return cls(SPARSE_BSR, element, (block_rows, block_cols))

    @classmethod
    def device_mesh(cls, axes: Sequence[int]) -> DataType:
        """Return a mesh of devices with these axis lengths (u32 each)."""
        return cls(DEVICE_MESH, parameters=tuple(axes))

    @classmethod
    def quantized(cls, storage: DataType, scale: QuantizationScale, zero_point: QuantizationZeroPoint) -> DataType:
        """Return real numbers stored as ``storage``; :meth:`validate_layout` says which storage is legal."""
        return cls(QUANTIZED, storage, scale=scale, zero_point=zero_point)

    @classmethod
    def opaque(cls, extension_id: int) -> DataType:
        """Return a type that an extension defines (u32, see :func:`extension_id`)."""
        return cls(OPAQUE, parameters=(extension_id,))

    @property
    def min_bytes(self) -> int:
        """Least bytes of one element, which the binding planner calls element size; 0 when the type fixes none.

        Saturates at 2**64 - 1.
        """
        if self.wire_tag == VEC and self.element is not None:
            return min(self.element.min_bytes * self.parameters[0], U64_MAX)
        if self.wire_tag == QUANTIZED and self.element is not None:
            return self.element.min_bytes
        return _ROWS[self.wire_tag].min_bytes

    @property
    def size_bytes(self) -> int | None:
        """Bytes of one element in storage, or None when the type fixes none or they pass 2**64 - 1."""
        match self.wire_tag:
            case 0x08:
                return self.parameters[0]
            case 0x14 if self.element is not None:
                return _product(self.element.size_bytes, self.parameters[0])
            case 0x1F if self.element is not None:
                return self.element.size_bytes
        return _ROWS[self.wire_tag].size_bytes

    @property
    def bit_width(self) -> int | None:
        """Bits of one element where elements are packed without gaps, or None."""
        if self.wire_tag == VEC and self.element is not None:
            return _product(self.element.bit_width, self.parameters[0])
        if self.wire_tag == QUANTIZED and self.element is not None:
            return self.element.bit_width
        return _ROWS[self.wire_tag].bit_width

    @property
    def max_bytes(self) -> int | None:
        """The most bytes one value may take, or None without such a limit."""
        return {BYTES: 64 * _MIB, ARRAY: 256 * _MIB, TENSOR: 256 * _MIB}.get(self.wire_tag)

    def packed_size_bytes(self, count: int) -> int | None:
        """Return the bytes of ``count`` elements packed by bits, so 2 for three I4; None when the type fixes no size.

        Raises
        ------
        InvalidProgram
            If they pass 2**64 - 1.
        """
        count = whole(count, U64_MAX, "a number of elements")
        bits, size = self.bit_width, self.size_bytes
        if bits is None and size is None:
            return None
        total = -(-bits * count // 8) if bits is not None else (size or 0) * count
        if total > U64_MAX or (bits or 0) * count > U64_MAX:
            refuse(f"{count} elements of {self} take {total} bytes, over the limit of {U64_MAX} bits", "use fewer elements")
        return total

    def validate_layout(self) -> None:
        """Refuse a type that no buffer can be laid out with.

        Raises
        ------
        InvalidProgram
            For an array element of 0 bytes, a vector of 0 elements, a dimension, block or mesh axis of 0, an empty
            mesh, a quantized storage that is not allowed, a group of 0 elements; of nested types also.
        """
        problem = _layout_problem(self)
        if problem is not None:
            refuse(f"the data type {self} cannot be laid out: {problem}", "give sizes above 0 and a storage that is allowed")
        if self.element is not None:
            self.element.validate_layout()

    def __str__(self) -> str:
        """Return the lower-case spelling, for example ``vec<f32, 4>``."""
        return spelling(self)

    def __repr__(self) -> str:
        """Return for example ``<DataType f32>``."""
        return f"<DataType {self}>"


def spelling(dtype: DataType, parameters: int | None = None) -> str:
    """Return a type as ``str`` does; on request with so many parameters of each type in it at most."""
    name = _ROWS[dtype.wire_tag].name
    if dtype.wire_tag not in _PARAMETERIZED:
        return name
    if dtype.wire_tag == ARRAY:
        return f"array<{dtype.parameters[0]}B>"
    inside = [spelling(dtype.element, parameters)] if dtype.element is not None else []
    if dtype.parameters or dtype.wire_tag in _LISTS:
        inside.append("x".join(map(str, dtype.parameters[:parameters])) or "[]")
    inside.extend(str(one) for one in (dtype.scale, dtype.zero_point) if one is not None)
    return f"{name}<{', '.join(inside)}>"


def has_element(tag: int) -> bool:
    """Return whether a type of this tag is made of another type, which follows the tag."""
    return tag in _WITH_ELEMENT


def parameter_count(tag: int) -> int | None:
    """Return how many u32 (u8 for a vector) follow the tag of a type without lists, or None for an unknown tag."""
    return _PARAMETER_COUNTS.get(tag, 0) if tag in _ROWS else None


def extension_id(name: str) -> int:
    """Return the id of an extension's type or operator: FNV-1a-32 of the UTF-8 name with the top bit set."""
    value = 0x811C9DC5
    for byte in name.encode():
        value = (value ^ byte) * 0x01000193 & U32_MAX
    return value | 0x8000_0000


def _product(size: int | None, count: int) -> int | None:
    return size * count if size is not None and size * count <= U64_MAX else None


def _check_shape(dtype: DataType) -> None:
    tag = dtype.wire_tag
    if tag not in _ROWS:
        refuse(f"{tag!r} is not a tag of a data type", "use the constants and constructors of DataType")
    if (dtype.element is not None) != (tag in _WITH_ELEMENT):
        refuse(f"the data type {_ROWS[tag].name} got the element type {dtype.element}", "use the constructors of DataType")
    if dtype.element is not None:
        instance(dtype.element, DataType, "an element type")
    if tag not in _LISTS and len(dtype.parameters) != _PARAMETER_COUNTS.get(tag, 0):
        refuse(f"the data type {_ROWS[tag].name} got {len(dtype.parameters)} parameters", "use the constructors of DataType")
    for value in dtype.parameters:
        whole(value, _MOST.get(tag, U32_MAX), f"a parameter of the data type {_ROWS[tag].name}")
    if tag == QUANTIZED:
        instance(dtype.scale, QuantizationScale, "the scale of a quantized type")
        instance(dtype.zero_point, QuantizationZeroPoint, "the zero point of a quantized type")
    elif dtype.scale is not None or dtype.zero_point is not None:
        refuse(f"the data type {_ROWS[tag].name} got a quantization", "use the constructors of DataType")


def _encode(dtype: DataType) -> bytes:
    parts = [bytes((dtype.wire_tag,))]
    if dtype.element is not None:
        parts.append(dtype.element.encoded)
    if dtype.wire_tag in _LISTS:
        parts.append(struct.pack("<I", len(dtype.parameters)))
    kind = "B" if dtype.wire_tag == VEC else "Q" if max(dtype.parameters, default=0) > U32_MAX else "I"
    parts.append(struct.pack(f"<{len(dtype.parameters)}{kind}", *dtype.parameters))
    parts.extend(one.encoded for one in (dtype.scale, dtype.zero_point) if one is not None)
    return b"".join(parts)


def _layout_problem(dtype: DataType) -> str | None:
    tag, parameters = dtype.wire_tag, dtype.parameters
    if tag == ARRAY and parameters[0] == 0:
        return "Array element_size must be > 0"
    if tag == VEC and parameters[0] == 0:
        return "Vec count must be > 0"
    if tag == DEVICE_MESH and not parameters:
        return "a DeviceMesh must have an axis"
    if tag in {TENSOR_SHAPED, SPARSE_BSR, DEVICE_MESH} and 0 in parameters:
        return "every dimension must be > 0"
    return _quantization_problem(dtype) if tag == QUANTIZED else None


def _quantization_problem(dtype: DataType) -> str | None:
    storage, scale, zero_point = dtype.element, dtype.scale, dtype.zero_point
    if storage is None or scale is None or zero_point is None:
        return None
    if storage.wire_tag not in _QUANTIZED_STORAGE:
        return f"Quantized storage must be i4, i8, i16, u8, u16, f8e4m3, f8e5m2, fp4 or nf4, not {storage}"
    return scale.problem or zero_point.problem


def wire_problem(dtype: DataType) -> str | None:
    """Return why a type has no place on the wire (an illegal quantization, an array's element over u32, at any depth)."""
    inner: DataType | None = dtype
    while inner is not None:
        problem = _quantization_problem(inner)
        if inner.wire_tag == ARRAY and inner.parameters[0] > U32_MAX:
            problem = f"an array's element of {inner.parameters[0]} bytes is over the limit of {U32_MAX} bytes"
        if problem is not None:
            return problem
        inner = inner.element
    return None


for _tag, _row in _ROWS.items():
    if _row.constant:
        setattr(DataType, _row.constant, DataType(_tag))
