"""Numbers of 64 bits: the operators of numpy's int64 and uint64, bit for bit, and those of float64 that the IR has.

As for words, ``x // 0`` and ``x % 0`` are 0, shift counts are taken modulo 64, and overflow wraps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_driver.checks import U32_MAX
from vyre_driver.ir.arithmetic import Binary, LitU32, Unary
from vyre_driver.ir.builders import operation
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.expressions import Cast, Select
from vyre_driver.ir.operators import BinOp, UnOp
from vyre_driver.lang.frontend.values import Number, literal, zero
from vyre_driver.lang.types import bool_, f64, i32, i64, u32, u64

if TYPE_CHECKING:
    from vyre_driver.ir.arithmetic import Expr
    from vyre_driver.lang.frontend.draft import Draft
    from vyre_driver.lang.types import ScalarType

_INTEGERS = {
    "+": BinOp.ADD,
    "-": BinOp.SUB,
    "*": BinOp.MUL,
    "&": BinOp.BIT_AND,
    "|": BinOp.BIT_OR,
    "^": BinOp.BIT_XOR,
}
_FLOATS = {"+": BinOp.ADD, "-": BinOp.SUB, "*": BinOp.MUL, "/": BinOp.DIV}


def number_of(scalar: ScalarType, expr: Expr) -> Number:
    """Return a number of which nothing is proven."""
    return Number(scalar, expr, *(scalar.bounds if scalar.is_whole else (0, 0)))


def of_two(op: BinOp, left: Number, right: Number) -> Number:
    """Return an operator of the IR on two numbers of one type."""
    return number_of(left.type, operation(op, left.type.element, left.expr, right.expr))


def of_one(op: UnOp, number: Number) -> Number:
    """Return an operator of the IR on a number."""
    return number_of(number.type, operation(op, number.type.element, number.expr))


def combined(draft: Draft, sign: str, left: Number, right: Number) -> Number | None:
    """Return an operator on two numbers of one type, None where it has none."""
    if left.type is f64:
        return of_two(_FLOATS[sign], left, right) if sign in _FLOATS else None
    if sign in _INTEGERS:
        return of_two(_INTEGERS[sign], left, right)
    if sign == "//":
        return floor_divide(draft, left, right)
    return remainder(draft, left, right) if sign == "%" else None


def floor_divide(draft: Draft, left: Number, right: Number) -> Number:
    """Return the quotient, rounded down; 0 where ``right`` is."""
    if left.type is u64:
        return of_two(BinOp.DIV, left, right)
    left, right = draft.hold(left, "dividend"), draft.hold(right, "divisor")
    quotient = draft.hold(of_two(BinOp.DIV, left, right), "quotient")
    below = of_two(BinOp.SUB, quotient, literal(i64, 1))
    return number_of(i64, Select(_is_off(draft, left, right)[0], below.expr, quotient.expr))


def ceiling_divide(draft: Draft, left: Number, right: Number) -> Number:
    """Return the quotient, rounded up; 0 where ``right`` is."""
    left, right = draft.hold(left, "dividend"), draft.hold(right, "divisor")
    quotient = draft.hold(of_two(BinOp.DIV, left, right), "quotient")
    above = of_two(BinOp.ADD, quotient, literal(left.type, 1))
    nothing = zero(left.type)
    rest = draft.hold(of_two(BinOp.MOD, left, right), "rest")
    is_below = Binary(BinOp.NE, rest.expr, nothing)
    if left.type is i64:
        agrees = Binary(BinOp.LE, nothing, of_two(BinOp.BIT_XOR, rest, right).expr)
        is_below = Binary(BinOp.AND, is_below, agrees)
    return number_of(left.type, Select(is_below, above.expr, quotient.expr))


def remainder(draft: Draft, left: Number, right: Number) -> Number:
    """Return what the rounded quotient leaves, of the sign of ``right``; 0 where ``right`` is 0."""
    if left.type is u64:
        return of_two(BinOp.MOD, left, right)
    left, right = draft.hold(left, "dividend"), draft.hold(right, "divisor")
    is_off, rest = _is_off(draft, left, right)
    return number_of(i64, Select(is_off, of_two(BinOp.ADD, rest, right).expr, rest.expr))


def _is_off(draft: Draft, left: Number, right: Number) -> tuple[Expr, Number]:
    """Return whether a quotient of i64 is rounded up, since its rest has another sign than the divisor; and the rest."""
    rest = draft.hold(of_two(BinOp.MOD, left, right), "rest")
    nothing = zero(i64)
    differs = Binary(BinOp.LT, of_two(BinOp.BIT_XOR, rest, right).expr, nothing)
    return Binary(BinOp.AND, Binary(BinOp.NE, rest.expr, nothing), differs), rest


def shifted(op: BinOp, number: Number, by: Number) -> Number:
    """Return the bits moved by a whole number modulo 64."""
    return number_of(number.type, operation(op, number.type.element, number.expr, word(by)))


def word(number: Number) -> Expr:
    """Return the low 32 bits of a whole number."""
    return Cast(DataType.U32, number.expr) if number.type.is_wide else number.expr


def negative(number: Number) -> Number:
    """Return the number of the other sign."""
    return of_one(UnOp.NEGATE, number)


def rotated(op: BinOp, number: Number, by: Number, draft: Draft) -> Number:
    """Return the bits moved by a number modulo 64, those that leave coming in at the other end."""
    held, count = draft.hold(number, "word"), draft.hold(Number(u32, word(by), *u32.bounds), "count")
    back = Number(u32, Binary(BinOp.SUB, LitU32(0), count.expr), *u32.bounds)
    bits = Number(u64, _bits(held), *u64.bounds)
    left, right = (count, back) if op is BinOp.ROTATE_LEFT else (back, count)
    both = of_two(BinOp.BIT_OR, shifted(BinOp.SHL, bits, left), shifted(BinOp.SHR, bits, right))
    return both if number.type is u64 else number_of(number.type, Cast(number.type.element, both.expr))


def counted(op: UnOp, number: Number) -> Number:
    """Return how many bits are set, or are not above the highest or below the lowest one that is."""
    return Number(i32, Cast(DataType.U32, Unary(op, _bits(number))), 0, 64)


def _bits(number: Number) -> Expr:
    """Return the bits of a number as a u64."""
    return number.expr if number.type is u64 else Cast(DataType.U64, number.expr)


def as_index(number: Number) -> Number:
    """Return an index as a u32, the greatest one where it is negative or beyond every array."""
    if number.low >= 0 and number.high <= U32_MAX:
        return Number(u32, Cast(DataType.U32, number.expr), number.low, number.high)
    bits = _bits(number)
    is_near = Binary(BinOp.LT, bits, literal(u64, U32_MAX).expr)
    return Number(u32, Select(is_near, Cast(DataType.U32, bits), LitU32(U32_MAX)), *u32.bounds)


def predicate(op: UnOp, number: Number) -> Number:
    """Return whether a float is no number, infinite, or neither."""
    if number.type is not f64:
        return Number(bool_, Unary(op, number.expr))
    if op is UnOp.IS_NAN:
        return Number(bool_, Binary(BinOp.NE, number.expr, number.expr))
    size = operation(UnOp.ABS, DataType.F64, number.expr)
    return Number(bool_, Binary(BinOp.EQ if op is UnOp.IS_INF else BinOp.LT, size, literal(f64, float("inf")).expr))


def truncate_divide(_: Draft, left: Number, right: Number) -> Number:
    """Return the quotient, rounded towards zero; 0 where ``right`` is."""
    return of_two(BinOp.DIV, left, right)


def truncate_remainder(_: Draft, left: Number, right: Number) -> Number:
    """Return what the truncated quotient leaves, of the sign of ``left``; 0 where ``right`` is."""
    return of_two(BinOp.MOD, left, right)
