"""The lesser and the greater: of words beside inverses, of signed numbers by comparisons."""

from __future__ import annotations

from typing import TYPE_CHECKING

from forms.formed import Form
from forms.pieces import (
    ONES,
    SIGN,
    borrowed,
    by_branches,
    either,
    hidden,
    hides,
    is_of,
    mask,
    of,
    signed,
    turned,
    u,
    words,
)

from vyre_driver.spirv.instructions import Glsl, Ins

if TYPE_CHECKING:
    from collections.abc import Callable

    from forms.formed import FormedCode, Rule

    from vyre_driver.spirv.emit.code import Code


def inverted_by_ones(code: Code, type_id: int, operand: int) -> int | None:
    if not is_of(code, type_id, "u32", "i32"):
        return None
    return code.op(Ins.BitwiseXor, type_id, operand, code.const(ONES) if type_id == code.u32 else code.const_i32(-1))


def inverted_by_difference(code: Code, type_id: int, operand: int) -> int | None:
    if not is_of(code, type_id, "u32", "i32"):
        return None
    return code.op(Ins.ISub, type_id, code.const(ONES) if type_id == code.u32 else code.const_i32(-1), operand)


def difference_as_sum(code: Code, left: int, right: int) -> int:
    return u(code, Ins.IAdd, u(code, Ins.IAdd, left, u(code, Ins.Not, right)), code.const(1))


def difference_by_borrow(code: Code, left: int, right: int) -> int:
    return borrowed(code, left, right)[0]


def in_order(make: Callable[[FormedCode, int, int], tuple[int, int]]) -> dict[tuple[int, int], Rule]:
    """Rules for the lesser and the greater."""
    return {
        (Ins.ExtInst, Glsl.UMin): lambda code, _, left, right: make(code, left, right)[0],
        (Ins.ExtInst, Glsl.UMax): lambda code, _, left, right: make(code, left, right)[1],
    }


def ordered_by_comparison(code: FormedCode, left: int, right: int) -> tuple[int, int]:
    first = code.op(Ins.ULessThan, code.bool, left, right)
    return u(code, Ins.Select, first, left, right), u(code, Ins.Select, first, right, left)


def ordered_by_borrow(code: FormedCode, left: int, right: int) -> tuple[int, int]:
    first = u(code, Ins.ISub, code.const(0), borrowed(code, left, right)[1])
    return either(code, first, left, right), either(code, first, right, left)


def ordered_by_masks(code: FormedCode, left: int, right: int) -> tuple[int, int]:
    first = mask(code, code.op(Ins.ULessThan, code.bool, left, right))
    return either(code, first, left, right), either(code, first, right, left)


def ordered_by_sign(code: FormedCode, left: int, right: int) -> tuple[int, int]:
    pair = [signed(code, u(code, Ins.BitwiseXor, one, code.const(SIGN))) for one in (left, right)]
    made = (code.glsl(one, code.i32, *pair) for one in (Glsl.SMin, Glsl.SMax))
    lesser, greater = (u(code, Ins.BitwiseXor, words(code, one), code.const(SIGN)) for one in made)
    return lesser, greater


def ordered_by_inverses(code: FormedCode, left: int, right: int) -> tuple[int, int]:
    pair = [u(code, Ins.Not, one) for one in (left, right)]
    lesser, greater = (u(code, Ins.Not, code.glsl(one, code.u32, *pair)) for one in (Glsl.UMax, Glsl.UMin))
    return lesser, greater


def ordered_by_difference(code: FormedCode, left: int, right: int) -> tuple[int, int]:
    """The greater is what is left above the lesser, added."""
    lesser = code.glsl(Glsl.UMin, code.u32, left, right)
    return lesser, u(code, Ins.IAdd, right, u(code, Ins.ISub, left, lesser))


def ordered_hidden(code: FormedCode, left: int, right: int) -> tuple[int, int]:
    pair = hidden(code, code.u32, left), right
    return code.glsl(Glsl.UMin, code.u32, *pair), code.glsl(Glsl.UMax, code.u32, *pair)


_KNOWN: dict[int, Callable[[int, int], int]] = {
    Ins.ShiftLeftLogical: lambda a, b: a << b & ONES,
    Ins.ShiftRightLogical: lambda a, b: a >> b,
    Ins.BitwiseOr: lambda a, b: a | b,
    Ins.IAdd: lambda a, b: a + b & ONES,
    Ins.ISub: lambda a, b: a - b & ONES,
}


def known(opcode: int) -> Rule:
    """What is known of its operands already is no instruction."""

    def rule(code: FormedCode, type_id: int, left: int, right: int) -> int | None:
        if type_id != code.u32:
            return None
        (low, high), (least, most) = code.range_of(left), code.range_of(right)
        return code.const(_KNOWN[opcode](low, least)) if (low, least) == (high, most) else None

    return rule


