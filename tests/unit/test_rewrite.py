"""Modules rewritten into what kompute can bind: what changes, what stays, what is refused."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
from assembler import BASE, assemble, byte_swapped, op, text, unsupported
from kernels import glsl
from literals import refusal
from spirv_machine import decoded

from vyre_driver.errors import InvalidInput, UnsupportedFeature
from vyre_driver.spirv.module import BoundResource, SpirvModule
from vyre_driver.spirv.shipped import shipped_module

if TYPE_CHECKING:
    from pathlib import Path

HEAD = "#version 450\nlayout(local_size_x = 64) in;\n"
SETS = (
    f"{HEAD}layout(set = 2, binding = 7) buffer Y {{ float y[]; }};\n"
    "layout(set = 0, binding = 3) readonly buffer X { float x[]; };\n"
    "layout(set = 2, binding = 1) uniform Scale { float alpha; vec3 shift; mat3 turn; float steps[3]; } scale;\n"
    "void main() { uint i = gl_GlobalInvocationID.x; if (i < y.length())\n"
    "y[i] += scale.alpha * x[i] + scale.shift.z + scale.turn[1][2] + scale.steps[2]; }\n"
)
TARGETS = ["vulkan1.0", "vulkan1.1", "vulkan1.2"]  # SPIR-V 1.0, 1.3 and 1.5

# Two entry points at one binding, and a push-constant block each.
SECOND = {
    "entry point": [*op(15, 5, 3, *text("first")), *op(15, 5, 40, *text("second"))],
    "local size": [*op(16, 3, 17, 64, 1, 1), *op(16, 40, 17, 8, 1, 1)],
    "decorations": [*op(5, 9, *text("a")), *op(5, 26, *text("b")), *op(71, 26, 34, 0), *op(71, 26, 33, 0)],
    "declarations": op(59, 8, 26, 12),
    "label": [*op(248, 4), *op(61, 7, 60, 9)],
    "end": [
        *[*op(56), *op(54, 1, 40, 0, 2), *op(248, 41), *op(57, 1, 42, 43), *op(253), *op(56)],
        *[*op(54, 1, 43, 0, 2), *op(248, 44), *op(61, 7, 61, 26), *op(253), *op(56)],
    ],
}


def compile_glsl(tmp_path: Path, source: str, target: str, *flags: str) -> bytes:
    tool = shutil.which("glslangValidator")
    assert tool is not None
    (tmp_path / "shader.comp").write_text(source)
    command = [tool, "-V", "--target-env", target, *flags, "-o", "shader.spv", "shader.comp"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    return (tmp_path / "shader.spv").read_bytes()


def complaints(tmp_path: Path, code: bytes, target: str = "vulkan1.1") -> str:
    """What spirv-val says of a module; nothing for a valid one."""
    tool = shutil.which("spirv-val")
    assert tool is not None
    (tmp_path / "checked.spv").write_bytes(code)
    command = [tool, "--target-env", target, str(tmp_path / "checked.spv")]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    return done.stdout + done.stderr


def instructions(code: bytes) -> list[tuple[int, ...]]:
    return [(opcode, *operands) for opcode, operands in decoded(code)]


@pytest.mark.parametrize("name", ["saxpy", "byte_histogram", "mandelbrot"])
def test_a_module_that_kompute_can_bind_is_run_as_it_is(name: str) -> None:
    module = shipped_module(name)
    assert (module.runnable.code, module.runnable.is_rewritten) == (module.code, False)


@pytest.mark.parametrize("target", TARGETS)
def test_sets_and_binding_numbers_become_dense_in_their_order(tmp_path: Path, target: str) -> None:
    made = SpirvModule.from_bytes(compile_glsl(tmp_path, SETS, target)).runnable
    assert (made.bindings, made.is_rewritten) == (
        (BoundResource("x", 0, 3, 0), BoundResource("scale", 2, 1, 1), BoundResource("y", 2, 7, 2)),
        True,
    )
    assert [(one.name, one.binding, one.readable, one.writable) for one in made.reflection.buffers] == [
        ("x", 0, True, False),
        ("scale", 1, True, False),
        ("y", 2, True, True),
    ]


@pytest.mark.validation
@pytest.mark.parametrize("target", TARGETS)
def test_a_rewritten_module_is_valid(tmp_path: Path, target: str) -> None:
    code = compile_glsl(tmp_path, SETS, target, "-e", "saxpy", "--source-entrypoint", "main")
    made = SpirvModule.from_bytes(code).runnable
    assert (complaints(tmp_path, code, target), complaints(tmp_path, made.code, target), made.entry) == ("", "", "saxpy")


@pytest.mark.parametrize("target", TARGETS)
def test_what_was_rewritten_declares_the_same_and_needs_no_rewriting(tmp_path: Path, target: str) -> None:
    made = SpirvModule.from_bytes(compile_glsl(tmp_path, SETS, target)).runnable
    again = SpirvModule.from_bytes(made.code).runnable
    assert (again.code, again.reflection, again.is_rewritten) == (made.code, made.reflection, False)


@pytest.mark.parametrize("target", TARGETS)
def test_function_bodies_and_types_stay_as_they_are(tmp_path: Path, target: str) -> None:
    code = compile_glsl(tmp_path, SETS, target, "-e", "saxpy", "--source-entrypoint", "main")
    before, after = instructions(code), instructions(SpirvModule.from_bytes(code).runnable.code)
    changed = {one[0] for one in set(before) ^ set(after)}
    storage_class = {32, 59} if target == "vulkan1.2" else set()
    if target == "vulkan1.1":
        storage_class = {32, 59}
    assert changed - storage_class <= {15, 71}
    assert [one for one in before if one[0] not in {15, 71, 32, 59}] == [one for one in after if one[0] not in {15, 71, 32, 59}]


def test_a_module_in_the_other_byte_order_is_rewritten_to_the_same(tmp_path: Path) -> None:
    code = compile_glsl(tmp_path, SETS, "vulkan1.1")
    assert SpirvModule.from_bytes(byte_swapped(code)).runnable == SpirvModule.from_bytes(code).runnable


@pytest.mark.parametrize("name", ["a", "abc", "main_", "longer_than_main", "größe"])
def test_an_entry_point_of_any_name_becomes_main_and_keeps_its_interface(name: str) -> None:
    parts = BASE | {"entry point": op(15, 5, 3, *text(name), 9, 9)}
    made = SpirvModule.from_bytes(assemble(parts)).runnable
    expected = assemble(BASE | {"entry point": op(15, 5, 3, *text("main"), 9, 9)})
    assert (made.code, made.entry) == (expected, name)


def test_one_of_several_entry_points_is_chosen_by_its_name_with_the_buffers_it_uses() -> None:
    code = assemble(BASE | SECOND)
    made = {name: SpirvModule.from_bytes(code, entry=name).runnable for name in ("first", "second")}
    found = {name: (one.entry, one.bindings, one.reflection.local_size[0].value) for name, one in made.items()}
    assert found == {
        "first": ("first", (BoundResource("a", 0, 0, 0),), 64),
        "second": ("second", (BoundResource("b", 0, 0, 0),), 8),
    }
    entries = {name: [one for one in instructions(made[name].code) if one[0] == 15] for name in made}
    assert entries == {
        "first": [(15, 5, 3, *text("main")), (15, 5, 40, *text("second"))],
        "second": [(15, 5, 3, *text("first")), (15, 5, 40, *text("main"))],
    }


def test_another_entry_point_called_main_takes_the_chosen_ones_name() -> None:
    entries = [*op(15, 5, 3, *text("main")), *op(15, 5, 40, *text("second")), *op(15, 4, 3, *text("main"))]
    made = SpirvModule.from_bytes(assemble(BASE | SECOND | {"entry point": entries}), entry="second").runnable
    assert [one for one in instructions(made.code) if one[0] == 15] == [
        (15, 5, 3, *text("second")),
        (15, 5, 40, *text("main")),
        (15, 4, 3, *text("main")),
    ]


def test_several_entry_points_without_a_choice_are_refused() -> None:
    assert refusal(lambda: SpirvModule.from_bytes(assemble(BASE | SECOND)).runnable) == (
        UnsupportedFeature,
        1002,
        (
            "<bytes> has 2 compute entry points, 'first', 'second', and a kernel is one of them. "
            "Fix: choose it with entry=NAME or --entry NAME."
        ),
    )


def test_an_entry_point_that_is_not_there_is_refused_with_those_that_are() -> None:
    assert refusal(lambda: SpirvModule.from_bytes(assemble(BASE | SECOND), entry="third").runnable) == (
        InvalidInput,
        2201,
        "<bytes> has no compute entry point 'third'; it has 'first', 'second'. Fix: name one of them.",
    )


def test_a_variable_leaves_its_decoration_group_and_keeps_what_else_it_got_there() -> None:
    group = [*op(71, 40, 34, 0), *op(71, 40, 33, 5), *op(71, 40, 24), *op(71, 40, 21), *op(73, 40), *op(74, 40, 9, 26)]
    third = [*op(71, 27, 34, 0), *op(71, 27, 33, 9)]
    parts = BASE | {"set": op(), "binding": op(), "decorations": [*group, *op(71, 9, 5), *third]}
    private, storage_buffer = 6, 12  # the second of the group is not a resource: its binding would belong to two
    parts["declarations"] = [*op(32, 50, private, 7), *op(59, 50, 26, private), *op(59, 8, 27, storage_buffer)]
    made = SpirvModule.from_bytes(assemble(parts)).runnable
    assert [one for one in instructions(made.code) if one[0] in {71, 74}] == [
        (71, 6, 6, 4),
        (71, 7, 2),
        (71, 40, 34, 0),
        (71, 40, 33, 5),
        (71, 40, 24),
        (71, 40, 21),
        (74, 40, 26),
        (71, 9, 24),
        (71, 9, 21),
        (71, 9, 5),
        (71, 9, 34, 0),
        (71, 9, 33, 0),
        (71, 27, 34, 0),
        (71, 27, 33, 1),
    ]


REPEATING = [
    "layout(binding = 0) coherent volatile buffer X { float x[]; };",
    "layout(binding = 0) coherent volatile restrict buffer X { float x[]; };",
    "layout(binding = 0) buffer X { coherent volatile uint n; coherent volatile restrict float x[]; };",
    "layout(set = 1, binding = 3) coherent volatile buffer X { float x[]; };",
]


@pytest.mark.validation
@pytest.mark.parametrize("declaration", REPEATING)
def test_decorations_that_a_compiler_repeats_are_run_once(tmp_path: Path, declaration: str) -> None:
    source = (
        f"#version 450\nlayout(local_size_x = 64) in;\n{declaration}\nvoid main() {{ x[gl_LocalInvocationIndex] *= 2.0; }}\n"
    )
    module = glsl(source)
    decorations = [one for one in instructions(module.runnable.code) if one[0] in {71, 72}]
    # glslang 16 repeats none.
    assert len(set(decorations)) == len(decorations) <= len([one for one in instructions(module.code) if one[0] in {71, 72}])
    assert complaints(tmp_path, module.runnable.code) == ""


def test_only_decorations_that_are_the_same_in_everything_are_dropped() -> None:
    twice = [*op(71, 9, 23), *op(71, 9, 23), *op(72, 7, 0, 23), *op(72, 7, 0, 23), *op(5632, 9, 5635, *text("a"))]
    others = [*op(71, 9, 21), *op(72, 7, 0, 21), *op(5632, 9, 5635, *text("b"))]
    given = instructions(assemble(BASE | {"decorations": [*twice, *others]}))
    made = instructions(SpirvModule.from_bytes(assemble(BASE | {"decorations": [*twice, *others]})).runnable.code)
    assert made == list(dict.fromkeys(given[:17])) + given[17:]


def uniform(**changes: list[int]) -> dict[str, list[int]]:
    """A uniform block at binding 1 that has the structure of the storage buffer at binding 0."""
    decorations = [*op(5, 26, *text("sizes")), *op(71, 26, 34, 0), *op(71, 26, 33, 1)]
    parts = {
        "block": op(71, 7, 3),
        "decorations": decorations,
        "pointer": [*op(32, 8, 2, 7), *op(32, 27, 2, 25)],
        "variable": op(59, 8, 9, 2),
        "declarations": [*op(30, 25, 5), *op(59, 27, 26, 2)],
    }
    return BASE | parts | changes


def test_an_older_module_keeps_its_own_spelling_of_storage_buffers() -> None:
    block = [*op(71, 25, 2), *op(72, 25, 0, 35, 0)]
    parts = uniform()
    parts["decorations"] = [*parts["decorations"], *block]
    made = SpirvModule.from_bytes(assemble(parts)).runnable
    decorated = [one for one in instructions(made.code) if one[0] == 71 and one[2] in {2, 3, 24}]
    classes = [one[3] for one in instructions(made.code) if one[0] == 59]
    assert (decorated, classes) == ([(71, 7, 3), (71, 25, 3), (71, 26, 24)], [2, 2])


def test_a_uniform_block_of_an_older_module_that_shares_its_structure_is_refused() -> None:
    push = [*op(32, 28, 9, 25), *op(59, 28, 29, 9), *BASE["declarations"]]
    parts = uniform()
    parts["decorations"] = [*parts["decorations"], *op(71, 25, 2), *op(72, 25, 0, 35, 0), *op(5, 29, *text("push"))]
    parts["declarations"] = [*parts["declarations"], *push]
    assert refusal(lambda: SpirvModule.from_bytes(assemble(parts)).runnable) == unsupported(
        "'sizes' is a uniform block of the structure that 'push' has too, and cannot be made a storage block alone",
        "declare a structure for each, or make it a storage buffer",
    )


def test_a_uniform_block_decorated_by_a_group_is_refused_where_the_structure_would_change() -> None:
    parts = uniform()
    group = [*op(71, 45, 2), *op(73, 45), *op(74, 45, 25), *op(72, 25, 0, 35, 0)]
    parts["decorations"] = [*parts["decorations"], *group]
    assert refusal(lambda: SpirvModule.from_bytes(assemble(parts)).runnable) == unsupported(
        "'sizes' could not be made a storage buffer at binding 1",
        "make it one in the shader, in set 0",
    )


def test_two_constants_of_one_id_and_default_are_one_by_the_name_that_was_given() -> None:
    source = (
        "#version 450\nlayout(local_size_x = 64, local_size_x_id = 4) in;\nlayout(constant_id = 4) const uint N = 64;\n"
        "layout(binding = 0) buffer Y { uint y[]; };\nvoid main() { y[0] = N; }\n"
    )
    found = glsl(source).reflection.spec_constants
    assert [(one.name, one.spec_id, one.default_bits) for one in found] == [("N", 4, 64)]


def test_whatever_their_order_two_sets_and_two_bindings_are_numbered_by_set_and_binding() -> None:
    places = [(0, 0), (0, 5), (3, 0), (3, 1)]
    for order in ((0, 1, 2, 3), (3, 2, 1, 0), (1, 3, 0, 2), (2, 0, 3, 1)):
        declarations = "".join(
            f"layout(set = {places[at][0]}, binding = {places[at][1]}) buffer B{at} {{ float b{at}[]; }};\n" for at in order
        )
        made = glsl(f"{HEAD}{declarations}void main() {{ }}\n").runnable
        assert made.bindings == tuple(BoundResource(f"b{at}", *places[at], at) for at in range(4))


@pytest.mark.parametrize("named", [20, 21])
def test_the_constant_with_a_name_wins_in_any_order(named: int) -> None:
    decorations = [*op(5, named, *text("N")), *op(71, 20, 1, 4), *op(71, 21, 1, 4)]
    parts = BASE | {"decorations": decorations, "declarations": [*op(50, 10, 20, 20), *op(50, 10, 21, 21)]}
    found = SpirvModule.from_bytes(assemble(parts)).reflection.spec_constants
    assert [(one.name, one.spec_id, one.default_bits) for one in found] == [("N", 4, named)]


@pytest.mark.parametrize("names", [[], ["A", "B"]])
def test_two_constants_of_one_id_that_differ_are_refused(names: list[str]) -> None:
    named = [word for constant, name in zip((20, 21), names, strict=False) for word in op(5, constant, *text(name))]
    decorations = [*named, *op(71, 20, 1, 4), *op(71, 21, 1, 4)]
    parts = BASE | {"decorations": decorations, "declarations": [*op(50, 10, 20, 20), *op(50, 10, 21, 21)]}
    first, second = names or ["constant_4", "constant_4"]
    assert refusal(lambda: SpirvModule.from_bytes(assemble(parts)).runnable) == unsupported(
        f"specialization constants {first!r} and {second!r} both have id 4, and differ in type or default",
        "give them one type and default, or ids of their own",
    )


def test_shared_memory_that_constants_size_is_not_counted_against_the_device() -> None:
    source = (
        f"{HEAD}layout(constant_id = 0) const uint N = 4000;\nlayout(binding = 0) buffer Y {{ float y[]; }};\n"
        "shared float tile[N * 4];\nshared float fixed_tile[16];\n"
        "void main() { tile[0] = 1.0; fixed_tile[0] = 1.0; barrier(); y[0] = tile[0] + fixed_tile[0]; }\n"
    )
    assert glsl(source).reflection.shared_bytes == 64


def test_shared_memory_of_another_entry_point_is_not_counted() -> None:
    shared = [*op(32, 70, 4, 10), *op(59, 70, 71, 4), *op(59, 70, 72, 4)]
    parts = BASE | SECOND | {"declarations": [*SECOND["declarations"], *shared]}
    parts["label"] = [*SECOND["label"], *op(61, 10, 73, 71)]
    code = assemble(parts)
    assert [SpirvModule.from_bytes(code, entry=name).reflection.shared_bytes for name in ("first", "second")] == [4, 0]
