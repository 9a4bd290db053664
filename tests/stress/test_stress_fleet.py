"""A fleet whose workers are killed every two seconds for three minutes: each result is right, and none is lost."""

from __future__ import annotations

import faulthandler
import os
import random
import signal
import threading
from typing import TYPE_CHECKING

import numpy as np
import pytest

from vyre_driver import kernels

if TYPE_CHECKING:
    from vyre_driver import Driver

pytestmark = pytest.mark.device
TASKS, KILLS_EVERY_S, LASTS_S = 10_000, 2.0, 180.0
MOST_LIVE_BYTES = 1 << 20
X = np.arange(1000, dtype=np.float32)


def checked(driver: Driver, number: int) -> int:
    """Return the number if a kernel's result on it is right to the last bit."""
    made = kernels.saxpy(driver)
    found = made(X, X, alpha=float(number % 100))
    made.close()
    if found.tobytes() != (np.float32(number % 100) * X + X).tobytes():
        raise AssertionError(number)
    return number


def test_ten_thousand_tasks_are_right_while_workers_are_killed(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    from vyre_driver.distributed import FleetPool, LocalFleet

    faulthandler.cancel_dump_traceback_later()  # after 120 s pytest would print threads that run, which may crash the process
    monkeypatch.setenv("LP_NUM_THREADS", "1")
    monkeypatch.setenv("VYRE_CACHE_DIR", str(tmp_path_factory.mktemp("fleet")))
    ended, killed = threading.Event(), []
    with LocalFleet([0] * 4) as fleet:
        pool = FleetPool(fleet.client, losses=20)

        def kill() -> None:
            chosen = random.Random(5)  # noqa: S311 -- which one is killed
            while not ended.wait(KILLS_EVERY_S):
                processes = sorted(one.pid for nanny in fleet.cluster.workers.values() if (one := nanny.process) and one.pid)
                if processes:
                    killed.append(chosen.choice(processes))
                    os.kill(killed[-1], signal.SIGKILL)

        killer = threading.Thread(target=kill)
        timer = threading.Timer(LASTS_S, ended.set)
        killer.start()
        timer.start()
        try:
            found: list[int] = []
            while not ended.is_set() or len(found) < TASKS:
                begin = len(found)
                waiting = [pool.submit(checked, number) for number in range(begin, begin + 500)]
                found += [one.result() for one in waiting]
                del waiting
        finally:
            ended.set()
            timer.cancel()
            killer.join()
        assert found == list(range(len(found)))
        fleet.client.wait_for_workers(4, timeout=60)
        name = "vyre_driver_layer_memory_live_bytes{"
        live = [int(line.rpartition(" ")[2]) for line in pool.metrics().splitlines() if line.startswith(name)]
    assert (len(live), max(live) < MOST_LIVE_BYTES) == (4, True), live
    print(f"{len(found)} tasks, {len(killed)} kills, live buffers {live}")  # noqa: T201 -- its figures
