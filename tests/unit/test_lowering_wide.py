"""64 bits where the device has them: by no instruction that a driver is wrong about (docs/lowering.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spirv_machine import decoded

from vyre_driver.ir import BinOp, BufferDecl, DataType, Program, binop, cast, load, select, store, u32
from vyre_driver.lowering.emit import LoweringTarget
from vyre_driver.spirv.instructions import Ins
from vyre_driver.spirv.opcodes import Op

if TYPE_CHECKING:
    from conftest import Lower

    from vyre_driver.ir.arithmetic import Expr

U64 = DataType.U64
WIDE = BufferDecl.read_write("wide", 0, U64).with_count(4)
WORDS = BufferDecl.read("words", 1, DataType.U32).with_count(4)
OPEN = BufferDecl.read("open", 2, U64)
FLAGS = BufferDecl.read("flags", 3, DataType.Bool).with_count(4)
HAS_WIDE = LoweringTarget(frozenset({"shaderInt64"}))


def opcodes_of_wide(lower: Lower, value: Expr) -> set[int]:
    """The opcodes of the instructions whose results have 64 bits."""
    found = decoded(lower(Program.wrapped([WIDE, WORDS, OPEN, FLAGS], (1, 1, 1), [store(WIDE, 0, value)]), (), HAS_WIDE).code)
    wide = next(operands[0] for opcode, operands in found if opcode == Op.TypeInt and operands[1] == 64)
    return {opcode for opcode, operands in found if operands[:1] == [wide] and opcode > Ins.Function}


def test_a_difference_is_made_of_words_with_a_borrow(lower: Lower) -> None:
    high = cast(U64, binop(BinOp.MUL_HIGH, load(WORDS, 0), u32(62)))
    found = opcodes_of_wide(lower, binop(BinOp.WRAPPING_SUB, high, load(WIDE, 1)))
    assert found == {Ins.Load, Ins.Bitcast}


def test_one_of_two_is_chosen_as_a_pair_of_words(lower: Lower) -> None:
    assert opcodes_of_wide(lower, select(load(FLAGS, 0), load(WIDE, 1), load(WIDE, 2))) == {Ins.Load, Ins.Bitcast}


def test_what_is_loaded_in_range_or_zero_is_chosen_as_a_pair_of_words(lower: Lower) -> None:
    assert opcodes_of_wide(lower, load(OPEN, 3)) == {Ins.Load, Ins.Bitcast}
