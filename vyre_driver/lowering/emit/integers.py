"""Operators on words: u32 and i32, with every edge case that the IR defines (docs/lowering.md).

Source: spec item 1.7 (integers); SPIR-V 1.6, 3.42.13 and 3.42.14; Vulkan 1.3, "Precision and Operation of SPIR-V Instructions"
(OpSRem and OpSMod are undefined for negative operands there, so remainders are computed of quotients or magnitudes).
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING

from vyre_driver.checks import U32_MAX
from vyre_driver.lowering.emit.code import FULL, Code
from vyre_driver.spirv.opcodes import Glsl, Ins

if TYPE_CHECKING:
    from collections.abc import Callable


_SHIFT_MASK = 31
_SIGN = 0x8000_0000


def _rising(code: Code, result: int, rule: Callable[[int, int], int], left: int, right: int) -> int:
    """Return the result of an operator that gives the more, the more it is given, with its range, unless it may wrap."""
    (low, high), (least, most) = code.ranges.get(left, FULL), code.ranges.get(right, FULL)
    end = rule(high, most)
    return code.narrow(result, rule(low, least), end) if end <= U32_MAX else result


def add(code: Code, left: int, right: int) -> int:
    """Return the wrapped sum of u32, with its range."""
    return _rising(code, code.op(Ins.IAdd, code.u32, left, right), operator.add, left, right)


def sub(code: Code, left: int, right: int) -> int:
    """Return the wrapped difference of u32, with its range."""
    result = _less(code, left, right)
    (low, high), (least, most) = code.range_of(left), code.range_of(right)
    return code.narrow(result, low - most, high - least) if low >= most else result


def _less(code: Code, left: int, right: int) -> int:
    """Return the wrapped difference of u32 as a sum, unless it is one for every compiler.

    NVIDIA's compiler (580.159.04 on an H200) makes -2 of max(1 - ~x, x) for x = 0, and finds inverses in many places.
    """
    low, high = code.range_of(right)
    if low == high:
        return code.op(Ins.ISub, code.u32, left, right)
    inverse = code.op(Ins.Not, code.u32, right)
    return code.op(Ins.IAdd, code.u32, code.op(Ins.IAdd, code.u32, left, inverse), code.const(1))


def sub_signed(code: Code, left: int, right: int) -> int:
    """Return the wrapped difference of i32, as that of u32: max(0 - (~x + 0), x) was wrong on the H200 too."""
    if code.signed_value(right) is not None:
        return code.op(Ins.ISub, code.i32, left, right)
    inverse = code.op(Ins.Not, code.i32, right)
    return code.op(Ins.IAdd, code.i32, code.op(Ins.IAdd, code.i32, left, inverse), code.const_i32(1))


def mul(code: Code, left: int, right: int) -> int:
    """Return the wrapped product of u32, with its range."""
    return _rising(code, code.op(Ins.IMul, code.u32, left, right), operator.mul, left, right)


def divide(code: Code, left: int, right: int) -> int:
    """Return the quotient of u32; all ones for a zero divisor.

    A quotient by what is no constant is hidden: NVIDIA's compiler (580.159.04 on an H200) makes of a comparison of one, as of
    ``~0 / x < y``, the overflow of a product, and fails at its own instruction for that.
    """
    (low, high), (least, most) = code.range_of(left), code.range_of(right)
    if least:
        quotient = code.narrow(code.op(Ins.UDiv, code.u32, left, right), low // most, high // least)
        return quotient if least == most else code.hide(quotient)
    is_zero = code.op(Ins.IEqual, code.bool, right, code.const(0))
    safe = code.op(Ins.Select, code.u32, is_zero, code.const(1), right)
    quotient = code.hide(code.op(Ins.UDiv, code.u32, left, safe))
    return code.op(Ins.Select, code.u32, is_zero, code.const(U32_MAX), quotient)


def modulo(code: Code, left: int, right: int) -> int:
    """Return the remainder of u32; 0 for a zero divisor."""
    least, most = code.range_of(right)
    if not least:  # the remainder of 1 is 0
        is_zero = code.op(Ins.IEqual, code.bool, right, code.const(0))
        right = code.op(Ins.Select, code.u32, is_zero, code.const(1), right)
    result = code.op(Ins.UMod, code.u32, left, right)
    return code.narrow(result, 0, min(code.range_of(left)[1], max(most, 1) - 1))


def divide_signed(code: Code, left: int, right: int) -> int:
    """Return the quotient of i32, rounded to zero; 0 for a zero divisor, and the least number by -1 wraps.

    The oracle stops with an error in both cases; these are the values of upstream's constant folder, and harm no device.

    OpSDiv is emitted for constants above zero only. NVIDIA's compiler (580.159.04 on an H200) makes 0 of
    min(min(x, x / -2), 0) for x = 1044843776, and it finds constants in many places: other quotients are those of magnitudes,
    which have no overflow to guard against either.
    """
    divisor = code.signed_value(right)
    if divisor is None:
        is_zero = code.op(Ins.IEqual, code.bool, right, code.const_i32(0))
        size = code.op(Ins.Select, code.u32, is_zero, code.const(1), _magnitude(code, right))
        quotient = code.op(Ins.UDiv, code.u32, _magnitude(code, left), size)
        result = _signed_like(code, quotient, code.op(Ins.BitwiseXor, code.i32, left, right))
        return code.op(Ins.Select, code.i32, is_zero, code.const_i32(0), result)
    if divisor > 0:
        return code.op(Ins.SDiv, code.i32, left, right)
    if not divisor:
        return right
    quotient = code.op(Ins.UDiv, code.u32, _magnitude(code, left), code.const(-divisor))
    return _signed_like(code, quotient, code.op(Ins.Not, code.i32, left))


def modulo_signed(code: Code, left: int, right: int) -> int:
    """Return the remainder of i32, with the sign of the dividend; 0 where the quotient is not defined."""
    divisor = code.signed_value(right)
    if divisor is None or divisor < 0:
        return _signed_like(code, modulo(code, _magnitude(code, left), _magnitude(code, right)), left)
    if not divisor:
        return right
    quotient = code.op(Ins.SDiv, code.i32, left, right)
    return code.op(Ins.ISub, code.i32, left, code.op(Ins.IMul, code.i32, quotient, right))


def _magnitude(code: Code, operand: int) -> int:
    """Return the distance of an i32 from 0 as a u32."""
    value = code.signed_value(operand)
    if value is not None:
        return code.const(abs(value))
    return _negated_where_below(code, code.bits(operand), operand)


def _signed_like(code: Code, magnitude: int, signs: int) -> int:
    """Return the i32 of this magnitude that has the sign of another."""
    return code.op(Ins.Bitcast, code.i32, _negated_where_below(code, magnitude, signs))


def _negated_where_below(code: Code, bits: int, signs: int) -> int:
    """Return a u32, negated where an i32 is below 0, without an instruction that negates."""
    mask = code.op(Ins.ShiftRightArithmetic, code.i32, signs, code.const(_SHIFT_MASK))
    flipped = code.op(Ins.BitwiseXor, code.u32, bits, code.bits(mask))
    one = code.op(Ins.ShiftRightLogical, code.u32, code.bits(signs), code.const(_SHIFT_MASK))
    return code.op(Ins.IAdd, code.u32, flipped, one)


def _count(code: Code, right: int) -> int:
    """Return a shift's count modulo 32."""
    low, high = code.range_of(right)
    if high <= _SHIFT_MASK:
        return right
    return code.const(low & _SHIFT_MASK) if low == high else bit_and(code, right, code.const(_SHIFT_MASK))


