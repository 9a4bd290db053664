"""The types of buffer elements and values, what they are in numpy, and the literals that Python's numbers become beside them.

A type is its tag and its parameters; ``encoded`` writes both down without ambiguity, and is what every digest sees.

A Python number beside an expression becomes a literal of the expression's type:

- ``dtype`` of an expression is the type it has wherever it stands: of literals, ids, lengths, casts, comparisons, atomics, what
  is computed from those, and of a ``Var`` or ``Load`` that was declared with it (``var("x", DataType.I32)``, ``load(decl,
  i)``). It is None where only the program around it knows.
- An int takes that type, and is refused where it does not fit exactly or where the type is not known.
- A float is an f32 (an f64 beside an f64): no other literal fits. Beside another type it is refused.
- A bool is refused: ``x == y`` and ``not x`` of expressions are Python's, and would be constants of the program that nobody
  meant. A boolean constant is written ``boolean(True)``.
- A numpy scalar has its own type, and is refused beside another.

Nothing is guessed: a wrongly declared type is found by the validator, which knows the program. There are literal expressions of
type u32, i32, bool and f32; those of 64 bits are opaque expressions. Other types have none.

numpy itself has the integers and f16, f32, f64. bf16, f8 and the 4-bit numbers i4 and fp4 come from ml_dtypes when that is
installed, and are raw words when not. bool is a u32 word, zero or not, for a buffer has it so; nf4 is raw always.

Source: spec items 1.1 (one row a type), 1.6 (canonical floats, 64-bit kinds) and 1.8 (result types).
"""

from __future__ import annotations

import enum
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from vyre_driver.checks import U8_MAX, U32_MAX, U64_MAX
from vyre_driver.ir.fields import brief, instance, refuse, whole
from vyre_driver.ir.quantization import QuantizationScale, QuantizationZeroPoint

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

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

Number = int | float | np.generic

_F32, _U32 = struct.Struct("<f"), struct.Struct("<I")
_WIDE = {
    DataType.U64: ("vyre.literal.u64", "<Q"),
    DataType.I64: ("vyre.literal.i64", "<q"),
    DataType.F64: ("vyre.literal.f64", "<d"),
}
WIDE_LITERALS = {kind: dtype for dtype, (kind, _) in _WIDE.items()}
_NUMPY_TYPES = {
    np.uint32: DataType.U32,
    np.int32: DataType.I32,
    np.uint64: DataType.U64,
    np.int64: DataType.I64,
    np.float32: DataType.F32,
    np.float64: DataType.F64,
}
_FLOATS = (DataType.F32, DataType.F64)


def literal_type(value: object, dtype: DataType | None) -> tuple[int | float, DataType]:
    """Return a number as Python's own and the type of its literal beside an expression of type ``dtype`` (None: not known).

    Raises
    ------
    InvalidProgram
        If it can be no literal of that type, or the type is ambiguous.
    """
    own = _own_type(value)
    wanted = own if dtype is None else dtype
    if wanted is None:
        refuse(
            f"the type of the number {brief(value)} is not known here: nothing beside it says it",
            "write u32(...), i32(...) or f32(...), or say the type: var(name, dtype), load(declaration, index)",
        )
    if isinstance(value, np.generic) and own != wanted:
        refuse(f"{value!r} of {value.dtype} stands beside {wanted}", f"convert it, or cast the other side to {own}")
    number: int | float = value.item() if isinstance(value, np.generic) else value  # type: ignore[assignment]
    if wanted == DataType.Bool or (isinstance(number, float) and wanted not in _FLOATS):
        refuse(f"{brief(number)} is not of type {wanted}", "give a literal of the same type, or cast one side")
    return number, wanted


def _own_type(value: object) -> DataType | None:
    if isinstance(value, bool | np.bool_):
        refuse(
            f"{value} is Python's, and an expression is wanted: == and != compare expressions as Python objects",
            f"write left.eq(right) or left.ne(right) for a comparison, or boolean({bool(value)}) for a constant",
        )
    if isinstance(value, np.generic):
        own = _NUMPY_TYPES.get(type(value))
        if own is None:
            refuse(f"there is no literal for {value!r} of {value.dtype}", "cast a literal of another type")
        return own
    if not isinstance(value, int | float):
        refuse(f"{brief(value)} is neither an expression nor a number", "give an expression, such as u32(1)")
    return DataType.F32 if isinstance(value, float) else None


def wide_literal(number: float, dtype: DataType) -> tuple[str, bytes]:
    """Return kind and payload of the opaque expression that is a 64-bit literal.

    Raises
    ------
    InvalidProgram
        If the type has no literals, or the number does not fit.
    """
    if dtype not in _WIDE:
        refuse(f"there is no literal of type {dtype}", "cast a literal of another type")
    kind, layout = _WIDE[dtype]
    try:
        payload = struct.pack(layout, number)
    except (struct.error, OverflowError):
        refuse(f"{brief(number)} does not fit {dtype}", f"give a number that {dtype} holds")
    if isinstance(number, int) and struct.unpack(layout, payload)[0] != number:
        refuse(f"{brief(number)} is not exact in {dtype}", f"give a float, if the nearest {dtype} is meant")
    return kind, payload


