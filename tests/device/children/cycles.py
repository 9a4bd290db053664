"""Create, bind, dispatch and free again and again; tells as JSON what is left of it.

Usage: cycles.py KIND CYCLES

Prints what the cycles after a warm-up have left: bytes of memory of this process alone, a cycle; Python objects; and the
layer's counters of what is live, by how much they changed.
"""

from __future__ import annotations

import gc
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from kernels import STEP, glsl

from vyre_driver import Driver

if TYPE_CHECKING:
    from collections.abc import Callable

PUSH = {"factor": 1, "summand": 1}
WARM_UP = 300  # more than the 256 events that a driver keeps
GIVEN = np.arange(256, dtype=np.uint32)


def own_bytes() -> int:
    for line in Path("/proc/self/smaps_rollup").read_text("utf-8").splitlines():
        if line.startswith("Private_Dirty:"):
            return 1024 * int(line.split()[1])
    raise LookupError("Private_Dirty")


def check(right: object) -> None:
    if not right:
        sys.exit("a result is wrong")


def bound(driver: Driver) -> Callable[[], None]:
    """Make a buffer, bind it, run it, read it, close it."""
    kernel = driver.compile(glsl(STEP))

    def cycle() -> None:
        buffer = driver.buffer(GIVEN)
        kernel.bind(buffer, push_constants=PUSH).run()
        check(np.array_equal(buffer.read(), GIVEN + np.uint32(1)))
        buffer.close()

    return cycle


def batches(driver: Driver) -> Callable[[], None]:
    """Make a batch of one kernel on a buffer that stays, and leave its future alone."""
    kernel, buffer = driver.compile(glsl(STEP)), driver.buffer(GIVEN)

    def cycle() -> None:
        one = kernel.bind(buffer, push_constants=PUSH)
        batch = driver.batch()
        batch.add(one)
        batch.add(one)
        batch.submit()

    return cycle


def calls(driver: Driver) -> Callable[[], None]:
    """Call a kernel with arrays of ever other sizes: more than it keeps."""
    kernel, turn = driver.compile(glsl(STEP)), iter(range(10**9))

    def cycle() -> None:
        given = GIVEN[: 1 + next(turn) % 20]
        check(np.array_equal(kernel(given, push_constants=PUSH), given + np.uint32(1)))

    return cycle


def live(driver: Driver) -> dict[str, int]:
    layer = driver.report()["layer"]
    assert isinstance(layer, dict)
    return {name: layer["counters"].get(name, 0) for name in ("memory_live_bytes", "memory_allocated", "pipelines_created")}


def main(kind: str, cycles: int) -> None:
    with Driver() as driver:
        cycle = globals()[kind](driver)
        seen = []
        for count in (WARM_UP, cycles):
            for _ in range(count):
                cycle()
            gc.collect()
            seen.append((live(driver), len(gc.get_objects()), own_bytes()))
        (live_before, objects_before, bytes_before), (live_after, objects_after, bytes_after) = seen
        found = {
            "live": {name: live_after[name] - live_before[name] for name in live_before},
            "objects": objects_after - objects_before,
            "bytes a cycle": (bytes_after - bytes_before) / cycles,
        }
        json.dump(found, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
