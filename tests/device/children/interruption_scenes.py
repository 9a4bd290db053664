"""What is interrupted, what has to be right afterwards, and what is left then; for the interruption tests' child processes.

A scene is a generator. It prepares, yields a ``Stage``, and drops what it has made when it is closed. The act must be such that
it can be done again after it was broken off anywhere, on the same objects, with the same results.

``INTERRUPTED`` are those of driver, kernels, buffers and work, and of files. The others are for allocations alone: their code
holds nothing.
"""

from __future__ import annotations

import gc
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np
from interruption_files import FILE_SCENES
from interruption_waits import WAITS
from interruption_world import BYTES, ONCE, PUSH, TWICE, Stage, World, X, call, check, nothing
from kernels import glsl

from vyre_driver import Driver, DriverPool, SpirvModule, kernels
from vyre_driver.errors import DispatchFailed, InvalidInput
from vyre_driver.ir import Program
from vyre_driver.kompute.deadline import Deadline
from vyre_driver.kompute.memory import TensorBuffer

if TYPE_CHECKING:
    from collections.abc import Iterator


def opened(world: World) -> Iterator[Stage]:
    def act() -> None:
        Driver(cache=world.warm).close()

    yield Stage(world.driver, act, nothing)


def with_block(world: World) -> Iterator[Stage]:
    def act() -> None:
        with Driver(cache=world.warm) as driver:
            call(driver.compile(world.module))

    yield Stage(world.driver, act, nothing)


def module_cold(world: World) -> Iterator[Stage]:
    driver = world.cold()
    yield Stage(driver, lambda: call(driver.compile(world.module)), nothing)


def module_warm(world: World) -> Iterator[Stage]:
    driver = Driver(cache=world.warm)
    yield Stage(driver, lambda: call(driver.compile(world.module)), nothing)


def program_cold(world: World) -> Iterator[Stage]:
    driver = world.cold()
    yield Stage(driver, lambda: call(driver.compile(world.program), has_push=False), nothing)


def program_warm(world: World) -> Iterator[Stage]:
    driver = Driver(cache=world.warm)
    yield Stage(driver, lambda: call(driver.compile(world.program), has_push=False), nothing)


def called(world: World) -> Iterator[Stage]:
    """Call it as before, with a target, another size, other push constants, in stages, strictly and with an end."""
    kernel, out = world.driver.compile(world.module), np.empty_like(X)
    call(kernel)
    kernel(X, push_constants=PUSH, out=out)

    def act() -> None:
        call(kernel)
        for _ in range(2):
            check(kernel(X, push_constants=PUSH, out=out) is out and np.array_equal(out, ONCE))
        check(np.array_equal(kernel(X[:7], push_constants=PUSH), ONCE[:7]))
        check(np.array_equal(kernel(X, push_constants={"factor": 1, "summand": 2}), X + np.uint32(2)))
        check(np.array_equal(kernel(X, push_constants=PUSH, split=True, timeout=60.0), ONCE))
        check(np.array_equal(kernel(X, push_constants=PUSH, strict=True), ONCE))

    yield Stage(world.driver, act, nothing)


def called_with_many_sizes(world: World) -> Iterator[Stage]:
    """More sizes than a kernel keeps: each has to make room."""
    kernel = world.driver.compile(world.module)
    for size in range(1, 10):
        kernel(X[:size], push_constants=PUSH)

    def act() -> None:
        for size in (20, 1):
            check(np.array_equal(kernel(X[:size], push_constants=PUSH), ONCE[:size]))

    yield Stage(world.driver, act, nothing)


def tuned(world: World) -> Iterator[Stage]:
    """Call a kernel of several dispatches with what is kept for arrays, and with what is made for a call with buffers."""
    kernel, given, total = kernels.reduce_sum(world.driver), np.arange(20_000, dtype=np.uint32), 20_000 * 19_999 // 2
    out, here = np.empty((), np.uint32), world.driver.buffer(given)
    there = world.driver.empty((), np.uint32)
    kernel(given)

    def act() -> None:
        check(kernel(given, out=out) is out and out == total)
        check(kernel(here).read() == total)
        check(kernel(given, out=there) is there and there.read() == total)

    yield Stage(world.driver, act, nothing)


