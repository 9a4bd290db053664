"""Work that was handed to the device: asked for, waited for, awaited, given up."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np
import pytest
from kernels import STEP, Spin

from vyre_driver.errors import DispatchTimeout

if TYPE_CHECKING:
    from conftest import CompileText

    from vyre_driver import Driver

pytestmark = pytest.mark.device


@pytest.fixture
def spin(opened: Driver) -> Spin:
    """A dispatch of about 0.1 s."""
    return Spin(opened, seconds=0.2)


def timed_out(driver: Driver, timeout: float) -> str:
    return (
        f"the work on {driver.device.name!r} did not end in {timeout} s and is still running. "
        "Fix: wait longer, or make the shader do less in one dispatch."
    )


def test_a_future_is_done_when_its_work_has_ended(spin: Spin) -> None:
    future = spin.bound.submit()
    before = future.done()
    results = [future.result(), future.result()]
    assert (before, results, future.done(), spin.runs()) == (False, [None, None], True, 1)


def test_asking_again_and_again_ends_with_done(spin: Spin) -> None:
    future = spin.bound.submit()
    while not future.done():
        pass
    assert spin.ended.read().tolist() == [spin.groups]


def test_several_futures_may_be_under_way_at_once(driver: Driver, compiled: CompileText) -> None:
    kernel = compiled(STEP)
    buffers = [driver.buffer(np.full(1000, number, np.uint32)) for number in range(20)]
    bound = [kernel.bind(buffer, push_constants={"factor": 3, "summand": 1}) for buffer in buffers]
    futures = [one.submit() for one in bound]
    for future in reversed(futures):
        future.result()
    assert [future.done() for future in futures] == [True] * 20
    assert [set(buffer.read().tolist()) for buffer in buffers] == [{3 * number + 1} for number in range(20)]


def test_futures_of_work_on_one_buffer_run_in_the_order_of_submission(driver: Driver, compiled: CompileText) -> None:
    kernel, buffer = compiled(STEP), driver.buffer(np.zeros(70_000, np.uint32))
    bound = [kernel.bind(buffer, push_constants={"factor": 10, "summand": number}) for number in (1, 2, 3, 4)]
    futures = [one.submit() for one in bound]
    futures[-1].result()
    assert set(buffer.read().tolist()) == {1234}


def test_submitting_again_waits_for_nothing_and_the_work_runs_in_order(spin: Spin) -> None:
    futures = [spin.bound.submit() for _ in range(3)]
    under_way = [future.done() for future in futures]
    futures[2].result()
    assert (under_way, [future.done() for future in futures], spin.runs()) == ([False] * 3, [True] * 3, 3)


def test_work_that_is_submitted_while_it_runs_sees_what_the_run_before_it_left(driver: Driver, compiled: CompileText) -> None:
    buffer = driver.buffer(np.ones(64, np.uint32))
    bound = compiled(STEP).bind(buffer, push_constants={"factor": 3, "summand": 1})
    futures = [bound.submit() for _ in range(100)]  # more than are recorded
    for future in futures:
        future.result()
    expected = 1
    for _ in range(100):
        expected = (3 * expected + 1) % 2**32
    assert (set(buffer.read().tolist()), all(future.done() for future in futures)) == ({expected}, True)


def test_a_future_that_is_dropped_does_not_take_its_work_along(spin: Spin) -> None:
    spin.bound.submit()
    assert spin.runs() == 1


def test_a_batch_gives_a_future_too(opened: Driver, spin: Spin) -> None:
    batch = opened.batch()
    batch.add(spin.bound)
    batch.add(spin.bound)
    future = batch.submit()
    before = future.done()
    future.result()
    assert (before, future.done(), spin.runs()) == (False, True, 2)


def test_eight_threads_may_wait_for_one_future(spin: Spin) -> None:
    future = spin.bound.submit()
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda _: future.result(), range(8))) == [None] * 8
    assert spin.runs() == 1


def test_a_time_out_passes_and_the_next_run_waits_for_what_still_runs(opened: Driver, spin: Spin) -> None:
    with pytest.raises(DispatchTimeout) as passed:
        spin.bound.run(timeout=0.01)
    running = spin.bound._recordings.first.poll(1) is None  # noqa: SLF001 -- run has no future
    spin.bound.run()
    assert (passed.value.code, str(passed.value), passed.value.context) == (
        2007,
        timed_out(opened, 0.01),
        {"timeout_s": 0.01},
    )
    assert (running, spin.runs()) == (True, 2)


def test_a_run_that_would_have_to_wait_too_long_for_the_one_before_submits_nothing(opened: Driver, spin: Spin) -> None:
    future = spin.bound.submit()
    with pytest.raises(DispatchTimeout) as passed:
        spin.bound.run(timeout=0.01)
    assert (future.done(), str(passed.value), spin.runs()) == (False, timed_out(opened, 0.01), 1)


def test_a_time_out_of_a_future_leaves_it_as_it_was(opened: Driver, spin: Spin) -> None:
    future = spin.bound.submit()
    for timeout in (0, 0.01, 0.02):
        with pytest.raises(DispatchTimeout) as passed:
            future.result(timeout)
        assert (str(passed.value), future.done()) == (timed_out(opened, timeout), False)
    future.result()
    assert spin.runs() == 1


def test_a_time_out_holds_while_another_thread_waits_without_one(opened: Driver, spin: Spin) -> None:
    future, waiting = spin.bound.submit(), threading.Event()

    def wait() -> None:
        waiting.set()
        future.result()

    thread = threading.Thread(target=wait)
    thread.start()
    waiting.wait()
    with pytest.raises(DispatchTimeout) as passed:
        future.result(timeout=0.01)
    still_waiting = thread.is_alive()
    thread.join()
    assert (str(passed.value), still_waiting, future.done(), spin.runs()) == (timed_out(opened, 0.01), True, True, 1)


def test_a_kernel_that_was_called_with_a_time_out_waits_in_the_next_call(opened: Driver, spin: Spin) -> None:
    zero, one = np.zeros(1, np.uint32), np.ones(1, np.uint32)
    call = {"push_constants": {"turns": 60_000}, "workgroups": spin.grid}
    with pytest.raises(DispatchTimeout) as passed:
        spin.kernel(zero, one, timeout=0.01, **call)  # type: ignore[arg-type]
    got = spin.kernel(zero, one, **call)  # type: ignore[arg-type]
    assert isinstance(got, np.ndarray)
    assert (str(passed.value), got.tolist()) == (timed_out(opened, 0.01), [spin.groups])


def test_a_future_may_be_awaited_while_the_event_loop_goes_on(spin: Spin) -> None:
    async def count_while_it_runs() -> tuple[int, object]:
        waiting = asyncio.ensure_future(asyncio.wait_for(spin.bound.submit(), 60))
        turns = 0
        while not waiting.done():
            await asyncio.sleep(0)
            turns += 1
        return turns, waiting.result()

    turns, result = asyncio.run(count_while_it_runs())
    assert (turns > 1, result, spin.runs()) == (True, None, 1)


def test_many_futures_may_be_awaited_together_and_twice(driver: Driver, compiled: CompileText) -> None:
    kernel = compiled(STEP)
    buffers = [driver.buffer(np.full(100, number, np.uint32)) for number in range(40)]

    async def run() -> list[None]:
        futures = [kernel.bind(buffer, push_constants={"factor": 2, "summand": 1}).submit() for buffer in buffers]
        return [*await asyncio.gather(*futures), *await asyncio.gather(*futures)]

    assert asyncio.run(run()) == [None] * 80
    assert [buffer.read()[0] for buffer in buffers] == [2 * number + 1 for number in range(40)]


def test_awaiting_may_be_cancelled_and_the_work_goes_on(spin: Spin) -> None:
    async def give_up() -> tuple[bool, object]:
        future = spin.bound.submit()
        task = asyncio.ensure_future(asyncio.wait_for(future, 60))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return future.done(), await future

    assert (asyncio.run(give_up()), spin.runs()) == ((False, None), 1)


def test_awaiting_with_a_time_out_is_asyncios_own_and_the_work_goes_on(spin: Spin) -> None:
    async def give_up() -> None:
        await asyncio.wait_for(spin.bound.submit(), 0.01)

    with pytest.raises(asyncio.TimeoutError):
        asyncio.run(give_up())
    assert spin.runs() == 1


def test_what_is_submitted_is_with_the_device_and_never_cancelled(opened: Driver, spin: Spin) -> None:
    with opened.batch() as batch:
        batch.add(spin.bound)
    futures = [spin.bound.submit(), spin.bound.submit(), batch.submit(), spin.bound.submit(block=True)]
    asked = [(future.cancel(), future.cancelled(), future.running()) for future in futures]
    results = [future.result() for future in futures]
    assert (asked, results, spin.runs()) == ([(False, False, True)] * 4, [None] * 4, 5)
    assert [(future.cancel(), future.cancelled()) for future in futures] == [(False, False)] * 4


def test_work_that_waits_for_its_turn_has_no_future_to_cancel(opened: Driver) -> None:
    spin = Spin(opened, seconds=0.02)
    futures = [spin.bound.submit() for _ in range(64)]
    later: list[Future[None]] = []
    waiting = threading.Thread(target=lambda: later.append(spin.bound.submit(block=True)))
    waiting.start()
    seen = len(later), [future.cancel() for future in futures]
    waiting.join()
    assert (seen, futures[0].done(), later[0].cancel()) == ((0, [False] * 64), True, False)
    later[0].result()
    assert spin.runs() == 65