def bit_and(code: Code, left: int, right: int) -> int:
    """Return the bits that both u32 have, with its range."""
    result = code.op(Ins.BitwiseAnd, code.u32, left, right)
    return code.narrow(result, 0, min(code.range_of(left)[1], code.range_of(right)[1]))


def shift_left(code: Code, left: int, right: int) -> int:
    """Return u32 shifted up by the count modulo 32."""
    count = _count(code, right)
    return _rising(code, code.op(Ins.ShiftLeftLogical, code.u32, left, count), operator.lshift, left, count)


def shift_right(code: Code, left: int, right: int) -> int:
    """Return u32 shifted down by the count modulo 32."""
    count = _count(code, right)
    result = code.op(Ins.ShiftRightLogical, code.u32, left, count)
    (low, high), (least, most) = code.range_of(left), code.range_of(count)
    return code.narrow(result, low >> most, high >> least)


def rotate_left(code: Code, left: int, right: int) -> int:
    """Return u32 rotated up by the count modulo 32."""
    return code.op(Ins.BitwiseOr, code.u32, shift_left(code, left, right), shift_right(code, left, _back(code, right)))


def rotate_right(code: Code, left: int, right: int) -> int:
    """Return u32 rotated down by the count modulo 32."""
    return code.op(Ins.BitwiseOr, code.u32, shift_right(code, left, right), shift_left(code, left, _back(code, right)))


