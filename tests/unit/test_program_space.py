"""The workgroup sizes that a program may be tuned to."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from literals import LIMITS

from vyre_driver.autotune.search.space import Candidate
from vyre_driver.autotune.target import program_space
from vyre_driver.errors import InvalidTuningSpace
from vyre_driver.ir import builders as ir
from vyre_driver.ir.buffers import BufferDecl
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.program import Program

if TYPE_CHECKING:
    from collections.abc import Callable

    from vyre_driver.autotune.search.space import TuningSpace

OUT = BufferDecl.read_write("out", 0, DataType.U32)
ROOMY = replace(LIMITS, max_compute_work_group_invocations=1024)

NAMES = ("workgroup_size_x", "workgroup_size_y", "workgroup_size_z")


def free(*size: int) -> Program:
    return Program.wrapped([OUT], size, [ir.store(OUT, ir.gid_x(), ir.gid_x())])


def bound(*size: int) -> Program:
    return Program.wrapped([OUT], size, [ir.store(OUT, ir.gid_x(), ir.lid_x())])


@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        (32, (32, 64, 128, 256, 512, 1024)),
        (64, (64, 128, 256, 32, 512, 1024)),
        (256, (256, 64, 128, 32, 512, 1024)),
        (1024, (1024, 64, 128, 256, 32, 512)),
        (1, (1, 64, 128, 256, 32, 512, 1024)),
        (96, (96, 64, 128, 256, 32, 512, 1024)),
    ],
)
def test_a_free_program_has_its_own_size_first_and_six_in_a_fixed_order(declared: int, expected: tuple[int, ...]) -> None:
    found = program_space(free(declared, 1, 1)).candidates(ROOMY)
    assert found == tuple(Candidate((size, 1, 1), (("workgroup_size_x", size),)) for size in expected)


def test_a_size_that_the_device_does_not_take_is_left_out() -> None:
    space, narrow = program_space(free(512, 1, 1)), replace(LIMITS, max_compute_work_group_size=(128, 512, 64))
    found = [[one.workgroup_size[0] for one in space.candidates(limits)] for limits in (LIMITS, narrow)]
    assert found == [[512, 64, 128, 256, 32], [64, 128, 32]]


@pytest.mark.parametrize("size", [(64, 1, 1), (8, 8, 1), (2, 3, 4)])
def test_a_bound_program_has_its_own_size_alone(size: tuple[int, int, int]) -> None:
    assert program_space(bound(*size)).candidates(LIMITS) == (Candidate(size, tuple(zip(NAMES, size, strict=True))),)


def test_a_free_program_of_two_axes_has_its_own_size_alone() -> None:
    assert program_space(free(8, 8, 1)).candidates(LIMITS) == (Candidate((8, 8, 1), tuple(zip(NAMES, (8, 8, 1), strict=True))),)


@pytest.mark.parametrize("ask", [lambda space: space.candidates(LIMITS), lambda space: space.first(LIMITS)])
def test_a_bound_program_that_the_device_does_not_take_has_no_size(ask: Callable[[TuningSpace], object]) -> None:
    with pytest.raises(
        InvalidTuningSpace,
        match="none of 1 candidates will do on this device: "
        "workgroup_size_x=1024, workgroup_size_y=1, workgroup_size_z=1: 1024 invocations",
    ):
        ask(program_space(bound(1024, 1, 1)))
