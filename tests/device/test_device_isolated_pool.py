"""A pool of isolated drivers: what kills one process, or loses its device, costs that work and nothing else."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import numpy as np
import pytest

from vyre_driver import DriverPool
from vyre_driver.errors import DeviceLost, DriverCrashed
from vyre_driver.isolated.driver import IsolatedDriver
from vyre_driver.spirv.shipped import shipped_module

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vyre_driver import Driver

pytestmark = pytest.mark.device
X = np.arange(100, dtype=np.float32)
WAITS_S = 60.0


@pytest.fixture
def pool() -> Iterator[DriverPool]:
    with DriverPool([0, 0], allow_software=True, isolated=True) as opened:
        yield opened


def process_of(driver: Driver) -> int:
    assert isinstance(driver, IsolatedDriver)
    return driver.child().pid


def test_calls_run_in_two_processes_and_metrics_tell_them_apart(pool: DriverPool) -> None:
    saxpy = pool.compile(shipped_module("saxpy"))
    found = saxpy.map(((X, X + number) for number in range(8)), alpha=2.0, count=100)
    assert [one.tolist() for one in found] == [(3 * X + number).tolist() for number in range(8)]
    assert len({process_of(one) for one in pool.drivers} | {os.getpid()}) == 3
    lines = [one for one in pool.metrics().splitlines() if one.startswith("vyre_driver_pool_jobs_done_total")]
    assert [one.partition(" ")[0] for one in lines] == [f'vyre_driver_pool_jobs_done_total{{process="{n}"}}' for n in (0, 1)]


def test_a_process_that_is_killed_fails_its_work_alone_and_its_device_goes_on(pool: DriverPool) -> None:
    saxpy = pool.compile(shipped_module("saxpy"))
    before = {process_of(one) for one in pool.drivers}

    def kill(driver: Driver) -> None:
        kernel = driver.compile(shipped_module("saxpy"))
        os.kill(process_of(driver), signal.SIGKILL)
        kernel(X, X, alpha=2.0, count=100)

    futures = [pool.submit(kill), *(saxpy(X, X + number, alpha=2.0, count=100) for number in range(6))]
    assert isinstance(futures[0].exception(WAITS_S), DriverCrashed)
    assert [one.result(WAITS_S).tolist() for one in futures[1:]] == [(3 * X + number).tolist() for number in range(6)]
    after = {process_of(one) for one in pool.drivers}
    assert (len(after), len(after & before), [one["lost"] for one in pool.report()]) == (2, 1, [False, False])


def test_work_whose_device_is_lost_is_done_again_once(pool: DriverPool) -> None:
    runs: list[int] = []

    def lose(_: Driver) -> int:
        runs.append(1)
        if len(runs) != 2:
            raise DeviceLost("the device was lost", fix="make a new driver")
        return 7

    assert (pool.submit(lose).result(WAITS_S), len(runs)) == (7, 2)
    with pytest.raises(DeviceLost, match="the device was lost"):
        pool.submit(lose).result(WAITS_S)
    assert (len(runs), len(pool.drivers)) == (4, 2)
