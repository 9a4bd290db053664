"""What a time-out may be, and how much of it is left."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from vyre_driver.errors import InvalidInput
from vyre_driver.kompute.deadline import Deadline


@pytest.mark.parametrize("seconds", [None, 2**32, 10**400, 1e300, float("inf")], ids=lambda one: f"{one!s:.9}")
def test_none_and_more_than_136_years_have_no_end(seconds: float | None) -> None:
    assert Deadline(seconds, "a device").left_ns() is None


@pytest.mark.parametrize("seconds", [600, 600.0, np.float32(600), np.int64(600), Fraction(1200, 2)], ids=repr)
def test_real_numbers_of_any_type_are_seconds(seconds: float) -> None:
    left = Deadline(seconds, "a device").left_ns()
    assert left is not None
    assert 0 < left <= 600 * 10**9


@pytest.mark.parametrize(
    "seconds", [-1, -0.5, float("nan"), -(10**400), True, np.bool_(True), "1", 1j, (1,)], ids=lambda it: f"{it!r:.9}"
)
def test_anything_else_is_refused(seconds: object) -> None:
    with pytest.raises(InvalidInput) as refused:
        Deadline(seconds, "a device")
    assert str(refused.value) == (
        f"timeout is {seconds!r}, which is not a number of seconds of at least 0. Fix: give seconds, or None to wait for ever."
    )
