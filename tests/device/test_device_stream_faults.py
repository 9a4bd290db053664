"""Streams in which something fails: what comes back before is right, what fails is raised in its place, and nothing hangs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from kernels import STEP, TURNS, Spin, glsl
from listeners import Heard
from literals import refusal

from vyre_driver.errors import DispatchFailed, DispatchTimeout, InvalidInput, InvalidPushConstant, VyreError
from vyre_driver.kompute import memory as memory_module
from vyre_driver.lang import In, Index, Out, f32, kernel
from vyre_driver.telemetry.events import EventKind
from vyre_driver.vulkan.layer import _layer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray

    from vyre_driver import Driver
    from vyre_driver.runtime.stream import Stream, StreamProgress

pytestmark = pytest.mark.device

PLACES = ["shared with the host", "writable by the host", "out of the host's reach"]
APART = PLACES[1:]
COUNT = 1000
STEPS = {"factor": 2, "summand": 1}


def chunks_of(count: int, length: int = COUNT) -> list[NDArray[np.uint32]]:
    """Chunks of equal numbers: 0s, 1s, 2s, ..."""
    return [np.full(length, number, np.uint32) for number in range(count)]


def given_before(stream: Iterable[Any]) -> tuple[list[int], Exception | None]:
    """The number that each result consists of, -1 where it is not one of STEP's, and what the stream ended with."""
    found: list[int] = []
    try:
        found.extend(int(one[0]) if (one == one[0]).all() else -1 for one in stream)
    except Exception as error:  # noqa: BLE001 -- which is looked at
        return found, error
    return found, None


@pytest.fixture
def spin(place: tuple[Driver, bool, bool]) -> Spin:
    """Work that outlasts a wait of the host, under the layer."""
    return Spin(place[0], 0.2)


