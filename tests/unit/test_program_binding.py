"""The plan of a program's buffers: roles, refusals, inputs, and what a backend reads off it."""

from __future__ import annotations

import copy
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import pytest
from literals import FLOATS, buffer, reflection, refusal
from program_buffers import SCRATCH, A, B, C, invalid, plan

from vyre_driver.binding import Binding, BindingPlan, BindingRole, BindingSetFingerprint
from vyre_driver.errors import InvalidInput, InvalidProgram, LimitExceeded
from vyre_driver.ir.buffers import BufferAccess, BufferDecl, MemoryHints, MemoryKind
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.program import Program

if TYPE_CHECKING:
    from collections.abc import Callable
HUGE = DataType.vec(DataType.vec(DataType.vec(DataType.vec(DataType.Vec4U32, 255), 255), 255), 255)


def only(declared: BufferDecl) -> Binding:
    (found,) = plan(declared).bindings
    return found


def aligned(alignment: int) -> BufferDecl:
    return A.with_hints(MemoryHints(preferred_alignment=alignment))


def test_a_plan_is_in_the_order_of_the_binding_numbers_and_names_buffers_by_their_declaration() -> None:
    f32, u16, u32 = DataType.F32, DataType.U16, DataType.U32
    assert plan(C, A, SCRATCH, B) == BindingPlan(
        (
            Binding("scratch", 0, 2, BindingRole.SHARED, 4, 4, 16, 64, None, None, data_type=f32),
            Binding("b", 1, 3, BindingRole.INPUT_OUTPUT, 4, 4, 0, None, 0, 0, data_type=u32),
            Binding("a", 3, 1, BindingRole.INPUT, 4, 4, 2, 8, 1, None, data_type=f32),
            Binding("c", 7, 0, BindingRole.OUTPUT, 2, 2, 5, 10, None, 1, data_type=u16),
        ),
        (3, 1),
        (3, 0),
        (2,),
    )


OF_ACCESS = {
    BufferAccess.READ_ONLY: BindingRole.INPUT,
    BufferAccess.READ_WRITE: BindingRole.INPUT_OUTPUT,
    BufferAccess.UNIFORM: BindingRole.UNIFORM,
    BufferAccess.WRITE_ONLY: BindingRole.OUTPUT,
}


@pytest.mark.parametrize(("access", "kind"), list(product(BufferAccess, MemoryKind)))
def test_a_buffers_role_follows_from_kind_then_flag_then_access(access: BufferAccess, kind: MemoryKind) -> None:
    flags = list(product((False, True), repeat=2))
    found = [
        only(BufferDecl("x", 0, access, kind, DataType.F32, 1, is_output=output, pipeline_live_out=live))
        for output, live in flags
    ]
    if kind is MemoryKind.SHARED or access is BufferAccess.WORKGROUP:
        roles = [BindingRole.SHARED] * 4
    elif kind is MemoryKind.PERSISTENT:
        roles = [BindingRole.PERSISTENT] * 4
    else:
        roles = [OF_ACCESS[access], OF_ACCESS[access], BindingRole.OUTPUT, BindingRole.OUTPUT]
    assert [(one.role, one.input_index, one.output_index) for one in found] == [
        (role, 0 if role.consumes_input else None, 0 if role.produces_output or live else None)
        for role, (_, live) in zip(roles, flags, strict=True)
    ]


def test_a_live_buffer_that_is_no_output_by_role_has_an_output_index_all_the_same() -> None:
    """0.4.1's quirk, kept: the seed numbers it among the outputs."""
    found = only(A.with_pipeline_live_out(True))
    assert (found.role, found.input_index, found.output_index) == (BindingRole.INPUT, 0, 0)


@pytest.mark.parametrize(("hint", "size", "expected"), [(0, DataType.F32, 4), (64, DataType.F32, 64), (2, DataType.F64, 8)])
def test_a_buffers_alignment_is_the_larger_of_hint_and_element(hint: int, size: DataType, expected: int) -> None:
    declared = BufferDecl.read("a", 0, size).with_hints(MemoryHints(preferred_alignment=hint))
    assert only(declared).preferred_alignment == expected


