"""Lose devices under a pool, and tell as JSON what became of its work; test_device_pool.py runs it.

Usage: losing.py DEVICE one | all | poison
"""

from __future__ import annotations

import json
import sys
import threading
import time
from typing import TYPE_CHECKING

import numpy as np

from vyre_driver import Driver, DriverPool, VyreError
from vyre_driver.spirv.shipped import shipped_module
from vyre_driver.vulkan.layer import _layer

if TYPE_CHECKING:
    from concurrent.futures import Future

X = np.arange(100, dtype=np.float32)
PUSH = {"alpha": 2, "count": 100}
DEVICE_LOST = -4
JOBS = 20


def run(driver: Driver) -> bool:
    return bool(np.array_equal(driver.compile(shipped_module("saxpy"))(X, X, push_constants=PUSH), 3 * X))


def lose_and_run(driver: Driver) -> bool:
    """Lose the device in the next submission, which is this thread's: the others are held back."""
    _layer.inject("submit", 1, DEVICE_LOST)
    return run(driver)


def outcome(future: Future[bool]) -> object:
    error = future.exception()
    return [type(error).__name__, isinstance(error, VyreError) and error.code] if error is not None else future.result()


def main() -> None:
    device, what = sys.argv[1:]
    with DriverPool([device] * (3 if what == "poison" else 2)) as pool:
        held = threading.Event()
        hold = pool.submit(lambda _: held.wait(60))  # the first device, so that the others get what follows
        if what == "one":
            times = iter((lose_and_run, run))

            def lose_once(driver: Driver) -> bool:
                return next(times)(driver)

            futures = [pool.submit(lose_once), *(pool.submit(run) for _ in range(JOBS))]
            while len(pool.drivers) > 1:
                time.sleep(0.01)
        else:
            futures = [pool.submit(lose_and_run)]
            while len(pool.drivers) > 1:
                time.sleep(0.01)
            if what == "all":
                futures += [pool.submit(run) for _ in range(JOBS)]
        held.set()
        found = {"hold": outcome(hold), "futures": [outcome(one) for one in futures], "report": pool.report()}
        try:
            found["after"] = outcome(pool.submit(run))
        except VyreError as error:
            found["after"] = [type(error).__name__, str(error)]
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
