"""The representation of a data type's values: the register type, and the width in memory.

Numbers of less than 32 bits are held in 32, their upper bits filled as their sign says; types that nothing is computed with
(f16, f64, vectors) are held as words of their bits.
"""

from __future__ import annotations

import enum
from typing import NamedTuple

from vyre_driver.ir.dtypes import HANDLE, QUANTIZED, VEC, DataType


class Form(enum.Enum):
    """The form of a value in a register; ``WIDE`` is 64 bits, as a pair of words."""

    U32 = "u32"
    I32 = "i32"
    F32 = "f32"
    BOOL = "bool"
    WIDE = "wide"
    UVEC2 = "uvec2"
    UVEC4 = "uvec4"

    __hash__ = object.__hash__  # that of Enum is slow, and every operator looks a form up


class Kind(NamedTuple):
    """A data type as it is lowered: ``bits`` in memory, and whether arithmetic and comparisons are defined on it."""

    name: str
    form: Form
    bits: int
    signed: bool = False
    computes: bool = False
    compares: bool = False


U32 = Kind("u32", Form.U32, 32, computes=True, compares=True)
I32 = Kind("i32", Form.I32, 32, signed=True, computes=True, compares=True)
F32 = Kind("f32", Form.F32, 32, computes=True, compares=True)
BOOL = Kind("bool", Form.BOOL, 32, computes=True, compares=True)
U64 = Kind("u64", Form.WIDE, 64, computes=True, compares=True)
I64 = Kind("i64", Form.WIDE, 64, signed=True, compares=True)
VEC2 = Kind("vec2<u32>", Form.UVEC2, 64, compares=True)
VEC4 = Kind("vec4<u32>", Form.UVEC4, 128, compares=True)
F16 = Kind("f16", Form.U32, 16)
BF16 = Kind("bf16", Form.U32, 16)
F64 = Kind("f64", Form.WIDE, 64)

KINDS: dict[DataType, Kind] = {
    DataType.U32: U32,
    DataType.I32: I32,
    DataType.F32: F32,
    DataType.Bool: BOOL,
    DataType.U64: U64,
    DataType.I64: I64,
    DataType.Vec2U32: VEC2,
    DataType.Vec4U32: VEC4,
    DataType.U8: Kind("u8", Form.U32, 8, compares=True),
    DataType.U16: Kind("u16", Form.U32, 16, compares=True),
    DataType.I8: Kind("i8", Form.I32, 8, signed=True, compares=True),
    DataType.I16: Kind("i16", Form.I32, 16, signed=True, compares=True),
    DataType.F16: F16,
    DataType.BF16: BF16,
    DataType.F8E4M3: Kind("f8e4m3", Form.U32, 8),
    DataType.F8E5M2: Kind("f8e5m2", Form.U32, 8),
    DataType.F64: F64,
}
_RAW = {32: Form.U32, 64: Form.UVEC2, 128: Form.UVEC4}


def kind_of(dtype: DataType) -> Kind | None:
    """Return how a data type is lowered, None for one that is not: without a size, of 4 bits, or bytes."""
    found = KINDS.get(dtype)
    if found is not None:
        return found
    if dtype.wire_tag == HANDLE:
        return Kind(str(dtype), Form.U32, 32)
    inner = dtype.element
    if dtype.wire_tag == QUANTIZED and inner is not None:
        storage = kind_of(inner)
        return None if storage is None else Kind(str(dtype), storage.form, storage.bits, storage.signed)
    if dtype.wire_tag == VEC and inner is not None and inner.bit_width == 32:
        form = _RAW.get(dtype.bit_width or 0)
        return None if form is None else Kind(str(dtype), form, dtype.bit_width or 0)
    return None
