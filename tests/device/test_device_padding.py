"""Arrays for padded elements: what shows its layout is read as it was meant, and what does not is refused, however it comes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from vyre_driver.errors import InvalidInput

if TYPE_CHECKING:
    from conftest import CompileText

    from vyre_driver import Driver

pytestmark = pytest.mark.device
LENGTHS = """
layout(binding = 0) readonly buffer P { vec3 pos[]; };
layout(binding = 1) writeonly buffer L { float len[]; };
void main() { uint i = gl_GlobalInvocationID.x; if (i < len.length()) len[i] = length(pos[i]); }
"""
STRUCTS = """
struct Item { float weight; vec3 at; };
layout(binding = 0) readonly buffer P { Item items[]; };
layout(binding = 1) writeonly buffer L { float len[]; };
void main() { uint i = gl_GlobalInvocationID.x; if (i < len.length()) len[i] = items[i].weight * length(items[i].at); }
"""
ITEM = np.dtype({"names": ["weight", "at"], "formats": ["f4", ("f4", 3)], "offsets": [0, 16], "itemsize": 32})
VIEWS = """
layout(binding = 0) readonly buffer P { vec3 pos[]; };
layout(binding = 0) readonly buffer F { float all_of[]; };
layout(binding = 1) writeonly buffer L { float len[]; };
void main() { uint i = gl_GlobalInvocationID.x; if (i < len.length()) len[i] = length(pos[i]) + 0.0 * all_of[i]; }
"""
HEADED = """
layout(binding = 0) readonly buffer P { float scale; vec3 pos[]; };
layout(binding = 1) writeonly buffer L { float len[]; };
void main() { uint i = gl_GlobalInvocationID.x; if (i < len.length()) len[i] = scale * length(pos[i]); }
"""
FIXED = LENGTHS.replace("pos[]", "pos[6]")
MATRICES = """
layout(binding = 0) readonly buffer P { mat3 turns[]; };
layout(binding = 1) writeonly buffer L { float len[]; };
void main() { uint i = gl_GlobalInvocationID.x; if (i < len.length()) len[i] = turns[i][2][1]; }
"""


DOUBLED = """
layout({layout}, binding = 0) buffer X {{ {type} x[]{axes}; }};
void main() {{ if (gl_GlobalInvocationID.x == 0u) for (int i = 0; i < x.length(); i++) x[i]{place} += x[i]{place}; }}
"""
# layout, type, axes of an element in GLSL, its place for numbers alone, its axes in numpy
PADDED = [
    ("std140", "float", "", "", ()),
    ("std140", "int", "", "", ()),
    ("std140", "uint", "", "", ()),
    ("std140", "vec2", "", "", (2,)),
    ("std430", "vec3", "", "", (3,)),
    ("std430", "ivec3", "", "", (3,)),
    ("std140", "mat2", "", "", (2, 2)),
    ("std140", "mat3x2", "", "", (2, 3)),
    ("std430", "mat3", "", "", (3, 3)),
    ("std140", "float", "[4]", "[0]", (4,)),
    ("std430", "vec3", "[2]", "[0]", (2, 3)),
]
NUMPY_TYPES = {"int": np.int32, "ivec3": np.int32, "uint": np.uint32}


def points(count: int) -> Any:  # noqa: ANN401 -- an array
    return np.arange(3 * count, dtype=np.float32).reshape(count, 3)


def wide(count: int) -> Any:  # noqa: ANN401 -- an array
    return np.pad(points(count), ((0, 0), (0, 1)))


def items(count: int) -> Any:  # noqa: ANN401 -- an array
    made = np.zeros(count, ITEM)
    made["weight"], made["at"] = 2, points(count)
    return made


@pytest.mark.parametrize(
    ("text", "given", "count"),
    [
        (LENGTHS, wide(8), 8),
        (LENGTHS, wide(8).tobytes(), 8),
        (LENGTHS, np.frombuffer(wide(8).tobytes(), np.uint8), 8),
        (LENGTHS, wide(8).view(np.uint8).reshape(8, 16), 8),
        (LENGTHS, wide(8).reshape(2, 4, 4), 8),
        (LENGTHS, wide(8).view([("xyz", "f4", 3), ("rest", "f4")]), 8),
        (FIXED, wide(6), 6),
        (FIXED, wide(6).reshape(-1), 6),
        (VIEWS, wide(8).tobytes(), 8),
    ],
)
def test_what_shows_where_the_padding_is_is_read_as_it_was_meant(
    compiled: CompileText,
    driver: Driver,
    text: str,
    given: Any,  # noqa: ANN401 -- arrays and bytes
    count: int,
) -> None:
    kernel, expected = compiled(text), np.linalg.norm(points(count), axis=1)
    np.testing.assert_allclose(kernel(given, out_shapes={"len": count}), expected, rtol=1e-6)
    np.testing.assert_allclose(kernel(given, out_shapes={"len": count}, strict=True), expected, rtol=1e-6)
    out = driver.empty(count, np.float32)
    kernel.bind(driver.buffer(given), out).run()
    np.testing.assert_allclose(out.read(), expected, rtol=1e-6)


def test_structures_with_gaps_are_read_as_they_were_meant(compiled: CompileText) -> None:
    found = compiled(STRUCTS)(items(8), out_shapes={"len": 8})
    np.testing.assert_allclose(found, 2 * np.linalg.norm(points(8), axis=1), rtol=1e-6)
    headed = np.float32(3).tobytes() + bytes(12) + wide(8).tobytes()
    np.testing.assert_allclose(
        compiled(HEADED)(headed, out_shapes={"len": 8}), 3 * np.linalg.norm(points(8), axis=1), rtol=1e-6
    )
    matrices = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    assert compiled(MATRICES)(matrices, out_shapes={"len": 2}).tolist() == [9, 21]


@pytest.mark.parametrize(
    ("text", "given"),
    [
        (LENGTHS, points(8).reshape(-1)),
        (LENGTHS, points(8).view(np.uint32)),
        (LENGTHS, wide(8).astype(np.int32)),
        (LENGTHS, np.zeros(8, [("xyz", "f4", 3)])),
        (FIXED, points(8)),
        (VIEWS, points(8)),
        (STRUCTS, np.zeros((8, 4), np.float32)),
        (STRUCTS, np.zeros(64, np.float32)),
        (HEADED, wide(8)),
        (MATRICES, np.zeros((4, 9), np.float32)),
    ],
)
def test_what_does_not_show_where_the_padding_is_is_refused_by_call_strict_call_and_bind(
    compiled: CompileText,
    driver: Driver,
    text: str,
    given: Any,  # noqa: ANN401 -- an array
) -> None:
    kernel = compiled(text)
    for call in (
        lambda: kernel(given, out_shapes={"len": 1}),
        lambda: kernel(given, out_shapes={"len": 1}, strict=True),
        lambda: kernel.bind(driver.buffer(given), driver.empty(1, np.float32)),
    ):
        with pytest.raises(InvalidInput, match=r"which does not show where the [0-9]+ other bytes are"):
            call()


def test_the_refusal_of_vectors_says_what_is_taken(compiled: CompileText) -> None:
    with pytest.raises(InvalidInput) as refused:
        compiled(LENGTHS)(points(8).astype(np.float64), out_shapes={"len": 8})
    assert str(refused.value) == (
        "input 'pos' holds vec3<f32> with 12 bytes of values, 16 bytes apart, and got an array of shape (8, 3) and type "
        "float64, which does not show where the 4 other bytes are. Fix: pass float32 of shape (n, 3), or of shape (n, 4) with "
        "the padding in it."
    )


@pytest.mark.parametrize("element", PADDED)
@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 8, 16])
def test_values_of_padded_elements_are_read_alike_whatever_their_number(
    compiled: CompileText, driver: Driver, element: tuple[str, str, str, str, tuple[int, ...]], count: int
) -> None:
    layout, glsl, axes, place, shape = element
    text = DOUBLED.format(layout=layout, type=glsl, axes=axes, place=place)
    kernel = compiled(text)
    writer = compiled(text.replace("buffer X", "writeonly buffer X").replace(f"+= x[i]{place}", f"= {glsl}(2)"))
    fresh = writer(out_shapes={"x": count}, workgroups=(1,))
    assert fresh.shape == (count, *shape)
    given = np.arange(1, 1 + fresh.size, dtype=NUMPY_TYPES.get(glsl, np.float32)).reshape(fresh.shape)
    expected = given.copy()
    expected[(slice(None), 0) if place else ...] *= 2
    into = np.zeros_like(given)
    kernel(given, out=into, workgroups=(1,))
    assert into.tolist() == kernel(given, workgroups=(1,)).tolist() == expected.tolist()
    with pytest.raises(InvalidInput, match=r"which does not lie as the shader reads it"):
        kernel.bind(driver.buffer(given))
    resident = driver.buffer(kernel.plan.pack("x", given))
    kernel.bind(resident, workgroups=(1,)).run()
    assert kernel.plan.unpack("x", resident.read()).tolist() == expected.tolist()


@pytest.mark.parametrize("shape", [(4,), (3, 1), (4, 1), (2, 2), (2, 2, 2)])
def test_single_numbers_with_padding_are_values_in_other_shapes_too(compiled: CompileText, shape: tuple[int, ...]) -> None:
    given = np.arange(1, 1 + np.prod(shape), dtype=np.float32).reshape(shape)
    text = DOUBLED.format(layout="std140", type="float", axes="", place="")
    assert compiled(text)(given, workgroups=(1,)).tolist() == (2 * given).tolist()


@pytest.mark.parametrize(
    ("glsl", "shape"), [("vec3", (4,)), ("vec3", (2, 2)), ("vec3", (4, 1)), ("vec2", (4,)), ("vec2", (4, 1)), ("mat3", (3, 4))]
)
def test_numbers_of_one_padded_element_without_an_axis_before_are_refused(
    compiled: CompileText, driver: Driver, glsl: str, shape: tuple[int, ...]
) -> None:
    kernel = compiled(DOUBLED.format(layout="std140", type=glsl, axes="", place=""))
    for call in (
        lambda: kernel(np.ones(shape, np.float32), workgroups=(1,)),
        lambda: kernel.bind(driver.buffer(np.ones(shape, np.float32)), workgroups=(1,)),
    ):
        with pytest.raises(InvalidInput, match=r"which does not show where the [0-9]+ other bytes are"):
            call()


def test_single_numbers_that_show_their_padding_keep_it(compiled: CompileText, driver: Driver) -> None:
    kernel, given = compiled(DOUBLED.format(layout="std140", type="float", axes="", place="")), np.ones((3, 4), np.float32)
    assert kernel(given, workgroups=(1,)).tolist() == [[2, 1, 1, 1]] * 3
    resident = driver.buffer(given)
    kernel.bind(resident, workgroups=(1,)).run()
    assert resident.read().tolist() == [[2, 1, 1, 1]] * 3


def test_out_shapes_and_out_refuse_single_numbers_in_a_shape_that_shows_padding(compiled: CompileText) -> None:
    text = DOUBLED.format(layout="std140", type="float", axes="", place="")
    kernel = compiled(text.replace("buffer X", "writeonly buffer X").replace("+= x[i]", "= 2.0"))
    for how in ({"out_shapes": {"x": (3, 4)}}, {"out": np.zeros((3, 4), np.float32)}):
        with pytest.raises(InvalidInput) as refused:
            kernel(workgroups=(1,), **how)
        assert str(refused.value) == (
            "output 'x' has numbers 16 bytes apart, and an array of shape (3, 4) holds 3 of them with their padding. "
            "Fix: give the number of values, 12, and reshape the result."
        )
