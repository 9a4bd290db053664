"""Operators on f32, and what they give of constants.

The IR's results have no subnormals. Where the device flushes them on request (DenormFlushToZero) nothing is emitted for that;
elsewhere operands and results are flushed by their bits, as long as the target is strict. A product and a sum stay two
roundings (NoContraction) unless the target contracts, an fma is one.

NVIDIA's compiler (580.159.04 on an H200) folds sums of constants without rounding in between, NoContraction or not. A device
is given the result instead, each rounded by itself, of literals, of the lets that hold them, and of selects between them,
through which compilers fold too: an operator on a select of two constants is a select of two results. Functions that the
semantics leave to the device (sine, exponential, ...) are left to it here too.

Source: spec item 1.7 (floats); SPIR-V 1.6, 3.20 (NoContraction); "SPIR-V Extended Instructions for GLSL", section 2.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from vyre_driver.ir.operators import BinOp, UnOp
from vyre_driver.lowering.emit.code import Choice, Code, Known, Value, cannot
from vyre_driver.lowering.emit.kinds import Form
from vyre_driver.lowering.emit.target import FLUSH
from vyre_driver.spirv.opcodes import Decoration, Glsl, Ins

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


MAGNITUDE, SIGN, INFINITY, LEAST_NORMAL = 0x7FFF_FFFF, 0x8000_0000, 0x7F80_0000, 0x0080_0000
ONE, HALF, QUIET_NAN = 0x3F80_0000, 0x3F00_0000, 0x7FC0_0000

# A one and a zero whose signs differ.
_WITH_ANOTHER_SIGN = ({ONE, SIGN}, {ONE | SIGN, 0})
# What gives no subnormals, whatever it is given.
_NEVER_SUBNORMAL = frozenset(
    {*(Glsl.RoundEven, Glsl.Floor, Glsl.Ceil, Glsl.Trunc, Glsl.Sqrt, Glsl.InverseSqrt), *(Glsl.Cosh, Glsl.Cos, Glsl.Acos)}
)


def of_bits(code: Code, operand: int) -> int:
    """Return a u32 as the bits of a float."""
    return code.op(Ins.Bitcast, code.f32, operand)


def magnitude(code: Code, operand: int) -> int:
    """Return the bits without the sign."""
    return code.op(Ins.BitwiseAnd, code.u32, code.bits(operand), code.const(MAGNITUDE))


def flushed(code: Code, operand: int) -> int:
    """Return a float with a subnormal made the zero of its sign, unless the device does that or the target is not strict."""
    return cleared(code, operand) if code.target.flushes_by_bits else operand


def cleared(code: Code, operand: int) -> int:
    """Return a float with a subnormal made the zero of its sign, by its bits: for what takes bits, which no device flushes."""
    if operand in code.canonical:
        return operand
    tiny = code.op(Ins.ULessThan, code.bool, magnitude(code, operand), code.const(LEAST_NORMAL))
    zero = of_bits(code, code.op(Ins.BitwiseAnd, code.u32, code.bits(operand), code.const(SIGN)))
    return _as_unfoldable_as(code, code.normal(code.op(Ins.Select, code.f32, tiny, zero, operand)), operand)


def result(code: Code, made: int) -> int:
    """Return the result of an operation of the device without subnormals; it has none where the device flushes them."""
    return code.normal(made) if code.target.strict and FLUSH in code.target.features else flushed(code, made)


def exact(code: Code, opcode: int, type_id: int, *operands: int) -> int:
    """Return the result of an arithmetic instruction that is rounded by itself."""
    key = (opcode, type_id, *operands)
    found = code.recall(key)
    if found is None:
        found = code.remember(key, code.result(opcode, type_id, *operands))
        code.module.decorate(found, Decoration.NO_CONTRACTION)
    return found


def unfoldable(code: Code, operand: int) -> int:
    """Return a float that llvmpipe's compiler cannot take for a constant zero, the float itself on other drivers.

    It takes x * 0, 0 / x and x / 0 for 0, and x + 0 for x: infinities, NaNs and the signs of zeros are lost. Other constants
    stay as they are.
    """
    known = code.floats.get(operand)
    least = LEAST_NORMAL if code.target.strict else 1
    return operand if isinstance(known, int) and known & MAGNITUDE >= least else hidden_float(code, operand)


def with_its_sign(code: Code, operand: int) -> int:
    """Return a float that may be chosen: with exact floats, no compiler knows that it is the constant -0.0.

    NVIDIA's (580.159.04 on an H200) makes a number of the condition of ``1.0 if c else -0.0``, also where a branch or the bits
    decide, and the zero loses its sign.
    """
    return _hidden_float(code, operand) if code.target.strict and code.floats.get(operand) == SIGN else operand


def hidden_float(code: Code, operand: int) -> int:
    """Return a float that llvmpipe's compiler cannot take for any constant, the float itself on other drivers."""
    return _hidden_float(code, operand) if code.target.hides else operand


