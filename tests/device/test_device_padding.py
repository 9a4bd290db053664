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
