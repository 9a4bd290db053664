"""Which programs are watched for loops that a driver cuts, and what the code of others is: the same as before."""

from __future__ import annotations

import math

import pytest

from vyre_driver.binding.plan import BindingPlan
from vyre_driver.ir import BufferDecl, DataType, Program, load, loop, store
from vyre_driver.ir.arithmetic import LitF32, LitU32
from vyre_driver.ir.expressions import Atomic
from vyre_driver.ir.nodes import Let
from vyre_driver.ir.operators import AtomicOp, MemoryOrdering
from vyre_driver.lowering.emit.entry import emit
from vyre_driver.lowering.emit.survey import most_turns
from vyre_driver.lowering.emit.target import LoweringTarget
from vyre_driver.spirv.validator import check_valid
from vyre_driver.vulkan.version import API_1_2

OUT = BufferDecl.read_write("out", 0, DataType.U32).with_count(4)
SUMS = BufferDecl.read_write("sums", 1, DataType.F32).with_count(4)


def program(*nodes: object) -> Program:
    return Program.wrapped([OUT, SUMS], (4, 1, 1), nodes)  # type: ignore[arg-type]


COUNTED = program(loop("i", 0, load(OUT, LitU32(0)), [store(OUT, 1, 1)]))
ADDED = Atomic(AtomicOp.ADD, MemoryOrdering.RELAXED, "sums", LitU32(0), None, LitF32(0x3F80_0000))


@pytest.mark.parametrize(
    ("nodes", "turns"),
    [
        ([store(OUT, 0, 1)], 0),
        ([loop("i", 0, 1000, [store(OUT, 0, 1)])], 1001),
        ([loop("i", 0, 9, [loop("j", 0, 9, [store(OUT, 0, 1)])])], 10 * 11),
        ([loop("i", 0, load(OUT, LitU32(0)), [store(OUT, 1, 1)])], math.inf),
        ([store(OUT, 0, load(OUT, LitU32(1)) % 7)], 72),
        ([Let("before", ADDED)], math.inf),
    ],
)
def test_the_most_turns_of_a_program_are_known_where_its_loops_have_literal_bounds(nodes: list[object], turns: float) -> None:
    assert most_turns(program(*nodes)) == turns


def test_what_is_zeroed_by_loops_counts() -> None:
    made = [BufferDecl.workgroup("part", 100, DataType.U32), BufferDecl.local("own", 3000, DataType.U32)]
    zeroed = Program.wrapped([OUT, *made], (4, 1, 1), [store(OUT, 0, 1)])
    assert most_turns(zeroed) == 101 + 3001


def test_a_target_without_a_limit_has_no_option_for_it_and_another_limit_is_another_option() -> None:
    options = [LoweringTarget(loop_limit=limit).options() for limit in (0, 100, 101)]
    assert [one.get("loop_limit") for one in options] == [None, 100, 101]
    assert options[0] == LoweringTarget().options()


@pytest.mark.parametrize("watched", [COUNTED, program(Let("before", ADDED))])
def test_watched_code_is_valid_and_binds_one_word_more(watched: Program) -> None:
    plan = BindingPlan.build(watched)
    plain, code = (emit(watched, plan, (), LoweringTarget(loop_limit=limit)).code for limit in (0, 65_535))
    assert b"loop_cuts" in code
    assert b"loop_cuts" not in plain
    check_valid(code, (), API_1_2, "the watched program")