def _hidden_float(code: Code, operand: int) -> int:
    """Return a float that no compiler can take for a constant; the float itself where the program has no buffer."""
    if not code.measured or operand in code.unfoldable:
        return operand
    known = code.floats.get(operand)
    # Not by the zero that words are hidden by: the two may meet, and the same twice would cancel.
    word = code.hidden_float_bits(known) if isinstance(known, int) else code.hide_number(code.bits(operand))
    made = of_bits(code, word)
    code.unfoldable.add(made)
    if known is not None:
        code.floats[made] = known
    return kept(code, made, operand)


def _as_unfoldable_as(code: Code, made: int, operand: int) -> int:
    """Return a value that hides as much from a compiler as the operand that it is made of."""
    if operand in code.unfoldable:
        code.unfoldable.add(made)
    return made


def arithmetic(code: Code, opcode: int, *operands: int) -> int:
    """Return the result of FAdd, FSub, FMul or FDiv."""
    if code.target.strict or opcode == Ins.FDiv:
        operands = tuple(unfoldable(code, operand) for operand in operands)
    clean = [flushed(code, operand) for operand in operands]
    if code.target.contracts:
        return result(code, code.op(opcode, code.f32, *clean))
    made = exact(code, opcode, code.f32, *clean)
    if code.target.strict:
        code.unfoldable.add(made)
    return result(code, made)


def kept(code: Code, made: int, *operands: int) -> int:
    """Return a value that is one of the operands, or one of them with another sign: no subnormal where they are none."""
    return code.normal(made) if all(one in code.canonical for one in operands) else made


def negate(code: Code, operand: int) -> int:
    """Return the negation."""
    clean = flushed(code, operand)
    return _as_unfoldable_as(code, kept(code, code.op(Ins.FNegate, code.f32, clean), clean), clean)


def extended(code: Code, number: int, *operands: int) -> int:
    """Return the result of a function of GLSL.std.450."""
    made = code.glsl(number, code.f32, *(flushed(code, one) for one in operands))
    return code.normal(made) if number in _NEVER_SUBNORMAL else result(code, made)


def choose(code: Code, number: int, *operands: int) -> int:
    """Return FAbs, NMin or NMax: of a number and a NaN the number."""
    clean = [flushed(code, one) for one in operands]
    return kept(code, code.glsl(number, code.f32, *clean), *clean)


def absolute(code: Code, operand: int) -> int:
    """Return the magnitude, without its sign bit where the target is strict.

    NVIDIA's compiler (580.159.04 on an H200) takes a comparison of FAbs that only a NaN fails for true.
    """
    if not code.target.strict:
        return choose(code, Glsl.FAbs, operand)
    size = magnitude(code, operand)
    if operand not in code.canonical:  # and no operation of the device's flushes it
        tiny = code.op(Ins.ULessThan, code.bool, size, code.const(LEAST_NORMAL))
        size = code.op(Ins.Select, code.u32, tiny, code.const(0), size)
    return _as_unfoldable_as(code, code.normal(of_bits(code, size)), operand)


