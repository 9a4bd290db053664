"""What is read from modules that a real compiler made."""

from __future__ import annotations

import shutil
import subprocess
from importlib.resources import files
from math import prod
from typing import TYPE_CHECKING

import pytest
from assembler import byte_swapped, unsupported
from kernels import glsl
from literals import BOOL, F32, FLOATS, I32, U32, UINTS, refusal

from vyre_driver.spirv.interface import LocalSize, SpecConstant
from vyre_driver.spirv.layout import Array, Element, Matrix, Member, Scalar, Struct, Vector
from vyre_driver.spirv.module import SpirvModule
from vyre_driver.spirv.reflection import BufferInterface, Reflection
from vyre_driver.spirv.shipped import shipped_module

if TYPE_CHECKING:
    from pathlib import Path

HEAD = "#version 450\nlayout(local_size_x = 64) in;\n"
OUTPUT = "layout(set = 0, binding = 9) buffer Out { float result[]; };\n"
ONE_AXIS = (LocalSize(64), LocalSize(1), LocalSize(1))

SHIPPED = {
    "saxpy": Reflection(
        version=(1, 3),
        capabilities=(1,),
        buffers=(
            BufferInterface("x", 0, readable=True, writable=False, header_bytes=0, element=FLOATS, count=None),
            BufferInterface("y", 1, readable=True, writable=True, header_bytes=0, element=FLOATS, count=None),
        ),
        push_constants=(Member("alpha", 0, F32), Member("count", 4, U32)),
        push_constant_bytes=8,
        spec_constants=(),
        local_size=(LocalSize(128), LocalSize(1), LocalSize(1)),
    ),
    "byte_histogram": Reflection(
        version=(1, 3),
        capabilities=(1,),
        buffers=(
            BufferInterface("words", 0, readable=True, writable=False, header_bytes=0, element=UINTS, count=None),
            BufferInterface("counts", 1, readable=True, writable=True, header_bytes=0, element=UINTS, count=256),
        ),
        push_constants=(Member("byte_count", 0, U32),),
        push_constant_bytes=4,
        spec_constants=(),
        local_size=(LocalSize(128), LocalSize(1), LocalSize(1)),
        shared_bytes=1024,
    ),
    "mandelbrot": Reflection(
        version=(1, 3),
        capabilities=(1,),
        buffers=(BufferInterface("escape", 0, readable=False, writable=True, header_bytes=0, element=FLOATS, count=None),),
        push_constants=(
            Member("left", 0, F32),
            Member("top", 4, F32),
            Member("step", 8, F32),
            Member("width", 12, U32),
            Member("height", 16, U32),
        ),
        push_constant_bytes=20,
        spec_constants=(SpecConstant("MAX_ITERATIONS", 0, U32, 256),),
        local_size=(LocalSize(16), LocalSize(8), LocalSize(1)),
    ),
}


def test_a_workgroup_that_nobody_can_choose_is_one_that_every_device_has() -> None:
    """Vulkan promises 128 invocations, and no more: what doctor and demo run has to run there."""
    names = [one.name.removesuffix(".spv") for one in files("vyre_driver.shaders").iterdir() if one.name.endswith(".spv")]
    sizes = {name: shipped_module(name).reflection.local_size for name in names}
    fixed = {name: prod(one.value for one in size) for name, size in sizes.items() if all(one.spec_id is None for one in size)}
    assert ({"saxpy", "byte_histogram", "mandelbrot", "fill_words"} <= set(fixed), max(fixed.values())) == (True, 128)


def reflect_glsl(declarations: str, body: str = "") -> Reflection:
    return glsl(f"{HEAD}{declarations}\nvoid main() {{ {body} }}\n").reflection


def only_buffer(declarations: str, body: str = "") -> BufferInterface:
    (found,) = reflect_glsl(declarations, body).buffers
    return found


