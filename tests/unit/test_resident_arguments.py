"""Which resident buffers a call takes in the place of arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from literals import refusal
from shader_buffers import BY_VALUE, FIXED, X, Y, Z, invalid, plan, summary

if TYPE_CHECKING:
    from vyre_driver.spirv.reflection import BufferInterface


class Held:
    """What a resident buffer tells of itself."""

    def __init__(self, count: int, dtype: Any = np.float32) -> None:  # noqa: ANN401 -- numpy's own choice
        self.dtype = np.dtype(dtype)
        self.nbytes = count * self.dtype.itemsize
        self.shape = (count,)


def test_resident_buffers_are_taken_one_a_binding_without_contents() -> None:
    found = plan(X, Y, Z, FIXED).check_resident([Held(1), Held(2), Held(3), Held(3)])
    assert summary(found) == [
        ("x", None, 4, (1,), "float32"),
        ("y", None, 8, (2,), "float32"),
        ("z", None, 12, (3,), "float32"),
        ("fixed", None, 12, (3,), "float32"),
    ]


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_wrong_number_of_resident_buffers_is_refused(count: int) -> None:
    problem = f"the shader takes 2 buffer(s), 'x' (input), 'fixed' (output), and got {count}"
    fix = "pass a buffer for each binding, in binding order"
    assert refusal(lambda: plan(X, FIXED).check_resident([Held(3)] * count)) == invalid(problem, fix)


@pytest.mark.parametrize(
    ("given", "held", "problem", "fix"),
    [
        (
            Y,
            Held(1, np.float64),
            "input_output 'y' holds float32 and got an array of float64",
            BY_VALUE,
        ),
        (
            FIXED,
            Held(4),
            "output 'fixed' has 16 bytes, and the shader fixes it at 12 bytes (3 elements of 4 bytes)",
            "pass 12 bytes",
        ),
        (Y, Held(0), "input_output 'y' has 0 bytes, less than the 4 bytes of one element", "pass at least one element"),
    ],
)
def test_a_resident_buffer_that_does_not_fit_is_refused(given: BufferInterface, held: Held, problem: str, fix: str) -> None:
    assert refusal(lambda: plan(given).check_resident([held])) == invalid(problem, fix)
