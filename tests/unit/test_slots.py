"""Several variables at one binding: one buffer of the contract that does for all views of it."""

from __future__ import annotations

import itertools
import re
import shutil
import subprocess
from typing import TYPE_CHECKING

import numpy as np
import pytest
from assembler import BASE, assemble, op, text
from kernels import glsl
from literals import refusal

from vyre_driver.binding import BindingPlan
from vyre_driver.errors import InvalidInput, UnsupportedFeature
from vyre_driver.spirv.layout import Array, Element, Member, Scalar, Struct, Vector, shape_of_views
from vyre_driver.spirv.module import BoundResource, SpirvModule
from vyre_driver.spirv.reflection import BufferInterface
from vyre_driver.spirv.stub import stub_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from vyre_driver.spirv.layout import MemoryType

HEAD = "#version 450\nlayout(local_size_x = 64) in;\nlayout(binding = 9) buffer Y { uint y[]; };\n"
F32, U32, F16 = Scalar("f", 32), Scalar("u", 32), Scalar("f", 16)
FLOATS = Element(4, F32, 1)
TARGETS = ["vulkan1.0", "vulkan1.1", "vulkan1.2"]  # SPIR-V 1.0, 1.3 and 1.5


def block(*types: tuple[int, MemoryType]) -> Struct:
    """A block of members at these offsets."""
    members = tuple(Member(f"m{place}", offset, one) for place, (offset, one) in enumerate(types))
    return Struct("B", members, max(one.offset + one.type.byte_len for one in members))


def many(element: MemoryType, stride: int, count: int | None = None) -> Array:
    return Array(element, count, stride)


VIEWS = {
    "the same twice": ([block((0, many(F32, 4))), block((0, many(F32, 4)))], (0, FLOATS, None, 0)),
    "numbers and vectors": ([block((0, many(F32, 4))), block((0, many(Vector(F32, 4), 16)))], (0, FLOATS, None, 16)),
    "pairs and threes": (
        [block((0, many(Vector(F32, 2), 8))), block((0, many(many(F32, 4, 3), 12)))],
        (0, FLOATS, None, 12),
    ),
    "numbers of two types": ([block((0, many(F32, 4))), block((0, many(U32, 4)))], (0, Element(4, None, 4), None, 4)),
    "numbers of two widths": ([block((0, many(F16, 2))), block((0, many(F32, 4)))], (0, Element(2, None, 2), None, 4)),
    "a header and none": (
        [block((0, U32), (4, many(F32, 4))), block((0, many(F32, 4)))],
        (0, FLOATS, None, 8),
    ),
    "two headers": (
        [block((0, U32), (12, many(Vector(F32, 4), 16))), block((0, U32), (4, many(Vector(F32, 4), 16)))],
        (4, Element(8, F32, 2), None, 28),
    ),
    "structures and their words": (
        [block((0, many(block((0, U32), (4, many(F32, 4, 4))), 20))), block((0, many(U32, 4)))],
        (0, Element(4, None, 4), None, 20),
    ),
    "a fixed length and an open one": (
        [block((0, many(F32, 4, 64))), block((0, many(F32, 4)))],
        (0, FLOATS, None, 256),
    ),
    "two fixed lengths": ([block((0, many(F32, 4, 3))), block((0, many(F32, 4, 5)))], (0, FLOATS, 5, 20)),
    "a fixed length and a structure of odd size": (
        [block((0, many(F32, 4, 3))), block((0, U32), (4, F16))],
        (0, Element(2, None, 2), 6, 12),
    ),
}
NO_COMMON_SIZE = {"two headers", "two fixed lengths", "a fixed length and a structure of odd size"}


@pytest.mark.parametrize("kind", VIEWS)
def test_one_buffer_does_for_all_views_in_any_order(kind: str) -> None:
    blocks, expected = VIEWS[kind]
    for order in itertools.permutations(blocks):
        assert shape_of_views(order) == expected


def takes(shape: tuple[int, Element, int | None, int], size: int) -> bool:
    header, element, count, least = shape
    if count is not None:
        return size == header + count * element.stride
    return size >= max(least, header + element.stride) and (size - header) % element.stride == 0


