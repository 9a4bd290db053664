"""The caller's arrays in streams: which copies are made of them, when they may be used again, and which may not be shared."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from kernels import STEP, glsl
from literals import refusal

from vyre_driver.errors import InvalidInput
from vyre_driver.lang import In, Index, InOut, bool_, kernel, u32

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vyre_driver import Driver

pytestmark = pytest.mark.device

LAYERED = ["shared with the host", "writable by the host", "out of the host's reach"]
APART = LAYERED[1:]
ALONE = ["without the layer", "shared without the layer"]
COUNT = 1000
STEPS = {"factor": 2, "summand": 1}


@kernel
def added(i: Index, x: In[u32], total: InOut[u32]) -> None:
    total[i] = total[i] + x[i]


@kernel
def flipped(i: Index, x: In[bool_], state: InOut[bool_]) -> None:
    state[i] = x[i] != state[i]


def chunks_of(count: int) -> list[NDArray[np.uint32]]:
    """Chunks of equal numbers: 0s, 1s, 2s, ..."""
    return [np.full(COUNT, number, np.uint32) for number in range(count)]


READ = (
    "an array of shape {} and type {} is read by a call of the stream, while the result of a call before it is yet to be "
    "written there. Fix: give each call arrays of its own; where a call goes on with what the one before has left, give a "
    "resident buffer."
)
WRITTEN = (
    "an array of shape (1000,) and type uint32 is written by a call of the stream, while the result of a call before it is yet "
    "to be written there. Fix: give each call an array of its own in out, which may be used again by the fifth call after it."
)


@pytest.mark.parametrize("place", LAYERED, indirect=True)
@pytest.mark.parametrize("is_pinned", [False, True])
def test_a_call_that_would_read_what_a_result_is_yet_to_be_written_to_is_refused(
    place: tuple[Driver, bool, bool],
    is_pinned: bool,  # noqa: FBT001 -- a parameter
) -> None:
    driver = place[0]
    step, chunks = driver.compile(glsl(STEP)), chunks_of(8)
    total = driver.pinned(COUNT, "u4") if is_pinned else np.zeros(COUNT, np.uint32)
    state = np.zeros(COUNT, bool)
    streams: dict[str, Any] = {
        "(1000,) and type uint32": driver.stream(added, chunks, total=total),
        "(1000,) and type bool": driver.stream(flipped, [np.ones(COUNT, bool)] * 5, state=state),
        "(990,) and type uint32": driver.stream(step, [chunks[1][:990], chunks[1][10:]], out=[chunks[1][:990]] * 2, **STEPS),
    }
    for which, stream in streams.items():
        next(stream)
        assert refusal(lambda stream=stream: next(stream)) == (InvalidInput, 2201, READ.format(*which.split(" and type ")))
    assert (total.sum(), state.all(), chunks[1].tolist()) == (0, True, [3] * 990 + [1] * 10)


@pytest.mark.parametrize("place", LAYERED, indirect=True)
def test_a_result_that_would_be_written_over_one_that_nobody_has_seen_is_refused(place: tuple[Driver, bool, bool]) -> None:
    driver = place[0]
    step, chunks = driver.compile(glsl(STEP)), chunks_of(20)
    for length in range(1, 6):
        ring = [driver.pinned(COUNT, "u4") for _ in range(length)]
        stream = driver.stream(step, chunks, out=itertools.cycle(ring), **STEPS)
        if length == 5:
            assert [set(one.tolist()) for one in stream] == [{2 * number + 1} for number in range(20)]
        else:
            assert [set(next(stream).tolist()) for _ in range(length)] == [{2 * number + 1} for number in range(length)]
            assert refusal(lambda stream=stream: next(stream)) == (InvalidInput, 2201, WRITTEN)


@pytest.mark.parametrize("place", [*LAYERED, *ALONE], indirect=True)
def test_a_result_may_be_written_to_the_array_that_its_chunk_is(place: tuple[Driver, bool, bool]) -> None:
    driver = place[0]
    is_layered = driver.context.device.layer is not None
    step = driver.compile(glsl(STEP))
    for make in (np.zeros, driver.pinned if is_layered else np.zeros):
        rows = make((7, COUNT), np.uint32)
        rows[:] = np.arange(7)[:, None]
        for turn in (1, 2):
            rounds = list(driver.stream(step, rows, out=rows, **STEPS))
            assert all(np.shares_memory(one, row) for one, row in zip(rounds, rows, strict=True))
            expected = [(number << turn) + (1 << turn) - 1 for number in range(7)]
            assert (rows == np.array(expected)[:, None]).all()
        totals = make((6, COUNT), np.uint32)
        for _ in range(2):
            assert len(list(driver.stream(added, zip(rows[:6], totals, strict=True)))) == 6
        assert (totals == 2 * rows[:6]).all()
