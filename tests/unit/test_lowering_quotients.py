"""Quotients, remainders and shifts: right at every edge, and without guards where a constant needs none."""

from __future__ import annotations

import subprocess
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from spirv_machine import Machine, decoded

from vyre_driver.conformance.constant_cases import constant_cases
from vyre_driver.ir import BinOp, BufferDecl, DataType, Program, binop, i32, let, load, store, u32, var
from vyre_driver.spirv.opcodes import Ins

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import Lower

    from vyre_driver.ir.arithmetic import Expr

LEAST, MOST = -(2**31), 2**31 - 1
NUMBERS = [0, 1, -1, 2, -2, 3, -3, 7, -7, 10, 65536, -65536, 1044843776, -522421888, MOST, MOST - 1, LEAST + 1, LEAST]
WORDS = [0, 1, 2, 3, 7, 31, 32, 33, 63, 64, 65536, 2**31 - 1, 2**31, 2**32 - 1]
I32, U32 = DataType.I32, DataType.U32
GIVEN = {one: BufferDecl.read_write("given", 0, one).with_count(2) for one in (I32, U32)}
OUT = {one: BufferDecl.read_write("out", 1, one).with_count(1) for one in (I32, U32)}
GUARDS = {Ins.IEqual, Ins.Select, Ins.LogicalAnd, Ins.LogicalOr, Ins.BitwiseAnd}


def program(dtype: DataType, make: Callable[[Expr], Expr]) -> Program:
    body = [store(OUT[dtype], 0, make(load(GIVEN[dtype], 0)))]
    return Program.wrapped([GIVEN[dtype], OUT[dtype]], (1, 1, 1), body)


def computed(machine: Machine, given: int, other: int = 0) -> int:
    """What one invocation stores, as the machine has it: a u32."""
    out = [0]
    machine.run(0, 1, {"given": [given & 0xFFFFFFFF, other & 0xFFFFFFFF], "out": out}, [])
    return out[0]


def quotient(left: int, right: int) -> int:
    """What i32 division gives, wrapped, and 0 for a zero divisor."""
    made = abs(left) // abs(right) if right else 0
    return (made if (left < 0) == (right < 0) else -made) & 0xFFFFFFFF


def remainder(left: int, right: int) -> int:
    made = abs(left) % abs(right) if right else 0
    return (-made if left < 0 else made) & 0xFFFFFFFF


SIGNED = {BinOp.DIV: quotient, BinOp.MOD: remainder}
UNSIGNED: dict[BinOp, Callable[[int, int], int]] = {
    BinOp.DIV: lambda left, right: left // right,
    BinOp.MOD: lambda left, right: left % right,
    BinOp.SHL: lambda left, right: left << (right & 31) & 0xFFFFFFFF,
    BinOp.SHR: lambda left, right: left >> (right & 31),
    BinOp.ROTATE_LEFT: lambda left, right: (left << (right & 31) | left >> (-right & 31)) & 0xFFFFFFFF,
    BinOp.ROTATE_RIGHT: lambda left, right: (left >> (right & 31) | left << (-right & 31)) & 0xFFFFFFFF,
}
SIGNED_CONSTANTS = [(op, one) for op, one in product(SIGNED, NUMBERS) if one]
UNSIGNED_CONSTANTS = [(op, one) for op, one in product(UNSIGNED, WORDS) if one or op not in {BinOp.DIV, BinOp.MOD}]


@pytest.mark.parametrize(("op", "divisor"), SIGNED_CONSTANTS)
def test_a_signed_constant_divides_without_guards_and_sdiv_gets_none_below_one(lower: Lower, op: BinOp, divisor: int) -> None:
    code = lower(program(I32, lambda x: binop(op, x, i32(divisor)))).code
    found = {opcode for opcode, _ in decoded(code)}
    machine = Machine(code)
    assert [computed(machine, one) for one in NUMBERS] == [SIGNED[op](one, divisor) for one in NUMBERS]
    assert (found & GUARDS, Ins.SDiv in found) == (set(), divisor > 0)


@pytest.mark.parametrize("op", SIGNED)
def test_signed_numbers_that_nobody_knows_are_divided_by_their_magnitudes(lower: Lower, op: BinOp) -> None:
    """A divisor of 0, and the least number by -1, have the results that docs/lowering.md names."""
    given, out = GIVEN[I32], OUT[I32]
    code = lower(Program.wrapped([given, out], (1, 1, 1), [store(out, 0, binop(op, load(given, 0), load(given, 1)))])).code
    machine, pairs = Machine(code), list(product(NUMBERS, NUMBERS))
    assert [computed(machine, *pair) for pair in pairs] == [SIGNED[op](*pair) for pair in pairs]
    assert Ins.SDiv not in {opcode for opcode, _ in decoded(code)}


@pytest.mark.parametrize("op", SIGNED)
def test_a_let_of_a_literal_is_a_constant_and_a_specialized_one_is_not(lower: Lower, op: BinOp) -> None:
    body = [let("by", i32(7)), store(OUT[I32], 0, binop(op, load(GIVEN[I32], 0), var("by", I32)))]
    made = Program.wrapped([GIVEN[I32], OUT[I32]], (1, 1, 1), body)
    plain, open_to_all = lower(made).code, lower(made, ("by",)).code
    assert [Ins.SDiv in {opcode for opcode, _ in decoded(code)} for code in (plain, open_to_all)] == [True, False]
    machines = Machine(plain), Machine(open_to_all)
    assert [[computed(machine, one) for one in NUMBERS] for machine in machines] == [
        [SIGNED[op](one, 7) for one in NUMBERS]
    ] * 2


@pytest.mark.parametrize("constant", [5, -5, LEAST])
def test_a_constant_is_divided_by_what_nobody_knows(lower: Lower, constant: int) -> None:
    machine = Machine(lower(program(I32, lambda x: binop(BinOp.DIV, i32(constant), x))).code)
    assert [computed(machine, one) for one in NUMBERS] == [quotient(constant, one) for one in NUMBERS]


@pytest.mark.parametrize(("op", "constant"), UNSIGNED_CONSTANTS)
def test_an_unsigned_constant_divides_and_shifts_without_guards_and_masks(lower: Lower, op: BinOp, constant: int) -> None:
    code = lower(program(U32, lambda x: binop(op, x, u32(constant)))).code
    machine = Machine(code)
    assert [computed(machine, one) for one in WORDS] == [UNSIGNED[op](one, constant) for one in WORDS]
    assert {opcode for opcode, _ in decoded(code)} & GUARDS == set()


@pytest.mark.validation
def test_what_a_driver_was_wrong_about_reads_as_the_golden_text(lower: Lower) -> None:
    case = next(constant_cases())
    command = ["spirv-dis", "--no-header", "--no-indent", "-"]
    done = subprocess.run(command, input=lower(case.program).code, capture_output=True, check=True)
    golden = Path(__file__).parents[1] / "golden" / "text" / "quotient.lowered.txt"
    assert done.stdout.decode() == golden.read_text("utf-8")
