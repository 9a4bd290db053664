"""Conversions between f32 and the bits of f16 and bf16, by integers: the same on every device.

The device's own (UnpackHalf2x16, OpFConvert) may flush subnormals of f16, and round as they like, unless float controls of 16
bits say otherwise, which few devices have.

Source: IEEE 754-2019, 3.4 (formats) and 4.3.1 (round to nearest, ties to even).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_driver.lowering.emit import floats, integers
from vyre_driver.spirv.instructions import Glsl, Ins

if TYPE_CHECKING:
    from vyre_driver.lowering.emit.code import Code

_MAGNITUDE, _SIGN, _INFINITY, _LEAST_NORMAL, _NAN = 0x7FFF, 0x8000, 0x7C00, 0x0400, 0x7E00  # of f16
_BF16_NAN = 0x7FC0
_DROPPED = 13  # bits of the fraction that f16 does not have
_BIAS = 112 << 23  # what the exponents of f32 are more
_TWO_TO_MINUS_24 = 0x3380_0000
_OVERFLOW, _SMALL = 0x4780_0000, 0x3880_0000  # 2^16 and 2^-14 as f32
_IMPLICIT, _FRACTION = 0x0080_0000, 0x007F_FFFF
_MOST_SHIFTED = 25  # by which nothing is left of a fraction, nor rounds up


def from_f16(code: Code, bits: int) -> int:
    """Return the f32 that 16 bits are; of a NaN the one NaN."""
    size = integers.bit_and(code, bits, code.const(_MAGNITUDE))
    sign = code.op(Ins.BitwiseAnd, code.u32, bits, code.const(_SIGN))
    fraction = code.op(Ins.ConvertUToF, code.f32, size)
    tiny = code.bits(floats.exact(code, Ins.FMul, code.f32, fraction, code.const_f32(_TWO_TO_MINUS_24)))
    wide = code.op(Ins.ShiftLeftLogical, code.u32, size, code.const(_DROPPED))
    normal = code.op(Ins.IAdd, code.u32, wide, code.const(_BIAS))
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
    normal = _rounded(code, integers.sub(code, size, code.const(_BIAS)), code.const(_DROPPED))
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
