"""Work that is waited for by more than its ``result``: concurrent.futures, callbacks, asyncio; how much may be under way."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np
import pytest
from child_scenes import scenes
from kernels import STEP, Spin, glsl
from literals import refusal

from vyre_driver import Driver, DriverPool
from vyre_driver.errors import DeviceLost, InvalidInput, LimitExceeded

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import CompileText, RunChild

    from vyre_driver.runtime.bound import BoundKernel

pytestmark = pytest.mark.device


@pytest.fixture
def spin(opened: Driver) -> Spin:
    """A dispatch of about 0.1 s."""
    return Spin(opened, seconds=0.2)


def pollers() -> int:
    return sum(thread.name == "vyre_driver futures" for thread in threading.enumerate())


def no_poller_is_left() -> bool:
    until = time.monotonic() + 10
    while pollers() and time.monotonic() < until:
        time.sleep(0.001)
    return pollers() == 0


def steps(driver: Driver, count: int) -> list[BoundKernel]:
    """Short dispatches, each on a buffer of its own."""
    kernel = driver.compile(glsl(STEP))
    return [
        kernel.bind(driver.buffer(np.ones(64, np.uint32)), push_constants={"factor": 2, "summand": 1}) for _ in range(count)
    ]


def test_hundreds_are_awaited_with_one_thread_and_none_of_an_executor(opened: Driver, spin: Spin) -> None:
    bound = steps(opened, 8)

    async def run() -> tuple[list[str], list[None]]:
        # All wait for the first ones, each of which is soon over on a GPU that other processes have left since it was measured.
        futures = [*[spin.bound.submit() for _ in range(long)], *[one.submit() for one in bound for _ in range(50)]]
        waiting = asyncio.gather(*futures)
        for _ in range(3):
            await asyncio.sleep(0)  # each is awaited by then
        threads = [thread.name for thread in threading.enumerate() if thread is not threading.main_thread()]
        return threads, await waiting

    long = 5 if opened.device.is_software else 30
    before = threading.active_count() - 1
    threads, results = asyncio.run(run())
    assert (len(threads) - before, threads.count("vyre_driver futures"), results) == (1, 1, [None] * (long + 400))
    assert (no_poller_is_left(), [one.submit().result() for one in bound]) == (True, [None] * 8)


def test_futures_of_kernels_batches_and_pools_are_waited_for_together(spin: Spin, opened: Driver) -> None:
    batch = opened.batch()
    batch.add(spin.bound)
    with DriverPool([0]) as pool:
        mixed = [spin.bound.submit(), batch.submit(), pool.submit(lambda driver: driver.number), spin.bound.submit()]
        waited = concurrent.futures.wait(mixed, timeout=0)
        found = list(concurrent.futures.as_completed(mixed, timeout=60))
        every = concurrent.futures.wait(mixed, timeout=0)
    assert (len(waited.not_done) > 0, set(found), every.not_done) == (True, set(mixed), set())
    assert ([one for one in found if one is not mixed[2]], spin.runs()) == ([mixed[0], mixed[1], mixed[3]], 3)


def test_a_callback_may_use_the_kernel_again(driver: Driver, compiled: CompileText) -> None:
    kernel, buffer = compiled(STEP), driver.buffer(np.ones(64, np.uint32))
    bound, left, ended = kernel.bind(buffer, push_constants={"factor": 2, "summand": 0}), [5], threading.Event()

    def again(future: concurrent.futures.Future[None]) -> None:
        future.result()
        kernel(np.ones(4, np.uint32), push_constants={"factor": 1, "summand": 1})
        bound.run()
        left[0] -= 1
        if left[0]:
            bound.submit().add_done_callback(again)
        else:
            ended.set()

    bound.submit().add_done_callback(again)
    assert ended.wait(60)
    assert set(buffer.read().tolist()) == {2**10}


def test_eight_threads_submit_wait_and_await(driver: Driver) -> None:
    bound = steps(driver, 4)

    async def wait(one: BoundKernel) -> None:
        await asyncio.gather(*[one.submit(block=True) for _ in range(5)])

    def use(number: int) -> int:
        one = bound[number % 4]
        for _ in range(20):
            futures = [one.submit() for _ in range(5)]
            futures[2].result()
            concurrent.futures.wait(futures, timeout=60)
            asyncio.run(wait(one))
        return sum(future.done() for future in futures)

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(use, range(8))) == [5] * 8
    assert no_poller_is_left()


def full(spin: Spin, bound: BoundKernel) -> None:
    """Have as many of them under way as may be, behind work that takes a while."""
    spin.bound.submit()
    for _ in range(64):
        bound.submit()


def limit(what: str) -> str:
    return (
        f"64 submissions of {what} are under way, and this would be number 65. Fix: wait for one of their futures first, or "
        "call submit(block=True), which waits for the oldest."
    )


@pytest.mark.parametrize("what", ["this kernel", "this batch"])
def test_at_the_bound_a_submission_is_refused_or_waits_as_is_asked(opened: Driver, spin: Spin, what: str) -> None:
    bound = steps(opened, 1)[0]
    batch = opened.batch()
    batch.add(bound)
    submitted = bound if what == "this kernel" else batch

    async def in_a_loop() -> tuple[object, ...]:
        return refusal(submitted.submit)

    full(spin, submitted)  # type: ignore[arg-type]
    refused = [refusal(lambda: submitted.submit(block=False)), asyncio.run(in_a_loop())]
    pending = not submitted._recordings._ring[0].is_idle()  # type: ignore[union-attr]  # noqa: SLF001 -- what it would wait for
    waited = submitted.submit(block=True)
    full(spin, submitted)  # type: ignore[arg-type]
    outside = submitted.submit()
    assert (pending, refused) == (True, [(LimitExceeded, 2104, limit(what))] * 2)
    assert (waited.result(), outside.result()) == (None, None)


def test_the_bound_is_told_in_numbers_and_block_is_a_switch(opened: Driver, spin: Spin) -> None:
    bound = steps(opened, 1)[0]
    full(spin, bound)
    with pytest.raises(LimitExceeded) as refused:
        bound.submit(block=False)
    with pytest.raises(InvalidInput, match="block"):
        bound.submit(block="no")  # type: ignore[arg-type]
    assert refused.value.context == {"value": 65, "limit": 64}


def test_an_event_loop_that_is_over_does_not_refuse(opened: Driver, spin: Spin) -> None:
    bound = steps(opened, 1)[0]
    asyncio.run(asyncio.sleep(0))
    full(spin, bound)
    assert bound.submit().result() is None


def test_a_batch_is_submitted_again_while_it_runs(opened: Driver, spin: Spin) -> None:
    batch = opened.batch()
    batch.add(spin.bound)
    futures = [batch.submit() for _ in range(3)]
    under_way = [future.done() for future in futures]
    futures[2].result()
    assert (under_way, [future.done() for future in futures], spin.runs()) == ([False] * 3, [True] * 3, 3)


def test_a_future_knows_its_result_after_its_driver_was_closed(opened: Driver, spin: Spin) -> None:
    never_asked, followed = spin.bound.submit(), spin.bound.submit()
    called: list[object] = []
    followed.add_done_callback(called.append)
    opened.close()
    waited = concurrent.futures.wait([never_asked, followed], timeout=60)
    never_asked.add_done_callback(called.append)
    assert (never_asked.done(), never_asked.result(), never_asked.exception(timeout=0), len(waited.done)) == (
        True,
        None,
        None,
        2,
    )
    assert (no_poller_is_left(), set(called)) == (True, {followed, never_asked})


def test_it_may_be_awaited_while_its_driver_is_closed_by_another_thread(opened: Driver, spin: Spin) -> None:
    async def close_and_await() -> None:
        future = spin.bound.submit()
        thread = threading.Thread(target=opened.close)
        thread.start()
        await future
        thread.join()

    asyncio.run(close_and_await())
    assert no_poller_is_left()


def test_a_device_that_is_found_lost_when_it_is_closed_has_failed_its_futures(
    opened: Driver, spin: Spin, monkeypatch: pytest.MonkeyPatch
) -> None:
    device, future = opened.context.device, spin.bound.submit()
    layer = device.layer

    class Lost:
        """The layer's device, whose last wait fails."""

        is_lost = False

        @property
        def is_alive(self) -> bool:
            return layer.is_alive

        @staticmethod
        def wait_idle() -> int:
            layer.wait_idle()
            return -4

    monkeypatch.setattr(device, "layer", Lost())
    opened.close()
    assert (type(future.exception()), repr(future).endswith(": failed DeviceLost>")) == (DeviceLost, True)


