"""The reference interpreter beside hand-written and random programs: faults, refusals, sizes, and what invocations see."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from reference_programs import F32, I32, OUT, U32, WORDS, I, program, result

from vyre_driver.backends.reference import BACKEND_ID, interpret, run
from vyre_driver.backends.reference.dispatch import Schedule, compile_program
from vyre_driver.backends.reference.invocations import Grid
from vyre_driver.backends.reference.memory import BufferMemory
from vyre_driver.errors import (
    DivergentBarrier,
    ExecutionFault,
    InvalidInput,
    InvalidProgram,
    InvalidSpecialization,
    LimitExceeded,
    StepBudgetExceeded,
    Trapped,
    UnsupportedFeature,
)
from vyre_driver.ir import builders as ir
from vyre_driver.ir import nodes as nd
from vyre_driver.ir.arithmetic import Binary, OpaqueExpr, Unary
from vyre_driver.ir.buffers import BufferAccess, BufferDecl, MemoryKind
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.operators import AtomicOp, BinOp, CollectiveOp, MemoryOrdering, OpaqueOp
from vyre_driver.ir.predicates import AtLeast
from vyre_driver.specialization import SpecMap, SpecValue

if TYPE_CHECKING:
    from vyre_driver.ir.nodes import Node


def test_the_backend_has_the_name_it_is_asked_for_by() -> None:
    assert BACKEND_ID == "cpu-ref"


def test_a_trap_names_tag_address_invocation_and_statement() -> None:
    with pytest.raises(Trapped, match=r"trapped with 'why' at address 50, in invocation \(5, 0, 0\)") as caught:
        run(program([ir.if_(I >= 5, [ir.trap(I * 10, "why")])]), ())
    assert (caught.value.code, caught.value.context) == (
        2011,
        {"invocation": (5, 0, 0), "address": 50, "tag": "why", "path": "entry[0].body[0].then[0]"},
    )


def test_of_several_faults_the_first_in_the_order_of_invocations_is_raised() -> None:
    """In lockstep the trap comes first; one after the other, invocation 2 divides by zero before 3 traps."""
    signed = BufferDecl.read_write("signed", 0, I32)
    body = [
        ir.if_(I.eq(3), [ir.trap(0, "late")]),
        ir.store(signed, I, ir.i32(10) / (ir.cast(I32, I) - 2)),
    ]
    with pytest.raises(ExecutionFault, match=r"quotient of 10 by 0 does not exist, in invocation \(2, 0, 0\)") as caught:
        run(program(body, signed), [np.zeros(8, np.int32)])
    assert (caught.value.code, caught.value.context["path"]) == (2010, "entry[0].body[1]")


@pytest.mark.parametrize(("a", "b"), [(1, 0), (0, 0), (-(2**31), -1)])
@pytest.mark.parametrize("op", [BinOp.DIV, BinOp.MOD])
def test_an_i32_division_without_result_is_a_fault(op: BinOp, a: int, b: int) -> None:
    signed = BufferDecl.read_write("signed", 0, I32)
    body = [ir.store(signed, 0, ir.binop(op, ir.load(signed, 0), ir.load(signed, 1)))]
    with pytest.raises(ExecutionFault, match=f"of {a} by {b} does not exist"):
        run(program(body, signed, size=(1, 1, 1)), [np.array([a, b], np.int32)])


def test_an_i32_division_that_no_active_invocation_does_is_no_fault() -> None:
    signed = BufferDecl.read_write("signed", 0, I32)
    divisor = ir.load(signed, I)
    body = [ir.if_(divisor.ne(0), [ir.store(signed, I, ir.i32(-7) / divisor)])]
    assert run(program(body, signed), [np.array([0, 2, -2, 0, 7, 0, 0, 1], np.int32)])[0].tolist() == [
        0,
        -3,
        3,
        0,
        -1,
        0,
        0,
        -7,
    ]


@pytest.mark.parametrize("bound", [9, 10])
def test_the_step_budget_counts_statements_and_turns_of_one_invocation(bound: int) -> None:
    """The region, the loop, then each turn: itself and one statement."""
    body = program([ir.loop("k", 0, I, [ir.let("x", ir.u32(1))])], size=(5, 1, 1))
    if bound == 10:
        run(body, (), grid=(1, 1, 1), step_budget=bound)
        return
    with pytest.raises(StepBudgetExceeded, match="more than 9 statements") as caught:
        run(body, (), grid=(1, 1, 1), step_budget=bound)
    where = {"limit": 9, "invocation": (4, 0, 0), "path": "entry[0].body[0].body[0]"}
    assert (caught.value.code, caught.value.context) == (2012, where)


def test_a_loop_that_never_ends_is_stopped() -> None:
    with pytest.raises(StepBudgetExceeded, match="1000"):
        run(program([ir.forever([ir.let("x", ir.u32(1))])]), (), step_budget=1000)


UNSUPPORTED: list[tuple[str, Node]] = [
    ("Resume", nd.Resume("tag")),
    ("IndirectDispatch", nd.IndirectDispatch("out", 0)),
    ("AllReduce", nd.AllReduce("out", CollectiveOp.SUM)),
    ("AllGather", nd.AllGather("out", "out")),
    ("ReduceScatter", nd.ReduceScatter("out", "out", CollectiveOp.MAX)),
    ("Broadcast", nd.Broadcast("out", 0)),
    ("'some.node'", nd.OpaqueNode("some.node", b"")),
    ("Call", ir.let("x", ir.call("f"))),
    ("the opaque expression 'some.expr'", ir.let("x", OpaqueExpr("some.expr", b""))),
    ("the opaque operator 0x80000001", ir.let("x", Binary(OpaqueOp(0x80000001), I, I))),
    ("the opaque operator 0x80000002", ir.let("x", Unary(OpaqueOp(0x80000002), ir.call("f")))),
    ("atomic fetch_nand", ir.let("x", ir.atomic(AtomicOp.FETCH_NAND, "out", 0, 1))),
    (
        "atomic compare_exchange_weak",
        ir.let("x", ir.atomic(AtomicOp.COMPARE_EXCHANGE_WEAK, "out", 0, 1, expected=2)),
    ),
    ("LT of vec2<u32>", ir.let("x", ir.cast(DataType.Vec2U32, I) < ir.cast(DataType.Vec2U32, I))),
]


@pytest.mark.parametrize(("what", "node"), UNSUPPORTED, ids=[what for what, _ in UNSUPPORTED])
def test_what_is_not_run_is_refused_by_name(what: str, node: Node) -> None:
    with pytest.raises(UnsupportedFeature) as caught:
        run(program([node]), ())
    assert (what.lower() in str(caught.value).lower(), caught.value.code) == (True, 1002)


@pytest.mark.parametrize("dtype", [DataType.I4, DataType.Tensor])
def test_elements_that_are_no_whole_bytes_are_refused(dtype: DataType) -> None:
    with pytest.raises(UnsupportedFeature, match=f"no elements of type {dtype}"):
        run(program([], BufferDecl.read("in", 0, dtype)), [b"12345678"])


def test_types_without_arithmetic_are_moved_by_their_bits() -> None:
    for dtype in (DataType.F16, DataType.BF16, DataType.F64, DataType.F8E4M3, DataType.handle(3), DataType.vec(F32, 3)):
        source, out = BufferDecl.read("in", 0, dtype), BufferDecl.output("out", 1, dtype).with_count(3)
        data = bytes(range(200, 200 + 2 * (dtype.size_bytes or 0)))
        body = [ir.store(out, I, ir.select(I < 1, ir.load(source, I), ir.load(source, I)))]
        (found,) = run(program(body, source, out), [data])
        assert found.tobytes() == data.ljust(3 * (dtype.size_bytes or 0), b"\0")


def test_an_f32_that_is_only_moved_keeps_its_bits_and_one_that_is_computed_with_does_not() -> None:
    floats, moved, made = (BufferDecl.read_write(name, place, F32) for place, name in enumerate(("in", "moved", "made")))
    words = np.array([0xFFC12345, 0x7F800001, 0x80000001, 0x007FFFFF], np.uint32)
    body = [ir.store(moved, I, ir.load(floats, I)), ir.store(made, I, -ir.load(floats, I))]
    given = [words.view(np.float32), np.zeros(4, np.float32), np.zeros(4, np.float32)]
    outputs = run(program(body, floats, moved, made), given)
    assert [one.view(np.uint32).tolist() for one in outputs[1:]] == [words.tolist(), [0x7FC00000, 0x7FC00000, 0, 0x80000000]]


def test_a_part_that_stands_twice_is_evaluated_as_often_as_it_has_effects() -> None:
    twice = ir.atomic_add(WORDS, 0, 1)
    out = BufferDecl.output("out", 1, U32).with_count(1)
    (words, out_words) = run(
        program([ir.store(out, 0, twice * 100 + twice)], WORDS, out, size=(1, 1, 1)), [np.array([5], np.uint32)]
    )
    assert (words.tolist(), out_words.tolist()) == ([7], [506])


def test_parts_shared_thousands_of_times_cost_once() -> None:
    grown = ir.load(WORDS, 0)
    for _ in range(100):
        grown = grown + grown
    assert result([ir.store(WORDS, 0, grown + 1)], WORDS, inputs=[np.array([3], np.uint32)], size=(1, 1, 1)) == [1]


def test_shared_parts_that_have_effects_run_out_of_budget_and_not_of_time() -> None:
    grown = ir.atomic_add(WORDS, 0, 1)
    for _ in range(100):
        grown = grown + grown
    with pytest.raises(StepBudgetExceeded):
        run(program([ir.let("x", grown)], WORDS), [np.zeros(1, np.uint32)])


def test_bytes_are_loaded_to_the_end_and_stored_as_far_as_there_is_room() -> None:
    source = BufferDecl.read("in", 0, DataType.Bytes).with_bytes_extraction(True)
    out = BufferDecl.read_write("out", 1, DataType.Bytes).with_bytes_extraction(True)
    words = BufferDecl.read_write("words", 2, U32)
    body = [
        ir.store(out, 2, ir.load(source, 3)),
        ir.store(out, 9, ir.u32(0x44434241)),
        ir.store(words, 0, ir.load(source, 4)),
        ir.store(words, 1, ir.load(source, 99)),
        ir.store(words, 2, ir.buf_len(source)),
    ]
    given = [b"abcdefg", b"..........", np.array([1, 1, 1], np.uint32)]
    outputs = run(program(body, source, out, words, size=(1, 1, 1)), given, grid=(1, 1, 1))
    assert (outputs[0].tobytes(), outputs[1].tolist()) == (b"..defg...A", [int.from_bytes(b"efg\0", "little"), 0, 7])


def test_outputs_come_in_binding_order_in_the_shape_they_were_given_and_cut_to_their_range() -> None:
    first, last = BufferDecl.read_write("first", 9, F32), BufferDecl.read_write("last", 4, U32).with_output_byte_range((4, 12))
    given = [np.arange(4, dtype=np.uint32), np.ones((2, 2), np.float32)]
    outputs = run(program([ir.store(first, 3, ir.f32(5.0))], first, last, size=(1, 1, 1)), given)
    assert [one.tolist() for one in outputs] == [[1, 2], [[1.0, 1.0], [1.0, 5.0]]]
    assert given[1].tolist() == [[1.0, 1.0], [1.0, 1.0]]


def test_the_count_of_an_output_may_be_given_and_decides_the_grid() -> None:
    out = BufferDecl.output("out", 0, U32)
    found = interpret(program([ir.store(out, I, ir.buf_len(out))], out), (), element_counts={"out": 17})
    assert (found.outputs[0].tolist(), found.grid) == ([17] * 17, (3, 1, 1))
    with pytest.raises(InvalidInput, match="takes 1 array"):
        run(program([], out), ())


def test_a_shape_predicate_is_asked_when_the_count_is_known() -> None:
    words = WORDS.with_shape_predicate(AtLeast(4))
    assert len(run(program([], words), [np.zeros(4, np.uint32)])) == 1
    with pytest.raises(InvalidProgram, match=r"^buffer 'words' has 3 elements, and its shape predicate is AtLeast\(n=4\)"):
        run(program([], words), [np.zeros(3, np.uint32)])


@pytest.mark.parametrize("grid", [(0, 1, 1), (1, 1), (1, 1, 2**32), ("a", 1, 1)])
def test_a_grid_that_cannot_be_is_refused(grid: Any) -> None:  # noqa: ANN401 -- wrong on purpose
    with pytest.raises(InvalidInput, match="the grid is"):
        run(program([]), (), grid=grid)


def test_a_let_of_a_literal_is_specialized_by_its_name() -> None:
    lets = [ir.let("SCALE", ir.u32(3)), ir.let("LEAST", ir.i32(-5)), ir.let("NEGATE", ir.boolean(False))]
    signed = ir.var("LEAST", I32) * ir.cast(I32, ir.var("SCALE", U32))
    body = [*lets, ir.store(OUT, I, ir.select(ir.var("NEGATE", DataType.Bool), ir.u32(0), ir.cast(U32, signed)))]
    found = [
        result(body, constants=specs)[0]
        for specs in (None, {}, {"SCALE": 4}, {"LEAST": -(2**31)}, {"NEGATE": True}, SpecMap({"SCALE": SpecValue.u32(1)}))
    ]
    assert found == [2**32 - 15, 2**32 - 15, 2**32 - 20, 2**31, 0, 2**32 - 5]
    floats = BufferDecl.read_write("floats", 0, F32)
    node = [ir.let("x", ir.f32(1.0)), ir.store(floats, I, ir.var("x", F32))]
    assert run(program(node, floats), [np.zeros(1, np.float32)], constants={"x": 2.5})[0].tolist() == [2.5]


def test_what_cannot_be_specialized_is_refused() -> None:
    with pytest.raises(InvalidSpecialization, match="cannot be specialized by 'TILE': it has no such let"):
        run(program([]), (), constants={"TILE": 4})
    with pytest.raises(InvalidSpecialization, match="specialization constant 'x' is a u32"):
        run(program([ir.let("x", ir.u32(1))]), (), constants={"x": 1.5})


def test_workgroup_memory_has_a_limit() -> None:
    with pytest.raises(LimitExceeded) as caught:
        run(program([], OUT, BufferDecl.workgroup("shared", (64 << 20) // 4 + 1, U32)), ())
    assert caught.value.context == {"value": (64 << 20) + 4, "limit": 64 << 20}


def test_a_buffer_of_kind_shared_is_workgroup_memory_whatever_its_access() -> None:
    shared = BufferDecl("shared", 5, BufferAccess.READ_WRITE, MemoryKind.SHARED, U32, 4)
    body = [ir.store(shared, ir.lid_x(), ir.load(shared, ir.lid_x()) + 1), ir.store(OUT, I, ir.load(shared, ir.lid_x()))]
    assert result(body, OUT, shared, size=(4, 1, 1)) == [1] * 8


def test_a_program_that_the_validator_refuses_is_not_run() -> None:
    with pytest.raises(InvalidProgram, match="R010"):
        run(program([ir.store("nowhere", 0, ir.u32(1))]), ())


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
