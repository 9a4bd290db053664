"""Pipelines that require the size of their subgroups, for the validation layer to watch, beside those that do not."""

from __future__ import annotations

import numpy as np
from kernels import glsl

from vyre_driver import Driver
from vyre_driver.target.config import DispatchConfig

SIZES = """#version 450
#extension GL_KHR_shader_subgroup_basic : require
layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint GROUP = 64u;
layout(binding = 0) writeonly buffer A { uvec2 a[]; };
void main() { if (gl_LocalInvocationID.x == 0u) a[gl_WorkGroupID.x] = uvec2(gl_SubgroupSize, gl_NumSubgroups); }
"""


def required_subgroups() -> None:
    """Workgroups of one subgroup and of four, of the device's own size."""
    with Driver() as driver:
        size = driver.device.subgroup_size
        for count in (1, 4, 1):
            for config in (None, DispatchConfig(subgroup_size=size)):
                kernel = driver.compile(glsl(SIZES), {"GROUP": count * size}, config)
                found = kernel(workgroups=3, out_shapes={"a": 3})
                np.testing.assert_array_equal(found, np.full((3, 2), (size, count), np.uint32))
