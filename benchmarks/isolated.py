"""What a process of its own costs a call: a driver in this process and an isolated one, in turns.

    python benchmarks/isolated.py [--rounds N] [--json FILE]

Each row is the median of a round's calls, and of these the median over all rounds, in microseconds; a round times one driver
after the other, so that what slows the machine down slows both.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from vyre_driver import Driver
from vyre_driver.spirv.shipped import shipped_module

if TYPE_CHECKING:
    from collections.abc import Callable

    Case = Callable[[], object]

SIZES = {"1 KiB": 1 << 10, "1 MiB": 1 << 20, "64 MiB": 1 << 26}


def cases(driver: Driver) -> dict[str, Case]:
    """Return what is timed, by name: saxpy bound to buffers, called with arrays of each size, and with pinned ones."""
    kernel = driver.compile(shipped_module("saxpy"))
    x = np.ones(256, np.float32)
    bound = kernel.bind(driver.buffer(x), driver.buffer(x), alpha=2, count=256)
    found: dict[str, Case] = {"empty call (bound, 1 KiB)": bound.run}
    for name, nbytes in SIZES.items():
        arrays = [np.ones(nbytes // 4, np.float32) for _ in range(3)]
        found[name] = called(driver, arrays, grown=False)
        found[f"{name}, out="] = called(driver, arrays, grown=True)
    pinned = [driver.pinned(SIZES["64 MiB"] // 4, np.float32) for _ in range(3)]
    found["64 MiB, pinned(), out="] = called(driver, pinned, grown=True)
    return found


def called(driver: Driver, arrays: list[np.ndarray[tuple[int, ...], np.dtype[np.float32]]], *, grown: bool) -> Case:
    """Return a call with these arrays, the last of which is written where it is ``grown`` to be the output."""
    kernel, count = driver.compile(shipped_module("saxpy")), arrays[0].size
    x, y, out = arrays
    groups = min(-(-count // 128), 65_535)
    if grown:
        return lambda: kernel(x, y, alpha=2, count=count, workgroups=groups, out=out)
    return lambda: kernel(x, y, alpha=2, count=count, workgroups=groups)


def median_us(case: Case, calls: int) -> float:
    """Return the median time of so many calls."""
    times = []
    for _ in range(calls):
        began = time.perf_counter_ns()
        case()
        times.append(time.perf_counter_ns() - began)
    return statistics.median(times) / 1e3


def main() -> None:
    """Time all, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with Driver() as plain, Driver(isolated=True) as isolated:
        here, there = cases(plain), cases(isolated)
        found: dict[str, dict[str, float]] = {}
        for name, case in here.items():
            calls = 5 if "64 MiB" in name else 100 if "1 MiB" in name else 500
            pair = case, there[name]
            times: tuple[list[float], list[float]] = [], []
            for one in pair:
                one(), one()  # the first makes the pipeline, and tells how long outputs are
            for _ in range(options.rounds):
                for one, kept in zip(pair, times, strict=True):
                    kept.append(median_us(one, calls))
            added = statistics.median([after - before for before, after in zip(*times, strict=True)])
            found[name] = {
                "plain_us": statistics.median(times[0]),
                "isolated_us": statistics.median(times[1]),
                "added_us": added,
                "least_added_us": min(times[1]) - min(times[0]),
            }
        device = plain.device.name
    print(f"{device}, {options.rounds} rounds")
    print(f"{'':28}{'plain':>12}{'isolated':>12}{'added':>12}{'least':>12}  us")
    for name, row in found.items():
        print(f"{name:28}" + "".join(f"{value:12,.1f}" for value in row.values()))
    if options.json is not None:
        options.json.write_text(json.dumps({"device": device, "rounds": options.rounds, "cases": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
