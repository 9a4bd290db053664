"""conv2d on cooperative matrices gives what numpy gives: of vectors of channels and of single ones, exactly cut and not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from convolutions import CASES, check, check_numbers_that_are_none

if TYPE_CHECKING:
    from vyre_driver import Driver

pytestmark = [pytest.mark.device, pytest.mark.matrices]


def test_every_window_is_numpys(layered: Driver) -> None:
    for case in CASES:
        check(layered, "float16", case, bias=False)


@pytest.mark.parametrize(
    "case",
    [
        pytest.param("edges on all sides", marks=pytest.mark.thorough),  # it takes long to compile
        "other strides, padding and dilation down than across",
    ],
)
def test_int8_is_numpys(layered: Driver, case: str) -> None:
    check(layered, "int8", case, bias=False)


def test_sums_in_parts_and_what_becomes_of_them_are_numpys(layered: Driver) -> None:
    for case in ("more channels than a step", "several rows of taps in a step", "one window of one channel"):
        check(layered, "float16", case, 4, residual=True, activation="relu")


def test_nan_and_infinities_come_out_where_numpy_has_them(layered: Driver) -> None:
    check_numbers_that_are_none(layered)