@pytest.mark.parametrize("kind", VIEWS)
def test_every_size_that_each_of_the_views_takes_is_taken(kind: str) -> None:
    blocks, joined = VIEWS[kind]
    sizes = [size for size in range(300) if all(takes(shape_of_views([one]), size) for one in blocks)]
    assert [size for size in sizes if takes(joined, size)] == sizes
    assert bool(sizes) == (kind not in NO_COMMON_SIZE)


def contract(declarations: str, body: str) -> tuple[BufferInterface, ...]:
    return glsl(f"{HEAD}{declarations}void main() {{ {body} }}\n").reflection.buffers


WORDS = "layout(binding = 2) {0} buffer A {{ uint a[]; }};\nlayout(binding = 2) {1} buffer B {{ uvec4 b[]; }};\n"
ACCESS = {
    ("readonly", "readonly", "y[0] = a[0] + b[0].x;"): ("a", "b", True, False),
    ("writeonly", "writeonly", "a[0] = 1u; b[0].x = 2u;"): ("a", "b", False, True),
    ("readonly", "writeonly", "b[0].x = a[0];"): ("b", "a", True, True),
    ("writeonly", "readonly", "a[0] = b[0].x;"): ("a", "b", True, True),
    ("", "readonly", "a[0] = b[0].x;"): ("a", "b", True, True),
}


@pytest.mark.parametrize("case", ACCESS)
def test_what_one_view_leaves_open_is_open_under_the_name_declared_first(case: tuple[str, str, str]) -> None:
    name, alias, readable, writable = ACCESS[case]
    words = Element(4, Scalar("u", 32), 1)
    found = contract(WORDS.format(*case[:2]), f"y[1] = 1u; {case[2]}")
    assert found[0] == BufferInterface(name, 0, readable, writable, 0, words, None, (alias,), 16)


@pytest.mark.parametrize(("seen", "unseen"), [("a[0]", "b"), ("b[0].x", "a")])
def test_a_variable_that_no_function_names_is_no_view(seen: str, unseen: str) -> None:
    element = Element(4, U32, 1) if unseen == "b" else Element(16, U32, 4)
    found = contract(WORDS.format("", "readonly"), f"y[0] = {seen};")
    is_writable = unseen == "b"
    name = "a" if unseen == "b" else "b"
    assert found[0] == BufferInterface(
        name, 0, readable=True, writable=is_writable, header_bytes=0, element=element, count=None
    )


def test_where_no_function_names_any_all_are_views() -> None:
    found = contract(WORDS.format("readonly", "readonly"), "y[0] = 1u;")
    assert (found[0].name, found[0].aliases, found[0].least_bytes) == ("a", ("b",), 16)


def test_views_of_uniform_blocks_are_views_too() -> None:
    declarations = "layout(binding = 1) uniform U { vec4 u; };\nlayout(binding = 1) uniform V { mat2 v; float w; };\n"
    found = contract(declarations, "y[0] = uint(u.x + v[1][1] + w);")
    element = Element(4, None, 4)
    assert found[0] == BufferInterface("u", 0, True, False, 0, element, 9, ("V",), 36)


def test_each_entry_point_has_the_views_that_its_own_functions_name() -> None:
    parts = BASE | {
        "entry point": [*op(15, 5, 3, *text("first")), *op(15, 5, 40, *text("second"))],
        "local size": [*op(16, 3, 17, 64, 1, 1), *op(16, 40, 17, 8, 1, 1)],
        "decorations": [*op(5, 9, *text("a")), *op(5, 26, *text("b")), *op(71, 26, 34, 0), *op(71, 26, 33, 0)],
        "declarations": op(59, 8, 26, 12),
        "label": [*op(248, 4), *op(61, 7, 60, 9), *op(61, 7, 63, 26)],
        "end": [*op(56), *op(54, 1, 40, 0, 2), *op(248, 41), *op(61, 7, 61, 26), *op(253), *op(56)],
    }
    code = assemble(parts)
    found = {name: SpirvModule.from_bytes(code, entry=name).reflection.buffers[0] for name in ("first", "second")}
    assert {name: (one.name, one.aliases) for name, one in found.items()} == {"first": ("a", ("b",)), "second": ("b", ())}


