"""What is interrupted, what has to be right afterwards, and what is left then; for the interruption tests' child processes.

A scene is a generator. It prepares, yields a ``Stage``, and drops what it has made when it is closed. The act must be such that
it can be done again after it was broken off anywhere, on the same objects, with the same results.

``INTERRUPTED`` are those of driver, kernels, buffers and work. The others are for allocations alone: their code holds nothing.
"""

from __future__ import annotations

import ctypes
import gc
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from kernels import STEP, glsl

from vyre_driver import Driver, DriverPool, SpirvModule
from vyre_driver.cache import flight
from vyre_driver.errors import DispatchFailed
from vyre_driver.events import Failure
from vyre_driver.ir import BufferDecl, DataType, Program, buf_len, gid_x, if_, load, store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from vyre_driver import Kernel

PUSH = {"factor": 3, "summand": 1}
X = np.arange(100, dtype=np.uint32)
ONCE = 3 * X + np.uint32(1)
TWICE = 3 * ONCE + np.uint32(1)
THREADS_END_S = 1.0
LOADER_VARIABLES = (b"VK_ADD_LAYER_PATH", b"VK_LAYER_PATH", b"VK_INSTANCE_LAYERS")
# The number of bytes that a shader sees of a buffer that is not whole words; only the layer can tell it.
BYTES = """#version 450
#extension GL_EXT_shader_8bit_storage : require
layout(local_size_x = 1) in;
layout(binding = 0) readonly buffer Given { uint8_t given[]; };
layout(binding = 1) buffer Seen { uint seen[]; };
void main() { seen[0] = given.length(); }
"""


class Stage(NamedTuple):
    """A driver that outlives the act, the act, and what has to hold between an act that was broken off and the next."""

    driver: Driver
    act: Callable[[], None]
    after: Callable[[], None]


def check(is_right: object, what: str = "a result is wrong") -> None:
    if not is_right:
        raise AssertionError(what)


class World:
    """One driver that stays open, and caches on disk: one that has everything, and new ones without anything."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.module = glsl(STEP)
        self.program = program()
        self.warm = folder / "warm"
        self.roots = 0
        self.driver = Driver(cache=self.warm)
        for source in (self.module, self.program):
            call(self.driver.compile(source), source is self.module)
        glsl(BYTES)  # kept for the process's life
        self.count_threads()

    def count_threads(self) -> None:
        """Take as many threads as there are for the usual number."""
        self.threads = len(tasks())

    def cold(self) -> Driver:
        """Return a driver with an empty cache."""
        self.roots += 1
        return Driver(cache=self.folder / f"cold {self.roots}")


def program() -> Program:
    values = BufferDecl.read_write("values", 0, DataType.U32)
    i = gid_x()
    return Program.wrapped([values], (64, 1, 1), [if_(i < buf_len(values), [store(values, i, load(values, i) * 3 + 1)])])


def call(kernel: Kernel, has_push: bool = True) -> None:  # noqa: FBT001, FBT002 -- a program of ours has none
    check(np.array_equal(kernel(X, push=PUSH if has_push else None), ONCE))


def nothing() -> None:
    """Ask nothing between the acts."""


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
    """Call it as before, with another size, with other push constants, in stages, strictly and with an end."""
    kernel = world.driver.compile(world.module)
    call(kernel)

    def act() -> None:
        call(kernel)
        check(np.array_equal(kernel(X[:7], push=PUSH), ONCE[:7]))
        check(np.array_equal(kernel(X, push={"factor": 1, "summand": 2}), X + np.uint32(2)))
        check(np.array_equal(kernel(X, push=PUSH, split=True, timeout=60.0), ONCE))
        check(np.array_equal(kernel(X, push=PUSH, strict=True), ONCE))

    yield Stage(world.driver, act, nothing)


def called_with_many_sizes(world: World) -> Iterator[Stage]:
    """More sizes than a kernel keeps: each has to make room."""
    kernel = world.driver.compile(world.module)
    for size in range(1, 10):
        kernel(X[:size], push=PUSH)

    def act() -> None:
        for size in (20, 1):
            check(np.array_equal(kernel(X[:size], push=PUSH), ONCE[:size]))

    yield Stage(world.driver, act, nothing)


def bytes_seen(world: World) -> Iterator[Stage]:
    """The first buffers of a device: the layer's tables are made with them."""
    if "storageBuffer8BitAccess" not in world.driver.backend.features:
        yield Stage(world.driver, nothing, nothing)
        return
    driver = Driver(cache=world.warm)
    kernel = driver.compile(glsl(BYTES))

    def act() -> None:
        for size in (5, 6):
            seen = kernel(np.zeros(size, np.uint8), np.zeros(1, np.uint32), groups=(1,))
            check(np.array_equal(seen, [size]), f"{size} bytes seem to be {seen}")

    yield Stage(driver, act, nothing)


