"""Eight threads on one driver: kernels and bound kernels are shared, buffers are their own, and every number is right."""

from __future__ import annotations

import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np
import pytest
from kernels import STEP

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from conftest import CompileText

    from vyre_driver import Driver, Kernel

pytestmark = pytest.mark.device

THREADS = 8
DISPATCHES = 1000


@pytest.fixture(autouse=True)
def _interpreter_that_changes_threads_often() -> Iterator[None]:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(interval)


def in_threads(work: Callable[[int], object]) -> list[object]:
    """Run ``work`` with each thread's number, all starting together."""
    barrier = threading.Barrier(THREADS)

    def start(number: int) -> object:
        barrier.wait()
        return work(number)

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(start, range(THREADS)))


def steps(value: int, times: int) -> int:
    for _ in range(times):
        value = (3 * value + 1) % 2**32
    return value


def test_bound_kernels_on_buffers_of_each_thread(driver: Driver, compiled: CompileText) -> None:
    kernel = compiled(STEP)

    def work(number: int) -> object:
        buffer = driver.buffer(np.full(70, number, np.uint32))
        bound = kernel.bind(buffer, push_constants={"factor": 3, "summand": 1})
        for _ in range(DISPATCHES):
            bound.run()
        return set(buffer.read().tolist())

    assert in_threads(work) == [{steps(number, DISPATCHES)} for number in range(THREADS)]


def test_one_bound_kernel_that_all_threads_run(driver: Driver, compiled: CompileText) -> None:
    buffer = driver.buffer(np.zeros(70, np.uint32))
    bound = compiled(STEP).bind(buffer, push_constants={"factor": 1, "summand": 1})

    def work(number: int) -> None:
        for turn in range(DISPATCHES):
            if (turn + number) % 2:
                bound.run()
            else:
                bound.submit().result()

    in_threads(work)
    assert set(buffer.read().tolist()) == {THREADS * DISPATCHES}


def test_one_kernel_that_all_threads_call_and_bind(driver: Driver, saxpy: Kernel) -> None:
    def work(number: int) -> object:
        x = np.full(70, number, np.float32)
        buffers = driver.buffer(x), driver.buffer(x)
        push = {"alpha": 2, "count": 70}
        right = []
        for turn in range(100):
            saxpy.bind(*buffers, push_constants=push).submit().result()
            right.append(np.array_equal(saxpy(x, x, push_constants={"alpha": turn, "count": 70}), np.float32(turn) * x + x))
        return all(right), set(buffers[1].read().tolist())

    assert in_threads(work) == [(True, {201.0 * number}) for number in range(THREADS)]


def test_buffers_that_threads_write_read_and_close_while_others_run(driver: Driver, compiled: CompileText) -> None:
    kernel = compiled(STEP)

    def work(number: int) -> object:
        right = []
        for turn in range(100):
            buffer = driver.buffer(np.full(1 + number, turn, np.uint32))
            kernel.bind(buffer, push_constants={"factor": 3, "summand": number}).run()
            right.append(buffer.read().tolist() == [3 * turn + number] * (1 + number))
            buffer.write(np.full(1 + number, 9, np.uint32))
            right.append(buffer.read().tolist() == [9] * (1 + number))
            buffer.close()
        return all(right)

    assert in_threads(work) == [True] * THREADS


def test_one_buffer_that_all_threads_write_and_read_is_never_torn(driver: Driver) -> None:
    buffer = driver.buffer(np.zeros(10_000, np.uint32))

    def work(number: int) -> object:
        mixed = 0
        for _ in range(100):
            buffer.write(np.full(10_000, number, np.uint32))
            mixed += len(set(buffer.read().tolist())) != 1
        return mixed

    assert in_threads(work) == [0] * THREADS


def test_batches_of_each_thread(driver: Driver, compiled: CompileText) -> None:
    kernel = compiled(STEP)

    def work(number: int) -> object:
        buffer = driver.buffer(np.full(70, number, np.uint32))
        bound, batch = kernel.bind(buffer, push_constants={"factor": 3, "summand": 1}), driver.batch()
        for _ in range(50):
            batch.add(bound)
        for _ in range(20):
            batch.run()
        return set(buffer.read().tolist())

    assert in_threads(work) == [{steps(number, 1000)} for number in range(THREADS)]
