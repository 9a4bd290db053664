"""What a process of its own costs a call: a driver in this process and an isolated one, in turns.

    python benchmarks/isolated.py [--rounds N] [--json FILE]

Each row is the median of a round's calls, and of these the median over all rounds, in microseconds; a round times one driver
after the other, so that what slows the machine down slows both. ``added`` is the median of the rounds' differences. ``GB/s``
are the bytes of all arrays in that time. Before a call "after a pause" the caller sleeps for 5 ms, and so does the child then.

The last row is a copy of the two inputs of a call of 64 MiB to memory that was written before: what the call may cost more if
each of its inputs is copied once more, and a result not at all.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from vyre_driver import Driver
from vyre_driver.spirv.shipped import shipped_module
from vyre_driver.vulkan.layer._layer import copy_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

    Case = Callable[[], object]

SIZES = {"1 KiB": 1 << 10, "1 MiB": 1 << 20, "64 MiB": 1 << 26}
PAUSE_S = 0.005
PAUSED = ", after a pause"
COLUMNS = ("plain_us", "isolated_us", "added_us", "least_added_us", "plain_gb_per_s", "isolated_gb_per_s")


def cases(driver: Driver) -> dict[str, Case]:
    """Return what is timed, by name: saxpy bound to buffers, called with arrays of each size, and with pinned ones."""
    kernel = driver.compile(shipped_module("saxpy"))
    x = np.ones(256, np.float32)
    bound = kernel.bind(driver.buffer(x), driver.buffer(x), alpha=2, count=256)
    found: dict[str, Case] = {"bound, 1 KiB": bound.run}
    for name, nbytes in SIZES.items():
        arrays = [np.ones(nbytes // 4, np.float32) for _ in range(3)]
        found[name] = called(driver, arrays, grown=False)
        found[f"{name}, out="] = called(driver, arrays, grown=True)
        pinned = [driver.pinned(nbytes // 4, np.float32) for _ in range(3)]
        found[f"{name}, pinned(), out="] = called(driver, pinned, grown=True)
    return found | {f"{name}{PAUSED}": found[name] for name in ("bound, 1 KiB", "1 KiB", "1 KiB, out=")}


def called(driver: Driver, arrays: list[np.ndarray[tuple[int, ...], np.dtype[np.float32]]], *, grown: bool) -> Case:
    """Return a call with these arrays, the last of which is written where it is ``grown`` to be the output."""
    kernel, count = driver.compile(shipped_module("saxpy")), arrays[0].size
    x, y, out = arrays
    groups = min(-(-count // 128), 65_535)
    if grown:
        return lambda: kernel(x, y, alpha=2, count=count, workgroups=groups, out=out)
    return lambda: kernel(x, y, alpha=2, count=count, workgroups=groups)


def median_us(case: Case, calls: int, pause_s: float = 0.0) -> float:
    """Return the median time of so many calls, before each of which the caller sleeps for ``pause_s`` unless that is 0."""
    times = []
    for _ in range(calls):
        if pause_s:
            time.sleep(pause_s)
        began = time.perf_counter_ns()
        case()
        times.append(time.perf_counter_ns() - began)
    return statistics.median(times) / 1e3


def compared(name: str, pair: tuple[Case, Case], rounds: int) -> dict[str, float]:
    """Return the times of a case on both drivers, in turns, by column."""
    pause_s = PAUSE_S if name.endswith(PAUSED) else 0.0
    calls = 5 if "64 MiB" in name else 100 if "1 MiB" in name or pause_s else 500
    times: tuple[list[float], list[float]] = [], []
    for one in pair:
        one(), one()  # the first makes the pipeline, and tells how long outputs are
    for _ in range(rounds):
        for one, kept in zip(pair, times, strict=True):
            kept.append(median_us(one, calls, pause_s))
    plain, isolated = map(statistics.median, times)
    added = statistics.median([after - before for before, after in zip(*times, strict=True)])
    found = [plain, isolated, added, min(times[1]) - min(times[0])]
    size = next((size for start, size in SIZES.items() if name.startswith(start) and size >= SIZES["1 MiB"]), 0)
    return dict(zip(COLUMNS, found + [3e-3 * size / took for took in (plain, isolated) if size], strict=False))


def copy_us() -> float:
    """Return how long a copy of two arrays of 64 MiB takes."""
    pairs = [(np.ones(SIZES["64 MiB"], np.uint8), np.ones(SIZES["64 MiB"], np.uint8)) for _ in range(2)]
    return median_us(lambda: [copy_bytes(*pair) for pair in pairs], 5)


def main() -> None:
    """Time all, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    load = [os.getloadavg()[0]]
    with Driver() as plain, Driver(isolated=True) as isolated:
        here, there = cases(plain), cases(isolated)
        found = {name: compared(name, (case, there[name]), options.rounds) for name, case in here.items()}
        device = plain.device.name
    found["copy of 128 MiB"] = {"plain_us": copy_us()}
    load.append(os.getloadavg()[0])
    processors = len(os.sched_getaffinity(0))
    print(f"{device}, {options.rounds} rounds, {processors} processors, load {load[0]:.1f} before and {load[1]:.1f} after")
    print(f"{'':28}{'plain':>12}{'isolated':>12}{'added':>12}{'least':>12} us{'plain':>9}{'isolated':>9} GB/s")
    for name, row in found.items():
        times, rates = list(row.values())[:4], list(row.values())[4:]
        print(f"{name:28}" + "".join(f"{one:12,.1f}" for one in times) + "   " + "".join(f"{one:9.2f}" for one in rates))
    if options.json is not None:
        report = {"device": device, "rounds": options.rounds, "processors": processors, "load": load, "cases": found}
        options.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
