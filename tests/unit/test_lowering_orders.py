"""Which checks of indices are left out: those that conditions make needless, and no other."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import numpy as np
import pytest
from laid_out_programs import BUFFERS, DATA, OUT, PUSHED, Maker, numbers
from spirv_machine import Machine, decoded

from vyre_driver.backends.reference.dispatch import interpret
from vyre_driver.binding.plan import BindingPlan
from vyre_driver.binding.pushed import pushed_members
from vyre_driver.ir import BinOp, DataType, Program, binop, buf_len, if_, let, load, minimum, select, store, u32, var
from vyre_driver.lowering.emit.entry import emit
from vyre_driver.spirv.opcodes import Ins

if TYPE_CHECKING:
    from conftest import Lower

    from vyre_driver.ir.expressions import Expr
    from vyre_driver.ir.nodes import Node

I, J, K, ROWS, COLUMNS, DEPTH = (var(f"{name}_", DataType.U32) for name in PUSHED)  # noqa: E741 -- as kernels have it
LENGTH, TWO = buf_len(DATA), ROWS * COLUMNS
EXACT, FITS = binop(BinOp.EQ, binop(BinOp.MUL_HIGH, ROWS, COLUMNS), u32(0)), binop(BinOp.LE, TWO, LENGTH)
FLAT = EXACT.and_(FITS)
IN_ROW = J < COLUMNS
NOWHERE = u32(0xFFFF_FFFF)


def both(*conditions: Expr) -> Expr:
    found = conditions[0]
    for one in conditions[1:]:
        found = found.and_(one)
    return found


def at_most(left: Expr, right: Expr) -> Expr:
    return binop(BinOp.LE, left, right)


DEEP = both(binop(BinOp.EQ, binop(BinOp.MUL_HIGH, TWO, DEPTH), u32(0)), at_most(TWO * DEPTH, LENGTH))
PROVEN = {
    "the place of a row and a column": (both(I < ROWS, IN_ROW, FLAT), I * COLUMNS + J),
    "written the other way round": (both(FLAT, IN_ROW, I < ROWS), J + COLUMNS * I),
    "a row before, another one behind": (both(I > 0, I < ROWS, IN_ROW, FLAT), (I - 1) * COLUMNS + J),
    "a row behind": (both(I + 1 < ROWS, IN_ROW, FLAT), (I + 1) * COLUMNS + J),
    "below all but the last": (both(at_most(u32(1), ROWS), I < ROWS - 1, IN_ROW, FLAT), (I + 1) * COLUMNS + J),
    "the last at most": (both(at_most(u32(1), ROWS), IN_ROW, FLAT), minimum(I, ROWS - 1) * COLUMNS + J),
    "a remainder": (both(at_most(u32(1), ROWS), IN_ROW, FLAT), K % ROWS * COLUMNS + J),
    "below what is no more": (both(I < K, at_most(K, ROWS), IN_ROW, FLAT), I * COLUMNS + J),
    "below what is equal": (both(I < K, binop(BinOp.EQ, K, ROWS), IN_ROW, FLAT), I * COLUMNS + J),
    "three axes": (
        both(I < ROWS, IN_ROW, K < DEPTH, EXACT, DEEP),
        (I * COLUMNS + J) * DEPTH + K,
    ),
    "nowhere but inside": (FLAT, select(both(I < ROWS, IN_ROW), I * COLUMNS + J, NOWHERE)),
}
NOT_PROVEN = {
    "a row too many": (both(at_most(I, ROWS), IN_ROW, FLAT), I * COLUMNS + J),
    "a column too many": (both(I < ROWS, at_most(J, COLUMNS), FLAT), I * COLUMNS + J),
    "a product that may wrap": (both(I < ROWS, IN_ROW, FITS), I * COLUMNS + J),
    "a product that is one too large": (both(I < ROWS, IN_ROW, EXACT, at_most(TWO, LENGTH + 1)), I * COLUMNS + J),
    "a product that may be two too large": (both(I < ROWS, IN_ROW, EXACT, TWO < LENGTH + 2), I * COLUMNS + J),
    "a row before the first": (both(I < ROWS, IN_ROW, FLAT), (I - 1) * COLUMNS + J),
    "two rows before": (both(I > 0, I < ROWS, IN_ROW, FLAT), (I - 2) * COLUMNS + J),
    "a sum that may wrap": (both(I + 2 < ROWS, IN_ROW, FLAT), I * COLUMNS + J),
    "below all but the last of none": (both(I < ROWS - 1, IN_ROW, FLAT), I * COLUMNS + J),
    "no more than what is no more": (both(at_most(I, K), at_most(K, ROWS), IN_ROW, FLAT), I * COLUMNS + J),
    "two steps that leave nothing": (both(at_most(I, K), at_most(K, ROWS + 1), IN_ROW, FLAT), I * COLUMNS + J),
    "another stride": (both(I < ROWS, IN_ROW, FLAT), I * DEPTH + J),
    "a longer stride": (both(I < ROWS, J < DEPTH, FLAT), I * DEPTH + J),
    "a product whose last may be outside": (
        both(I < ROWS, IN_ROW, EXACT, at_most(u32(1), TWO), at_most(TWO - 1, LENGTH)),
        I * COLUMNS + J,
    ),
    "rows that may be empty": (both(I < ROWS, K < DEPTH, EXACT, DEEP), I * COLUMNS * DEPTH + K),
    "one that either may be": (I < ROWS, select(IN_ROW, I * COLUMNS + J, NOWHERE)),
    "either of two conditions": (both(I < ROWS, FLAT).or_(IN_ROW), I * COLUMNS + J),
}


def program(condition: Expr, node: Node) -> Program:
    pushed = [let(f"{name}_", load(BUFFERS[2 + at], 0)) for at, name in enumerate(PUSHED)]
    return Program.wrapped([DATA, OUT.with_count(1), *BUFFERS[2:]], (1, 1, 1), [*pushed, if_(condition, [node])])


@pytest.mark.parametrize("name", PROVEN)
def test_what_conditions_prove_is_not_checked(lower: Lower, name: str) -> None:
    assert is_checked(lower, *PROVEN[name]) is False


@pytest.mark.parametrize("name", NOT_PROVEN)
def test_what_they_do_not_prove_is_checked(lower: Lower, name: str) -> None:
    assert is_checked(lower, *NOT_PROVEN[name]) is True


def is_checked(lower: Lower, condition: Expr, place: Expr) -> bool:
    """Whether an index is compared with a count beside what the program compares itself."""
    loading, storing = (store(OUT, 0, load(DATA, place)), store(OUT, 0, place))
    counts = [decoded(lower(program(condition, one)).code) for one in (loading, storing)]
    with_check, without = (sum(opcode == Ins.ULessThan for opcode, _ in code) for code in counts)
    return with_check > without


@pytest.mark.parametrize("seed", range(40))
def test_whatever_is_pushed_no_index_is_out_of_range_and_the_results_are_the_references(seed: int) -> None:
    random = Random(seed)  # noqa: S311 -- for programs
    made = Maker(random).program()
    plan = BindingPlan.build(made)
    machine = Machine(emit(made, plan).code)
    for _ in range(8):
        size, pushed = numbers(random)
        data = np.arange(1, size + 1, dtype=np.uint32)
        arrays = [data, np.zeros(1, np.uint32), *(np.array([one], np.uint32) for one in pushed)]
        expected = interpret(made, arrays, grid=(1, 1, 1)).outputs
        memory = {"data": data.tolist(), "out": [0]}
        by_name = dict(zip(PUSHED, pushed, strict=True))
        machine.run(0, 1, memory, [*(by_name[one.name] for one in pushed_members(plan)), size, 1])
        assert [memory["data"], memory["out"]] == [one.tolist() for one in expected], (seed, size, pushed)
