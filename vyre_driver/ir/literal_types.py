"""Choose the literal that a Python number becomes beside an expression.

A Python number beside an expression becomes a literal of the expression's type:

- ``dtype`` of an expression is the type it has wherever it stands: of literals, ids, lengths, casts, comparisons, atomics, what
  is computed from those, and of a ``Var`` or ``Load`` that was declared with it (``var("x", DataType.I32)``, ``load(decl,
  i)``). It is None where only the program around it knows.
- An int takes that type, and is refused where it does not fit exactly or where the type is not known.
- A float is an f32 (an f64 beside an f64): no other literal fits. Beside another type it is refused.
- A bool is refused: ``x == y`` and ``not x`` of expressions are Python's, and would be constants of the program that nobody
  meant. A boolean constant is written ``boolean(True)``.
- A numpy scalar has its own type, and is refused beside another.

Nothing is guessed: a wrongly declared type is found by the validator, which knows the program.

There are literal expressions of type u32, i32, bool and f32; those of 64 bits are opaque expressions. Other types have none.

Source: spec items 1.6 (canonical floats, 64-bit kinds) and 1.8 (result types).
"""

from __future__ import annotations

import struct

import numpy as np

from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.fields import brief, refuse

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
