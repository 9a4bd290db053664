"""Casts, and the truth value of a number.

Source: spec items 1.7 (casts) and 1.9; SPIR-V 1.6, OpConvertFToU and OpConvertFToS (undefined out of range, so they get numbers
in range only).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_driver.checks import U32_MAX
from vyre_driver.lowering.emit import floats, integers
from vyre_driver.lowering.emit.code import Code, Value, cannot
from vyre_driver.lowering.emit.kinds import Form, Kind
from vyre_driver.spirv.opcodes import Ins

if TYPE_CHECKING:
    from vyre_driver.ir.terms import Term

_TWO_TO_31, _TWO_TO_32, _MINUS_TWO_TO_31 = 0x4F00_0000, 0x4F80_0000, 0xCF00_0000


def truth(code: Code, value: Value) -> int:
    """Return whether a value of any castable kind is not zero, as a bool."""
    match value.kind.form:
        case Form.BOOL:
            return value.id
        case Form.U32:
            return code.op(Ins.INotEqual, code.bool, value.id, code.const(0))
        case Form.I32:
            return code.op(Ins.INotEqual, code.bool, value.id, code.const_i32(0))
        case Form.F32:
            return floats.has_magnitude(code, Ins.UGreaterThanEqual, value.id, floats.LEAST_NORMAL)  # subnormals are zeros
    words = words_of(code, value)
    some = words[0]
    for one in words[1:]:
        some = code.op(Ins.BitwiseOr, code.u32, some, one)
    return code.op(Ins.INotEqual, code.bool, some, code.const(0))


def words_of(code: Code, value: Value) -> list[int]:
    """Return the bits of a value as words, the lowest first; a bool is 0 or 1, which is hidden (``hide_number``)."""
    match value.kind.form:
        case Form.U32:
            return [value.id]
        case Form.I32 | Form.F32:
            return [code.bits(value.id)]
        case Form.BOOL:
            return [code.hide_number(as_number(code, value.id))]
        case Form.WIDE:
            return code.words_of(value.id)
    return code.words_of(value.id, value.kind.bits // 32)


def as_number(code: Code, condition: int) -> int:
    """Return 1 where a bool holds, else 0, as a u32."""
    return code.narrow(code.op(Ins.Select, code.u32, condition, code.const(1), code.const(0)), 0, 1)


def cast(code: Code, term: Term, value: Value, target: Kind) -> Value:
    """Return a value as another kind; the pair is in the cast table."""
    if value.kind == target:
        return value
    if target.form is Form.BOOL:
        return Value(truth(code, value), target)
    if target.form is Form.F32:
        return Value(_to_float(code, value), target)
    if value.kind.form is Form.F32:
        return Value(_from_float(code, value.id, signed=target.form is not Form.U32), target)
    words = words_of(code, value)
    if target.form in {Form.UVEC2, Form.UVEC4}:
        count = target.bits // 32
        words = (words + [code.const(0)] * count)[:count]
        return Value(code.op(Ins.CompositeConstruct, code.type_of(target.form), *words), target)
    if target.form is Form.WIDE:
        return Value(code.pair(words[0], words[1] if len(words) > 1 else _upper_word(code, value)), target)
    if target.form not in {Form.U32, Form.I32}:
        cannot(term, f"a cast of {value.kind.name} to {target.name}", "a cast of the table")
    return Value(_of_word(code, words[0], value, target), target)


def _upper_word(code: Code, value: Value) -> int:
    """Return the upper word of a 64-bit value from a word: its sign, if it has one."""
    if not value.kind.signed:
        return code.const(0)
    return code.bits(code.op(Ins.ShiftRightArithmetic, code.i32, value.id, code.const(31)))


def _of_word(code: Code, word: int, value: Value, target: Kind) -> int:
    """Return the low bits of a word as an integer of 8, 16 or 32 bits."""
    result = word
    if target.bits < 32 and not (value.kind.bits <= target.bits and value.kind.signed == target.signed):
        result = integers.bit_and(code, word, code.const((1 << target.bits) - 1))
        if target.signed:
            return integers.sign_extended(code, result, target.bits)
    if target.form is not Form.I32:
        return result
    signed = code.op(Ins.Bitcast, code.i32, result)
    if value.kind.form is Form.BOOL and result in code.hidden:
        code.hidden[signed] = code.hidden[result]
    return signed


def _to_float(code: Code, value: Value) -> int:
    """Return an integer or a bool as the nearest f32.

    Where lets are specialized an integer may be a constant that only the driver knows, as an f32 then (``Statements._hidden``).
    """
    if value.kind.form is Form.BOOL:
        sides = code.const_f32(floats.ONE), code.const_f32(0)
        result = code.op(Ins.Select, code.f32, value.id, *sides)
        floats.note_select(code, result, value.id, *sides)
    else:
        known = floats.folded_integer(code, value)
        if known is not None:
            return known
        opcode = Ins.ConvertSToF if value.kind.form is Form.I32 else Ins.ConvertUToF
        result = code.op(opcode, code.f32, value.id)
        result = code.hide_form(Form.F32, result) if code.is_specialized else result
    return code.normal(result)


def _from_float(code: Code, operand: int, *, signed: bool) -> int:
    """Return f32 cut to an i32 or a u32: clamped, 0 for a NaN."""
    high = code.const_f32(_TWO_TO_31 if signed else _TWO_TO_32)
    low = code.const_f32(_MINUS_TWO_TO_31 if signed else 0)
    above = code.op(Ins.FOrdGreaterThan, code.bool, operand, low)
    fits = code.op(Ins.LogicalAnd, code.bool, above, code.op(Ins.FOrdLessThan, code.bool, operand, high))
    safe = code.op(Ins.Select, code.f32, fits, operand, code.const_f32(0))
    if not signed:
        result = code.op(Ins.ConvertFToU, code.u32, safe)
        over = code.op(Ins.FOrdGreaterThanEqual, code.bool, operand, high)
        return code.op(Ins.Select, code.u32, over, code.const(U32_MAX), result)
    result = code.op(Ins.ConvertFToS, code.i32, safe)
    over = code.op(Ins.FOrdGreaterThanEqual, code.bool, operand, high)
    under = code.op(Ins.FOrdLessThanEqual, code.bool, operand, low)
    capped = code.op(Ins.Select, code.i32, over, code.const_i32(0x7FFF_FFFF), result)
    return code.op(Ins.Select, code.i32, under, code.const_i32(0x8000_0000), capped)
