"""Streams whose device, driver, process or threads do not stay as they were."""

from __future__ import annotations

import gc
import json
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from kernels import STEP, TURNS, Spin, glsl
from lacking_devices import lack_features
from literals import refusal

from vyre_driver import Driver
from vyre_driver.errors import DeviceOutOfMemory, DispatchFailed, DispatchTimeout, UnsupportedFeature
from vyre_driver.kompute import pinned as pinned_module
from vyre_driver.vulkan.layer import _layer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from conftest import RunChild
    from numpy.typing import NDArray

    from vyre_driver.runtime.stream import Stream

pytestmark = pytest.mark.device

PLACES = ["shared with the host", "writable by the host", "out of the host's reach"]
STEPS = {"factor": 2, "summand": 1}


def chunks_of(count: int, length: int = 1000) -> list[NDArray[np.uint32]]:
    """Chunks of equal numbers: 0s, 1s, 2s, ..."""
    return [np.full(length, number, np.uint32) for number in range(count)]


def expected(count: int) -> list[set[int]]:
    """What the results consist of."""
    return [{2 * number + 1} for number in range(count)]


def seen(results: Any) -> list[set[int]]:  # noqa: ANN401 -- an iterable of arrays
    """What each result consists of."""
    return [set(one.tolist()) for one in results]


@pytest.fixture
def spin(place: tuple[Driver, bool, bool]) -> Spin:
    """Work that outlasts a wait of the host, under the layer."""
    return Spin(place[0], 0.2)


@pytest.mark.parametrize(
    ("kind", "calls"),
    [
        ("discrete", "some"),
        pytest.param("discrete", "each", marks=pytest.mark.thorough),
        pytest.param("cpu", "each", marks=pytest.mark.thorough),
    ],
)
def test_whatever_fails_what_was_given_is_right_and_the_rest_is_told(
    run_forked: RunChild, children: Path, kind: str, calls: str
) -> None:
    done = run_forked(str(children / "streaming.py"), "failures", kind, calls, "-1", "-4")
    found = json.loads(done.stdout)
    assert (done.status, done.stderr, found["wrong"]) == (0, "", [])
    assert {name: count > 20 for name, count in found["errors"].items()} == {"DeviceOutOfMemory": True, "DeviceLost": True}


@pytest.mark.parametrize("kind", ["cpu", "discrete"])
@pytest.mark.parametrize("turns", [50, pytest.param(1000, marks=pytest.mark.thorough)])
def test_after_ctrl_c_close_returns_and_the_driver_works(run_forked: RunChild, children: Path, kind: str, turns: int) -> None:
    done = run_forked(str(children / "streaming.py"), "interrupts", kind, str(turns))
    found = json.loads(done.stdout)
    assert (done.status, done.stderr, found["wrong"], found["ended early"] > turns / 10) == (0, "", [], True)


@pytest.mark.parametrize("place", PLACES, indirect=True)
@pytest.mark.parametrize("call", ["allocate", "create_buffer"])
@pytest.mark.usefixtures("_nothing_fails_any_more")
def test_where_memory_is_short_the_chunks_before_come_back(place: tuple[Driver, bool, bool], call: str) -> None:
    driver = place[0]
    step = driver.compile(glsl(STEP))
    stream = driver.stream(step, chunks_of(3) + chunks_of(3, 2000), **STEPS)
    assert seen(next(stream) for _ in range(1)) == expected(1)  # the last two are not placed yet
    driver.context.room.make = lambda make: make()  # type: ignore[method-assign] # with nothing to let go
    _layer.inject(call, 1, -2)
    assert seen(next(stream) for _ in range(2)) in (expected(3)[1:], expected(2)[1:])
    with pytest.raises(DeviceOutOfMemory) as error:
        list(stream)
    assert (error.value.context["chunk"], stream.finished) == (stream.finished, stream.finished)


@pytest.mark.parametrize("place", PLACES[1:], indirect=True)
def test_where_nothing_can_be_pinned_the_first_chunk_is_refused(
    place: tuple[Driver, bool, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = place[0]
    step = driver.compile(glsl(STEP))
    stream = driver.stream(step, chunks_of(4), **STEPS)
    monkeypatch.setattr(pinned_module, "available_bytes", lambda: 100)
    with pytest.raises(DeviceOutOfMemory) as error:
        next(stream)
    assert (stream.finished, error.value.context["chunk"]) == (0, 0)
    monkeypatch.undo()
    assert seen(driver.stream(step, chunks_of(4), **STEPS)) == expected(4)


def test_chunks_run_one_after_the_other_where_the_device_imports_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    lack_features(monkeypatch)
    with Driver() as driver:
        driver.context.device.shares_memory = False
        step = driver.compile(glsl(STEP))
        assert seen(driver.stream(step, chunks_of(6), **STEPS)) == expected(6)
        assert refusal(lambda: driver.pinned(3, "u4"))[0] is UnsupportedFeature


@pytest.mark.parametrize("place", PLACES, indirect=True)
def test_two_threads_take_each_result_once(place: tuple[Driver, bool, bool]) -> None:
    driver = place[0]
    stream = driver.stream(driver.compile(glsl(STEP)), chunks_of(100), **STEPS)
    with ThreadPoolExecutor(2) as pool:
        halves = list(pool.map(lambda _: [int(one[0]) for one in stream], range(2)))
    assert sorted(halves[0] + halves[1]) == [2 * number + 1 for number in range(100)]
    assert all(half == sorted(half) for half in halves)


@pytest.mark.parametrize("place", PLACES, indirect=True)
def test_eight_threads_stream_beside_calls(place: tuple[Driver, bool, bool]) -> None:
    driver = place[0]
    step = driver.compile(glsl(STEP))

    def work(number: int) -> bool:
        if number % 4 == 3:
            return all((step(chunk, **STEPS) == 2 * place + 1).all() for place, chunk in enumerate(chunks_of(20)))
        return seen(driver.stream(step, chunks_of(20, 1000 + number), **STEPS)) == expected(20)

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, range(16))) == [True] * 16


