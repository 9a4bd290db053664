"""Quotients, roots, remainders and conversions of f32 by integers: rounded once, and the same on every device.

Vulkan lets an inverse be wrong by 2.5 ulp, and an inverse root by 2. A product with it is near a quotient or root of
significands, in units of 2^-23; ``_MARGIN`` less it is too small for certain. The remainder, exact in 32 bits, times that
inverse again says by how many units, to one; and the remainder behind those, which of two neighbours is nearer. That is right
as long as the product is less than 60 units off, ten times what Vulkan allows. Nothing hangs on a fused multiply-add, on how
the device rounds, or on subnormals, which are taken for zeros whether the device flushes them or not.

A quotient of normal numbers is never half way between two f32, and a root is not either, so that there are no ties but one:
half way between the largest subnormal, which is flushed, and the least normal number, which is the result.

A remainder is a long division of the fractions, eight bits a turn. Of conversions to and from the bits of f16 and bf16 the
device's own (UnpackHalf2x16, OpFConvert) may flush subnormals of f16, and round as they like, unless float controls of 16 bits
say otherwise, which few devices have.

Source: IEEE 754-2019, 3.4 (formats), 4.3.1 (round to nearest, ties to even), 5.3.1 (remainders are exact), 5.4.1 (division and
squareRoot are correctly rounded) and 6.1 to 6.3 (infinities, NaNs, signs); C17, 7.12.10.1 (fmod); Vulkan 1.3, "Precision and
Operation of SPIR-V Instructions" (OpFDiv, InverseSqrt).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_driver.lowering.emit import floats, integers
from vyre_driver.lowering.emit.blocks import counting
from vyre_driver.lowering.emit.kinds import Form
from vyre_driver.spirv.opcodes import Glsl, Ins

if TYPE_CHECKING:
    from vyre_driver.lowering.emit.code import Code


_FRACTION, _IMPLICIT, _SHIFT = 0x007F_FFFF, 0x0080_0000, 23
_TWO = 0x4000_0000
_LAST_EXPONENT_BIT = 0x00FF_FFFF  # and the fraction
_MARGIN = 64
_UNITS = 0x3F00_0000  # less these, the bits of a number from 1 to 2 are the number in units of 2^-23
# Of a quotient the exponent is held with 128 more, so that it is never below 0, and the significand's upper bit counts as one.
_BIAS, _LEAST_SUM, _LEAST_OVERFLOW, _OF_SUM = 0x7F80_0000, 0x4100_0000, 0xC000_0000, 0x4080_0000


def quotient(code: Code, left: int, right: int) -> int:
    """Return left / right, rounded once; by a power of two it is a product."""
    inverse = _inverse_power_of_two(code.floats.get(right))
    if inverse is not None:
        return floats.arithmetic(code, Ins.FMul, left, code.const_f32(inverse))
    if code.target.divides:
        return floats.arithmetic(code, Ins.FDiv, left, right)
    return code.normal(floats.of_bits(code, _quotient(code, code.bits(left), code.bits(right))))


def reciprocal(code: Code, operand: int) -> int:
    """Return 1 / operand, rounded once."""
    if code.target.divides:
        return floats.reciprocal(code, operand)
    return code.normal(floats.of_bits(code, _quotient(code, code.const(floats.ONE), code.bits(operand))))


def root(code: Code, operand: int) -> int:
    """Return the square root, rounded once."""
    return code.normal(floats.of_bits(code, _root(code, code.bits(operand))))


def inverse_root(code: Code, operand: int) -> int:
    """Return 1 / root, both rounded."""
    below = _root(code, code.bits(operand))
    if code.target.divides:
        return reciprocal(code, code.normal(floats.of_bits(code, below)))
    return code.normal(floats.of_bits(code, _quotient(code, code.const(floats.ONE), below)))


def _inverse_power_of_two(known: object) -> int | None:
    """Return the bits of 1 / divisor, if that is a constant power of two whose inverse is a normal number."""
    if not isinstance(known, int) or known & _FRACTION:
        return None
    exponent = 254 - (known >> _SHIFT & 0xFF)
    return known & floats.SIGN | exponent << _SHIFT if 1 <= exponent < 254 else None


def _lowered(code: Code, near: int) -> int:
    """Return a number of about 1 to 2 in units of 2^-23, too small by 4 to 124 of them."""
    return code.op(Ins.ISub, code.u32, code.bits(near), code.const(_UNITS + _MARGIN))


def _steps(code: Code, rest: int, inverse: int, shift: int) -> int:
    """Return how many units a remainder takes, or one less: the remainder over a divisor, by whose inverse it is multiplied."""
    size = code.op(Ins.ConvertUToF, code.f32, rest)
    part = code.op(Ins.ConvertFToU, code.u32, code.op(Ins.FMul, code.f32, size, inverse))
    return code.op(Ins.ShiftRightLogical, code.u32, part, code.const(shift))


def _nearest(code: Code, near: int, middle: int, wanted: int) -> int:
    """Return a number, or one more where what is wanted is above the middle of the two; both are given by their lower 32 bits.

    They are less than 2^31 apart, so that the sign bit of their difference tells.
    """
    difference = integers.sub(code, middle, wanted)
    return code.op(Ins.IAdd, code.u32, near, code.op(Ins.ShiftRightLogical, code.u32, difference, code.const(31)))


def _root(code: Code, bits: int) -> int:
    """Return the bits of the root of an f32 by its bits."""
    size = code.op(Ins.BitwiseAnd, code.u32, bits, code.const(floats.MAGNITUDE))
    less = code.op(Ins.ISub, code.u32, bits, code.const(floats.LEAST_NORMAL))
    has_root = code.op(Ins.ULessThan, code.bool, less, code.const(floats.INFINITY - floats.LEAST_NORMAL))
    is_zero = code.op(Ins.ULessThan, code.bool, size, code.const(floats.LEAST_NORMAL))
    is_infinite = code.op(Ins.IEqual, code.bool, bits, code.const(floats.INFINITY))
    zero = code.op(Ins.BitwiseAnd, code.u32, bits, code.const(floats.SIGN))
    other = code.op(Ins.Select, code.u32, is_infinite, code.const(floats.INFINITY), code.const(floats.QUIET_NAN))
    other = code.op(Ins.Select, code.u32, is_zero, zero, other)
    # Half the exponent, without the significand's upper bit, which is added to it.
    more = code.op(Ins.IAdd, code.u32, bits, code.const(floats.ONE - 2 * _IMPLICIT))
    half = code.op(Ins.ShiftRightLogical, code.u32, more, code.const(1))
    exponent = code.op(Ins.BitwiseAnd, code.u32, half, code.const(floats.INFINITY))
    found = code.op(Ins.IAdd, code.u32, exponent, _root_of_significand(code, bits))
    return code.op(Ins.Select, code.u32, has_root, found, other)


def _root_of_significand(code: Code, bits: int) -> int:
    """Return the root of an f32 that is scaled by a power of four to lie in [1, 4), in units of 2^-23."""
    low = code.op(Ins.BitwiseAnd, code.u32, bits, code.const(_LAST_EXPONENT_BIT))
    turned = code.op(Ins.BitwiseXor, code.u32, low, code.const(_IMPLICIT))
    scaled = floats.of_bits(code, code.op(Ins.IAdd, code.u32, turned, code.const(floats.ONE)))
    inverse = code.glsl(Glsl.InverseSqrt, code.f32, scaled)
    lower = _lowered(code, code.op(Ins.FMul, code.f32, scaled, inverse))
    # In units of 2^-46, of which the lower 32 bits are the lower bits of the fraction.
    is_even = code.op(Ins.ShiftRightLogical, code.u32, turned, code.const(_SHIFT))
    count = code.op(Ins.IAdd, code.u32, is_even, code.const(_SHIFT))
    square = code.op(Ins.ShiftLeftLogical, code.u32, bits, count)
    rest = integers.sub(code, square, code.op(Ins.IMul, code.u32, lower, lower))
    near = code.op(Ins.IAdd, code.u32, lower, _steps(code, rest, inverse, _SHIFT + 1))
    middle = code.op(Ins.IMul, code.u32, near, code.op(Ins.IAdd, code.u32, near, code.const(1)))  # (near + 1/2)^2 - 1/4
    return _nearest(code, near, middle, square)


def _quotient(code: Code, left: int, right: int) -> int:
    """Return the bits of the quotient of two f32 by their bits."""
    fractions = [code.op(Ins.BitwiseAnd, code.u32, one, code.const(_FRACTION)) for one in (left, right)]
    exponents = [code.op(Ins.BitwiseAnd, code.u32, one, code.const(floats.INFINITY)) for one in (left, right)]
    is_less = code.op(Ins.ULessThan, code.bool, *fractions)
    bias = code.op(Ins.Select, code.u32, is_less, code.const(_BIAS - _IMPLICIT), code.const(_BIAS))
    exponent = integers.sub(code, code.op(Ins.IAdd, code.u32, exponents[0], bias), exponents[1])
    total = code.op(Ins.IAdd, code.u32, exponent, _quotient_of_significands(code, fractions[0], fractions[1], is_less))
    return _with_edges(code, left, right, _within_range(code, total, fractions[1]))


def _quotient_of_significands(code: Code, left: int, right: int, is_less: int) -> int:
    """Return the quotient of significands, by their fractions, the first doubled where it is less, in units of 2^-23."""
    upper = code.op(Ins.Select, code.u32, is_less, code.const(_TWO), code.const(floats.ONE))
    scaled = floats.of_bits(code, code.op(Ins.BitwiseOr, code.u32, left, upper))
    divisor = floats.of_bits(code, code.op(Ins.BitwiseOr, code.u32, right, code.const(floats.ONE)))
    inverse = code.op(Ins.FDiv, code.f32, code.const_f32(floats.ONE), divisor)
    lower = _lowered(code, code.op(Ins.FMul, code.f32, scaled, inverse))
    by = code.op(Ins.BitwiseOr, code.u32, right, code.const(_IMPLICIT))
    # Of the dividend the lower 32 bits, in which the upper bit of the significand does not show.
    shifted, twice, fourfold = (code.op(Ins.ShiftLeftLogical, code.u32, left, code.const(_SHIFT + more)) for more in range(3))
    dividend = code.op(Ins.Select, code.u32, is_less, twice, shifted)
    doubled = code.op(Ins.Select, code.u32, is_less, fourfold, twice)
    rest = integers.sub(code, dividend, code.op(Ins.IMul, code.u32, lower, by))
    near = code.op(Ins.IAdd, code.u32, lower, _steps(code, rest, inverse, _SHIFT))
    twice_near = code.op(Ins.IAdd, code.u32, near, near)
    middle = code.op(Ins.IMul, code.u32, code.op(Ins.IAdd, code.u32, twice_near, code.const(1)), by)
    return _nearest(code, near, middle, doubled)


def _within_range(code: Code, total: int, divisor: int) -> int:
    """Return the bits of a quotient's magnitude: an infinity above the greatest number, and 0 below the least normal one.

    The one quotient below it that is rounded up to it is the tie: (2^24 - 1) / 2^23, scaled.
    """
    is_last = code.op(Ins.IEqual, code.bool, total, code.const(_LEAST_SUM - 1))
    is_power = code.op(Ins.IEqual, code.bool, divisor, code.const(0))
    is_tie = code.op(Ins.LogicalAnd, code.bool, is_last, is_power)
    least = code.op(Ins.Select, code.u32, is_tie, code.const(floats.LEAST_NORMAL), code.const(0))
    found = code.op(Ins.ISub, code.u32, total, code.const(_OF_SUM))
    is_normal = code.op(Ins.UGreaterThanEqual, code.bool, total, code.const(_LEAST_SUM))
    found = code.op(Ins.Select, code.u32, is_normal, found, least)
    is_over = code.op(Ins.UGreaterThanEqual, code.bool, total, code.const(_LEAST_OVERFLOW))
    return code.op(Ins.Select, code.u32, is_over, code.const(floats.INFINITY), found)


def _with_edges(code: Code, left: int, right: int, found: int) -> int:
    """Return the bits of a quotient by those of its magnitude: with its sign, and what zeros, infinities and NaNs give."""
    infinity, least = code.const(floats.INFINITY), code.const(floats.LEAST_NORMAL)
    sizes = [code.op(Ins.BitwiseAnd, code.u32, one, code.const(floats.MAGNITUDE)) for one in (left, right)]
    zeros = [code.op(Ins.ULessThan, code.bool, one, least) for one in sizes]
    endless = [code.op(Ins.IEqual, code.bool, one, infinity) for one in sizes]
    nans = [code.op(Ins.UGreaterThan, code.bool, one, infinity) for one in sizes]
    vanishes = code.op(Ins.LogicalOr, code.bool, zeros[0], endless[1])
    overflows = code.op(Ins.LogicalOr, code.bool, endless[0], zeros[1])
    has_none = code.op(Ins.LogicalAnd, code.bool, vanishes, overflows)
    for one in nans:
        has_none = code.op(Ins.LogicalOr, code.bool, has_none, one)
    size = code.op(Ins.Select, code.u32, overflows, infinity, found)
    size = code.op(Ins.Select, code.u32, vanishes, code.const(0), size)
    signs = code.op(Ins.BitwiseXor, code.u32, left, right)
    sign = code.op(Ins.BitwiseAnd, code.u32, signs, code.const(floats.SIGN))
    signed = code.op(Ins.BitwiseOr, code.u32, size, sign)
    return code.op(Ins.Select, code.u32, has_none, code.const(floats.QUIET_NAN), signed)


_A_TURN = 3  # bits of the dividend


def fmod(code: Code, left: int, right: int) -> int:
    """Return the remainder of two f32, with the sign of the first; NaN by 0 and of an infinity."""
    clean = floats.cleared(code, left) if code.target.strict else left
    size, divisor = (floats.magnitude(code, one) for one in (clean, floats.flushed(code, right)))
    is_less = code.op(Ins.ULessThan, code.bool, size, divisor)
    found = _normalized(code, _remainder(code, size, divisor), divisor)
    sign = code.op(Ins.BitwiseAnd, code.u32, code.bits(clean), code.const(floats.SIGN))
    signed = code.op(Ins.BitwiseOr, code.u32, found, sign)
    result = code.select(Form.F32, is_less, clean, floats.of_bits(code, signed))
    least, infinity = code.const(floats.LEAST_NORMAL), code.const(floats.INFINITY)
    no_divisor = code.op(Ins.ULessThan, code.bool, divisor, least)
    no_number = code.op(Ins.UGreaterThan, code.bool, divisor, infinity)
    no_dividend = code.op(Ins.UGreaterThanEqual, code.bool, size, infinity)
    wrong = code.op(Ins.LogicalOr, code.bool, code.op(Ins.LogicalOr, code.bool, no_divisor, no_number), no_dividend)
    return code.normal(code.select(Form.F32, wrong, code.const_f32(floats.QUIET_NAN), result))


def _remainder(code: Code, size: int, divisor: int) -> int:
    """Return the remainder of the fractions, in units of the divisor's last place; any number where there is none."""
    fraction, by = _fraction(code, size), _fraction(code, divisor)
    exponents = [code.op(Ins.ShiftRightLogical, code.u32, one, code.const(_SHIFT)) for one in (size, divisor)]
    is_more = code.op(Ins.UGreaterThan, code.bool, *exponents)
    steps = code.op(Ins.Select, code.u32, is_more, integers.sub(code, *exponents), code.const(0))
    rest = code.variable(code.u32)
    code.effect(Ins.Store, rest, code.op(Ins.UMod, code.u32, fraction, by))
    turns = code.op(Ins.ShiftRightLogical, code.u32, steps, code.const(_A_TURN))
    with counting(code, code.const(0), turns):
        _shift(code, rest, code.const(1 << _A_TURN), by)
    _shift(code, rest, integers.bit_and(code, steps, code.const((1 << _A_TURN) - 1)), by)
    return code.result(Ins.Load, code.u32, rest)


