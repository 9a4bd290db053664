"""What a call's keywords are taken for, and what is said where they cannot be."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

import numpy as np
import pytest
from literals import refusal

from vyre_driver import Kernel
from vyre_driver.binding.names import OPTIONS

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import CompileText

pytestmark = pytest.mark.device

SHARED_NAMES = """
layout(binding = 0) readonly buffer A { float a[]; };
layout(binding = 1) buffer B { float b[]; };
layout(push_constant) uniform P { float label; float a; } p;
void main() { b[0] = p.label + p.a; }
"""


def test_what_is_meant_by_a_keyword_is_told_where_it_cannot_be_taken(compiled: CompileText) -> None:
    named = compiled(SHARED_NAMES)
    x = np.zeros(1, np.float32)
    calls: dict[str, Callable[[], object]] = {
        "an option's name": lambda: named(x, x, label=1.0, push_constants={"a": 1.0}),
        "a name of both": lambda: named(x, x, a=1.0, push_constants={"label": 1.0}),
        "one array too many": lambda: named(x, x, b=x, push_constants={"label": 1.0, "a": 1.0}),
        "out by another name": lambda: named(x, x, out={"c": x}, push_constants={"label": 1.0, "a": 1.0}),
        "out of text": lambda: named(x, x, out="b", push_constants={"label": 1.0, "a": 1.0}),
        "constants of an array": lambda: named(x, x, push_constants=x),
    }
    assert {what: refusal(call)[2] for what, call in calls.items()} == {
        "an option's name": ("push constant 'label' (f32) was not given. Fix: give it in push_constants={'label': ...}, f32."),
        "a name of both": (
            "'a' is a buffer and a push constant of the shader. Fix: pass the array by position, and the number as "
            "push_constants={'a': ...}."
        ),
        "one array too many": (
            "the shader takes 2 array(s), and got 2 by position beside 'b' by name. Fix: give each once, by position or by "
            "its name."
        ),
        "out by another name": "out names 'c', which the shader does not write. Fix: name 'b'.",
        "out of text": (
            "out has something of type str for 'b'. Fix: give a numpy array or a buffer, which the result is written to, or "
            "None."
        ),
        "constants of an array": (
            "push constants came as ndarray, and are given by name. Fix: pass a dictionary from names to values."
        ),
    }
    out = np.empty(1, np.float32)
    assert named(x, x, out={"b": out}, push_constants={"label": 1.0, "a": 2.0}) is out
    assert out.tolist() == [3.0]


def test_the_options_of_a_call_are_those_that_no_name_of_a_shader_takes() -> None:
    taken = [one.name for one in inspect.signature(Kernel.__call__).parameters.values() if one.kind is one.KEYWORD_ONLY]
    assert set(taken) == OPTIONS
