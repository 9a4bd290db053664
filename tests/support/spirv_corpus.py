"""Modules to begin a search from: the shipped ones, and GLSL that has a little of everything, compiled here and now."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from vyre_driver.spirv.shipped import shipped_module

if TYPE_CHECKING:
    from collections.abc import Sequence

TARGETS = ("vulkan1.0", "vulkan1.1", "vulkan1.3")  # SPIR-V 1.0, 1.3 and 1.6
TEXTS = {
    "everything bindable": """
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_shader_8bit_storage : require
layout(local_size_x_id = 3, local_size_y = 2) in;
layout(constant_id = 0) const uint TILE = 16;
layout(constant_id = 1) const bool FAST = true;
layout(constant_id = 7) const float SCALE = 0.5;
struct Cell { vec3 at; mat3x2 turn; float16_t half_a[2]; uint8_t flags; };
layout(set = 2, binding = 7) buffer Cells { uint count; Cell cells[]; } store;
layout(set = 0, binding = 3) readonly restrict buffer In { mat4 m[4]; double wide; } source;
layout(set = 2, binding = 1) uniform Scale { float alpha; vec3 shift; float steps[3]; } scale;
layout(set = 1, binding = 0) writeonly buffer Out { ivec4 z[]; };
layout(push_constant) uniform Push { layout(offset = 8) uvec2 size; float f[3]; } push;
shared vec3 tile[TILE * 2];
shared struct { uint a; bool b; } one;
void main() {
    uint i = gl_GlobalInvocationID.x;
    tile[i % TILE] = scale.shift * SCALE * push.f[1];
    barrier();
    if (FAST) store.cells[i].at = tile[0] + vec3(source.m[1][2][3]) * float(source.wide);
    z[i] = ivec4(push.size, atomicAdd(store.count, 1u), int(one.a));
}
""",
    "views of one buffer": """
#extension GL_EXT_shader_16bit_storage : require
layout(local_size_x = 64) in;
struct Pair { float scale; uint words[3]; };
layout(set = 1, binding = 4) buffer A { float a[]; };
layout(set = 1, binding = 4) readonly buffer A4 { vec4 a4[]; };
layout(set = 1, binding = 4) readonly buffer AP { Pair ap[]; };
layout(set = 1, binding = 7) writeonly buffer Z { uint first; uint z[]; };
layout(set = 1, binding = 7) buffer ZH { float16_t zh[32]; };
layout(binding = 0) uniform U { vec4 u; };
layout(binding = 0) uniform V { mat2 v; float w; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    a[i] = a4[i].x * u.y + ap[i].scale * v[1][1] * w;
    z[i] = ap[i].words[2];
    zh[i % 32] = float16_t(a[i]);
}
""",
    "nothing bindable": """
#extension GL_EXT_spirv_intrinsics : require
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4464, 4467], 4459, 16);
spirv_execution_mode(4462, 32);
layout(local_size_x = 4, local_size_y = 4) in;
layout(set = 0, binding = 0, rgba8) uniform writeonly image2D picture;
layout(set = 0, binding = 1) uniform sampler2DArray photo;
layout(set = 0, binding = 2, r32ui) uniform uimageBuffer texels;
layout(set = 3, binding = 5) buffer Many { float f[]; } many[3];
void main() {
    ivec2 at = ivec2(gl_GlobalInvocationID.xy);
    imageStore(picture, at, texture(photo, vec3(at, 0)) * many[2].f[0] + imageLoad(texels, 0));
}
""",
    "bare": """
layout(local_size_x = 64) in;
layout(binding = 0) buffer Y { float y[]; };
float twice(float x) { return x + x; }
void main() { for (int i = 0; i < 8; i++) y[i] = twice(y[i]); }
""",
}


def modules(*, debug_levels: Sequence[Sequence[str]] = ((), ("-g",), ("-g0",))) -> list[bytes]:
    """The shipped modules, and each text for each target that it can be compiled for, with so much debugging information."""
    found = [shipped_module(name).code for name in ("saxpy", "byte_histogram", "mandelbrot")]
    tool = shutil.which("glslangValidator")
    if tool is None:
        return found
    with tempfile.TemporaryDirectory() as folder:
        source, output = Path(folder, "shader.comp"), Path(folder, "shader.spv")
        for text in TEXTS.values():
            source.write_text(f"#version 460\n{text}")
            for target in TARGETS:
                for debug in debug_levels:
                    command = [tool, "-V", "--target-env", target, *debug, "-o", str(output), str(source)]
                    subprocess.run(command, check=True, capture_output=True, timeout=60)
                    found.append(output.read_bytes())
    return found