def _shift(code: Code, rest: int, count: int, by: int) -> None:
    """Take more bits of the dividend, which are zeros, into the rest."""
    before = code.result(Ins.Load, code.u32, rest)
    code.effect(Ins.Store, rest, code.op(Ins.UMod, code.u32, code.op(Ins.ShiftLeftLogical, code.u32, before, count), by))


def _fraction(code: Code, size: int) -> int:
    """Return the fraction of a magnitude with its upper bit, which is set for a zero too."""
    below = code.op(Ins.BitwiseAnd, code.u32, size, code.const(_FRACTION))
    return code.op(Ins.BitwiseOr, code.u32, below, code.const(_IMPLICIT))


def _normalized(code: Code, rest: int, divisor: int) -> int:
    """Return the bits of a rest in units of the divisor's last place; 0 of one below the least normal number."""
    exponent = code.op(Ins.ShiftRightLogical, code.u32, divisor, code.const(_SHIFT))
    zeros = integers.sub(code, integers.clz(code, rest), code.const(8))
    is_normal = code.op(Ins.UGreaterThan, code.bool, exponent, zeros)
    upper = code.op(Ins.ShiftLeftLogical, code.u32, integers.sub(code, exponent, zeros), code.const(_SHIFT))
    shift = integers.bit_and(code, zeros, code.const(31))
    below = code.op(Ins.BitwiseAnd, code.u32, code.op(Ins.ShiftLeftLogical, code.u32, rest, shift), code.const(_FRACTION))
    found = code.op(Ins.BitwiseOr, code.u32, upper, below)
    is_some = code.op(Ins.INotEqual, code.bool, rest, code.const(0))
    kept = code.op(Ins.LogicalAnd, code.bool, is_some, is_normal)
    return code.op(Ins.Select, code.u32, kept, found, code.const(0))


