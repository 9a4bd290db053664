"""Whether a shader looks at more axes of its grid than the first, read from its code; and calls that leave the grid out."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np
import pytest
from assembler import BASE, assemble, op
from kernels import glsl
from literals import refusal

from vyre_driver.backends.reference import run
from vyre_driver.binding.grid import check_guessable
from vyre_driver.errors import InvalidInput
from vyre_driver.ir import BufferDecl, DataType, Program, gid_x, gid_y, lid_z, store, wid_y
from vyre_driver.spirv import _axes
from vyre_driver.spirv.module import SpirvModule
from vyre_driver.spirv.reflection import EntryUses

if TYPE_CHECKING:
    from vyre_driver.ir import Expr

HEAD = "#version 450\nlayout(local_size_x = 64) in;\nlayout(binding = 0) buffer Y { uint y[]; };\n"
ONE_AXIS = {
    "x": "void main(){ uint i=gl_GlobalInvocationID.x; y[i]=1u; }",
    "local var x": "void main(){ uvec3 i=gl_GlobalInvocationID; y[i.x]=1u; }",
    "nwg x": "void main(){ y[gl_NumWorkGroups.x*gl_WorkGroupSize.x]=1u; }",
    "size y": "void main(){ y[gl_GlobalInvocationID.x]=gl_WorkGroupSize.y; }",
    "index": "void main(){ y[gl_LocalInvocationIndex+64*gl_WorkGroupID.x]=1u; }",
    "arith x": "void main(){ uvec3 i=gl_WorkGroupID*gl_WorkGroupSize+gl_LocalInvocationID; y[i.x]=1u; }",
    "func x": "uint f(uvec3 p){ return p.x; } void main(){ y[f(gl_GlobalInvocationID)]=1u; }",
    "int conv x": "void main(){ ivec3 p=ivec3(gl_GlobalInvocationID); y[p.x]=1u; }",
    "global x": "uvec3 g; uint f(){return g.x;} void main(){ g=gl_GlobalInvocationID; y[f()]=1u; }",
    "cond": "void main(){ uvec3 p = y[0]>1u ? gl_GlobalInvocationID : gl_WorkGroupID; y[p.x]=1u; }",
    "unused": "void main(){ y[0]=1u; }",
}
MORE_AXES = {
    "y": "void main(){ uint i=gl_GlobalInvocationID.y; y[i]=1u; }",
    "xy": "void main(){ uvec2 i=gl_GlobalInvocationID.xy; y[i.x]=1u; }",
    "local var z": "void main(){ uvec3 i=gl_GlobalInvocationID; y[i.z]=1u; }",
    "wg z": "void main(){ y[gl_WorkGroupID.z]=1u; }",
    "lid y": "void main(){ y[gl_LocalInvocationID.y]=1u; }",
    "nwg y": "void main(){ y[gl_NumWorkGroups.y]=1u; }",
    "arith y": "void main(){ uvec3 i=gl_WorkGroupID*gl_WorkGroupSize+gl_LocalInvocationID; y[i.y]=1u; }",
    "func y": "uint f(uvec3 p){ return p.y; } void main(){ y[f(gl_GlobalInvocationID)]=1u; }",
    "dyn": "void main(){ y[gl_GlobalInvocationID[y[0]%3u]]=1u; }",
    "int conv y": "void main(){ ivec3 p=ivec3(gl_GlobalInvocationID); y[p.y]=1u; }",
    "all": "void main(){ if(all(lessThan(gl_GlobalInvocationID,uvec3(4)))) y[0]=1u; }",
    "global": "uvec3 g; uint f(){return g.y;} void main(){ g=gl_GlobalInvocationID; y[f()]=1u; }",
    "struct": "struct S{uvec3 a;}; void main(){ S s; s.a=gl_GlobalInvocationID; y[s.a.y]=1u; }",
    "array": "void main(){ uvec3 s[2]; s[1]=gl_GlobalInvocationID; y[s[1].y]=1u; }",
    "out param": "void f(out uvec3 p){ p=gl_GlobalInvocationID; } void main(){ uvec3 q; f(q); y[q.y]=1u; }",
    "return": "uvec3 f(){ return gl_GlobalInvocationID; } void main(){ y[f().y]=1u; }",
    "to buffer": "void main(){ uvec3 p=gl_GlobalInvocationID; y[0]=p.x; y[1]=uvec4(p,1).w; }",
}


@pytest.mark.parametrize("name", ONE_AXIS)
def test_a_shader_that_looks_at_x_alone_is_known(name: str) -> None:
    assert glsl(HEAD + ONE_AXIS[name]).runnable.looks_beyond_x is False


@pytest.mark.parametrize("name", MORE_AXES)
def test_a_shader_that_looks_at_more_or_may_do_so_is_known(name: str) -> None:
    assert glsl(HEAD + MORE_AXES[name]).runnable.looks_beyond_x is True


INDEX = {  # a load of an index, %22, and of its y, %24
    "declarations": [*op(23, 20, 10, 3), *op(32, 21, 1, 20), *op(59, 21, 22, 1)],
    "label": [*op(248, 4), *op(61, 20, 23, 22), *op(81, 10, 24, 23, 1)],
}


@pytest.mark.parametrize(("built_in", "looks"), [(24, True), (25, False), (26, True), (27, True), (28, True), (29, False)])
def test_the_indices_and_the_number_of_workgroups_count(built_in: int, looks: bool) -> None:  # noqa: FBT001 -- what is expected
    module = SpirvModule.from_bytes(assemble(BASE | INDEX | {"decorations": op(71, 22, 11, built_in)}))
    assert module.runnable.looks_beyond_x is looks


def test_an_index_that_a_group_of_decorations_names_counts() -> None:
    decorations = [*op(71, 30, 11, 28), *op(73, 30), *op(74, 30, 22)]
    assert SpirvModule.from_bytes(assemble(BASE | INDEX | {"decorations": decorations})).runnable.looks_beyond_x is True


def test_of_several_entry_points_only_the_functions_that_one_comes_to_count() -> None:
    parts = BASE | INDEX | {
        "entry point": [*op(15, 5, 3, 0x6E69616D, 0), *op(15, 5, 40, 0x65)],
        "local size": [*op(16, 3, 17, 64, 1, 1), *op(16, 40, 17, 64, 1, 1)],
        "decorations": op(71, 22, 11, 28),
    }  # fmt: skip
    parts["end"] = [*op(56), *op(54, 1, 40, 0, 2), *op(248, 41), *op(253), *op(56)]
    module = SpirvModule.from_bytes(assemble(parts))
    found = {
        entry.name: EntryUses(module.code, module.interface, entry).looks_beyond_x for entry in module.interface.entry_points
    }
    assert found == {"main": True, "e": False}


def test_whatever_the_functions_hold_is_read_within_the_module() -> None:
    dice = np.random.default_rng(7)
    good = np.frombuffer(glsl(HEAD + MORE_AXES["out param"]).code, np.uint32)
    start = SpirvModule.from_bytes(good.tobytes()).interface.first_function
    for _ in range(3000):
        words = good.copy()
        at = dice.integers(5, len(words), 4)
        words[at] = dice.choice([0, 1, 2**32 - 1, 1 << 16 | 62, 2 << 16 | 61, 5 << 16 | 79, 3 << 16 | 57, int(words[3]), 22], 4)
        assert _axes.looks_beyond_x(words.tobytes(), start, None) in (True, False)
    for start in (4, len(good) + 1):
        with pytest.raises(ValueError, match=f"start is word {start}"):
            _axes.looks_beyond_x(good.tobytes(), start, None)


def test_stores_that_are_followed_against_the_order_of_the_code_are_found_or_count_as_looking() -> None:
    count = 40
    names = [f"a{number}" for number in range(count)]
    moves = "".join(f"{one} = {other}; " for one, other in itertools.pairwise(names))
    text = f"void main() {{ uvec3 {' = uvec3(0), '.join(names)} = uvec3(0); for (uint k = 0u; k < 99u; k++) {{ {moves}"
    text += f"{names[-1]} = gl_GlobalInvocationID; }} y[0] = {names[0]}.y; }}"
    assert glsl(HEAD + text).runnable.looks_beyond_x is True


def program(index: Expr, size: tuple[int, int, int] = (4, 1, 1)) -> Program:
    out = BufferDecl.output("out", 0, DataType.U32).with_count(6)
    return Program.wrapped([out], size, [store(out, gid_x(), index)])


@pytest.mark.parametrize("index", [gid_y(), wid_y(), lid_z()])
def test_a_program_that_looks_at_more_axes_needs_its_grid(index: Expr) -> None:
    kind, code, message = refusal(lambda: run(program(index), []))
    assert (kind, code, message) == (
        InvalidInput,
        2201,
        (
            "the grid cannot be guessed for a program that looks at y or z of its place in the grid (gl_GlobalInvocationID, "
            "gl_WorkGroupID and the like). Fix: give invocations=(width, height), or workgroups=(x, y, z) (--workgroups X,Y,Z, "
            "grid_override) of 4x1x1 invocations each, or an output of two axes."
        ),
    )
    assert run(program(index), [], grid=(2, 1, 1))[0].tolist() == [0] * 6


def test_a_program_whose_workgroup_has_more_axes_needs_its_grid() -> None:
    message = refusal(lambda: run(program(gid_x(), (2, 2, 1)), []))[2]
    assert message.startswith("the grid cannot be guessed for a workgroup of 2x2x1 invocations. Fix: give invocations=")
    assert run(program(gid_x(), (2, 2, 1)), [], grid=(3, 1, 1))[0].tolist() == [0, 1, 2, 3, 4, 5]
    assert run(program(gid_x()), [])[0].tolist() == [0, 1, 2, 3, 4, 5]


def test_the_refusal_of_a_shader_says_what_it_may_do() -> None:
    check_guessable((64, 1, 1), beyond_x=False, subject="shader")
    kind, code, message = refusal(lambda: check_guessable((64, 1, 1), beyond_x=True, subject="shader"))
    assert (kind, code) == (InvalidInput, 2201)
    assert "for a shader that looks at y or z of its place in the grid" in message
    assert ", or at all of it at once. Fix: give invocations=" in message