def test_views_of_one_name_are_one_name() -> None:
    parts = BASE | {"decorations": [*op(71, 26, 34, 0), *op(71, 26, 33, 0)], "declarations": op(59, 8, 26, 12)}
    found = SpirvModule.from_bytes(assemble(parts))
    assert (found.signature, found.reflection.buffers[0].aliases) == ("kernel(binding_0: f32[n] inout)", ())


def unnamed(*places: tuple[int, int], names: Mapping[int, str] | None = None) -> SpirvModule:
    """A module with buffers at these sets and bindings, whose variables are 30, 31, ..., named where ``names`` names one."""
    pointer, storage_buffer = 8, 12
    decorations, variables = [], []
    for variable, (set_number, number) in enumerate(places, 30):
        decorations += [*op(71, variable, 34, set_number), *op(71, variable, 33, number)]
        variables += op(59, pointer, variable, storage_buffer)
    words = [word for variable, name in (names or {}).items() for word in op(5, variable, *text(name))]
    parts = {"set": op(), "binding": op(), "variable": op(), "decorations": [*words, *decorations], "declarations": variables}
    return SpirvModule.from_bytes(assemble(BASE | parts))


@pytest.mark.parametrize(
    ("places", "names", "expected"),
    [
        ([(0, 0), (0, 1)], {}, ["binding_0", "binding_1"]),
        ([(0, 0), (1, 0), (1, 1)], {}, ["binding_0", "set_1_binding_0", "binding_1"]),
        ([(1, 0), (2, 0), (3, 0)], {}, ["binding_0", "set_2_binding_0", "set_3_binding_0"]),
        ([(0, 0), (0, 0), (1, 0)], {}, ["binding_0", "set_1_binding_0"]),
        ([(0, 0), (1, 0)], {31: "binding_0"}, ["set_0_binding_0", "binding_0"]),
        ([(0, 3), (0, 5)], {31: "binding_3"}, ["set_0_binding_3", "binding_3"]),
        (
            [(0, 0), (1, 0), (1, 1)],
            {30: "binding_0", 32: "set_1_binding_0"},
            ["binding_0", "set_1_binding_0_", "set_1_binding_0"],
        ),
    ],
)
def test_buffers_without_a_name_have_one_of_their_own(
    places: list[tuple[int, int]], names: dict[int, str], expected: list[str]
) -> None:
    module = unnamed(*places, names=names)
    assert [buffer.name for buffer in module.reflection.buffers] == expected
    assert re.findall(r"(\w+):", module.signature) == expected
    shown = re.findall(r"  set \d+ binding \d+ (\w+):", str(module))
    assert shown == expected[:1] * (len(places) - len(expected)) + expected
    assert [one.name for one in module.runnable.bindings] == expected[:1] * (len(places) - len(expected)) + expected


def test_views_of_two_kinds_are_refused_with_both() -> None:
    declarations = "layout(set = 3, binding = 2) buffer A { uint a[]; };\nlayout(set = 3, binding = 2) uniform B { uint b; };\n"
    assert refusal(lambda: contract(declarations, "a[0] = b;")) == (
        UnsupportedFeature,
        1002,
        (
            "<source> cannot run through kompute: binding 2 of set 3 belongs to both 'a', a storage buffer, and 'b', a uniform "
            "block. Fix: give each a binding of its own."
        ),
    )


