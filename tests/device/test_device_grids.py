"""Calls without a grid: guessed where there is one axis, refused where there may be more."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from kernels import glsl

from vyre_driver.errors import InvalidInput
from vyre_driver.ir import BufferDecl, DataType, Program, gid_x, gid_y, store

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import CompileText

    from vyre_driver import Driver

pytestmark = pytest.mark.device
PICTURE = """#version 450
layout(local_size_x_id = 0, local_size_y_id = 1) in;
layout(binding = 0) writeonly buffer Y { uint y[]; };
void main() {
    uvec2 at = gl_GlobalInvocationID.xy;
    if (at.x < 10u && 10u * at.y + at.x < y.length()) y[10u * at.y + at.x] = 100u * at.y + at.x;
}
"""
EXPECTED = [100 * row + column for row in range(10) for column in range(10)]


@pytest.mark.parametrize("size", [(1, 1), (64, 1), (8, 8)])
def test_a_shader_of_two_axes_needs_its_grid_whatever_its_workgroup(driver: Driver, size: tuple[int, int]) -> None:
    kernel = driver.compile(glsl(PICTURE), {"constant_0": size[0], "constant_1": size[1]})
    buffer, counts = driver.empty(100, np.uint32), {"y": 100}
    calls: list[Callable[[], object]] = [
        lambda: kernel(out_shapes=counts),
        lambda: kernel(out_shapes=counts, strict=True),
        lambda: kernel.bind(buffer),
    ]
    for call in calls:
        with pytest.raises(InvalidInput, match="the grid cannot be guessed for a"):
            call()
    groups = -(-10 // size[0]), -(-10 // size[1])
    kernel.bind(buffer, workgroups=groups).run()
    found = kernel(out_shapes=counts, workgroups=groups)
    assert (np.asarray(found).tolist(), buffer.read().tolist()) == (EXPECTED, EXPECTED)


def test_a_program_of_two_axes_needs_its_grid(driver: Driver) -> None:
    out = BufferDecl.output("out", 0, DataType.U32).with_count(100)
    for size in ((1, 1, 1), (2, 5, 1)):
        kernel = driver.compile(Program.wrapped([out], size, [store(out, gid_y() * 10 + gid_x(), gid_y() * 100 + gid_x())]))
        with pytest.raises(InvalidInput, match="the grid cannot be guessed for a"):
            kernel()
        found = kernel(workgroups=(10 // size[0], 10 // size[1]))
        assert np.asarray(found).tolist() == EXPECTED


def test_a_grid_of_one_axis_is_guessed_though_the_index_goes_through_a_variable(compiled: CompileText) -> None:
    text = "layout(binding = 0) writeonly buffer Y { uint y[]; };\n"
    text += "void main() { uvec3 at = gl_GlobalInvocationID; if (at.x < y.length()) y[at.x] = at.x; }"
    assert np.asarray(compiled(text)(out_shapes={"y": 130})).tolist() == list(range(130))