_MAGNITUDE, _SIGN, _INFINITY, _LEAST_NORMAL, _NAN = 0x7FFF, 0x8000, 0x7C00, 0x0400, 0x7E00  # of f16
_BF16_NAN = 0x7FC0
_DROPPED = 13  # bits of the fraction that f16 does not have
_F16_BIAS = 112 << 23  # what the exponents of f32 are more
_TWO_TO_MINUS_24 = 0x3380_0000
_OVERFLOW, _SMALL = 0x4780_0000, 0x3880_0000  # 2^16 and 2^-14 as f32
_MOST_SHIFTED = 25  # by which nothing is left of a fraction, nor rounds up


def from_f16(code: Code, bits: int) -> int:
    """Return the f32 that 16 bits are; of a NaN the one NaN."""
    size = integers.bit_and(code, bits, code.const(_MAGNITUDE))
    sign = code.op(Ins.BitwiseAnd, code.u32, bits, code.const(_SIGN))
    fraction = code.op(Ins.ConvertUToF, code.f32, size)
    tiny = code.bits(floats.exact(code, Ins.FMul, code.f32, fraction, code.const_f32(_TWO_TO_MINUS_24)))
    wide = code.op(Ins.ShiftLeftLogical, code.u32, size, code.const(_DROPPED))
    normal = code.op(Ins.IAdd, code.u32, wide, code.const(_F16_BIAS))
    found = code.op(Ins.Select, code.u32, _below(code, size, _LEAST_NORMAL), tiny, normal)
    found = code.op(Ins.Select, code.u32, _below(code, size, _INFINITY), found, code.const(floats.INFINITY))
    upper = code.op(Ins.ShiftLeftLogical, code.u32, sign, code.const(16))
    found = code.op(Ins.BitwiseOr, code.u32, found, upper)
    found = code.op(Ins.Select, code.u32, _below(code, size, _INFINITY + 1), found, code.const(floats.QUIET_NAN))
    return code.normal(floats.of_bits(code, found))