def abs_diff(code: Code, left: int, right: int) -> int:
    """Return the distance of two numbers."""
    return absolute(code, arithmetic(code, Ins.FSub, left, right))


def rounded(code: Code, operand: int) -> int:
    """Return the nearest integer, and of two equally near ones the one away from zero.

    What is left of the number without its fraction is exact, so that it tells on which side of the middle it lies.
    """
    clean = flushed(code, operand)
    whole = code.glsl(Glsl.Trunc, code.f32, clean)
    rest = code.glsl(Glsl.FAbs, code.f32, exact(code, Ins.FSub, code.f32, clean, whole))
    away = code.op(Ins.FOrdGreaterThanEqual, code.bool, rest, code.const_f32(HALF))
    sign = code.op(Ins.BitwiseAnd, code.u32, code.bits(clean), code.const(SIGN))
    step = of_bits(code, code.op(Ins.BitwiseOr, code.u32, sign, code.const(ONE)))
    return code.normal(code.op(Ins.Select, code.f32, away, exact(code, Ins.FAdd, code.f32, whole, step), whole))


def sign(code: Code, operand: int) -> int:
    """Return 1 or -1, 0 of both zeros, NaN of NaN."""
    size = magnitude(code, flushed(code, operand))
    signed = code.op(Ins.BitwiseOr, code.u32, _sign_bit(code, operand), code.const(ONE))
    is_zero = code.op(Ins.ULessThan, code.bool, size, code.const(LEAST_NORMAL))
    found = code.op(Ins.Select, code.u32, is_zero, code.const(0), signed)
    no_number = code.op(Ins.UGreaterThan, code.bool, size, code.const(INFINITY))
    return code.normal(of_bits(code, code.op(Ins.Select, code.u32, no_number, code.const(QUIET_NAN), found)))


def _sign_bit(code: Code, operand: int) -> int:
    return code.op(Ins.BitwiseAnd, code.u32, code.bits(flushed(code, operand)), code.const(SIGN))


def has_magnitude(code: Code, order: int, operand: int, limit: int = INFINITY) -> int:
    """Return whether a magnitude stands so to another, by their bits: compilers may take comparisons for those of numbers."""
    return code.op(order, code.bool, magnitude(code, operand), code.const(limit))


def reciprocal(code: Code, operand: int) -> int:
    """Return 1 / operand."""
    return arithmetic(code, Ins.FDiv, code.const_f32(ONE), operand)


def fma(code: Code, a: int, b: int, c: int) -> int:
    """Return a * b + c, rounded once."""
    known = _result_of(code, _fma_of, a, b, c)
    if known is not None:
        return known
    if code.target.fuses or not code.target.strict:
        return extended(code, Glsl.Fma, a, b, c)
    if "shaderFloat64" not in code.target.features:
        cannot(None, "an fma that rounds once", "shaderFloat64, or a configuration with a ulp budget")
    # Exact, or Mesa takes an integer that was rounded to f32 as an f64 that was not.
    clean = [exact(code, Ins.FConvert, code.f64, flushed(code, unfoldable(code, operand))) for operand in (a, b, c)]
    made = code.op(Ins.FConvert, code.f32, _odd_sum(code, clean))
    code.unfoldable.add(made)
    return flushed(code, made)


def select(code: Code, condition: int, yes: int, no: int) -> int:
    """Return one float or the other.

    llvmpipe's compiler makes a number of the condition where one is 1 or -1 and the other a zero, which gets the sign of the 1.
    """
    if {code.floats.get(yes), code.floats.get(no)} in _WITH_ANOTHER_SIGN:
        yes, no = unfoldable(code, yes), unfoldable(code, no)
    yes, no = with_its_sign(code, yes), with_its_sign(code, no)
    return kept(code, code.select(Form.F32, condition, yes, no), yes, no)