def compiled(tmp_path: Path, source: str, target: str) -> bytes:
    tool = shutil.which("glslangValidator")
    assert tool is not None
    (tmp_path / "views.comp").write_text(source)
    command = [tool, "-V", "--target-env", target, "-o", "views.spv", "views.comp"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    return (tmp_path / "views.spv").read_bytes()


MOVED = (
    "#version 450\nlayout(local_size_x = 64) in;\n"
    "layout(set = 3, binding = 7) buffer A { uint a[]; };\nlayout(set = 3, binding = 7) buffer B { uvec4 b[]; };\n"
    "layout(set = 3, binding = 7) buffer C { vec2 c[]; };\n"
    "layout(set = 1, binding = 4) uniform U { vec4 u; };\nlayout(set = 1, binding = 4) uniform V { mat2 v; };\n"
    "void main() { a[0] = b[1].x; c[0] = u.xy * v; }\n"
)


@pytest.mark.parametrize("target", TARGETS)
def test_all_views_of_a_binding_are_renumbered_alike_and_pass_spirv_val(tmp_path: Path, target: str) -> None:
    made = SpirvModule.from_bytes(compiled(tmp_path, MOVED, target)).runnable
    uniforms = BoundResource("u", 1, 4, 0), BoundResource("v", 1, 4, 0)
    words = BoundResource("a", 3, 7, 1), BoundResource("b", 3, 7, 1), BoundResource("c", 3, 7, 1)
    assert (sorted(made.bindings, key=lambda one: (one.slot, one.name)), made.is_rewritten) == ([*uniforms, *words], True)
    again = SpirvModule.from_bytes(made.code).interface.resources
    assert {(one.name, one.set, one.binding) for one in again} == {(one.name, 0, one.slot) for one in made.bindings}
    tool = shutil.which("spirv-val")
    assert tool is not None
    done = subprocess.run([tool, "--target-env", target, "-"], input=made.code, capture_output=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, b"")


def test_views_at_bindings_that_kompute_has_are_left_as_they_are() -> None:
    module = glsl(
        HEAD.replace("9", "0") + "layout(binding = 0) buffer Z { vec4 z[]; };\nvoid main() { y[1] = uint(z[0].x); }\n"
    )
    assert (module.runnable.is_rewritten, module.runnable.code is module.code) == (False, True)


def plan() -> BindingPlan:
    module = glsl(HEAD + WORDS.format("readonly", "readonly") + "void main() { y[0] = a[0] + b[0].x; }\n")
    return BindingPlan.from_reflection(module.reflection)


def test_a_buffer_that_is_too_small_for_the_largest_view_is_refused_with_both_numbers() -> None:
    problem = "input 'a' has 12 bytes, less than the 16 bytes that the largest of the shader's views of it takes"
    expected = InvalidInput, 2201, f"{problem}. Fix: pass 16 bytes or more."
    small, y = np.zeros(3, np.uint32), np.zeros(1, np.uint32)
    assert refusal(lambda: plan().check_arguments((small, y), {})) == expected
    assert refusal(lambda: plan().validate_inputs((small, y))) == expected
    assert refusal(lambda: plan().check_resident((small, y))) == expected
    assert [one.byte_len for one in plan().check_arguments((np.zeros(5, np.uint32), y), {})] == [20, 4]


def test_a_count_of_an_output_that_is_too_small_for_the_largest_view_is_refused() -> None:
    module = glsl(HEAD + WORDS.format("writeonly", "writeonly") + "void main() { a[0] = 1u; b[0].x = y[0]; }\n")
    found = BindingPlan.from_reflection(module.reflection)
    y = np.zeros(1, np.uint32)
    problem = "output 'a' has 12 bytes, less than the 16 bytes that the largest of the shader's views of it takes"
    assert refusal(lambda: found.check_arguments((y,), {"a": 3})) == (
        InvalidInput,
        2201,
        f"{problem}. Fix: pass 16 bytes or more.",
    )
    assert found.check_arguments((y,), {"a": 4})[0].byte_len == 16


def test_the_stub_and_the_signature_show_the_names_of_all_views() -> None:
    module = glsl(HEAD + WORDS.format("readonly", "readonly") + "void main() { y[0] = a[0] + b[0].x; }\n")
    signature = "kernel(a|b: u32[n]|vec4<u32>[n] in, y: u32[n] inout)"
    assert (module.signature, stub_of(module).splitlines()[0]) == (signature, f'"""<source>: {signature}"""')
    assert "        a: NDArray[np.uint32] | Buffer,\n        y: NDArray[np.uint32] | Buffer,\n" in stub_of(module)
