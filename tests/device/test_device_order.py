"""Work on one driver takes effect in the order in which it was asked for, wherever memory overlaps.

Each ordered pair of ways to use a buffer, on slices of it that overlap, behind a kernel that still runs when they are asked
for and writes last of all: a wait or a barrier that is missing shows as a number of another time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from order import SLICES, WAYS, Scene

if TYPE_CHECKING:
    from vyre_driver import Driver

pytestmark = pytest.mark.device


# The second place has the writes of the first and the reads of the third.
PLACES = ["shared with the host", pytest.param("writable by the host", marks=pytest.mark.thorough), "out of the host's reach"]


@pytest.mark.parametrize("place", PLACES, indirect=True)
@pytest.mark.parametrize("first", WAYS)
def test_whatever_comes_second_sees_what_the_first_did(place: tuple[Driver, bool, bool], first: str) -> None:
    scene = Scene(place[0])
    for number, second in enumerate(WAYS):
        scene.play(first, second, SLICES if number % 2 else SLICES[::-1])
    assert scene.pending > len(WAYS) // 2  # the late kernel ran on while the rest was asked for