def compile_with(tmp_path: Path, source: str, *flags: str) -> bytes:
    tool = shutil.which("glslangValidator")
    assert tool is not None
    (tmp_path / "shader.comp").write_text(source)
    subprocess.run([tool, "-V", *flags, "-o", "shader.spv", "shader.comp"], cwd=tmp_path, check=True, capture_output=True)
    return (tmp_path / "shader.spv").read_bytes()


@pytest.mark.parametrize("name", sorted(SHIPPED))
def test_a_shipped_shader_has_the_contract_that_its_source_states(name: str) -> None:
    assert shipped_module(name).reflection == SHIPPED[name]


@pytest.mark.parametrize("name", sorted(SHIPPED))
def test_a_module_in_the_other_byte_order_is_the_same_module(name: str) -> None:
    native = shipped_module(name)
    assert SpirvModule.from_bytes(byte_swapped(native.code), name=native.name) == native


@pytest.mark.parametrize(
    ("declaration", "name"),
    [
        ("buffer Block { float data[]; } instance;", "instance"),
        ("buffer Block { float data[]; };", "data"),
        ("buffer Block { uint size; float data[]; };", "Block"),
        ("buffer Block { uint size; float data[]; } instance;", "instance"),
    ],
)
def test_a_buffer_is_named_by_its_instance_then_its_only_member_then_its_block(declaration: str, name: str) -> None:
    assert only_buffer(f"layout(set = 0, binding = 0) {declaration}").name == name


@pytest.mark.parametrize(
    ("declaration", "readable", "writable"),
    [
        ("buffer Block { float data[]; };", True, True),
        ("readonly buffer Block { float data[]; };", True, False),
        ("writeonly buffer Block { float data[]; };", False, True),
        ("buffer Block { readonly float data[]; };", True, False),
        ("buffer Block { writeonly float data[]; };", False, True),
        ("buffer Block { readonly uint size; readonly float data[]; };", True, False),
        ("buffer Block { readonly uint size; float data[]; };", True, True),
        ("buffer Block { writeonly uint size; float data[]; };", True, True),
    ],
)
def test_a_buffer_is_closed_to_reading_or_writing_only_as_a_whole(declaration: str, readable: bool, writable: bool) -> None:  # noqa: FBT001 -- columns of the table
    found = reflect_glsl(f"layout(set = 0, binding = 0) {declaration}\n{OUTPUT}").buffers[0]
    assert (found.readable, found.writable) == (readable, writable)


@pytest.mark.parametrize("access", ["", "readonly ", "writeonly "])
def test_the_older_spelling_of_a_storage_buffer_is_the_same_contract(tmp_path: Path, access: str) -> None:
    source = f"{HEAD}layout(set = 0, binding = 3) {access}buffer Block {{ float data[]; }};\n{OUTPUT}void main() {{ }}\n"
    newer = SpirvModule.from_bytes(compile_with(tmp_path, source, "--target-env", "vulkan1.1")).reflection
    older = SpirvModule.from_bytes(compile_with(tmp_path, source, "--target-env", "vulkan1.0")).reflection
    assert (older.version, older.buffers) == ((1, 0), newer.buffers)


def test_a_module_for_vulkan_1_0_really_uses_the_older_spelling(tmp_path: Path) -> None:
    source = f"{HEAD}{OUTPUT}void main() {{ }}\n"
    words = memoryview(compile_with(tmp_path, source, "--target-env", "vulkan1.0")).cast("I").tolist()
    block = words[words.index(3 << 16 | 71) :][:3]
    assert (block[2], 12 in [words[at + 3] for at, word in enumerate(words) if word == 4 << 16 | 59]) == (3, False)


