"""What a dispatch tells its program of counts, and how many workgroups run."""

from __future__ import annotations

from typing import Any

import pytest
from literals import refusal

from vyre_driver.binding import BindingPlan
from vyre_driver.binding.dispatch_parameters import (
    ceil_cube_root,
    ceil_square_root,
    covering_grid,
    dispatch_element_count,
)
from vyre_driver.errors import InvalidInput, LimitExceeded
from vyre_driver.ir.buffers import BufferDecl, MemoryKind
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.program import Program
from vyre_driver.upstream.layouts import MAX_PARAMETER_WORDS, parameter_words

U32_MAX, U64_MAX = 2**32 - 1, 2**64 - 1


def read(binding: int, count: int = 0) -> BufferDecl:
    return BufferDecl.read(f"r{binding}", binding, DataType.U32).with_count(count)


def output(binding: int, count: int = 0) -> BufferDecl:
    return BufferDecl.output(f"o{binding}", binding, DataType.U32).with_count(count)


def update(binding: int, count: int = 0) -> BufferDecl:
    return BufferDecl.read_write(f"u{binding}", binding, DataType.U32).with_count(count)


def shared(count: int) -> BufferDecl:
    return BufferDecl.workgroup("shared", count, DataType.U32)


def plan(*buffers: BufferDecl) -> BindingPlan:
    return BindingPlan.build(Program.wrapped(buffers, (64, 1, 1), []))


@pytest.mark.parametrize(
    ("buffers", "expected"),
    [
        ([read(0, 100), output(1, 7)], 7),
        ([read(0, 100), output(1, 7), update(2, 9)], 9),
        ([read(0, 100), output(1, 7), shared(999)], 100),
        ([read(0, 100), output(1)], 100),
        ([read(0), output(1)], 1),
        ([shared(999)], 1),
        ([read(0, 5).with_pipeline_live_out(True), output(1, 2)], 2),
        ([read(0, 5).with_kind(MemoryKind.PERSISTENT)], 5),
        ([], 1),
    ],
)
def test_a_dispatch_is_about_its_longest_output_or_with_workgroup_memory_its_longest_buffer(
    buffers: list[BufferDecl], expected: int
) -> None:
    assert dispatch_element_count(plan(*buffers), has_atomics=False) == expected


def test_with_atomics_a_dispatch_is_about_its_longest_buffer() -> None:
    found = plan(read(0, 100), output(1, 7))
    assert dispatch_element_count(found, has_atomics=True) == 100


def test_counts_that_inputs_bring_matter() -> None:
    program = Program.wrapped([read(0), update(1)], (64, 1, 1), [])
    found = BindingPlan.from_program(program, [bytes(400), bytes(20)])
    assert (dispatch_element_count(found, has_atomics=False), dispatch_element_count(found, has_atomics=True)) == (5, 100)


@pytest.mark.parametrize(
    ("buffers", "expected"),
    [
        ([], (9,)),
        ([read(0, 4), output(1)], (9, 4, 9)),
        ([read(3, 4), output(1, 2)], (9, 0, 2, 0, 4)),
        ([shared(999)], (9, 0)),
        ([shared(999), read(0, 4)], (9, 4, 0)),
        ([shared(999), read(5, 4)], (9, 0, 0, 0, 0, 0, 4)),
    ],
)
def test_parameter_words_are_indexed_by_binding_number_and_leave_out_workgroup_memory(
    buffers: list[BufferDecl], expected: tuple[int, ...]
) -> None:
    assert parameter_words(plan(*buffers), 9) == expected


def test_a_table_of_the_most_words_is_made_and_one_more_is_refused() -> None:
    """A departure on purpose: upstream allocates for any number, 16 GiB for the highest."""
    words = parameter_words(plan(read(MAX_PARAMETER_WORDS - 2, 3)), 9)
    assert (len(words), words[-1], sum(words)) == (65536, 3, 12)
    assert refusal(lambda: parameter_words(plan(read(0), read(65535)), 9)) == (
        LimitExceeded,
        2104,
        (
            "buffer 'r65535' of binding 65535 needs a table of 65537 words, and there are 65536 words at most. "
            "Fix: number the bindings from 0 without gaps."
        ),
    )
    with pytest.raises(LimitExceeded):
        parameter_words(plan(read(U32_MAX)), 9)