@pytest.mark.parametrize("place", PLACES, indirect=True)
def test_a_stream_that_is_closed_early_is_over_and_its_generator_is_closed(place: tuple[Driver, bool, bool]) -> None:
    driver = place[0]
    closed: list[int] = []

    def counted() -> Iterator[NDArray[np.uint32]]:
        try:
            yield from chunks_of(50)
        finally:
            closed.append(1)

    step = driver.compile(glsl(STEP))
    with driver.stream(step, counted(), **STEPS) as stream:
        assert seen(next(stream) for _ in range(3)) == expected(3)
    assert (closed, list(stream), stream.finished) == ([1], [], 3)
    stream.close()

    def broken_off() -> None:
        with driver.stream(step, counted(), **STEPS) as opened:
            streams.append(opened)
            next(opened)
            raise KeyError

    streams: list[Stream] = []
    with pytest.raises(KeyError):
        broken_off()
    assert (closed, list(streams[0])) == ([1, 1], [])
    driver.stream(step, counted(), **STEPS).close()
    assert closed == [1, 1]


@pytest.mark.parametrize("place", PLACES, indirect=True)
def test_a_driver_that_is_closed_ends_its_streams(place: tuple[Driver, bool, bool]) -> None:
    driver = place[0]
    step = driver.compile(glsl(STEP))
    streams = [driver.stream(step, chunks_of(9), **STEPS) for _ in range(3)]
    results = [next(one) for one in streams[:2]]
    driver.close()
    assert seen(results) == [{1}, {1}]
    assert [refusal(lambda one=one: next(one))[0] for one in streams] == [DispatchFailed] * 3
    for one in streams:
        one.close()
    assert [list(one) for one in streams] == [[]] * 3
    assert refusal(lambda: driver.stream(step, []))[0] is DispatchFailed


@pytest.mark.parametrize("place", PLACES, indirect=True)
def test_a_driver_that_another_thread_closes_waits_for_a_stream(place: tuple[Driver, bool, bool], spin: Spin) -> None:
    driver, each = place[0], np.ones(1, np.uint32)
    stream = driver.stream(spin.kernel, [each] * 9, turns=TURNS, ended=spin.ended, workgroups=spin.grid)
    closing = threading.Timer(0.05, driver.close)
    closing.start()
    found = []
    with pytest.raises(DispatchFailed):
        found.extend(stream)
    closing.join()
    stream.close()
    assert all(one is spin.ended for one in found)


@pytest.mark.parametrize("place", PLACES, indirect=True)
@pytest.mark.parametrize("is_pinned", [False, True])
def test_what_runs_keeps_what_it_needs_when_its_stream_is_dropped(
    place: tuple[Driver, bool, bool],
    spin: Spin,
    is_pinned: bool,  # noqa: FBT001 -- a parameter
) -> None:
    driver = place[0]
    step = driver.compile(glsl(STEP))
    layer: Any = driver.context.device.layer
    assert seen(driver.stream(step, chunks_of(9), **STEPS)) == expected(9)  # compiles, which takes as long as the spin
    before = layer.counters()["memory_live_bytes"]
    chunks = [driver.pinned(100_000, "u4") if is_pinned else np.zeros(100_000, np.uint32) for _ in range(9)]
    stream = driver.stream(step, chunks, out=chunks, timeout=0.0, **STEPS)
    running = [spin.bound.submit() for _ in range(2)]
    with pytest.raises(DispatchTimeout):
        next(stream)
    chunks.clear()
    del stream
    running[1].result()
    gc.collect()
    for mover in tuple(driver.context.device.movers._abandoned):  # noqa: SLF001 -- nothing else says when its thread has seen the end
        mover.settle()
    driver.trim()
    assert layer.counters()["memory_live_bytes"] == before
    assert seen(driver.stream(step, chunks_of(9), **STEPS)) == expected(9)


def in_a_fork(stream: Stream) -> bytes:
    """What a forked child learns of a stream."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            told = [refusal(lambda: next(stream))[0].__name__, next(stream, None), stream.close(), stream.close()]  # type: ignore[func-returns-value]
            os.write(writer, repr(told).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        told_there = pipe.read()
    assert os.waitpid(child, 0)[1] == 0
    return told_there


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("place", PLACES, indirect=True)
def test_a_fork_has_no_stream_and_that_of_the_parent_goes_on(place: tuple[Driver, bool, bool]) -> None:
    driver = place[0]
    with driver.stream(driver.compile(glsl(STEP)), chunks_of(9), **STEPS) as stream:
        assert seen(next(stream) for _ in range(2)) == expected(2)
        assert in_a_fork(stream) == b"['ForkError', None, None, None]"
        assert seen(stream) == expected(9)[2:]
