"""Closing a driver: interrupted as it waits, from several threads at once, and beside calls."""

from __future__ import annotations

import gc
import signal
import threading
import time
from typing import TYPE_CHECKING

import numpy as np
import pytest

from vyre_driver import Driver
from vyre_driver.errors import DispatchFailed
from vyre_driver.kompute import device
from vyre_driver.spirv.shipped import shipped_module

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vyre_driver import Kernel

pytestmark = pytest.mark.device

X = np.arange(64, dtype=np.float32)
HANGS_AFTER_S = 20


def used(driver: Driver) -> Kernel:
    kernel = driver.compile(shipped_module("saxpy"))
    kernel(X, X, push_constants={"alpha": 2, "count": X.size})
    return kernel


def is_refused(kernel: Kernel, alpha: float) -> bool:
    """Whether a call is told that the device is closed; with other push constants than before it records its work anew."""
    try:
        kernel(X, X, push_constants={"alpha": alpha, "count": X.size})
    except DispatchFailed as refused:
        return str(refused).endswith(" is closed. Fix: make a new Driver.")
    return False


def is_gone(driver: Driver) -> bool:
    layer = driver.context.device.layer
    manager = driver.context.device._manager  # noqa: SLF001 -- nothing else tells
    return manager is None and not layer.is_alive


def drivers() -> Iterator[Driver]:
    while True:
        with Driver() as driver:
            yield driver


def test_ctrl_c_ends_a_close_that_waits_and_the_next_one_finishes_it() -> None:
    driver = Driver()
    kernel = used(driver)
    holds, ends = threading.Event(), threading.Event()

    def hold() -> None:
        with driver.context.device.in_use:
            holds.set()
            ends.wait(HANGS_AFTER_S)

    thread = threading.Thread(target=hold)
    thread.start()
    holds.wait()
    main = threading.get_ident()

    def press() -> None:
        while not driver.context.device.in_use.closed:
            time.sleep(0.001)
        signal.pthread_kill(main, signal.SIGINT)

    threading.Thread(target=press).start()
    with pytest.raises(KeyboardInterrupt):
        driver.close()
    assert (is_refused(kernel, 3), is_gone(driver)) == (True, False)
    ends.set()
    driver.close()
    thread.join()
    assert (is_refused(kernel, 4), is_gone(driver)) == (True, True)


def test_threads_that_close_at_once_all_return_once_the_device_is_gone() -> None:
    for _ in range(5):
        driver = Driver()
        kernel = used(driver)
        at_once = threading.Barrier(5)
        gone: list[bool] = []
        calls: list[bool] = []

        def close(driver: Driver = driver, at_once: threading.Barrier = at_once, gone: list[bool] = gone) -> None:
            at_once.wait()
            driver.close()
            gone.append(is_gone(driver))

        def call(kernel: Kernel = kernel, at_once: threading.Barrier = at_once, calls: list[bool] = calls) -> None:
            at_once.wait()
            while not is_refused(kernel, 3):
                continue
            calls.append(True)

        threads = [threading.Thread(target=target) for target in (close, close, close, call, call)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(HANGS_AFTER_S)
        assert (gone, calls, is_refused(kernel, 4)) == ([True] * 3, [True] * 2, True)


def test_devices_that_are_gone_are_forgotten_by_the_next_that_is_opened() -> None:
    """What a fork would have to leave alone; they are looked at by references that tell nobody."""
    for _ in range(3):
        Driver().close()
    gc.collect()
    with Driver() as driver:
        left = [one() for one in device._OPEN.values()]  # noqa: SLF001 -- what is looked at
        assert (None in left, driver.context.device in left) == (False, True)