@pytest.mark.parametrize("place", PLACES, indirect=True)
@pytest.mark.usefixtures("_nothing_fails_any_more")
def test_a_chunk_that_is_not_handed_over_leaves_those_before_it_whole(
    place: tuple[Driver, bool, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_module, "LONG_BYTES", 2000)
    step = place[0].compile(glsl(STEP))
    assert given_before(place[0].stream(step, chunks_of(2), **STEPS)) == ([1, 3], None)
    _layer.inject("submit", 4, -1)
    stream = place[0].stream(step, chunks_of(9), **STEPS)
    found, error = given_before(stream)
    assert found == [2 * number + 1 for number in range(stream.finished)]
    assert (len(found) < 9, isinstance(error, VyreError) and error.context["chunk"]) == (True, len(found))


def raising_at(place: int, error: BaseException, count: int = 9) -> Iterator[NDArray[np.uint32]]:
    """Yield chunks, and raise in the place of one."""
    for number, chunk in enumerate(chunks_of(count)):
        if number == place:
            raise error
        yield chunk


@pytest.mark.parametrize("place", PLACES, indirect=True)
@pytest.mark.parametrize("number", [0, 1, 3, 6])
def test_what_a_generator_raises_comes_in_the_place_of_its_chunk(place: tuple[Driver, bool, bool], number: int) -> None:
    driver = place[0]
    step, raised = driver.compile(glsl(STEP)), KeyError("mine")
    stream = driver.stream(step, raising_at(number, raised), **STEPS)
    found, error = given_before(stream)
    assert (found, error is raised) == ([2 * one + 1 for one in range(number)], True)
    assert getattr(raised, "__notes__", []) in (
        [],
        [f"In chunk {number} of a stream; the results of all before it were given."],
    )
    assert (stream.finished, list(stream), step(chunks_of(2)[1], **STEPS)[0]) == (number, [], 3)


@pytest.mark.parametrize("place", PLACES, indirect=True)
@pytest.mark.parametrize("number", [0, 1, 3, 6])
def test_a_chunk_that_does_not_fit_is_refused_in_its_place(place: tuple[Driver, bool, bool], number: int) -> None:
    driver = place[0]
    step, chunks = driver.compile(glsl(STEP)), chunks_of(9)
    for wrong in (
        np.zeros(3),
        (chunks[0], chunks[0]),
        {"values": chunks[0], "nothing": 1},
        {"values": chunks[0], "factor": "x"},
    ):
        stream = driver.stream(step, [*chunks[:number], wrong, *chunks[number:]], **STEPS)
        found, error = given_before(stream)
        assert found == [2 * one + 1 for one in range(number)]
        assert isinstance(error, InvalidInput | InvalidPushConstant)
        assert (error.context["chunk"], stream.finished, next(stream, None)) == (number, number, None)


@pytest.mark.parametrize("place", PLACES, indirect=True)
def test_what_on_progress_raises_ends_the_stream_at_that_chunk(place: tuple[Driver, bool, bool]) -> None:
    driver = place[0]
    step = driver.compile(glsl(STEP))

    def stopping(progress: StreamProgress) -> None:
        if progress.chunks == 3:
            raise StopIteration

    stream = driver.stream(step, chunks_of(9), on_progress=stopping, **STEPS)
    found, error = given_before(stream)
    assert (found, stream.finished, list(stream)) == ([1, 3], 2, [])
    assert (type(error), str(error)) == (RuntimeError, "on_progress of a stream raised StopIteration")
    assert driver.events.failures() == {}


@pytest.mark.parametrize("place", PLACES, indirect=True)
@pytest.mark.parametrize("strict", [False, True])
def test_each_chunk_is_told_once_and_each_failure_once(place: tuple[Driver, bool, bool], strict: bool) -> None:  # noqa: FBT001 -- a parameter
    driver = place[0]
    step = driver.compile(glsl(STEP))
    step(chunks_of(1)[0], **STEPS)
    heard = Heard()
    driver.events.add_listener(heard)
    inner = driver.stream(step, [*chunks_of(4), np.zeros(3)], label="inner", strict=strict, **STEPS)
    found, error = given_before(driver.stream(step, inner, label="outer", strict=strict, **STEPS))
    told = heard.told()
    assert (found, isinstance(error, InvalidInput)) == ([3, 7, 11, 15], True)
    for which in ("inner", "outer"):
        assert [one for one in told if one[3] == which] == [("dispatch", 1, True, which)] * 4
    assert driver.events.failures() == {(EventKind.DISPATCH, 2201): 1}


@pytest.mark.parametrize("place", PLACES, indirect=True)
def test_a_generator_that_asks_its_own_stream_is_refused(place: tuple[Driver, bool, bool]) -> None:
    driver = place[0]
    streams: list[Any] = []

    def asking(ask: Callable[[], object]) -> Iterator[NDArray[np.uint32]]:
        yield from chunks_of(2)
        ask()

    step = driver.compile(glsl(STEP))
    for ask in (lambda: next(streams[-1]), lambda: [one.close() for one in streams]):
        streams.append(driver.stream(step, asking(ask), **STEPS))
        found, error = given_before(streams[-1])
        assert (found, type(error), getattr(error, "code", 0)) == ([1, 3], DispatchFailed, 1005)
        streams[-1].close()


@pytest.mark.parametrize("place", PLACES, indirect=True)
def test_a_time_out_ends_a_stream_and_close_waits_for_what_runs(place: tuple[Driver, bool, bool], spin: Spin) -> None:
    driver = place[0]
    chunk, running = np.ones(1, np.uint32), {"turns": TURNS, "ended": spin.ended, "workgroups": spin.grid}
    for close in (True, False):
        before = spin.runs()
        stream = driver.stream(spin.kernel, [chunk] * 9, timeout=0.01, **running)
        assert refusal(lambda stream=stream: list(stream))[:2] == (DispatchTimeout, 2007)
        assert (list(stream), stream.finished) == ([], 0)
        if close:
            stream.close()
            stream.close()
            assert driver.context.device.layer.counters()["work_pending"] == 0
        else:
            del stream
        assert (spin.runs() - before) in (1, 2)


@pytest.mark.parametrize("place", PLACES, indirect=True)
def test_a_strict_call_of_a_stream_ends_in_time_too(place: tuple[Driver, bool, bool], spin: Spin) -> None:
    running = {"turns": TURNS, "ended": np.zeros(1, np.uint32), "workgroups": spin.grid, "strict": True}
    stream = place[0].stream(spin.kernel, [{"each": np.ones(1, np.uint32)}] * 2, timeout=0.01, **running)
    assert refusal(lambda: next(stream))[:2] == (DispatchTimeout, 2007)
    assert (list(stream), spin.runs()) == ([], 0)


@pytest.mark.parametrize("place", PLACES, indirect=True)
def test_a_stream_that_ended_or_was_closed_holds_no_memory_of_the_device(place: tuple[Driver, bool, bool]) -> None:
    layer: Any = place[0].context.device.layer
    step = place[0].compile(glsl(STEP))
    step(chunks_of(1)[0], **STEPS)

    def held(stream: Stream, count: int) -> bool:
        before = layer.counters()["memory_live_bytes"]
        for _ in range(count):
            next(stream)
        during = layer.counters()["memory_live_bytes"] - before
        stream.close()
        return (during >= 4 << 18) and layer.counters()["memory_live_bytes"] == before

    assert held(place[0].stream(step, chunks_of(9, 1 << 18), **STEPS), 2)
    assert held(place[0].stream(step, raising_at(3, ValueError()), **STEPS), 0) is False
    ended = place[0].stream(step, chunks_of(9, 1 << 18), **STEPS)
    before = layer.counters()["memory_live_bytes"]
    assert len(list(ended)) == 9
    assert layer.counters()["memory_live_bytes"] == before


@kernel
def halved(i: Index, x: In[f32], y: Out[f32]) -> None:
    if i % 2 == 0:
        y[i] = x[i]


@pytest.mark.parametrize("place", PLACES, indirect=True)
def test_a_strict_call_of_a_stream_tells_what_a_strict_call_tells(place: tuple[Driver, bool, bool]) -> None:
    x, run = np.ones(5, np.float32), halved.on(place[0])
    stream = place[0].stream(run, [{"x": x, "strict": False}, {"x": x, "strict": True}])
    assert next(stream).tolist() == [1, 0, 1, 0, 1]
    assert refusal(lambda: next(stream)) == refusal(lambda: run(x, strict=True))
    assert list(stream) == []
