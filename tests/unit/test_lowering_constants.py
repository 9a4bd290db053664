"""Operators on f32 that are known are given as their results: each rounded once, by itself (docs/lowering.md)."""

from __future__ import annotations

import math
import random
import struct
from fractions import Fraction
from itertools import product
from typing import TYPE_CHECKING

import pytest
from spirv_machine import decoded

from vyre_driver.ir import (
    BinOp,
    BufferDecl,
    DataType,
    Program,
    UnOp,
    abs_diff,
    assign,
    binop,
    cast,
    f32,
    fma,
    gid_x,
    i32,
    if_,
    let,
    lid_x,
    lid_y,
    load,
    select,
    store,
    u32,
    unop,
    var,
)
from vyre_driver.ir.arithmetic import LitF32
from vyre_driver.lowering.emit.target import LoweringTarget
from vyre_driver.spirv.opcodes import Ins, Op

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from conftest import Lower

    from vyre_driver.ir.arithmetic import Expr
    from vyre_driver.ir.nodes import Node

F32, U32, I32 = DataType.F32, DataType.U32, DataType.I32
OUT = BufferDecl.read_write("out", 0, F32).with_count(4096)
GIVEN = BufferDecl.read("given", 1, F32).with_count(4)
FLAGS = BufferDecl.read("flags", 2, DataType.Bool).with_count(4)
NAN, INFINITY, SIGN, LEAST = 0x7FC00000, 0x7F800000, 0x80000000, 0x00800000
SPECIAL = [0, SIGN, INFINITY, INFINITY | SIGN, NAN, 0x7F800001, 0xFFC12345, 1, 0x807FFFFF]
MIDDLE = [LEAST, 0x7F7FFFFF, 0x3F800000, 0xBF800000, 0x3EFFFFFF, 0x3F000000, 0xC0200000, 0x4B000000, 0x4B7FFFFF, 0x34000000]
ARITHMETIC = {Ins.FAdd, Ins.FSub, Ins.FMul, Ins.FDiv, Ins.FNegate, Ins.ExtInst, Ins.ConvertSToF, Ins.ConvertUToF, Ins.FConvert}


def number(bits: int) -> float:
    return float(struct.unpack("<f", struct.pack("<I", bits))[0])


def nearest(exact: Fraction, *, zero: int = 0) -> int:
    """The bits of the f32 nearest to a number, of two the even one; what is below all normal ones is a zero of its sign."""
    sign = SIGN if exact < 0 else 0
    size = abs(exact)
    if not size:
        return zero
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= size < Fraction(2) ** exponent  # now 2^exponent <= size < 2^(exponent + 1)
    scale = Fraction(2) ** (max(exponent, -126) - 23)
    steps = round(size / scale)  # of two the even one
    if steps == 1 << 24:
        steps, exponent = 1 << 23, exponent + 1
    if steps < 1 << 23:
        return sign
    return sign | (INFINITY if exponent > 127 else (exponent + 127) << 23 | steps - (1 << 23))


def stored(lower: Lower, values: Iterable[Expr], *before: Node, specs: Sequence[str] = ()) -> tuple[list[int | None], set[int]]:
    """The bits of the constants that values are stored as, None for what is not a constant, and the opcodes of the code."""
    body = [*before, *(store(OUT, place, value) for place, value in enumerate(values))]
    found = decoded(lower(Program.wrapped([OUT, GIVEN, FLAGS], (64, 1, 1), body), specs).code)
    constants = {operands[1]: operands[2] for opcode, operands in found if opcode == Op.Constant}
    stores = [constants.get(operands[1]) for opcode, operands in found if opcode == Ins.Store]
    return stores, {opcode for opcode, _ in found}


EXACT: dict[BinOp, Callable[[Fraction, Fraction], Fraction]] = {
    BinOp.ADD: lambda a, b: a + b,
    BinOp.SUB: lambda a, b: a - b,
    BinOp.MUL: lambda a, b: a * b,
    BinOp.DIV: lambda a, b: a / b,
    BinOp.ABS_DIFF: lambda a, b: abs(a - b),
    BinOp.MIN: min,
    BinOp.MAX: max,
}


