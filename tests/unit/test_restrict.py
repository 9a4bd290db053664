"""What a shader declares ``restrict`` may not be bound as another buffer too, while one of the two is written."""

from __future__ import annotations

import numpy as np
import pytest
from kernels import glsl
from literals import refusal

from vyre_driver.binding import BindingPlan
from vyre_driver.errors import InvalidInput

FLOATS, OTHERS = np.zeros(8, np.float32), np.zeros(8, np.float32)


def plan(x: str, y: str, z: str = "") -> BindingPlan:
    """Of a shader with three buffers of these qualifiers."""
    declared = ((place, name, kind) for place, (name, kind) in enumerate((("x", x), ("y", y), ("z", z))))
    text = "".join(
        f"layout(binding = {place}) {kind} buffer B{name} {{ float {name}[]; }};\n" for place, name, kind in declared
    )
    source = f"#version 450\nlayout(local_size_x = 64) in;\n{text}void main() {{ }}\n"
    return BindingPlan.from_reflection(glsl(source).reflection)


@pytest.mark.parametrize(("x", "y"), [("readonly restrict", ""), ("readonly", "restrict"), ("restrict writeonly", "readonly")])
def test_one_buffer_for_two_of_which_one_is_restrict_and_one_is_written_is_refused(x: str, y: str) -> None:
    roles = {"": "input_output", "restrict": "input_output", "readonly": "input", "readonly restrict": "input"}
    first, second = roles.get(x, "output"), roles[y]
    declared = "x" if "restrict" in x else "y"
    assert refusal(lambda: plan(x, y).check_resident((FLOATS, FLOATS, OTHERS))) == (
        InvalidInput,
        2201,
        (
            f"{first} 'x' (binding 0) and {second} 'y' (binding 1) are the same buffer, and the shader declares {declared!r} "
            "restrict. Fix: bind a copy, or drop restrict from the shader."
        ),
    )


@pytest.mark.parametrize(
    ("x", "y"), [("readonly", ""), ("readonly restrict", "readonly"), ("restrict readonly", "restrict readonly")]
)
def test_one_buffer_for_two_is_taken_where_neither_is_restrict_or_none_is_written(x: str, y: str) -> None:
    assert len(plan(x, y).check_resident((FLOATS, FLOATS, OTHERS))) == 3


def test_different_buffers_are_taken() -> None:
    assert len(plan("restrict", "restrict").check_resident((FLOATS, OTHERS, FLOATS.copy()))) == 3