@pytest.mark.parametrize("count", [0, -1, 2**32, 1.5, True, "9"])
def test_a_table_of_a_count_that_is_no_positive_u32_is_refused(count: Any) -> None:  # noqa: ANN401 -- deliberately wrong
    assert refusal(lambda: parameter_words(plan(), count)) == (
        InvalidInput,
        2201,
        (f"the number of elements of a dispatch is {count!r}, and may be 1 to 4294967295. Fix: give an integer in that range."),
    )


@pytest.mark.parametrize(
    ("count", "size", "expected"),
    [
        (0, (64, 1, 1), (1, 1, 1)),
        (1, (64, 1, 1), (1, 1, 1)),
        (64, (64, 1, 1), (1, 1, 1)),
        (65, (64, 1, 1), (2, 1, 1)),
        (U32_MAX, (1, 1, 1), (U32_MAX, 1, 1)),
        (U32_MAX * 64, (64, 1, 1), (U32_MAX, 1, 1)),
        (0, (8, 8, 1), (1, 1, 1)),
        (64, (8, 8, 1), (1, 1, 1)),
        (65, (8, 8, 1), (2, 1, 1)),  # rows of 9, 8 of them
        (100, (8, 4, 1), (2, 3, 1)),
        (100, (1, 2, 1), (10, 5, 1)),
        (U64_MAX, (2, 2, 1), (2**31, 2**31, 1)),
        (0, (4, 4, 4), (1, 1, 1)),
        (64, (4, 4, 4), (1, 1, 1)),
        (65, (4, 4, 4), (2, 2, 1)),  # layers of 5 x 5, 3 of them
        (1000, (4, 5, 2), (3, 2, 5)),
        (1000, (1, 1, 2), (10, 10, 5)),
        (U64_MAX, (1, 1, 2), (2642246, 2642246, 1321123)),
    ],
)
def test_a_grid_has_rows_and_layers_of_equal_sides(
    count: int, size: tuple[int, int, int], expected: tuple[int, int, int]
) -> None:
    assert covering_grid(count, size) == expected


@pytest.mark.parametrize(
    ("count", "size", "axis", "needed"),
    [(2**32, (1, 1, 1), "x", 2**32), (U32_MAX * 64 + 1, (64, 1, 1), "x", 2**32), (U64_MAX, (1, 2, 1), "x", 2**32)],
)
def test_an_axis_of_more_than_32_bits_is_refused(count: int, size: tuple[int, int, int], axis: str, needed: int) -> None:
    shape = "x".join(map(str, size))
    message = (
        f"{count} elements need {needed} workgroups of {shape} along {axis}, and a dispatch has 4294967295 workgroups at most. "
        "Fix: use larger workgroups, or dispatch the elements in parts."
    )
    assert refusal(lambda: covering_grid(count, size)) == (LimitExceeded, 2104, message)


@pytest.mark.parametrize("size", [(0, 1, 1), (1, 0, 1), (1, 1, 0), (1, 1, 2**32), (1, 1, -1), (1, 1, 1.5)])
def test_a_grid_for_a_workgroup_that_cannot_be_is_refused(size: Any) -> None:  # noqa: ANN401 -- deliberately wrong
    (wrong,) = [axis for axis in size if axis != 1]
    problem = f"the size of a workgroup along an axis is {wrong!r}, and may be 1 to 4294967295"
    assert refusal(lambda: covering_grid(1, size)) == (
        InvalidInput,
        2201,
        f"{problem}. Fix: give an integer in that range.",
    )


@pytest.mark.parametrize("size", [(), (1,), (1, 1, 1, 1)])
def test_a_grid_for_a_workgroup_without_three_axes_is_refused(size: Any) -> None:  # noqa: ANN401 -- deliberately wrong
    message = f"a workgroup size has {len(size)} axes, and 3 are wanted. Fix: give (x, y, z) in invocations."
    assert refusal(lambda: covering_grid(1, size)) == (InvalidInput, 2201, message)


@pytest.mark.parametrize("count", [-1, 2**64, 2.0])
def test_a_grid_for_a_count_that_is_no_u64_is_refused(count: Any) -> None:  # noqa: ANN401 -- deliberately wrong
    assert refusal(lambda: covering_grid(count, (1, 1, 1)))[:2] == (InvalidInput, 2201)


@pytest.mark.parametrize("side", [1, 2, 3, 1000, 2**21, 2642245, 2**31, 2**32 - 1])
def test_roots_are_exact_around_a_power(side: int) -> None:
    assert [ceil_square_root(side**2 + step) for step in (0, 1)] == [side, side + 1]
    assert [ceil_cube_root(side**3 + step) for step in (0, 1)] == [side, side + 1]
    assert (ceil_square_root(0), ceil_cube_root(0)) == (0, 0)