def f32_bits(value: object) -> int:
    """Return the bits (u32) of the f32 nearest to a number.

    Raises
    ------
    InvalidProgram
        If it is not a number, is finite and out of range, or is an int that f32 does not hold exactly.
    """
    try:
        data = _F32.pack(value)
    except (struct.error, OverflowError, TypeError):
        refuse(f"{brief(value)} does not fit f32", "give a number of at most 3.4e38")
    if isinstance(value, int) and _F32.unpack(data)[0] != value:
        refuse(f"{brief(value)} is not exact in f32", "give a float, if the nearest f32 is meant")
    return int(_U32.unpack(data)[0])


def f32_value(bits: int) -> float:
    """Return the number that these bits (u32) are."""
    return float(_F32.unpack(_U32.pack(bits))[0])


def canonical_f32_bits(bits: int) -> int:
    """Return the bits that stand on the wire for a float: one NaN, no subnormals, no negative zero (spec 1.6)."""
    if bits & 0x7F80_0000 == 0:
        return 0
    return 0x7FC0_0000 if bits & 0x7FFF_FFFF > 0x7F80_0000 else bits


class ElementForm(enum.Enum):
    """What an array of the numpy type holds."""

    NUMBERS = "numbers"  # numpy's own
    ML_DTYPES = "ml_dtypes"  # numbers that ml_dtypes adds to numpy
    RAW = "raw"  # the bytes of the elements, as unsigned words


@dataclass(frozen=True, slots=True)
class NumpyElement:
    """The numpy type of an element.

    Where ``packed``, two elements share a byte of the buffer: a RAW array holds such bytes, and an ML_DTYPES array one element
    a byte, so that it has to be packed on the way in and unpacked on the way out.
    """

    dtype: np.dtype[Any]
    form: ElementForm
    packed: bool = False


MAX_AXES: int = getattr(np, "MAXDIMS", 64)
"""How many axes an array of numpy has at most: 32 before numpy 2, which no longer says it."""
_MAX_ITEM_BYTES = (1 << 31) - 1
_NUMBERS = {
    DataType.U8: "<u1",
    DataType.U16: "<u2",
    DataType.U32: "<u4",
    DataType.U64: "<u8",
    DataType.I8: "<i1",
    DataType.I16: "<i2",
    DataType.I32: "<i4",
    DataType.I64: "<i8",
    DataType.F16: "<f2",
    DataType.F32: "<f4",
    DataType.F64: "<f8",
    DataType.Bytes: "<u1",
}
_ML_DTYPES = {
    DataType.BF16: ("bfloat16", "<u2"),
    DataType.F8E4M3: ("float8_e4m3fn", "<u1"),
    DataType.F8E5M2: ("float8_e5m2", "<u1"),
    DataType.I4: ("int4", "<u1"),
    DataType.FP4: ("float4_e2m1fn", "<u1"),
    DataType.NF4: ("", "<u1"),
}
_PACKED = frozenset({DataType.I4, DataType.FP4, DataType.NF4})
_VECTORS = {DataType.Vec2U32: (DataType.U32, 2), DataType.Vec4U32: (DataType.U32, 4)}


def numpy_element(dtype: DataType) -> NumpyElement | None:
    """Return the numpy type of the elements of a data type, None for a type without fixed elements.

    A vector is a sub-array (``('<f4', (4,))``), a quantized type is its storage, an array or a handle is raw. None also for
    elements that numpy does not have: of more than 2**31 - 1 bytes or MAX_AXES axes, and vectors of elements without bytes.
    """
    if (dtype.size_bytes or 0) > _MAX_ITEM_BYTES:
        return None
    if dtype in _NUMBERS:
        return NumpyElement(np.dtype(_NUMBERS[dtype]), ElementForm.NUMBERS)
    if dtype in _ML_DTYPES:
        return _from_ml_dtypes(dtype)
    if dtype == DataType.Bool or dtype.wire_tag == HANDLE:
        return NumpyElement(np.dtype("<u4"), ElementForm.RAW)
    if dtype.wire_tag == ARRAY:
        return NumpyElement(np.dtype(("<u1", (dtype.parameters[0],))), ElementForm.RAW)
    if dtype.wire_tag == QUANTIZED and dtype.element is not None:
        return numpy_element(dtype.element)
    if dtype in _VECTORS:
        return _vector(*_VECTORS[dtype])
    return _vector(dtype.element, dtype.parameters[0]) if dtype.wire_tag == VEC and dtype.element is not None else None


def _from_ml_dtypes(dtype: DataType) -> NumpyElement:
    name, word = _ML_DTYPES[dtype]
    found = getattr(_ml_dtypes(), name, None) if name else None
    if found is None:
        return NumpyElement(np.dtype(word), ElementForm.RAW, dtype in _PACKED)
    return NumpyElement(np.dtype(found), ElementForm.ML_DTYPES, dtype in _PACKED)


def _vector(element: DataType, count: int) -> NumpyElement | None:
    """Return a sub-array; 4-bit numbers that fill whole bytes are those bytes, and others have no array.

    Nor have vectors of elements without bytes, or of more axes than numpy has.
    """
    inner = numpy_element(element)
    if inner is None or (inner.packed and count % 2) or not inner.dtype.itemsize or len(inner.dtype.shape) >= MAX_AXES:
        return None
    if inner.packed:
        return NumpyElement(np.dtype(("<u1", (count // 2,))), ElementForm.RAW)
    return NumpyElement(np.dtype((inner.dtype.base, (count, *inner.dtype.shape))), inner.form)


def _ml_dtypes() -> ModuleType | None:
    try:
        import ml_dtypes
    except ImportError:
        return None
    return ml_dtypes