def _odd_sum(code: Code, operands: list[int]) -> int:
    """Return a * b + c in f64 with a last bit that says whether there is more, so that rounding again gives what once would.

    The product of two f32 is exact in f64. What the sum lost is exact too (Knuth's two-sum); where something was lost, the odd
    neighbour on that side is nearer to the truth than any f32 or middle of two (Boldo and Melquiond). A sum whose low word is 0
    is an f32, an infinity, or so small that it is flushed, and stays; the high word never changes. The lost part is a multiple
    of 2^-300, so that its high word tells whether it is 0.
    """
    f64 = code.f64
    product = exact(code, Ins.FMul, f64, operands[0], operands[1])
    total = exact(code, Ins.FAdd, f64, product, operands[2])
    part = exact(code, Ins.FSub, f64, total, product)
    rest = exact(code, Ins.FSub, f64, product, exact(code, Ins.FSub, f64, total, part))
    lost = exact(code, Ins.FAdd, f64, rest, exact(code, Ins.FSub, f64, operands[2], part))
    pair = code.vector(2)
    low, high = code.words_of(code.op(Ins.Bitcast, pair, total))
    lost_high = code.op(Ins.CompositeExtract, code.u32, code.op(Ins.Bitcast, pair, lost), 1)
    size = code.op(Ins.BitwiseAnd, code.u32, lost_high, code.const(MAGNITUDE))
    is_some, is_open = (code.op(Ins.INotEqual, code.bool, one, code.const(0)) for one in (size, low))
    signs = code.op(Ins.BitwiseXor, code.u32, lost_high, high)
    inwards = code.op(Ins.ShiftRightLogical, code.u32, signs, code.const(31))
    odd = code.op(Ins.BitwiseOr, code.u32, code.op(Ins.ISub, code.u32, low, inwards), code.const(1))
    changes = code.op(Ins.LogicalAnd, code.bool, is_some, is_open)
    chosen = code.op(Ins.Select, code.u32, changes, odd, low)
    return code.op(Ins.Bitcast, f64, code.op(Ins.CompositeConstruct, pair, chosen, high))


_MOST_ALTERNATIVES = 4
_LEAST = np.float32(2.0**-126)
_ZERO, _ONE = np.float32(0), np.float32(1)


def folded(code: Code, op: BinOp | UnOp, *operands: int) -> int | None:
    """Return the result of an folded on f32, None where it is not known."""
    function = _OPERATORS.get(op)
    return None if function is None else _result_of(code, function, *operands)


def folded_integer(code: Code, value: Value) -> int | None:
    """Return the f32 nearest to an integer, None where that is not known."""
    number = code.signed_value(value.id)
    if value.kind.form is Form.U32:
        least, most = code.range_of(value.id)
        number = least if least == most else None
    return None if number is None else code.const_f32(_bits_of(np.float32(number)))


def note_select(code: Code, made: int, condition: int, yes: int, no: int) -> None:
    """Note what a select of two f32 can be."""
    sides = code.floats.get(yes), code.floats.get(no)
    if sides[0] is None or sides[1] is None:
        return
    known = Choice(condition, _where(sides[0], condition, holds=True), _where(sides[1], condition, holds=False))
    if _alternatives(known) <= _MOST_ALTERNATIVES:
        code.floats[made] = known


def _result_of(code: Code, function: Callable[..., np.float32], *operands: int) -> int | None:
    known = [code.floats.get(one) for one in operands]
    parts = [one for one in known if one is not None]
    if len(parts) < len(known):
        return None
    with np.errstate(all="ignore"):
        result = _applied(function, parts)
    return _emitted(code, result) if _alternatives(result) <= _MOST_ALTERNATIVES else None


