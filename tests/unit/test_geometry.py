"""Workgroup sizes and grids against the device's limits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from literals import LIMITS, U32, buffer, reflection, refusal

from vyre_driver.binding import BindingPlan
from vyre_driver.binding.grid import given_groups, grid, local_size
from vyre_driver.errors import InvalidInput, LimitExceeded
from vyre_driver.specialization import specialize
from vyre_driver.spirv.interface import LocalSize, SpecConstant


def size_of(*axes: LocalSize, given: dict[str, int] | None = None) -> tuple[int, int, int]:
    """The workgroup size of a shader whose constants ``a`` and ``b`` have the ids 1 and 3, against LIMITS."""
    constants = (SpecConstant("a", 1, U32, 64), SpecConstant("b", 3, U32, 2))
    found = reflection(local_size=axes, spec_constants=constants)
    return local_size(found, specialize(constants, given or {}), LIMITS)


def literal(*size: int) -> tuple[int, int, int]:
    return size_of(*(LocalSize(axis) for axis in size))


def grid_for(groups: Any, size: tuple[int, int, int] = (64, 1, 1), i: int = 1, **counts: int) -> tuple[int, int, int]:  # noqa: ANN401 -- anything a caller gives
    """The grid of a shader with an input ``i`` of floats and outputs ``a`` and ``b``, 1 element each unless given."""
    buffers = buffer("i", 0, "r"), buffer("a", 1, "w"), buffer("b", 2, "w", header_bytes=16)
    arguments = BindingPlan.from_reflection(reflection(*buffers)).check_arguments(
        [np.zeros(i, np.float32)], {"a": 1, "b": 1, **counts}
    )
    return grid(given_groups(size, groups, None), arguments, size, LIMITS)


def test_a_literal_workgroup_size_is_itself() -> None:
    assert literal(8, 4, 2) == (8, 4, 2)


def test_a_specialized_workgroup_size_takes_the_default_without_a_value() -> None:
    assert size_of(LocalSize(7, 1), LocalSize(7, 3), LocalSize(1)) == (64, 2, 1)


def test_a_specialized_workgroup_size_takes_the_given_value() -> None:
    assert size_of(LocalSize(7, 1), LocalSize(7, 3), LocalSize(1), given={"a": 16, "b": 8}) == (16, 8, 1)


@pytest.mark.parametrize("size", [(512, 1, 1), (1, 512, 1), (1, 1, 64), (8, 8, 8), (1, 1, 1)])
def test_a_workgroup_exactly_at_a_limit_is_accepted(size: tuple[int, int, int]) -> None:
    assert literal(*size) == size


@pytest.mark.parametrize(
    ("size", "axis", "value", "limit"),
    [
        ((1025, 1, 1), "x", 1025, 1024),
        ((1, 513, 1), "y", 513, 512),
        ((1, 1, 65), "z", 65, 64),
        ((0, 1, 1), "x", 0, 1024),
        ((1, 0, 1), "y", 0, 512),
        ((1, 1, 0), "z", 0, 64),
        ((2**32 - 1, 1, 1), "x", 4294967295, 1024),
    ],
)
def test_a_workgroup_over_an_axis_limit_or_empty_is_refused(
    size: tuple[int, int, int], axis: str, value: int, limit: int
) -> None:
    message = (
        f"the shader's workgroup has {value} invocations along {axis}, and the device allows 1 to {limit}. "
        f"Fix: choose a workgroup size of at most {limit} along {axis}."
    )
    assert refusal(lambda: literal(*size)) == (LimitExceeded, 2104, message)


@pytest.mark.parametrize("size", [(513, 1, 1), (27, 19, 1), (1, 57, 9)])
def test_a_workgroup_of_one_invocation_too_many_is_refused(size: tuple[int, int, int]) -> None:
    x, y, z = size
    assert x * y * z == 513
    message = (
        f"the shader's workgroup has {x}x{y}x{z} = 513 invocations, and the device allows 512. "
        "Fix: choose a workgroup of at most 512 invocations."
    )
    assert refusal(lambda: literal(*size)) == (LimitExceeded, 2104, message)


def test_a_limit_names_its_numbers_apart() -> None:
    with pytest.raises(LimitExceeded) as error:
        literal(1025, 1, 1)
    assert error.value.context == {"value": 1025, "limit": 1024}


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        (5, (5, 1, 1)),
        ((5,), (5, 1, 1)),
        ((5, 6), (5, 6, 1)),
        ([5, 6, 7], (5, 6, 7)),
        (np.array([5, 6]), (5, 6, 1)),
        ((np.int64(5),), (5, 1, 1)),
        (range(1, 4), (1, 2, 3)),
    ],
)
def test_a_given_grid_is_filled_up_with_ones(groups: object, expected: tuple[int, int, int]) -> None:
    assert grid_for(groups) == expected


@pytest.mark.parametrize("groups", [(), (1, 1, 1, 1), (0,), (1, 0), (1, 1, -1)])
def test_a_grid_that_is_not_1_to_3_positive_numbers_is_refused(groups: tuple[int, ...]) -> None:
    message = f"workgroups is {groups}, which is not 1 to 3 numbers of at least 1. Fix: give workgroups=(x, y, z)."
    assert refusal(lambda: grid_for(groups)) == (InvalidInput, 2201, message)


@pytest.mark.parametrize("groups", [(2.5,), ("2",), (None,), 6.4, (1, (1, 1)), "2", [[1, 1]], np.ones((2, 2), np.int64)])
def test_a_grid_of_anything_but_whole_numbers_is_refused(groups: object) -> None:
    message = f"workgroups is {groups}, which is not 1 to 3 numbers of at least 1. Fix: give workgroups=(x, y, z)."
    assert refusal(lambda: grid_for(groups)) == (InvalidInput, 2201, message)


def test_a_grid_exactly_at_the_limits_is_accepted() -> None:
    assert grid_for((65535, 65534, 65533)) == (65535, 65534, 65533)


@pytest.mark.parametrize(
    ("groups", "axis", "limit"), [((65536,), "x", 65535), ((1, 65535), "y", 65534), ((1, 1, 65534), "z", 65533)]
)
def test_a_grid_one_over_a_limit_is_refused(groups: tuple[int, ...], axis: str, limit: int) -> None:
    message = (
        f"the grid has {limit + 1} workgroups along {axis}, and the device allows {limit}. "
        "Fix: start fewer workgroups, and let an invocation do several elements."
    )
    assert refusal(lambda: grid_for(groups)) == (LimitExceeded, 2104, message)


@pytest.mark.parametrize(
    ("counts", "expected"),
    [({}, 1), ({"a": 64}, 1), ({"a": 65}, 2), ({"a": 64, "b": 640}, 10), ({"a": 129, "b": 3}, 3)],
)
def test_a_guessed_grid_has_an_invocation_for_each_element_of_the_largest_output(counts: dict[str, int], expected: int) -> None:
    assert grid_for(None, **counts) == (expected, 1, 1)


def test_a_grid_is_not_guessed_where_what_is_read_is_longer_than_what_is_written() -> None:
    """As of a histogram or a sum: the work is as long as the data."""
    assert grid_for(None, i=640, a=640) == (10, 1, 1)
    message = (
        "the grid cannot be guessed: input 'i' has 641 elements and output 'a' 640, and an invocation may be for one of "
        "either. Fix: give invocations=641 or invocations=640, as the shader counts them."
    )
    assert refusal(lambda: grid_for(None, i=641, a=640)) == (InvalidInput, 2201, message)
    assert grid_for((3,), i=641, a=640) == (3, 1, 1)


def test_a_guessed_grid_exactly_at_the_limit_is_accepted() -> None:
    assert grid_for(None, a=65535 * 64) == (65535, 1, 1)


def test_a_guessed_grid_over_the_limit_is_refused() -> None:
    message = (
        "the grid has 65536 workgroups along x, and the device allows 65535. "
        "Fix: start fewer workgroups, and let an invocation do several elements."
    )
    assert refusal(lambda: grid_for(None, a=65535 * 64 + 1)) == (LimitExceeded, 2104, message)


@pytest.mark.parametrize("size", [(16, 16, 1), (64, 1, 2), (1, 2, 1)])
def test_a_grid_is_not_guessed_for_a_workgroup_of_several_axes(size: tuple[int, int, int]) -> None:
    x, y, z = size
    message = (
        f"the grid cannot be guessed for a workgroup of {x}x{y}x{z} invocations. Fix: give invocations=(width, height), or "
        f"workgroups=(x, y, z) (--workgroups X,Y,Z, grid_override) of {x}x{y}x{z} invocations each, or an output of "
        f"{'two' if z == 1 else 'three'} axes."
    )
    assert refusal(lambda: grid_for(None, size)) == (InvalidInput, 2201, message)


def test_a_grid_may_be_given_for_a_workgroup_of_several_axes() -> None:
    assert grid_for((2, 3), (16, 16, 1)) == (2, 3, 1)


def test_limits_are_those_of_the_device_and_no_others() -> None:
    wide = replace(LIMITS, max_compute_work_group_size=(4096, 1, 1), max_compute_work_group_invocations=4096)
    assert local_size(reflection(local_size=(LocalSize(4096), LocalSize(1), LocalSize(1))), specialize((), {}), wide) == (
        4096,
        1,
        1,
    )