def _back(code: Code, right: int) -> int:
    """Return the count of the shift that completes a rotation: what is left to a multiple of 32."""
    low, high = code.range_of(right)
    if low == high:
        return code.const(-low & _SHIFT_MASK)
    return bit_and(code, code.op(Ins.ISub, code.u32, code.const(0), right), code.const(_SHIFT_MASK))


def saturating_add(code: Code, left: int, right: int) -> int:
    """Return the sum of u32, at most all ones."""
    total = code.op(Ins.IAdd, code.u32, left, right)
    wrapped = code.op(Ins.ULessThan, code.bool, total, left)
    return code.op(Ins.Select, code.u32, wrapped, code.const(U32_MAX), total)


def saturating_sub(code: Code, left: int, right: int) -> int:
    """Return the difference of u32, at least 0."""
    result = _less(code, left, code.glsl(Glsl.UMin, code.u32, left, right))
    return code.narrow(result, 0, code.range_of(left)[1])


def saturating_mul(code: Code, left: int, right: int) -> int:
    """Return the product of u32, at most all ones."""
    low, high = wide_product(code, left, right)
    fits = code.op(Ins.IEqual, code.bool, high, code.const(0))
    return code.op(Ins.Select, code.u32, fits, low, code.const(U32_MAX))


def wide_product(code: Code, left: int, right: int) -> tuple[int, int]:
    """Return the low and the high word of a product of u32."""
    return extended(code, Ins.UMulExtended, left, right)


def extended(code: Code, opcode: int, left: int, right: int) -> tuple[int, int]:
    """Return the two u32 that extended arithmetic gives: the lower word, and the upper, or what is carried."""
    low, high = code.words_of(_extended(code, opcode, left, right))
    return low, high


def _extended(code: Code, opcode: int, left: int, right: int) -> int:
    """Return both words as a structure."""
    pair = code.recall("pair of u32")
    if pair is None:
        pair = code.keep("pair of u32", code.module.struct_type(code.u32, code.u32))
    return code.op(opcode, pair, left, right)


def mul_high(code: Code, left: int, right: int) -> int:
    """Return the high word of a product of u32."""
    upper = code.op(Ins.CompositeExtract, code.u32, _extended(code, Ins.UMulExtended, left, right), 1)
    return code.remember(("upper word", left, right), upper)


def abs_diff(code: Code, left: int, right: int) -> int:
    """Return the distance of two u32."""
    most, least = maximum(code, left, right), minimum(code, left, right)
    return _less(code, most, least)


def minimum(code: Code, left: int, right: int) -> int:
    """Return the lesser u32, with its range."""
    return _rising(code, code.glsl(Glsl.UMin, code.u32, left, right), min, left, right)


