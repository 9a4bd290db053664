"""What invocations see of each other in the reference interpreter: atomics, barriers, subgroups, copies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from reference_programs import F32, U32, WORDS, I, program, result

from vyre_driver.backends.reference import interpret, run
from vyre_driver.backends.reference.dispatch import Schedule, compile_program
from vyre_driver.backends.reference.invocations import Grid
from vyre_driver.backends.reference.memory import BufferMemory
from vyre_driver.errors import (
    DivergentBarrier,
    ExecutionFault,
    InvalidInput,
    InvalidProgram,
    Trapped,
)
from vyre_driver.ir import builders as ir
from vyre_driver.ir import nodes as nd
from vyre_driver.ir.buffers import BufferDecl
from vyre_driver.ir.operators import MemoryOrdering

if TYPE_CHECKING:
    from vyre_driver.ir.nodes import Node


def test_atomics_go_invocation_by_invocation() -> None:
    out = BufferDecl.output("out", 1, U32).with_count(6)
    body = [ir.let("one", ir.atomic_add(WORDS, 0, 1)), ir.let("two", ir.atomic_add(WORDS, 0, 10))]
    body.append(ir.store(out, I, ir.var("one", U32) * 1000 + ir.var("two", U32)))
    found = interpret(program(body, WORDS, out, size=(3, 1, 1)), [np.zeros(1, np.uint32)], grid=(2, 1, 1))
    assert found.outputs[1].tolist() == [11 * one * 1000 + 11 * one + 1 for one in range(6)]
    assert found.order_mattered


def test_an_exchange_finds_what_the_invocation_before_left() -> None:
    out = BufferDecl.output("out", 1, U32).with_count(8)
    body = [ir.store(out, I, ir.atomic_exchange(WORDS, 0, I + 100))]
    outputs = run(program(body, WORDS, out), [np.array([7], np.uint32)])
    assert [one.tolist() for one in outputs] == [[107], [7, *range(100, 107)]]


def test_a_compare_exchange_lets_one_in() -> None:
    out = BufferDecl.output("out", 1, U32).with_count(4)
    body = [ir.store(out, I, ir.atomic_compare_exchange(WORDS, I & 1, 5, I + 100))]
    outputs = run(program(body, WORDS, out, size=(4, 1, 1)), [np.array([5, 6], np.uint32)])
    assert [one.tolist() for one in outputs] == [[100, 6], [5, 6, 100, 6]]


@pytest.mark.parametrize(
    ("body", "mattered", "expected"),
    [
        ([ir.store(WORDS, I, ir.load(WORDS, I) + 1)], False, [1, 2, 3, 4]),
        ([ir.store(WORDS, I + 1, ir.load(WORDS, I) + 1)], True, [0, 1, 2, 3]),
        ([ir.store(WORDS, 3, I)], False, [0, 1, 2, 3]),
        ([ir.store(WORDS, 0, I), ir.if_(I.eq(0), [ir.store(WORDS, 0, ir.u32(50))])], True, [3, 1, 2, 3]),
        ([ir.let("x", ir.load(WORDS, 0)), ir.store(WORDS, I, ir.var("x", U32) + 9)], True, [9, 18, 18, 18]),
        ([ir.store(WORDS, I ^ 1, I)], False, [1, 0, 3, 2]),
    ],
    ids=["own", "next", "all to one", "one again", "read by all", "swapped"],
)
def test_a_result_that_depends_on_the_order_is_the_one_of_invocation_after_invocation(
    body: list[Node],
    mattered: bool,  # noqa: FBT001 -- a parameter of the test
    expected: list[int],
) -> None:
    found = interpret(program(body, WORDS, size=(4, 1, 1)), [np.arange(4, dtype=np.uint32)], grid=(1, 1, 1))
    assert (found.outputs[0].tolist(), found.order_mattered) == (expected, mattered)


def test_workgroups_that_disturb_each_other_run_one_after_the_other() -> None:
    shared = BufferDecl.workgroup("shared", 2, U32)
    body = [ir.store(shared, ir.lid_x(), ir.load(WORDS, 0)), ir.barrier(), ir.store(WORDS, ir.lid_x(), ir.load(shared, 0) + 1)]
    found = interpret(program(body, WORDS, shared, size=(2, 1, 1)), [np.array([5, 0], np.uint32)], grid=(3, 1, 1))
    assert (found.outputs[0].tolist(), found.order_mattered) == ([8, 8], True)


def test_a_barrier_orders_what_its_workgroup_does_and_nothing_else() -> None:
    body = [ir.store(WORDS, I, I + 1), ir.barrier(), ir.store(WORDS, I, ir.load(WORDS, I ^ 1))]
    found = interpret(program(body, WORDS, size=(2, 1, 1)), [np.zeros(4, np.uint32)], grid=(2, 1, 1))
    assert found.order_mattered
    body = [
        ir.store(WORDS, I, I + 1),
        ir.barrier(),
        ir.let("x", ir.load(WORDS, I ^ 1)),
        ir.barrier(),
        ir.store(WORDS, I, ir.var("x", U32)),
    ]
    found = interpret(program(body, WORDS, size=(2, 1, 1)), [np.zeros(4, np.uint32)], grid=(2, 1, 1))
    assert (found.outputs[0].tolist(), found.order_mattered) == ([2, 1, 4, 3], False)


@pytest.mark.parametrize("lockstep", [1 << 16, 0])
def test_a_barrier_of_the_grid_lets_workgroups_see_each_other(lockstep: int) -> None:
    body = [
        ir.store(WORDS, I, I + 1),
        ir.barrier(MemoryOrdering.GRID_SYNC),
        ir.let("x", ir.load(WORDS, ir.u32(5) - I)),
        ir.barrier(MemoryOrdering.GRID_SYNC),
        ir.store(WORDS, I, ir.var("x", U32)),
    ]
    found = interpret(program(body, WORDS, size=(2, 1, 1)), [np.zeros(6, np.uint32)], grid=(3, 1, 1), lockstep=lockstep)
    assert (found.outputs[0].tolist(), found.order_mattered) == ([6, 5, 4, 3, 2, 1], False)


@pytest.mark.parametrize(
    ("body", "size", "message"),
    [
        ([ir.if_(ir.lid_x() < 2, [ir.barrier()])], 4, "only some invocations of its workgroup"),
        ([ir.if_(ir.lid_x().eq(1), [ir.return_()]), ir.barrier()], 4, "only some invocations of its workgroup"),
        ([ir.if_(ir.wid_x().eq(1), [ir.barrier(MemoryOrdering.GRID_SYNC)])], 4, "grid"),
    ],
)
@pytest.mark.parametrize("lockstep", [1 << 16, 0])
def test_a_barrier_that_only_some_reach_is_a_fault(body: list[Node], size: int, message: str, lockstep: int) -> None:
    """The validator refuses such programs; this is what holds when something else made them."""
    one = program(body, WORDS, size=(size, 1, 1))
    with pytest.raises(InvalidProgram):
        run(one, [np.zeros(4, np.uint32)])
    memory = [BufferMemory(U32, np.zeros(4, np.uint32), 4, shared=False, log=None)]
    schedule = Schedule(compile_program(one), Grid((size, 1, 1), (2, 1, 1)), list(memory), 1000, lockstep)
    with pytest.raises(DivergentBarrier, match=message):
        schedule.run()


def test_a_workgroup_barrier_may_be_left_out_by_whole_workgroups() -> None:
    shared = BufferDecl.workgroup("shared", 2, U32)
    body = [
        ir.store(shared, ir.lid_x(), I + 1),
        ir.if_(ir.wid_x().eq(1), [ir.barrier(), ir.store(WORDS, I, ir.load(shared, ir.lid_x() ^ 1))]),
    ]
    assert result(body, WORDS, shared, inputs=[np.zeros(6, np.uint32)], size=(2, 1, 1), grid=(3, 1, 1)) == [0, 0, 4, 3, 0, 0]


def test_subgroups_are_32_invocations_of_a_workgroup_and_the_last_may_have_fewer() -> None:
    lane, out = ir.subgroup_local_id(), BufferDecl.output("out", 0, U32).with_count(80)
    expected = {
        ir.subgroup_add(I): [sum(range(32))] * 32 + [sum(range(32, 40))] * 8,
        ir.subgroup_ballot((I & 3).eq(1)): [0x22222222] * 32 + [0x22] * 8,
        ir.subgroup_shuffle(I, lane + 1): [*range(1, 32), 0, *range(33, 40), 0],
        lane: [*range(32), *range(8)],
        ir.subgroup_size(): [32] * 40,
    }
    for expr, values in expected.items():
        found = result([ir.store(out, I, expr)], out, size=(40, 1, 1), grid=(1, 1, 1))
        assert found[:40] == values, expr


def test_lanes_that_are_not_active_take_no_part() -> None:
    out = BufferDecl.output("out", 0, U32).with_count(32)
    sums = ir.subgroup_add(ir.u32(1)) + ir.subgroup_ballot(ir.boolean(True)) * 2 + ir.subgroup_shuffle(ir.u32(500), 0)
    body = [ir.if_((I & 1).eq(1), [ir.store(out, I, sums)])]
    assert result([*body], out, size=(32, 1, 1)) == [0, 16 + 2 * 0xAAAAAAAA - 2**32] * 16


def test_a_subgroup_sum_of_f32_goes_from_lane_0_up() -> None:
    floats = BufferDecl.read_write("floats", 0, F32)
    values = np.array([1e8, 1.0, -1e8, 1.0, *[0.0] * 28], np.float32)
    (found,) = run(program([ir.store(floats, I, ir.subgroup_add(ir.load(floats, I)))], floats, size=(32, 1, 1)), [values])
    assert found.tolist() == [1.0] * 32


def test_copies_are_done_at_the_wait_and_clipped_to_what_both_sides_have() -> None:
    source, shared = BufferDecl.read("in", 0, U32), BufferDecl.workgroup("shared", 4, U32)
    out, before = BufferDecl.output("out", 1, U32).with_count(4), ir.var("before", U32)
    body = [
        nd.AsyncLoad("in", "shared", ir.u32(4), ir.u32(100), "t"),
        ir.let(before, ir.load(shared, 0)),
        nd.AsyncWait("t"),
        nd.AsyncWait("never begun"),
        ir.store(shared, 0, ir.load(shared, 0) * 100 + before),
        nd.AsyncStore("shared", "out", ir.u32(8), ir.u32(12), "t"),
        nd.AsyncWait("t"),
    ]
    outputs = run(program(body, source, out, shared, size=(1, 1, 1)), [np.array([7, 8, 9], np.uint32)], grid=(1, 1, 1))
    assert outputs[0].tolist() == [0, 0, 800, 9]


def test_a_copy_that_is_never_waited_for_is_a_fault() -> None:
    body = [nd.AsyncLoad("in", "shared", ir.u32(0), ir.u32(4), "lost")]
    buffers = BufferDecl.read("in", 0, U32), BufferDecl.workgroup("shared", 4, U32)
    with pytest.raises(ExecutionFault, match=r"copies 'lost' were never waited for, in invocation \(0, 0, 0\)"):
        run(program(body, *buffers), [np.zeros(3, np.uint32)])


@pytest.mark.parametrize("lockstep", [1 << 16, 0])
@pytest.mark.parametrize("lanes", [1, 8, 64])
def test_subgroups_may_have_other_sizes(lanes: int, lockstep: int) -> None:
    out = BufferDecl.output("out", 0, U32).with_count(128)
    how: dict[str, int] = {"subgroup_lanes": lanes, "lockstep": lockstep}
    sums, size, lane = ir.subgroup_add(ir.u32(1)), ir.subgroup_size(), ir.subgroup_local_id()
    found = interpret(program([ir.store(out, I, sums * 1000 + size)], out, size=(128, 1, 1)), (), **how)
    assert found.outputs[0].tolist() == [lanes * 1000 + lanes] * 128
    for cond, expected in ((ir.boolean(True), (1 << min(lanes, 32)) - 1), (lane >= 32, 0), (lane.eq(0), 1)):
        ballot = program([ir.store(out, I, ir.subgroup_ballot(cond))], out, size=(128, 1, 1))
        assert set(interpret(ballot, (), **how).outputs[0].tolist()) == {expected}


@pytest.mark.parametrize("lanes", [0, 3, 256])
def test_subgroups_of_other_than_a_power_of_two_are_refused(lanes: int) -> None:
    with pytest.raises(InvalidInput, match=f"subgroups of {lanes} lanes"):
        interpret(program([]), (), subgroup_lanes=lanes)


@pytest.mark.parametrize(
    ("value", "index", "met"), [(I, ir.u32(3), True), (ir.u32(9), ir.u32(3), False), (I, I, False), (I, I & 6, True)]
)
def test_it_is_told_when_different_values_are_stored_to_one_element(value: Any, index: Any, met: bool) -> None:  # noqa: ANN401, FBT001 -- parameters of the test
    found = interpret(program([ir.store(WORDS, index, value)], WORDS), [np.zeros(8, np.uint32)])
    assert (found.order_mattered, found.stores_met) == (False, met)


def test_one_nan_stored_by_all_is_one_value() -> None:
    floats = BufferDecl.read_write("floats", 0, F32)
    found = interpret(program([ir.store(floats, 0, ir.f32(float("nan")))], floats), [np.zeros(1, np.float32)])
    assert not found.stores_met


def test_a_fault_in_one_workgroup_leaves_the_others_work_undone_only_in_what_is_raised() -> None:
    """A program that faults for some input runs right for another, with the same script."""
    body = [ir.if_(ir.load(WORDS, I).eq(9), [ir.trap(I, "nine")]), ir.store(WORDS, I, I)]
    with pytest.raises(Trapped, match="address 37"):
        run(program(body, WORDS), [np.array([9 if place in {37, 60} else 1 for place in range(64)], np.uint32)])
    assert result(body, WORDS, inputs=[np.ones(64, np.uint32)]) == list(range(64))
