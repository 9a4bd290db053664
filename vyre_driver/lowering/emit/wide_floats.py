"""Conversions between integers of 64 bits and f32, by words: rounded once, and the same with the device's own 64 bits.

Source: docs/ir.md, "Operators of this package"; spec item 1.7 (casts: f32 is truncated and clamped, NaN is 0).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_driver.lowering.emit import floats, integers, wide
from vyre_driver.lowering.emit.kinds import Form
from vyre_driver.spirv.instructions import Glsl, Ins

if TYPE_CHECKING:
    from vyre_driver.lowering.emit.code import Code

_TWO_TO_32, _TWO_TO_MINUS_32, _TWO_TO_63, _TWO_TO_64 = 0x4F80_0000, 0x2F80_0000, 0x5F00_0000, 0x5F80_0000
_EXPONENT_OF_TWO_TO_32 = 127 + 32
_ALL, _MOST, _LEAST = 2**64 - 1, 2**63 - 1, 2**63


def from_unsigned(code: Code, operand: int) -> int:
    """Return the f32 nearest to a u64: its upper 32 bits from the highest on, the last of them set where more follow."""
    low, high = wide.halves(code, operand)
    is_short = code.op(Ins.IEqual, code.bool, high, code.const(0))
    below = code.op(Ins.IAdd, code.u32, code.const(32), integers.clz(code, low))
    zeros = code.op(Ins.Select, code.u32, is_short, below, integers.clz(code, high))
    rest, top = wide.halves(code, wide.shift_left(code, operand, zeros))
    more = code.op(Ins.INotEqual, code.bool, rest, code.const(0))
    sticky = code.op(Ins.Select, code.u32, more, code.const(1), code.const(0))
    number = code.op(Ins.ConvertUToF, code.f32, code.op(Ins.BitwiseOr, code.u32, top, sticky))
    exponent = integers.sub(code, code.const(_EXPONENT_OF_TWO_TO_32), zeros)
    scale = floats.of_bits(code, code.op(Ins.ShiftLeftLogical, code.u32, exponent, code.const(23)))
    return code.normal(floats.exact(code, Ins.FMul, code.f32, number, scale))


def from_signed(code: Code, operand: int) -> int:
    """Return the f32 nearest to an i64."""
    size, sign = wide.magnitude(code, operand)
    upper = code.op(Ins.BitwiseAnd, code.u32, sign, code.const(floats.SIGN))
    return code.normal(floats.of_bits(code, code.op(Ins.BitwiseOr, code.u32, code.bits(from_unsigned(code, size)), upper)))


def to_unsigned(code: Code, operand: int) -> int:
    """Return an f32 cut to a u64."""
    found = _cut(code, operand, _TWO_TO_64)
    over = code.op(Ins.FOrdGreaterThanEqual, code.bool, operand, code.const_f32(_TWO_TO_64))
    return code.select(Form.WIDE, over, wide.constant(code, _ALL), found)


def to_signed(code: Code, operand: int) -> int:
    """Return an f32 cut to an i64."""
    limit = code.const_f32(_TWO_TO_63)
    size = code.glsl(Glsl.FAbs, code.f32, operand)
    sign = wide.sign_word(code, code.bits(operand))
    found = wide.negated_where(code, _cut(code, size, _TWO_TO_63), sign)
    is_negative = code.op(Ins.INotEqual, code.bool, sign, code.const(0))
    end = code.select(Form.WIDE, is_negative, wide.constant(code, _LEAST), wide.constant(code, _MOST))
    over = code.op(Ins.FOrdGreaterThanEqual, code.bool, size, limit)
    return code.select(Form.WIDE, over, end, found)


def _cut(code: Code, operand: int, limit: int) -> int:
    """Return the whole number in an f32 between 0 and a limit as 64 bits, 0 for all others: two words, the rest is exact."""
    zero = code.const_f32(0)
    above = code.op(Ins.FOrdGreaterThan, code.bool, operand, zero)
    below = code.op(Ins.FOrdLessThan, code.bool, operand, code.const_f32(limit))
    safe = code.op(Ins.Select, code.f32, code.op(Ins.LogicalAnd, code.bool, above, below), operand, zero)
    high = code.op(Ins.ConvertFToU, code.u32, floats.exact(code, Ins.FMul, code.f32, safe, code.const_f32(_TWO_TO_MINUS_32)))
    whole = code.op(Ins.ConvertUToF, code.f32, high)
    taken = floats.exact(code, Ins.FMul, code.f32, whole, code.const_f32(_TWO_TO_32))
    low = code.op(Ins.ConvertFToU, code.u32, floats.exact(code, Ins.FSub, code.f32, safe, taken))
    return wide.joined(code, low, high)
