"""What is done wrong on a driver, by the rows of the misuse matrix: words, shaders, calls, and lives that end too early."""

from __future__ import annotations

import array
import gc
import os
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
from kernels import glsl

from vyre_driver import Driver, SpirvModule
from vyre_driver.errors import (
    DispatchFailed,
    ForkError,
    VyreError,
)
from vyre_driver.spirv.shipped import shipped_module

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from vyre_driver import Kernel
    from vyre_driver.kompute.buffer import Buffer
    from vyre_driver.runtime.bound import BoundKernel

CODE = shipped_module("saxpy").code
X = np.arange(8, dtype=np.float32)
ZERO = np.float32(0)
PUSH = {"alpha": 2, "count": 8}
WRITES = "layout(local_size_x = 64) in; layout(binding = 0) buffer Y { uint y[]; }; void main() { y[0] = 1u; }"
FRESH = WRITES.replace("buffer", "writeonly buffer")
SIZED = WRITES.replace("local_size_x = 64", "local_size_x_id = 0, local_size_y_id = 1")
TYPED = "layout(constant_id = 0) const float F = 1; layout(constant_id = 1) const bool B = true;"
TYPED += WRITES.replace("y[0] = 1u", "y[0] = B ? uint(F) : 0u")
ADDRESSES = """#extension GL_EXT_buffer_reference : require
layout(buffer_reference) buffer R { uint x; };
layout(push_constant) uniform P { R p; };"""
CAPABILITY_KERNEL, SPIRV_2 = 6, 0x0002_0000
FUNCTION, ACCESS_CHAIN, LOAD, RETURN = 54, 65, 61, 253


def words(change: Callable[[array.array[int]], object]) -> bytes:
    """The saxpy shader's words with a change."""
    made = array.array("I", CODE)
    change(made)
    return made.tobytes()


def body(opcode: int, change: Callable[[array.array[int], int], object]) -> bytes:
    """The saxpy shader's words with a change at the first instruction of this opcode in its functions."""
    made = array.array("I", CODE)
    at, in_functions = 5, False
    while not (in_functions and made[at] & 0xFFFF == opcode):
        in_functions |= made[at] & 0xFFFF == FUNCTION
        at += made[at] >> 16
    change(made, at)
    return made.tobytes()


def use_what_nothing_defines(made: array.array[int], at: int) -> None:
    made[at + 3] = made[3]
    made[3] += 1


def follow_an_index_twice(made: array.array[int], at: int) -> None:
    made.insert(at + 4, made[at + 4])
    made[at] += 1 << 16


def run(driver: Driver, code: Any) -> object:  # noqa: ANN401 -- what a caller may give
    return driver.compile(SpirvModule.from_bytes(code, name="given"))(X, X, push_constants=PUSH)


def saxpy(driver: Driver, *arrays: object, **options: object) -> object:
    given: dict[str, Any] = {"push_constants": PUSH, **options}
    return driver.compile(shipped_module("saxpy"))(*arrays, **given)


def bind(driver: Driver, *buffers: Any, **options: object) -> BoundKernel:  # noqa: ANN401
    given: dict[str, Any] = {"push_constants": PUSH, **options}
    return driver.compile(shipped_module("saxpy")).bind(*buffers, **given)


def text(driver: Driver, body: str, specs: Any = None) -> Kernel:  # noqa: ANN401
    """Compile GLSL text."""
    return driver.compile(glsl(f"#version 450\n{body}"), specs)


def declaring(driver: Driver, declaration: str, use: str = "") -> Kernel:
    """Compile a shader that writes 1, with something more in it."""
    return text(driver, f"{declaration} {WRITES.replace('y[0] = 1u', f'y[0] = 1u; {use}')}")


def specialized(driver: Driver, value: object) -> object:
    return driver.compile(shipped_module("mandelbrot"), {"MAX_ITERATIONS": value})


def second_of_two_drivers(driver: Driver) -> object:
    with Driver() as other:
        return bind(driver, driver.buffer(X), other.buffer(X))


def closed_buffer(driver: Driver) -> object:
    buffer = driver.buffer(X)
    buffer.close()
    return bind(driver, driver.buffer(X), buffer)


def closed_before(driver: Driver, use: Callable[[BoundKernel, Buffer], object]) -> object:
    """Use what a second driver made after that is closed."""
    with Driver() as other:
        buffer = other.buffer(X)
        bound = bind(other, buffer, other.buffer(X))
        future = bound.submit()
    assert driver is not other
    assert future is not None
    return use(bound, buffer)


def result_after_close(_: Driver) -> object:
    with Driver() as other:
        future = bind(other, other.buffer(X), other.buffer(X)).submit()
    return future.result()


def drop_everything_at_once(driver: Driver) -> None:
    bind(driver, driver.buffer(X), driver.buffer(X)).submit()
    gc.collect()


def close_while_threads_run(_: Driver) -> None:
    """Close a driver under threads that call it; each ends in a result or the first error that tells of it."""
    found: list[VyreError] = []
    other, started = Driver(), threading.Barrier(4)

    def calls() -> None:
        kernel = other.compile(shipped_module("saxpy"))
        kernel(X, X, push_constants=PUSH)
        started.wait()
        try:
            while True:
                kernel(X, X, push_constants=PUSH)
        except VyreError as error:
            found.append(error)

    threads = [threading.Thread(target=calls) for _ in range(3)]
    for thread in threads:
        thread.start()
    started.wait()
    other.close()
    for thread in threads:
        thread.join()
    assert [type(error) for error in found] == [DispatchFailed] * 3
    raise found[0]


def use_in_a_fork(driver: Driver) -> None:
    """Fork, use the driver in the child, and raise what the child raised."""
    kernel = driver.compile(shipped_module("saxpy"))
    pid = os.fork()
    if pid == 0:
        try:
            kernel(X, X, push_constants=PUSH)
        except ForkError:
            os._exit(5)
        finally:
            os._exit(6)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert status == 5
    raise ForkError("the child raised it", fix="see the child")


def groups_after_equal_ones(driver: Driver) -> object:
    kernel = driver.compile(shipped_module("saxpy"))
    kernel(X, X, push_constants=PUSH, workgroups=(1,))
    return kernel(X, X, push_constants=PUSH, workgroups=(1.0,))  # type: ignore[arg-type]


def limit(driver: Driver, name: str) -> int:
    return int(getattr(driver.device.limits, name))


def endless(count: int) -> NDArray[np.float32]:
    """An array of so many elements that takes four bytes."""
    return np.lib.stride_tricks.as_strided(X, (count,), (0,))
