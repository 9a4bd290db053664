"""Loops that end when their condition first fails: which they are, what they become."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from reference_programs import U32, WORDS, I, program, result
from spirv_machine import Machine, decoded

from vyre_driver.backends.reference import interpret
from vyre_driver.errors import StepBudgetExceeded
from vyre_driver.ir import builders as ir
from vyre_driver.ir.arithmetic import OpaqueExpr
from vyre_driver.ir.buffers import BufferDecl
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.loop_ends import ending_if, is_uncounted
from vyre_driver.ir.operators import BinOp, OpaqueOp
from vyre_driver.ir.program import Program
from vyre_driver.spirv.opcodes import LOOP_CONTROL_UNROLL, Ins

if TYPE_CHECKING:
    from conftest import Lower

    from vyre_driver.ir.arithmetic import Expr
    from vyre_driver.ir.nodes import Node

ALL = 2**32 - 1
left, k, n = ir.var("left", U32), ir.var("k", U32), ir.var("n", U32)
SHORTER = ir.assign("left", left - 1)

STAYS: dict[str, Expr] = {
    "a variable": left,
    "a comparison": left > 0,
    "ids and lengths": (ir.gid_x() + ir.lid_x() + ir.wid_y() < ir.buf_len(WORDS)).and_(left > 0),
    "casts and selects": ir.select(left > 3, ir.cast(DataType.Bool, left), ir.boolean(False)),
    "a sum of floats": ir.fma(1.0, 2.0, ir.cast(DataType.F32, left)) < 3.0,
    "a wide literal": ir.cast(DataType.U64, left) < ir.u64(7),
    "an operator of an extension": ir.binop(OpaqueOp(0x8000_0001), left, ir.u32(0)),
    "a constant": ir.boolean(True),
}
CHANGES: dict[str, Expr] = {
    "the loop's variable": k < 5,
    "a load": ir.load(WORDS, 0) < 5,
    "an atomic": ir.atomic_add(WORDS, 0, 1) < 5,
    "a call": ir.call("twice", left) < ir.u32(5),
    "a vote": ir.subgroup_ballot(left > 0) > 0,
    "a lane": ir.subgroup_local_id() < left,
    "an expression of an extension": OpaqueExpr("kind", b""),
    "a load in an index of a load": (left > 0).and_(ir.select(left > 1, ir.load(WORDS, left), ir.u32(1)) > 0),
}


@pytest.mark.parametrize("name", STAYS)
def test_a_loop_ends_by_what_only_its_body_changes(name: str) -> None:
    one = ir.if_(STAYS[name], [SHORTER])
    assert ending_if(ir.loop("k", 0, 9, [one]), ()) is one


@pytest.mark.parametrize("name", CHANGES)
def test_no_loop_ends_by_what_may_hold_again_in_a_later_turn(name: str) -> None:
    assert ending_if(ir.loop("k", 0, 9, [ir.if_(CHANGES[name], [SHORTER])]), ()) is None


@pytest.mark.parametrize(("index", "ends"), [(ir.u32(0), True), (left, True), (k, False), (ir.load(WORDS, 1), True)])
def test_a_loop_ends_by_what_is_pushed_at_an_index_that_stays(index: Expr, *, ends: bool) -> None:
    made = ir.loop("k", 0, 9, [ir.if_(left < ir.load(WORDS, index), [SHORTER])])
    assert (ending_if(made, {"words"}) is not None, ending_if(made, {"others"})) == (ends, None)


@pytest.mark.parametrize(
    "body",
    [[], [SHORTER], [ir.if_(left > 0, [SHORTER]), SHORTER], [ir.if_(left > 0, [SHORTER], [SHORTER])], [ir.block(SHORTER)]],
)
def test_no_loop_ends_by_an_if_that_is_not_all_of_its_body(body: list[Node]) -> None:
    assert ending_if(ir.loop("k", 0, 9, body), ()) is None


ONE = WORDS.with_count(1)  # whose only element needs no check
WHILE = ir.if_(left > 0, [SHORTER])


@pytest.mark.parametrize(
    ("made", "uncounted"),
    [
        (ir.loop("k", 0, ALL, [WHILE]), True),
        (ir.loop("k", 1, ALL, [WHILE]), False),
        (ir.loop("k", 0, ALL - 1, [WHILE]), False),
        (ir.loop("k", 0, n, [WHILE]), False),
        (ir.loop("k", 0, ALL, [ir.if_(left > 0, [ir.block(ir.if_(left < 5, [ir.assign("left", k)]))])]), False),
        (ir.forever([WHILE]), True),
    ],
)
def test_a_loop_over_all_u32_whose_variable_nobody_reads_is_not_counted(made: ir.Loop, *, uncounted: bool) -> None:
    assert is_uncounted(made) is uncounted


def counted(stop: int, *body: Node, first: int = 5) -> Program:
    """A loop up to ``stop`` while something is left, and how much was added in it."""
    nodes = [
        *(ir.let(left, first), ir.let(n, 0)),
        ir.loop("k", 0, stop, [ir.if_(left > 0, [SHORTER, ir.assign("n", n + 1), *body])]),
        ir.store(ONE, 0, n),
    ]
    return Program.wrapped([ONE], (1, 1, 1), nodes)


def control_flow(code: bytes) -> list[int]:
    """How many loops, selections, branches by a condition, and counters the code has."""
    opcodes = [opcode for opcode, _ in decoded(code)]
    return [opcodes.count(one) for one in (Ins.LoopMerge, Ins.SelectionMerge, Ins.BranchConditional, Ins.Phi)]


@pytest.mark.parametrize(
    ("made", "control", "found"),
    [
        (counted(ALL), [1, 0, 1, 0], 5),
        (counted(ALL, ir.assign("n", n + k)), [1, 0, 2, 1], 15),
        (counted(3), [1, 0, 2, 1], 3),
        (counted(1 << 31), [1, 0, 2, 1], 5),
        (counted(ALL, first=0), [1, 0, 1, 0], 0),
        (
            counted(ALL, ir.forever([ir.if_((left % 2).eq(1), [ir.assign("left", left - 1), ir.assign("n", n + 9)])])),
            [2, 0, 2, 0],
            21,
        ),
    ],
)
def test_such_a_loop_is_lowered_without_idle_turns_and_counts_only_what_it_has_to(
    lower: Lower, made: Program, control: list[int], found: int
) -> None:
    code = lower(made).code
    words = [77]
    Machine(code).run(0, 1, {"words": words}, [1])
    assert (control_flow(code), words) == (control, [found])


def test_what_the_condition_compares_is_known_in_the_body(lower: Lower) -> None:
    """The store needs no check of its own: the condition has compared its index with the length."""
    place = ir.var("place", U32)
    stored = [ir.store(WORDS, place, 1), ir.assign("place", place + 1)]
    made = Program.wrapped([WORDS], (1, 1, 1), [ir.let(place, 0), ir.forever([ir.if_(place < ir.buf_len(WORDS), stored)])])
    opcodes = [opcode for opcode, _ in decoded(lower(made).code)]
    assert (opcodes.count(Ins.ULessThan), opcodes.count(Ins.BranchConditional)) == (1, 1)


def test_a_loop_that_does_not_end_by_its_condition_keeps_its_turns(lower: Lower) -> None:
    made = Program.wrapped([ONE], (1, 1, 1), [ir.loop("k", 0, 9, [ir.if_(k < 5, [ir.store(ONE, 0, k)])])])
    assert control_flow(lower(made).code) == [1, 1, 2, 1]


OWN = [ir.let(left, I * 2), ir.let(n, 0)]
ONE_EACH = [SHORTER, ir.assign("n", n + 1)]


WORK = [ir.assign("n", n + 1)]


def unrolled(code: bytes) -> list[bool]:
    """Whether each loop of the code is to be unrolled."""
    return [bool(operands[2] & LOOP_CONTROL_UNROLL) for opcode, operands in decoded(code) if opcode == Ins.LoopMerge]


@pytest.mark.parametrize(
    ("node", "hints"),
    [
        (ir.loop("k", 0, 16, WORK), [True]),
        (ir.loop("k", 100, 116, WORK), [True]),
        (ir.loop("k", 0, 17, WORK), [False]),
        (ir.loop("k", 4, 4, WORK), [False]),
        (ir.loop("k", 5, 4, WORK), [False]),
        (ir.loop("k", 0, n, WORK), [False]),
        (ir.loop("k", 0, ir.buf_len(ONE), WORK), [False]),
        (ir.loop("k", 0, 4, [ir.if_(left > 0, WORK)]), [True]),
        (ir.forever([ir.if_(left > 0, [SHORTER])]), [False]),
        (ir.loop("k", 0, 8, [ir.if_(k < 5, [ir.block(ir.loop("m", 0, 8, WORK))])]), [True, True]),
        (ir.loop("k", 0, 8, [ir.loop("m", 0, 9, WORK)]), [False, True]),
        (ir.loop("k", 0, 4, [ir.loop("m", 0, n, WORK)]), [False, False]),
        (ir.loop("k", 0, 4, [ir.loop("m", 0, 16, WORK), ir.loop("o", 0, 2, WORK)]), [True, True, True]),
    ],
)
def test_a_loop_of_few_turns_by_literals_is_to_be_unrolled(lower: Lower, node: Node, hints: list[bool]) -> None:
    made = Program.wrapped([ONE], (1, 1, 1), [ir.let(left, 1), ir.let(n, 0), node, ir.store(ONE, 0, n)])
    assert unrolled(lower(made).code) == hints


@pytest.mark.parametrize("lockstep", [0, 1 << 16])
@pytest.mark.parametrize(
    ("turns", "each"),
    [
        (ir.forever([ir.if_(left > 0, ONE_EACH)]), [0, 2, 4, 6, 8, 10, 12, 14]),
        (ir.loop("k", 0, ALL, [ir.if_(left > 0, [*ONE_EACH, ir.assign("n", n + k)])]), [0, 3, 10, 21, 36, 55, 78, 105]),
        (ir.loop("k", 0, 1000000, [ir.if_(left > 0, ONE_EACH)]), [0, 2, 4, 6, 8, 10, 12, 14]),
        (ir.loop("k", 0, 5, [ir.if_(left > 0, ONE_EACH)]), [0, 2, 4, 5, 5, 5, 5, 5]),
        (ir.loop("k", I, I + 3, [ir.if_(left > 0, [*ONE_EACH, ir.assign("n", n + k)])]), [0, 5, 12, 15, 18, 21, 24, 27]),
        (ir.loop("k", I, ALL, [ir.if_(left > 2, [*ONE_EACH, ir.if_(I.eq(6), [ir.return_()])])]), [0, 0, 2, 4, 6, 8, 0, 12]),
    ],
)
def test_each_invocation_leaves_when_its_own_condition_fails(turns: Node, each: list[int], lockstep: int) -> None:
    found = interpret(program([*OWN, turns, ir.store("out", I, n)]), (), lockstep=lockstep)
    assert found.outputs[0].tolist() == each


@pytest.mark.parametrize("lockstep", [0, 1 << 16])
def test_the_step_budget_counts_the_turns_that_ran(lockstep: int) -> None:
    """A region, two lets, a loop, a store; three turns with a condition and two statements, and one that fails."""
    nodes = [ir.let(left, 3), ir.let(n, 0), ir.forever([ir.if_(left > 0, ONE_EACH)]), ir.store("out", I, n)]
    steps = 5 + 3 * 4 + 2
    assert interpret(program(nodes), (), step_budget=steps, lockstep=lockstep).outputs[0].tolist() == [3] * 8
    with pytest.raises(StepBudgetExceeded, match="18 statements and turns"):
        interpret(program(nodes), (), step_budget=steps - 1, lockstep=lockstep)


def test_a_loop_has_more_turns_than_llvmpipe_would_do() -> None:
    """Which leaves every loop after 65,535 (docs/lowering.md), so that no device test can ask this."""
    turns = ir.forever([ir.if_(left < 70_000 + I, [ir.assign("left", left + 1)])])
    assert result([ir.let(left, 0), turns, ir.store("out", I, left)]) == [70_000 + place for place in range(8)]


def test_a_loop_whose_condition_never_fails_runs_into_the_budget() -> None:
    with pytest.raises(StepBudgetExceeded):
        result([ir.forever([ir.if_(I < 3, [])])], step_budget=100)


def test_invocations_that_left_wait_at_no_barrier_and_go_on_after_the_loop() -> None:
    shared = BufferDecl.workgroup("shared", 8, U32)
    out = BufferDecl.output("out", 0, U32).with_count(8)
    nodes = [
        *OWN,
        ir.forever([ir.if_(left > 0, [SHORTER, ir.assign("n", n + 1)])]),
        *(ir.store(shared, I, n), ir.barrier(), ir.store(out, I, ir.load(shared, ir.binop(BinOp.BIT_XOR, I, ir.u32(7))))),
    ]
    assert result(nodes, out, shared) == [14, 12, 10, 8, 6, 4, 2, 0]


def test_a_barrier_in_such_a_loop_is_reached_by_those_that_are_left_in_it() -> None:
    shared = BufferDecl.workgroup("shared", 8, U32)
    out = BufferDecl.output("out", 0, U32).with_count(8)
    halved = ir.if_(left > I, [ir.store(shared, I, ir.load(shared, I) + ir.load(shared, I + left))])
    nodes = [
        *(ir.store(shared, I, I + 1), ir.let(left, 4), ir.barrier()),
        ir.forever([ir.if_(left > 0, [halved, ir.barrier(), ir.assign("left", left / 2)])]),
        ir.store(out, I, ir.load(shared, 0)),
    ]
    assert result(nodes, out, shared) == [36] * 8
