"""Operators on 64 bits, which are pairs of words with the low one first, on every device.

Few devices compute with more than 32 bits at once, and where the compiler makes pairs of 64 bits itself it may be wrong
(docs/decisions/0038-64-bits-are-pairs-of-words.md).

Source: spec item 1.7 (u64); SPIR-V 1.6, OpBitcast (order of components), OpIAddCarry, OpISubBorrow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_driver.lowering.emit import integers
from vyre_driver.lowering.emit.kinds import Form
from vyre_driver.spirv.instructions import Ins

if TYPE_CHECKING:
    from vyre_driver.lowering.emit.code import Code

_WORD = 0xFFFF_FFFF
_SHIFT_MASK = 63


def constant(code: Code, bits: int) -> int:
    """Return 64 bits."""
    return code.const_vector(bits & _WORD, bits >> 32)


def halves(code: Code, operand: int) -> list[int]:
    """Return the low and the high word."""
    return code.words_of(operand)


def joined(code: Code, low: int, high: int) -> int:
    """Return 64 bits of two words."""
    return code.pair(low, high)


def add(code: Code, left: int, right: int) -> int:
    """Return the wrapped sum."""
    (low, high), (least, most) = halves(code, left), halves(code, right)
    total, carry = integers.extended(code, Ins.IAddCarry, low, least)
    upper = code.op(Ins.IAdd, code.u32, code.op(Ins.IAdd, code.u32, high, most), carry)
    return joined(code, total, upper)


def sub(code: Code, left: int, right: int) -> int:
    """Return the wrapped difference."""
    (low, high), (least, most) = halves(code, left), halves(code, right)
    rest, borrow = integers.extended(code, Ins.ISubBorrow, low, least)
    upper = code.op(Ins.ISub, code.u32, code.op(Ins.ISub, code.u32, high, most), borrow)
    return joined(code, rest, upper)


def mul(code: Code, left: int, right: int) -> int:
    """Return the wrapped product."""
    (low, high), (least, most) = halves(code, left), halves(code, right)
    bottom, carried = integers.wide_product(code, low, least)
    crossed = code.op(Ins.IAdd, code.u32, code.op(Ins.IMul, code.u32, high, least), code.op(Ins.IMul, code.u32, low, most))
    return joined(code, bottom, code.op(Ins.IAdd, code.u32, crossed, carried))


def mul_high(code: Code, left: int, right: int) -> int:
    """Return the high 64 bits of a product, of four products of words."""
    (low, high), (least, most) = halves(code, left), halves(code, right)
    _, carried = integers.wide_product(code, low, least)
    first = integers.wide_product(code, high, least)
    second = integers.wide_product(code, low, most)
    middle, over = integers.extended(code, Ins.IAddCarry, first[0], second[0])
    _, over_again = integers.extended(code, Ins.IAddCarry, middle, carried)
    top = integers.wide_product(code, high, most)
    zero = code.const(0)
    total = [joined(code, *top), joined(code, first[1], zero), joined(code, second[1], zero)]
    total += [joined(code, over, zero), joined(code, over_again, zero)]
    result = total[0]
    for one in total[1:]:
        result = add(code, result, one)
    return result


def equal(code: Code, form: Form, left: int, right: int) -> int:
    """Return whether two are equal, in all of their words."""
    same = code.op(Ins.IEqual, code.vector(4 if form is Form.UVEC4 else 2, code.bool), left, right)
    return code.op(Ins.All, code.bool, same)


def less(code: Code, left: int, right: int, *, signed: bool) -> int:
    """Return whether one is less than another; the sign stands in the high word."""
    order = Ins.SLessThan if signed else Ins.ULessThan
    (low, high), (least, most) = halves(code, left), halves(code, right)
    below = code.op(Ins.ULessThan, code.bool, low, least)
    same = code.op(Ins.IEqual, code.bool, high, most)
    return code.op(
        Ins.LogicalOr,
        code.bool,
        code.op(order, code.bool, high, most),
        code.op(Ins.LogicalAnd, code.bool, same, below),
    )


def bitwise(code: Code, opcode: int, left: int, right: int) -> int:
    """Return what an instruction makes of each pair of bits."""
    return code.op(opcode, code.type_of(Form.WIDE), left, right)


def choose(code: Code, left: int, right: int, *, signed: bool, lesser: bool) -> int:
    """Return the lesser of two, or the greater."""
    below = less(code, left, right, signed=signed)
    return code.select(Form.WIDE, below, *((left, right) if lesser else (right, left)))


def shift_left(code: Code, operand: int, right: int) -> int:
    """Return 64 bits shifted up by the count (u32) modulo 64."""
    count = integers.bit_and(code, right, code.const(_SHIFT_MASK))
    low, high = halves(code, operand)
    within, rest, is_whole = _counts(code, count)
    moved = code.op(Ins.ShiftLeftLogical, code.u32, low, within)
    half = code.op(Ins.ShiftRightLogical, code.u32, low, code.const(1))
    over = code.op(Ins.ShiftRightLogical, code.u32, half, rest)
    upper = code.op(Ins.BitwiseOr, code.u32, code.op(Ins.ShiftLeftLogical, code.u32, high, within), over)
    bottom = code.op(Ins.Select, code.u32, is_whole, code.const(0), moved)
    return joined(code, bottom, code.op(Ins.Select, code.u32, is_whole, moved, upper))


def shift_right(code: Code, operand: int, right: int, *, signed: bool) -> int:
    """Return 64 bits shifted down by the count (u32) modulo 64, filled with zeros or, of a signed number, with its sign."""
    count = integers.bit_and(code, right, code.const(_SHIFT_MASK))
    low, high = halves(code, operand)
    within, rest, is_whole = _counts(code, count)
    moved = _shifted_word(code, high, within, signed=signed)
    filled = sign_word(code, high) if signed else code.const(0)
    twice = code.op(Ins.ShiftLeftLogical, code.u32, high, code.const(1))
    over = code.op(Ins.ShiftLeftLogical, code.u32, twice, rest)
    lower = code.op(Ins.BitwiseOr, code.u32, code.op(Ins.ShiftRightLogical, code.u32, low, within), over)
    bottom = code.op(Ins.Select, code.u32, is_whole, moved, lower)
    return joined(code, bottom, code.op(Ins.Select, code.u32, is_whole, filled, moved))


def _counts(code: Code, count: int) -> tuple[int, int, int]:
    """Return a count modulo 32, 31 less that, and whether the count is 32 or more."""
    within = integers.bit_and(code, count, code.const(31))
    rest = integers.sub(code, code.const(31), within)
    return within, rest, code.op(Ins.UGreaterThanEqual, code.bool, count, code.const(32))


def _shifted_word(code: Code, word: int, count: int, *, signed: bool) -> int:
    if not signed:
        return code.op(Ins.ShiftRightLogical, code.u32, word, count)
    number = code.op(Ins.Bitcast, code.i32, word)
    return code.bits(code.op(Ins.ShiftRightArithmetic, code.i32, number, count))


def sign_word(code: Code, high: int) -> int:
    """Return a word of the sign of 64 bits, by their high word: all ones below 0."""
    return _shifted_word(code, high, code.const(31), signed=True)


def negated_where(code: Code, operand: int, sign: int) -> int:
    """Return 64 bits, negated where a sign word is all ones, without an instruction that negates."""
    flipped = bitwise(code, Ins.BitwiseXor, operand, joined(code, sign, sign))
    return add(code, flipped, joined(code, integers.bit_and(code, sign, code.const(1)), code.const(0)))


def magnitude(code: Code, operand: int) -> tuple[int, int]:
    """Return the distance of an i64 from 0, and its sign word."""
    sign = sign_word(code, halves(code, operand)[1])
    return negated_where(code, operand, sign), sign


def is_zero(code: Code, operand: int) -> int:
    """Return whether no bit is set."""
    low, high = halves(code, operand)
    return code.op(Ins.IEqual, code.bool, code.op(Ins.BitwiseOr, code.u32, low, high), code.const(0))


def invert(code: Code, operand: int) -> int:
    """Return the bits inverted."""
    return code.op(Ins.Not, code.vector(2), operand)


def popcount(code: Code, operand: int) -> int:
    """Return how many bits are set."""
    low, high = halves(code, operand)
    count = code.op(Ins.IAdd, code.u32, integers.popcount(code, low), integers.popcount(code, high))
    return joined(code, count, code.const(0))


def clz(code: Code, operand: int) -> int:
    """Return the zeros above the highest bit; 64 of 0."""
    low, high = halves(code, operand)
    return _zeros(code, high, integers.clz(code, high), integers.clz(code, low))


def ctz(code: Code, operand: int) -> int:
    """Return the zeros below the lowest bit; 64 of 0."""
    low, high = halves(code, operand)
    return _zeros(code, low, integers.ctz(code, low), integers.ctz(code, high))


def _zeros(code: Code, first: int, in_first: int, in_second: int) -> int:
    ends = code.op(Ins.INotEqual, code.bool, first, code.const(0))
    beyond = code.op(Ins.IAdd, code.u32, code.const(32), in_second)
    return joined(code, code.op(Ins.Select, code.u32, ends, in_first, beyond), code.const(0))


def reverse_bits(code: Code, operand: int) -> int:
    """Return the bits in the opposite order."""
    low, high = halves(code, operand)
    return joined(code, integers.reverse_bits(code, high), integers.reverse_bits(code, low))
