"""Bits that are counted, of what was loaded narrow and widened."""

from __future__ import annotations

from typing import TYPE_CHECKING

from forms.formed import Form
from forms.pieces import (
    hidden,
    hides,
    u,
    words,
)

from vyre_driver.spirv.instructions import Ins
from vyre_driver.spirv.opcodes import Op

if TYPE_CHECKING:
    from collections.abc import Callable

    from forms.formed import FormedCode, Key, Rule

    from vyre_driver.spirv.emit.code import Code


def byte_mask(code: FormedCode, loaded: int) -> int:
    is_byte = code.module.declares(Op.TypeInt, 8, 0) and code.types.get(loaded) == code.module.type(Op.TypeInt, 8, 0)
    return code.const(0xFF if is_byte else 0xFFFF)


def widened_and_masked(code: FormedCode, type_id: int, loaded: int) -> int | None:
    if type_id != code.u32:
        return None
    return u(code, Ins.BitwiseAnd, u(code, Ins.UConvert, loaded), byte_mask(code, loaded))


def widened_by_its_sign(code: FormedCode, type_id: int, loaded: int) -> int | None:
    if type_id != code.u32:
        return None
    return u(code, Ins.BitwiseAnd, words(code, code.op(Ins.SConvert, code.i32, loaded)), byte_mask(code, loaded))


def masked(make: Callable[[FormedCode, int, int], int]) -> dict[Key, Rule]:
    """Rules for the low 8 or 16 bits of a word: of the word and how many they are."""

    def low_bits(code: FormedCode, type_id: int, left: int, right: int) -> int | None:
        kept = {code.const(0xFF): 8, code.const(0xFFFF): 16}
        bits, word = (kept[right], left) if right in kept else (kept.get(left, 0), right)
        return make(code, word, bits) if bits and type_id == code.u32 else None

    def widened(code: FormedCode, type_id: int, loaded: int) -> int | None:
        if type_id != code.u32:
            return None
        word = words(code, code.op(Ins.SConvert, code.i32, loaded))
        return make(code, word, 8 if byte_mask(code, loaded) == code.const(0xFF) else 16)

    return {Ins.BitwiseAnd: low_bits, Ins.UConvert: widened}


def low_bits_by_shifts(code: FormedCode, word: int, bits: int) -> int:
    by = code.const(32 - bits)
    return u(code, Ins.ShiftRightLogical, u(code, Ins.ShiftLeftLogical, word, by), by)


def low_bits_as_a_field(code: FormedCode, word: int, bits: int) -> int:
    return u(code, Ins.BitFieldUExtract, word, code.const(0), code.const(bits))


def low_bits_by_a_hidden_mask(code: FormedCode, word: int, bits: int) -> int:
    return u(code, Ins.BitwiseAnd, word, hidden(code, code.u32, code.const((1 << bits) - 1)))


def sum_of_counts(code: Code, low: int, high: int) -> int:
    return u(code, Ins.IAdd, u(code, Ins.BitCount, low), u(code, Ins.BitCount, high))


def counted_by_shifts(code: Code, _: int, word: int) -> int:
    by = code.const(16)
    return sum_of_counts(code, u(code, Ins.ShiftLeftLogical, word, by), u(code, Ins.ShiftRightLogical, word, by))


def counted_by_fields(code: Code, _: int, word: int) -> int:
    by, low = code.const(16), code.const(0)
    return sum_of_counts(code, u(code, Ins.BitFieldUExtract, word, low, by), u(code, Ins.BitFieldUExtract, word, by, by))


def counted_by_parity(code: Code, _: int, word: int) -> int:
    parts = (u(code, Ins.BitwiseAnd, word, code.const(one)) for one in (0x55555555, 0xAAAAAAAA))
    return sum_of_counts(code, *parts)


def counted_by_sums(code: Code, _: int, word: int) -> int:
    def shifted(one: int, by: int) -> int:
        return u(code, Ins.ShiftRightLogical, one, code.const(by))

    def kept(one: int, bits: int) -> int:
        return u(code, Ins.BitwiseAnd, one, code.const(bits))

    pairs = u(code, Ins.ISub, word, kept(shifted(word, 1), 0x55555555))
    fours = u(code, Ins.IAdd, kept(pairs, 0x33333333), kept(shifted(pairs, 2), 0x33333333))
    eights = kept(u(code, Ins.IAdd, fours, shifted(fours, 4)), 0x0F0F0F0F)
    return shifted(u(code, Ins.IMul, eights, code.const(0x01010101)), 24)


def counted_reversed(code: Code, _: int, word: int) -> int:
    return u(code, Ins.BitCount, u(code, Ins.BitReverse, word))


def counted_inverted(code: Code, _: int, word: int) -> int:
    return u(code, Ins.ISub, code.const(32), u(code, Ins.BitCount, u(code, Ins.Not, word)))


def counted_hidden(code: FormedCode, type_id: int, word: int) -> int:
    return u(code, Ins.BitCount, hidden(code, type_id, word))


BITS = (
    Form("widened, then masked", {Ins.UConvert: widened_and_masked}),
    Form("widened by its sign, then masked", {Ins.UConvert: widened_by_its_sign}),
    Form("masked by shifts", masked(low_bits_by_shifts)),
    Form("masked as a field", masked(low_bits_as_a_field)),
    Form("counted by halves, shifted", {Ins.BitCount: counted_by_shifts}),
    Form("counted by halves, as fields", {Ins.BitCount: counted_by_fields}),
    Form("counted odd and even", {Ins.BitCount: counted_by_parity}),
    Form("counted reversed", {Ins.BitCount: counted_reversed}),
    Form("counted inverted", {Ins.BitCount: counted_inverted}),
    Form("counted by sums", {Ins.BitCount: counted_by_sums}),
    Form("hidden before it is counted", {Ins.BitCount: counted_hidden}),
    Form("hidden mask", masked(low_bits_by_a_hidden_mask)),
    Form("hidden where it is widened", {Ins.UConvert: hides(Ins.UConvert, "u32")}),
)
