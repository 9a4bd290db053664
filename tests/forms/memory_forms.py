"""Atomics and what leads to their places, and floats that are rounded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from forms.formed import Form
from forms.pieces import (
    ONES,
    borrowed,
    hidden,
    is_of,
    truth,
    u,
)

from vyre_driver.spirv.emit import floats
from vyre_driver.spirv.instructions import Ins

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from forms.formed import FormedCode, Rule

    from vyre_driver.spirv.emit.code import Code

EXACT = floats.exact  # as it is without forms


def flag(make: Callable[[FormedCode, int], int]) -> Rule:
    """A rule for 1 or 0 by a condition."""

    def rule(code: FormedCode, type_id: int, condition: int, yes: int, no: int) -> int | None:
        if type_id != code.u32 or (yes, no) != (code.const(1), code.const(0)):
            return None
        return make(code, condition)

    return rule


def flag_of_a_mask(code: FormedCode, condition: int) -> int:
    return u(code, Ins.BitwiseAnd, u(code, Ins.Select, condition, code.const(ONES), code.const(0)), code.const(1))


def flag_of_a_float(code: FormedCode, condition: int) -> int:
    number = code.op(Ins.Select, code.f32, condition, code.const_f32(floats.ONE), code.const_f32(0))
    return u(code, Ins.ConvertFToU, number)


def flag_hidden(code: FormedCode, condition: int) -> int:
    return hidden(code, code.u32, u(code, Ins.Select, condition, code.const(1), code.const(0)))


def value_hidden(code: FormedCode, place: int, scope: int, order: int, value: int) -> Sequence[int]:
    return place, scope, order, hidden(code, code.u32, value)


def value_as_an_inverse(code: FormedCode, place: int, scope: int, order: int, value: int) -> Sequence[int]:
    return place, scope, order, u(code, Ins.Not, hidden(code, code.u32, u(code, Ins.Not, value)))


def place_hidden(code: FormedCode, type_id: int, *operands: int) -> int:
    return code.op(Ins.AccessChain, type_id, *operands[:-1], hidden(code, code.u32, operands[-1]))


def below_turned(code: FormedCode, _: int, left: int, right: int) -> int:
    return code.op(Ins.UGreaterThan, code.bool, right, left)


def below_by_borrow(code: FormedCode, _: int, left: int, right: int) -> int | None:
    if any(is_of(code, code.types.get(one, 0), "u64") for one in (left, right)):
        return None
    return truth(code, borrowed(code, left, right)[1])


ATOMIC_VALUES = (Ins.AtomicUMin, Ins.AtomicUMax, Ins.AtomicAnd, Ins.AtomicOr, Ins.AtomicXor, Ins.AtomicIAdd)
ATOMICS = (
    Form("bool as a number by a mask", {Ins.Select: flag(flag_of_a_mask)}),
    Form("bool as a number by a float", {Ins.Select: flag(flag_of_a_float)}),
    Form("range checked the other way round", {Ins.ULessThan: below_turned}),
    Form("range checked by a borrow", {Ins.ULessThan: below_by_borrow}),
    Form("hidden operand of the least and of and", operands=dict.fromkeys((Ins.AtomicUMin, Ins.AtomicAnd), value_hidden)),
    Form("hidden operand of every atomic", operands=dict.fromkeys(ATOMIC_VALUES, value_hidden)),
    Form("hidden bool as a number", {Ins.Select: flag(flag_hidden)}),
    Form("hidden places", {Ins.AccessChain: place_hidden}),
)


def exact_by_bits(code: Code, opcode: int, type_id: int, *operands: int) -> int:
    made = EXACT(code, opcode, type_id, *operands)
    return floats.of_bits(code, floats.bits(code, made)) if type_id == code.f32 else made


def exact_hidden(code: FormedCode, opcode: int, type_id: int, *operands: int) -> int:
    made = EXACT(code, opcode, type_id, *operands)
    return hidden(code, type_id, made) if type_id == code.f32 else made


FLOATS = (
    Form("rounded by its bits", functions={(floats, "exact"): exact_by_bits}),
    Form("hidden results of floats", functions={(floats, "exact"): exact_hidden}),
)
