"""Which workgroup memory is zeroed: what may be read before all of it was written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from spirv_machine import decoded

from vyre_driver.ir import (
    AtomicOp,
    BufferDecl,
    DataType,
    Program,
    atomic,
    barrier,
    if_,
    let,
    lid_x,
    lid_y,
    load,
    loop,
    store,
    u32,
)
from vyre_driver.lowering.emit.survey import read_before_written
from vyre_driver.spirv.opcodes import Ins

if TYPE_CHECKING:
    from conftest import Lower

    from vyre_driver.ir.nodes import Node

OUT, TILE = BufferDecl.read_write("out", 0, DataType.U32), BufferDecl.workgroup("tile", 64, DataType.U32)
X = lid_x()
FILL, READ = store(TILE, X, u32(1)), store(OUT, X, load(TILE, u32(63) - X))

CASES: dict[str, tuple[list[Node], bool]] = {
    "filled, and read behind a barrier": ([FILL, barrier(), READ], False),
    "filled in each turn": ([loop("k", 0, 3, [FILL, barrier(), READ, barrier()])], False),
    "filled inside of a condition with the barrier": ([if_(load(OUT, 0) > 3, [FILL, barrier(), READ])], False),
    "read behind no barrier": ([FILL, READ], True),
    "read before": ([READ, FILL, barrier()], True),
    "read in the first turn": ([loop("k", 0, 3, [READ, barrier(), FILL, barrier()])], True),
    "filled by some": ([if_(X < 9, [FILL]), barrier(), READ], True),
    "filled in a loop that may not turn": ([loop("k", 0, load(OUT, 0), [FILL]), barrier(), READ], True),
    "read where it may not have been filled": ([if_(load(OUT, 0) > 3, [FILL, barrier()]), READ], True),
    "filled elsewhere": ([store(TILE, X + 1, u32(1)), barrier(), READ], True),
    "changed by an atomic": ([let("old", atomic(AtomicOp.ADD, TILE, X, u32(1))), barrier(), FILL, barrier(), READ], True),
}


@pytest.mark.parametrize("name", CASES)
def test_what_may_be_read_before_it_is_written_is_zeroed(name: str) -> None:
    nodes, is_early = CASES[name]
    program = Program.wrapped([OUT, TILE], (64, 1, 1), nodes)
    assert ("tile" in read_before_written(program, {"tile": 64})) is is_early


def test_a_tile_of_two_axes_is_filled_by_place_and_width_and_no_other() -> None:
    def early(size: tuple[int, int, int], width: int, count: int) -> bool:
        program = Program.wrapped([OUT, TILE], size, [store(TILE, lid_y() * width + X, u32(1)), barrier(), READ])
        return bool(read_before_written(program, {"tile": count}))

    cases = [((8, 8, 1), 8, 64), ((8, 8, 1), 9, 64), ((8, 8, 1), 8, 72), ((4, 8, 2), 4, 64), ((16, 4, 1), 16, 64)]
    assert [early(*one) for one in cases] == [False, True, True, True, False]


@pytest.mark.parametrize(
    ("size", "loops"), [((64, 1, 1), 0), ((8, 8, 1), 0), ((4, 4, 4), 0), ((63, 1, 1), 1), ((8, 4, 1), 1), ((65, 1, 1), 1)]
)
def test_memory_with_an_element_for_each_invocation_is_zeroed_without_a_loop(
    lower: Lower, size: tuple[int, int, int], loops: int
) -> None:
    code = decoded(lower(Program.wrapped([OUT, TILE], size, [READ])).code)
    assert (sum(opcode == Ins.LoopMerge for opcode, _ in code), Ins.ControlBarrier in dict(code)) == (loops, True)
