"""Shapes of outputs, the grids that follow from them, and views of buffers in calls and bindings."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from kernels import STEP, glsl
from literals import refusal

from vyre_driver.errors import InvalidInput, LimitExceeded

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import CompileText

    from vyre_driver import Driver

pytestmark = pytest.mark.device

PLACES = """#version 450
layout(local_size_x = 8, local_size_y = 4) in;
layout(binding = 0) writeonly buffer D { %s dst[]; };
void main() {
    uvec3 p = gl_GlobalInvocationID;
    uvec3 size = gl_NumWorkGroups * gl_WorkGroupSize;
    uint i = (p.z * size.y + p.y) * size.x + p.x;
    if (i < dst.length()) dst[i] = %s;
}
"""
BOUNDED = """#version 450
layout(local_size_x = 8, local_size_y = 4) in;
layout(push_constant) uniform Push { uint width; uint height; };
layout(binding = 0) writeonly buffer D { uint dst[]; };
void main() {
    uvec3 p = gl_GlobalInvocationID;
    uint i = (p.z * height + p.y) * width + p.x;
    if (p.x < width && p.y < height && i < dst.length()) dst[i] = p.z * 10000u + p.y * 100u + p.x;
}
"""
GIVE = "Fix: give the number of elements, or a tuple of such numbers."
TWO = """#version 450
layout(local_size_x = 8, local_size_y = 4) in;
layout(binding = 0) writeonly buffer A { uint a[]; };
layout(binding = 1) writeonly buffer B { uint b[]; };
void main() { uvec2 p = gl_GlobalInvocationID.xy; uint i = p.y * 16u + p.x; if (i < 64u) { a[i] = i; b[i] = i; } }
"""
KINDS = {
    "uint": ("uint", "gl_GlobalInvocationID.x", (), np.uint32),
    "vec2": ("vec2", "vec2(gl_GlobalInvocationID.x)", (2,), np.float32),
    "vec3": ("vec3", "vec3(gl_GlobalInvocationID.x)", (3,), np.float32),
    "vec4": ("vec4", "vec4(gl_GlobalInvocationID.x)", (4,), np.float32),
    "structure": ("S", "S(gl_GlobalInvocationID.x, vec3(gl_GlobalInvocationID.x))", (), None),
}
FLAT = """
struct S { uint id; vec3 at; };
layout(binding = 0) writeonly buffer D { %s dst[]; };
void main() { uint i = gl_GlobalInvocationID.x; if (i < dst.length()) dst[i] = %s; }
"""


def numbers(found: Any) -> Any:  # noqa: ANN401 -- an array
    """The number of each element, of all its components."""
    if found.dtype.names is not None:
        assert (found["at"] == found["id"][..., None]).all()
        return found["id"].reshape(-1).tolist()
    flat = found.reshape(-1, found.shape[-1]) if found.dtype == np.float32 else found.reshape(-1, 1)
    assert (flat == flat[:, :1]).all()
    return flat[:, 0].tolist()


@pytest.mark.parametrize("kind", KINDS)
def test_an_output_has_the_shape_that_was_asked_for(compiled: CompileText, kind: str) -> None:
    name, value, axes, dtype = KINDS[kind]
    kernel = compiled(FLAT % (name, value))
    for given, outer in ((6, (6,)), (np.int64(6), (6,)), ((6, *axes), (6,)), ((2, 3, *axes), (2, 3)), ([3, 2, *axes], (3, 2))):
        for strict in (False, True):
            found = kernel(out_shapes={"dst": given}, strict=strict)
            assert (found.shape, numbers(found)) == ((*outer, *axes), list(range(6))), given
            assert dtype is None or found.dtype == dtype
        target = np.zeros(found.shape, found.dtype)
        assert kernel(out=target) is target
        assert numbers(target) == list(range(6))
    empty = kernel(out_shapes={"dst": (0, 3, *axes)})
    assert (empty.shape, empty.dtype) == ((0, 3, *axes), found.dtype)


@pytest.mark.parametrize("kind", KINDS)
def test_a_buffer_is_the_target_of_elements_as_they_lie_in_memory(driver: Driver, compiled: CompileText, kind: str) -> None:
    name, value, axes, _ = KINDS[kind]
    kernel = compiled(FLAT % (name, value))
    found = kernel(out_shapes={"dst": 6})
    memory = found if kind == "structure" else kernel.plan.pack("dst", found)
    for strict in (False, True):
        target = driver.zeros(memory.shape, memory.dtype)
        assert kernel(out=target, strict=strict) is target
        assert numbers(kernel.plan.unpack("dst", target.read())) == list(range(6))
    misfits: dict[str, list[tuple[tuple[int, ...], str]]] = {
        "vec3": [((6, 3), "float32"), ((6, 12), "uint8"), ((3, 32), "uint8")],
        "structure": [((6, 32), "uint8"), ((6,), "uint32")],
    }
    for shape, dtype in misfits.get(kind, []):
        target = driver.zeros(shape, dtype)
        said = refusal(lambda target=target: kernel(out=target))[2]
        assert said.startswith(f"out has a Buffer of shape {shape} and type {dtype} for output 'dst', which has shape"), axes


@pytest.mark.parametrize("given", ["6", None, (-1,), (2, -3), (2.0, 3), True, (True, 2), {2: 3}, {2, 3}, b"ab", object()])
def test_what_is_no_shape_is_refused(compiled: CompileText, given: Any) -> None:  # noqa: ANN401 -- whatever
    kernel = compiled(FLAT % KINDS["uint"][:2])
    assert refusal(lambda: kernel(out_shapes={"dst": given})) == (
        InvalidInput,
        2201,
        f"out_shapes gives 'dst' {given!r}, which is not a shape. {GIVE}",
    )


def test_shapes_that_cannot_be_are_refused(compiled: CompileText, opened: Driver) -> None:
    vectors, fixed = compiled(FLAT % KINDS["vec4"][:2]), compiled((FLAT % KINDS["uint"][:2]).replace("dst[];", "dst[6];"))
    said = "output 'dst' has elements of shape (4,), and is to have shape"
    for shape in ((6,), (2, 3), (4, 6), ()):
        assert refusal(lambda shape=shape: vectors(out_shapes={"dst": shape}))[2].startswith(f"{said} {shape}")
    assert fixed(out_shapes={"dst": (2, 3)}).tolist() == [[0, 1, 2], [3, 4, 5]]
    assert refusal(lambda: fixed(out_shapes={"dst": (2, 4)}))[2] == (
        "output 'dst' is to have 8 elements, and the shader fixes 6. Fix: give a shape of 6 elements."
    )
    assert refusal(lambda: vectors(out_shapes=[("dst", 6)]))[::2] == (
        InvalidInput,
        "out_shapes is of type list, and shapes are given by name. Fix: pass a dictionary from names to shapes.",
    )
    kernel = opened.compile(glsl(FLAT % KINDS["uint"][:2]))
    assert refusal(lambda: kernel(out_shapes={"dst": (2**40, 2**20)}))[0] is LimitExceeded


@pytest.mark.parametrize("shape", [(4, 16), (16, 4), (3, 9), (1, 40), (40, 1), (0, 5), (5, 0)])
def test_a_grid_of_several_axes_is_that_of_the_outputs_shape(
    driver: Driver, compiled: CompileText, shape: tuple[int, ...]
) -> None:
    """The last axis is x: each place of the output has the place of an invocation, counted by what the grid then is."""
    kernel = compiled(BOUNDED)
    size = {"width": shape[-1], "height": shape[-2]}
    wanted = sum(step * axis for step, axis in zip((1, 100, 10000), reversed(np.indices(shape)), strict=False))
    calls: list[Callable[[], Any]] = [
        lambda: kernel(out_shapes={"dst": shape}, **size),
        lambda: kernel(np.zeros(shape, np.uint32), **size),
        lambda: kernel(out=np.zeros(shape, np.uint32), **size),
        lambda: kernel(out=driver.zeros(shape, np.uint32), **size),
        lambda: kernel(driver.zeros(shape, np.uint32), **size),
        lambda: kernel(out_shapes={"dst": int(np.prod(shape))}, invocations=shape[::-1], **size).reshape(shape),
    ]
    for call in calls:
        np.testing.assert_array_equal(np.asarray(call()), wanted.astype(np.uint32), strict=True)
    made = driver.zeros(shape, np.uint32)
    kernel.bind(made, **size).run()
    np.testing.assert_array_equal(made.read(), wanted.astype(np.uint32), strict=True)


def test_an_output_of_three_axes_gives_no_grid_of_two_and_the_other_way_round(compiled: CompileText) -> None:
    """Its third axis may be the channels of an image, all of which one invocation does."""
    flat, size = compiled(BOUNDED), {"width": 7, "height": 5}
    deep = compiled(BOUNDED.replace("local_size_y = 4", "local_size_y = 2, local_size_z = 2"))
    found = [
        refusal(lambda kernel=kernel, shape=shape: kernel(out_shapes={"dst": shape}, **size))[::2]
        for kernel, shape in ((flat, (3, 5, 7)), (deep, (5, 7)))
    ]
    assert [(kind, message.rpartition(", ")[2]) for kind, message in found] == [
        (InvalidInput, "or an output of two axes."),
        (InvalidInput, "or an output of three axes."),
    ]
    assert np.shape(deep(out_shapes={"dst": (3, 5, 7)}, **size)) == (3, 5, 7)


def test_an_axis_of_components_counts_no_invocations_and_what_lies_across_axes_is_not_guessed(compiled: CompileText) -> None:
    kernel = compiled(PLACES % ("vec4", "vec4(size.xy, p.xy)"))
    assert kernel(out_shapes={"dst": (4, 16, 4)})[3, 15].tolist() == [16, 4, 15, 3]
    for given in (np.zeros((4, 64), np.float32), np.zeros((64, 4), np.float32), np.zeros(256, np.float32)):
        assert refusal(lambda given=given: kernel(given))[2].startswith("the grid cannot be guessed for a workgroup of 8x4x1")
        assert kernel(given, invocations=(16, 4)).reshape(4, 16, 4)[3, 15].tolist() == [16, 4, 15, 3]


def test_axes_inside_of_values_that_are_packed_count_no_invocations(driver: Driver, compiled: CompileText) -> None:
    vectors = compiled(PLACES % ("vec3", "vec3(size.xy, p.x)"))
    matrices = compiled(PLACES % ("mat3x2", "mat3x2(size.xy, p.xy, 0.0, 0.0)"))
    for kernel, inside in ((vectors, (3,)), (matrices, (2, 3))):
        wanted = [16.0, 4.0, 15.0]
        for found in (kernel(out_shapes={"dst": (4, 16, *inside)}), kernel(np.zeros((4, 16, *inside), np.float32))):
            last = found[3, 15] if kernel is vectors else found[3, 15].T.ravel()
            assert (found.shape, last[:3].tolist()) == ((4, 16, *inside), wanted)
    packed = driver.buffer(vectors.plan.pack("dst", np.zeros((4, 16, 3), np.float32)).reshape(4, 16, 16))
    vectors(packed)
    assert vectors.plan.unpack("dst", packed.read())[-1].tolist() == [16, 4, 15]


def test_outputs_of_shapes_that_differ_or_have_one_axis_give_no_grid(compiled: CompileText) -> None:
    kernel = compiled(TWO)
    shapes: dict[str, Any] = {"a": (4, 16), "b": (4, 16)}
    assert [one.tolist() for one in kernel(out_shapes=shapes)] == [np.arange(64).reshape(4, 16).tolist()] * 2
    for other in ((2, 32), (16, 4), 64, (4, 16, 1)):
        assert refusal(lambda other=other: kernel(out_shapes={**shapes, "b": other}))[2].startswith(
            "the grid cannot be guessed"
        )
        assert kernel(out_shapes={**shapes, "b": other}, workgroups=(2, 1))[1].ravel().tolist() == list(range(64))


@pytest.mark.parametrize(
    ("given", "counts"),
    [
        (20, (3, 1, 1)),
        ((20,), (3, 1, 1)),
        ([1, 1], (1, 1, 1)),
        ((16, 5), (2, 2, 1)),
        ((17, 4, 3), (3, 1, 3)),
        (np.array([8, 8, 1]), (1, 2, 1)),
    ],
)
def test_invocations_are_rounded_up_to_workgroups(compiled: CompileText, given: Any, counts: tuple[int, ...]) -> None:  # noqa: ANN401 -- whatever
    kernel = compiled(PLACES % ("uvec4", "uvec4(gl_NumWorkGroups, 7)"))
    assert kernel(out_shapes={"dst": 1}, invocations=given).tolist() == [[*counts, 7]]


@pytest.mark.parametrize("given", [0, (0,), (5, 0), (0, 5, 5), [3, 4, 0]])
def test_no_invocations_run_nothing(driver: Driver, compiled: CompileText, given: Any) -> None:  # noqa: ANN401 -- whatever
    kernel, here = compiled(STEP), driver.buffer(np.arange(3, dtype=np.uint32))
    push = {"factor": 2, "summand": 1}
    for array in (np.arange(3, dtype=np.uint32), here):
        assert np.asarray(kernel(array, **push, invocations=given)).tolist() == [0, 1, 2]
        assert np.asarray(kernel(array, **push, invocations=given, out=np.zeros(3, np.uint32))).tolist() == [0, 1, 2]
    kernel.bind(here, **push, invocations=given).run()
    assert here.read().tolist() == [0, 1, 2]


@pytest.mark.parametrize("given", [True, 1.5, (1, 2, 3, 4), (), "12", -1, (5, -1), (1, None), {1, 2}, object()])
def test_what_is_no_number_of_invocations_is_refused(compiled: CompileText, given: Any) -> None:  # noqa: ANN401 -- whatever
    kernel = compiled(FLAT % KINDS["uint"][:2])
    assert refusal(lambda: kernel(out_shapes={"dst": 1}, invocations=given)) == (
        InvalidInput,
        2201,
        f"invocations is {given}, which is not 1 to 3 numbers of at least 0. Fix: give invocations=(x, y, z).",
    )
    assert refusal(lambda: kernel(out_shapes={"dst": 1}, invocations=1, workgroups=1))[2] == (
        "both workgroups=1 and invocations=1 are given. Fix: give one of them."
    )


ADD = """
layout(push_constant) uniform Push { uint summand; };
layout(binding = 0) readonly buffer X { uint x[]; };
layout(binding = 1) buffer Y { uint y[]; };
void main() { uint i = gl_GlobalInvocationID.x; if (i < y.length() && i < x.length()) y[i] += x[i] + summand; }
"""


@pytest.mark.parametrize("place", ["shared with the host", "out of the host's reach"], indirect=True)
def test_views_in_calls_and_bindings_touch_no_byte_outside(place: tuple[Driver, bool, bool]) -> None:
    """Aligned and not, of any length, of a buffer whose size is no whole number of words."""
    driver = place[0]
    kernel = driver.compile(glsl(ADD))
    step = driver.device.limits.min_storage_buffer_offset_alignment
    chosen = np.random.default_rng(5)
    start = chosen.integers(0, 256, 4 * step + 203, np.uint8)
    for offset, count in ((0, 3), (step, 7), (4, 5), (1, 6), (step + 2, 3), (2 * step, 40), (start.size - 8, 2), (3, 0)):
        for way in ("call", "bind", "mixed", "strict", "target"):
            made, x = driver.buffer(start), np.arange(count, dtype=np.uint32)
            part = made[offset : offset + 4 * count].view(np.uint32)
            values = driver.buffer(np.append(x, x))[count:] if way != "mixed" else x
            if way == "bind":
                kernel.bind(values, part, summand=7).run()
            elif way == "target":
                kernel(values, part.read(), summand=7, out=part)
            else:
                kernel(values, part, summand=7, strict=way == "strict")
            wanted = start.copy()
            inside = wanted[offset : offset + 4 * count]
            inside[:] = (inside.view(np.uint32) + x + np.uint32(7)).view(np.uint8)
            assert made.read().tobytes() == wanted.tobytes(), (offset, count, way)


def test_a_view_that_must_be_copied_shares_no_bytes_with_what_is_written(driver: Driver) -> None:
    kernel, made = driver.compile(glsl(ADD)), driver.buffer(np.arange(64, dtype=np.uint32))
    step = driver.device.limits.min_storage_buffer_offset_alignment // 4
    for x, y in ((made[1:9], made[:8]), (made[:8], made[1:9]), (made[1:9], made[1:9])):
        assert refusal(lambda x=x, y=y: kernel(x, y, summand=1))[0] is InvalidInput
    assert made.read().tolist() == list(range(64))
    kernel(made[:8], made[:8], summand=1)
    kernel(made[step : step + 4], made[step + 5 : step + 9], summand=0)
    wanted = np.arange(64, dtype=np.uint32)
    wanted[:8] = 2 * wanted[:8] + 1
    wanted[step + 5 : step + 9] += wanted[step : step + 4]
    assert made.read().tolist() == wanted.tolist()


RESTRICT = ADD.replace("readonly buffer X", "readonly restrict buffer X")


def test_memory_that_overlaps_is_refused_where_the_shader_declares_that_none_does(driver: Driver) -> None:
    kernel, made = driver.compile(glsl(RESTRICT)), driver.buffer(np.arange(200, dtype=np.uint32))
    step = driver.device.limits.min_storage_buffer_offset_alignment // 4
    said = "input 'x' (binding 0) and input_output 'y' (binding 1)"
    same, share = f"{said} are the same buffer, and the shader", f"{said} share memory, and the shader"
    other = np.zeros(2 * step, np.uint32)
    calls: list[tuple[Callable[[], object], str]] = [
        (lambda: kernel(made, made, summand=1), same),
        (lambda: kernel.bind(made, made, summand=1), same),
        (lambda: kernel(made[: 2 * step], made[step : 3 * step], summand=1), share),
        (lambda: kernel.bind(made[: 2 * step], made[: 2 * step], summand=1), share),
        (lambda: kernel(made[:], np.zeros(200, np.uint32), summand=1, out=made), share),
    ]
    for number, (call, wanted) in enumerate(calls):
        assert refusal(call)[2].startswith(wanted), number
    kernel(made[:step], made[step : 2 * step], summand=0)
    assert made.read()[step : 2 * step].tolist() == [2 * i + step for i in range(step)]
    assert np.asarray(kernel(other, made[: 2 * step], summand=0)).tolist()[:step] == list(range(step))


def test_threads_call_and_write_slices_of_one_buffer_beside_each_other(driver: Driver) -> None:
    kernel = driver.compile(glsl(STEP))
    made = driver.zeros(6 * 128, np.uint32)
    wrong: list[object] = []

    def work(number: int) -> None:
        part = made[128 * number : 128 * number + 128]
        for turn in range(15):
            given = np.arange(128, dtype=np.uint32) + np.uint32(1000 * number + turn)
            part.write(given)
            kernel(part, factor=3, summand=number)
            kernel.bind(part, factor=2, summand=turn).submit()
            found = kernel(part, factor=1, summand=1, out=np.empty(128, np.uint32))
            if not np.array_equal(found, 2 * (3 * given + np.uint32(number)) + np.uint32(turn + 1)):
                wrong.append((number, turn))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
