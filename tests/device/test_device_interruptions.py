"""Ctrl-C at single bytecodes of ours, drawn by a fixed seed; ``make stress`` tries all of them."""

from __future__ import annotations

import pytest
from interruptions import Child, drawn, summary

pytestmark = pytest.mark.device


@pytest.mark.parametrize("count", [24, pytest.param(300, marks=pytest.mark.thorough)])
def test_after_an_interrupt_at_any_bytecode_all_goes_on_and_nothing_is_left(count: int) -> None:
    child = Child("interruption.py")
    points = drawn(child.points(), count)
    wrong, reached = child.complaints(points)
    assert (wrong, reached > count * 0.8) == ({}, True), summary(wrong)  # threads take part: a step may be one later