def drawn(seed: int, count: int) -> list[tuple[int, int, int]]:
    """Triples of finite f32, half of them near one another."""
    dice = random.Random(seed)  # noqa: S311 -- nothing is secret
    made = []
    while len(made) < count:
        top = dice.randrange(1, 255)
        near = [min(254, max(1, top + dice.randrange(-26, 27))) for _ in range(2)]
        far = [dice.randrange(1, 255) for _ in range(2)]
        exponents = [top, *(near if len(made) % 2 else far)]
        made.append(tuple(dice.getrandbits(1) << 31 | one << 23 | dice.getrandbits(23) for one in exponents))
    return made


@pytest.mark.parametrize("op", EXACT, ids=str)
def test_an_operator_on_two_constants_is_the_exact_result_rounded_once(lower: Lower, op: BinOp) -> None:
    pairs = [(a, b) for a, b, _ in drawn(list(BinOp).index(op), 300)] + list(product(MIDDLE, MIDDLE))
    found, opcodes = stored(lower, [binop(op, LitF32(a), LitF32(b)) for a, b in pairs])
    expected = [nearest(EXACT[op](Fraction(number(a)), Fraction(number(b)))) for a, b in pairs]
    assert (found, opcodes & ARITHMETIC) == (expected, set())


def test_an_fma_of_constants_is_rounded_once(lower: Lower) -> None:
    """The last rounds up only because of what the sum has behind f64's last bit."""
    half = (0x3F800800, 0x3F800800, LEAST)  # a middle of two f32, of which the even one is below, and the least normal
    triples = [*drawn(17, 600), *product(MIDDLE, MIDDLE, MIDDLE), half]
    found, opcodes = stored(lower, [fma(*map(LitF32, one)) for one in triples])
    exact = [[Fraction(number(part)) for part in one] for one in triples]
    assert (found, opcodes & ARITHMETIC) == ([nearest(a * b + c) for a, b, c in exact], set())
    product_alone = Fraction(number(half[0])) ** 2
    assert found[-1] == nearest(product_alone) + 1


def test_a_square_root_of_a_constant_is_the_nearest_and_a_reciprocal_is_a_quotient(lower: Lower) -> None:
    given = [one & ~SIGN for triple in drawn(3, 100) for one in triple]
    found, opcodes = stored(lower, [unop(UnOp.SQRT, LitF32(one)) for one in given])
    for bits, root in zip(given, found, strict=True):
        assert root is not None
        low, high = ((Fraction(number(root)) + Fraction(number(root + step))) / 2 for step in (-1, 1))
        assert low * low < Fraction(number(bits)) < high * high
    reciprocals, _ = stored(lower, [unop(UnOp.RECIPROCAL, LitF32(one)) for one in given])
    assert reciprocals == [nearest(1 / Fraction(number(one))) for one in given]
    assert opcodes & ARITHMETIC == set()


WHOLE: dict[UnOp, Callable[[Fraction], int]] = {
    UnOp.FLOOR: math.floor,
    UnOp.CEIL: math.ceil,
    UnOp.TRUNC: math.trunc,
    UnOp.ROUND: lambda exact: int(math.copysign(math.floor(abs(exact) + Fraction(1, 2)), exact)),
    UnOp.SIGN: lambda exact: (exact > 0) - (exact < 0),
}


@pytest.mark.parametrize("op", WHOLE, ids=str)
def test_whole_numbers_of_constants_are_exact(lower: Lower, op: UnOp) -> None:
    given = [*MIDDLE, 0x3EFFFFFF, 0xBF000000, 0x40200000, 0xBFC00000, 0x4AFFFFFF, 0xCAFFFFFF, 0x4F000000]
    found, opcodes = stored(lower, [unop(op, LitF32(one)) for one in given])
    expected = [nearest(Fraction(WHOLE[op](Fraction(number(one)))), zero=one & SIGN) for one in given]
    zeros = [bits if bits & ~SIGN else bits & ~SIGN for bits in expected]  # which zero no semantics tell
    assert ([bits and bits & ~(SIGN if bits == SIGN else 0) for bits in found], opcodes & ARITHMETIC) == (zeros, set())


def test_a_sign_is_turned_and_taken_off(lower: Lower) -> None:
    found, _ = stored(lower, [unop(op, LitF32(one)) for one in MIDDLE for op in (UnOp.NEGATE, UnOp.ABS)])
    assert found == [bits for one in MIDDLE for bits in (one ^ SIGN, one & ~SIGN)]


