"""Operators on 64 bits, which are pairs of words with the low one first, on every device.

Few devices compute with more than 32 bits at once, and where the compiler makes pairs of 64 bits itself it may be wrong
(docs/decisions/0038-64-bits-are-pairs-of-words.md). They are divided by the device's own instruction, or bit by bit where it
has none: by zero, quotient and remainder are 0. Those of i64 are made of magnitudes: the quotient is rounded to zero, the
remainder has the sign of the dividend, and the least number by -1 wraps. Conversions of floats are made by words, and rounded
once.

Source: docs/ir.md, "Operators of this package"; spec item 1.7 (u64; casts: a float is truncated and clamped, NaN is 0);
docs/decisions/0019-signed-quotients-are-made-of-magnitudes.md; SPIR-V 1.6, OpBitcast (order of components),
OpIAddCarry, OpISubBorrow.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from vyre_driver.lowering.emit import floats, integers
from vyre_driver.lowering.emit.blocks import counting
from vyre_driver.lowering.emit.kinds import Form
from vyre_driver.spirv.opcodes import Glsl, Ins

if TYPE_CHECKING:
    from collections.abc import Callable

    from vyre_driver.lowering.emit.code import Code


_WORD = 0xFFFF_FFFF
_BITS, _SHIFT_MASK = 64, 63
ALL, MOST, LEAST = 2**64 - 1, 2**63 - 1, 2**63


def constant(code: Code, bits: int) -> int:
    """Return 64 bits."""
    return code.const_vector(bits & _WORD, bits >> 32)


def add(code: Code, left: int, right: int) -> int:
    """Return the wrapped sum."""
    (low, high), (least, most) = code.words_of(left), code.words_of(right)
    total, carry = integers.extended(code, Ins.IAddCarry, low, least)
    upper = code.op(Ins.IAdd, code.u32, code.op(Ins.IAdd, code.u32, high, most), carry)
    return code.pair(total, upper)


def sub(code: Code, left: int, right: int) -> int:
    """Return the wrapped difference."""
    (low, high), (least, most) = code.words_of(left), code.words_of(right)
    rest, borrow = integers.extended(code, Ins.ISubBorrow, low, least)
    upper = code.op(Ins.ISub, code.u32, code.op(Ins.ISub, code.u32, high, most), borrow)
    return code.pair(rest, upper)


def mul(code: Code, left: int, right: int) -> int:
    """Return the wrapped product."""
    (low, high), (least, most) = code.words_of(left), code.words_of(right)
    bottom, carried = integers.wide_product(code, low, least)
    crossed = code.op(Ins.IAdd, code.u32, code.op(Ins.IMul, code.u32, high, least), code.op(Ins.IMul, code.u32, low, most))
    return code.pair(bottom, code.op(Ins.IAdd, code.u32, crossed, carried))


def mul_high(code: Code, left: int, right: int) -> int:
    """Return the high 64 bits of a product, of four products of words."""
    (low, high), (least, most) = code.words_of(left), code.words_of(right)
    _, carried = integers.wide_product(code, low, least)
    first = integers.wide_product(code, high, least)
    second = integers.wide_product(code, low, most)
    middle, over = integers.extended(code, Ins.IAddCarry, first[0], second[0])
    _, over_again = integers.extended(code, Ins.IAddCarry, middle, carried)
    top = integers.wide_product(code, high, most)
    zero = code.const(0)
    total = [code.pair(*top), code.pair(first[1], zero), code.pair(second[1], zero)]
    total += [code.pair(over, zero), code.pair(over_again, zero)]
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
    (low, high), (least, most) = code.words_of(left), code.words_of(right)
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
    low, high = code.words_of(operand)
    within, rest, is_whole = _counts(code, count)
    moved = code.op(Ins.ShiftLeftLogical, code.u32, low, within)
    half = code.op(Ins.ShiftRightLogical, code.u32, low, code.const(1))
    over = code.op(Ins.ShiftRightLogical, code.u32, half, rest)
    upper = code.op(Ins.BitwiseOr, code.u32, code.op(Ins.ShiftLeftLogical, code.u32, high, within), over)
    bottom = code.op(Ins.Select, code.u32, is_whole, code.const(0), moved)
    return code.pair(bottom, code.op(Ins.Select, code.u32, is_whole, moved, upper))


def shift_right(code: Code, operand: int, right: int, *, signed: bool) -> int:
    """Return 64 bits shifted down by the count (u32) modulo 64, filled with zeros or, of a signed number, with its sign."""
    count = integers.bit_and(code, right, code.const(_SHIFT_MASK))
    low, high = code.words_of(operand)
    within, rest, is_whole = _counts(code, count)
    moved = _shifted_word(code, high, within, signed=signed)
    filled = sign_word(code, high) if signed else code.const(0)
    twice = code.op(Ins.ShiftLeftLogical, code.u32, high, code.const(1))
    over = code.op(Ins.ShiftLeftLogical, code.u32, twice, rest)
    lower = code.op(Ins.BitwiseOr, code.u32, code.op(Ins.ShiftRightLogical, code.u32, low, within), over)
    bottom = code.op(Ins.Select, code.u32, is_whole, moved, lower)
    return code.pair(bottom, code.op(Ins.Select, code.u32, is_whole, filled, moved))


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
    flipped = bitwise(code, Ins.BitwiseXor, operand, code.pair(sign, sign))
    return add(code, flipped, code.pair(integers.bit_and(code, sign, code.const(1)), code.const(0)))


def magnitude(code: Code, operand: int) -> tuple[int, int]:
    """Return the distance of an i64 from 0, and its sign word."""
    sign = sign_word(code, code.words_of(operand)[1])
    return negated_where(code, operand, sign), sign


def is_zero(code: Code, operand: int) -> int:
    """Return whether no bit is set."""
    low, high = code.words_of(operand)
    return code.op(Ins.IEqual, code.bool, code.op(Ins.BitwiseOr, code.u32, low, high), code.const(0))


def invert(code: Code, operand: int) -> int:
    """Return the bits inverted."""
    return code.op(Ins.Not, code.vector(2), operand)


def popcount(code: Code, operand: int) -> int:
    """Return how many bits are set."""
    low, high = code.words_of(operand)
    count = code.op(Ins.IAdd, code.u32, integers.popcount(code, low), integers.popcount(code, high))
    return code.pair(count, code.const(0))


def clz(code: Code, operand: int) -> int:
    """Return the zeros above the highest bit; 64 of 0."""
    low, high = code.words_of(operand)
    return _zeros(code, high, integers.clz(code, high), integers.clz(code, low))


def ctz(code: Code, operand: int) -> int:
    """Return the zeros below the lowest bit; 64 of 0."""
    low, high = code.words_of(operand)
    return _zeros(code, low, integers.ctz(code, low), integers.ctz(code, high))


def _zeros(code: Code, first: int, in_first: int, in_second: int) -> int:
    ends = code.op(Ins.INotEqual, code.bool, first, code.const(0))
    beyond = code.op(Ins.IAdd, code.u32, code.const(32), in_second)
    return code.pair(code.op(Ins.Select, code.u32, ends, in_first, beyond), code.const(0))


def reverse_bits(code: Code, operand: int) -> int:
    """Return the bits in the opposite order."""
    low, high = code.words_of(operand)
    return code.pair(integers.reverse_bits(code, high), integers.reverse_bits(code, low))


def divide(code: Code, left: int, right: int) -> int:
    """Return the quotient of u64."""
    return _divided(code, left, right)[0]


def modulo(code: Code, left: int, right: int) -> int:
    """Return the remainder of u64."""
    return _divided(code, left, right)[1]


def divide_signed(code: Code, left: int, right: int) -> int:
    """Return the quotient of i64."""
    (size, sign), (divisor, other) = magnitude(code, left), magnitude(code, right)
    return negated_where(code, divide(code, size, divisor), code.op(Ins.BitwiseXor, code.u32, sign, other))


def modulo_signed(code: Code, left: int, right: int) -> int:
    """Return the remainder of i64."""
    size, sign = magnitude(code, left)
    return negated_where(code, modulo(code, size, magnitude(code, right)[0]), sign)


def _divided(code: Code, left: int, right: int) -> tuple[int, int]:
    """Return quotient and remainder of u64, of which a program often wants both.

    The quotient is hidden: NVIDIA's compiler (580.159.04 on an H200) takes minutes for some chains of them.
    """
    keys = ("quotient", left, right), ("remainder", left, right)
    known = [code.recall(key) for key in keys]
    if known[0] is not None and known[1] is not None:
        return known[0], known[1]
    none, zero = is_zero(code, right), constant(code, 0)
    safe = code.select(Form.WIDE, none, constant(code, 1), right)
    if code.has_wide:
        numbers = (code.op(Ins.Bitcast, code.u64, one) for one in (left, safe))
        low, high = code.words_of(code.op(Ins.Bitcast, code.vector(2), code.op(Ins.UDiv, code.u64, *numbers)))
        quotient = code.pair(code.hide(low), high)
        rest = sub(code, left, mul(code, quotient, safe))
    else:
        quotient, rest = _bit_by_bit(code, left, safe)
    found = code.select(Form.WIDE, none, zero, quotient), rest  # the remainder of 1 is 0
    return code.remember(keys[0], found[0]), code.remember(keys[1], found[1])


def _bit_by_bit(code: Code, left: int, right: int) -> tuple[int, int]:
    """Return quotient and remainder of pairs of words by 64 turns of a loop.

    Each takes a bit of the dividend from above into the rest, and one of the quotient from below into the dividend's place. A
    rest that had its upper bit before that is greater than any divisor, and what wraps in the difference is right.
    """
    pair = code.type_of(Form.WIDE)
    taken, rest = code.variable(pair), code.variable(pair)
    code.effect(Ins.Store, taken, left)
    code.effect(Ins.Store, rest, constant(code, 0))
    one = code.const(1)
    with counting(code, code.const(0), code.const(_BITS)):
        dividend, before = code.result(Ins.Load, pair, taken), code.result(Ins.Load, pair, rest)
        upper = shift_right(code, dividend, code.const(_BITS - 1), signed=False)
        grown = bitwise(code, Ins.BitwiseOr, shift_left(code, before, one), upper)
        high = code.words_of(before)[1]
        passes = code.op(Ins.UGreaterThanEqual, code.bool, high, code.const(1 << 31))
        below = less(code, grown, right, signed=False)
        fits = code.op(Ins.LogicalOr, code.bool, passes, code.op(Ins.LogicalNot, code.bool, below))
        left_over = code.select(Form.WIDE, fits, sub(code, grown, right), grown)
        bit = code.pair(code.op(Ins.Select, code.u32, fits, one, code.const(0)), code.const(0))
        code.effect(Ins.Store, taken, bitwise(code, Ins.BitwiseOr, shift_left(code, dividend, one), bit))
        code.effect(Ins.Store, rest, left_over)
    return code.result(Ins.Load, pair, taken), code.result(Ins.Load, pair, rest)


_EXPONENT_OF_TWO_TO_32 = 127 + 32


def from_unsigned(code: Code, operand: int) -> int:
    """Return the f32 nearest to a u64: its upper 32 bits from the highest on, the last of them set where more follow."""
    low, high = code.words_of(operand)
    is_short = code.op(Ins.IEqual, code.bool, high, code.const(0))
    below = code.op(Ins.IAdd, code.u32, code.const(32), integers.clz(code, low))
    zeros = code.op(Ins.Select, code.u32, is_short, below, integers.clz(code, high))
    rest, top = code.words_of(shift_left(code, operand, zeros))
    more = code.op(Ins.INotEqual, code.bool, rest, code.const(0))
    sticky = code.op(Ins.Select, code.u32, more, code.const(1), code.const(0))
    number = code.op(Ins.ConvertUToF, code.f32, code.op(Ins.BitwiseOr, code.u32, top, sticky))
    exponent = integers.sub(code, code.const(_EXPONENT_OF_TWO_TO_32), zeros)
    scale = floats.of_bits(code, code.op(Ins.ShiftLeftLogical, code.u32, exponent, code.const(23)))
    return code.normal(floats.exact(code, Ins.FMul, code.f32, number, scale))


def from_signed(code: Code, operand: int) -> int:
    """Return the f32 nearest to an i64."""
    size, sign = magnitude(code, operand)
    upper = code.op(Ins.BitwiseAnd, code.u32, sign, code.const(floats.SIGN))
    return code.normal(floats.of_bits(code, code.op(Ins.BitwiseOr, code.u32, code.bits(from_unsigned(code, size)), upper)))


def to_unsigned(code: Code, operand: int) -> int:
    """Return an f32 cut to a u64."""
    real = _f32(code)
    found = cut(code, real, operand, 2.0**64)
    over = code.op(Ins.FOrdGreaterThanEqual, code.bool, operand, real.constant(2.0**64))
    return code.select(Form.WIDE, over, constant(code, ALL), found)


def to_signed(code: Code, operand: int) -> int:
    """Return an f32 cut to an i64."""
    real = _f32(code)
    real.constant(2.0**63)  # where it is declared counts for the bytes of the module
    size = code.glsl(Glsl.FAbs, code.f32, operand)
    return cut_signed(code, real, size, sign_word(code, code.bits(operand)))


def _f32(code: Code) -> Real:
    return Real(code.f32, lambda value: code.const_f32(*struct.unpack("<I", struct.pack("<f", value))))


class Real(NamedTuple):
    """A type of floats: its id, and what declares a constant of it."""

    type_id: int
    constant: Callable[[float], int]


def cut_signed(code: Code, real: Real, size: int, sign: int) -> int:
    """Return the i64 that is left of a float without its fraction, by its magnitude and its sign word."""
    found = negated_where(code, cut(code, real, size, 2.0**63), sign)
    is_negative = code.op(Ins.INotEqual, code.bool, sign, code.const(0))
    end = code.select(Form.WIDE, is_negative, constant(code, LEAST), constant(code, MOST))
    over = code.op(Ins.FOrdGreaterThanEqual, code.bool, size, real.constant(2.0**63))
    return code.select(Form.WIDE, over, end, found)


def cut(code: Code, real: Real, value: int, limit: float) -> int:
    """Return the whole number in a float between 0 and a limit as 64 bits, 0 for all others: two words, the rest is exact."""
    zero = real.constant(0.0)
    above = code.op(Ins.FOrdGreaterThan, code.bool, value, zero)
    below = code.op(Ins.FOrdLessThan, code.bool, value, real.constant(limit))
    safe = code.op(Ins.Select, real.type_id, code.op(Ins.LogicalAnd, code.bool, above, below), value, zero)
    high = code.op(Ins.ConvertFToU, code.u32, floats.exact(code, Ins.FMul, real.type_id, safe, real.constant(2.0**-32)))
    whole = code.op(Ins.ConvertUToF, real.type_id, high)
    taken = floats.exact(code, Ins.FMul, real.type_id, whole, real.constant(2.0**32))
    low = code.op(Ins.ConvertFToU, code.u32, floats.exact(code, Ins.FSub, real.type_id, safe, taken))
    return code.pair(low, high)
