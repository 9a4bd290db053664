"""Long waits; test_device_waits.py runs each in a process of its own.

Usage: waits.py CASE

Prints as JSON what it found. The work takes one core at most (LP_NUM_THREADS=1, set by the test), so that on two cores the
Python threads have one.
"""

from __future__ import annotations

import contextlib
import functools
import json
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING

import numpy as np
from kernels import TURNS, Spin

from vyre_driver import Driver
from vyre_driver.errors import DispatchTimeout

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    from vyre_driver import BoundKernel

HANGS_AFTER_S = 50
SLICE_S = 0.05
WAITING = {
    "run",
    "_finish",
    "_wait_for_works",
    "holding",
    "wait_for_earlier_work",
    "_settle",
}  # where the interpreter is while the main thread waits


class Ticker:
    """A thread that counts as fast as the interpreter lets it, and its rates in two alternating states."""

    def __init__(self) -> None:
        self._ticks = 0
        self._ends = False
        self._thread = threading.Thread(target=self._count)
        self._seen = {"free": [0, 0.0], "waiting": [0, 0.0]}

    def __enter__(self) -> Ticker:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends = True
        self._thread.join()

    def _count(self) -> None:
        while not self._ends:
            self._ticks += 1

    def watch(self, state: str, call: Callable[[], object]) -> None:
        """Count the ticks while ``call`` runs."""
        before, began = self._ticks, time.perf_counter()
        call()
        seen = self._seen[state]
        seen[0] += self._ticks - before
        seen[1] += time.perf_counter() - began

    def share(self) -> float:
        """Return the rate while waiting as a share of the free one."""
        free, waiting = (ticks / seconds for ticks, seconds in self._seen.values())
        return waiting / free


def ticks_while_another_thread_waits() -> object:
    """Sleep and wait in turns beside one dispatch of a second: what else the machine does falls on both alike."""
    with Driver() as driver:
        spin = Spin(driver, seconds=1)
        future = spin.bound.submit()

        def wait() -> None:
            with contextlib.suppress(DispatchTimeout):
                future.result(SLICE_S)

        turns = 0
        with Ticker() as ticker:
            while not future.done():
                ticker.watch("free", lambda: time.sleep(SLICE_S))
                ticker.watch("waiting", wait)
                turns += 1
        return {"enough turns": turns >= 3, "share": ticker.share(), "runs": spin.runs()}


def ticks_during_a_run() -> object:
    """Compare a run without a time-out with sleeping before and after it."""
    with Driver() as driver:
        spin = Spin(driver, seconds=0.3)
        with Ticker() as ticker:
            ticker.watch("free", lambda: time.sleep(0.15))
            ticker.watch("waiting", spin.bound.run)
            ticker.watch("free", lambda: time.sleep(0.15))
        return {"share": ticker.share(), "runs": spin.runs()}


def press_ctrl_c_in_a_wait(over: threading.Event) -> threading.Thread:
    """Send SIGINT to this process once its main thread has been seen waiting twice, 20 ms apart, unless it is over by then."""

    def stack() -> Iterator[str]:
        frame: FrameType | None = sys._current_frames()[threading.main_thread().ident or 0]  # noqa: SLF001 -- the only way
        while frame is not None:
            yield frame.f_code.co_name
            frame = frame.f_back

    def press() -> None:
        seen = 0
        while seen < 2 and not over.wait(0.02):
            seen = seen + 1 if WAITING & set(stack()) else 0
        if seen == 2:
            signal.raise_signal(signal.SIGINT)

    presser = threading.Thread(target=press, daemon=True)
    presser.start()
    return presser


def run(bound: BoundKernel, timeout: float | None = None) -> None:
    """Run it from a frame of Python's, which ``press_ctrl_c_in_a_wait`` sees: that of BoundKernel.run is C's."""
    bound.run(timeout)


def interrupted(call: Callable[[], object]) -> bool:
    over = threading.Event()
    presser = press_ctrl_c_in_a_wait(over)
    try:
        try:
            call()
        finally:
            over.set()
            presser.join()
    except KeyboardInterrupt:
        return True
    return False


def with_work_that_lasts(play: Callable[[float], dict[str, object]], *wanted: str) -> dict[str, object]:
    """Play with work of so many seconds; with longer work as long as a busy machine ends it before what is wanted is so."""
    found: dict[str, object] = {}
    for seconds in (0.15, 0.6, 3.0, 9.0):
        found = play(seconds)
        if all(found[name] for name in wanted):
            break
    return found