def test_a_repr_names_the_kernel_and_the_state(opened: Driver, spin: Spin) -> None:
    batch = opened.batch()
    batch.add(spin.bound)
    futures = [spin.bound.submit(), batch.submit()]
    before = [repr(future) for future in futures]
    futures[1].result()
    key = spin.kernel.trace.key[:16]
    names = [f"<DispatchFuture of kernel {key}: ", "<DispatchFuture of a batch of 1: "]
    assert before == [f"{name}pending>" for name in names]
    assert [repr(future) for future in futures] == [f"{name}finished>" for name in names]


def test_awaits_that_are_given_up_leave_the_work_and_no_thread(opened: Driver, spin: Spin) -> None:
    bound = steps(opened, 1)[0]

    async def give_up() -> None:
        future = spin.bound.submit()
        for _ in range(20):
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(future, 0.001)
            task = asyncio.ensure_future(bound.submit())
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    for _ in range(3):  # each leaves its loop with work that is still awaited
        asyncio.run(give_up())
    assert (spin.runs(), bound.submit().result(), no_poller_is_left()) == (3, None, True)


@pytest.mark.parametrize("case", scenes("awaiting.py"))
def test_a_process_goes_on_and_ends_cleanly_when(run_forked: RunChild, children: Path, case: str) -> None:
    done = run_forked("-W", "error", str(children / "awaiting.py"), case)
    assert (done.status, done.stdout, done.stderr) == (0, "", "")
