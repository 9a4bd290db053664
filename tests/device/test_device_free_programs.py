"""A program that is free of its workgroup gives the same bits on the device with each workgroup of its space."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from example_programs import example

from vyre_driver.autotune.target import program_space
from vyre_driver.ir import BufferDecl, DataType, Program, buf_len, cast, gid_x, if_, let, load, return_, store, var

pytestmark = pytest.mark.device

if TYPE_CHECKING:
    from vyre_driver import Driver

N = 1000  # fills no workgroup of the space


def narrowed() -> Program:
    """Every invocation stores 16 bits beside a neighbour's; those past the end have returned."""
    source, out = BufferDecl.read("source", 0, DataType.U32), BufferDecl.read_write("out", 1, DataType.U16)
    place = var("place", DataType.U32)
    nodes = [
        let(place, gid_x()),
        if_(place >= buf_len(out), [return_()]),
        store(out, place, cast(DataType.U16, load(source, place) * 3)),
    ]
    return Program.wrapped([source, out], (48, 1, 1), nodes)


RANDOM = np.random.default_rng(10)
FLOATS = RANDOM.random(N, np.float32)
WORDS = RANDOM.integers(0, 2**32, N, dtype=np.uint32)


@pytest.mark.parametrize(
    ("program", "inputs"),
    [
        (example("saxpy", 2.5), (FLOATS, FLOATS[::-1].copy())),
        (example("histogram", 37), (WORDS, np.zeros(37, np.uint32))),
        (narrowed(), (WORDS, np.zeros(N, np.uint16))),
    ],
    ids=["saxpy", "histogram", "narrowed"],
)
def test_a_free_program_gives_the_same_bits_with_each_workgroup(
    driver: Driver, program: Program, inputs: tuple[Any, ...]
) -> None:
    expected = driver.compile(program)(*inputs).tobytes()
    sizes = [one.workgroup_size for one in program_space(program).candidates(driver.device.limits)]
    found = [driver.compile(program.with_workgroup_size(size))(*inputs).tobytes() for size in sizes]
    assert (len(sizes) > 1, found) == (True, [expected] * len(sizes))


@pytest.mark.parametrize("program", [example("prefix_sum"), example("matmul", 32)], ids=["prefix_sum", "matmul"])
def test_a_program_with_workgroup_memory_keeps_its_own_workgroup(driver: Driver, program: Program) -> None:
    found = program_space(program).candidates(driver.device.limits)
    assert [one.workgroup_size for one in found] == [program.workgroup_size]
