"""Whole numbers: the operators of numpy's int32 and uint32, bit for bit, with what is proven of their results.

Source: issue of the language's semantics: ``x // 0`` and ``x % 0`` are 0, shift counts are taken modulo 32, overflow wraps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_driver.checks import U32_MAX
from vyre_driver.ir.arithmetic import Binary, LitBool, LitI32, LitU32, Unary
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.expressions import Cast, Select
from vyre_driver.ir.operators import BinOp, UnOp
from vyre_driver.lang.frontend.conversions import bits_as_i32
from vyre_driver.lang.frontend.values import Number, literal
from vyre_driver.lang.types import i32, u32

if TYPE_CHECKING:
    from vyre_driver.ir.expressions import Expr
    from vyre_driver.lang.frontend.draft import Draft
    from vyre_driver.lang.types import ScalarType

_SHIFT_MASK = 31


def whole(scalar: ScalarType, expr: Expr, low: int, high: int) -> Number:
    """Return a result that is between two numbers unless it wraps; a literal where there is one such number alone."""
    least, most = scalar.bounds
    if low == high:
        return literal(scalar, (low - least) % (most - least + 1) + least)
    return Number(scalar, expr, low, high) if least <= low <= high <= most else Number(scalar, expr, least, most)


def add(left: Number, right: Number) -> Number:
    """Return the sum."""
    if isinstance(left.expr, LitU32) and not isinstance(right.expr, LitU32):
        left, right = right, left
    if right.low == right.high == 0:
        return left
    bounds = left.low + right.low, left.high + right.high
    if isinstance(right.expr, LitU32):
        step, rest = _step(left)
        if step:
            step = step + right.expr.value & U32_MAX
            return whole(left.type, Binary(BinOp.ADD, rest, LitU32(step)) if step else rest, *bounds)
    else:
        for one, other in ((right, left), (left, right)):
            step, rest = _step(one)
            by = step - (U32_MAX + 1) * (one.type is i32 and step > i32.bounds[1])
            if step and _fits(left.type, bounds[0] - by, bounds[1] - by):  # then the literal may go up into what is added next
                parts = (rest, other.expr) if one is left else (other.expr, rest)
                return whole(left.type, Binary(BinOp.ADD, Binary(BinOp.ADD, *parts), LitU32(step)), *bounds)
    return whole(left.type, Binary(BinOp.ADD, left.expr, right.expr), *bounds)


def _step(number: Number) -> tuple[int, Expr]:
    """Return the literal in a sum, and what it is added to; 0 and the number itself where it is none."""
    inner = number.expr
    if isinstance(inner, Binary) and inner.op is BinOp.ADD:
        for literal_part, rest in ((inner.left, inner.right), (inner.right, inner.left)):
            if isinstance(literal_part, LitU32):
                return literal_part.value, rest
    return 0, inner


def _fits(scalar: ScalarType, low: int, high: int) -> bool:
    least, most = scalar.bounds
    return least <= low <= high <= most


def subtract(left: Number, right: Number) -> Number:
    """Return the difference."""
    if right.low == right.high == 0:
        return left
    return whole(left.type, Binary(BinOp.SUB, left.expr, right.expr), left.low - right.high, left.high - right.low)


def multiply(left: Number, right: Number) -> Number:
    """Return the product."""
    corners = [one * other for one in (left.low, left.high) for other in (right.low, right.high)]
    if left.low == left.high == 1:
        return right
    if right.low == right.high == 1:
        return left
    return whole(left.type, Binary(BinOp.MUL, left.expr, right.expr), min(corners), max(corners))


def negative(number: Number) -> Number:
    """Return the number of the other sign."""
    return whole(number.type, Binary(BinOp.SUB, LitU32(0), number.expr), -number.high, -number.low)


def magnitude(draft: Draft, number: Number) -> Number:
    """Return the number without its sign; the least i32 stays as it is.

    Where it may be that one, it is the greater of a number and its negation: of a choice by the sign a compiler may say that it
    is never below 0 (docs/lowering.md, "Drivers").
    """
    if number.low >= 0:
        return number
    held = draft.hold(number, "abs")
    negated = Binary(BinOp.SUB, LitU32(0), held.expr)
    if number.low == i32.bounds[0]:
        greater = Binary(BinOp.MAX, bits_as_i32(held), Cast(DataType.I32, negated))
        return Number(i32, Cast(DataType.U32, greater), *i32.bounds)
    turned = _chosen(_is_negative(held), negated, held.expr)
    return whole(i32, turned, max(0, -number.high), max(-number.low, number.high))


def bit_and(left: Number, right: Number) -> Number:
    """Return the bits that are set in both."""
    naturals = [one.high for one in (left, right) if one.low >= 0]
    low, high = (0, min(naturals)) if naturals else left.type.bounds
    return whole(left.type, Binary(BinOp.BIT_AND, left.expr, right.expr), low, high)


def bit_or(left: Number, right: Number) -> Number:
    """Return the bits that are set in either."""
    return _of_bits(BinOp.BIT_OR, left, right, max(left.low, right.low))


def bit_xor(left: Number, right: Number) -> Number:
    """Return the bits that are set in one of both."""
    return _of_bits(BinOp.BIT_XOR, left, right, 0)


def _of_bits(op: BinOp, left: Number, right: Number, low: int) -> Number:
    high = (1 << max(left.high, right.high).bit_length()) - 1
    if min(left.low, right.low) < 0:
        low, high = left.type.bounds
    return Number(left.type, Binary(op, left.expr, right.expr), low, high)


def invert(number: Number) -> Number:
    """Return the number with every bit turned."""
    low, high = (-1 - number.high, -1 - number.low) if number.type is i32 else number.type.bounds
    return Number(number.type, Unary(UnOp.BIT_NOT, number.expr), low, high)


def shift_left(left: Number, right: Number) -> Number:
    """Return the bits moved up by ``right`` modulo 32."""
    expr = Binary(BinOp.SHL, left.expr, right.expr)
    if right.low < 0 or right.high > _SHIFT_MASK:
        return Number(left.type, expr, *left.type.bounds)
    corners = [one << by for one in (left.low, left.high) for by in (right.low, right.high)]
    return whole(left.type, expr, min(corners), max(corners))


def shift_right(draft: Draft, left: Number, right: Number) -> Number:
    """Return the number moved down by ``right`` modulo 32; an i32 keeps its sign."""
    low, high = min(left.low, 0), max(left.high, 0)
    if right.low >= 0 and right.high <= _SHIFT_MASK:
        corners = [one >> by for one in (left.low, left.high) for by in (right.low, right.high)]
        low, high = min(corners), max(corners)
    if left.low >= 0:
        return whole(left.type, Binary(BinOp.SHR, left.expr, right.expr), low, high)
    held = draft.hold(left, "shifted")
    sign = draft.hold(Number(u32, _chosen(_is_negative(held), LitU32(0xFFFF_FFFF), LitU32(0)), *u32.bounds), "sign").expr
    turned = Binary(BinOp.SHR, Binary(BinOp.BIT_XOR, held.expr, sign), right.expr)
    return whole(i32, Binary(BinOp.BIT_XOR, turned, sign), low, high)


def floor_divide(draft: Draft, left: Number, right: Number) -> Number:
    """Return the quotient, rounded down; 0 where ``right`` is."""
    if left.low >= 0 and right.low >= 0:
        return _divided(draft, left, right)
    shift = _power_of_two(right)
    if shift is not None:
        return shift_right(draft, left, literal(left.type, shift))
    quotient, _ = _signed_quotient(draft, left, right, is_up=False)
    return quotient


def ceiling_divide(draft: Draft, left: Number, right: Number) -> Number:
    """Return the quotient, rounded up; 0 where ``right`` is."""
    if left.low < 0 or right.low < 0:
        quotient, _ = _signed_quotient(draft, left, right, is_up=True)
        return quotient
    if right.high == 0:
        return literal(left.type, 0)
    right = draft.hold(right, "divisor")
    if left.high + right.high - 1 > U32_MAX:  # a sum would wrap
        left = draft.hold(left, "dividend")
        quotient = draft.hold(_divided(draft, left, right), "quotient")
        is_off = Binary(BinOp.NE, Binary(BinOp.MUL, quotient.expr, right.expr), left.expr)
        expr: Expr = Binary(BinOp.ADD, quotient.expr, Cast(DataType.U32, is_off))
    else:
        words = (Number(u32, one.expr, one.low, one.high) for one in (left, right))
        expr = Binary(BinOp.DIV, add(add(*words), literal(u32, U32_MAX)).expr, right.expr)
    if right.low > 0:
        return whole(left.type, expr, -(-left.low // right.high), -(-left.high // right.low))
    return whole(left.type, Select(_is_zero(right), LitU32(0), expr), 0, left.high)


def remainder(draft: Draft, left: Number, right: Number) -> Number:
    """Return what the rounded quotient leaves, of the sign of ``right``; 0 where ``right`` is 0."""
    if left.low >= 0 and right.low >= 0:
        return _left_over(draft, left, right)
    if _power_of_two(right) is not None:
        return bit_and(left, literal(left.type, right.low - 1))
    quotient, right = _signed_quotient(draft, left, right, is_up=False)
    left = draft.hold(left, "dividend")
    difference: Expr = Binary(BinOp.SUB, left.expr, Binary(BinOp.MUL, quotient.expr, right.expr))
    low, high = min(right.low + 1, 0), max(right.high - 1, 0)
    if right.low <= 0 <= right.high:
        difference = Select(_is_zero(right), LitU32(0), difference)
    return Number(i32, difference, low, high)


def _power_of_two(number: Number) -> int | None:
    value = number.low
    return value.bit_length() - 1 if value == number.high > 0 and not value & (value - 1) else None


def _divided(draft: Draft, left: Number, right: Number) -> Number:
    """Return the quotient of numbers that are not negative."""
    expr: Expr
    if right.high == 0:
        return literal(left.type, 0)
    if right.low > 0:
        expr = Binary(BinOp.DIV, left.expr, right.expr)
        return whole(left.type, expr, left.low // right.high, left.high // right.low)
    right = draft.hold(right, "divisor")
    expr = Select(_is_zero(right), LitU32(0), Binary(BinOp.DIV, left.expr, right.expr))
    return whole(left.type, expr, 0, left.high)


def _left_over(draft: Draft, left: Number, right: Number) -> Number:
    """Return the remainder of numbers that are not negative."""
    expr: Expr
    if right.high == 0:
        return literal(left.type, 0)
    if left.low == left.high and right.low == right.high:
        return literal(left.type, left.low % right.low)
    if right.low > 0:
        if left.high < right.low:
            return left
        found = whole(left.type, Binary(BinOp.MOD, left.expr, right.expr), 0, min(left.high, right.high - 1))
        draft.facts.know_below(found, right)
        return found
    expr = Binary(BinOp.MOD, left.expr, right.expr)  # by 0 it gives 0, as here
    return whole(left.type, expr, 0, min(left.high, max(right.high - 1, 0)))


def _signed_quotient(draft: Draft, left: Number, right: Number, *, is_up: bool) -> tuple[Number, Number]:
    """Return the quotient of i32, rounded down or up, and the divisor that it was made with.

    It is made of magnitudes, which cannot overflow.
    """
    left, right = draft.hold(left, "dividend"), draft.hold(right, "divisor")
    top, below = _magnitude_bits(draft, left), _magnitude_bits(draft, right)
    quotient = draft.hold(_divided(draft, top, below), "quotient")
    exact = Binary(BinOp.EQ, Binary(BinOp.MUL, quotient.expr, below.expr), top.expr)
    away: Expr = Binary(BinOp.ADD, quotient.expr, Cast(DataType.U32, Unary(UnOp.LOGICAL_NOT, exact)))
    if right.low <= 0 <= right.high:  # 0 by anything is 0 here, also where that is not exact
        away = Select(_is_zero(right), LitU32(0), away)
    below_0, above_0 = (quotient.expr, away) if is_up else (away, quotient.expr)
    result = _chosen(_differ(left, right), Binary(BinOp.SUB, LitU32(0), below_0), above_0)
    return draft.let("rounded", Number(i32, result, *i32.bounds)), right


def _magnitude_bits(draft: Draft, number: Number) -> Number:
    """Return the magnitude of an i32 as a u32, which also holds that of the least."""
    if number.low >= 0:
        return Number(u32, number.expr, number.low, number.high)
    if number.low == number.high:
        return literal(u32, -number.low)
    turned = _chosen(_is_negative(number), Binary(BinOp.SUB, LitU32(0), number.expr), number.expr)
    low = 1 if number.high < 0 else 0
    return draft.let("magnitude", Number(u32, turned, low, max(-number.low, number.high)))


def _differ(left: Number, right: Number) -> Expr:
    """Return whether the signs of two i32 differ."""
    one, other = _is_negative(left), _is_negative(right)
    if isinstance(one, LitBool):
        one, other = other, one
    if not isinstance(other, LitBool):
        return Binary(BinOp.NE, one, other)
    if isinstance(one, LitBool):
        return LitBool(one.value != other.value)
    return Unary(UnOp.LOGICAL_NOT, one) if other.value else one


def _chosen(test: Expr, yes: Expr, no: Expr) -> Expr:
    if isinstance(test, LitBool):
        return yes if test.value else no
    return Select(test, yes, no)


def _is_negative(number: Number) -> Expr:
    if number.high < 0 or number.low >= 0:
        return LitBool(number.high < 0)
    return Binary(BinOp.LT, bits_as_i32(number), LitI32(0))


def _is_zero(number: Number) -> Expr:
    return Binary(BinOp.EQ, number.expr, LitU32(0))


def truncate_divide(draft: Draft, left: Number, right: Number) -> Number:
    """Return the quotient, rounded towards zero; 0 where ``right`` is."""
    if left.low >= 0 and right.low >= 0:
        return _divided(draft, left, right)
    left, right = draft.hold(left, "dividend"), draft.hold(right, "divisor")
    found = _divided(draft, _magnitude_bits(draft, left), _magnitude_bits(draft, right))
    return _turned(_differ(left, right), draft.hold(found, "quotient"))


def truncate_remainder(draft: Draft, left: Number, right: Number) -> Number:
    """Return what the truncated quotient leaves, of the sign of ``left``; 0 where ``right`` is."""
    if left.low >= 0 and right.low >= 0:
        return _left_over(draft, left, right)
    left, right = draft.hold(left, "dividend"), draft.hold(right, "divisor")
    found = _left_over(draft, _magnitude_bits(draft, left), _magnitude_bits(draft, right))
    return _turned(_is_negative(left), draft.hold(found, "remainder"))


def _turned(test: Expr, number: Number) -> Number:
    return Number(i32, _chosen(test, negative(number).expr, number.expr), *i32.bounds)