def to_f16(code: Code, operand: int) -> int:
    """Return the bits of the nearest f16, of two equally near ones the even one; of a NaN those of the one NaN."""
    bits = code.bits(operand)
    size = code.op(Ins.BitwiseAnd, code.u32, bits, code.const(floats.MAGNITUDE))
    normal = _rounded(code, integers.sub(code, size, code.const(_F16_BIAS)), code.const(_DROPPED))
    found = code.op(Ins.Select, code.u32, _below(code, size, _SMALL), _subnormal(code, size), normal)
    found = code.op(Ins.Select, code.u32, _below(code, size, _OVERFLOW), found, code.const(_INFINITY))
    upper = code.op(Ins.ShiftRightLogical, code.u32, bits, code.const(16))
    sign = code.op(Ins.BitwiseAnd, code.u32, upper, code.const(_SIGN))
    found = code.op(Ins.BitwiseOr, code.u32, found, sign)
    is_number = _below(code, size, floats.INFINITY + 1)
    return code.narrow(code.op(Ins.Select, code.u32, is_number, found, code.const(_NAN)), 0, 0xFFFF)


def _subnormal(code: Code, size: int) -> int:
    """Return the bits of an f16 below its least normal: the fraction, with its upper bit, in steps of 2^-24."""
    exponent = code.op(Ins.ShiftRightLogical, code.u32, size, code.const(23))
    wanted = integers.sub(code, code.const(126), exponent)
    shift = code.glsl(Glsl.UMin, code.u32, wanted, code.const(_MOST_SHIFTED))
    fraction = code.op(Ins.BitwiseAnd, code.u32, size, code.const(_FRACTION))
    return _rounded(code, code.op(Ins.BitwiseOr, code.u32, fraction, code.const(_IMPLICIT)), shift)