@pytest.mark.parametrize(
    ("declared", "problem", "fix", "context"),
    [
        (
            aligned(48),
            "buffer 'a' asks for preferred_alignment=48 bytes, which is not a power of two",
            "use 0, or a power of two such as 32",
            {"binding": "a", "preferred_alignment": 48},
        ),
        (
            aligned(2**32 - 1),
            "buffer 'a' asks for preferred_alignment=4294967295 bytes, which is not a power of two",
            "use 0, or a power of two such as 2147483648",
            {"binding": "a", "preferred_alignment": 2**32 - 1},
        ),
        (
            BufferDecl.read("raw", 0, DataType.Bytes).with_count(3),
            "buffer 'raw' declares 3 elements of bytes, a type that fixes 0 bytes an element",
            "leave the count at 0, or use an element type of a fixed size",
            {"binding": "raw", "count": 3, "element_size": 0},
        ),
        (
            BufferDecl.read("big", 0, HUGE).with_count(2**32 - 1),
            (
                "buffer 'big' declares 4294967295 elements of 67652010000 bytes, 290563170391012950000 bytes in all, over the "
                "limit of 18446744073709551615 bytes"
            ),
            "use fewer or smaller elements",
            {"binding": "big", "value": 290563170391012950000, "limit": 2**64 - 1},
        ),
    ],
)
def test_a_buffer_that_has_no_place_in_a_plan_is_refused_by_name_with_both_numbers(
    declared: BufferDecl, problem: str, fix: str, context: dict[str, object]
) -> None:
    assert refusal(lambda: plan(declared)) == (InvalidProgram, 1006, f"{problem}. Fix: {fix}.")
    with pytest.raises(InvalidProgram) as error:
        plan(B, declared)
    assert error.value.context == context


def test_the_first_buffer_at_fault_is_the_first_by_binding_number() -> None:
    late = BufferDecl.read("late", 5, DataType.Bytes).with_count(1)
    with pytest.raises(InvalidProgram, match="buffer 'a' asks for preferred_alignment=48"):
        plan(late, aligned(48))


@pytest.mark.parametrize("found", [plan(C, A, SCRATCH, B), BindingPlan.from_reflection(reflection())])
@pytest.mark.parametrize("clone", [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])  # noqa: S301 -- ours
def test_a_plan_that_was_used_can_be_copied_and_pickled(
    found: BindingPlan, clone: Callable[[BindingPlan], BindingPlan]
) -> None:
    lengths = [8] * len(found.input_indices)
    found.validate_input_byte_lengths(lengths)
    cloned = clone(found)
    cloned.validate_input_byte_lengths(lengths)
    assert (cloned, hash(cloned), repr(cloned)) == (found, hash(found), repr(found))


def test_plans_are_built_and_used_from_8_threads_at_once() -> None:
    program = Program.wrapped([C, A, SCRATCH, B], (64, 1, 1), [])
    wanted, start = BindingPlan.from_program(program, [bytes(12), bytes(8)]), threading.Barrier(8)

    def work(shared: BindingPlan) -> set[object]:
        start.wait()
        found: set[object] = set()
        for _ in range(200):
            shared.validate_inputs([bytes(12), memoryview(bytes(8))])
            found.add(BindingPlan.from_program(program, [bytes(12), np.zeros(2, np.float32)]))
            found.add(refusal(lambda: shared.validate_input_byte_lengths([12, 7]))[1])
        return found

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, [BindingPlan.build(program)] * 8)) == [{wanted, 1006}] * 8


def test_a_plan_and_its_buffers_cannot_be_changed() -> None:
    found = plan(A)
    with pytest.raises(AttributeError):
        found.bindings = ()  # type: ignore[misc]
    with pytest.raises(AttributeError):
        found.bindings[0].role = BindingRole.OUTPUT  # type: ignore[misc]


def test_descriptors_are_dense_and_workgroup_memory_has_none() -> None:
    found = plan(C, A, SCRATCH, B)
    assert [one.name for one in found.descriptors] == ["b", "a", "c"]
    assert found.descriptor_slots() == {1: 0, 3: 1, 7: 2}


def test_the_planner_takes_two_buffers_of_one_number_and_descriptors_do_not() -> None:
    twice = plan(A, BufferDecl.output("z", 3, DataType.F32))
    assert [one.name for one in twice.bindings] == ["a", "z"]
    problem = "buffers 'a' and 'z' both have binding 3. Fix: give each a number of its own."
    assert refusal(twice.descriptor_slots) == (InvalidProgram, 1006, problem)


@pytest.mark.parametrize(
    ("declared", "byte_len", "expected"),
    [
        (A, None, 8),
        (A, 9, 12),
        (BufferDecl.read("x", 0, DataType.U8).with_count(5), None, 8),
        (aligned(64), None, 64),
        (aligned(64), 65, 128),
        (BufferDecl.read("x", 0, DataType.vec(DataType.F32, 3)), 13, 24),
        (BufferDecl.read("x", 0, DataType.Bytes), 1, 4),
        (B, 0, 0),
    ],
)
def test_a_padded_length_is_whole_words_and_whole_alignments(declared: BufferDecl, byte_len: int | None, expected: int) -> None:
    assert only(declared).padded_byte_len(byte_len) == expected


def test_a_padded_length_that_passes_64_bits_is_refused() -> None:
    assert refusal(lambda: only(aligned(2**31)).padded_byte_len(2**64 - 5)) == (
        LimitExceeded,
        2104,
        (
            "input 'a' takes 18446744073709551611 bytes, padded 18446744073709551616 bytes, and there are "
            "18446744073709551615 bytes at most. Fix: use fewer elements, or a smaller alignment."
        ),
    )


