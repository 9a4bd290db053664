"""Random expressions about constants, which compilers turn into others: a quotient into a product, two minima into one.

A constant is a literal, or hidden in a cast or in an operator on two literals, where only a compiler finds it.

Source: spec items 1.7 and 1.9.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_driver.ir import builders as ir
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.operators import BinOp

if TYPE_CHECKING:
    from collections.abc import Callable

    from vyre_driver.conformance.random_source import RandomSource
    from vyre_driver.ir.arithmetic import Expr

_U32, _I32, _U64, _F32, _BOOL = DataType.U32, DataType.I32, DataType.U64, DataType.F32, DataType.Bool
_LEAST, _MOST = -(2**31), 2**31 - 1
_SMALL = (*range(1, 11), 12, 15, 16, 17, 24, 25, 31, 32, 63, 64, 100, 127, 128, 255, 256, 641, 1000, 65535, 65536)
_LARGE = (1 << 20, 10**6, 1 << 24, 10**9, 1 << 30, (1 << 30) + 1, _MOST - 1, _MOST)
_SIGNED = (*_SMALL, *_LARGE, *(-one for one in (*_SMALL, *_LARGE)), _LEAST, -1, -2)
_UNSIGNED = (*_SMALL, *_LARGE, 2**31, 2**31 + 1, 3 << 30, 2**32 - 2, 2**32 - 1)
_WIDE = (1, 2, 3, 10, 2**31, 2**32 - 1, 2**32, 2**32 + 1, 2**63 - 1, 2**63, 2**64 - 1)
_FLOATS = (0.25, 0.5, 1.0, 2.0, 3.0, 10.0, 64.0, -0.25, -0.5, -1.0, -2.0, -3.0, -10.0, -64.0)
_LIMITS = (*_FLOATS, 0.0, 1024.0, -1024.0, 16777216.0, 2147483648.0, -2147483648.0)
_DIVIDING = (BinOp.DIV, BinOp.MOD)
_BOTH = (*_DIVIDING, *_DIVIDING, BinOp.MUL, BinOp.ADD, BinOp.SUB, BinOp.BIT_AND, BinOp.BIT_OR, BinOp.BIT_XOR)
_OPERATORS = {
    _I32: _BOTH,
    _U32: (
        *_BOTH,
        *(BinOp.SHL, BinOp.SHR, BinOp.ROTATE_LEFT, BinOp.ROTATE_RIGHT, BinOp.MUL_HIGH, BinOp.ABS_DIFF),
        *(BinOp.SATURATING_ADD, BinOp.SATURATING_SUB, BinOp.SATURATING_MUL),
    ),
    _U64: (BinOp.WRAPPING_ADD, BinOp.WRAPPING_SUB, BinOp.MUL_HIGH),
    _F32: (BinOp.MUL, BinOp.MUL, BinOp.ADD, BinOp.SUB),
}
_COMPARISONS = (BinOp.EQ, BinOp.NE, BinOp.LT, BinOp.GT, BinOp.LE, BinOp.GE)
TYPES = frozenset({*_OPERATORS, _BOOL})


class ConstantMaker:
    """Makes expressions of constants, and of what ``make`` makes of a type, so deep."""

    def __init__(self, rng: RandomSource, make: Callable[[DataType, int], Expr]) -> None:
        """Choose with this source."""
        self._rng = rng
        self._make = make

    def make(self, dtype: DataType, left: int) -> Expr:
        """Return an expression of a type of ``TYPES``: an operator and a constant, alone, compared, or in a chain."""
        rng = self._rng
        if dtype == _BOOL:
            kind = rng.pick((_U32, _I32, _I32, _F32))
            return ir.binop(rng.pick(_COMPARISONS), self._term(kind, self._make(kind, left)), self.constant(kind))
        x = self._make(dtype, left)
        result = self._term(dtype, x)
        if dtype == _U64 or rng.chance(25):
            return result
        for _ in range(rng.between(1, 3)):
            other = x if rng.chance(30) else self._term(dtype, x) if rng.chance(20) else self._limit(dtype)
            pair = (result, other) if rng.chance(60) else (other, result)
            result = ir.binop(BinOp.MIN if rng.chance(50) else BinOp.MAX, *pair)
        return ir.select(ir.binop(rng.pick(_COMPARISONS), x, self._limit(dtype)), result, x) if rng.chance(15) else result

    def constant(self, dtype: DataType) -> Expr:
        """Return a constant that is not 0."""
        rng = self._rng
        if dtype == _F32:
            return ir.f32(rng.pick(_FLOATS))
        if dtype == _U64:
            return ir.u64(rng.pick(_WIDE))
        return self._whole(dtype, rng.pick(_SIGNED if dtype == _I32 else _UNSIGNED))

    def _limit(self, dtype: DataType) -> Expr:
        """Return what a minimum or maximum is taken with."""
        rng = self._rng
        if dtype == _F32:
            return ir.f32(rng.pick(_LIMITS))
        return self._whole(dtype, 0) if rng.chance(35) else self.constant(dtype)

    def _whole(self, dtype: DataType, value: int) -> Expr:
        """Return a constant of this value: a literal in two of three."""
        rng = self._rng
        literal, other = (ir.i32, _U32) if dtype == _I32 else (ir.u32, _I32)
        way = rng.below(9)
        if way < 6:
            return literal(value)
        if way == 6:
            bits = value % 2**32
            return ir.cast(dtype, ir.u32(bits) if other == _U32 else ir.i32((bits ^ 2**31) - 2**31))
        part = rng.below(1000)
        if way == 7:
            return ir.binop(BinOp.ADD, literal(_wrapped(dtype, value - part)), literal(part))
        return ir.binop(BinOp.SUB, literal(_wrapped(dtype, value + part)), literal(part))

    def _term(self, dtype: DataType, x: Expr) -> Expr:
        """Return ``x`` and a constant under an operator that has a result for every ``x``."""
        rng = self._rng
        op = rng.pick(_OPERATORS[dtype])
        if op in _DIVIDING and dtype == _I32:
            value = rng.pick(_SIGNED)
            if value == -1:  # the reference defines no quotient of the least number
                x = ir.maximum(x, ir.i32(_LEAST + 1))
            return ir.binop(op, x, self._whole(dtype, value))
        constant = self.constant(dtype)
        turned = op not in {*_DIVIDING, BinOp.SHL, BinOp.SHR} and rng.chance(30)
        return ir.binop(op, constant, x) if turned else ir.binop(op, x, constant)


def _wrapped(dtype: DataType, value: int) -> int:
    return (value + 2**31) % 2**32 - 2**31 if dtype == _I32 else value % 2**32
