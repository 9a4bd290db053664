"""64 bits are pairs of words also where the device has them (docs/decisions/0038-64-bits-are-pairs-of-words.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from spirv_machine import decoded

from vyre_driver.ir import BinOp, BufferDecl, DataType, Program, binop, gid_x, load, select, store
from vyre_driver.ir.extensions import EXTENSIONS, extension
from vyre_driver.lowering.emit.target import LoweringTarget
from vyre_driver.spirv.opcodes import Ins, Op

if TYPE_CHECKING:
    from conftest import Lower

    from vyre_driver.ir.arithmetic import Expr

U64 = DataType.U64
WIDE = BufferDecl.read_write("wide", 0, U64).with_count(4)
OPEN = BufferDecl.read("open", 1, U64)
FLAGS = BufferDecl.read("flags", 2, DataType.Bool).with_count(4)
BELOW = BufferDecl.output("below", 3, DataType.Bool).with_count(4)
HAS_WIDE = LoweringTarget(frozenset({"shaderInt64", "shaderFloat64"}))
DIVIDING = {f"{name}<{one}>" for name in ("div", "mod") for one in ("u64", "i64")}


def opcodes_of_wide(lower: Lower, program: Program) -> set[int]:
    """The opcodes of the instructions whose results are integers of 64 bits."""
    found = decoded(lower(program, (), HAS_WIDE).code)
    types = {operands[0] for opcode, operands in found if opcode == Op.TypeInt and operands[1] == 64}
    return {opcode for opcode, operands in found if operands[:1] and operands[0] in types and opcode > Ins.Function}


@pytest.mark.parametrize("name", EXTENSIONS)
def test_an_operator_of_ours_has_no_instruction_of_64_bits_but_for_a_quotient(lower: Lower, name: str) -> None:
    operator = EXTENSIONS[name]
    given = [BufferDecl.read(f"given{place}", place, one[0]) for place, one in enumerate(operator.operands)]
    out = BufferDecl.output("out", len(given), operator.result).with_count(64)
    value = extension(name, *(load(one, gid_x()) for one in given))
    program = Program.wrapped([*given, out], (64, 1, 1), [store(out, gid_x(), value)])
    assert opcodes_of_wide(lower, program) == ({Ins.Bitcast, Ins.UDiv} if name in DIVIDING else set())


@pytest.mark.parametrize(
    "value",
    [
        load(OPEN, 3),
        select(load(FLAGS, 0), load(WIDE, 1), load(WIDE, 2)),
        binop(BinOp.WRAPPING_ADD, load(WIDE, 1), load(WIDE, 2)),
        binop(BinOp.WRAPPING_SUB, load(WIDE, 1), load(WIDE, 2)),
        binop(BinOp.MUL_HIGH, load(WIDE, 1), load(WIDE, 2)),
    ],
    ids=["load", "select", "sum", "difference", "high product"],
)
def test_an_operator_has_no_instruction_of_64_bits(lower: Lower, value: Expr) -> None:
    assert opcodes_of_wide(lower, Program.wrapped([WIDE, OPEN, FLAGS], (1, 1, 1), [store(WIDE, 0, value)])) == set()


@pytest.mark.parametrize("op", [BinOp.EQ, BinOp.NE, BinOp.LT, BinOp.GT, BinOp.LE, BinOp.GE], ids=lambda op: op.name)
def test_a_comparison_has_no_instruction_of_64_bits(lower: Lower, op: BinOp) -> None:
    program = Program.wrapped([WIDE, BELOW], (1, 1, 1), [store(BELOW, 0, binop(op, load(WIDE, 1), load(WIDE, 2)))])
    assert opcodes_of_wide(lower, program) == set()
