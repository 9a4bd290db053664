"""Several variables at one binding are one buffer: what is written through one view is read through the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from kernels import glsl
from literals import refusal

from vyre_driver.errors import InvalidInput, OutputNotWritten

if TYPE_CHECKING:
    from conftest import CompileText

    from vyre_driver import Driver

pytestmark = pytest.mark.device

# Each invocation writes a vector and reads its numbers and words back.
VIEWS = """#version 450
layout(local_size_x = 64) in;
layout(set = 1, binding = 2) buffer A4 { vec4 a4[]; };
layout(set = 1, binding = 2) buffer A { float a[]; };
layout(set = 1, binding = 2) buffer AU { uint au[]; };
layout(set = 1, binding = 5) writeonly buffer Z { uint z[]; };
layout(set = 1, binding = 5) writeonly buffer Z2 { uvec2 z2[]; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i >= a4.length()) return;
    a4[i] = a4[i] * 2.0;
    memoryBarrierBuffer();
    z[4 * i] = uint(a[4 * i]);
    z[4 * i + 1] = au[4 * i + 1];
    z2[2 * i + 1] = uvec2(i, au[4 * i + 3]);
}
"""
FLOATS = np.arange(40, dtype=np.float32)


def read_back() -> tuple[list[float], list[int]]:
    """What the shader leaves of ``FLOATS``, worked out with numpy."""
    doubled = FLOATS * 2
    words = np.empty(40, np.uint32)
    words[0::4], words[1::4] = doubled[0::4], doubled.view(np.uint32)[1::4]
    words[2::4], words[3::4] = np.arange(10), doubled.view(np.uint32)[3::4]
    return doubled.tolist(), words.tolist()


@pytest.mark.parametrize("strict", [False, True])
def test_what_one_view_wrote_the_others_read(driver: Driver, strict: bool) -> None:  # noqa: FBT001 -- a parameter of the test
    kernel = driver.compile(glsl(VIEWS))
    found = kernel(FLOATS, out_shapes={"z": 40}, strict=strict)
    assert tuple(one.tolist() for one in found) == read_back()


def test_a_bound_kernel_has_one_buffer_for_all_views(driver: Driver) -> None:
    kernel = driver.compile(glsl(VIEWS))
    a, z = driver.buffer(FLOATS), driver.empty(40, np.uint32)
    kernel.bind(a, z).run()
    assert (a.read().tolist(), z.read().tolist()) == read_back()


def test_views_of_different_types_take_arrays_of_either_as_raw_bytes(compiled: CompileText) -> None:
    kernel = compiled(
        "layout(binding = 0) buffer A { float a[]; };\nlayout(binding = 0) buffer B { uint b[]; };\n"
        "void main() { uint i = gl_GlobalInvocationID.x; if (i < b.length()) b[i] = floatBitsToUint(a[i] + 1.0); }\n"
    )
    for given in (FLOATS, FLOATS.view(np.uint32)):
        found = kernel(given)
        assert isinstance(found, np.ndarray)
        assert (found.dtype, found.view(np.float32).tolist()) == (given.dtype, (FLOATS + 1).tolist())


def test_a_buffer_smaller_than_the_largest_view_is_refused_and_the_driver_works_on(driver: Driver) -> None:
    kernel = driver.compile(glsl(VIEWS))
    problem = "input_output 'a4' has 12 bytes, less than the 16 bytes that the largest of the shader's views of it takes"
    assert refusal(lambda: kernel(FLOATS[:3], out_shapes={"z": 40})) == (
        InvalidInput,
        2201,
        f"{problem}. Fix: pass 16 bytes or more.",
    )
    found = kernel(FLOATS, out_shapes={"z": 40})
    assert tuple(one.tolist() for one in found) == read_back()


def test_a_strict_call_tells_what_no_view_wrote(compiled: CompileText) -> None:
    kernel = compiled(
        "layout(binding = 0) writeonly buffer Z { uint z[]; };\nlayout(binding = 0) writeonly buffer Z2 { uvec2 z2[]; };\n"
        "void main() { if (gl_GlobalInvocationID.x == 0) { z[0] = 1u; z2[1] = uvec2(2u); } }\n"
    )
    with pytest.raises(OutputNotWritten) as error:
        kernel(out_shapes={"z": 6}, strict=True)
    assert (error.value.context["count"], error.value.context["first_index"]) == (3, 1)