def _applied(function: Callable[..., np.float32], known: Sequence[Known]) -> Known:
    """Return a function's result for every way in which the conditions of its operands can hold."""
    first = next((one.condition for one in known if isinstance(one, Choice)), None)
    if first is None:
        return _bits_of(function(*(_operand(one) for one in known if isinstance(one, int))))
    yes, no = (_applied(function, [_where(one, first, holds=holds) for one in known]) for holds in (True, False))
    return yes if yes == no else Choice(first, yes, no)


def _where(known: Known, condition: int, *, holds: bool) -> Known:
    """Return what is left of a choice where a condition holds, or does not."""
    while isinstance(known, Choice) and known.condition == condition:
        known = known.yes if holds else known.no
    return known


def _alternatives(known: Known) -> int:
    return _alternatives(known.yes) + _alternatives(known.no) if isinstance(known, Choice) else 1


def _emitted(code: Code, known: Known) -> int:
    if not isinstance(known, Choice):
        return code.const_f32(known)
    result = select(code, known.condition, _emitted(code, known.yes), _emitted(code, known.no))
    code.floats[result] = known
    return code.normal(result)  # as all results are


def _operand(bits: int) -> np.float32:
    """Return an operand by its bits, a zero of its sign for a subnormal."""
    return _without_subnormal(np.uint32(bits).view(np.float32))


def _without_subnormal(value: np.float32) -> np.float32:
    return np.copysign(_ZERO, value) if abs(value) < _LEAST else value


def _bits_of(value: np.float32) -> int:
    """Return the bits of a result: one NaN, and no subnormals."""
    return QUIET_NAN if np.isnan(value) else int(_without_subnormal(value).view(np.uint32))


def _fma_of(a: np.float32, b: np.float32, c: np.float32) -> np.float32:
    """Return a * b + c, rounded once: by way of the f64 with an odd last bit where there is more, which no tie of f32 has."""
    factors = float(a), float(b), float(c)
    near = factors[0] * factors[1] + factors[2]  # infinities, NaNs and the signs of zeros are right by themselves
    if not near or not math.isfinite(near):
        return np.float32(near)
    exact = Fraction(factors[0]) * Fraction(factors[1]) + Fraction(factors[2])
    if Fraction(near) != exact and not np.float64(near).view(np.uint64) & np.uint64(1):
        near = math.nextafter(near, math.inf if exact > Fraction(near) else -math.inf)
    return np.float32(near)


def _round_of(value: np.float32) -> np.float32:
    """Return the nearest integer, and of two equally near ones the one away from zero; a half more is exact in f64."""
    return np.float32(np.copysign(np.floor(np.abs(np.float64(value)) + 0.5), value))


def _sign_of(value: np.float32) -> np.float32:
    return value if np.isnan(value) else np.copysign(_ONE, value) if value else _ZERO


_OPERATORS: dict[BinOp | UnOp, Callable[..., np.float32]] = {
    BinOp.ADD: lambda left, right: left + right,
    BinOp.SUB: lambda left, right: left - right,
    BinOp.MUL: lambda left, right: left * right,
    BinOp.DIV: lambda left, right: left / right,
    BinOp.MIN: lambda left, right: right if np.isnan(left) or right < left else left,
    BinOp.MAX: lambda left, right: right if np.isnan(left) or right > left else left,
    BinOp.ABS_DIFF: lambda left, right: np.abs(left - right),
    UnOp.NEGATE: np.negative,
    UnOp.ABS: np.abs,
    UnOp.FLOOR: np.floor,
    UnOp.CEIL: np.ceil,
    UnOp.TRUNC: np.trunc,
    UnOp.ROUND: _round_of,
    UnOp.SIGN: _sign_of,
    UnOp.SQRT: np.sqrt,
    UnOp.RECIPROCAL: lambda value: _ONE / value,
    UnOp.INVERSE_SQRT: lambda value: _ONE / np.sqrt(value),
}