LAYOUTS = {
    "float data[];": (0, FLOATS, None),
    "uint data[];": (0, UINTS, None),
    "int data[];": (0, Element(4, I32, 1), None),
    "vec2 data[];": (0, Element(8, F32, 2), None),
    "vec4 data[];": (0, Element(16, F32, 4), None),
    "uvec4 data[];": (0, Element(16, U32, 4), None),
    "vec3 data[];": (0, Element(16, None, 16), None),
    "mat4 data[];": (0, Element(64, None, 64), None),
    "mat2 data[];": (0, Element(16, None, 16), None),
    "Pair data[];": (0, Element(8, None, 8), None),
    "float data[][3];": (0, Element(12, F32, 3), None),
    "vec2 data[][3];": (0, Element(24, F32, 6), None),
    "vec3 data[][3];": (0, Element(48, None, 48), None),
    "float data[][2][3];": (0, Element(24, F32, 6), None),
    "uint size; float data[];": (4, FLOATS, None),
    "uint size; vec4 data[];": (16, Element(16, F32, 4), None),
    "uint size; Pair pair; float data[];": (12, FLOATS, None),
    "layout(offset = 64) float data[];": (64, FLOATS, None),
    "float data[5];": (0, FLOATS, 5),
    "vec4 data[5];": (0, Element(16, F32, 4), 5),
    "vec3 data[5];": (0, Element(16, None, 16), 5),
    "Pair data[5];": (0, Element(8, None, 8), 5),
    "float data[5][3];": (0, Element(12, F32, 3), 5),
    "float value;": (0, FLOATS, 1),
    "vec2 value;": (0, Element(8, F32, 2), 1),
    "vec3 value;": (0, Element(12, F32, 3), 1),
    "mat4 value;": (0, Element(64, None, 64), 1),
    "mat3 value;": (0, Element(48, None, 48), 1),
    "Pair value;": (0, Element(8, None, 8), 1),
    "uint size; float data[5];": (0, Element(24, None, 24), 1),
    "uint a; mat4 b;": (0, Element(80, None, 80), 1),
    "uint a; vec3 b[2];": (0, Element(48, None, 48), 1),
    "layout(row_major) mat2x3 value;": (0, Element(24, None, 24), 1),
    "layout(row_major) mat4x2 value;": (0, Element(32, None, 32), 1),
    "layout(row_major) mat4x3 value;": (0, Element(48, None, 48), 1),
}


@pytest.mark.parametrize("members", LAYOUTS)
def test_a_buffer_has_the_header_element_and_count_that_its_members_say(members: str) -> None:
    found = only_buffer(
        f"struct Pair {{ uint key; float weight; }};\nlayout(set = 0, binding = 0) buffer Block {{ {members} }};"
    )
    assert (found.header_bytes, found.element, found.count) == LAYOUTS[members]


@pytest.mark.parametrize(("members", "stride"), [("float data[];", 16), ("vec2 data[];", 16), ("float data[][3];", 48)])
def test_padded_elements_travel_as_raw_bytes(members: str, stride: int) -> None:
    assert only_buffer(f"layout(std140, set = 0, binding = 0) buffer Block {{ {members} }};").element == Element(
        stride, None, stride
    )


def test_a_64_bit_buffer_keeps_its_element_and_names_its_capability() -> None:
    found = reflect_glsl("layout(set = 0, binding = 0) buffer Block { double data[]; };")
    assert (str(found.buffers[0].element.scalar), found.buffers[0].element.stride, found.capabilities) == ("f64", 8, (1, 10))


def test_buffers_come_in_binding_order_whatever_the_order_of_their_declarations() -> None:
    declarations = "\n".join(f"layout(set = 0, binding = {at}) buffer B{at} {{ float b{at}[]; }};" for at in (7, 0, 3))
    found = reflect_glsl(declarations).buffers
    assert [(buffer.binding, buffer.name) for buffer in found] == [(0, "b0"), (1, "b3"), (2, "b7")]


def test_a_buffer_whose_length_is_specialized_is_not_taken_for_one_of_its_default_length() -> None:
    found = only_buffer(
        "layout(constant_id = 0) const uint N = 4;\nlayout(set = 0, binding = 0) buffer Block { float data[N]; };",
        "data[gl_GlobalInvocationID.x] = 1.0;",
    )
    assert found.count is None


