"""Random expressions of a type, which no input makes an error, and of which f32 is the same on every right device.

Functions may be some steps of the last place off on a device. What is computed of them would be off by any amount, or be
another branch: they are *inexact*, and stay out of everything but what keeps them as near as they were. So do quotients and
roots, which were inexact too when seeds got their meaning.

Some expressions are about constants, which compilers turn into others: a quotient into a product, two minima into one. A
constant is a literal, or hidden in a cast or in an operator on two literals, where only a compiler finds it.

Of the operators that this package adds to the IR there are those that every right device gives alike. The bits of a float are
looked at where it is neither a NaN nor a zero, whose bits and sign the device decides. Functions that divide or take a root,
and that tell zeros apart, are asked by hand only; so is f64, which few devices compare with here.

Source: spec items 1.7 to 1.9 (operator typing), 8.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from vyre_driver.conformance.case import RANGES
from vyre_driver.conformance.patterns import F32_EDGES, I32_EDGES, U32_EDGES, U64_EDGES
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
from vyre_driver.ir.validation.operator_types import is_zero

if TYPE_CHECKING:
    from collections.abc import Callable

    from vyre_driver.conformance.options import Options, RandomSource
    from vyre_driver.ir.arithmetic import Expr
    from vyre_driver.ir.buffers import BufferDecl

    Make = Callable[[DataType, int], Expr]

U32, I32, U64, F32, BOOL = DataType.U32, DataType.I32, DataType.U64, DataType.F32, DataType.Bool
I64 = DataType.I64
_LEAST, _MOST = -(2**31), 2**31 - 1
_SMALL = (*range(1, 11), 12, 15, 16, 17, 24, 25, 31, 32, 63, 64, 100, 127, 128, 255, 256, 641, 1000, 65535, 65536)
_LARGE = (1 << 20, 10**6, 1 << 24, 10**9, 1 << 30, (1 << 30) + 1, _MOST - 1, _MOST)
_SIGNED_NUMBERS = (*_SMALL, *_LARGE, *(-one for one in (*_SMALL, *_LARGE)), _LEAST, -1, -2)
_UNSIGNED = (*_SMALL, *_LARGE, 2**31, 2**31 + 1, 3 << 30, 2**32 - 2, 2**32 - 1)
_WIDE_NUMBERS = (1, 2, 3, 10, 2**31, 2**32 - 1, 2**32, 2**32 + 1, 2**63 - 1, 2**63, 2**64 - 1)
_FLOATS = (0.25, 0.5, 1.0, 2.0, 3.0, 10.0, 64.0, -0.25, -0.5, -1.0, -2.0, -3.0, -10.0, -64.0)
_LIMITS = (*_FLOATS, 0.0, 1024.0, -1024.0, 16777216.0, 2147483648.0, -2147483648.0)
_DIVIDING = (BinOp.DIV, BinOp.MOD)
_OF_CONSTANTS = (*_DIVIDING, *_DIVIDING, BinOp.MUL, BinOp.ADD, BinOp.SUB, BinOp.BIT_AND, BinOp.BIT_OR, BinOp.BIT_XOR)
_OPERATORS = {
    I32: _OF_CONSTANTS,
    U32: (
        *_OF_CONSTANTS,
        *(BinOp.SHL, BinOp.SHR, BinOp.ROTATE_LEFT, BinOp.ROTATE_RIGHT, BinOp.MUL_HIGH, BinOp.ABS_DIFF),
        *(BinOp.SATURATING_ADD, BinOp.SATURATING_SUB, BinOp.SATURATING_MUL),
    ),
    U64: (BinOp.WRAPPING_ADD, BinOp.WRAPPING_SUB, BinOp.MUL_HIGH),
    F32: (BinOp.MUL, BinOp.MUL, BinOp.ADD, BinOp.SUB),
}
_COMPARISONS = (BinOp.EQ, BinOp.NE, BinOp.LT, BinOp.GT, BinOp.LE, BinOp.GE)
TYPES = frozenset({*_OPERATORS, BOOL})


class ConstantMaker:
    """Makes expressions of constants, and of what ``make`` makes of a type, so deep."""

    def __init__(self, rng: RandomSource, make: Callable[[DataType, int], Expr]) -> None:
        """Choose with this source."""
        self._rng = rng
        self._make = make

    def make(self, dtype: DataType, left: int) -> Expr:
        """Return an expression of a type of ``TYPES``: an operator and a constant, alone, compared, or in a chain."""
        rng = self._rng
        if dtype == BOOL:
            kind = rng.pick((U32, I32, I32, F32))
            return ir.binop(rng.pick(_COMPARISONS), self._term(kind, self._make(kind, left)), self.constant(kind))
        x = self._make(dtype, left)
        result = self._term(dtype, x)
        if dtype == U64 or rng.chance(25):
            return result
        for _ in range(rng.between(1, 3)):
            other = x if rng.chance(30) else self._term(dtype, x) if rng.chance(20) else self._limit(dtype)
            pair = (result, other) if rng.chance(60) else (other, result)
            result = ir.binop(BinOp.MIN if rng.chance(50) else BinOp.MAX, *pair)
        return ir.select(ir.binop(rng.pick(_COMPARISONS), x, self._limit(dtype)), result, x) if rng.chance(15) else result

    def constant(self, dtype: DataType) -> Expr:
        """Return a constant that is not 0."""
        rng = self._rng
        if dtype == F32:
            return ir.f32(rng.pick(_FLOATS))
        if dtype == U64:
            return ir.u64(rng.pick(_WIDE_NUMBERS))
        return self._whole(dtype, rng.pick(_SIGNED_NUMBERS if dtype == I32 else _UNSIGNED))

    def _limit(self, dtype: DataType) -> Expr:
        """Return what a minimum or maximum is taken with."""
        rng = self._rng
        if dtype == F32:
            return ir.f32(rng.pick(_LIMITS))
        return self._whole(dtype, 0) if rng.chance(35) else self.constant(dtype)

    def _whole(self, dtype: DataType, value: int) -> Expr:
        """Return a constant of this value: a literal in two of three."""
        rng = self._rng
        literal, other = (ir.i32, U32) if dtype == I32 else (ir.u32, I32)
        way = rng.below(9)
        if way < 6:
            return literal(value)
        if way == 6:
            bits = value % 2**32
            return ir.cast(dtype, ir.u32(bits) if other == U32 else ir.i32((bits ^ 2**31) - 2**31))
        part = rng.below(1000)
        if way == 7:
            return ir.binop(BinOp.ADD, literal(_wrapped(dtype, value - part)), literal(part))
        return ir.binop(BinOp.SUB, literal(_wrapped(dtype, value + part)), literal(part))

    def _term(self, dtype: DataType, x: Expr) -> Expr:
        """Return ``x`` and a constant under an operator that has a result for every ``x``."""
        rng = self._rng
        op = rng.pick(_OPERATORS[dtype])
        if op in _DIVIDING and dtype == I32:
            value = rng.pick(_SIGNED_NUMBERS)
            if value == -1:  # the reference defines no quotient of the least number
                x = ir.maximum(x, ir.i32(_LEAST + 1))
            return ir.binop(op, x, self._whole(dtype, value))
        constant = self.constant(dtype)
        turned = op not in {*_DIVIDING, BinOp.SHL, BinOp.SHR} and rng.chance(30)
        return ir.binop(op, constant, x) if turned else ir.binop(op, x, constant)


def _wrapped(dtype: DataType, value: int) -> int:
    return (value + 2**31) % 2**32 - 2**31 if dtype == I32 else value % 2**32


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


_BITS = (BinOp.BIT_AND, BinOp.BIT_OR, BinOp.BIT_XOR)
_BOTH = (BinOp.ADD, BinOp.SUB, BinOp.MUL, BinOp.MIN, BinOp.MAX, *_BITS, BinOp.WRAPPING_ADD, BinOp.WRAPPING_SUB)
BINARY = {
    U32: (
        *_BOTH,
        BinOp.DIV,
        BinOp.MOD,
        BinOp.SHL,
        BinOp.SHR,
        BinOp.ROTATE_LEFT,
        BinOp.ROTATE_RIGHT,
        BinOp.ABS_DIFF,
        BinOp.SATURATING_ADD,
        BinOp.SATURATING_SUB,
        BinOp.SATURATING_MUL,
        BinOp.MUL_HIGH,
    ),
    I32: (*_BOTH, BinOp.DIV, BinOp.MOD),
    U64: (BinOp.WRAPPING_ADD, BinOp.WRAPPING_SUB, BinOp.MUL_HIGH),
    F32: (BinOp.ADD, BinOp.SUB, BinOp.MUL, BinOp.MIN, BinOp.MAX, BinOp.ABS_DIFF),
}
_WORDS = (UnOp.BIT_NOT, UnOp.POPCOUNT, UnOp.CLZ, UnOp.CTZ, UnOp.REVERSE_BITS)
UNARY = {
    U32: (*_WORDS, UnOp.NEGATE),
    I32: _WORDS,
    U64: _WORDS,
    F32: (UnOp.NEGATE, UnOp.ABS, UnOp.FLOOR, UnOp.CEIL, UnOp.TRUNC, UnOp.ROUND, UnOp.SIGN),
}
INEXACT = (UnOp.SQRT, UnOp.RECIPROCAL, UnOp.INVERSE_SQRT)
SOURCES = {U32: (I32, F32, BOOL), I32: (U32, F32, BOOL), F32: (U32, I32, BOOL), U64: (U32, I32, BOOL), BOOL: (U32, I32, F32)}
MOVED = (DataType.U8, DataType.I8, DataType.U16, DataType.I16, DataType.I64)  # compared and cast; of i64 ours compute
COMPARISONS = (BinOp.EQ, BinOp.NE, BinOp.LT, BinOp.GT, BinOp.LE, BinOp.GE)


class Known(NamedTuple):
    """A variable in scope."""

    name: str
    dtype: DataType
    is_assignable: bool = True


def computed_types(options: Options) -> list[DataType]:
    """Return the types that programs compute with."""
    return [U32, I32, F32, BOOL, *([U64] if options.u64 else [])]


@dataclass(slots=True)
class ExpressionMaker:
    """Makes expressions; ``readable`` may be loaded from at any index, ``own`` at one's own, and ``variables`` are in scope.

    ``moved`` are integer types that nothing is computed of; an f16 is only there where a buffer can be read.
    """

    rng: RandomSource
    options: Options
    readable: dict[DataType, list[BufferDecl]]
    own: dict[DataType, list[BufferDecl]]
    own_index: Expr
    moved: tuple[DataType, ...] = ()
    variables: list[Known] = field(default_factory=list)
    _recent: list[Expr] = field(default_factory=list)

    def make(self, dtype: DataType, depth: int | None = None) -> Expr:
        """Return an expression of a type, as deep as said."""
        left = self.options.depth if depth is None else depth
        if left <= 0 or self.rng.chance(12):
            return self._leaf(dtype)
        about_constants = 70 if self.options.constants else 12  # of a hundred expressions
        if dtype in TYPES and self.rng.chance(about_constants):
            return ConstantMaker(self.rng, self.make).make(dtype, left - 1)
        ways = [self._binary, self._binary, self._binary, self._unary, self._select, self._cast, self._special]
        if dtype in ADDED:
            ways.append(self._added)
        if dtype == DataType.F16:
            ways = [self._select]
        elif dtype in self.moved:
            ways = [self._select, self._cast, *([self._added] if dtype in ADDED else [])]
        return self.rng.pick(ways)(dtype, left - 1)

    def inexact(self) -> Expr:
        """Return an f32 that a device may get slightly wrong, or a quotient or root."""
        rng, operand = self.rng, self.make(F32, 2)
        way = rng.below(4)
        if way == 0:
            op = rng.pick(tuple(RANGES))
            lowest, highest = RANGES[op]
            within = ir.minimum(ir.maximum(operand, ir.f32(lowest)), ir.f32(highest))
            return ir.select(self.make(BOOL, 1), ir.unop(op, within), self.make(F32, 1))
        if way == 1:
            return ir.select(self.make(BOOL, 1), ir.unop(rng.pick(INEXACT), ir.absolute(operand) + 0.25), self.make(F32, 1))
        quotient = operand / self._divisor()
        return ir.unop(rng.pick((UnOp.NEGATE, UnOp.ABS)), quotient) if way == 2 else quotient

    def condition(self, depth: int = 2) -> Expr:
        """Return a condition, which is u32 in one of five."""
        return self.make(U32 if self.rng.chance(20) else BOOL, depth)

    def index(self) -> Expr:
        """Return an index, often out of range."""
        rng = self.rng
        way = rng.below(4)
        if way == 0:
            return self.own_index
        if way == 1:
            return ir.u32(rng.pick((0, 1, 5, 63, 1 << 31, 0xFFFF_FFFF)))
        any_index = self.make(U32, 1)
        return any_index if way == 2 else any_index % rng.between(1, 80)

    def _divisor(self) -> Expr:
        return ir.f32(self.rng.pick((0.5, -1.5, 3.0, 7.0, -10.0, 100.0)))

    def _leaf(self, dtype: DataType) -> Expr:
        rng = self.rng
        known = [one for one in self.variables if one.dtype == dtype]
        loads = [*self.readable.get(dtype, []), *self.own.get(dtype, [])]
        way = rng.below(10)
        if known and way < 4:
            return ir.var(rng.pick(known).name, dtype)
        if loads and (way < 8 or dtype == DataType.F16):
            buffer = rng.pick(loads)
            own = buffer in self.own.get(dtype, [])
            return ir.load(buffer, self.own_index if own or rng.chance(60) else ir.u32(rng.below(90)))
        return self._id() if dtype == U32 and way < 9 else self._literal(dtype)

    def _literal(self, dtype: DataType) -> Expr:
        rng = self.rng
        if dtype == BOOL:
            return ir.boolean(rng.chance(50))
        if dtype == F32:
            return ir.f32(rng.pick(F32_EDGES) if rng.chance(50) else rng.between(-4096, 4096) / 16)
        if dtype == I32:
            return ir.i32(rng.pick(I32_EDGES) if rng.chance(60) else rng.between(-1000, 1000))
        if dtype == U64:
            return ir.u64(rng.pick(U64_EDGES))
        if dtype == DataType.I64:
            return ir.i64(rng.pick(I32_EDGES) * rng.pick((1, 1, 2**32)))
        if dtype in self.moved:
            return ir.cast(dtype, self._literal(I32 if rng.chance(50) else U32))
        return ir.u32(rng.pick(U32_EDGES) if rng.chance(60) else rng.below(1000))

    def _id(self) -> Expr:
        rng = self.rng
        buffers = [one for many in self.readable.values() for one in many]
        choices = [ir.gid_x(), ir.gid_y(), ir.gid_z(), ir.lid_x(), ir.lid_y(), ir.lid_z(), ir.wid_x(), ir.wid_y(), ir.wid_z()]
        return ir.buf_len(rng.pick(buffers)) if buffers and rng.chance(20) else rng.pick(choices)

    def _binary(self, dtype: DataType, left: int) -> Expr:
        rng = self.rng
        if dtype == BOOL:
            kind = rng.pick([*computed_types(self.options), *self.moved])
            op = rng.pick(COMPARISONS[:2] if kind == BOOL else COMPARISONS)
            return ir.binop(op, self.make(kind, left), self.make(kind, left))
        op = rng.pick(BINARY[dtype])
        first = self.make(dtype, left)
        if op in {BinOp.DIV, BinOp.MOD} and dtype == I32:
            return ir.binop(op, first, self._signed_divisor(left))
        second = self.make(dtype, left)
        if op in {BinOp.DIV, BinOp.MOD} and is_zero(second):
            second = ir.u32(3)
        if dtype == F32 and op is BinOp.MUL:
            second = self._factor(second)
        return ir.binop(op, first, second)

    def _factor(self, expr: Expr) -> Expr:
        """Return a value that makes products neither vanish nor overflow soon."""
        return ir.minimum(ir.maximum(expr, ir.f32(-64.0)), ir.f32(64.0)) if self.rng.chance(80) else ir.f32(0.5)

    def _signed_divisor(self, left: int) -> Expr:
        """Return an i32 that every i32 may be divided by."""
        if self.rng.chance(40):
            return ir.i32(self.rng.pick((1, 2, 3, -2, -3, 10, 2**31 - 1, -(2**31))))
        return ir.cast(I32, self.make(U32, left) % 1000 + 1)

    def _unary(self, dtype: DataType, left: int) -> Expr:
        rng = self.rng
        if dtype != BOOL:
            return ir.unop(rng.pick(UNARY[dtype]), self.make(dtype, left))
        if rng.chance(50):
            return ir.unop(UnOp.LOGICAL_NOT, self.condition(left))
        return ir.unop(rng.pick((UnOp.IS_NAN, UnOp.IS_INF, UnOp.IS_FINITE)), self.make(F32, left))

    def _select(self, dtype: DataType, left: int) -> Expr:
        return ir.select(self.condition(left), self.make(dtype, left), self.make(dtype, left))

    def _cast(self, dtype: DataType, left: int) -> Expr:
        if dtype in self.moved:
            sources = [U32, I32, BOOL, *(one for one in self.moved if one != dtype)]
        else:
            sources = [*SOURCES[dtype], *(self.moved if dtype != F32 else ())]
        if self.options.u64 and dtype not in {F32, U64}:
            sources.append(U64)
        return ir.cast(dtype, self.make(self.rng.pick(sources), left))

    def _added(self, dtype: DataType, left: int) -> Expr:
        return added(self.rng, self.make, dtype, left, wide=self.options.u64)

    def _special(self, dtype: DataType, left: int) -> Expr:
        rng = self.rng
        if self._recent and rng.chance(30):
            again = [one for one in self._recent if one.dtype == dtype]
            if again:
                return rng.pick(again)
        if dtype == F32 and self.options.fma:
            return ir.fma(self.make(F32, left), self._factor(self.make(F32, left)), self.make(F32, left))
        if dtype == BOOL:
            return ir.binop(rng.pick((BinOp.AND, BinOp.OR)), self.condition(left), self.condition(left))
        readable = self.readable.get(dtype)
        return ir.load(rng.pick(readable), self.index()) if readable else self._leaf(dtype)

    def remember(self, expr: Expr) -> None:
        """Keep an expression of values that do not change, to stand in others again."""
        self._recent = [*self._recent[-3:], expr]

    def forget(self) -> None:
        """Keep no expression: a name has another value, or none."""
        self._recent = []