def read(world: World) -> Iterator[Stage]:
    """Read a module and a program anew, of bytes."""
    code, wire = world.module.runnable.code, world.program.to_wire()

    def act() -> None:
        call(world.driver.compile(SpirvModule.from_bytes(code)))
        call(world.driver.compile(Program.from_wire(wire)), has_push=False)

    yield Stage(world.driver, act, nothing)


def bound(world: World) -> Iterator[Stage]:
    kernel, buffer = world.driver.compile(world.module), world.driver.buffer(X)

    def act() -> None:
        buffer.write(X)
        kernel.bind(buffer, push=PUSH).run()
        check(np.array_equal(buffer.read(), ONCE))
        kernel.bind(buffer, push=PUSH).run(timeout=60.0)
        check(np.array_equal(buffer.read(), TWICE))

    yield Stage(world.driver, act, nothing)


def submitted(world: World) -> Iterator[Stage]:
    kernel, buffer = world.driver.compile(world.module), world.driver.buffer(X)
    work = kernel.bind(buffer, push=PUSH)

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
    work = kernel.bind(buffer, push=PUSH)

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


def dropped(world: World) -> Iterator[Stage]:
    """Work, buffer and bound kernel go while the work may still run: what goes with them is code of ours too."""
    kernel = world.driver.compile(world.module)

    def act() -> None:
        buffer = world.driver.buffer(X)
        kept: list[object] = [kernel.bind(buffer, push=PUSH).submit()]
        kept += [kernel.bind(buffer, push=PUSH), kept]
        buffer.close()
        del buffer, kept
        gc.collect()

    yield Stage(world.driver, act, nothing)


def closed(world: World) -> Iterator[Stage]:
    """Close a driver with a kernel, a buffer and work on it: it goes on as before until then, or says that it is closed."""
    driver = Driver(cache=world.warm)
    kernel, buffer = driver.compile(world.module), driver.buffer(X)
    call(kernel)
    work = kernel.bind(buffer, push=PUSH)
    future = work.submit()

    def still_right() -> None:
        for use in (lambda: call(kernel), lambda: check(np.array_equal(buffer.read(), ONCE)), future.result):
            with suppress(DispatchFailed):
                use()

    yield Stage(driver, driver.close, still_right)


def pooled(world: World) -> Iterator[Stage]:
    def act() -> None:
        with DriverPool([0, 0], cache=world.warm) as pool:
            for result in pool.compile(world.module).map([(X,), (X,), (X,)], push=PUSH):
                check(np.array_equal(result, ONCE))

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
        bound,
        submitted,
        batched,
        buffers,
        dropped,
        closed,
        pooled,
    )
}
SCENES = INTERRUPTED | {scene.__name__: scene for scene in (bytes_seen, read)}


def device_left(driver: Driver) -> dict[str, int]:
    """Return what is counted as in use of a device, once garbage is collected."""
    gc.collect()
    layer = driver.backend.layer
    left = {"available": driver.backend._available()}  # noqa: SLF001
    if layer is not None and layer.is_alive:
        left |= {name: layer.counters()[name] for name in ("memory_live_bytes", "work_pending")}
    return left


def process_left(world: World) -> dict[str, object]:
    """Return what the process holds: threads, descriptors, objects of ours, the loader's variables, seats, temporary files."""
    gc.collect()
    c = ctypes.CDLL(None)
    c.getenv.restype = ctypes.c_char_p
    until = time.monotonic() + THREADS_END_S
    while len(tasks()) > world.threads and time.monotonic() < until:
        time.sleep(0.001)  # a thread that was joined stays listed for a moment; a dropped pool's have to end
    gc.collect()
    return {
        "threads": max(0, len(tasks()) - world.threads),
        "python threads": threading.active_count(),
        "descriptors": sorted(filter(None, map(target_of, Path("/proc/self/fd").iterdir()))),
        "objects": objects_of_ours(),
        "environment": [c.getenv(name) for name in LOADER_VARIABLES],
        "flights": len(flight._taken),  # noqa: SLF001
        "temporary files": sorted(path.name for path in world.folder.rglob("*.tmp")),
    }


def tasks() -> list[Path]:
    return list(Path("/proc/self/task").iterdir())


def target_of(descriptor: Path) -> str:
    try:
        return str(descriptor.readlink())
    except OSError:
        return ""  # the one that listed them


def objects_of_ours() -> dict[str, int]:
    """Count by type what was made since ``gc.freeze``, but for the failures that a driver's latest events tell of."""
    found: dict[str, int] = {}
    for one in gc.get_objects():
        kind = type(one)
        if kind is not Failure and kind.__module__.startswith("vyre_driver"):
            found[kind.__qualname__] = found.get(kind.__qualname__, 0) + 1
    return found
