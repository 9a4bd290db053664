"""Strict calls: what a shader leaves unwritten and what it changes is told, and a right shader is never blamed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from kernels import HEAD, glsl
from lacking_devices import lack_features

from vyre_driver import Driver, SpirvModule
from vyre_driver.errors import InputChanged, OutputNotWritten, UnsupportedFeature
from vyre_driver.ir import BufferDecl, DataType, Program, store, u32
from vyre_driver.runtime.strict import POISONS
from vyre_driver.spirv.rewrite import Rewrite, rewrite

if TYPE_CHECKING:
    from conftest import CompileText

    from vyre_driver import Kernel

pytestmark = pytest.mark.device

WRITE_MORE = (
    "Fix: write each of them, or start more workgroups (workgroups=), or drop writeonly where the rest is to stay as given."
)
COPY = """
layout(binding = 0) readonly buffer X { float x[]; };
layout(binding = 1) writeonly buffer Y { float y[]; };
void main() { uint i = gl_GlobalInvocationID.x; if (i < x.length()) y[i] = x[i]; }
"""
BYTES = """#version 450
#extension GL_EXT_shader_explicit_arithmetic_types_int8 : require
#extension GL_EXT_shader_8bit_storage : require
layout(local_size_x = 64) in;
layout(push_constant) uniform Push { uint written; };
layout(binding = 0) writeonly buffer Y { uint8_t y[]; };
void main() { uint i = gl_GlobalInvocationID.x; if (i < written) y[i] = uint8_t(i); }
"""
VECTORS = """
layout(binding = 0) writeonly buffer Y { vec4 y[]; };
void main() { uint i = gl_GlobalInvocationID.x; if (i == 2u) y[i].xyz = vec3(1); else y[i] = vec4(1); }
"""
# Elements of 16 bytes, of which 12 are written; after a header that is not.
PADDED = """
struct Item { vec3 a; };
layout(push_constant) uniform Push { uint left_out; };
layout(binding = 0) writeonly buffer Y { uint size; Item items[]; };
void main() { uint i = gl_GlobalInvocationID.x; if (i < items.length() && i != left_out) items[i].a = vec3(1); }
"""
IN_PLACE = """
layout(binding = 0) buffer Y { float y[]; };
void main() { uint i = gl_GlobalInvocationID.x; if (i == 3u) y[i] += 1.0; }
"""
POISONER = """
layout(push_constant) uniform Push { uint value; uint written; };
layout(binding = 0) writeonly buffer Y { uint y[]; };
void main() { uint i = gl_GlobalInvocationID.x; if (i < written) y[i] = value; }
"""
# Writes into x as well; closed_to_writing() makes a module of it that says it does not.
STRAY = """
layout(binding = 0) buffer X { float x[]; };
layout(binding = 1) writeonly buffer Y { float y[]; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i < y.length()) { y[i] = x[i]; if (i % 7u == 3u) x[i] = 2.0; }
}
"""
ONES = np.ones(64, np.float32)


def closed_to_writing(text: str, *names: str) -> SpirvModule:
    """The module of a GLSL text with buffers decorated NonWritable that it writes."""
    module = glsl(text)
    ids = tuple(one.id for one in module.interface.resources if one.name in names)
    return SpirvModule.from_bytes(rewrite(module.code, Rewrite(uniforms=ids), module.interface.first_function))


def not_written(kernel: Kernel, *arrays: object, **options: object) -> tuple[str, dict[str, object]]:
    with pytest.raises(OutputNotWritten) as found:
        kernel(*arrays, strict=True, **options)  # type: ignore[arg-type]
    return str(found.value), found.value.context


def test_elements_that_a_shader_leaves_out_are_counted_and_the_first_is_named(compiled: CompileText) -> None:
    found = not_written(compiled(COPY), ONES, out_shapes={"y": 100})
    assert found == (
        f"output 'y' has 100 elements, and 36 of them were never written, the first at index 64. {WRITE_MORE}",
        {"binding": "y", "count": 36, "elements": 100, "first_index": 64},
    )


def test_what_a_program_leaves_out_is_told_in_the_words_for_programs(driver: Driver) -> None:
    out = BufferDecl.output("out", 0, DataType.U32).with_count(4)
    program = Program.wrapped([out], (1, 1, 1), [store(out, 0, u32(1))])
    found = not_written(driver.compile(program))
    more = "start more workgroups (workgroups=)"
    fix = f"write each of them, or {more}, or declare it read_write where the rest is to stay as given"
    assert found[0] == f"output 'out' has 4 elements, and 3 of them were never written, the first at index 1. Fix: {fix}."


def test_what_a_strict_call_returns_is_what_a_call_returns(compiled: CompileText) -> None:
    x = np.arange(64, dtype=np.float32)
    assert compiled(COPY)(x, out_shapes={"y": 64}, strict=True).tolist() == x.tolist()


VEC3 = """
layout(binding = 0) readonly buffer X { float x[]; };
layout(binding = 1) writeonly buffer Y { vec3 y[]; };
#define POISON uintBitsToFloat(0x7FFA7FFAu)
void main() { uint i = gl_GlobalInvocationID.x; if (i < x.length()) y[i] = vec3(x[i], 2.0 * x[i], POISON); }
"""
BLOCK = """
struct Item { float a; vec2 b; vec3 c; };
layout(binding = 0) readonly buffer X { float x[]; };
layout(binding = 1) writeonly buffer Y { uint size; Item items[]; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i == 0u) size = 1;
    if (i < x.length()) { items[i].a = x[i]; items[i].b = vec2(x[i]); items[i].c = vec3(x[i]); }
}
"""


def test_no_poison_stays_in_the_padding_of_what_comes_back(compiled: CompileText, driver: Driver) -> None:
    kernel, x = compiled(VEC3), np.arange(1, 9, dtype=np.float32)
    given = np.full((8, 4), 5, np.float32)
    values = np.stack([x, 2 * x, np.full(8, 0x7FFA7FFA, np.uint32).view(np.float32)], 1)
    buffers = [driver.buffer(given), driver.zeros((8, 16), np.uint8)]
    for strict in (True, False):
        arrays = [kernel(x, given, strict=strict), kernel(x, buffers[0], strict=strict), kernel(x, buffers[1], strict=strict)]
        arrays += [buffers[0].read(), buffers[1].read()]
        held = [one.view(np.float32) for one in arrays]
        assert [one[:, :3].tobytes() == values.tobytes() for one in held] == [True] * 5
        assert [one[:, 3:].tolist() for one in held] == [[[last]] * 8 for last in (5, 5, 0, 5, 0)]


def test_no_poison_stays_between_the_members_of_structures_behind_a_header(compiled: CompileText) -> None:
    kernel, x = compiled(BLOCK), np.arange(1, 9, dtype=np.float32)
    for given in (np.zeros(16 + 32 * 8, np.uint8), np.full(16 + 32 * 8, 9, np.uint8)):
        found = [kernel(x, given, strict=strict, workgroups=1) for strict in (True, False)]
        assert (found[0].tobytes(), given[5] in found[0][5:16]) == (found[1].tobytes(), True)


def test_too_few_workgroups_are_noticed(compiled: CompileText) -> None:
    _, context = not_written(compiled(COPY), np.ones(256, np.float32), out_shapes={"y": 256}, workgroups=(3,))
    assert context == {"binding": "y", "count": 64, "elements": 256, "first_index": 192}


def test_an_array_given_for_a_write_only_buffer_is_poisoned_too_and_stays_as_it_is(compiled: CompileText) -> None:
    given = np.full(65, 5, np.float32)
    _, context = not_written(compiled(COPY), ONES, given)
    assert (context, given.tolist()) == ({"binding": "y", "count": 1, "elements": 65, "first_index": 64}, [5.0] * 65)


@pytest.mark.parametrize("poison", POISONS)
@pytest.mark.parametrize("written", [64, 50])
def test_a_shader_that_writes_the_poison_itself_is_not_blamed_for_it(compiled: CompileText, poison: int, written: int) -> None:
    kernel, push = compiled(POISONER), {"value": poison * 0x1_0001, "written": written}
    if written == 64:
        assert kernel(out_shapes={"y": 64}, push_constants=push, strict=True).tolist() == [poison * 0x1_0001] * 64
    else:
        _, context = not_written(kernel, out_shapes={"y": 64}, push_constants=push)
        assert context == {"binding": "y", "count": 14, "elements": 64, "first_index": 50}


def test_bytes_of_every_value_are_told_from_bytes_left_out() -> None:
    with Driver() as driver:
        kernel = driver.compile(glsl(BYTES))
        whole = kernel(out_shapes={"y": 256}, push_constants={"written": 256}, strict=True)
        _, context = not_written(kernel, out_shapes={"y": 256}, push_constants={"written": 250})
    assert (whole.tolist(), context) == (
        list(range(256)),
        {"binding": "y", "count": 6, "elements": 256, "first_index": 250},
    )


def test_a_component_left_out_of_a_vector_is_named(compiled: CompileText) -> None:
    message, context = not_written(compiled(VECTORS), out_shapes={"y": 64})
    assert (
        message.startswith("output 'y' has 64 elements, and 1 of them were never written, the first at index 2 (component 3)."),
        context,
    ) == (
        True,
        {"binding": "y", "count": 1, "elements": 64, "first_index": 2},
    )


def test_padding_and_headers_need_not_be_written(compiled: CompileText) -> None:
    kernel = compiled(PADDED)
    kernel(out_shapes={"Y": 64}, workgroups=(1,), push_constants={"left_out": 64}, strict=True)
    _, context = not_written(kernel, out_shapes={"Y": 64}, workgroups=(1,), push_constants={"left_out": 9})
    assert context == {"binding": "Y", "count": 1, "elements": 64, "first_index": 9}


def test_buffers_that_are_read_and_written_are_not_poisoned(compiled: CompileText) -> None:
    assert compiled(IN_PLACE)(ONES[:8], strict=True).tolist() == [1, 1, 1, 2, 1, 1, 1, 1]


def test_a_read_only_buffer_that_changes_is_told_with_both_values(driver: Driver) -> None:
    kernel = driver.compile(closed_to_writing(STRAY, "x"))
    with pytest.raises(InputChanged) as found:
        kernel(ONES, out_shapes={"y": 64}, strict=True)
    assert (str(found.value), found.value.context) == (
        (
            "input 'x' has 64 elements, and the dispatch changed 9 of them, the first at index 3 from 1.0 to 2.0. "
            "Fix: declare what the shader writes without readonly, and check the indices of all that it writes."
        ),
        {"binding": "x", "count": 9, "elements": 64, "first_index": 3},
    )


def test_a_changed_structure_is_shown_by_its_bytes(driver: Driver) -> None:
    text = """
    struct Item { uint a; float b; };
    layout(binding = 0) buffer X { uint size; Item items[]; };
    layout(binding = 1) writeonly buffer Y { float y[]; };
    void main() { uint i = gl_GlobalInvocationID.x; y[i] = items[i].b; if (i == 1u) items[i].a = 7u; }
    """
    with pytest.raises(InputChanged, match=r"input 'X' has 516 bytes, .* changed 1 of them, .* index 12 from 0x00 to 0x07\."):
        driver.compile(closed_to_writing(text, "X"))(bytes(516), out_shapes={"y": 64}, strict=True)


def test_a_call_that_is_not_strict_sees_nothing_of_it(driver: Driver, compiled: CompileText) -> None:
    stray = driver.compile(closed_to_writing(STRAY, "x"))(ONES, out_shapes={"y": 64})
    half = compiled(COPY)(ONES, out_shapes={"y": 100})
    assert (stray.tolist(), half.tolist()) == ([1] * 64, [1] * 64 + [0] * 36)


def switched(strict: bool | None) -> tuple[bool, list[str]]:  # noqa: FBT001 -- as it is given
    """Whether a driver reports what is left out, and which features it has of robust access."""
    with Driver(strict=strict) as driver:
        layer = driver.report()["layer"]
        assert isinstance(layer, dict)
        try:
            driver.compile(glsl(COPY))(ONES, out_shapes={"y": 100})
        except OutputNotWritten:
            return True, [one for one in layer["features"] if one.startswith("robust")]
    return False, [one for one in layer["features"] if one.startswith("robust")]


@pytest.mark.parametrize(
    ("variable", "argument", "expected"),
    [
        (None, None, (False, [])),
        (None, True, (True, ["robustBufferAccess"])),
        ("1", None, (True, ["robustBufferAccess"])),
        ("1", False, (False, [])),
        ("0", None, (False, [])),
        ("0", True, (True, ["robustBufferAccess"])),
    ],
)
def test_a_driver_is_strict_by_its_argument_or_else_by_the_setting(
    monkeypatch: pytest.MonkeyPatch,
    variable: str | None,
    argument: object,
    expected: tuple[bool, list[str]],
) -> None:
    if variable is not None:
        monkeypatch.setenv("VYRE_STRICT", variable)
    assert switched(argument) == expected


def test_a_strict_driver_is_lenient_where_a_call_says_so() -> None:
    with Driver(strict=True) as driver:
        assert driver.compile(glsl(COPY))(ONES, out_shapes={"y": 65}, strict=False).tolist() == [1] * 64 + [0]


def test_a_strict_driver_without_robust_access_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    lack_features(monkeypatch)
    with pytest.raises(
        UnsupportedFeature, match=r"^the driver is strict, and robustBufferAccess is not available on "
    ) as refused:
        Driver(strict=True)
    assert refused.value.context == {"feature": "robustBufferAccess"}


def test_bound_kernels_of_a_strict_driver_leave_resident_buffers_alone() -> None:
    with Driver(strict=True) as driver:
        x, y = driver.buffer(ONES), driver.buffer(np.full(65, 5, np.float32))
        driver.compile(SpirvModule.from_glsl(HEAD + COPY)).bind(x, y).run()
        assert y.read().tolist() == [1] * 64 + [5]
