"""What crashes, hangs or lies in kompute, reached for through the package; test_device_traps.py runs each in a process.

Usage: traps.py CASE

Prints as JSON what each use came to: the error's class and message, or what it gave.
"""

from __future__ import annotations

import dataclasses
import gc
import json
import os
import signal
import sys
import threading
import warnings
from typing import TYPE_CHECKING

import numpy as np
from kernels import glsl

import vyre_driver.driver
from vyre_driver import Driver, VyreError
from vyre_driver.spirv.shipped import shipped_module
from vyre_driver.vulkan import enumerate_devices

if TYPE_CHECKING:
    from collections.abc import Callable

    from vyre_driver.runtime.bound import BoundKernel
    from vyre_driver.runtime.futures import DispatchFuture

X = np.arange(100, dtype=np.float32)
PUSH = {"alpha": 2, "count": 100}
HEAD = "#version 450\nlayout(local_size_x = 1) in;\n"
ADD = HEAD + "layout(binding = 0) buffer A { uint a[]; };\nvoid main() { a[0] += 1u; }"
WIDE = "layout(push_constant) uniform Push { uint wide[%d]; };\n"
OUTLIVE_S = 30


def said(use: Callable[[], object]) -> object:
    """What a use came to, as data."""
    try:
        got = use()
    except VyreError as error:
        return [type(error).__name__, str(error)]
    return got.tolist() if isinstance(got, np.ndarray) else got


def opened() -> tuple[Driver, dict[str, Callable[[], object]]]:
    """A driver, and everything that can be asked of what was made with it."""
    driver = Driver()
    kernel = driver.compile(shipped_module("saxpy"))
    kernel(X, X, push_constants=PUSH)
    x, y = driver.buffer(X), driver.buffer(X)
    bound: BoundKernel = kernel.bind(x, y, push_constants=PUSH)
    future: DispatchFuture = bound.submit()
    future.result()
    batch = driver.batch()
    batch.add(bound)
    batch.run()
    return driver, {
        "call": lambda: kernel(X, X, push_constants=PUSH),
        "bind": lambda: kernel.bind(x, y, push_constants=PUSH) and None,
        "run": bound.run,
        "submit": bound.submit,
        "result": future.result,
        "batch": batch.run,
        "batch submit": batch.submit,
        "read": y.read,
        "write": lambda: y.write(X),
        "buffer": lambda: driver.buffer(X),
        "empty": lambda: driver.empty(4, np.float32),
    }


def use_after_close() -> object:
    driver, uses = opened()
    driver.close()
    return {name: said(use) for name, use in uses.items()}


