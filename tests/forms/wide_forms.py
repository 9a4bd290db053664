"""Differences of 64 bits, the high words of products, and choices between 64 bits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from forms.formed import Form
from forms.pieces import (
    JOINED,
    borrowed,
    by_branches,
    hidden,
    hides,
    mask,
    of,
    signed,
    truth,
    u,
    words,
)

from vyre_driver.spirv.emit import casts, entry, integers, wide
from vyre_driver.spirv.emit.code import Value
from vyre_driver.spirv.emit.kinds import BOOL, U32
from vyre_driver.spirv.emit.variables import Variables
from vyre_driver.spirv.instructions import Ins

if TYPE_CHECKING:
    from forms.formed import FormedCode, Rule

    from vyre_driver.spirv.emit.code import Code

S_MUL_EXTENDED = 152


def less_by_borrow(code: Code, left: int, right: int) -> int:
    (low, high), (least, most) = wide.halves(code, left), wide.halves(code, right)
    rest, borrow = borrowed(code, low, least)
    return JOINED(code, rest, u(code, Ins.ISub, u(code, Ins.ISub, high, most), borrow))


def less_by_comparison(code: Code, left: int, right: int) -> int:
    (low, high), (least, most) = wide.halves(code, left), wide.halves(code, right)
    borrow = casts.as_number(code, code.op(Ins.ULessThan, code.bool, low, least))
    return JOINED(code, u(code, Ins.ISub, low, least), u(code, Ins.ISub, u(code, Ins.ISub, high, most), borrow))


def less_by_inverses(code: Code, left: int, right: int) -> int:
    return code.op(Ins.Not, code.u64, code.op(Ins.IAdd, code.u64, code.op(Ins.Not, code.u64, left), right))


def less_as_a_sum(code: Code, left: int, right: int) -> int:
    one = wide.constant(code, 1)
    total = code.op(Ins.IAdd, code.u64, left, code.op(Ins.Not, code.u64, right))
    return code.op(Ins.IAdd, code.u64, total, one)


def less_hidden(code: FormedCode, left: int, right: int) -> int:
    return code.op(Ins.ISub, code.u64, hidden(code, code.u64, left), right)


def joined_by_conversion(code: Code, low: int, high: int) -> int:
    if not code.has_wide or high != code.const(0):
        return JOINED(code, low, high)
    return code.op(Ins.UConvert, code.u64, low)


def product_in_64_bits(code: Code, left: int, right: int) -> tuple[int, int]:
    if not code.has_wide:
        return plain_product(code, left, right)
    both = (code.op(Ins.UConvert, code.u64, one) for one in (left, right))
    return wide.halves(code, code.op(Ins.IMul, code.u64, *both))


def product_shifted(code: Code, left: int, right: int) -> tuple[int, int]:
    if not code.has_wide:
        return plain_product(code, left, right)
    made = code.op(Ins.IMul, code.u64, *(code.op(Ins.UConvert, code.u64, one) for one in (left, right)))
    high = code.op(Ins.ShiftRightLogical, code.u64, made, code.const(32))
    return u(code, Ins.UConvert, made), u(code, Ins.UConvert, high)


def plain_product(code: Code, left: int, right: int) -> tuple[int, int]:
    both = code.op(Ins.UMulExtended, integers.pair_struct(code), left, right)
    return u(code, Ins.CompositeExtract, both, 0), u(code, Ins.CompositeExtract, both, 1)


def product_of_signed(code: Code, left: int, right: int) -> tuple[int, int]:
    """The signed one, to which each is added that the other's sign took away."""
    struct = code.recall("pair of i32")
    if struct is None:
        struct = code.keep("pair of i32", code.module.struct_type(code.i32, code.i32))
    numbers = [signed(code, one) for one in (left, right)]
    both = code.op(S_MUL_EXTENDED, struct, *numbers)
    low, high = (words(code, code.op(Ins.CompositeExtract, code.i32, both, place)) for place in (0, 1))
    for number, other in zip(numbers, (right, left), strict=True):
        sign = words(code, code.op(Ins.ShiftRightArithmetic, code.i32, number, code.const(31)))
        high = u(code, Ins.IAdd, high, u(code, Ins.BitwiseAnd, sign, other))
    return low, high


def product_of_halves(code: Code, left: int, right: int) -> tuple[int, int]:
    """Of four products of 16 bits."""
    low_bits, by = code.const(0xFFFF), code.const(16)
    a, b = ((u(code, Ins.BitwiseAnd, one, low_bits), u(code, Ins.ShiftRightLogical, one, by)) for one in (left, right))
    low = u(code, Ins.IMul, a[0], b[0])
    middle = u(code, Ins.IAdd, u(code, Ins.IMul, a[1], b[0]), u(code, Ins.ShiftRightLogical, low, by))
    rest = u(code, Ins.IAdd, u(code, Ins.IMul, a[0], b[1]), u(code, Ins.BitwiseAnd, middle, low_bits))
    high = u(code, Ins.IAdd, u(code, Ins.IMul, a[1], b[1]), u(code, Ins.ShiftRightLogical, middle, by))
    return u(code, Ins.IMul, left, right), u(code, Ins.IAdd, high, u(code, Ins.ShiftRightLogical, rest, by))


def product_hidden(code: FormedCode, left: int, right: int) -> tuple[int, int]:
    low, high = plain_product(code, left, right)
    return low, hidden(code, code.u32, high)


