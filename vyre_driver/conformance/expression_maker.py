"""Random expressions of a type, which no input makes an error, and of which f32 is the same on every right device.

Functions may be some steps of the last place off on a device. What is computed of them would be off by any amount, or be
another branch: they are *inexact*, and stay out of everything but what keeps them as near as they were. So do quotients and
roots, which were inexact too when seeds got their meaning.

Source: spec items 1.7 and 1.8 (operator typing), 8.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from vyre_driver.conformance.added_operator_maker import ADDED, added
from vyre_driver.conformance.constant_maker import TYPES, ConstantMaker
from vyre_driver.conformance.patterns import F32_EDGES, I32_EDGES, U32_EDGES, U64_EDGES
from vyre_driver.conformance.tolerances import RANGES
from vyre_driver.ir import builders as ir
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.operators import BinOp, UnOp
from vyre_driver.ir.validation.operator_types import is_zero

if TYPE_CHECKING:
    from vyre_driver.conformance.options import Options
    from vyre_driver.conformance.random_source import RandomSource
    from vyre_driver.ir.arithmetic import Expr
    from vyre_driver.ir.buffers import BufferDecl

U32, I32, U64, F32, BOOL = DataType.U32, DataType.I32, DataType.U64, DataType.F32, DataType.Bool

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