def a_fork_uses_everything() -> object:
    """The child gets ForkError whatever it asks; the parent works on, and ends as if nothing had been."""
    _, uses = opened()
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12: forking with threads; that is the test
        pid = os.fork()
    if pid == 0:
        signal.alarm(OUTLIVE_S)
        os.write(writing, json.dumps({name: refused_as(use) for name, use in uses.items()}).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        in_the_child = json.load(pipe)
    _, status = os.waitpid(pid, 0)
    assert status == 0
    return {"in the child": in_the_child, "in the parent": {name: refused_as(use) for name, use in uses.items()}}


def refused_as(use: Callable[[], object]) -> str:
    """The name of the error that a use raises, or that it was right."""
    try:
        use()
    except VyreError as error:
        return type(error).__name__
    return "right"


def views_that_outlive_the_memory() -> object:
    """Results are arrays of their own: the memory is used again, closed and given back under them."""
    with Driver() as driver:
        kernel = driver.compile(shipped_module("saxpy"))
        called = kernel(X, X, push_constants=PUSH)
        resident = driver.buffer(X)
        read = resident.read()
        resident.write(X * 0)
        resident.close()
        kernel(X * 0, X * 0, push_constants=PUSH)
    del driver, kernel, resident
    gc.collect()
    assert isinstance(called, np.ndarray)
    return [bool(np.array_equal(called, 3 * X)), bool(np.array_equal(read, X)), called.flags.writeable, read.flags.writeable]


def types_that_kompute_converts() -> object:
    """kompute makes float32 of float64 and words of the rest; a resident buffer keeps every bit."""
    random = np.random.default_rng(0)
    kept = {}
    with Driver() as driver:
        for name in ("float64", "float16", "int8", "uint8", "int16", "int64", "uint64", "bool", "complex128", "V3"):
            array = random.integers(0, 2, 77).astype(bool) if name == "bool" else random.bytes(77 * np.dtype(name).itemsize)
            given = array if isinstance(array, np.ndarray) else np.frombuffer(array, name)
            got = driver.buffer(given).read()
            kept[name] = got.dtype == given.dtype and got.tobytes() == given.tobytes()
        kernel = driver.compile(shipped_module("saxpy"))
        refused = said(lambda: kernel(X.astype(np.float64), X, push_constants=PUSH))
        resident = said(lambda: kernel.bind(driver.buffer(X.astype(np.float64)), driver.buffer(X), push_constants=PUSH))
    return {"kept": kept, "refused": refused, "resident": resident}


def roomy(**limits: int) -> Driver:
    """A driver of a device that is said to have a terabyte, and these limits."""
    found = [
        dataclasses.replace(
            one,
            memory_heaps=((1 << 40, 1),),
            limits=dataclasses.replace(one.limits, **limits),  # type: ignore[arg-type]
        )
        for one in enumerate_devices()
    ]
    vyre_driver.driver.enumerate_devices = lambda: found
    return Driver()


def sizes_that_wrap() -> object:
    """4 GiB and 4 bytes is 4 bytes to kompute: refused before anything is allocated."""
    with roomy(max_storage_buffer_range=1 << 33) as driver:
        before = driver.context.device.layer.counters()
        fill = driver.compile(glsl(HEAD + "layout(binding = 0) writeonly buffer A { uint a[]; };\nvoid main() { a[0] = 1u; }"))
        found = {
            "empty": said(lambda: driver.empty((1 << 30) + 1, np.uint32)),
            "exactly": said(lambda: driver.empty(1 << 30, np.uint32)),
            "out_shapes": said(lambda: fill(out_shapes={"a": (1 << 30) + 1}, workgroups=(1,))),
            "16 bytes in 64 bits": said(lambda: driver.empty(((1 << 62) + 1, 4), np.uint32)),
            "negative": said(lambda: driver.empty(-4, np.uint32)),
            "negative twice": said(lambda: driver.empty((-2, -2), np.uint32)),
            "half": said(lambda: driver.empty((2.5,), np.uint32)),  # type: ignore[arg-type]
        }
        return found | {"allocated": driver.context.device.layer.counters() != before}


def a_heap_that_is_too_small() -> object:
    small = [dataclasses.replace(one, memory_heaps=((500, 1),)) for one in enumerate_devices()]
    vyre_driver.driver.enumerate_devices = lambda: small
    with Driver() as driver:
        kernel = driver.compile(shipped_module("saxpy"))
        before = driver.context.device.layer.counters()
        found = {
            "call": said(lambda: kernel(X, X, push_constants=PUSH)),
            "buffer": said(lambda: driver.empty(501, np.uint8)),
        }
        moved = driver.context.device.layer.counters() != before
        return found | {"allocated": moved, "fits": said(lambda: kernel(X[:2], X[:2], push_constants={"alpha": 2, "count": 2}))}


def too_many_operations() -> object:
    """kompute segfaults when a Sequence has more operations than timestamps."""
    with Driver() as driver:
        resident = driver.buffer(np.zeros(1, np.uint32))
        bound = driver.compile(glsl(ADD)).bind(resident, workgroups=(1,))
        with driver.batch() as batch:
            for _ in range(3000):
                batch.add(bound)
        return resident.read().tolist()


def oversize_push_constants() -> object:
    body = "layout(binding = 0) buffer A { uint a[]; };\nvoid main() { a[0] = wide[%d]; }"
    with Driver() as driver:
        limit = driver.device.limits.max_push_constants_size // 4
        found = {}
        for words in (limit, limit + 1, 1 << 14):
            module = glsl(HEAD + WIDE % words + body % (words - 1))
            wide = np.arange(words)
            found[str(words - limit if words < 1 << 14 else "16384")] = said(
                lambda module=module, wide=wide: driver.compile(module)(
                    np.zeros(1, np.uint32), push_constants={"wide": wide}, workgroups=(1,)
                )
            )
        return found


def a_grid_over_the_limit() -> object:
    with Driver() as driver:
        limit = driver.device.limits.max_compute_work_group_count[0]
        kernel = driver.compile(glsl(ADD))
        resident = driver.buffer(np.zeros(1, np.uint32))
        return {
            "call": said(lambda: kernel(np.zeros(1, np.uint32), workgroups=(limit + 1,))),
            "bind": said(lambda: kernel.bind(resident, workgroups=(limit + 1,))),
            "wraps to 1": said(lambda: kernel.bind(resident, workgroups=((1 << 32) + 1,))),
        }


def constants_of_another_type() -> object:
    text = "layout(constant_id = 0) const bool B = true;\nlayout(constant_id = 1) const float F = 1;\n"
    text += "layout(binding = 0) buffer A { float a[]; };\nvoid main() { a[0] = B ? F : 0.0; }"
    module = glsl(HEAD + text)
    with Driver() as driver:

        def run(**specs: object) -> Callable[[], object]:
            return lambda: driver.compile(module, specs)(np.zeros(1, np.float32), workgroups=(1,))

        return {
            "an integer for a float": said(run(F=3)),
            "numpy's float64 for a float": said(run(F=np.float64(0.5))),
            "text for a float": said(run(F="1")),
            "a number for a bool": said(run(B=2)),
            "too much for a float": said(run(F=1e300)),
        }


def work_that_outlives_its_wait() -> object:
    """kompute forgets work whose wait timed out; here the next call waits for it."""
    with Driver() as driver:
        kernel = driver.compile(shipped_module("mandelbrot"), {"MAX_ITERATIONS": 5000})
        push = {"left": 0, "top": 0, "step": 0, "width": 64, "height": 64}
        call = {"push_constants": push, "workgroups": (4, 4), "out_shapes": {"escape": 4096}}
        first = said(lambda: kernel(timeout=1e-9, **call))  # type: ignore[arg-type]
        second = kernel(**call)  # type: ignore[arg-type]
        assert isinstance(first, list)
        return [first[0], bool(np.array_equal(second, np.zeros(4096, np.float32)))]


def threads_at_exit() -> object:
    """Threads that call, submit and wait while the interpreter ends, and one that it waits for."""
    _, uses = opened()
    called = [threading.Event() for _ in range(3)]

    def keep_calling(use: Callable[[], object], event: threading.Event) -> None:
        while True:
            use()
            event.set()

    for use, event in zip((uses["call"], uses["run"], uses["read"]), called, strict=True):
        threading.Thread(target=keep_calling, args=(use, event), daemon=True).start()
    for event in called:
        event.wait()
    threading.Thread(target=lambda: [uses["batch"]() for _ in range(20)]).start()
    return "exits"


CASES = {
    case.__name__: case
    for case in (
        use_after_close,
        a_fork_uses_everything,
        views_that_outlive_the_memory,
        types_that_kompute_converts,
        sizes_that_wrap,
        a_heap_that_is_too_small,
        too_many_operations,
        oversize_push_constants,
        a_grid_over_the_limit,
        constants_of_another_type,
        work_that_outlives_its_wait,
        threads_at_exit,
    )
}

if __name__ == "__main__":
    signal.alarm(OUTLIVE_S)
    json.dump(CASES[sys.argv[1]](), sys.stdout)
    sys.stdout.flush()
