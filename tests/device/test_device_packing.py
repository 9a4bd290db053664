"""Values packed by the reflected layout: vectors, matrices, structures, uniform blocks, headers, as a shader sees them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from kernels import glsl

from vyre_driver import Driver
from vyre_driver.errors import InvalidInput, OutputNotWritten

if TYPE_CHECKING:
    from conftest import CompileText

pytestmark = pytest.mark.device
DOUBLED = """
layout(binding = 0) buffer P { vec3 pos[]; };
layout(binding = 1) writeonly buffer Q { vec3 twice[]; };
void main() { uint i = gl_GlobalInvocationID.x; if (i < pos.length()) { twice[i] = 2.0 * pos[i]; pos[i] += vec3(1, 2, 3); } }
"""
TURNED = """
layout(binding = 0) readonly buffer M { mat3 turns[]; };
layout(binding = 1) buffer N { mat4x3 wide[]; };
layout(binding = 2) writeonly buffer V { float v[]; };
void main() {
    uint i = gl_GlobalInvocationID.x; if (i > 0u) return;
    vec3 a = turns[1] * vec3(1, 2, 3); vec3 b = wide[0] * vec4(1, 2, 3, 4);
    for (uint k = 0u; k < 3u; k++) { v[k] = a[k]; v[3u + k] = b[k]; }
    wide[0][3][0] = 99.0;
}
"""
SQUARES = """
layout(binding = 0) buffer M { mat4 m[]; };
layout(binding = 1) writeonly buffer V { vec4 v[]; };
void main() { uint i = gl_GlobalInvocationID.x; if (i < m.length()) { v[i] = m[i] * vec4(1, 2, 3, 4); m[i][3][0] = 7.0; } }
"""
PARTICLES = """
struct Box { vec3 low; float margin; vec3 high; };
struct Particle { vec3 at; uint id; mat2 turn; Box boxes[2]; float weights[3]; };
layout(binding = 0) buffer P { Particle items[]; };
layout(binding = 1) writeonly buffer Q { Particle copies[]; };
void main() {
    uint i = gl_GlobalInvocationID.x; if (i >= items.length()) return;
    copies[i].at = items[i].at.zyx; copies[i].id = items[i].id + 1u; copies[i].turn = transpose(items[i].turn);
    copies[i].boxes[0] = items[i].boxes[1]; copies[i].boxes[1] = items[i].boxes[0]; copies[i].weights = items[i].weights;
    items[i].boxes[1].high.z += 0.5; items[i].weights[2] = float(items[i].id);
}
"""
SCENE = """
struct Light { vec3 position; float power; };
layout(std140, binding = 0) uniform Scene { float scale; vec2 offsets[2]; mat3 turn; Light lights[2]; ivec3 cell; float w[3]; };
layout(binding = 1) writeonly buffer Y { float y[]; };
void main() {
    if (gl_GlobalInvocationID.x > 0u) return;
    vec3 a = turn * vec3(1, 2, 3);
    y[0] = scale; y[1] = offsets[1].x; y[2] = offsets[1].y; y[3] = a.x; y[4] = a.y; y[5] = a.z; y[6] = lights[1].position.z;
    y[7] = lights[1].power; y[8] = float(cell.z); y[9] = w[0]; y[10] = w[2];
}
"""
LISTED = """
layout(binding = 0) buffer L { uint count; float scale; vec3 items[]; };
void main() { uint i = gl_GlobalInvocationID.x; if (i < count) items[i] *= scale; if (i == 0u) scale = 0.0; }
"""
WIDE = """#version 450
#extension GL_EXT_shader_explicit_arithmetic_types : require
#extension GL_EXT_shader_8bit_storage : require
#extension GL_EXT_shader_16bit_storage : require
layout(local_size_x = 1) in;
struct Item { float first; dmat3 d; int64_t i; uint8_t small; float16_t half_; u8vec3 bytes; dvec3 v; };
layout(binding = 0) readonly buffer X { Item given[2]; };
layout(binding = 1) writeonly buffer Y { Item back[2]; };
void main() {
    back[0].first = given[1].first; back[0].d = given[1].d; back[0].i = given[1].i; back[0].small = given[1].small;
    back[0].half_ = given[1].half_; back[0].bytes = given[1].bytes; back[0].v = given[1].v; back[1] = given[0];
}
"""
SETTINGS = """
layout(binding = 0) buffer S { float gain; uvec3 seen; };
void main() { if (gl_GlobalInvocationID.x == 0u) { seen += uvec3(1, 2, 3); gain *= 2.0; } }
"""
VEC2S = """
layout(std140, binding = 0) buffer P { vec2 pairs[]; };
void main() { uint i = gl_GlobalInvocationID.x; if (i < pairs.length()) pairs[i] = pairs[i].yx; }
"""
LIGHTS = [{"position": (1, 2, 3), "power": 4.0}, {"position": np.array([5, 6, 7]), "power": 8}]
TURN = np.arange(9, dtype=np.float64).reshape(3, 3)
SCENE_GIVEN: dict[str, Any] = {
    "scale": 0.5,
    "offsets": [(1, 2), (3, 4)],
    "turn": TURN,
    "lights": LIGHTS,
    "cell": (-1, -2, -3),
    "w": np.array([1.5, 2.5, 3.5]),
}


def points(*shape: int) -> Any:  # noqa: ANN401 -- an array
    return np.arange(3 * int(np.prod(shape)), dtype=np.float32).reshape(*shape, 3)


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("shape", [(8,), (5,), (1,), (2, 3)])
def test_vectors_of_three_are_packed_and_come_back_in_the_shape_that_they_were_given_in(
    compiled: CompileText,
    shape: tuple[int, ...],
    strict: bool,  # noqa: FBT001 -- a parameter of the test
) -> None:
    kernel, given = compiled(DOUBLED), points(*shape)
    count = int(np.prod(shape))
    for turn in range(3):  # a second call must not find the first one's form
        pos, twice = kernel(given + turn, out_shapes={"twice": count}, strict=strict)
        assert (pos.shape, pos.dtype, twice.shape, twice.dtype) == (given.shape, np.float32, (count, 3), np.float32)
        assert np.array_equal(pos, given + turn + np.float32([1, 2, 3]))
        assert np.array_equal(twice, 2 * (given + turn).reshape(-1, 3))
    assert np.array_equal(given, points(*shape))


def test_vectors_that_are_padded_already_stay_as_they_are(compiled: CompileText) -> None:
    kernel, padded = compiled(DOUBLED), np.pad(points(4), ((0, 0), (0, 1)), constant_values=-5)
    for given in (padded, points(4), padded, points(4)):
        pos, twice = kernel(given, out_shapes={"twice": 4})
        assert pos.shape == given.shape
        assert np.array_equal(pos[:, :3], points(4) + np.float32([1, 2, 3]))
        assert np.array_equal(twice, 2 * points(4))
    (pos, _) = kernel(padded, out_shapes={"twice": 4})
    assert pos[:, 3].tolist() == [-5] * 4
    (pos, _) = kernel(padded.tobytes(), out_shapes={"twice": 4})
    assert (pos.dtype, pos.shape) == (np.uint8, (64,))


def test_vectors_are_packed_from_whatever_holds_them(compiled: CompileText) -> None:
    kernel, given = compiled(DOUBLED), points(4)
    for like in (
        given[::-1][::-1],
        np.asfortranarray(given),
        memoryview(given),
        given.view(np.recarray),
        {"pos": given.tolist()},
    ):
        pos, twice = kernel(like, out_shapes={"twice": 4})
        assert np.array_equal(pos, given + np.float32([1, 2, 3]))
        assert np.array_equal(twice, 2 * given)


def test_matrices_have_rows_and_columns_whatever_their_layout(compiled: CompileText) -> None:
    turns, wide = np.arange(18, dtype=np.float32).reshape(2, 3, 3), np.arange(12, dtype=np.float32).reshape(1, 3, 4)
    back, v = compiled(TURNED)(turns, wide, out_shapes={"v": 6}, workgroups=(1,))
    assert v.tolist() == [*(turns[1] @ [1, 2, 3]), *(wide[0] @ [1, 2, 3, 4])]
    expected = wide.copy()
    expected[0, 0, 3] = 99
    assert np.array_equal(back, expected)
    m = np.arange(32, dtype=np.float32).reshape(2, 4, 4)
    after, products = compiled(SQUARES)(m, out_shapes={"v": 2})
    assert np.array_equal(products, m @ np.float32([1, 2, 3, 4]))
    assert (after[:, 0, 3].tolist(), np.array_equal(after[:, 1:], m[:, 1:])) == ([7, 7], True)


def structured(kernel: Any, count: int) -> Any:  # noqa: ANN401 -- a kernel and an array
    rng = np.random.default_rng(count)
    made = np.zeros(count, kernel.plan.element_dtype("items"))
    made["at"], made["id"], made["turn"] = rng.normal(size=(count, 3)), np.arange(count), rng.normal(size=(count, 2, 2))
    made["boxes"]["low"], made["boxes"]["high"] = rng.normal(size=(2, count, 2, 3))
    made["boxes"]["margin"], made["weights"] = rng.normal(size=(count, 2)), rng.normal(size=(count, 3))
    return made


def check_particles(given: Any, items: Any, copies: Any) -> None:  # noqa: ANN401 -- arrays
    assert (copies["at"] == given["at"][:, ::-1]).all()
    assert (copies["id"] == given["id"] + 1).all()
    assert (copies["turn"] == given["turn"].transpose(0, 2, 1)).all()
    for name in ("low", "margin", "high"):
        assert (copies["boxes"][name] == given["boxes"][name][:, ::-1]).all()
    assert (copies["weights"] == given["weights"]).all()
    assert (items["boxes"]["high"][:, 1, 2] == given["boxes"]["high"][:, 1, 2] + np.float32(0.5)).all()
    assert (items["weights"][:, 2] == given["id"]).all()
    assert (items["at"] == given["at"]).all()


@pytest.mark.parametrize("strict", [False, True])
def test_structures_are_packed_by_name_from_any_layout_and_come_back_in_it(
    compiled: CompileText,
    strict: bool,  # noqa: FBT001 -- a parameter of the test
) -> None:
    kernel = compiled(PARTICLES)
    reflected = kernel.plan.element_dtype("items")
    assert reflected is not None
    assert (reflected.itemsize, reflected.fields["boxes"][1]) == (kernel.plan.bindings[0].stride, 32)
    boxed = [("high", "f4", 3), ("low", "f4", 3), ("margin", "f4")]
    tight = np.dtype([("weights", "f4", 3), ("turn", "f4", (2, 2)), ("id", "u4"), ("boxes", boxed, 2), ("at", "f4", 3)])
    for dtype in (reflected, tight, tight, reflected):
        given = np.zeros(3, dtype)
        for name in tight.names:
            if name == "boxes":
                for inner in ("low", "margin", "high"):
                    given[name][inner] = structured(kernel, 3)[name][inner]
            else:
                given[name] = structured(kernel, 3)[name]
        items, copies = kernel(given, out_shapes={"copies": 3}, strict=strict)
        assert (items.dtype, items.shape, copies.dtype, copies.shape) == (dtype, (3,), reflected, (3,))
        check_particles(given, items, copies)


def test_structures_are_packed_from_a_list_of_mappings(compiled: CompileText) -> None:
    kernel = compiled(PARTICLES)
    given = structured(kernel, 2)
    mappings = [
        {
            **{name: one[name] for name in ("at", "id", "turn", "weights")},
            "boxes": [dict(zip(b.dtype.names, b, strict=True)) for b in one["boxes"]],
        }
        for one in given
    ]
    items, copies = kernel(mappings, out_shapes={"copies": 2})
    check_particles(given, items, copies)


def test_a_uniform_block_is_given_by_the_names_of_its_members(compiled: CompileText) -> None:
    kernel = compiled(SCENE)
    expected = [0.5, 3, 4, *(TURN @ [1, 2, 3]), 7, 8, -3, 1.5, 3.5]
    packed = kernel.plan.unpack("Scene", kernel.plan.pack("Scene", SCENE_GIVEN))
    assert (packed.shape, packed.dtype) == ((), kernel.plan.element_dtype("Scene"))
    for given in (
        SCENE_GIVEN,
        packed,
        packed.reshape(1),
        kernel.plan.pack("Scene", SCENE_GIVEN),
        dict(reversed(SCENE_GIVEN.items())),
    ):
        for strict in (False, True):
            assert kernel(given, out_shapes={"y": 11}, workgroups=(1,), strict=strict).tolist() == expected


def test_a_header_stands_before_its_items(compiled: CompileText, driver: Driver) -> None:
    kernel = compiled(LISTED)
    given = {"count": 3, "scale": 2, "items": points(4)}
    expected = points(4) * np.float32([[2], [2], [2], [1]])
    for strict in (False, True):
        out = kernel(given, workgroups=(1,), strict=strict)
        assert (out.shape, out["count"], out["scale"]) == ((), 3, 0)
        assert np.array_equal(out["items"], expected)
    out["scale"] = 3
    assert np.array_equal(kernel(out, workgroups=(1,))["items"], expected * np.float32([[3], [3], [3], [1]]))
    assert kernel({"count": 0, "scale": 1, "items": [(1, 2, 3)]}, workgroups=(1,))["items"].tolist() == [[1, 2, 3]]
    resident = driver.buffer(kernel.plan.pack("L", given))
    kernel.bind(resident, workgroups=(1,)).run()
    assert np.array_equal(kernel.plan.unpack("L", resident.read())["items"], expected)


def test_numbers_of_every_width_keep_all_of_their_bits() -> None:
    with Driver() as driver:
        kernel = driver.compile(glsl(WIDE))
        dtype = kernel.plan.element_dtype("given")
        given = np.zeros(2, dtype)
        rng = np.random.default_rng(3)
        for name in ("d", "v", "first", "half_"):
            given[name] = rng.normal(size=given[name].shape)
        given["i"], given["small"], given["bytes"] = [2**62 + 1, -(2**61) - 3], [200, 255], [(1, 2, 255), (4, 5, 6)]
        back = kernel(given, workgroups=(1,))
        assert back.dtype == dtype
        for name in dtype.names:
            assert np.array_equal(back[name], given[name][::-1]), name


def test_a_structure_given_by_name_comes_back_as_one(compiled: CompileText) -> None:
    kernel = compiled(SETTINGS)
    out = kernel({"gain": 1.5, "seen": (1, 2, 2**32 - 4)}, workgroups=(1,))
    assert (out.shape, float(out["gain"]), out["seen"].tolist()) == ((), 3.0, [2, 4, 2**32 - 1])
    out = kernel(out, workgroups=(1,))
    assert (out.shape, float(out["gain"]), out["seen"].tolist()) == ((), 6.0, [3, 6, 2])
    raw = kernel(out.tobytes(), workgroups=(1,))
    assert (raw.dtype, raw.shape) == (np.uint8, (28,))


def test_resident_buffers_take_what_pack_gives_and_refuse_values(compiled: CompileText, driver: Driver) -> None:
    kernel = compiled(DOUBLED)
    out = driver.buffer(np.zeros((4, 16), np.uint8))
    with pytest.raises(InvalidInput) as refused:
        kernel.bind(driver.buffer(points(4)), out)
    assert str(refused.value) == (
        "input_output 'pos' is a buffer of shape (4, 3) and type float32, which does not lie as the shader reads it: vec3<f32> "
        "every 16 bytes. Fix: make the buffer of kernel.plan.pack('pos', a), where a is the array."
    )
    resident = driver.buffer(kernel.plan.pack("pos", points(4)))
    kernel.bind(resident, out).run()
    assert np.array_equal(kernel.plan.unpack("twice", out.read()), 2 * points(4))
    assert np.array_equal(kernel.plan.unpack("pos", resident.read()), points(4) + np.float32([1, 2, 3]))


def test_strict_calls_know_padding_from_what_was_never_written(compiled: CompileText) -> None:
    kernel = compiled(DOUBLED.replace("twice[i] =", "if (i != 5u) twice[i] ="))
    with pytest.raises(OutputNotWritten) as refused:
        kernel(points(8), out_shapes={"twice": 8}, strict=True)
    assert refused.value.context["first_index"] == 5
    assert refused.value.context["count"] == 1


def test_what_may_be_values_or_memory_is_refused(compiled: CompileText) -> None:
    kernel = compiled(VEC2S)
    pairs = np.arange(8, dtype=np.float32).reshape(4, 2)
    assert np.array_equal(kernel(pairs), pairs[:, ::-1])
    with pytest.raises(InvalidInput) as refused:
        kernel(pairs.reshape(2, 2, 2))
    assert str(refused.value) == (
        "input_output 'pairs' holds vec2<f32>, 16 bytes apart, and got an array of shape (2, 2, 2): 4 of them or 2 "
        "with their padding. Fix: pass it with fewer axes, or as {'pairs': array}."
    )
    assert np.array_equal(kernel({"pairs": pairs}), pairs[:, ::-1])
    with pytest.raises(InvalidInput, match=r"does not show where the 8 other bytes are"):
        kernel(pairs.reshape(-1))