def _rounded(code: Code, word: int, shift: int) -> int:
    """Return a word shifted down by 1 to 31 bits, rounded to the nearest, of two equally near ones to the even one.

    A half less one, and one more where what is left is odd, carries into it just where it is to be rounded up.
    """
    kept = code.op(Ins.ShiftRightLogical, code.u32, word, shift)
    odd = code.op(Ins.BitwiseAnd, code.u32, kept, code.const(1))
    before = integers.sub(code, shift, code.const(1))
    half = code.op(Ins.ShiftLeftLogical, code.u32, code.const(1), before)
    less = integers.sub(code, half, code.const(1))
    total = code.op(Ins.IAdd, code.u32, code.op(Ins.IAdd, code.u32, word, less), odd)
    return code.op(Ins.ShiftRightLogical, code.u32, total, shift)


def from_bf16(code: Code, bits: int) -> int:
    """Return the f32 that 16 bits are: its upper half."""
    return floats.of_bits(code, code.op(Ins.ShiftLeftLogical, code.u32, bits, code.const(16)))


def to_bf16(code: Code, operand: int) -> int:
    """Return the bits of the nearest bf16, of two equally near ones the even one; of a NaN those of the one NaN."""
    bits = code.bits(operand)
    found = _rounded(code, bits, code.const(16))
    is_number = floats.has_magnitude(code, Ins.ULessThanEqual, operand)
    return code.narrow(code.op(Ins.Select, code.u32, is_number, found, code.const(_BF16_NAN)), 0, 0xFFFF)


def _below(code: Code, word: int, limit: int) -> int:
    return code.op(Ins.ULessThan, code.bool, word, code.const(limit))
