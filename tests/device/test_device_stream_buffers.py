"""Streams with resident buffers: constants of all chunks, what is accumulated on the device, and what is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from kernels import SHIFT, STEP, glsl
from literals import refusal

from vyre_driver.errors import InvalidInput
from vyre_driver.lang import In, Index, InOut, atomic_add, kernel, u32

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vyre_driver import Driver

pytestmark = pytest.mark.device

PLACES = ["shared with the host", "writable by the host", "out of the host's reach"]
COUNT = 1000
STEPS = {"factor": 2, "summand": 1}
BACKWARD = """
layout(binding = 0) writeonly buffer To { uint to[]; };
layout(binding = 1) readonly buffer From { uint from[]; };
void main() { uint i = gl_GlobalInvocationID.x; if (i < to.length()) to[i] = from[i] + 1u; }
"""


def chunks_of(count: int) -> list[NDArray[np.uint32]]:
    """Chunks of equal numbers: 0s, 1s, 2s, ..."""
    return [np.full(COUNT, number, np.uint32) for number in range(count)]


REFUSED = {
    "an array that a buffer of out begins with": (
        lambda chunk, buffer, _: ((chunk,), (buffer,)),
        (
            "Buffer of shape (1000,) and type uint32 in out would begin with an array, while calls before it in the stream may "
            "be using it. Fix: give the buffer as an argument instead, so that it is updated, or get the result as an array."
        ),
    ),
    "a buffer that another begins with": (
        lambda _, buffer, other: ((buffer,), (other,)),
        (
            "Buffer of shape (1000,) and type uint32 would begin with a copy of a Buffer of shape (1000,) and type uint32 in "
            "each call of the stream. Fix: give the contents as an array, or no array in out, so that the buffer "
            "itself is updated."
        ),
    ),
    "a buffer that is read into an array": (
        lambda chunk, buffer, _: ((buffer,), (chunk,)),
        (
            "input_output 'values' got a buffer, and would be read into an array in each call of the stream. Fix: give None in "
            "its place in out, and read() the buffer when the stream has ended."
        ),
    ),
}


@pytest.mark.parametrize("place", PLACES, indirect=True)
@pytest.mark.parametrize("which", REFUSED)
def test_copies_of_buffers_that_calls_before_may_be_using_are_refused(place: tuple[Driver, bool, bool], which: str) -> None:
    driver = place[0]
    step, buffer, other = driver.compile(glsl(STEP)), driver.buffer(chunks_of(1)[0]), driver.zeros(COUNT, "u4")
    make, message = REFUSED[which]
    chunk, out = make(*chunks_of(1), buffer, other)
    stream = driver.stream(step, [chunk], out=[out], **STEPS)
    assert refusal(lambda: next(stream)) == (InvalidInput, 2201, message)
    assert (next(stream, None), buffer.read().sum(), other.read().sum()) == (None, 0, 0)


@pytest.mark.parametrize("place", PLACES, indirect=True)
def test_a_buffer_in_another_place_of_the_call_is_bound_there(place: tuple[Driver, bool, bool]) -> None:
    driver = place[0]
    backward, buffer = driver.compile(glsl(BACKWARD)), driver.zeros(COUNT, "u4")
    written = {"to": buffer, "from": chunks_of(8)[7]}
    read = {"from": buffer, "out_shapes": {"to": COUNT}}
    results = list(driver.stream(backward, [written] * 6 + [read] * 2, out=[None] * 6 + [(None,)] * 2))
    assert all(one is buffer for one in results[:6])
    assert [one.tolist() for one in results[6:]] == [[9] * COUNT] * 2
    assert buffer.read().tolist() == [8] * COUNT


@pytest.mark.parametrize("place", PLACES, indirect=True)
def test_calls_update_a_buffer_in_the_order_of_the_chunks(place: tuple[Driver, bool, bool]) -> None:
    driver = place[0]
    step, buffer = driver.compile(glsl(STEP)), driver.zeros(COUNT, "u4")
    steps = [{"summand": number} for number in range(9)]
    assert all(one is buffer for one in driver.stream(step, steps, factor=3, values=buffer))
    expected = 0
    for number in range(9):
        expected = 3 * expected + number
    assert buffer.read().tolist() == [expected] * COUNT


@pytest.mark.parametrize("place", PLACES, indirect=True)
def test_a_buffer_is_what_all_calls_read_and_a_view_of_one_too(place: tuple[Driver, bool, bool]) -> None:
    driver = place[0]
    shift = driver.compile(glsl(SHIFT))
    values = np.arange(COUNT + 3, dtype=np.uint32)
    buffer = driver.buffer(values)
    expected = [3 * np.roll(values[first : first + COUNT], -67) + 1 for first in (0, 3)]
    ring = [driver.zeros(COUNT, "u4") for _ in range(6)]
    for first, want in zip((0, 3), expected, strict=True):
        found = list(driver.stream(shift, [{} for _ in ring], out=ring, **{"from": buffer[first : first + COUNT]}))
        assert all(one is target for one, target in zip(found, ring, strict=True))
        assert [one.read().tolist() for one in found] == [want.tolist()] * 6
        calls = driver.stream(shift, [{} for _ in ring], out_shapes={"to": COUNT}, **{"from": buffer[first : first + COUNT]})
        assert [one.tolist() for one in calls] == [want.tolist()] * 6
    grown = driver.zeros(COUNT + 1, "u4")
    assert all(one.nbytes == 4 * COUNT for one in driver.stream(shift, chunks_of(6), out=[grown[1:]] * 6))
    assert grown.read().tolist() == [0] + [16] * COUNT


@kernel
def histogram(i: Index, x: In[u32], bins: InOut[u32]) -> None:
    atomic_add(bins, x[i] % 7, 1)


GLSL_HISTOGRAM = """
layout(binding = 0) readonly buffer Values { uint x[]; };
layout(binding = 1) buffer Bins { uint bins[]; };
void main() { uint i = gl_GlobalInvocationID.x; if (i < x.length()) atomicAdd(bins[x[i] % 7u], 1u); }
"""


@pytest.mark.parametrize("place", PLACES, indirect=True)
@pytest.mark.parametrize("is_python", [True, False])
def test_a_histogram_is_accumulated_on_the_device(place: tuple[Driver, bool, bool], is_python: bool) -> None:  # noqa: FBT001 -- a parameter
    driver = place[0]
    values = np.random.default_rng(1).integers(0, 1000, (20, COUNT), np.uint32)
    bins = driver.zeros(7, "u4")
    how = {} if is_python else {"invocations": COUNT}
    stream = driver.stream(
        histogram.over(COUNT) if is_python else driver.compile(glsl(GLSL_HISTOGRAM)), values, bins=bins, **how
    )
    for number, found in enumerate(stream, start=1):
        assert (found is bins, stream.finished) == (True, number)
    assert bins.read().tolist() == np.bincount((values % 7).ravel()).tolist()
