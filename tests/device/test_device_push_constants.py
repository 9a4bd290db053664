"""Push constants of every form, given by name and read back by a shader."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from kernels import HEAD, glsl

from vyre_driver import Driver
from vyre_driver.errors import InvalidPushConstant

if TYPE_CHECKING:
    from conftest import CompileText

pytestmark = pytest.mark.device

MATRICES = """
layout(push_constant) uniform Push {
    mat4x3 by_column; layout(row_major) mat2x3 by_row; mat2 many[2];
};
layout(binding = 0) writeonly buffer Y { float y[]; };
void main() {
    if (gl_GlobalInvocationID.x != 0u) return;
    vec3 a = by_column * vec4(1, 2, 3, 4); vec3 b = by_row * vec2(5, 6); vec2 c = many[1] * vec2(7, 8);
    y[0] = a.x; y[1] = a.y; y[2] = a.z; y[3] = b.x; y[4] = b.y; y[5] = b.z; y[6] = c.x; y[7] = c.y;
}
"""
NESTED = """
struct Light { vec3 position; float weights[2]; };
layout(push_constant) uniform Push { uint count; Light lights[2]; ivec2 cells[3]; };
layout(binding = 0) writeonly buffer Y { float y[]; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i > 0u) return;
    y[0] = float(count);
    for (uint k = 0u; k < 2u; k++) {
        for (uint c = 0u; c < 3u; c++) y[1u + 5u * k + c] = lights[k].position[c];
        y[4u + 5u * k] = lights[k].weights[0]; y[5u + 5u * k] = lights[k].weights[1];
    }
    for (uint k = 0u; k < 3u; k++) { y[11u + 2u * k] = float(cells[k].x); y[12u + 2u * k] = float(cells[k].y); }
}
"""
WIDE = """#version 450
#extension GL_EXT_shader_explicit_arithmetic_types : require
layout(local_size_x = 1) in;
layout(push_constant) uniform Push { float first; double d; int64_t i; uint64_t u; dvec2 v; };
layout(binding = 0) writeonly buffer Y { double y[4]; };
layout(binding = 1) writeonly buffer Z { uint64_t z[2]; };
void main() { y[0] = double(first); y[1] = d; y[2] = v.x; y[3] = v.y; z[0] = uint64_t(i); z[1] = u; }
"""


def test_matrices_are_given_as_rows_and_columns_whatever_their_layout(compiled: CompileText) -> None:
    rng = np.random.default_rng(5)
    by_column, by_row = rng.integers(-9, 9, (3, 4)).astype(np.float32), rng.integers(-9, 9, (3, 2))
    many = [[[1, 2], [3, 4]], [[5, 6], [7, 9]]]
    kernel = compiled(MATRICES)
    push = {"by_column": by_column, "by_row": by_row, "many": many}
    y = kernel(out_shapes={"y": 8}, push_constants=push, workgroups=(1,), strict=True)
    expected = [*(by_column @ [1, 2, 3, 4]), *(by_row @ [5, 6]), *(np.array(many[1]) @ [7, 8])]
    assert y.tolist() == [float(one) for one in expected]


def test_structures_are_given_by_their_members(compiled: CompileText) -> None:
    lights = [{"position": (1, 2, 3), "weights": [4, 5]}, {"weights": np.array([9, 10]), "position": np.array([6, 7, 8.0])}]
    push = {"count": 77, "lights": lights, "cells": [(11, -12), (13, 14), (15, 16)]}
    y = compiled(NESTED)(out_shapes={"y": 17}, push_constants=push, workgroups=(1,), strict=True)
    assert y.tolist() == [77, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, -12, 13, 14, 15, 16]


def test_numbers_of_64_bits_keep_all_of_them() -> None:
    push = {"first": 0.5, "d": 1 / 3, "i": -(2**62) - 1, "u": 2**64 - 3, "v": (np.pi, -1e300)}
    with Driver() as driver:
        y, z = driver.compile(glsl(WIDE))(push_constants=push, workgroups=(1,))
    assert (y.tolist(), z.tolist()) == ([0.5, 1 / 3, np.pi, -1e300], [2**64 - 2**62 - 1, 2**64 - 3])


LIGHT = {"position": (1, 2, 3), "weights": [4, 5]}
GOOD = {"count": 1, "lights": [LIGHT, LIGHT], "cells": [(1, 2)] * 3}


@pytest.mark.parametrize(
    ("changed", "problem", "constant"),
    [
        (
            {"lights": [LIGHT]},
            "push constant 'lights' is Light[2] and got 1 element(s). Fix: give a sequence of 2 elements.",
            "lights",
        ),
        (
            {"lights": 5},
            "push constant 'lights' is Light[2] and got something of type int. Fix: give a sequence of 2 elements.",
            "lights",
        ),
        (
            {"lights": [LIGHT, (1, 2)]},
            (
                "push constant 'lights[1]' is a structure and got something of type tuple. "
                "Fix: give a mapping with 'position', 'weights'."
            ),
            "lights[1]",
        ),
        (
            {"lights": [LIGHT, {"position": (1, 2, 3)}]},
            "push constant 'lights[1].weights' (f32[2]) was not given. Fix: give it, 2 x f32.",
            "lights[1].weights",
        ),
        (
            {"lights": [{**LIGHT, "color": 1}, LIGHT]},
            "the shader has no push constant 'lights[0].color'. Fix: give only what it declares: 'position', 'weights'.",
            "lights[0].color",
        ),
        (
            {"lights": [{**LIGHT, "position": (1, 2)}, LIGHT]},
            "push constant 'lights[0].position' is 3 x f32 and got 2 value(s). Fix: give 3 value(s).",
            "lights[0].position",
        ),
        (
            {"cells": np.zeros((2, 3), np.int32)},
            "push constant 'cells' is i32 of shape (3, 2) and got shape (2, 3). Fix: give i32 of shape (3, 2).",
            "cells",
        ),
        (
            {"cells": [(1, 2), (3, 4), (5,)]},
            "push constant 'cells' is i32 of shape (3, 2) and got [(1, 2), (3, 4), (5,)]. Fix: give i32 of shape (3, 2).",
            "cells",
        ),
        (
            {"cells": np.full((3, 2), 1.5)},
            (
                "push constant 'cells' is i32 of shape (3, 2), and 'float' object cannot be interpreted as an integer. "
                "Fix: give i32 of shape (3, 2)."
            ),
            "cells",
        ),
        (
            {"cells": [(1, 2), (3, 4), (5, 2**31)]},
            (
                "push constant 'cells' is i32 of shape (3, 2), and 2147483648 is not between -2147483648 and 2147483647. "
                "Fix: give i32 of shape (3, 2)."
            ),
            "cells",
        ),
    ],
)
def test_what_does_not_fit_is_refused_by_the_members_path(changed: dict[str, object], problem: str, constant: str) -> None:
    with Driver() as driver, pytest.raises(InvalidPushConstant) as refused:
        driver.compile(glsl(HEAD + NESTED))(out_shapes={"y": 17}, push_constants=GOOD | changed, workgroups=(1,))
    assert (str(refused.value), refused.value.context["constant"]) == (problem, constant)


BOOLS = """#version 450
layout(local_size_x = 64) in;
layout(binding = 0) writeonly buffer Y { uint y[]; };
layout(push_constant) uniform Push { bool on; bool many[2]; int whole; };
void main() { if (gl_GlobalInvocationID.x == 0) y[0] = uint(on) + 2 * uint(many[0]) + 4 * uint(many[1]) + uint(whole); }
"""


@pytest.mark.parametrize("many", [[False, True], np.array([False, True]), (0, np.True_)])
@pytest.mark.parametrize("on", [True, np.True_, 1])
def test_bools_of_glsl_take_truth_values(driver: Driver, on: object, many: object) -> None:
    kernel = driver.compile(glsl(BOOLS))
    assert kernel(out_shapes={"y": 1}, on=on, many=many, whole=0).tolist() == [5]
    with pytest.raises(InvalidPushConstant, match="push constant 'whole' is i32, and True is a truth value, not a number"):
        kernel(out_shapes={"y": 1}, on=on, many=many, whole=True)
