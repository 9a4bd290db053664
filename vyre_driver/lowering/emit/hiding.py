"""Hide constants from the device's compiler where its optimizations of them are wrong.

What for: docs/lowering.md, "Drivers". Source: SPIR-V 1.6, OpArrayLength.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_driver.checks import U32_MAX
from vyre_driver.lowering.emit.kinds import Form
from vyre_driver.spirv.instructions import Ins

if TYPE_CHECKING:
    from vyre_driver.lowering.emit.code import Code

_ALTERNATING, _PAIRS = 0x5555_5555, 0x3333_3333  # what differs from all ones, and from each other: equal zeros would cancel


def hide(code: Code, word: int) -> int:
    """Return a u32 of which no compiler knows anything.

    It is an exclusive or with the zero that says whether a buffer without elements is bound, which none is.
    """
    return _hidden_by(code, word, U32_MAX)


def hide_number(code: Code, word: int) -> int:
    """Return a u32 that is made of a bool, hidden by a zero of its own; twice the same zero would cancel.

    So is one of two constants. NVIDIA's compiler (580.159.04 on an H200) takes the bool for -1 where a comparison of the number
    leads, or a borrow.
    """
    return _hidden_by(code, word, _ALTERNATING)


def hide_flag(code: Code, word: int) -> int:
    """Return a u32, hidden if it can be 0 or 1 only: it may be made of a bool."""
    return hide(code, word) if code.range_of(word)[1] <= 1 else word


def hidden_constant(code: Code, value: int) -> int:
    """Return a u32 that no compiler knows, where the program has a buffer to hide it by."""
    return _hidden_constant(code, value, 0 if value else U32_MAX)


def hidden_float_bits(code: Code, bits: int) -> int:
    """Return the bits of an f32 constant as a u32 that no compiler knows, nor when it is hidden once more."""
    return _hidden_constant(code, bits, bits ^ _PAIRS)


def _hidden_constant(code: Code, value: int, otherwise: int) -> int:
    """Return a constant, which would be ``otherwise`` in a buffer without elements."""
    if not code.measured:
        return code.const(value)
    key, other = ("hidden constant", value, otherwise), code.const(otherwise)
    return code.early(key, Ins.Select, code.u32, _is_empty(code), other, code.const(value))


def hide_f32(code: Code, value: int) -> int:
    """Return an f32 of which no compiler knows anything."""
    return hide_form(code, Form.F32, value)


def hide_form(code: Code, form: Form, value: int) -> int:
    """Return a number of 32 or 64 bits of which no compiler knows anything."""
    if form is Form.WIDE:
        low, high = code.words_of(value)
        return code.pair(hide(code, low), hide(code, high))
    if form is Form.U32:
        return hide(code, value)
    return code.op(Ins.Bitcast, code.type_of(form), hide(code, code.bits(value)))


def _hidden_by(code: Code, word: int, otherwise: int) -> int:
    """Return a u32 exclusive or a zero, which would be ``otherwise`` in a buffer without elements."""
    low, high = code.range_of(word)
    if low == high or word in code.hidden or not code.measured:
        return word
    zero = code.early(("hidden zero", otherwise), Ins.Select, code.u32, _is_empty(code), code.const(otherwise), code.const(0))
    result = code.op(Ins.BitwiseXor, code.u32, word, zero)
    code.hidden[result] = word
    return code.narrow(result, low, high)


def _is_empty(code: Code) -> int:
    """Return whether a buffer has no elements: it has some, which no compiler can know."""
    length = code.early("length of a buffer", Ins.ArrayLength, code.u32, code.measured, 0)
    return code.early("a buffer is empty", Ins.IEqual, code.bool, length, code.const(0))
