"""The caller's arrays in streams: which copies are made of them, when they may be used again, and which may not be shared."""

from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from kernels import STEP, glsl
from literals import refusal

from vyre_driver.errors import InvalidInput
from vyre_driver.kompute import memory as memory_module
from vyre_driver.kompute.movers import Movers
from vyre_driver.lang import In, Index, InOut, bool_, kernel, u32
from vyre_driver.vulkan.layer import _layer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from vyre_driver import Driver

pytestmark = pytest.mark.device

PLACES = ["shared with the host", "writable by the host", "out of the host's reach"]
APART = PLACES[1:]
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


@pytest.mark.parametrize("place", PLACES, indirect=True)
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


class Shown:
    """Shows an array's memory as numpy's protocol has it."""

    def __init__(self, array: NDArray[np.uint32]) -> None:
        """Hold it, for its memory."""
        self.array = array
        self.__array_interface__ = array.__array_interface__


@pytest.mark.parametrize("place", PLACES, indirect=True)
@pytest.mark.parametrize("shown", [memoryview, Shown, lambda array: {"values": memoryview(array)}])
def test_whatever_shows_the_memory_that_a_result_is_yet_to_be_written_to_is_refused(
    place: tuple[Driver, bool, bool], shown: Callable[[NDArray[np.uint32]], object]
) -> None:
    result = np.zeros(COUNT, np.uint32)
    chunks = [np.ones(COUNT, np.uint32), shown(result)]
    stream = place[0].stream(place[0].compile(glsl(STEP)), chunks, out=[result, None], **STEPS)
    assert set(next(stream).tolist()) == {3}
    assert refusal(lambda: next(stream)) == (InvalidInput, 2201, READ.format("(1000,)", "uint32"))


@pytest.mark.parametrize("place", PLACES, indirect=True)
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


@pytest.mark.parametrize("place", PLACES, indirect=True)
def test_a_result_may_be_written_to_the_array_that_its_chunk_is(place: tuple[Driver, bool, bool]) -> None:
    driver = place[0]
    step = driver.compile(glsl(STEP))
    for make in (np.zeros, driver.pinned):
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


@pytest.fixture
def copied(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The bytes of each copy that the host makes of arrays; zeros are no copy."""
    lengths: list[int] = []
    copy_bytes, put = _layer.copy_bytes, Movers.put

    def counted(target: Any, source: Any) -> None:  # noqa: ANN401 -- buffers
        lengths.append(memoryview(target).nbytes)
        copy_bytes(target, source)

    def counted_moves(movers: Movers, mover: Any, moves: Any, *given: Any, **how: Any) -> int:  # noqa: ANN401 -- as it takes
        lengths.extend(byte_len for _, _, _, byte_len, host, _, _ in moves if host is not None)
        return put(movers, mover, moves, *given, **how)

    monkeypatch.setattr(_layer, "copy_bytes", counted)
    monkeypatch.setattr(Movers, "put", counted_moves)
    return lengths


@pytest.mark.parametrize("place", APART, indirect=True)
@pytest.mark.parametrize("long_bytes", [1000, 1 << 25])
def test_the_host_copies_no_pinned_array_and_every_other_once(
    place: tuple[Driver, bool, bool], copied: list[int], long_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_module, "LONG_BYTES", long_bytes)
    driver = place[0]
    step = driver.compile(glsl(STEP))
    table, out = driver.pinned((9, COUNT), "u4"), driver.pinned((9, COUNT), "u4")
    table[:] = np.arange(9)[:, None]
    for one in driver.stream(step, table, out=out, **STEPS):
        assert one.base is not None
    assert ((out == 2 * table + 1).all(), copied) == (True, [])
    assert [set(one.tolist()) for one in driver.stream(step, table, **STEPS)] == [{2 * number + 1} for number in range(9)]
    assert copied == [4 * COUNT] * 9  # to the new arrays of the results
    copied.clear()
    out[:] = 0
    list(driver.stream(step, chunks_of(9), out=out, **STEPS))
    assert ((out == 2 * table + 1).all(), copied) == (True, [4 * COUNT] * 9)


@pytest.mark.parametrize("place", PLACES, indirect=True)
@pytest.mark.parametrize("is_pinned", [False, True])
def test_a_ring_of_five_arrays_is_enough(place: tuple[Driver, bool, bool], is_pinned: bool) -> None:  # noqa: FBT001 -- a parameter
    driver = place[0]
    make = driver.pinned if is_pinned else np.zeros
    ring, results = make((5, 200_000), np.uint32), make((5, 200_000), np.uint32)

    def refilled() -> Iterator[NDArray[np.uint32]]:
        for number in range(50):
            ring[number % 5] = number
            yield ring[number % 5]

    stream = driver.stream(driver.compile(glsl(STEP)), refilled(), out=itertools.cycle(results), **STEPS)
    for number, one in enumerate(stream):
        assert (one == 2 * number + 1).all()
        one[:] = 0
    assert stream.finished == 50


@pytest.mark.parametrize("place", PLACES, indirect=True)
def test_no_more_is_read_ahead_than_four_chunks(place: tuple[Driver, bool, bool]) -> None:
    driver = place[0]
    pulled: list[int] = []

    def counted() -> Iterator[NDArray[np.uint32]]:
        for number, chunk in enumerate(chunks_of(20)):
            pulled.append(number)
            yield chunk

    stream = driver.stream(driver.compile(glsl(STEP)), counted(), **STEPS)
    assert pulled == []
    for number, _ in enumerate(stream):
        assert len(pulled) == min(20, number + 5)
        time.sleep(0.002)
    pulled.clear()
    strict = driver.stream(driver.compile(glsl(STEP)), counted(), strict=True, **STEPS)
    assert [len(pulled) for _ in strict] == list(range(1, 21))


@pytest.mark.parametrize("place", PLACES, indirect=True)
@pytest.mark.parametrize("long_bytes", [1000, 1 << 25])
def test_the_memory_of_a_stream_is_bounded_whatever_the_sizes_of_its_chunks(
    place: tuple[Driver, bool, bool], long_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_module, "LONG_BYTES", long_bytes)
    driver = place[0]
    layer: Any = driver.context.device.layer
    step = driver.compile(glsl(STEP))
    before, held = layer.counters()["memory_live_bytes"], []
    sizes = [1000 + 100 * (number * 7 % 40) for number in range(200)]
    for number, one in enumerate(driver.stream(step, (np.full(size, size, np.uint32) for size in sizes), **STEPS)):
        assert (one.size, set(one.tolist())) == (sizes[number], {2 * sizes[number] + 1})
        held.append(layer.counters()["memory_live_bytes"] - before)
    areas = 0 if long_bytes > 1000 or driver.context.device.shares_memory else 4 << 20
    assert max(held) <= 5 * 2 * 4 * 8192 + areas
    assert layer.counters()["memory_live_bytes"] <= before + 4 * 8192  # that of the first pipeline
