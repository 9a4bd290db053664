"""Processes in which work is waited for by more than ``result``; test_device_awaiting.py wants exit status 0 of each.

Usage: awaiting.py CASE
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import gc
import os
import signal
import sys
import threading
import time
import warnings
import weakref
from typing import TYPE_CHECKING

import numpy as np
from kernels import STEP, Spin, glsl

from vyre_driver import Driver
from vyre_driver.errors import DeviceLost, ForkError
from vyre_driver.vulkan.layer import _layer

if TYPE_CHECKING:
    from collections.abc import Callable

    from vyre_driver.runtime.futures import DispatchFuture

HANGS_AFTER_S = 50
RUNS_FOR_S = 0.1
kept: list[object] = []


def check(is_right: object, what: str = "that is wrong") -> None:
    if not is_right:
        raise AssertionError(what)


def running() -> tuple[Driver, Spin, DispatchFuture]:
    driver = Driver()
    spin = Spin(driver, RUNS_FOR_S)
    return driver, spin, spin.bound.submit()


def pollers() -> int:
    return sum(thread.name == "vyre_driver futures" for thread in threading.enumerate())


def wait_until(is_so: Callable[[], bool]) -> None:
    while not is_so():
        time.sleep(0.001)


def status_of_fork(child: Callable[[], None]) -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12: forking with threads; that is the test
        pid = os.fork()
    if pid == 0:
        signal.alarm(HANGS_AFTER_S)
        status = 1
        try:
            child()
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def forks_while_a_poller_lives() -> None:
    driver, spin, future = running()
    never_asked, ended = spin.bound.submit(), spin.bound.submit()
    called: list[object] = []
    future.add_done_callback(called.append)

    def child() -> None:
        check((pollers(), called) == (0, []))
        for one in (future, never_asked):
            check(len(concurrent.futures.wait([one]).done) == 1)
            check(isinstance(one.exception(), ForkError) and "failed ForkError" in repr(one))
            try:
                asyncio.run(asyncio.wait_for(one, 10))
            except ForkError:
                continue
            check(False)
        check(ended.done() and isinstance(ended.exception(0), ForkError))

    check(pollers() == 1)
    check(status_of_fork(child) == 0)
    check(future.result() is None)
    wait_until(lambda: called == [future])
    check(spin.runs() == 3)
    driver.close()


def forks_in_a_callback() -> None:
    """The poller's thread is the one that goes on in the child."""
    driver, _, future = running()
    found: list[int] = []
    future.add_done_callback(lambda _: found.append(status_of_fork(lambda: check(future.result() is None))))
    wait_until(lambda: bool(found))
    check(found == [0])
    driver.close()


def the_driver_is_dropped_while_a_future_is_awaited() -> None:
    driver, spin, future = running()
    device = weakref.ref(driver.context.device)
    del driver, spin

    async def wait(future: DispatchFuture) -> None:
        gc.collect()
        await future

    asyncio.run(wait(future))
    del future
    wait_until(lambda: gc.collect() >= 0 and device() is None)
    wait_until(lambda: pollers() == 0)


def the_driver_is_dropped_and_its_future_is_told_nobody_holds_it() -> None:
    driver, spin, future = running()
    device = weakref.ref(driver.context.device)
    told = threading.Event()
    future.add_done_callback(lambda _: told.set())
    del driver, spin, future
    gc.collect()
    check(told.wait(HANGS_AFTER_S))
    wait_until(lambda: pollers() == 0 and gc.collect() >= 0 and device() is None)


def closes_in_a_callback() -> None:
    driver, spin, future = running()
    other = spin.bound.submit()
    closed = threading.Event()

    def close(_: object) -> None:
        driver.close()
        closed.set()

    future.add_done_callback(close)
    check(concurrent.futures.wait([other]).done == {other})
    check(closed.wait(HANGS_AFTER_S))
    wait_until(lambda: pollers() == 0)


def exits_while_a_future_has_a_callback() -> None:
    kept.extend(running())
    kept[2].add_done_callback(kept.append)  # type: ignore[attr-defined]
    check(pollers() == 1)


def exits_while_another_thread_awaits() -> None:
    _, _, future = running()
    kept.append(future)

    async def wait() -> None:
        await future

    threading.Thread(target=lambda: asyncio.run(wait()), daemon=True).start()
    wait_until(lambda: pollers() == 1)


def exits_out_of_a_loop_that_awaits() -> None:
    _, _, future = running()
    kept.append(future)

    async def leave() -> None:
        waiting = asyncio.ensure_future(future)
        await asyncio.sleep(0.01)
        check((pollers(), waiting.done()) == (1, False))
        sys.exit(0)

    asyncio.run(leave())


def exits_with_an_await_in_a_cycle() -> None:
    gc.disable()
    driver, spin, future = running()
    cycle: list[object] = [driver, spin, future]
    cycle.append(cycle)
    future.add_done_callback(cycle.append)


def the_device_is_lost_while_many_wait() -> None:
    driver, spin, future = running()
    others = [spin.bound.submit() for _ in range(4)]
    told: list[object] = []
    for one in others:
        one.add_done_callback(told.append)
    _layer.inject("wait", 1, -4)
    waited = concurrent.futures.wait([future, *others], HANGS_AFTER_S)
    check(not waited.not_done)
    check([type(one.exception()) for one in [future, *others]] == [DeviceLost] * 5)
    wait_until(lambda: len(told) == 4)
    check(sum(driver.events.failures().values()) == 5)  # each told once, however often it is asked
    driver.close()


def ctrl_c_in_a_wait_leaves_the_rest_usable() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    driver, spin, _ = running()
    kernel = driver.compile(glsl(STEP))
    bound = kernel.bind(driver.buffer(np.ones(64, np.uint32)), push_constants={"factor": 1, "summand": 1})
    future = spin.bound.submit()
    main = threading.main_thread().ident or 0
    threading.Timer(0.05, signal.pthread_kill, [main, signal.SIGINT]).start()
    try:
        concurrent.futures.wait([future, *[bound.submit() for _ in range(20)]])
    except KeyboardInterrupt:
        kept.append("interrupted")
    check(kept == ["interrupted"])

    async def wait() -> None:
        await asyncio.gather(*[bound.submit() for _ in range(20)], future)

    asyncio.run(wait())
    driver.close()


if __name__ == "__main__":
    signal.alarm(HANGS_AFTER_S)
    globals()[sys.argv[1]]()
