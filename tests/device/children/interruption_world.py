"""What scenes are played in, and what is left then; for the interruption tests' child processes."""

from __future__ import annotations

import ctypes
import gc
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from kernels import STEP, glsl

from vyre_driver import Driver
from vyre_driver.cache import flight
from vyre_driver.ir import BufferDecl, DataType, Program, buf_len, gid_x, if_, load, store
from vyre_driver.telemetry.events import Failure

if TYPE_CHECKING:
    from collections.abc import Callable

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
        # Kept for the process's life: the layout of a buffer that was bound, and what was compiled.
        self.driver.compile(self.module).bind(self.driver.buffer(X), push_constants=PUSH)
        glsl(BYTES)
        self.count_threads()

    def count_threads(self) -> None:
        """Take as many threads as there are for the usual number."""
        self.threads = len(tasks())

    def cold(self) -> Driver:
        """Return a driver with an empty cache."""
        return Driver(cache=self.new_folder())

    def new_folder(self) -> Path:
        """Name a folder that is not there yet."""
        self.roots += 1
        return self.folder / f"cold {self.roots}"


def program() -> Program:
    values = BufferDecl.read_write("values", 0, DataType.U32)
    i = gid_x()
    return Program.wrapped([values], (64, 1, 1), [if_(i < buf_len(values), [store(values, i, load(values, i) * 3 + 1)])])


def call(kernel: Kernel, has_push: bool = True) -> None:  # noqa: FBT001, FBT002 -- a program of ours has none
    check(np.array_equal(kernel(X, push_constants=PUSH if has_push else None), ONCE))


def nothing() -> None:
    """Ask nothing between the acts."""


def device_left(driver: Driver) -> dict[str, int]:
    """Return what is counted as in use of a device, once garbage is collected."""
    gc.collect()
    layer = driver.context.device.layer
    left = {"available": driver.context.device.memory.available}
    if layer.is_alive:
        left |= {name: driver.context.device.counters()[name] for name in ("memory_live_bytes", "work_pending")}
    return left


def process_left(world: World) -> dict[str, object]:
    """Return what the process holds: threads, descriptors, objects of ours, the loader's variables, seats; and files left."""
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
        "deaths": sorted(path.name for path in world.folder.rglob("*.mark") if path.stat().st_size),
    }


def tasks() -> list[Path]:
    return list(Path("/proc/self/task").iterdir())


def target_of(descriptor: Path) -> str:
    """Return what a descriptor is open for; nothing for a GPU's device file, which its driver opens again when it needs to."""
    try:
        target = str(descriptor.readlink())
    except OSError:
        return ""  # the one that listed them
    return "" if target.startswith(("/dev/dri/", "/dev/nvidia")) else target


def objects_of_ours() -> dict[str, int]:
    """Count by type what was made since ``gc.freeze``, but for the failures that a driver's latest events tell of."""
    found: dict[str, int] = {}
    for one in gc.get_objects():
        kind = type(one)
        if kind is not Failure and kind.__module__.startswith("vyre_driver"):
            found[kind.__qualname__] = found.get(kind.__qualname__, 0) + 1
    return found