@pytest.mark.parametrize("ask", [lambda one: one.padded_byte_len(), lambda one: one.readback_slice()])
def test_a_length_left_to_run_time_has_to_be_given(ask: Callable[[Binding], object]) -> None:
    assert refusal(lambda: ask(only(B))) == invalid(
        "input_output 'b' has no static length: its 4-byte elements are counted at run time", "give its length in bytes"
    )


@pytest.mark.parametrize(
    ("byte_range", "byte_len", "expected"),
    [
        (None, None, (0, 10)),
        (None, 4, (0, 4)),
        ((0, 10), None, (0, 10)),
        ((2, 6), None, (2, 4)),
        ((10, 10), None, (10, 0)),
        ((3, 4), 4, (3, 1)),
    ],
)
def test_what_comes_back_of_an_output_is_its_range(
    byte_range: tuple[int, int] | None, byte_len: int | None, expected: tuple[int, int]
) -> None:
    assert only(C.with_output_byte_range(byte_range)).readback_slice(byte_len) == expected


@pytest.mark.parametrize(
    ("byte_range", "byte_len", "size"), [((0, 11), None, 10), ((6, 2), None, 10), ((2, 6), 4, 4), ((2**64 - 1, 0), None, 10)]
)
def test_a_range_that_is_not_inside_the_buffer_is_refused(byte_range: tuple[int, int], byte_len: int | None, size: int) -> None:
    start, end = byte_range
    assert refusal(lambda: only(C.with_output_byte_range(byte_range)).readback_slice(byte_len)) == invalid(
        f"the output_byte_range of buffer 'c' goes from byte {start} to byte {end}, and it has {size} bytes",
        f"give a range that goes forward and ends at byte {size} or before",
    )


def test_nothing_comes_back_of_an_input() -> None:
    problem = "input 'a' is not an output, and nothing of it comes back"
    assert refusal(only(A).readback_slice) == invalid(problem, "read back an output")


@pytest.mark.parametrize(
    ("element", "expected"),
    [
        (DataType.F32, "float32"),
        (DataType.BF16, "bfloat16"),
        (DataType.F8E4M3, "float8_e4m3fn"),
        (DataType.vec(DataType.F32, 3), "float32"),
        (DataType.Vec4U32, "uint32"),
        (DataType.Bool, "None"),
        (DataType.I4, "None"),
        (DataType.NF4, "None"),
        (DataType.Bytes, "None"),
        (DataType.handle(3), "None"),
        (DataType.array(16), "None"),
        (DataType.Tensor, "None"),
    ],
    ids=str,
)
def test_the_arrays_of_a_programs_buffer_have_the_numpy_type_of_its_element(element: DataType, expected: str) -> None:
    assert str(only(BufferDecl.read("x", 0, element)).dtype) == expected


def test_arrays_are_matched_to_a_programs_buffers_and_workgroup_memory_takes_none() -> None:
    vector = BufferDecl.output("v", 9, DataType.vec(DataType.F32, 4)).with_count(3)
    found = plan(vector, A, SCRATCH).check_arguments([np.float32([1, 2])], {})
    assert [(one.binding.name, one.position, one.byte_len, one.shape, str(one.dtype)) for one in found] == [
        ("a", 0, 8, (2,), "float32"),
        ("v", None, 48, (3, 4), "float32"),
    ]
    assert [one.element_count for one in found] == [2, 3]


def test_an_array_that_does_not_fit_a_programs_buffer_is_refused_as_the_programs() -> None:
    problem = "input 'a' has 4 bytes, and the program fixes it at 8 bytes (2 elements of 4 bytes)"
    assert refusal(lambda: plan(A).check_arguments([np.float32([1])], {})) == (
        InvalidInput,
        2201,
        f"{problem}. Fix: pass 8 bytes.",
    )


def test_a_persistent_buffer_has_no_array() -> None:
    kept = BufferDecl.read("kept", 0, DataType.F32).with_kind(MemoryKind.PERSISTENT)
    assert refusal(lambda: plan(kept, A).check_arguments([np.zeros(2, np.float32)], {})) == (
        InvalidInput,
        2201,
        (
            "persistent 'kept' stays on the device between dispatches, and a call with arrays has none for it. "
            "Fix: bind resident buffers."
        ),
    )


def test_shaders_and_programs_of_one_layout_share_it() -> None:
    shader = BindingPlan.from_reflection(reflection(buffer("x", 3, "r", element=FLOATS)))
    assert BindingSetFingerprint.from_plan(shader) == BindingSetFingerprint.from_plan(plan(A))
    assert shader != plan(A)
