"""A fleet whose workers are killed every two seconds for three minutes: each result is right, and none is lost."""

from __future__ import annotations

import faulthandler
import os
import random
import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from vyre_driver import kernels

if TYPE_CHECKING:
    from vyre_driver import Driver
    from vyre_driver.distributed import FleetPool

pytestmark = pytest.mark.device
TASKS, KILLS_EVERY_S, LASTS_S = 10_000, 2.0, 180.0
MOST_LIVE_BYTES, MOST_GROWN_BYTES = 1 << 20, 64 << 20
ROUND = 500
X = np.arange(1000, dtype=np.float32)


def checked(driver: Driver, number: int) -> int:
    """Return the number if a kernel's result on it is right to the last bit."""
    made = kernels.saxpy(driver)
    found = made(X, X, alpha=float(number % 100))
    made.close()
    if found.tobytes() != (np.float32(number % 100) * X + X).tobytes():
        raise AssertionError(number)
    return number


def a_round(pool: FleetPool, begin: int) -> list[int]:
    waiting = [pool.submit(checked, number) for number in range(begin, begin + ROUND)]
    return [one.result() for one in waiting]


def resident() -> int:
    """Return the bytes of memory that this process has."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_ten_thousand_tasks_are_right_while_workers_are_killed(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    from vyre_driver.distributed import FleetPool, LocalFleet

    faulthandler.cancel_dump_traceback_later()  # after 120 s pytest would print threads that run, which may crash the process
    monkeypatch.setenv("LP_NUM_THREADS", "1")
    monkeypatch.setenv("VYRE_CACHE_DIR", str(tmp_path_factory.mktemp("fleet")))
    ended, killed = threading.Event(), []
    with LocalFleet([0] * 4) as fleet:
        pool = FleetPool(fleet.client, losses=100, no_workers_s=LASTS_S)

        def kill() -> None:
            chosen = random.Random(5)  # noqa: S311 -- which one is killed
            while not ended.wait(KILLS_EVERY_S):
                there = set(fleet.cluster.scheduler.workers)  # one that starts is let: on a busy machine none would ever work
                nannies = [one for one in fleet.cluster.workers.values() if one.worker_address in there and one.process]
                processes = sorted(one.process.pid for one in nannies if one.process.pid)
                if processes:
                    killed.append(chosen.choice(processes))
                    os.kill(killed[-1], signal.SIGKILL)

        killer = threading.Thread(target=kill)
        timer = threading.Timer(LASTS_S, ended.set)
        killer.start()
        timer.start()
        try:
            found: list[int] = []
            own = [0, 0]
            while not ended.is_set() or len(found) < TASKS:
                found += a_round(pool, len(found))
                own = [own[0] if len(found) > TASKS // 2 else resident(), resident()]
        finally:
            ended.set()
            timer.cancel()
            killer.join()
        assert found == list(range(len(found)))
        fleet.client.wait_for_workers(4, timeout=60)
        after: list[list[int]] = []
        for _ in range(2):
            assert [one for number in range(4) for one in a_round(pool, number * ROUND)] == list(range(4 * ROUND))
            after.append(sorted(fleet.client.run(resident).values()))
        name = "vyre_driver_layer_memory_live_bytes{"
        live = [int(line.rpartition(" ")[2]) for line in pool.metrics().splitlines() if line.startswith(name)]
    assert (len(live), max(live) < MOST_LIVE_BYTES) == (4, True), live
    mib = [[one >> 20 for one in each] for each in (own, *after)]
    told = f"{len(found)} tasks, {len(killed)} kills, live buffers {live}, MiB of this process at half and at the end"
    print(f"{told}, of the workers after 2,000 tasks and after 2,000 more: {mib}")  # noqa: T201 -- its figures
    assert own[1] - own[0] < MOST_GROWN_BYTES, mib
    assert max(b - a for a, b in zip(*after, strict=True)) < MOST_GROWN_BYTES, mib
