"""Work of every kind, for the Khronos validation layer to watch; test_device_validation.py runs each case in its own process.

Usage: validated.py CASE

Each case runs on buffers that host and device share, as a CPU device has them; on device buffers that the host writes directly
and reads through staging copies, as with a resizable BAR; and with copies both ways. Results are checked: silence is not
for want of work.
"""

from __future__ import annotations

import contextlib
import gc
import sys
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import order
import parts
import shipped_kernels
import subgroups
from kernels import glsl

from vyre_driver import Driver, Kernel
from vyre_driver.backends import DispatchConfig
from vyre_driver.backends.kompute import KomputeBackend
from vyre_driver.errors import DeviceOutOfMemory, DispatchTimeout
from vyre_driver.kompute import device as devices
from vyre_driver.kompute.blocks import DeviceMemory
from vyre_driver.kompute.views import launch_part
from vyre_driver.spirv.shipped import shipped_module
from vyre_driver.vulkan.layer import _layer

if TYPE_CHECKING:
    from vyre_driver.runtime.bound import BoundKernel

X = np.arange(1000, dtype=np.float32)
PUSH = {"alpha": 2, "count": X.size}
OUT_OF_DEVICE_MEMORY = -2
SLOW_STEPS, SLOW_GROUPS = 50_000, 150  # llvmpipe leaves a loop after 65,535 turns
WIDE = """#version 450
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
layout(local_size_x = 64) in;
layout(binding = 0) buffer A {{ {kind} a[]; }};
void main() {{ uint i = gl_GlobalInvocationID.x; if (i < a.length()) a[i] = a[i] * {kind}(3); }}
"""
BYTES = """#version 450
#extension GL_EXT_shader_8bit_storage : require
layout(local_size_x = 64) in;
layout(binding = 0) buffer A { uint8_t a[]; };
void main() { uint i = gl_GlobalInvocationID.x; if (i < a.length()) a[i] = uint8_t(uint(a[i]) + 1u); }
"""
CONSTANTS = """#version 450
layout(local_size_x_id = 0) in;
layout(constant_id = 3) const uint TIMES = 2u;
layout(constant_id = 4) const bool NEGATE = false;
layout(binding = 0) readonly buffer A { int a[]; };
layout(binding = 2) writeonly buffer B { int b[]; };
layout(push_constant) uniform P { int add; uvec2 pair; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i < a.length()) b[i] = (NEGATE ? -1 : 1) * a[i] * int(TIMES) + add + int(pair.y);
}
"""
SLOW = """#version 450
layout(local_size_x = 1) in;
layout(binding = 0) buffer A { uint a[]; };
layout(push_constant) uniform P { uint steps; };
void main() { uint x = a[0]; for (uint i = 0u; i < steps; i++) x = x * 1664525u + 1013904223u; a[0] = x; }
"""
COPY = """#version 450
layout(local_size_x = 64) in;
layout(binding = 0) readonly buffer A { float a[]; };
layout(binding = 1) writeonly buffer B { float b[]; };
void main() { uint i = gl_GlobalInvocationID.x; if (i < b.length()) b[i] = a[i]; }
"""


def check(got: object, expected: object) -> None:
    np.testing.assert_array_equal(np.asarray(got), np.asarray(expected), strict=True)


def saxpy_of(driver: Driver) -> Kernel:
    return driver.compile(shipped_module("saxpy"))


def wide_numbers() -> None:
    with Driver() as driver:
        for kind, dtype, big in (("double", np.float64, 1 + 2**-40), ("int64_t", np.int64, -(2**40) - 1)):
            given = np.full(70, big, dtype)
            check(driver.compile(glsl(WIDE.format(kind=kind)))(given), given * dtype(3))


def bytes_that_fill_no_word() -> None:
    with Driver() as driver:
        given = np.arange(67, dtype=np.uint8)
        check(driver.compile(glsl(BYTES))(given), given + np.uint8(1))


def calls_whole_and_split() -> None:
    with Driver() as driver:
        kernel = saxpy_of(driver)
        for split in (False, True, False):
            for alpha in (2, 3):
                check(kernel(X, X, push_constants={**PUSH, "alpha": alpha}, split=split), X * np.float32(alpha) + X)


