"""Random expressions of the operators that this package adds to the IR, those that every right device gives alike.

The bits of a float are looked at where it is neither a NaN nor a zero, whose bits and sign the device decides. Functions that
divide or take a root, and that tell zeros apart, are asked by hand only; so is f64, which few devices compare with here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_driver.ir import builders as ir
from vyre_driver.ir import functions
from vyre_driver.ir.builders import (
    bitcast,
    convert,
    operation,
    pack_bf16,
    pack_f16,
    unpack_bf16,
    unpack_f16,
)
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.operators import BinOp, UnOp

if TYPE_CHECKING:
    from collections.abc import Callable

    from vyre_driver.conformance.random_source import RandomSource
    from vyre_driver.ir.arithmetic import Expr

    Make = Callable[[DataType, int], Expr]

U32, I32, U64, I64, F32 = DataType.U32, DataType.I32, DataType.U64, DataType.I64, DataType.F32
ADDED = frozenset({U32, I32, U64, I64, F32})
"""The types that there are such expressions of."""

_WIDE = (BinOp.MUL, BinOp.DIV, BinOp.MOD, BinOp.BIT_AND, BinOp.BIT_OR, BinOp.BIT_XOR, BinOp.MIN, BinOp.MAX)
_SIGNED = (*_WIDE, BinOp.ADD, BinOp.SUB)
_SHIFTS = (BinOp.SHL, BinOp.SHR)
_FUNCTIONS = (
    functions.round_half_even,
    *(functions.cbrt, functions.log10, functions.log1p, functions.expm1, functions.exp10, functions.erf),
)


def added(rng: RandomSource, make: Make, dtype: DataType, left: int, *, wide: bool) -> Expr:
    """Return an expression of a type with an operator of ours; ``wide``: 64-bit integers may be in it."""
    if dtype in {U64, I64}:
        return _wide(rng, make, dtype, left)
    if dtype == F32:
        return _float(rng, make, left, wide=wide)
    if dtype == I32:
        return bitcast(I32, _bits(make(F32, left)))
    value = make(F32, left)
    way = rng.below(3)
    return _bits(value) if way == 0 else _seen(value, pack_f16(value) if way == 1 else pack_bf16(value))


def _seen(value: Expr, bits: Expr) -> Expr:
    hidden = ir.unop(UnOp.IS_NAN, value).or_(value.eq(ir.f32(0.0)))
    return ir.select(hidden, ir.u32(0), bits)


def _bits(value: Expr) -> Expr:
    return _seen(value, bitcast(U32, value))


def _wide(rng: RandomSource, make: Make, dtype: DataType, left: int) -> Expr:
    way = rng.below(6)
    if way == 0:
        return convert(dtype, make(F32, left))
    if way == 1:
        return operation(rng.pick(_SHIFTS), dtype, make(dtype, left), make(U32, left))
    return operation(rng.pick(_SIGNED if dtype == I64 else _WIDE), dtype, make(dtype, left), make(dtype, left))


def _float(rng: RandomSource, make: Make, left: int, *, wide: bool) -> Expr:
    way = rng.below(6)
    if way == 0:
        return bitcast(F32, make(rng.pick((U32, I32)), left))
    if way == 1:
        return rng.pick((unpack_f16, unpack_bf16))(make(U32, left))
    if way == 2 and wide:
        return convert(F32, make(U64, left))
    if way == 3:
        return functions.fmod(make(F32, left), ir.f32(rng.pick((0.5, -1.5, 3.0, 7.0, -10.0, 0.1))))
    return rng.pick(_FUNCTIONS)(make(F32, left))
