"""An isolated driver whose process is killed and stopped at any point, while eight threads call it: ``make stress``."""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np
import pytest

from vyre_driver import Driver
from vyre_driver.errors import DispatchTimeout, DriverCrashed
from vyre_driver.isolated.driver import IsolatedDriver
from vyre_driver.spirv.shipped import shipped_module

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vyre_driver import Kernel

pytestmark = pytest.mark.device

LASTS_S = 60
THREADS = 8
SIZES = (100, 1000, 20_000)  # arrays of small calls, which are copied, and of others, whose results lie in shared memory


class Caller:
    """Calls with ever new numbers, and what came of them."""

    def __init__(self, kernel: Kernel, seed: int) -> None:
        self.right = self.failed = 0
        self.wrong: list[object] = []
        self.kept: list[tuple[int, NDArray[np.float32]]] = []
        self._kernel, self._random = kernel, np.random.default_rng(seed)
        self._outs = [np.empty(size, np.float32) for size in SIZES]

    def call(self) -> None:
        """Call once, and look at the result and at one that was kept."""
        which, value, alpha = (int(one) for one in self._random.integers((len(SIZES), 1000, 1000)))
        x = np.full(SIZES[which], value, np.float32)
        out = self._outs[which] if self._random.random() < 0.3 else None
        try:
            found = self._kernel(x, x, alpha=alpha, count=x.size, out=out, timeout=1)
        except (DriverCrashed, DispatchTimeout):
            self.failed += 1
            return
        self.right += 1
        if not (found == value * (alpha + 1)).all():
            self.wrong.append((which, value, alpha))
        if out is None:
            self.kept.append((value * (alpha + 1), found))
            self.kept = self.kept[-20:]
        for wanted, one in self.kept[:1]:
            if not (one == wanted).all():
                self.wrong.append(("kept", wanted, one))

    def work(self, is_over: threading.Event) -> None:
        """Call until it is over; what is no error of a process that has ended is wrong."""
        try:
            while not is_over.is_set():
                self.call()
        except BaseException as error:  # noqa: BLE001 -- a thread's
            self.wrong.append(error)


def harm(driver: IsolatedDriver, random: np.random.Generator) -> None:
    """Kill the process, or stop it for good, after a short time."""
    time.sleep(float(random.uniform(0.0, 0.3)))
    with suppress(ProcessLookupError):
        os.kill(driver.pid, signal.SIGKILL if random.random() < 0.7 else signal.SIGSTOP)


def test_calls_of_a_process_that_is_killed_or_stopped_are_right_or_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vyre_driver.isolated.process._MAKING_S", 0.5)
    with Driver(isolated=True, allow_software=True) as driver:
        assert isinstance(driver, IsolatedDriver)
        kernel = driver.compile(shipped_module("saxpy"))
        callers, is_over, random = (
            [Caller(kernel, seed) for seed in range(THREADS)],
            threading.Event(),
            np.random.default_rng(7),
        )
        threads = [threading.Thread(target=one.work, args=(is_over,)) for one in callers]
        for one in threads:
            one.start()
        until = time.monotonic() + LASTS_S
        try:
            while time.monotonic() < until:
                harm(driver, random)
                right = sum(one.right for one in callers)
                while sum(one.right for one in callers) < right + THREADS and time.monotonic() < until + 30:
                    time.sleep(0.01)  # until the next process works
        finally:
            is_over.set()
            for one in threads:
                one.join()
        assert [one.wrong for one in callers] == [[]] * THREADS
        assert min(one.right for one in callers) > 0
        for one in callers:
            one.kept.clear()
        with suppress(DriverCrashed):  # of a process that was killed at last
            driver.report()
        x = np.ones(100, np.float32)
        assert (kernel(x, x, alpha=1, count=100) == 2).all()
        fresh = driver.compile(shipped_module("saxpy"))
        del kernel, callers, threads, one
        gc.collect()
        assert (fresh(x, x, alpha=1, count=100) == 2).all()
        assert driver.child().arena.given_bytes < 1 << 20