def test_constants_that_are_no_numbers_or_subnormals_follow_the_semantics(lower: Lower) -> None:
    """A NaN has one pattern, a subnormal is the zero of its sign, and of a number and a NaN the lesser is the number."""
    nan, one, two, inf = LitF32(NAN | 5), f32(1.0), f32(2.0), LitF32(INFINITY)
    tiny, zero = LitF32(SIGN | 7), f32(0.0)
    terms = {
        nan + one: NAN,
        inf - inf: NAN,
        zero * inf: NAN,
        zero / zero: NAN,
        unop(UnOp.SQRT, LitF32(0xBF800000)): NAN,
        unop(UnOp.NEGATE, nan): NAN,
        unop(UnOp.SIGN, nan): NAN,
        fma(inf, zero, one): NAN,
        binop(BinOp.MIN, nan, one): 0x3F800000,
        binop(BinOp.MAX, two, nan): 0x40000000,
        one / zero: INFINITY,
        one / tiny: INFINITY | SIGN,
        unop(UnOp.ABS, tiny): 0,
        unop(UnOp.NEGATE, tiny): 0,
        tiny + tiny: SIGN,
        LitF32(0x00400000) * f32(4.0): 0,
        fma(LitF32(0x00400000), f32(4.0), zero): 0,
        LitF32(LEAST) * f32(0.5): 0,
        LitF32(LEAST + 1) - LitF32(LEAST): 0,
        fma(LitF32(LEAST), LitF32(SIGN | LEAST), zero): SIGN,
        fma(inf, two, one): INFINITY,
        unop(UnOp.ROUND, inf): INFINITY,
        unop(UnOp.FLOOR, LitF32(INFINITY | SIGN)): INFINITY | SIGN,
    }
    found, opcodes = stored(lower, terms)
    assert (found, opcodes & ARITHMETIC) == (list(terms.values()), set())


def test_what_is_only_moved_keeps_its_bits(lower: Lower) -> None:
    assert stored(lower, [LitF32(one) for one in SPECIAL])[0] == SPECIAL


def test_integers_that_are_known_become_the_nearest_f32(lower: Lower) -> None:
    words, signed = [0, 1, 2**24 + 1, 2**24 + 3, 2**32 - 1, 2**31 - 65], [-1, -(2**24) - 1, -(2**31), 2**31 - 1]
    terms = [*(cast(F32, u32(one)) for one in words), *(cast(F32, i32(one)) for one in signed)]
    found, opcodes = stored(lower, [*terms, cast(F32, lid_y() + 3)])
    expected = [nearest(Fraction(one)) for one in (*words, *signed, 3)]
    assert (found, opcodes & ARITHMETIC) == (expected, set())


def far(value: Expr) -> Expr:
    """Two roundings: a driver made 8388705 of -100."""
    return abs_diff(value, f32(8388607.5)) - 2.5


RIGHT = nearest(Fraction(8388706))


def test_constants_are_seen_through_lets_and_assignments(lower: Lower) -> None:
    before = [let("a", f32(-100.0)), let("b", f32(3.0)), assign("b", f32(-100.0))]
    found, opcodes = stored(lower, [far(f32(-100.0)), far(var("a", F32)), far(var("b", F32))], *before)
    assert (found[2:], opcodes & ARITHMETIC) == ([RIGHT] * 3, set())  # the first two stores are the variable's


def test_a_specialized_let_is_no_constant(lower: Lower) -> None:
    found, opcodes = stored(lower, [far(var("a", F32))], let("a", f32(-100.0)), specs=["a"])
    assert (found, Ins.FSub in opcodes) == ([None], True)


def selected(lower: Lower, value: Expr) -> tuple[list[list[int | None]], set[int]]:
    """The constants of each select, and the opcodes."""
    body = [store(OUT, gid_x(), value)]
    found = decoded(lower(Program.wrapped([OUT, GIVEN, FLAGS], (64, 1, 1), body)).code)
    constants = {operands[1]: operands[2] for opcode, operands in found if opcode == Op.Constant}
    made = [[constants.get(one) for one in operands[3:]] for opcode, operands in found if opcode == Ins.Select]
    return made, {opcode for opcode, _ in found}


def test_an_operator_on_a_select_of_constants_is_a_select_of_results(lower: Lower) -> None:
    condition = load(FLAGS, 0)
    found, opcodes = selected(lower, far(select(condition, f32(-100.0), f32(8388607.5))))
    assert (found[-1], opcodes & ARITHMETIC) == ([RIGHT, nearest(Fraction(-5, 2))], set())