def constants() -> None:
    with Driver() as driver:
        given = np.arange(-40, 40, dtype=np.int32)
        for specs in ({}, {"TIMES": 5, "NEGATE": True}):
            kernel = driver.compile(glsl(CONSTANTS), specs)
            sign = -5 if specs else 2
            for add in (7, -9):
                got = kernel(given, push_constants={"add": add, "pair": (1, 2)}, out_shapes={"b": given.size})
                check(got, given * np.int32(sign) + np.int32(add + 2))


def dispatches_on_the_devices_clock() -> None:
    with KomputeBackend(Driver()) as backend:
        loaded = backend.load(shipped_module("saxpy"))
        for _ in range(2):
            timed = loaded.dispatch_timed([X, X], DispatchConfig(fixpoint_iterations=3), push_constants=PUSH)
            check(timed.outputs[0], X * np.float32(7))
            check((timed.device_ns or 0) > 0, backend.driver.context.device.is_timed)


def shipped_shaders() -> None:
    with Driver() as driver:
        data = np.arange(1024, dtype=np.uint8)
        histogram = driver.compile(shipped_module("byte_histogram"))
        got = histogram(data.view(np.uint32), np.zeros(256, np.uint32), push_constants={"byte_count": 1024}, workgroups=(4,))
        check(got, np.bincount(data, minlength=256).astype(np.uint32))
        mandelbrot = driver.compile(shipped_module("mandelbrot"), {"MAX_ITERATIONS": 20})
        push = {"left": -2.0, "top": 1.0, "step": 0.1, "width": 16, "height": 16}
        check(np.shape(mandelbrot(push_constants=push, workgroups=(1, 1), out_shapes={"escape": 256})), (256,))


def chain_in_a_batch() -> None:
    """Each dispatch reads what the one before wrote, and writes what it read; some are independent."""
    with Driver() as driver:
        kernel = saxpy_of(driver)
        a, b, c, d = (driver.buffer(np.ones(X.size, np.float32)) for _ in range(4))
        pairs = [(a, b), (b, c), (c, a), (a, b), (d, c)]
        bound = [kernel.bind(*pair, push_constants={"alpha": 1, "count": X.size}) for pair in pairs]
        batch = driver.batch()
        for one in bound:
            batch.add(one)
        values = [1.0, 1.0, 1.0, 1.0]
        for _ in range(2):
            batch.run()
            for source, target in ((0, 1), (1, 2), (2, 0), (0, 1), (3, 2)):
                values[target] += values[source]
        check([buffer.read()[-1] for buffer in (a, b, c, d)], np.array(values, np.float32))


def resident_buffers() -> None:
    with Driver() as driver:
        kernel = saxpy_of(driver)
        x, y = driver.buffer(X), driver.empty(X.shape, X.dtype)
        bound = kernel.bind(x, y, push_constants=PUSH)
        for times in (1, 2, 3):
            y.write(X * np.float32(times))
            future = bound.submit()
            future.result()
            check(y.read(), X * np.float32(times + 2))
            x.write(X)
        check(x.read(), X)
        again = kernel.bind(y, x, push_constants=PUSH)
        again.run()
        check(x.read(), X * np.float32(11))
        y.close()
        del bound, again, y
        gc.collect()
        check(driver.buffer(X).read(), X)


def pipelines_and_memory_shared() -> None:
    """Make and drop many equal pipelines and buffers of few sizes, more than the layer keeps idle."""
    with Driver() as driver:
        kernel = saxpy_of(driver)
        for count in range(1, 200, 3):
            check(kernel(X[:count], X[:count], push_constants={**PUSH, "count": count}), X[:count] * np.float32(3))
        module = glsl(CONSTANTS)
        for number in range(70):
            other = driver.compile(module, {"TIMES": number + 1})
            check(
                other(np.array([1], np.int32), push_constants={"add": 0, "pair": (0, 0)}, out_shapes={"b": 1}),
                np.int32([number + 1]),
            )
            del other
        driver.context.device.memory.trim()
        check(kernel(X, X, push_constants=PUSH), 3 * X)


