"""What a fleet costs and brings on this host, part by part, each beside what it is compared with in the same run.

python -m benchmarks.fleet [--calls] [--blocks] [--products] [--killed] [--empty] [--cold] [--devices 0 1] [--json FILE]

Without the name of a part all are run. --calls: saxpy of numpy arrays, beside ``DriverPool``. --blocks: sum and softmax of an
array that is made block by block, on one process and on all. --products: matrices that are made on the devices, on one process
and on all. --killed: the same with one process killed in the middle. --empty: an empty task beside Dask's own. --cold: two
nodes that share a store (benchmarks/fleet_cold.py). A part that takes longer than --within seconds is given up, and what every
worker did then is written to stderr and the file. Without a GPU run it with VYRE_ALLOW_SOFTWARE=1, LP_NUM_THREADS=1 and
--devices 0 0 --small: a device that is named twice stands for two GPUs.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import re
import statistics
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dask.array as da
import numpy as np
from dask.utils import parse_bytes

from benchmarks import fleet_cold, fleet_work
from benchmarks.fleet_watch import KilledWorker, Late, watched
from vyre_driver import DriverPool
from vyre_driver.distributed import FleetPool, reduce_blocks
from vyre_driver.vulkan.selection import every_device

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from benchmarks.fleet_work import Done
    from vyre_driver.distributed import FleetKernel

    Measured = dict[str, Any]

ROUNDS = 5
TASKS = 500
PARTS = {
    "calls": ("share of DriverPool's calls", ">= 0.95"),
    "blocks": ("times one process", ">= 1.8"),
    "products": ("times one process", ">= 1.9"),
    "killed": ("times the undisturbed run", "<= 1.1"),
    "empty": ("times Dask's own", "<= 1.3"),
    "cold": ("compilations", "<= 1"),
}


class Limit:
    """So many seconds from now."""

    def __init__(self, seconds: float) -> None:
        self._ends = time.monotonic() + seconds

    def left(self) -> float:
        """Return the seconds that are left; raises TimeoutError where none are."""
        left = self._ends - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left


def took(work: Callable[[], object]) -> float:
    """Return the seconds that work takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def calls(devices: Sequence[Any], given: argparse.Namespace, limit: Limit) -> Measured:
    """Measure calls that make their arrays, as those of blocks do, and calls of one array that lies there: they are shorter."""
    numbers = range(given.count)

    def run(begin: Callable[[], Iterable[float]]) -> float:
        began = time.perf_counter()
        found = list(begin())
        seconds = time.perf_counter() - began
        if found != [number + 1.0 for number in numbers]:
            raise SystemExit(f"results are wrong: {found}")
        limit.left()
        return given.count / seconds

    shares, rates = {}, {}
    with DriverPool(devices) as own, watched(devices) as fleet:
        pool = FleetPool(fleet.client)
        for name, work in (("made", fleet_work.saxpy_of_made), ("kept", fleet_work.saxpy_of_kept)):
            contenders = {
                "DriverPool": functools.partial(calls_of_pool, own, work, given.elements, numbers),
                "fleet": functools.partial(calls_of_fleet, pool, work, given.elements, numbers),
            }
            for one in contenders.values():
                run(one)
            rates[name] = found = {who: list[float]() for who in contenders}
            for _ in range(ROUNDS):
                for who, one in contenders.items():
                    found[who].append(run(one))
            shares[name] = statistics.median(found["fleet"]) / statistics.median(found["DriverPool"])
    facts = {"elements": given.elements, "calls a second": rates, "share of calls of kept arrays": shares["kept"]}
    return {**facts, "figure": shares["made"]}


def calls_of_pool(own: DriverPool, work: Callable[..., float], elements: int, numbers: Iterable[int]) -> list[float]:
    def begun(number: int) -> Any:
        return own.submit(lambda driver: work(driver, elements, number))

    return [one.result() for one in [begun(number) for number in numbers]]


def calls_of_fleet(pool: FleetPool, work: Callable[..., float], elements: int, numbers: Sequence[int]) -> Iterable[float]:
    return pool.map(work, ((elements, number) for number in numbers), window=len(numbers))