def test_two_selects_by_one_condition_have_two_results(lower: Lower) -> None:
    condition = load(FLAGS, 0)
    pair = select(condition, f32(1.0), f32(16777216.0)) + select(condition, f32(2.0), f32(3.0))
    found, opcodes = selected(lower, pair)
    assert (found[-1], opcodes & ARITHMETIC) == ([nearest(Fraction(3)), nearest(Fraction(16777219))], set())


def test_a_bool_as_f32_is_a_select_of_constants(lower: Lower) -> None:
    found, opcodes = selected(lower, cast(F32, load(FLAGS, 0)) + f32(0.5))
    assert (found[-1], opcodes & ARITHMETIC) == ([nearest(Fraction(3, 2)), nearest(Fraction(1, 2))], set())


def test_selects_in_selects_are_folded_as_far_as_four_results(lower: Lower) -> None:
    flags = [load(FLAGS, place) for place in range(3)]
    two = select(flags[0], select(flags[1], f32(1.0), f32(2.0)), select(flags[1], f32(3.0), f32(4.0)))
    _, folded = selected(lower, two * f32(3.0))
    _, left = selected(lower, two * select(flags[2], f32(3.0), f32(5.0)))
    assert (folded & ARITHMETIC, left & ARITHMETIC) == (set(), {Ins.FMul})


def test_what_is_not_known_is_computed_by_the_device(lower: Lower) -> None:
    _, opcodes = selected(lower, load(GIVEN, 0) + f32(1.0) * f32(2.0))
    assert opcodes & ARITHMETIC == {Ins.FAdd}
    _, opcodes = selected(lower, cast(F32, lid_x()) + f32(1.0))
    assert opcodes & ARITHMETIC == {Ins.ConvertUToF, Ins.FAdd}


ZERO, NEGATIVE_ZERO, X = f32(0.0), LitF32(SIGN), load(GIVEN, gid_x())
WITH_ZEROS = {
    "a product": (X * ZERO, 1),
    "a sum": (ZERO + X, 1),
    "a difference": (X - NEGATIVE_ZERO, 1),
    "a quotient": (X / ZERO, 0),  # made of integers where the target is strict
    "a product with a choice": (X * select(load(FLAGS, 0), f32(2.0), ZERO), 1),
    "a product with 2": (X * f32(2.0), 0),
}


@pytest.mark.parametrize("strict", [False, True])
def test_a_negative_zero_that_is_chosen_or_assigned_is_hidden_where_floats_are_exact(lower: Lower, *, strict: bool) -> None:
    flag = load(FLAGS, gid_x())
    body = [
        store(OUT, gid_x(), select(flag, f32(1.0), NEGATIVE_ZERO)),
        let("t", f32(1.0)),
        if_(flag, [assign("t", NEGATIVE_ZERO)]),
        store(OUT, gid_x(), var("t", F32)),
    ]
    code = decoded(lower(Program.wrapped([OUT, FLAGS], (1, 1, 1), body), (), LoweringTarget(strict=strict)).code)
    floats = {operands[0] for opcode, operands in code if opcode == Op.TypeFloat}
    zeros = {
        operands[1] for opcode, operands in code if opcode == Op.Constant and operands[0] in floats and operands[2] == SIGN
    }
    chosen = [operands for opcode, operands in code if opcode == Ins.Select and zeros & set(operands[3:])]
    assigned = [operands for opcode, operands in code if opcode == Ins.Store and operands[1] in zeros]
    assert (len(chosen), len(assigned)) == ((0, 0) if strict else (1, 1))


@pytest.mark.parametrize("name", WITH_ZEROS)
@pytest.mark.parametrize("hides", [False, True])
def test_a_zero_in_arithmetic_is_hidden_where_the_target_asks_for_it(lower: Lower, name: str, *, hides: bool) -> None:
    value, zeros = WITH_ZEROS[name]
    program = Program.wrapped([OUT, GIVEN, FLAGS], (1, 1, 1), [store(OUT, gid_x(), value)])
    found = decoded(lower(program, (), LoweringTarget(hides=hides)).code)
    constants = {operands[1] for opcode, operands in found if opcode == Op.Constant and operands[2] in {0, SIGN}}
    choices = {operands[1] for opcode, operands in found if opcode == Ins.Select and constants & set(operands[3:])}
    known = [
        operand
        for opcode, operands in found
        if opcode in {Ins.FAdd, Ins.FSub, Ins.FMul, Ins.FDiv}
        for operand in operands[2:]
        if operand in constants | choices
    ]
    assert len(known) == (0 if hides else zeros)
