"""What programs push: how it is declared, planned, laid out and lowered, and what stays as upstream has it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from literals import device
from spirv_machine import Machine, decoded

from vyre_driver.backends.null import NullBackend
from vyre_driver.backends.reference.backend import ReferenceBackend
from vyre_driver.backends.reference.dispatch import interpret
from vyre_driver.binding import BindingPlan, BindingSetFingerprint
from vyre_driver.binding.plan import BindingRole
from vyre_driver.binding.push_constants import pack_push_constants, packer_of
from vyre_driver.binding.pushed import pushed_members, split_inputs
from vyre_driver.errors import InvalidInput, InvalidProgram, InvalidPushConstant, LimitExceeded
from vyre_driver.ir import (
    BufferDecl,
    DataType,
    Program,
    assign,
    binop,
    buf_len,
    cast,
    gid_x,
    if_,
    let,
    load,
    loop,
    select,
    store,
    u32,
    validate,
    var,
)
from vyre_driver.ir.buffers import PUSHED_TYPES, MemoryKind
from vyre_driver.ir.operators import BinOp
from vyre_driver.lowering.emit.target import LoweringTarget
from vyre_driver.lowering.program import check_limits, prepare
from vyre_driver.spirv.layout import Array, Member, Scalar
from vyre_driver.spirv.opcodes import Ins
from vyre_driver.target.profile import capabilities_of
from vyre_driver.upstream.layouts import parameter_words

if TYPE_CHECKING:
    from conftest import Lower

U32, F32 = DataType.U32, DataType.F32
OUT = BufferDecl.read_write("out", 0, U32)
N, STEPS = BufferDecl.push("n", 3, U32), BufferDecl.push("steps", 2, U32, 3)
I = gid_x()  # noqa: E741 -- as kernels have it


def program(*nodes: Any, buffers: tuple[BufferDecl, ...] = (OUT, N, STEPS)) -> Program:  # noqa: ANN401 -- nodes
    return Program.wrapped(buffers, (4, 1, 1), list(nodes))


SUM = program(if_(buf_len(OUT) > I, [store(OUT, I, load(OUT, I) + load(N, 0) + load(STEPS, 2))]))
PLAN = BindingPlan.build(SUM)


def test_it_is_a_uniform_buffer_of_kind_push_with_a_count() -> None:
    assert (N.access.name, N.kind, N.count, N.is_pushed, N.is_writable) == ("UNIFORM", MemoryKind.PUSH, 1, True, False)
    assert [N.with_kind(MemoryKind.UNIFORM).is_pushed, OUT.with_kind(MemoryKind.PUSH).is_pushed] == [False, False]


def test_it_goes_over_the_wire_and_is_another_program_than_one_that_binds_it() -> None:
    bound = program(*SUM.entry, buffers=(OUT, N.with_kind(MemoryKind.UNIFORM), STEPS))
    assert (Program.from_wire(SUM.to_wire()), bound == SUM, SUM.digest() == bound.digest()) == (SUM, False, False)


def test_upstreams_values_have_it_as_any_uniform_buffer() -> None:
    """Roles, inputs, fingerprints and the table of counts are the same as of the program that binds it."""
    kinds = replace(N, kind=MemoryKind.UNIFORM), replace(STEPS, kind=MemoryKind.UNIFORM)
    bound = BindingPlan.build(program(*SUM.entry, buffers=(OUT, *kinds)))
    assert [one.role for one in PLAN.bindings] == [BindingRole.INPUT_OUTPUT, BindingRole.UNIFORM, BindingRole.UNIFORM]
    assert (PLAN.input_indices, PLAN.output_indices) == ((0, 2, 1), (0,)) == (bound.input_indices, bound.output_indices)
    assert BindingSetFingerprint.from_plan(PLAN) == BindingSetFingerprint.from_plan(bound)
    assert parameter_words(PLAN, 8) == parameter_words(bound, 8) == (8, 8, 0, 3, 1)
    assert PLAN.validate_inputs([bytes(32), bytes(12), bytes(4)]) is None  # type: ignore[func-returns-value]
    with pytest.raises(InvalidProgram, match="3 input"):
        PLAN.validate_inputs([bytes(32)])


def test_it_has_no_descriptor() -> None:
    assert ([one.name for one in PLAN.descriptors], PLAN.descriptor_slots()) == (["out"], {0: 0})


def test_each_lies_at_a_multiple_of_its_numbers_size_in_the_order_of_the_bindings() -> None:
    numbered = [
        BufferDecl.push(name, 9 - place, dtype, count)
        for place, (name, dtype, count) in enumerate(
            [("flags", DataType.Bool, 2), ("wide", DataType.U64, 1), ("n", U32, 1), ("x", DataType.F64, 2), ("last", F32, 1)]
        )
    ]
    u32_type, f64_type = Scalar("u", 32), Scalar("f", 64)
    assert pushed_members(BindingPlan.build(program(buffers=(OUT, *numbered)))) == (
        Member("last", 0, Scalar("f", 32)),
        Member("x", 8, Array(f64_type, 2, 8)),
        Member("n", 24, u32_type),
        Member("wide", 32, Scalar("u", 64)),
        Member("flags", 40, Array(Scalar("b", 32), 2, 4)),
    )


FLAGS = (Member("on", 0, Scalar("b", 32)), Member("many", 4, Array(Scalar("b", 32), 2, 4)))


@pytest.mark.parametrize("many", [[False, True], np.array([False, True]), (np.bool_(0), True)])
def test_bools_are_words(many: object) -> None:
    assert pack_push_constants(FLAGS, 12, {"on": True, "many": many}, "program") == (1, 0, 1)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"on": 1, "many": [True, True]}, "push constant 'on' is bool, and 1 is not True or False"),
        ({"on": True, "many": np.ones(2)}, "push constant 'many' is 2 x bool, and 1.0 is not True or False"),
        ({"on": True, "many": [True]}, "push constant 'many' is 2 x bool and got 1 value"),
        ({"on": True}, r"push constant 'many' \(bool\[2\]\) was not given"),
        ({"on": True, "many": [True, True], "off": 1}, "the program has no push constant 'off'"),
    ],
)
def test_bools_are_true_or_false(given: dict[str, object], problem: str) -> None:
    with pytest.raises(InvalidPushConstant, match=problem):
        pack_push_constants(FLAGS, 12, given, "program")


@pytest.mark.parametrize(("value", "words"), [(True, (1,)), (False, (0,)), (1, None), (np.True_, None), (1.0, None)])
def test_a_plain_bool_is_packed_at_once(value: object, words: tuple[int, ...] | None) -> None:
    packer = packer_of(FLAGS[:1], 4)
    assert packer is not None
    assert packer.pack({"on": value}) == words


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("alpha", "alpha=1"),
        ("class", "it in push_constants={'class': ...}, f32"),
        ("timeout", "it in push_constants={'timeout': ...}, f32"),
        ("a b", "it in push_constants={'a b': ...}, f32"),
    ],
)
def test_what_was_not_given_is_asked_for_as_python_takes_it(name: str, given: str) -> None:
    with pytest.raises(InvalidPushConstant) as refused:
        pack_push_constants([Member(name, 0, Scalar("f", 32))], 4, {}, "program")
    assert str(refused.value).endswith(f"{given}.")


VALUES = np.arange(5, dtype=np.uint32)


def test_the_reference_takes_it_among_the_inputs() -> None:
    found = interpret(SUM, [VALUES, np.uint32([1, 2, 300]), np.uint32([10])])
    assert found.outputs[0].tolist() == [310, 311, 312, 313, 314]
    with pytest.raises(InvalidInput, match="takes 3 array"):
        interpret(SUM, [VALUES])


def test_what_is_pushed_does_not_count_for_the_grid() -> None:
    """With atomics the longest buffer counts; what is pushed is no buffer of the kernel."""
    from vyre_driver.ir import atomic_add

    counting = program(let("x", atomic_add(OUT, 0, 1)), buffers=(OUT.with_count(1), N, STEPS.with_count(9)))
    found = interpret(counting, [np.uint32([0]), np.zeros(9, np.uint32), np.uint32([0])])
    assert (found.grid, found.outputs[0].tolist()) == ((1, 1, 1), [4])


@pytest.mark.parametrize("backend", [ReferenceBackend(), NullBackend()], ids=lambda one: one.id)
def test_backends_take_it_among_the_inputs(backend: Any) -> None:  # noqa: ANN401 -- a backend
    inputs = [VALUES, np.uint32([1, 2, 300]), np.uint32([10])]
    found = backend.dispatch(SUM, inputs)
    assert found[0].tolist() == ([310, 311, 312, 313, 314] if backend.id == "cpu-ref" else [0] * 5)


def test_a_backend_takes_it_nowhere_else() -> None:
    with pytest.raises(InvalidPushConstant) as refused:
        ReferenceBackend().dispatch(SUM, [VALUES], push_constants={"n": 1})
    assert str(refused.value) == (
        "push_constants gives 'n', and a dispatch takes what the program pushes among its inputs. "
        "Fix: leave push_constants out, and give 'steps', 'n' in binding order."
    )


def test_inputs_are_split_into_arrays_and_push_constants() -> None:
    flag = BufferDecl.push("flag", 1, DataType.Bool, 2)
    plan = BindingPlan.build(program(buffers=(OUT, N, STEPS, flag)))
    arrays, pushed = split_inputs(plan, [VALUES, np.uint32([7, 0]), np.uint32([1, 2, 3]), np.uint32([9])])
    assert (arrays, pushed is not None) == ([VALUES], True)
    assert {name: np.asarray(one).tolist() for name, one in (pushed or {}).items()} == {
        "flag": [True, False],
        "steps": [1, 2, 3],
        "n": [9],
    }
    plain = BindingPlan.build(program(buffers=(OUT,)))
    assert split_inputs(plan=plain, inputs=[VALUES]) == ([VALUES], None)


def opcodes(code: bytes) -> list[int]:
    return [opcode for opcode, _ in decoded(code)]


ONE = OUT.with_count(1)


@pytest.mark.parametrize(
    ("value", "comparisons", "loads"),
    [
        (load(N, 0), 0, 1),
        (load(N, 0) + load(N, 0), 0, 1),
        (load(STEPS, 2) + load(STEPS, 0), 0, 2),
        (load(STEPS, I), 1, 2),  # the invocation's index too
        (load(N, I), 1, 2),
        (load(STEPS, I % 3), 0, 2),
        (buf_len(STEPS), 0, 0),
    ],
)
def test_a_constant_index_inside_the_count_needs_no_check(lower: Lower, value: Any, comparisons: int, loads: int) -> None:  # noqa: ANN401 -- an expression
    found = opcodes(lower(program(store(ONE, 0, value), buffers=(ONE, N, STEPS))).code)
    assert (found.count(Ins.ULessThan), found.count(Ins.Load)) == (comparisons, loads)


@pytest.mark.parametrize(("index", "found"), [(0, 10), (1, 20), (2, 30), (3, 0), (2**32 - 1, 0)])
def test_a_load_out_of_range_gives_zero(lower: Lower, index: int, found: int) -> None:
    made = program(let("at", load(OUT, 0)), store(OUT, 1, load(STEPS, var("at", U32)) + load(N, var("at", U32))))
    code = lower(made).code
    assert opcodes(code).count(Ins.ULessThan) == 4
    opened = [index, 77]
    memory = {"out": opened}
    PushMachine(code).run(0, 4, memory, [10, 20, 30, 0, 2])
    assert opened[1] == found
    assert interpret(made, [np.uint32([index, 77]), np.uint32([10, 20, 30]), np.uint32([0])]).outputs[0][1] == found


class PushMachine(Machine):
    """Knows a block whose first member is three words, the second one, and a count after them."""

    def _of_memory(self, opcode: int, made: int, operands: list[int]) -> Any:  # noqa: ANN401 -- as Machine's
        if opcode == Ins.AccessChain and self.names[operands[0]] == "pushed":
            member, *index = (self.values[one] for one in operands[1:])
            assert not index or index[0] < 3
            return "pushed", (index[0] if member == 0 else member + 2)
        return super()._of_memory(opcode, made, operands)


def test_a_loop_ends_by_what_is_pushed_and_reads_it_once(lower: Lower) -> None:
    going = binop(BinOp.LT, var("k", U32), load(N, 0))
    nodes = [let("k", u32(0)), loop("turn", 0, 2**32 - 1, [if_(going, [assign("k", var("k", U32) + 1)])])]
    made = program(*nodes, store(ONE, 0, var("k", U32)), buffers=(ONE, N))
    found = opcodes(lower(made).code)
    assert [found.count(one) for one in (Ins.LoopMerge, Ins.BranchConditional, Ins.Phi)] == [1, 1, 0]
    assert interpret(made, [np.uint32([0]), np.uint32([6])]).outputs[0].tolist() == [6]


@pytest.mark.parametrize("features", [frozenset({"shaderInt64"}), frozenset()])
@pytest.mark.parametrize("dtype", PUSHED_TYPES)
def test_every_type_is_lowered_as_one_and_as_several(lower: Lower, dtype: DataType, features: frozenset[str]) -> None:
    one, many = BufferDecl.push("one", 1, dtype), BufferDecl.push("many", 2, dtype, 4)
    out = BufferDecl.read_write("y", 0, dtype)
    chosen = select(I < 3, load(one, 0), load(many, I))
    made = program(store(out, I, chosen), store(out, 1, load(many, 3)), buffers=(out, one, many))
    lower(made, (), LoweringTarget(features))  # which the validator accepts


def prepared(*buffers: BufferDecl) -> Any:  # noqa: ANN401 -- a ProgramSource
    return prepare(Program.wrapped(buffers, (4, 1, 1), []), None, None, capabilities_of(device()), LoweringTarget())


def test_counts_are_pushed_behind_what_the_caller_pushes() -> None:
    found = prepared(OUT, BufferDecl.read("in", 1, U32), N, STEPS)
    source = found.kernel_source(device().limits, None)
    assert (source.push_constant_bytes, source.count_bytes, source.named_push_bytes) == (24, 8, 16)
    assert source.push_constants == (Member("steps", 0, Array(Scalar("u", 32), 3, 4)), Member("n", 12, Scalar("u", 32)))


@pytest.mark.parametrize(
    ("buffers", "problem"),
    [
        (
            (OUT, BufferDecl.push("many", 1, U32, 32)),
            (
                "the program has 132 bytes to push, and the device allows 128. Fix: push fewer: hold some in a uniform buffer, "
                "as a kernel in Python does where it is called or bound itself."
            ),
        ),
        (
            tuple(BufferDecl.read(f"x{place}", place, U32) for place in range(33)),
            "the program has 132 bytes to push, and the device allows 128. Fix: declare some of the counts.",
        ),
    ],
)
def test_more_bytes_than_the_device_pushes_are_refused(buffers: tuple[BufferDecl, ...], problem: str) -> None:
    limits = replace(device().limits, max_push_constants_size=128, max_per_stage_descriptor_storage_buffers=64)
    with pytest.raises(LimitExceeded) as refused:
        check_limits(prepared(*buffers), limits)
    assert str(refused.value) == problem
    check_limits(prepared(OUT, BufferDecl.push("many", 1, U32, 31)), limits)


@pytest.mark.parametrize(
    ("wrong", "path", "fix"),
    [
        (OUT.with_kind(MemoryKind.PUSH).with_count(1), "buffers[0].access", "use BufferDecl.push, or another kind of memory"),
        (BufferDecl.push("n", 3, U32, 0), "buffers[0].count", "give it the number of its elements"),
        (
            BufferDecl.push("n", 3, DataType.U8),
            "buffers[0].element",
            "use one of u32, i32, f32, bool, u64, i64, f64, or a uniform buffer",
        ),
        (replace(N, is_output=True), "buffers[0]", "use BufferDecl.output for what comes back"),
        (N.with_pipeline_live_out(True), "buffers[0]", "use BufferDecl.output for what comes back"),
    ],
)
def test_what_cannot_be_pushed_is_refused_by_path_with_a_fix(wrong: BufferDecl, path: str, fix: str) -> None:
    with pytest.raises(InvalidProgram) as refused:
        validate(program(buffers=(wrong,)))
    assert [(one.rule, one.path, one.fix) for one in refused.value.context["problems"]] == [("R032", path, fix)]


def test_a_store_to_it_is_refused() -> None:
    with pytest.raises(InvalidProgram, match=r"R011 at .*buffer 'n' is UNIFORM, and is written here"):
        validate(program(store(N, 0, cast(U32, u32(1)))))