@pytest.mark.parametrize(
    ("members", "expected", "byte_len"),
    [
        ("float a;", [("a", 0, F32)], 4),
        ("uint a; int b; float c;", [("a", 0, U32), ("b", 4, I32), ("c", 8, F32)], 12),
        ("float a; vec2 b;", [("a", 0, F32), ("b", 8, Vector(F32, 2))], 16),
        ("vec3 a; float b;", [("a", 0, Vector(F32, 3)), ("b", 12, F32)], 16),
        ("float a; vec3 b;", [("a", 0, F32), ("b", 16, Vector(F32, 3))], 28),
        ("uvec4 a; ivec2 b;", [("a", 0, Vector(U32, 4)), ("b", 16, Vector(I32, 2))], 24),
        ("float a[3];", [("a", 0, Array(F32, 3, 4))], 12),
        ("layout(offset = 16) uint a;", [("a", 16, U32)], 20),
        ("uint a; double b;", [("a", 0, U32), ("b", 8, Scalar("f", 64))], 16),
        ("mat3x2 a;", [("a", 0, Matrix(F32, 3, 2, 8, row_major=False))], 24),
        ("layout(row_major) mat3x2 a;", [("a", 0, Matrix(F32, 3, 2, 16, row_major=True))], 32),
        ("vec3 a[2];", [("a", 0, Array(Vector(F32, 3), 2, 16))], 32),
        ("Pair a;", [("a", 0, Struct("Pair", (Member("key", 0, U32), Member("weight", 4, F32)), 8))], 8),
    ],
)
def test_push_constants_are_read_with_their_gaps(members: str, expected: list[tuple[object, ...]], byte_len: int) -> None:
    pair = "struct Pair { uint key; float weight; };"
    found = reflect_glsl(f"{pair}{OUTPUT}layout(push_constant) uniform Push {{ {members} }};")
    assert (found.push_constants, found.push_constant_bytes) == (tuple(Member(*one) for one in expected), byte_len)


@pytest.mark.parametrize(("members", "name"), [("float a[N];", "a"), ("Sized a;", "a.data")])
def test_a_push_constant_that_cannot_be_given_by_value_is_refused(members: str, name: str) -> None:
    types = "layout(constant_id = 0) const uint N = 2;\nstruct Sized { uint key; float data[N]; };"
    problem = f"push constant {name!r} is an array whose length the shader does not fix"
    assert refusal(lambda: reflect_glsl(f"{types}{OUTPUT}layout(push_constant) uniform Push {{ {members} }};")) == unsupported(
        problem, "give it a length", "<source>"
    )


def test_specialization_constants_are_read_by_id_with_type_and_default() -> None:
    constants = (
        "layout(constant_id = 7) const float scale = -0.5;\n"
        "layout(constant_id = 1) const int shift = -3;\n"
        "layout(constant_id = 0) const uint count = 4000000000u;\n"
        "layout(constant_id = 3) const bool fast = true;\n"
        "layout(constant_id = 4) const bool exact = false;\n"
    )
    found = reflect_glsl(constants + OUTPUT, "if (fast && !exact) result[count + uint(shift)] = scale;").spec_constants
    assert found == (
        SpecConstant("count", 0, U32, 4_000_000_000),
        SpecConstant("shift", 1, I32, 0xFFFF_FFFD),
        SpecConstant("fast", 3, BOOL, 1),
        SpecConstant("exact", 4, BOOL, 0),
        SpecConstant("scale", 7, F32, 0xBF00_0000),
    )


def test_a_specialization_constant_of_64_bits_is_refused() -> None:
    constant = f"layout(constant_id = 0) const double big = 1.0;\n{OUTPUT}"
    assert refusal(lambda: reflect_glsl(constant, "result[0] = float(big);")) == unsupported(
        "specialization constant 'big' is not 32 bits wide", "use int, uint, float or bool", "<source>"
    )