def blocks(devices: Sequence[Any], given: argparse.Namespace, limit: Limit) -> Measured:
    rows_of_block = parse_bytes(given.block) // (4 * fleet_work.COLUMNS)
    lengths = (rows_of_block,) * max(1, parse_bytes(given.size) // parse_bytes(given.block))
    whole = len(lengths) * rows_of_block * fleet_work.COLUMNS * 4
    seconds, peaks, parts = {}, {}, {}
    for processes in sorted({1, len(devices)}):
        with watched(devices[:processes]) as fleet:
            pool = FleetPool(fleet.client)
            both = pool.compile(fleet_work.sum_and_softmax)
            run = functools.partial(run_blocks, pool, both, limit)
            warm = took(functools.partial(run, lengths[: 8 * processes]))
            fleet.client.run(fleet_work.taken)
            seconds[processes] = took(functools.partial(run, lengths))
            parts[processes] = list(fleet.client.run(fleet_work.taken).values())
            peaks[processes] = peak_bytes(pool)
        speed = whole / seconds[processes] / 1e9
        told = f"{len(lengths)} blocks in {seconds[processes]:.1f} s, {speed:.1f} GB/s, warmed up in {warm:.1f} s"
        print(
            f"blocks, {processes} processes: {told}\nseconds of both threads: {parts[processes]}", file=sys.stderr, flush=True
        )
    facts = {"bytes": whole, "block_bytes": parse_bytes(given.block), "seconds": seconds}
    facts |= {"device_memory_peak_bytes": peaks, "seconds_of_threads": parts}
    return {**facts, "figure": seconds[1] / seconds[len(devices)]}


def run_blocks(pool: FleetPool, both: FleetKernel, limit: Limit, lengths: tuple[int, ...]) -> None:
    shape = lengths, (fleet_work.COLUMNS,)
    x = da.map_blocks(fleet_work.block, chunks=shape, dtype="f4", meta=np.empty((0, 0), "f4"))
    sums = pool.client.compute(reduce_blocks(both, x, shape=(2,), dtype="f8")).result(limit.left())
    wanted = fleet_work.sum_of_blocks(list(lengths)), float(sum(lengths))
    if sums[0] != wanted[0] or abs(sums[1] / wanted[1] - 1) > 1e-5:
        raise SystemExit(f"the sum and the rows of softmax are {sums}, and should be {wanted}")


def peak_bytes(pool: FleetPool) -> list[int]:
    """Return the most memory that each worker's device had in use, by the layer's count."""
    return [int(one) for one in re.findall(r"^vyre_driver_layer_memory_peak_bytes\{.*\} (\d+)", pool.metrics(), re.MULTILINE)]


def run_products(pool: FleetPool, size: int, count: int, limit: Limit, at_half: Callable[[], object] = int) -> list[Done]:
    submit = functools.partial(pool.submit, fleet_work.product, size)
    window = 4 * len(pool.report())
    found = []
    for one in fleet_work.results(submit, range(count), window, limit.left):
        found.append(one)
        if len(found) == count // 2:
            at_half()
    if sorted(one.number for one in found) != list(range(count)):
        raise SystemExit(f"results are missing or twice: {found}")
    return found


def products(devices: Sequence[Any], given: argparse.Namespace, limit: Limit) -> Measured:
    seconds = {}
    for processes in sorted({1, len(devices)}):
        with watched(devices[:processes]) as fleet:
            run = functools.partial(run_products, FleetPool(fleet.client), given.matrix, limit=limit)
            run(8 * processes)
            seconds[processes] = [took(functools.partial(run, given.count)) for _ in range(3)]
    middle = {processes: statistics.median(one) for processes, one in seconds.items()}
    flops = {processes: 2 * given.matrix**3 * given.count / one / 1e12 for processes, one in middle.items()}
    figure = middle[1] / middle[len(devices)]
    return {"matrix": given.matrix, "products": given.count, "seconds": seconds, "tflops": flops, "figure": figure}


def killed(devices: Sequence[Any], given: argparse.Namespace, limit: Limit) -> Measured:
    with watched(devices) as fleet:
        run = functools.partial(run_products, FleetPool(fleet.client), given.matrix, limit=limit)
        warm = 8 * len(devices)
        run(warm)
        each = took(functools.partial(run, warm)) / warm
        count = max(warm, int(given.kill_seconds / each))
        quiet = took(functools.partial(run, count))
        cost = KilledWorker(fleet)
        began = time.time()
        found = run(count, at_half=cost.kill)
        disturbed = time.time() - began
        fleet.client.wait_for_workers(len(devices), timeout=limit.left())
        pieces = cost.pieces_ms(found, began + disturbed)
    facts = {"matrix": given.matrix, "products": count, "undisturbed_s": quiet, "with_one_killed_s": disturbed}
    facts |= {"added_s": disturbed - quiet, "pieces_ms": pieces}
    print(json.dumps(facts["pieces_ms"], indent=1), file=sys.stderr, flush=True)
    return {**facts, "figure": disturbed / quiet}


def empty(devices: Sequence[Any], given: argparse.Namespace, limit: Limit) -> Measured:
    def task_ms(submit: Callable[[int], Any]) -> float:
        began = time.perf_counter()
        for one in [submit(number) for number in range(given.tasks)]:
            one.result(limit.left())
        return (time.perf_counter() - began) / given.tasks * 1e3

    with watched(devices) as fleet:
        pool = FleetPool(fleet.client)
        own = functools.partial(fleet.client.submit, fleet_work.nothing, pure=False)
        contenders = {"Dask's own": own, "on a driver": functools.partial(pool.submit, fleet_work.nothing_on)}
        found: dict[str, list[float]] = {name: [] for name in contenders}
        for number in range(ROUNDS + 1):
            for name, one in contenders.items():
                value = task_ms(one)
                if number:
                    found[name].append(value)
    middle = {name: statistics.median(one) for name, one in found.items()}
    return {"tasks": given.tasks, "ms": found, "figure": middle["on a driver"] / middle["Dask's own"]}


def cold(devices: Sequence[Any], given: argparse.Namespace, limit: Limit) -> Measured:
    return fleet_cold.measured(devices, given.shader_blocks, given.store, limit.left)


def options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for part in PARTS:
        parser.add_argument(f"--{part}", action="store_true")
    parser.add_argument("--devices", nargs="+", help="as for Driver (default: every GPU)")
    parser.add_argument("--json", type=Path, help="the file to write to, after each part")
    parser.add_argument("--within", type=float, default=120, help="seconds that a part may take (default 120)")
    parser.add_argument("--small", action="store_true", help="sizes for a CPU device")
    parser.add_argument("--elements", type=int, help="of each saxpy (default 2^24)")
    parser.add_argument("--count", type=int, default=24, help="of calls, and of products (default 24)")
    parser.add_argument("--size", help="of the array of blocks (default 192GiB)")
    parser.add_argument("--block", help="of one block (default 256MiB)")
    parser.add_argument("--matrix", type=int, help="rows of the matrices (default 16384)")
    parser.add_argument("--kill-seconds", type=float, help="that the undisturbed run takes (default 30)")
    parser.add_argument("--tasks", type=int, default=TASKS, help=f"empty ones of a round (default {TASKS})")
    parser.add_argument("--shader-blocks", type=int, help="size of the shader of --cold (default 121)")
    parser.add_argument("--store", help="URL of the store of --cold (default: a redis-server that is started for it)")
    return parser


SIZES = {
    "elements": (1 << 24, 1 << 22),
    "size": ("192GiB", "256MiB"),
    "block": ("256MiB", "8MiB"),
    "matrix": (16384, 512),
    "kill_seconds": (30.0, 20.0),
    "shader_blocks": (121, 6),
}


def main() -> int:
    given = options().parse_args()
    for name, sizes in SIZES.items():
        if getattr(given, name) is None:
            setattr(given, name, sizes[given.small])
    named = [int(one) if one.isdigit() else one for one in given.devices or ()]
    devices = named or every_device(allow_software="VYRE_ALLOW_SOFTWARE" in os.environ)
    found: Measured = {"devices": [str(one) for one in devices], "load_before": os.getloadavg(), "cores": os.cpu_count()}
    chosen = [part for part in PARTS if getattr(given, part)] or list(PARTS)
    for part in chosen:
        what, bar = PARTS[part]
        began = time.perf_counter()
        try:
            one = globals()[part](devices, given, Limit(given.within))
        except (Exception, SystemExit) as error:  # noqa: BLE001 -- the other parts are measured all the same
            late = f"not ended within {given.within:g} s"
            one = {"figure": None, "failed": late if isinstance(error, TimeoutError) else f"{type(error).__name__}: {error}"}
            one |= {"state": error.state} if isinstance(error, Late) else {}
        one |= {"what": what, "bar": bar, "part_took_s": time.perf_counter() - began}
        found[part] = one
        shown = one.get("failed") or f"{one['figure']:.3f} {what} (bar {bar})"
        print(f"{part:10}{one['part_took_s']:7.1f} s  {shown}", flush=True)
        if given.json is not None:
            given.json.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    return int(any("failed" in found[part] for part in chosen))


if __name__ == "__main__":
    sys.exit(main())
