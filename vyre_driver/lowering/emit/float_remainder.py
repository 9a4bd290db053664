"""The remainder of f32, exact: a long division of the fractions, eight bits a turn.

Source: IEEE 754-2019, 5.3.1 (remainders are exact); C17, 7.12.10.1 (fmod).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_driver.lowering.emit import floats, integers
from vyre_driver.lowering.emit.blocks import counting
from vyre_driver.lowering.emit.kinds import Form
from vyre_driver.spirv.instructions import Ins

if TYPE_CHECKING:
    from vyre_driver.lowering.emit.code import Code

_FRACTION, _IMPLICIT, _SHIFT, _A_TURN = 0x007F_FFFF, 0x0080_0000, 23, 3


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