@pytest.mark.parametrize(
    ("layout", "expected"),
    [
        ("local_size_x = 64", ONE_AXIS),
        ("local_size_x = 8, local_size_y = 4, local_size_z = 2", (LocalSize(8), LocalSize(4), LocalSize(2))),
        ("local_size_z = 3", (LocalSize(1), LocalSize(1), LocalSize(3))),
        ("local_size_x_id = 0", (LocalSize(1, 0), LocalSize(1), LocalSize(1))),
        ("local_size_x = 32, local_size_x_id = 5", (LocalSize(32, 5), LocalSize(1), LocalSize(1))),
        ("local_size_x_id = 2, local_size_y_id = 0", (LocalSize(1, 2), LocalSize(1, 0), LocalSize(1))),
    ],
)
def test_the_workgroup_size_is_literal_or_by_specialization_id(layout: str, expected: tuple[LocalSize, ...]) -> None:
    source = f"#version 450\nlayout({layout}) in;\n{OUTPUT}void main() {{ }}\n"
    assert glsl(source).reflection.local_size == expected


def test_a_workgroup_size_by_id_is_a_constant_that_can_be_given_by_a_name() -> None:
    source = f"#version 450\nlayout(local_size_x = 32, local_size_x_id = 5) in;\n{OUTPUT}void main() {{ }}\n"
    assert glsl(source).reflection.spec_constants == (SpecConstant("constant_5", 5, U32, 32),)


def test_a_shader_that_uses_subgroups_names_their_capabilities() -> None:
    source = f"#extension GL_KHR_shader_subgroup_arithmetic : require\n{OUTPUT}"
    assert reflect_glsl(source, "result[0] = subgroupAdd(1.0);").capabilities == (1, 61, 63)


ONLY, TEXELS = "and kompute binds storage buffers only", "keep its texels in a storage buffer"
SINGLE, APART = "and kompute binds single buffers", "declare a buffer for each, or put their contents into one"
FILTERED = f"{TEXELS} and interpolate in the shader"
REFUSED = {
    "layout(set = 0, binding = 0, r32f) uniform image2D picture;": (f"'picture' is a storage image, {ONLY}", TEXELS),
    "layout(set = 0, binding = 0) uniform texture2D picture;": (f"'picture' is a sampled image, {ONLY}", TEXELS),
    "layout(set = 0, binding = 0) uniform sampler rule;": (
        f"'rule' is a sampler, {ONLY}",
        "read a storage buffer and interpolate in the shader",
    ),
    "layout(set = 0, binding = 0) uniform sampler2D lookup;": (f"'lookup' is a combined image and sampler, {ONLY}", FILTERED),
    "layout(set = 0, binding = 0, r32f) uniform imageBuffer texels;": (
        f"'texels' is a storage texel buffer, {ONLY}",
        "make it a storage buffer",
    ),
    "layout(set = 0, binding = 0) uniform samplerBuffer texels;": (
        f"'texels' is a combined image and sampler, {ONLY}",
        FILTERED,
    ),
    "layout(set = 0, binding = 0) buffer Block { float data[]; } many[2];": (
        f"'many' is an array of 2 descriptors, {SINGLE}",
        APART,
    ),
    "layout(set = 0, binding = 0) uniform Sizes { uint count; } sizes[3];": (
        f"'sizes' is an array of 3 descriptors, {SINGLE}",
        APART,
    ),
    "layout(set = 2, binding = 1) buffer A { float a[]; }; layout(set = 2, binding = 1) uniform B { float b; };": (
        "binding 1 of set 2 belongs to both 'a', a storage buffer, and 'b', a uniform block",
        "give each a binding of its own",
    ),
}


@pytest.mark.parametrize("declaration", REFUSED)
def test_what_kompute_cannot_bind_is_refused_by_the_shaders_own_name(declaration: str) -> None:
    assert refusal(lambda: reflect_glsl(f"{declaration}\n{OUTPUT}")) == unsupported(*REFUSED[declaration], "<source>")


@pytest.mark.parametrize("declaration", ["", "layout(set = 0, binding = 0) readonly buffer Block { float data[]; };"])
def test_a_shader_with_nothing_to_write_to_is_refused(declaration: str) -> None:
    problem = "it has no storage buffer to write to, so it cannot have a result"
    assert refusal(lambda: reflect_glsl(declaration)) == unsupported(problem, "add an output buffer", "<source>")
