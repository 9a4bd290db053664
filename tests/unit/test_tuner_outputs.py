"""What counts as the right output of a candidate."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from vyre_driver.autotune.measure.trials import POISON, difference, unwritten

exact = partial(difference, tolerance=0.0)
near = partial(difference, tolerance=0.01)
F = np.float32


def floats(*values: float) -> list[np.ndarray]:
    return [np.array(values, F)]


def test_without_a_tolerance_every_bit_counts() -> None:
    nan = np.array([0x7FC00001], np.uint32).view(F)
    other = np.array([0x7FC00002], np.uint32).view(F)
    assert (exact(floats(1, 2), floats(1, 2)), exact([nan], [nan])) == (None, None)
    assert exact([nan], [other]) == "output 1: 1 of 1 elements are wrong, the first at index 0: nan, and nan is right"
    assert exact(floats(1, 0.0, 0.0), floats(1, -0.0, -0.0)) == (
        "output 1: 2 of 3 elements are wrong, the first at index 1: -0.0, and 0.0 is right"
    )


@pytest.mark.parametrize(
    ("right", "given", "agree"),
    [
        ([100, 0], [100.9, 0.9], True),  # of the largest magnitude, not of each
        ([100, 0], [100, 1.1], False),
        ([-100, 0], [-100, 0.9], True),
        ([1e30, 0], [1e30, 1e27], True),
        ([np.inf, 1], [np.inf, 1], True),
        ([np.inf, 1], [1, 1], False),
        ([np.inf, 1], [-np.inf, 1], False),
        ([np.inf, 1], [np.inf, 1.1], False),  # an infinity is not a magnitude
        ([1, 1], [np.inf, 1], False),
        ([np.nan, 1], [np.nan, 1], True),
        ([np.nan, 1], [0, 1], False),
        ([1, 1], [np.nan, 1], False),
        ([0, 0], [0, -0.0], True),
        ([0, 0], [0, 1e-30], False),
    ],
)
def test_with_a_tolerance_they_may_be_so_far_apart(right: list[float], given: list[float], agree: bool) -> None:  # noqa: FBT001 -- a case
    assert (near(floats(*right), floats(*given)) is None) is agree


def test_outputs_of_another_number_shape_or_type_are_wrong() -> None:
    assert near(floats(1), []) == "there are 0 outputs, and 1 are right"
    assert near(floats(1, 2), [np.zeros((2, 1), F)]) == (
        "output 1: float32 of shape (2, 1), and float32 of shape (2,) is right"
    )
    assert near([np.zeros(1, np.int32)], floats(0)) == "output 1: float32 of shape (1,), and int32 of shape (1,) is right"


def test_the_second_of_two_outputs_is_looked_at() -> None:
    right = [np.zeros((2, 2), np.uint8), np.arange(6, dtype=np.int64).reshape(2, 3)]
    given = [right[0], right[1].copy()]
    given[1][1, 1] = 7
    assert exact(right, given) == "output 2: 1 of 6 elements are wrong, the first at index 4: 7, and 4 is right"


def test_an_empty_output_is_right() -> None:
    assert (exact([np.zeros(0, F)], [np.zeros(0, F)]), near([np.zeros(0, F)], [np.zeros(0, F)])) == (None, None)


def test_outputs_count_as_written_when_one_byte_is_no_poison() -> None:
    silent = [np.full(8, POISON, np.uint8).view(F), np.full(3, POISON, np.uint8)]
    assert unwritten(silent) == "nothing was written to the outputs"
    silent[1][2] = 0
    assert unwritten(silent) is None