def maximum(code: Code, left: int, right: int) -> int:
    """Return the greater u32, with its range."""
    return _rising(code, code.glsl(Glsl.UMax, code.u32, left, right), max, left, right)


def in_order(code: Code, number: int, left: int, right: int) -> int:
    """Return one of two i32 as the one of two words with their upper bits turned, which have the same order.

    NVIDIA's compiler (580.159.04 on an H200) makes min(x, 0) of SMin(SMin(x, -x), 0), and finds negations in many places. The
    bit is hidden from it: it makes x of max(-(~x + n), x) where it finds late that n is 0.
    """
    chosen = code.glsl(number, code.u32, _turned(code, left), _turned(code, right))
    result = code.op(Ins.Bitcast, code.i32, code.op(Ins.BitwiseXor, code.u32, chosen, code.hidden_constant(_SIGN)))
    code.remember(("turned", result), chosen)
    return result


def _turned(code: Code, operand: int) -> int:
    """Return an i32 as a u32 with its upper bit turned."""
    known = code.recall(("turned", operand))
    if known is not None:
        return known
    return code.op(Ins.BitwiseXor, code.u32, code.bits(operand), code.hidden_constant(_SIGN))


def choose_signed(code: Code, condition: int, yes: int, no: int) -> int:
    """Return one i32 or the other, by a mask.

    NVIDIA's compiler (580.159.04 on an H200) makes min(x, 0) of the least of x, -(x / 2) and 0 by comparisons and selects.
    """
    number = code.op(Ins.Select, code.u32, condition, code.const(1), code.const(0))
    mask = code.op(Ins.ISub, code.u32, code.const(0), number)
    first, second = code.bits(yes), code.bits(no)
    differing = code.op(Ins.BitwiseAnd, code.u32, mask, code.op(Ins.BitwiseXor, code.u32, first, second))
    chosen = code.op(Ins.BitwiseXor, code.u32, second, differing)
    if code.signed_value(yes) is None or code.signed_value(no) is None:
        return code.op(Ins.Bitcast, code.i32, chosen)
    result = code.op(Ins.Bitcast, code.i32, code.hide_number(chosen))
    code.hidden[result] = chosen
    return result


def sign_extended(code: Code, low: int, bits: int) -> int:
    """Return the i32 that the low bits of a word are, of which the others are 0: its sign turned, and taken away again.

    NVIDIA's compiler (580.159.04 on an H200) takes the result of BitFieldSExtract for one that is never below 0 where it is
    converted to f32 as a word.
    """
    sign = code.const(1 << bits - 1)
    turned = code.op(Ins.BitwiseXor, code.u32, low, sign)
    return code.op(Ins.Bitcast, code.i32, code.op(Ins.ISub, code.u32, turned, sign))


def popcount(code: Code, operand: int) -> int:
    """Return how many bits of a u32 are set.

    NVIDIA's compiler (580.159.04 on an H200) counts bits above a byte that was widened, where it sees where the word is from.
    """
    return code.narrow(code.op(Ins.BitCount, code.u32, code.hide(operand)), 0, 32)


def clz(code: Code, operand: int) -> int:
    """Return the zeros above the highest bit of a u32; 32 of 0, for which FindUMsb gives -1."""
    highest = code.glsl(Glsl.FindUMsb, code.u32, operand)
    return code.narrow(code.op(Ins.ISub, code.u32, code.const(31), highest), 0, 32)


def ctz(code: Code, operand: int) -> int:
    """Return the zeros below the lowest bit of a u32; 32 of 0."""
    lowest = code.glsl(Glsl.FindILsb, code.u32, operand)
    return code.narrow(code.glsl(Glsl.UMin, code.u32, lowest, code.const(32)), 0, 32)  # of 0 the lowest is all ones


def reverse_bits(code: Code, operand: int) -> int:
    """Return a u32 with its bits in the opposite order."""
    return code.op(Ins.BitReverse, code.u32, operand)
