"""Shaders that state float controls run where the device has them, in every width, and round as they say."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from kernels import glsl

from vyre_driver.errors import UnsupportedFeature
from vyre_driver.vulkan.version import API_1_2

if TYPE_CHECKING:
    from vyre_driver import Driver

pytestmark = pytest.mark.device

SOURCE = """#version 450
#extension GL_EXT_spirv_intrinsics : require
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [{capability}], {mode}, {width});
layout(local_size_x = 64) in;
layout(binding = 0) readonly buffer X {{ float x[]; }};
layout(binding = 1) buffer Y {{ float y[]; }};
void main() {{ uint i = gl_GlobalInvocationID.x; if (i < y.length()) y[i] = x[i] + y[i]; }}
"""
# Execution mode, capability, and how Vulkan's members for it begin.
CONTROLS = [
    (4459, 4464, "shaderDenormPreserveFloat"),
    (4460, 4465, "shaderDenormFlushToZeroFloat"),
    (4461, 4466, "shaderSignedZeroInfNanPreserveFloat"),
    (4462, 4467, "shaderRoundingModeRTEFloat"),
    (4463, 4468, "shaderRoundingModeRTZFloat"),
]
# The sum of the first two lies between one and the third, and nearer to the third.
ONE, PART, UP = np.float32(1), np.float32(1.75 * 2**-24), np.float32(1 + 2**-23)


def result(driver: Driver, mode: int, capability: int, width: int) -> object:
    module = glsl(SOURCE.format(capability=capability, mode=mode, width=width))
    try:
        found = driver.compile(module)(np.full(64, PART), np.full(64, ONE))
    except UnsupportedFeature:
        return "refused"
    return np.unique(found).tolist()  # type: ignore[arg-type]


def test_a_float_control_runs_where_the_device_has_it_and_is_refused_where_not(driver: Driver) -> None:
    has = driver.device.float_controls if driver.context.device.api_version >= API_1_2 else frozenset()
    found, expected = {}, {}
    for mode, capability, name in CONTROLS:
        for width in (16, 32, 64):
            member = f"{name}{width}"
            found[member] = result(driver, mode, capability, width)
            expected[member] = [ONE if member == "shaderRoundingModeRTZFloat32" else UP] if member in has else "refused"
    assert found == expected
