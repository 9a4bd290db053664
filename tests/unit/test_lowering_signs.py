"""Signs of i8, i16 and i32: right at every edge, and by no instruction that a driver is wrong about (docs/lowering.md)."""

from __future__ import annotations

import operator
from itertools import product
from typing import TYPE_CHECKING

import pytest
from spirv_machine import Machine, decoded

from vyre_driver.ir import BinOp, BufferDecl, DataType, Program, binop, cast, i32, load, maximum, minimum, select, store
from vyre_driver.spirv.opcodes import Glsl, Ins, Op

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import Lower

    from vyre_driver.ir.arithmetic import Expr

I32, U32 = DataType.I32, DataType.U32
NUMBERS = [0, 1, -1, 2, -2, 127, 128, -128, -129, 32767, 32768, -32768, -32769, 65536, 2**31 - 1, -(2**31), -(2**31) + 1]
GIVEN = BufferDecl.read_write("given", 0, I32).with_count(2)
OUT = BufferDecl.read_write("out", 1, I32).with_count(1)
NARROW = {DataType.I8: 8, DataType.I16: 16}
WRONG = {Ins.BitFieldSExtract}
WRONG_EXTENDED = {Glsl.SMin, Glsl.SMax}


def computed(machine: Machine, *given: int) -> int:
    """What one invocation stores."""
    out = [0]
    machine.run(0, 1, {"given": [one & 0xFFFFFFFF for one in given], "out": out}, [])
    return (out[0] ^ 2**31) - 2**31


def lowered(lower: Lower, value: Expr, given: BufferDecl = GIVEN) -> Machine:
    code = lower(Program.wrapped([given, OUT], (1, 1, 1), [store(OUT, 0, value)])).code
    found = decoded(code)
    extended = {operands[3] for opcode, operands in found if opcode == Ins.ExtInst}
    assert ({opcode for opcode, _ in found} & WRONG, extended & WRONG_EXTENDED) == (set(), set())
    return Machine(code)


def signed(word: int, bits: int) -> int:
    return (word & (1 << bits) - 1 ^ 1 << bits - 1) - (1 << bits - 1)


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_a_cast_to_a_narrow_type_keeps_the_low_bits_and_their_sign(lower: Lower, dtype: DataType) -> None:
    machine = lowered(lower, cast(I32, cast(dtype, load(GIVEN, 0))))
    assert [computed(machine, one, 0) for one in NUMBERS] == [signed(one, NARROW[dtype]) for one in NUMBERS]


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_an_element_in_a_word_that_others_share_has_its_sign(lower: Lower, dtype: DataType) -> None:
    bits = NARROW[dtype]
    given = BufferDecl.read("given", 0, dtype).with_count(8)
    words = [0x80FF7F01, 0x00FE8081, 0x7FFF8000, 0xFFFF0001]
    for place in range(8):
        machine = lowered(lower, cast(I32, load(given, place)), given)
        each = 32 // bits
        word = words[place // each]
        assert computed(machine, *words) == signed(word >> place % each * bits, bits)


OF_TWO: dict[str, tuple[Callable[[Expr, Expr], Expr], Callable[[int, int], int]]] = {
    "the lesser": (minimum, min),
    "the greater": (maximum, max),
    "the lesser, and 0": (lambda a, b: minimum(minimum(a, b), i32(0)), lambda a, b: min(a, b, 0)),
    "the greater, and -5": (lambda a, b: maximum(i32(-5), maximum(a, b)), lambda a, b: max(a, b, -5)),
    "limits of another": (lambda a, b: minimum(maximum(a, i32(-129)), b), lambda a, b: min(max(a, -129), b)),
}


@pytest.mark.parametrize("name", OF_TWO)
def test_the_lesser_and_the_greater_of_i32_are_taken_in_the_order_of_words(lower: Lower, name: str) -> None:
    make, right = OF_TWO[name]
    machine, pairs = lowered(lower, make(load(GIVEN, 0), load(GIVEN, 1))), list(product(NUMBERS, NUMBERS))
    assert [computed(machine, *pair) for pair in pairs] == [right(*pair) for pair in pairs]


def test_a_number_and_its_negation_are_not_less_than_their_least_again(lower: Lower) -> None:
    """What a driver made min(x, 0) of."""
    x = load(GIVEN, 0)
    machine = lowered(lower, minimum(minimum(x, binop(BinOp.SUB, i32(0), x)), i32(0)))
    assert [computed(machine, one, 0) for one in NUMBERS] == [-abs(one) for one in NUMBERS]


COMPARED = {BinOp.LT: operator.lt, BinOp.GT: operator.gt, BinOp.LE: operator.le, BinOp.GE: operator.ge}


@pytest.mark.parametrize("op", COMPARED, ids=str)
def test_one_of_two_i32_is_chosen_by_a_mask(lower: Lower, op: BinOp) -> None:
    """A comparison and a select were made a minimum, which the compiler of SMin is wrong about."""
    x, y = load(GIVEN, 0), load(GIVEN, 1)
    machine, pairs = lowered(lower, select(binop(op, x, y), y, x)), list(product(NUMBERS, NUMBERS))
    assert [computed(machine, *pair) for pair in pairs] == [b if COMPARED[op](a, b) else a for a, b in pairs]
    found = decoded(lower(Program.wrapped([GIVEN, OUT], (1, 1, 1), [store(OUT, 0, select(binop(op, x, y), y, x))])).code)
    constants = {operands[1]: operands[2] for opcode, operands in found if opcode == Op.Constant}
    assert [[constants[one] for one in operands[3:]] for opcode, operands in found if opcode == Ins.Select] == [[1, 0]]


def test_what_is_taken_in_the_order_of_words_stays_in_it_along_a_chain(lower: Lower) -> None:
    """The upper bit of x, y and 7 is turned once each, that of the result once, and those of two of them beside the chain.

    By a bit that no compiler knows: one that finds late that n is 0 makes x of max(-(~x + n), x).
    """
    x, y = load(GIVEN, 0), load(GIVEN, 1)
    code = lower(Program.wrapped([GIVEN, OUT], (1, 1, 1), [store(OUT, 0, minimum(minimum(x, y), maximum(x, i32(7))))])).code
    found = decoded(code)
    hidden = [operands[1] for opcode, operands in found if opcode == Ins.Select]
    turned = [operands[3] for opcode, operands in found if opcode == Ins.BitwiseXor]
    assert (len(hidden), turned) == (1, hidden * 6)
