"""Where Dask's scheduler saturates: its processor time for a task, and 1,000 simulated GPUs that share one.

python -m benchmarks.fleet_scale measure [--json FILE]: a scheduler in a process of its own, and empty tasks on 2 to 32 workers
in another. What counts is the scheduler's processor time for a task, which other work of the machine changes less than rates.

python -m benchmarks.fleet_scale simulate FILE [--json FILE]: GPUs with tasks of so many milliseconds, whose length varies by a
tenth, and of which one in a hundred takes ten times as long; the scheduler works on one message after the other, for as long as
was measured; calls are held in a window and hedged as ``FleetPool.map`` does it (vyre_driver.distributed.windowed).
"""

from __future__ import annotations

import argparse
import asyncio
import heapq
import itertools
import json
import os
import random
import socket
import statistics
import subprocess
import sys
import time
from collections import deque
from pathlib import Path
from typing import Any

import psutil
from distributed import Client, Worker

from vyre_driver.distributed.windowed import Hedging

WORKERS = (2, 8, 32)
TASKS = 4000
GPUS = (10, 100, 1000)
TASK_MS = (10, 20, 50, 100, 200, 500, 1000, 2000)
ROUNDS_OF_WORK = 24
SLOW_SHARE = 0.01
WORKERS_CODE = (
    "import asyncio, sys; from benchmarks.fleet_scale import workers; asyncio.run(workers(sys.argv[1], int(sys.argv[2])))"
)


async def workers(address: str, count: int) -> None:
    """Run so many workers, until the scheduler ends."""
    started = [Worker(address, nthreads=2, nanny=False, dashboard=False) for _ in range(count)]
    await asyncio.gather(*started)
    await asyncio.gather(*(one.finished() for one in started))


def nothing(number: int) -> int:
    return number


def by_submit(client: Client, count: int, window: int) -> None:
    """Call as ``FleetPool.map`` does: each task by itself, so many under way."""
    under_way = deque[Any]()
    for number in range(count):
        under_way.append(client.submit(nothing, number, pure=False))
        if len(under_way) >= window:
            under_way.popleft().result()
    for one in under_way:
        one.result()


def by_graph(client: Client, count: int, _: int) -> None:
    """Give all tasks at once, as arrays of blocks are."""
    client.gather(client.map(nothing, range(count), pure=False, batch_size=count))


def measured_with(count: int) -> dict[str, Any]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    address = f"tcp://127.0.0.1:{port}"
    command = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", str(port)]
    quiet: Any = {"stderr": subprocess.DEVNULL}
    with (
        subprocess.Popen([*command, "--no-dashboard"], **quiet) as scheduler,
        subprocess.Popen([sys.executable, "-c", WORKERS_CODE, address, str(count)], **quiet) as others,
    ):
        try:
            with Client(address, timeout=60) as client:
                client.wait_for_workers(count, timeout=120)
                return {"workers": count} | {
                    name: costs(client, psutil.Process(scheduler.pid), run, 4 * count)
                    for name, run in (("submit", by_submit), ("graph", by_graph))
                }
        finally:
            scheduler.kill()
            others.kill()


def costs(client: Client, scheduler: psutil.Process, run: Any, window: int) -> dict[str, float]:
    run(client, 200, window)
    before, began = sum(scheduler.cpu_times()[:2]), time.perf_counter()
    run(client, TASKS, window)
    taken, cpu_s = time.perf_counter() - began, sum(scheduler.cpu_times()[:2]) - before
    return {"scheduler_cpu_ms": cpu_s / TASKS * 1e3, "tasks_a_second": TASKS / taken}