def bytes_seen(world: World) -> Iterator[Stage]:
    """The first buffers of a device: the layer's tables are made with them."""
    if "storageBuffer8BitAccess" not in world.driver.context.device.features:
        yield Stage(world.driver, nothing, nothing)
        return
    driver = Driver(cache=world.warm)
    kernel = driver.compile(glsl(BYTES))

    def act() -> None:
        for size in (5, 6):
            seen = kernel(np.zeros(size, np.uint8), np.zeros(1, np.uint32), workgroups=(1,))
            check(np.array_equal(seen, [size]), f"{size} bytes seem to be {seen}")

    yield Stage(driver, act, nothing)


def read(world: World) -> Iterator[Stage]:
    """Read a module and a program anew, of bytes."""
    code, wire = world.module.runnable.code, world.program.to_wire()

    def act() -> None:
        call(world.driver.compile(SpirvModule.from_bytes(code)))
        call(world.driver.compile(Program.from_wire(wire)), has_push=False)

    yield Stage(world.driver, act, nothing)


def profiled(world: World) -> Iterator[Stage]:
    """A profile that an interrupt ends anywhere keeps nothing going: the next one sees what the first would have seen."""
    kernel = world.driver.compile(world.module)
    bound = kernel.bind(world.driver.buffer(X), push_constants=PUSH)
    call(kernel)

    def act() -> None:
        with world.driver.profile() as profile:
            call(kernel)
            bound.run()
            bound.submit().result()
        trace = profile.trace
        seen = [one["name"] for one in trace["traceEvents"] if one.get("cat") == "device dispatch"]
        check(len(seen) == 3, f"the device did {seen}")

    def after() -> None:
        check(not world.driver.events.timeline.is_on, "events are kept that nobody asks for")

    yield Stage(world.driver, act, after)


def bound(world: World) -> Iterator[Stage]:
    kernel, buffer = world.driver.compile(world.module), world.driver.buffer(X)

    def act() -> None:
        buffer.write(X)
        kernel.bind(buffer, push_constants=PUSH).run()
        check(np.array_equal(buffer.read(), ONCE))
        kernel.bind(buffer, push_constants=PUSH).run(timeout=60.0)
        check(np.array_equal(buffer.read(), TWICE))

    yield Stage(world.driver, act, nothing)


def replaced(world: World) -> Iterator[Stage]:
    """Replace push constants between runs, submissions and a batch: those of before hold, or the new ones."""
    kernel, buffer = world.driver.compile(world.module), world.driver.buffer(X)
    work = kernel.bind(buffer, push_constants=PUSH)
    batch = world.driver.batch()
    batch.add(work)
    batch.add(work)

    def act() -> None:
        buffer.write(X)
        work.set(factor=1, summand=2)
        first = work.submit()
        work.set(**PUSH)
        for one in (first, work.submit()):
            one.result()
        check(np.array_equal(buffer.read(), 3 * (X + np.uint32(2)) + np.uint32(1)))
        buffer.write(X)
        batch.run()
        check(np.array_equal(buffer.read(), TWICE))

    def next_one() -> None:
        buffer.write(X)
        work.run()
        found = buffer.read()
        check(np.array_equal(found, ONCE) or np.array_equal(found, X + np.uint32(2)), "old and new values are mixed")

    yield Stage(world.driver, act, next_one)


def submitted(world: World) -> Iterator[Stage]:
    kernel, buffer = world.driver.compile(world.module), world.driver.buffer(X)
    work = kernel.bind(buffer, push_constants=PUSH)

    def act() -> None:
        buffer.write(X)
        future = work.submit()
        future.done()
        future.result()
        work.submit().result(timeout=60.0)
        check(future.done())
        check(np.array_equal(buffer.read(), TWICE))

    yield Stage(world.driver, act, nothing)


def batched(world: World) -> Iterator[Stage]:
    kernel, buffer = world.driver.compile(world.module), world.driver.buffer(X)
    work = kernel.bind(buffer, push_constants=PUSH)

    def act() -> None:
        buffer.write(X)
        with world.driver.batch() as batch:
            batch.add(work)
            batch.add(work)
        check(np.array_equal(buffer.read(), TWICE))
        buffer.write(X)
        batch.submit().result()
        check(np.array_equal(buffer.read(), TWICE))

    yield Stage(world.driver, act, nothing)