def drivers_one_after_another() -> None:
    for _ in range(4):
        with Driver() as driver:
            check(saxpy_of(driver)(X, X, push_constants=PUSH), 3 * X)


def drivers_side_by_side() -> None:
    drivers = [Driver() for _ in range(3)]
    kernels = [saxpy_of(driver) for driver in drivers]
    for kernel in kernels:
        check(kernel(X, X, push_constants=PUSH), 3 * X)
    for driver in drivers:
        driver.close()


def four_threads() -> None:
    failed: list[BaseException] = []

    def call(kernel: Kernel, driver: Driver, number: int) -> None:
        try:
            for step in range(10):
                count = 100 * number + step + 1
                check(kernel(X[:count], X[:count], push_constants={**PUSH, "count": count}), 3 * X[:count])
                kept = driver.buffer(X)
                kernel.bind(kept, kept, push_constants=PUSH).run()
                check(kept.read(), 3 * X)
        except BaseException as error:  # noqa: BLE001 -- raised again below
            failed.append(error)

    with Driver() as driver:
        kernel = saxpy_of(driver)
        threads = [threading.Thread(target=call, args=(kernel, driver, number)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if failed:
        raise failed[0]


def time_out_then_next_run() -> None:
    with Driver() as driver:
        slow = driver.compile(glsl(SLOW))
        start = np.zeros(1, np.uint32)
        for _ in range(2):
            time_out(slow, start)
        check(slow(start, push_constants={"steps": 1}), np.uint32([1013904223]))
        check(saxpy_of(driver)(X, X, push_constants=PUSH), 3 * X)


def time_out(slow: Kernel, start: np.ndarray) -> None:
    """Leave a run of `slow` behind: a longer one as long as a busy machine lets the shader end before it is looked at."""
    for doublings in range(7):
        try:
            slow(start, push_constants={"steps": SLOW_STEPS}, workgroups=(SLOW_GROUPS << doublings, 1, 1), timeout=0)
        except DispatchTimeout:
            return
    sys.exit("the slow shader was over at once, seven times")


def slow_on(driver: Driver, slow: Kernel) -> BoundKernel:
    return slow.bind(
        driver.buffer(np.zeros(1, np.uint32)), push_constants={"steps": SLOW_STEPS}, workgroups=(SLOW_GROUPS, 1, 1)
    )


def close_with_work_running() -> None:
    driver = Driver()
    slow = driver.compile(glsl(SLOW))
    futures = [slow_on(driver, slow).submit() for _ in range(2)]
    driver.close()
    del slow, futures
    gc.collect()


def dropped_with_work_running() -> None:
    with Driver() as driver:
        slow = driver.compile(glsl(SLOW))
        slow_on(driver, slow).submit()
        gc.collect()
        check(saxpy_of(driver)(X, X, push_constants=PUSH), 3 * X)


def failures_of_the_device() -> None:
    with Driver() as driver:
        kernel = saxpy_of(driver)
        for call in ("allocate", "map", "bind", "create_buffer"):
            for nth in (1, 2):
                _layer.inject(call, nth, OUT_OF_DEVICE_MEMORY)
                with contextlib.suppress(DeviceOutOfMemory):
                    kernel(X[: nth + 8], X[: nth + 8], push_constants={**PUSH, "count": nth + 8})
                _layer.inject(call, 0, 0)
        for _ in range(20):
            _layer.inject("allocate", 1, OUT_OF_DEVICE_MEMORY)
            with contextlib.suppress(DeviceOutOfMemory):
                driver.buffer(X)
            _layer.inject("allocate", 0, 0)
            gc.collect()
        check(live_bytes(driver), 0)  # kernels have let go of all that they kept
        _layer.inject("create_pipeline", 1, OUT_OF_DEVICE_MEMORY)
        with contextlib.suppress(DeviceOutOfMemory):
            kernel(X[:20], X[:20], push_constants={**PUSH, "count": 20})
        check(kernel(X, X, push_constants=PUSH), 3 * X)


def interrupted_once_made() -> None:
    """Ctrl-C, or an exhausted heap, once a pipeline or a buffer is there and before anybody has it: destroyed once."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    facts = _layer.PipelineFacts
    with Driver() as driver:
        kernel = saxpy_of(driver)
        for count in (30, 31, 32):
            _layer.PipelineFacts = interrupt  # type: ignore[assignment,misc]
            with contextlib.suppress(KeyboardInterrupt):
                kernel(X[:count], X[:count], push_constants={**PUSH, "count": count})
                sys.exit("it was not interrupted")
            _layer.PipelineFacts = facts  # type: ignore[misc]
            check(kernel(X[:count], X[:count], push_constants={**PUSH, "count": count}), 3 * X[:count])


def memory_that_cuda_sees() -> None:
    with Driver() as driver:
        shared, part = driver.buffer(X, share="cuda"), driver.zeros(3000, np.uint8, share="cuda")
        capsules = [shared[250:].__dlpack__(), part.__dlpack__(max_version=(1, 0))]
        y = driver.buffer(X)
        check(saxpy_of(driver)(y, shared, push_constants=PUSH, out=shared).read(), 3 * X)
        shared[10:20].fill(1)
        shared.close()
        part[1:7] = b"654321"
        check(part.read()[:8], np.frombuffer(b"\x00654321\x00", np.uint8))
    del capsules


def launches_in_one_command_buffer() -> None:
    """Launches that need each other's results, and such that do not, without a wait in between; and copies among them."""
    with Driver() as driver:
        kernel, here = driver.compile(glsl(COPY)), [X + number for number in range(3)]
        buffers = [driver.buffer(array) for array in here]
        for _ in range(2):
            kernel(buffers[0], buffers[1])
        here[1] = here[0]
        launchable, words = kernel._resident_calls.launchable(buffers[:2], None)  # noqa: SLF001 -- a call would wait
        number = 0
        for turn in range(200):
            source, target = (turn % 3, (turn + 1) % 3) if turn % 5 else (0, 2)
            number = launchable.launch([launch_part(buffers[source]), launch_part(buffers[target])], words)
            here[target] = here[source]
            if turn % 50 == 49:
                buffers[1].write(X + turn)
                here[1] = X + turn
        check(_layer.wait_for_launch(driver.context.device.layer, number), 0)
        for buffer, array in zip(buffers, here, strict=True):
            check(buffer.read(), array)


def live_bytes(driver: Driver) -> int:
    return driver.context.device.layer.counters()["memory_live_bytes"]


def race() -> None:
    """Record a dispatch and one that needs its result in one Sequence, of one group: the layer puts no barrier between.

    The kernel reads one buffer and writes the other. Of a buffer that a shader both reads and writes, version 1.3.275 of the
    validation layer reports nothing.
    """
    with Driver() as driver:
        kernel = driver.compile(glsl(COPY))
        a, b = driver.buffer(X), driver.buffer(X)
        forth, back = kernel.bind(a, b), kernel.bind(b, a)

        def record_and_run(manager: Any) -> None:  # noqa: ANN401 -- kp has no types
            sequence = manager.sequence()
            group = [bound.pipeline.dispatch(bound.push_words) for bound in (forth, back)]
            _layer.record(sequence, [group], device_only=False)
            sequence.eval()

        driver.context.device.call_kompute("race", record_and_run)


def place_of_buffers() -> tuple[bool, bool]:
    """Whether the host writes and reads the device's memory without a copy there."""
    with Driver() as driver:
        memory = driver.buffer(X).memory
        return memory.is_mapped, memory.is_shared


def copy_both_ways() -> None:
    """Let the layer map no device memory: uploads go through staging buffers then, as read-backs do."""
    DeviceMemory.maps = lambda *_: False


def main() -> None:
    case = (globals() | vars(parts) | vars(order) | vars(shipped_kernels) | vars(subgroups))[sys.argv[1]]
    case()
    devices._SHARED_MEMORY = frozenset()  # noqa: SLF001 -- makes lavapipe's buffers those of a graphics card
    check(place_of_buffers(), (True, False))
    case()
    copy_both_ways()
    check(place_of_buffers(), (False, False))
    case()


if __name__ == "__main__":
    main()