WORDS = (
    Form("words that are known", {one: known(one) for one in _KNOWN}),
    Form("inverted by an exclusive or", {Ins.Not: inverted_by_ones}),
    Form("inverted by a difference", {Ins.Not: inverted_by_difference}),
    Form("difference of words as a sum", {Ins.ISub: of("u32", difference_as_sum)}),
    Form("difference of words by a borrow", {Ins.ISub: of("u32", difference_by_borrow)}),
    Form("order of words by a comparison", in_order(ordered_by_comparison)),
    Form("order of words by a borrow", in_order(ordered_by_borrow)),
    Form("order of words by masks", in_order(ordered_by_masks)),
    Form("order of words as of signed ones", in_order(ordered_by_sign)),
    Form("order of words by inverses", in_order(ordered_by_inverses)),
    Form("order of words by a difference", in_order(ordered_by_difference)),
    Form("hidden inverse", {Ins.Not: hides(Ins.Not, "u32", "i32")}),
    Form("hidden difference of words", {Ins.ISub: hides(Ins.ISub, "u32")}),
    Form("hidden operand of the lesser and greater", in_order(ordered_hidden)),
)


_ORDERS = {
    Ins.SLessThan: Ins.ULessThan,
    Ins.SGreaterThan: Ins.UGreaterThan,
    Ins.SLessThanEqual: Ins.ULessThanEqual,
    Ins.SGreaterThanEqual: Ins.UGreaterThanEqual,
}


def are_numbers(code: FormedCode, *operands: int) -> bool:
    """Whether what is compared is i32: 64 bits are compared by the same instructions."""
    return all(code.signed_value(one) is not None or code.types.get(one) == code.i32 for one in operands)


def compared_as_words(opcode: int) -> Rule:
    def rule(code: FormedCode, _: int, left: int, right: int) -> int | None:
        if not are_numbers(code, left, right):
            return None
        return code.op(_ORDERS[opcode], code.bool, turned(code, left), turned(code, right))

    return rule


def compared_by_borrow(opcode: int) -> Rule:
    """By the borrow of a difference, in one order or the other, or its inverse."""
    swapped = opcode in {Ins.SGreaterThan, Ins.SLessThanEqual}
    inverted = opcode in {Ins.SLessThanEqual, Ins.SGreaterThanEqual}

    def rule(code: FormedCode, _: int, left: int, right: int) -> int | None:
        if not are_numbers(code, left, right):
            return None
        pair = (right, left) if swapped else (left, right)
        borrow = borrowed(code, *(turned(code, one) for one in pair))[1]
        return code.op(Ins.IEqual if inverted else Ins.INotEqual, code.bool, borrow, code.const(0))

    return rule


def number_by_words(code: FormedCode, condition: int, yes: int, no: int) -> int:
    return signed(code, u(code, Ins.Select, condition, words(code, yes), words(code, no)))


def number_by_masks(code: FormedCode, condition: int, yes: int, no: int) -> int:
    return signed(code, either(code, mask(code, condition), words(code, yes), words(code, no)))


def number_by_turned_words(code: FormedCode, condition: int, yes: int, no: int) -> int:
    chosen = u(code, Ins.Select, condition, turned(code, yes), turned(code, no))
    return signed(code, u(code, Ins.BitwiseXor, chosen, code.const(SIGN)))


def difference_of_words(code: FormedCode, left: int, right: int) -> int:
    return signed(code, u(code, Ins.ISub, words(code, left), words(code, right)))


def difference_of_numbers_as_sum(code: FormedCode, left: int, right: int) -> int:
    inverse = code.op(Ins.Not, code.i32, right)
    return code.op(Ins.IAdd, code.i32, code.op(Ins.IAdd, code.i32, left, inverse), code.const_i32(1))


def difference_of_numbers_by_borrow(code: FormedCode, left: int, right: int) -> int:
    return signed(code, borrowed(code, words(code, left), words(code, right))[0])


NUMBERS = (
    Form("numbers compared as words", {one: compared_as_words(one) for one in _ORDERS}),
    Form("numbers compared by a borrow", {one: compared_by_borrow(one) for one in _ORDERS}),
    Form("numbers chosen as words", {Ins.Select: of("i32", number_by_words)}),
    Form("numbers chosen as turned words", {Ins.Select: of("i32", number_by_turned_words)}),
    Form(
        "numbers compared and chosen as turned words",
        {**{one: compared_as_words(one) for one in _ORDERS}, Ins.Select: of("i32", number_by_turned_words)},
    ),
    Form("numbers chosen by masks", {Ins.Select: of("i32", number_by_masks)}),
    Form("numbers chosen by branches", {Ins.Select: by_branches("i32")}),
    Form("difference of numbers as words", {Ins.ISub: of("i32", difference_of_words)}),
    Form("difference of numbers as a sum", {Ins.ISub: of("i32", difference_of_numbers_as_sum)}),
    Form("difference of numbers by a borrow", {Ins.ISub: of("i32", difference_of_numbers_by_borrow)}),
    Form("hidden comparison", {one: hides(one, "bool") for one in _ORDERS}),
    Form("hidden choice", {Ins.Select: hides(Ins.Select, "i32")}),
    Form("hidden difference of numbers", {Ins.ISub: hides(Ins.ISub, "i32")}),
)