PRODUCT = (integers, "wide_product")
DIFFERENCES = (
    Form("difference of halves by a borrow", {Ins.ISub: of("u64", less_by_borrow)}),
    Form("difference of halves by a comparison", {Ins.ISub: of("u64", less_by_comparison)}),
    Form("difference by inverses", {Ins.ISub: of("u64", less_by_inverses)}),
    Form("difference as a sum", {Ins.ISub: of("u64", less_as_a_sum)}),
    Form("word converted to 64 bits", functions={(wide, "joined"): joined_by_conversion}),
    Form("product in 64 bits, its halves", functions={PRODUCT: product_in_64_bits}),
    Form("product in 64 bits, shifted", functions={PRODUCT: product_shifted}),
    Form("product of signed words", functions={PRODUCT: product_of_signed}),
    Form("product of halves", functions={PRODUCT: product_of_halves}),
    Form("hidden high word", functions={PRODUCT: product_hidden}),
    Form("hidden minuend", {Ins.ISub: of("u64", less_hidden)}),
)


def joined_bools(opcode: int) -> Rule:
    def rule(code: FormedCode, _: int, left: int, right: int) -> int:
        return truth(code, u(code, opcode, casts.as_number(code, left), casts.as_number(code, right)))

    return rule


def or_as_select(code: FormedCode, _: int, left: int, right: int) -> int:
    return code.op(Ins.Select, code.bool, left, code.const_bool(value=True), right)


def and_as_select(code: FormedCode, _: int, left: int, right: int) -> int:
    return code.op(Ins.Select, code.bool, left, right, code.const_bool(value=False))


def bool_by_logic(code: FormedCode, condition: int, yes: int, no: int) -> int:
    one = code.op(Ins.LogicalAnd, code.bool, condition, yes)
    other = code.op(Ins.LogicalAnd, code.bool, code.op(Ins.LogicalNot, code.bool, condition), no)
    return code.op(Ins.LogicalOr, code.bool, one, other)


def bool_by_words(code: FormedCode, condition: int, yes: int, no: int) -> int:
    sides = (casts.as_number(code, one) for one in (yes, no))
    return truth(code, u(code, Ins.Select, condition, *sides))


def wide_by_halves(code: FormedCode, condition: int, yes: int, no: int) -> int:
    pairs = zip(wide.halves(code, yes), wide.halves(code, no), strict=True)
    return JOINED(code, *(u(code, Ins.Select, condition, *pair) for pair in pairs))


def wide_as_pairs(code: FormedCode, condition: int, yes: int, no: int) -> int:
    both = code.op(Ins.CompositeConstruct, code.vector(2, code.bool), condition, condition)
    pair = code.op(Ins.Select, code.vector(2), both, wide.pair(code, yes), wide.pair(code, no))
    return wide.of_pair(code, pair)


def wide_by_masks(code: FormedCode, condition: int, yes: int, no: int) -> int:
    bits = mask(code, condition)
    differing = code.op(Ins.BitwiseXor, code.u64, yes, no)
    return code.op(Ins.BitwiseXor, code.u64, no, code.op(Ins.BitwiseAnd, code.u64, JOINED(code, bits, bits), differing))


def condition_hidden(code: FormedCode, condition: int, yes: int, no: int) -> int:
    return code.op(Ins.Select, code.u64, hidden(code, code.bool, condition), yes, no)


class WordVariables(Variables):
    """Variables that hold 1 or 0 for a bool."""

    def declare(self, name: str, value: Value) -> None:
        self.bools = getattr(self, "bools", frozenset()) - {name}
        if value.kind is BOOL and name in self._uses.assigned:
            self.bools |= {name}
            value = Value(casts.as_number(self._code, value.id), U32)
        super().declare(name, value)

    def assign(self, name: str, value: Value) -> None:
        is_bool = name in self.bools and value.kind is BOOL
        super().assign(name, Value(casts.as_number(self._code, value.id), U32) if is_bool else value)

    def read(self, name: str) -> Value:
        found = super().read(name)
        return Value(truth(self._code, found.id), BOOL) if name in self.bools else found


OR_AS_WORDS = {Ins.LogicalOr: joined_bools(Ins.BitwiseOr), Ins.LogicalAnd: joined_bools(Ins.BitwiseAnd)}
CHOICES = (
    Form("64 bits chosen as pairs", {Ins.Select: of("u64", wide_as_pairs)}),
    Form("64 bits chosen by halves", {Ins.Select: of("u64", wide_by_halves)}),
    Form("64 bits chosen by masks", {Ins.Select: of("u64", wide_by_masks)}),
    Form("bools chosen by words", {Ins.Select: of("bool", bool_by_words)}),
    Form("bools chosen by logic", {Ins.Select: of("bool", bool_by_logic)}),
    Form("logic of words", OR_AS_WORDS),
    Form("logic by selects", {Ins.LogicalOr: or_as_select, Ins.LogicalAnd: and_as_select}),
    Form("logic and choices of words", {**OR_AS_WORDS, Ins.Select: of("bool", bool_by_words)}),
    Form("bool variables of words", functions={(entry, "Variables"): WordVariables}),
    Form("64 bits chosen by branches", {Ins.Select: by_branches("u64")}),
    Form("hidden condition of 64 bits", {Ins.Select: of("u64", condition_hidden)}),
    Form("hidden bool that was chosen", {Ins.Select: hides(Ins.Select, "bool")}),
    Form("hidden logic", {Ins.LogicalOr: hides(Ins.LogicalOr, "bool"), Ins.LogicalAnd: hides(Ins.LogicalAnd, "bool")}),
)