def ctrl_c(wait: Callable[[Spin], Callable[[], object]]) -> object:
    """Interrupt what ``wait`` gives; tells whether the work ran on then, and how often it has run in the end."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    return with_work_that_lasts(functools.partial(interrupt_and_run_again, wait), "raised", "still running")


def interrupt_and_run_again(wait: Callable[[Spin], Callable[[], object]], seconds: float) -> dict[str, object]:
    with Driver() as driver:
        spin = Spin(driver, seconds)
        call = wait(spin)
        raised = interrupted(call)
        # An empty submission to the same queue ends after all that was submitted before.
        probe = spin.bind(1).submit()
        found = {"raised": raised, "still running": not probe.done()}
        probe.result()
        spin.bound.run()
        workgroups = int(spin.ended.read()[0]) - 1
    return {**found, "runs": workgroups / spin.groups}


def ctrl_c_in_run() -> object:
    return ctrl_c(lambda spin: functools.partial(run, spin.bound))


def ctrl_c_in_run_with_a_time_out() -> object:
    return ctrl_c(lambda spin: functools.partial(run, spin.bound, 60))


def ctrl_c_in_result() -> object:
    return ctrl_c(lambda spin: spin.bound.submit().result)


def ctrl_c_in_a_read() -> object:
    def submit_and_read(spin: Spin) -> Callable[[], object]:
        spin.bound.submit()
        return spin.ended.read

    return ctrl_c(submit_and_read)


def ctrl_c_in_a_read_then_threads_read() -> object:
    """What the interrupted read waited for is waited for, and given back, by whoever reads next: four threads at once."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    return with_work_that_lasts(interrupt_three_reads_then_read, "raised")


def interrupt_three_reads_then_read(seconds: float) -> dict[str, object]:
    with Driver() as driver:
        spin = Spin(driver, seconds)
        other = driver.buffer(np.arange(8, dtype=np.uint32))
        future = spin.bound.submit()
        raised = all(interrupted(spin.ended.read) for _ in range(3))
        found: list[bool] = []

        def read() -> None:
            right = [other.read().tolist() == list(range(8)) for _ in range(50)]
            found.append(all(right) and int(spin.ended.read()[0]) == spin.groups)

        threads = [threading.Thread(target=read) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        future.result()
        return {"raised": raised, "right": found, "pending": driver.context.device.layer.counters()["work_pending"]}


def ctrl_c_in_a_call() -> object:
    """Interrupt a call with arrays; the next one waits for it and is right."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    return with_work_that_lasts(interrupt_a_call_and_call_again, "raised", "still running")


def interrupt_a_call_and_call_again(seconds: float) -> dict[str, object]:
    with Driver() as driver:
        spin = Spin(driver, seconds)

        def call() -> list[int]:
            got = spin.kernel(
                np.zeros(1, np.uint32), np.ones(1, np.uint32), push_constants={"turns": TURNS}, workgroups=spin.grid
            )
            assert isinstance(got, np.ndarray)
            return [int(number) for number in got]

        raised = interrupted(call)
        probe = spin.bind(1).submit()
        return {"raised": raised, "still running": not probe.done(), "runs": call()[0] / spin.groups}


def ctrl_c_and_the_end() -> object:
    """Leave the block, and the process, while the interrupted work still runs."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    return with_work_that_lasts(interrupt_and_leave, "raised")


def interrupt_and_leave(seconds: float) -> dict[str, object]:
    with Driver() as driver:
        return {"raised": interrupted(functools.partial(run, Spin(driver, seconds).bound))}


def a_handler_that_returns() -> object:
    """Signals every 5 ms, whose handler raises nothing, end no wait, nor a time-out early."""
    return with_work_that_lasts(disturb_a_run_and_a_time_out, "handled", "not too early")


def disturb_a_run_and_a_time_out(seconds: float) -> dict[str, object]:
    handled = []
    signal.signal(signal.SIGUSR1, lambda *_: handled.append(1))
    with Driver() as driver:
        spin = Spin(driver, seconds)
        ends = threading.Event()
        main = threading.main_thread().ident or 0

        def disturb() -> None:
            while not ends.wait(0.005):
                signal.pthread_kill(main, signal.SIGUSR1)

        thread = threading.Thread(target=disturb)
        thread.start()
        spin.bound.run()
        began, timed_out = time.monotonic(), 0.0
        try:
            spin.bound.run(timeout=0.1)
        except DispatchTimeout:
            timed_out = time.monotonic() - began
        ends.set()
        thread.join()
        return {"handled": len(handled) > 3, "not too early": timed_out >= 0.1, "runs": spin.runs()}


if __name__ == "__main__":
    signal.alarm(HANGS_AFTER_S)
    json.dump(globals()[sys.argv[1]](), sys.stdout)
