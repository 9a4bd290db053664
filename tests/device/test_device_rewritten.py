"""Modules that kompute could not bind run rewritten, called by the names in their text."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import numpy as np
import pytest

from vyre_driver import Driver, SpirvModule
from vyre_driver.errors import UnsupportedFeature

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.device

SETS = """#version 450
layout(local_size_x = 64) in;
layout(set = 2, binding = 7) buffer Y { float y[]; };
layout(set = 0, binding = 3) readonly buffer X { float x[]; };
layout(set = 2, binding = 1) uniform Scale { float alpha; vec3 shift; mat3 turn; float steps[3]; } scale;
layout(set = 1, binding = 0) writeonly buffer Z { uint z[]; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i < y.length()) y[i] += scale.alpha * x[i] + scale.shift.z + scale.turn[1][2] + scale.steps[2];
    if (i < z.length()) z[i] = i * 3u;
}
"""
SCALE = np.zeros(32, np.float32)
SCALE[0], SCALE[6], SCALE[8 + 4 + 2], SCALE[20 + 8] = 2, 10, 100, 1000
TWO_ENTRIES = """
               OpCapability Shader
               OpMemoryModel Logical GLSL450
               OpEntryPoint GLCompute %twos "twos"
               OpEntryPoint GLCompute %threes "threes"
               OpExecutionMode %twos LocalSize 1 1 1
               OpExecutionMode %threes LocalSize 1 1 1
               OpName %a "a"
               OpName %b "b"
               OpDecorate %array ArrayStride 4
               OpDecorate %block Block
               OpMemberDecorate %block 0 Offset 0
               OpDecorate %a DescriptorSet 0
               OpDecorate %a Binding 4
               OpDecorate %b DescriptorSet 0
               OpDecorate %b Binding 4
       %void = OpTypeVoid
         %fn = OpTypeFunction %void
       %uint = OpTypeInt 32 0
       %zero = OpConstant %uint 0
        %two = OpConstant %uint 2
      %three = OpConstant %uint 3
      %array = OpTypeRuntimeArray %uint
      %block = OpTypeStruct %array
   %to_block = OpTypePointer StorageBuffer %block
    %to_uint = OpTypePointer StorageBuffer %uint
          %a = OpVariable %to_block StorageBuffer
          %b = OpVariable %to_block StorageBuffer
       %twos = OpFunction %void None %fn
         %l1 = OpLabel
         %p1 = OpAccessChain %to_uint %a %zero %zero
               OpStore %p1 %two
               OpReturn
               OpFunctionEnd
     %threes = OpFunction %void None %fn
         %l2 = OpLabel
         %p2 = OpAccessChain %to_uint %b %zero %zero
               OpStore %p2 %three
               OpReturn
               OpFunctionEnd
"""


def run_tool(tool: str, *arguments: str) -> None:
    path = shutil.which(tool)
    assert path is not None
    subprocess.run([path, *arguments], check=True, capture_output=True)


@pytest.mark.parametrize("target", ["vulkan1.0", "vulkan1.1"])
def test_other_sets_gaps_uniform_blocks_and_names_of_the_entry_point_run_right(
    driver: Driver, tmp_path: Path, target: str
) -> None:
    (tmp_path / "sets.comp").write_text(SETS)
    named = ("-e", "saxpy", "--source-entrypoint", "main")
    output = str(tmp_path / "sets.spv")
    run_tool("glslangValidator", "-V", "--target-env", target, *named, "-o", output, str(tmp_path / "sets.comp"))
    kernel = driver.compile(SpirvModule.from_file(output))
    x, y = np.arange(100, dtype=np.float32), np.ones(100, np.float32)
    scale = SCALE.view(np.uint8)[: kernel.plan.bindings[2].static_byte_len]
    found = kernel(x, scale, y, out_shapes={"z": 100})
    assert isinstance(found, tuple)
    by_name = dict(zip(["z", "y"], found, strict=True))
    np.testing.assert_array_equal(by_name["y"], y + 2 * x + 1110)
    np.testing.assert_array_equal(by_name["z"], np.arange(100, dtype=np.uint32) * 3)


@pytest.mark.validation
def test_each_of_two_entry_points_runs_by_its_name_under_a_key_of_its_own(driver: Driver, tmp_path: Path) -> None:
    (tmp_path / "two.spvasm").write_text(TWO_ENTRIES)
    run_tool("spirv-as", "--target-env", "vulkan1.1", "-o", str(tmp_path / "two.spv"), str(tmp_path / "two.spvasm"))
    kernels = {name: driver.compile(SpirvModule.from_file(tmp_path / "two.spv", entry=name)) for name in ("twos", "threes")}
    found = {name: kernel(np.zeros(1, np.uint32)).tolist() for name, kernel in kernels.items()}  # type: ignore[union-attr]
    keys = {kernel.trace.key for kernel in kernels.values()}
    assert (found, len(keys)) == ({"twos": [2], "threes": [3]}, 2)


def test_what_cannot_be_rewritten_is_refused_when_it_is_compiled(driver: Driver) -> None:
    source = (
        "#version 450\nlayout(local_size_x = 1) in;\nlayout(binding = 0, r32f) uniform image2D picture;\n"
        "void main() { imageStore(picture, ivec2(0), vec4(1)); }\n"
    )
    module = SpirvModule.from_glsl(source)
    with pytest.raises(UnsupportedFeature, match="'picture' is a storage image"):
        driver.compile(module)
