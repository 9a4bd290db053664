"""Ways in which drivers and kernels end; test_device_lifetime.py runs each in a process of its own and wants exit status 0.

Usage: lifetime.py CASE
"""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np

from vyre_driver import Driver, Kernel
from vyre_driver.errors import DispatchFailed, DispatchTimeout
from vyre_driver.kompute.deadline import Deadline
from vyre_driver.kompute.memory import TensorBuffer
from vyre_driver.spirv.shipped import shipped_module

if TYPE_CHECKING:
    from collections.abc import Callable

    from vyre_driver.runtime.bound import BoundKernel
    from vyre_driver.runtime.futures import DispatchFuture

X = np.arange(8, dtype=np.float32)
HANGS_AFTER_S = 25
kept: list[object] = []


class Cycle:
    """Garbage that only the collector finds."""

    def __init__(self, *things: object) -> None:
        self.things = [self, *things]


class UsesKernelLast:
    """Computes once more while it is torn down."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel

    def __del__(self) -> None:
        check(self.kernel)


def check(kernel: Kernel) -> None:
    if not np.array_equal(kernel(X, X, push_constants={"alpha": 2, "count": 8}), 3 * X):
        os._exit(3)


def used() -> tuple[Driver, Kernel]:
    driver = Driver()
    kernel = driver.compile(shipped_module("saxpy"))
    check(kernel)
    return driver, kernel


def long_work() -> tuple[Driver, BoundKernel, DispatchFuture]:
    """Work that was just submitted: points that never leave the Mandelbrot set."""
    driver = Driver()
    iterations = 20_000 if driver.device.is_software else 20_000_000  # llvmpipe leaves a loop after 65,535 turns
    kernel = driver.compile(shipped_module("mandelbrot"), {"MAX_ITERATIONS": iterations})
    push = {"left": 0, "top": 0, "step": 0, "width": 64, "height": 64}
    bound = kernel.bind(driver.empty(64 * 64, np.float32), push_constants=push, workgroups=(4, 4))
    return driver, bound, bound.submit()


def driver_is_closed_while_work_runs() -> None:
    driver, _, future = long_work()
    driver.close()
    if not future.done() or future.exception() is not None:
        os._exit(6)


def driver_dies_while_work_runs() -> None:
    driver, bound, future = long_work()
    del driver
    gc.collect()
    del bound, future
    gc.collect()


def a_future_dies_while_its_work_runs() -> None:
    driver, bound, future = long_work()
    del future
    del bound
    gc.collect()
    check(driver.compile(shipped_module("saxpy")))


def all_die_in_one_cycle_while_work_runs() -> None:
    Cycle(*long_work())
    gc.collect()


def exits_while_work_runs() -> None:
    kept.extend(long_work())


def exits_with_an_uncollected_cycle_while_work_runs() -> None:
    gc.disable()
    Cycle(*long_work())


def long_copy() -> tuple[TensorBuffer, TensorBuffer, DispatchFuture, Driver]:
    """A copy that waits in the queue for work, and that nobody has waited for."""
    driver, _, future = long_work()
    source, target = (TensorBuffer(driver.context.device, 1000, 1) for _ in range(2))
    with suppress(DispatchTimeout):
        target.copy_range(source, 0, 0, 1000, Deadline(0, "the device"))
        os._exit(7)
    return source, target, future, driver


def all_die_in_one_cycle_while_a_copy_runs() -> None:
    Cycle(*long_copy())
    gc.collect()


def all_die_one_by_one_while_a_copy_runs() -> None:
    things = list(long_copy())
    while things:
        del things[-1]
        gc.collect()


def driver_is_closed_while_a_copy_runs() -> None:
    things = long_copy()
    things[-1].close()
    del things
    gc.collect()


def exits_while_a_copy_runs() -> None:
    kept.extend(long_copy())


def driver_dies_first() -> None:
    driver, kernel = used()
    del driver
    gc.collect()
    check(kernel)
    del kernel
    gc.collect()


def kernel_dies_first() -> None:
    driver, kernel = used()
    del kernel
    gc.collect()
    check(driver.compile(shipped_module("saxpy")))


def driver_is_closed_and_dies_before_its_kernel() -> None:
    driver, kernel = used()
    driver.close()
    del driver
    gc.collect()
    del kernel
    gc.collect()


def kernel_dies_after_the_driver_is_closed() -> None:
    driver, kernel = used()
    driver.close()
    del kernel
    gc.collect()
    driver.close()


def kernel_dies_before_the_driver_is_closed() -> None:
    driver, kernel = used()
    del kernel
    gc.collect()
    driver.close()


def both_die_in_one_cycle() -> None:
    Cycle(*used())
    gc.collect()


def both_die_in_one_cycle_after_the_driver_is_closed() -> None:
    cycle = Cycle(*used())
    cycle.things[1].close()  # type: ignore[attr-defined]
    del cycle
    gc.collect()


def both_die_in_another_thread() -> None:
    kept.extend(used())
    thread = threading.Thread(target=kept.clear)
    thread.start()
    thread.join()


def kernel_dies_while_memory_is_counted() -> None:
    """Let a garbage collection, which may come at any line, come at each line of ``reserve``."""
    driver, kernel = used()
    others = [driver.compile(shipped_module("saxpy")) for _ in range(20)]
    for other in others:
        check(other)
    del other

    def collect(*_: object) -> Callable[..., object]:
        if others:
            Cycle(others.pop())
            gc.collect()
        return collect

    gc.disable()
    sys.settrace(lambda frame, *_: collect if frame.f_code.co_name == "reserve" else None)
    kernel(X[:4], X[:4], push_constants={"alpha": 2, "count": 4})


def exits_without_closing() -> None:
    kept.extend(used())


def exits_with_an_uncollected_cycle() -> None:
    gc.disable()
    Cycle(*used())


def exits_with_a_kernel_used_at_exit() -> None:
    _, kernel = used()
    atexit.register(check, kernel)


def exits_with_a_kernel_used_by_a_finalizer() -> None:
    _, kernel = used()
    kept.append(UsesKernelLast(kernel))


def exits_with_a_daemon_thread_that_keeps_calling() -> None:
    _, kernel = used()
    called = threading.Event()

    def call() -> None:
        while True:
            check(kernel)
            called.set()

    threading.Thread(target=call, daemon=True).start()
    called.wait()


def closed_driver_refuses_calls_of_kernels_made_before() -> None:
    driver, kernel = used()
    driver.close()
    try:
        check(kernel)
    except DispatchFailed:
        return
    os._exit(5)


if __name__ == "__main__":
    signal.alarm(2 * HANGS_AFTER_S)
    globals()[sys.argv[1]]()
