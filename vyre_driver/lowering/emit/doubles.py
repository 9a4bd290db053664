"""Operators on f64, where the device has them; a value is held as its 64 bits, as all that may only be moved.

Source: docs/ir.md, "Operators of this package"; SPIR-V 1.6, OpBitcast; Vulkan 1.3, "Precision and Operation of SPIR-V
Instructions" (f64 is at least as precise as f32).
"""

from __future__ import annotations

import struct
from functools import partial
from typing import TYPE_CHECKING

from vyre_driver.lowering.emit import floats, wide
from vyre_driver.lowering.emit.code import Code, cannot
from vyre_driver.lowering.emit.kinds import Form
from vyre_driver.spirv.opcodes import Glsl, Ins, Op

if TYPE_CHECKING:
    from vyre_driver.ir.terms import Term

_INFINITY = 0x7FF0 << 48


def require(code: Code, term: Term, name: str) -> None:
    """Refuse what computes with f64 where the device has none."""
    if "shaderFloat64" not in code.target.features:
        cannot(term, name, "shaderFloat64")


def number(code: Code, operand: int) -> int:
    """Return 64 bits as the f64 that they are."""
    return code.op(Ins.Bitcast, code.f64, operand)


def held(code: Code, operand: int) -> int:
    """Return the 64 bits of an f64."""
    return code.op(Ins.Bitcast, code.type_of(Form.WIDE), operand)


def _constant(code: Code, value: float) -> int:
    low, high = struct.unpack("<II", struct.pack("<d", value))
    return code.module.constant(Op.Constant, code.f64, low, high)


def arithmetic(code: Code, opcode: int, left: int, right: int) -> int:
    """Return the result of FAdd, FSub, FMul or FDiv, rounded by itself.

    llvmpipe's compiler takes x * 0 and 0 / x for 0, and x + 0 for x; a quotient by a constant 0 is undefined there.
    """
    if code.target.hides and (code.target.strict or opcode == Ins.FDiv):
        left, right = _without_known_zero(code, left), _without_known_zero(code, right, also_negative=opcode == Ins.FSub)
    return held(code, floats.exact(code, opcode, code.f64, number(code, left), number(code, right)))


def _without_known_zero(code: Code, operand: int, *, also_negative: bool = False) -> int:
    """Return the 64 bits of an f64, hidden where they can be those of +0, which alone its compiler looks for.

    A difference is a sum with the negation there, so that -0 counts too where it is taken away.
    """
    low, high = code.words_of(operand)
    if also_negative and high == code.const(floats.SIGN):
        return code.pair(low, code.hidden_constant(floats.SIGN))
    if code.range_of(high)[0] > 0:
        return operand
    return code.pair(low, code.hidden_constant(0) if high == code.const(0) else code.hide(high))


def function(code: Code, name: int, *operands: int) -> int:
    """Return the result of a function of GLSL.std.450."""
    return held(code, code.glsl(name, code.f64, *(number(code, one) for one in operands)))


def negate(code: Code, operand: int) -> int:
    """Return the number with its sign turned."""
    return wide.bitwise(code, Ins.BitwiseXor, operand, wide.constant(code, wide.LEAST))


def absolute(code: Code, operand: int) -> int:
    """Return the number without its sign."""
    return wide.bitwise(code, Ins.BitwiseAnd, operand, wide.constant(code, wide.MOST))


def truncate(code: Code, operand: int) -> int:
    """Return the number cut to a whole one.

    On processors without AVX-512, llvmpipe's Trunc leaves numbers over 2**31 as they are and loses the sign of zero; its Floor
    is right.
    """
    if not code.target.hides:
        return function(code, Glsl.Trunc, operand)
    size = function(code, Glsl.Floor, absolute(code, operand))
    return wide.bitwise(code, Ins.BitwiseOr, size, wide.bitwise(code, Ins.BitwiseAnd, operand, wide.constant(code, wide.LEAST)))


def compare(code: Code, opcode: int, left: int, right: int) -> int:
    """Return how two stand to each other."""
    return code.op(opcode, code.bool, number(code, left), number(code, right))


def from_f32(code: Code, operand: int) -> int:
    """Return an f32; exact, or Mesa takes an integer that was rounded to f32 as one that was not."""
    return held(code, floats.exact(code, Ins.FConvert, code.f64, floats.flushed(code, operand)))


def to_f32(code: Code, operand: int) -> int:
    """Return the nearest f32."""
    return floats.flushed(code, code.op(Ins.FConvert, code.f32, number(code, operand)))


def from_word(code: Code, operand: int, *, signed: bool) -> int:
    """Return a u32 or an i32."""
    return held(code, code.op(Ins.ConvertSToF if signed else Ins.ConvertUToF, code.f64, operand))


def from_wide(code: Code, operand: int, *, signed: bool) -> int:
    """Return the f64 nearest to a u64 or an i64: of its words, whose sum is rounded once."""
    low, high = code.words_of(operand)
    if signed:
        upper = code.op(Ins.ConvertSToF, code.f64, code.op(Ins.Bitcast, code.i32, high))
    else:
        upper = code.op(Ins.ConvertUToF, code.f64, high)
    scaled = floats.exact(code, Ins.FMul, code.f64, upper, _constant(code, 2.0**32))
    return held(code, floats.exact(code, Ins.FAdd, code.f64, scaled, code.op(Ins.ConvertUToF, code.f64, low)))


def to_word(code: Code, operand: int, *, signed: bool) -> int:
    """Return an f64 cut to an i32 or a u32: clamped, 0 for a NaN."""
    value, zero = number(code, operand), _constant(code, 0.0)
    low, high = (-(2.0**31), 2.0**31 - 1) if signed else (0.0, 2.0**32 - 1)
    safe = code.op(Ins.Select, code.f64, _is_number(code, operand), value, zero)
    above = code.glsl(Glsl.NMax, code.f64, safe, _constant(code, low))
    within = code.glsl(Glsl.NMin, code.f64, above, _constant(code, high))
    return code.op(Ins.ConvertFToS, code.i32, within) if signed else code.op(Ins.ConvertFToU, code.u32, within)


def _is_number(code: Code, operand: int) -> int:
    """Return whether 64 bits are no NaN: compilers may take comparisons for those of numbers."""
    infinity = wide.constant(code, _INFINITY)
    return code.op(Ins.LogicalNot, code.bool, wide.less(code, infinity, absolute(code, operand), signed=False))


def to_unsigned(code: Code, operand: int) -> int:
    """Return an f64 cut to a u64."""
    value = number(code, operand)
    over = code.op(Ins.FOrdGreaterThanEqual, code.bool, value, _constant(code, 2.0**64))
    return code.select(Form.WIDE, over, wide.constant(code, wide.ALL), wide.cut(code, _real(code), value, 2.0**64))


def to_signed(code: Code, operand: int) -> int:
    """Return an f64 cut to an i64."""
    size = number(code, absolute(code, operand))
    return wide.cut_signed(code, _real(code), size, wide.sign_word(code, code.words_of(operand)[1]))


def _real(code: Code) -> wide.Real:
    return wide.Real(code.f64, partial(_constant, code))
