"""What the reference interpreter does where neither the hand-written cases nor random programs go: faults, refusals, sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from reference_programs import F32, I32, OUT, U32, WORDS, I, program, result

from vyre_driver.backends.reference import BACKEND_ID, interpret, run
from vyre_driver.errors import (
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
from vyre_driver.ir.operators import AtomicOp, BinOp, CollectiveOp, OpaqueOp
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