class Simulation:
    """GPUs behind a scheduler that works on one message after the other.

    A worker has two tasks at a time and runs one; when it ends the scheduler gives it another. Half of what a task costs the
    scheduler is for taking it in, half for its end.
    """

    def __init__(self, gpus: int, task_s: float, message_s: float) -> None:
        self._gpus, self._task_s, self._message_s = gpus, task_s, message_s
        self._random = random.Random(7)  # noqa: S311 -- lengths of tasks
        self._events: list[tuple[float, int, str, int, int]] = []
        self._numbers = itertools.count()
        self._free_at = self._scheduler_s = self._gpus_s = 0.0
        self._given: list[deque[int]] = [deque() for _ in range(gpus)]
        self._slots = deque(gpu for _ in range(2) for gpu in range(gpus))
        self._waiting: deque[int] = deque()
        self._began: dict[int, float] = {}
        self._hedging = Hedging()

    def run(self, tasks: int) -> dict[str, float]:
        """Return tasks a second, and the share of time in which GPUs and scheduler work."""
        coming, now, looks = iter(range(tasks)), 0.0, itertools.count(1)
        for task in itertools.islice(coming, 4 * self._gpus):
            self._submit(now, task)
        while self._began:
            now, _, what, gpu, task = heapq.heappop(self._events)
            if what == "taken in":
                self._waiting.append(task)
            elif what == "ran":
                self._given[gpu].popleft()
                self._run_next(now, gpu)
                self._message(now, "told", gpu, task)
            else:
                self._slots.append(gpu)
                began = self._began.pop(task, None)  # None: its twin was first
                if began is not None:
                    self._hedging.ended(now - began)
                    for new in itertools.islice(coming, 1):
                        self._submit(now, new)
            while self._slots and self._waiting:
                self._give(now, self._slots.popleft(), self._waiting.popleft())
            if next(looks) % 500 == 0:
                self._hedge(now)
        shares = {"gpus_busy": self._gpus_s / now / self._gpus, "scheduler_busy": self._scheduler_s / now}
        return {"tasks_a_second": tasks / now, **shares, "hedged": self._hedging.hedged}

    def _submit(self, now: float, task: int) -> None:
        self._began[task] = now
        self._hedging.begun += 1
        self._message(now, "taken in", -1, task)

    def _hedge(self, now: float) -> None:
        """Begin the one that is under way for longest once more, where the rule of ``FleetPool.map`` says so."""
        task = next(iter(self._began), None)
        if task is not None and self._hedging.is_late(now - self._began[task]):
            self._hedging.hedged += 1
            self._began[task] = self._began.pop(task)  # others come first the next time
            self._message(now, "taken in", -1, task)

    def _message(self, now: float, what: str, gpu: int, task: int) -> None:
        self._free_at = max(now, self._free_at) + self._message_s / 2
        self._scheduler_s += self._message_s / 2
        heapq.heappush(self._events, (self._free_at, next(self._numbers), what, gpu, task))

    def _give(self, now: float, gpu: int, task: int) -> None:
        self._given[gpu].append(task)
        if len(self._given[gpu]) == 1:
            self._run_next(now, gpu)

    def _run_next(self, now: float, gpu: int) -> None:
        if not self._given[gpu]:
            return
        slow = 10 if self._random.random() < SLOW_SHARE else 1
        length = self._task_s * max(0.1, self._random.gauss(1, 0.1)) * slow
        self._gpus_s += length
        heapq.heappush(self._events, (now + length, next(self._numbers), "ran", gpu, self._given[gpu][0]))


def simulated(cost_ms: float) -> dict[str, Any]:
    found: dict[str, Any] = {"scheduler_cpu_ms": cost_ms, "runs": []}
    for gpus, task_ms in itertools.product(GPUS, TASK_MS):
        one = Simulation(gpus, task_ms / 1e3, cost_ms / 1e3).run(ROUNDS_OF_WORK * gpus)
        found["runs"].append({"gpus": gpus, "task_ms": task_ms, **one})
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("measure", "simulate"))
    parser.add_argument("file", type=Path, nargs="?", help="of simulate: what measure wrote")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    if given.what == "measure":
        found: dict[str, Any] = {"cores": os.cpu_count(), "load_before": os.getloadavg(), "tasks": TASKS}
        found["measured"] = [measured_with(count) for count in WORKERS]
        found["load_after"] = os.getloadavg()
        for one in found["measured"]:
            for how in ("submit", "graph"):
                row = one[how]
                print(
                    f"{one['workers']:4} workers, {how:7}{row['scheduler_cpu_ms']:8.3f} ms of the scheduler a task, "
                    f"{row['tasks_a_second']:8.0f} tasks a second"
                )
    else:
        measured = json.loads(given.file.read_text("utf-8"))["measured"]
        found = {
            how: simulated(statistics.median(one[how]["scheduler_cpu_ms"] for one in measured)) for how in ("submit", "graph")
        }
        for how, one in found.items():
            for run in one["runs"]:
                print(
                    f"{how:7}{run['gpus']:5} GPUs, tasks of {run['task_ms']:5} ms: {run['tasks_a_second']:8.0f} a second, "
                    f"GPUs {run['gpus_busy']:4.0%}, scheduler {run['scheduler_busy']:4.0%}, {run['hedged']} hedged"
                )
    if given.json is not None:
        given.json.write_text(json.dumps(found, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