def buffers(world: World) -> Iterator[Stage]:
    def act() -> None:
        buffer = world.driver.buffer(X)
        check(np.array_equal(buffer.read(), X))
        buffer.write(ONCE)
        check(np.array_equal(buffer.read(), ONCE))
        buffer.close()
        try:
            buffer.read()
        except DispatchFailed:
            return
        raise AssertionError("a closed buffer can be read")

    yield Stage(world.driver, act, nothing)


def parts(world: World) -> Iterator[Stage]:
    """Move parts of buffers, of one that the host shares and of one that it reaches by copies only."""
    device, never = world.driver.context.device, Deadline(None, "the device")
    shared = TensorBuffer(device, X.nbytes, 4)
    device.shares_memory = False
    try:
        apart = TensorBuffer(device, X.nbytes, 4)
        apart.is_mapped, apart._mapped = False, None  # noqa: SLF001 -- as where the layer maps nothing
    finally:
        device.shares_memory = True

    def act() -> None:
        for one, other in ((shared, apart), (apart, shared)):
            one.write_range(0, X, never)
            other.fill_range(0, 399, b"abc", never)
            other.copy_range(one, 4, 0, X.nbytes - 4, never)
            other.fill_range(8, 8, b"\1\0\0\0", never)
            wanted = np.concatenate([X[1:3], [1, 1], X[5:]]).astype(np.uint32)
            check(np.array_equal(other.read_range(0, X.nbytes - 4, never).view(np.uint32), wanted))

    yield Stage(world.driver, act, nothing)


def dropped(world: World) -> Iterator[Stage]:
    """Work, buffer and bound kernel go while the work may still run: what goes with them is code of ours too."""
    kernel = world.driver.compile(world.module)

    def act() -> None:
        buffer = world.driver.buffer(X)
        kept: list[object] = [kernel.bind(buffer, push_constants=PUSH).submit()]
        kept += [kernel.bind(buffer, push_constants=PUSH), kept]
        buffer.close()
        del buffer, kept
        gc.collect()

    yield Stage(world.driver, act, nothing)


def closed(world: World) -> Iterator[Stage]:
    """Close a driver with a kernel, a buffer and work on it: it goes on as before until then, or says that it is closed."""
    driver = Driver(cache=world.warm)
    kernel, buffer = driver.compile(world.module), driver.buffer(X)
    call(kernel)
    work = kernel.bind(buffer, push_constants=PUSH)
    future = work.submit()

    def still_right() -> None:
        for use in (lambda: call(kernel), lambda: check(np.array_equal(buffer.read(), ONCE)), future.result):
            with suppress(DispatchFailed):
                use()

    yield Stage(driver, driver.close, still_right)


def pooled(world: World) -> Iterator[Stage]:
    def act() -> None:
        with DriverPool([0, 0], cache=world.warm) as pool:
            for result in pool.compile(world.module).map([(X,), (X,), (X,)], push_constants=PUSH):
                check(np.array_equal(result, ONCE))
            name = pool.submit(lambda driver: driver.device.name)
            check(name.result() == name.result())  # the second time it has surely ended

    yield Stage(world.driver, act, nothing)


def streamed(world: World) -> Iterator[Stage]:
    """Stream chunks of several sizes, of the host's and pinned, some of which fail, and one that runs by itself."""
    kernel, pinned = world.driver.compile(world.module), world.driver.pinned(X.shape, X.dtype)
    pinned[:] = X
    call(kernel)
    chunks = [X, pinned, X[:7], {"values": X, "strict": True}, X]
    wanted = [ONCE, ONCE, ONCE[:7], ONCE, ONCE]

    def act() -> None:
        with world.driver.stream(kernel, chunks, out=[None, np.empty_like(X), None, None, None], **PUSH) as stream:
            check(all(np.array_equal(one, two) for one, two in zip(stream, wanted, strict=True)))
        with suppress(InvalidInput):
            check(len(list(world.driver.stream(kernel, [X, X, None], **PUSH))) == 0)

    yield Stage(world.driver, act, nothing)


INTERRUPTED = {
    scene.__name__: scene
    for scene in (
        opened,
        with_block,
        module_cold,
        module_warm,
        program_cold,
        program_warm,
        called,
        called_with_many_sizes,
        tuned,
        bound,
        replaced,
        submitted,
        *WAITS,
        batched,
        buffers,
        parts,
        dropped,
        closed,
        pooled,
        profiled,
        streamed,
        *FILE_SCENES,
    )
}
SCENES = INTERRUPTED | {scene.__name__: scene for scene in (bytes_seen, read)}
