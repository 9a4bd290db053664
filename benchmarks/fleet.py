"""What a fleet costs and brings on this host: tasks, calls on one and two processes beside ``DriverPool``, a killed worker.

Usage: python benchmarks/fleet.py [--json] [--devices 0 1] [--elements N] [--calls N]; without a GPU with VYRE_ALLOW_SOFTWARE=1
and LP_NUM_THREADS=1. A device that is named twice stands for two GPUs.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import signal
import sys
import threading
import time
from typing import Any

import numpy as np

from vyre_driver import DriverPool, kernels
from vyre_driver.distributed import FleetPool, LocalFleet

TASKS = 500
KILLED_AFTER_S = 0.5


def nothing(number: int) -> int:
    return number


def nothing_on(_: Any, number: int) -> int:
    return number


def saxpy_of(driver: Any, elements: int, number: int) -> float:
    """Make arrays where they are used, and give back one number."""
    made = getattr(driver, "saxpy_of_benchmark", None)
    if made is None:
        made = driver.saxpy_of_benchmark = kernels.saxpy(driver), np.ones(elements, np.float32)
    saxpy, ones = made
    return float(saxpy(ones, ones, alpha=float(number))[-1])


def calls_a_second(pool: Any, elements: int, calls: int, *, is_fleet: bool) -> float:
    def submit(number: int) -> Any:
        if is_fleet:
            return pool.submit(saxpy_of, elements, number)
        return pool.submit(lambda driver: saxpy_of(driver, elements, number))

    for one in [submit(number) for number in range(8)]:
        one.result()
    began = time.perf_counter()
    found = [one.result() for one in [submit(number) for number in range(calls)]]
    taken = time.perf_counter() - began
    if found != [number + 1.0 for number in range(calls)]:
        raise SystemExit(f"results are wrong: {found}")
    return calls / taken


def task_ms(submit: Any) -> float:
    for one in [submit(number) for number in range(50)]:
        one.result()
    began = time.perf_counter()
    for one in [submit(number) for number in range(TASKS)]:
        one.result()
    return (time.perf_counter() - began) / TASKS * 1e3


def kill_one(fleet: LocalFleet) -> None:
    process = min(fleet.client.run(os.getpid).values())
    time.sleep(KILLED_AFTER_S)
    os.kill(process, signal.SIGKILL)


def measured(devices: list[str], elements: int, calls: int) -> dict[str, float]:
    found: dict[str, float] = {}
    with DriverPool(devices) as pool:
        found["DriverPool, calls a second"] = calls_a_second(pool, elements, calls, is_fleet=False)
    for processes in sorted({1, len(devices)}):
        began = time.perf_counter()
        with LocalFleet(devices[:processes]) as fleet:
            pool = FleetPool(fleet.client)
            found[f"fleet of {processes}, start in s"] = time.perf_counter() - began
            found[f"fleet of {processes}, calls a second"] = calls_a_second(pool, elements, calls, is_fleet=True)
            if processes == len(devices):
                found["Dask's own empty task in ms"] = task_ms(functools.partial(fleet.client.submit, nothing, pure=False))
                found["empty task on a driver in ms"] = task_ms(functools.partial(pool.submit, nothing_on))
                killer = threading.Thread(target=kill_one, args=(fleet,))
                killer.start()
                found["calls a second with one process killed"] = calls_a_second(pool, elements, calls, is_fleet=True)
                killer.join()
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print data")
    parser.add_argument("--devices", nargs="+", default=["0", "0"], help="as for Driver (default: the first, twice)")
    parser.add_argument("--elements", type=int, default=1 << 22, help="of each saxpy (default: 2^22)")
    parser.add_argument("--calls", type=int, default=24)
    options = parser.parse_args()
    devices = [int(one) if one.isdigit() else one for one in options.devices]
    found = measured(devices, options.elements, options.calls)
    if options.json:
        json.dump({"elements": options.elements, "calls": options.calls, "measured": found}, sys.stdout, indent=1)
        print()
    else:
        for name, value in found.items():
            print(f"{name:<42} {value:9.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
