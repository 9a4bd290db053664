"""Failures put under kompute, one at a time; test_device_faults.py runs this in processes of its own.

Usage: injected.py failures WAY | injected.py lost CALL...

``failures`` makes the first, second, ... of each kind of Vulkan call fail with each VkResult until none is left to fail, and
prints as JSON what became of each. ``lost`` loses a device in each of these calls and prints what its later uses say.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_driver import Driver, Kernel, VyreError
from vyre_driver.spirv.shipped import shipped_module
from vyre_driver.vulkan.layer import _layer

if TYPE_CHECKING:
    from collections.abc import Callable

    from vyre_driver.kompute.buffer import Buffer
    from vyre_driver.runtime.bound import BoundKernel
    from vyre_driver.runtime.futures import DispatchFuture

    Way = Callable[[Driver, Kernel], object]

X = np.arange(100, dtype=np.float32)
PUSH = {"alpha": 2, "count": 100}
ALL_RESULTS = (-1, -2, -3, -4, -5, -10, -13)
SOME_RESULTS = (-4, -13)
MOST_CALLS = 30


def by_call(_: Driver, kernel: Kernel) -> object:
    return kernel(X, X, push_constants=PUSH)


def by_call_in_stages(_: Driver, kernel: Kernel) -> object:
    return kernel(X, X, push_constants=PUSH, split=True)


def bound(driver: Driver, kernel: Kernel) -> tuple[BoundKernel, Buffer]:
    x, y = driver.buffer(X), driver.buffer(X)
    return kernel.bind(x, y, push_constants=PUSH), y


def by_bound_run(driver: Driver, kernel: Kernel) -> object:
    work, y = bound(driver, kernel)
    work.run()
    return y.read()


async def wait_for(future: DispatchFuture) -> None:
    await future


def by_awaited_future(driver: Driver, kernel: Kernel) -> object:
    work, y = bound(driver, kernel)
    asyncio.run(wait_for(work.submit()))
    return y.read()


def by_batch(driver: Driver, kernel: Kernel) -> object:
    work, y = bound(driver, kernel)
    with driver.batch() as batch:
        batch.add(work)
    return y.read()


WAYS = {way.__name__: way for way in (by_call, by_call_in_stages, by_bound_run, by_awaited_future, by_batch)}


def failure_of(action: Callable[[], object]) -> VyreError | None:
    """The error that an action raises, without the frames that it holds."""
    try:
        action()
    except VyreError as error:
        error.__cause__ = error.__context__ = None
        return error.with_traceback(None)
    return None


def check(way: Way, driver: Driver, kernel: Kernel) -> None:
    np.testing.assert_array_equal(way(driver, kernel), 3 * X, strict=True)  # type: ignore[arg-type]


def all_memory_is_back(driver: Driver) -> bool:
    """Whether the layer counts no byte in use, and the driver would give all of the heap again.

    The thread that follows what is awaited lets go of it a moment after it has told.
    """
    gc.collect()
    device = driver.context.device
    for _ in range(100):
        live = device.layer.counters()["memory_live_bytes"]  # type: ignore[union-attr]
        if live == 0 and device.memory.available == driver.device.device_local_bytes:
            return True
        time.sleep(0.02)
    return False


def fail(way: Way, driver: Driver, failing: tuple[str, int, int]) -> dict[str, Any] | None:
    """What becomes of the ``nth`` call failing with a result; None when there were fewer calls."""
    call, nth, result = failing
    kernel = driver.compile(shipped_module("saxpy"))
    _layer.inject(call, nth, result)
    error = failure_of(lambda: way(driver, kernel))
    _layer.inject(call, 0, 0)
    if error is None:
        return None
    again = [repr(failure_of(lambda: check(way, driver, kernel))) for _ in range(2)]
    return {"failing": failing, "error": [type(error).__name__, error.code, str(error), error.context], "again": again}


def outcome(way: Way, failing: tuple[str, int, int]) -> dict[str, Any] | None:
    """As ``fail`` on a driver of its own, and whether all memory is back when what was made has gone."""
    with Driver() as driver:
        found = fail(way, driver, failing)
        return None if found is None else found | {"memory is back": all_memory_is_back(driver)}


def failures(name: str) -> list[dict[str, Any]]:
    found = []
    for call in _layer.CALLS[1:]:
        for result in ALL_RESULTS if name == "by_call" else SOME_RESULTS:
            for nth in range(1, MOST_CALLS):
                one = outcome(WAYS[name], (call, nth, result))
                if one is None:
                    break
                found.append(one)
    return found


def uses(driver: Driver) -> dict[str, Callable[[], object]]:
    """Everything that can be asked of a driver and what is made with it."""
    kernel, fresh = (driver.compile(shipped_module("saxpy")) for _ in range(2))
    kernel(X, X, push_constants=PUSH)
    work, y = bound(driver, kernel)
    future = work.submit()
    batch = driver.batch()
    batch.add(work)
    batch.run()

    return {
        "a kernel that ran": lambda: kernel(X, X, push_constants=PUSH),
        "other sizes": lambda: kernel(X[:5], X[:5], push_constants=PUSH),
        "a kernel that never ran": lambda: fresh(X, X, push_constants=PUSH),
        "a kernel compiled now": lambda: driver.compile(shipped_module("saxpy"))(X, X, push_constants=PUSH),
        "in stages": lambda: kernel(X, X, push_constants=PUSH, split=True),
        "bind": lambda: fresh.bind(y, y, push_constants=PUSH),
        "run": work.run,
        "submit": work.submit,
        "the future's result": future.result,
        "the future's result, awaited": lambda: asyncio.run(wait_for(future)),
        "batch": batch.run,
        "batch, submitted": batch.submit,
        "read": y.read,
        "write": lambda: y.write(X),
        "a new buffer": lambda: driver.buffer(X),
        "a new empty buffer": lambda: driver.empty(8, np.float32),
    }


def lost(call: str) -> dict[str, object]:
    driver = Driver()
    asked = uses(driver)
    mandelbrot = driver.compile(shipped_module("mandelbrot"), {"MAX_ITERATIONS": 2})
    view = {"left": 0, "top": 0, "step": 1, "width": 4, "height": 4}
    kernel = driver.compile(shipped_module("saxpy"))
    kept = bound(driver, kernel)
    _layer.inject(call, 1, -4)
    if call == "map":  # of a block, which is made for a long buffer
        first = failure_of(lambda: driver.empty(2 * _layer.LONG_BYTES, np.uint8))
    elif call == "bind_buffers":  # to the pipeline of the first binding
        first = failure_of(lambda: bound(driver, kernel))
    else:
        first = failure_of(lambda: mandelbrot(push_constants=view, workgroups=(1, 1), out_shapes={"escape": 16}))
    del kept
    said = {use: repr(failure_of(action)) for use, action in asked.items()}
    said["close"] = repr(failure_of(driver.close))
    said["close again"] = repr(failure_of(driver.close))
    with Driver() as another:
        check(by_call, another, another.compile(shipped_module("saxpy")))
    return {"first": repr(first), "then": said}


if __name__ == "__main__":
    what, *which = sys.argv[1:]
    json.dump(failures(which[0]) if what == "failures" else {call: lost(call) for call in which}, sys.stdout)
