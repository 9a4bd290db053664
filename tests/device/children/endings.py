"""Ways in which resident work ends; test_device_endings.py runs each in a process of its own and wants exit status 0.

Usage: endings.py CASE [SECONDS, after which it hangs]

Where work has to be still running, as it may be under the layer, exit status 6 says that it was not.
"""

from __future__ import annotations

import gc
import itertools
import os
import signal
import sys
import threading
from typing import TYPE_CHECKING

import numpy as np
from kernels import STEP, Spin, glsl
from lifetime import Cycle

from vyre_driver import Driver
from vyre_driver.errors import DispatchFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from vyre_driver.runtime.futures import DispatchFuture

HANGS_AFTER_S = 50
RUNS_FOR_S = 0.1
COMMANDS = 30
kept: list[object] = []


def everything(driver: Driver | None = None) -> dict[str, object]:
    """Return one of each kind, used, and with work submitted; all on the driver if there is one."""
    driver = driver or Driver()
    kernel = driver.compile(glsl(STEP))
    buffer = driver.buffer(np.zeros(20_000, np.uint32))
    bound = kernel.bind(buffer, push_constants={"factor": 1, "summand": 1})
    batch = driver.batch()
    for _ in range(20):
        batch.add(bound)
    future = batch.submit()
    return {"driver": driver, "kernel": kernel, "buffer": buffer, "bound": bound, "batch": batch, "future": future}


def running() -> dict[str, object]:
    """Return one of each kind, with work submitted that goes on for a while, through many commands."""
    driver = Driver()
    spin = Spin(driver, RUNS_FOR_S / COMMANDS)
    batch = driver.batch()
    for _ in range(COMMANDS):
        batch.add(spin.bound)
    future = batch.submit()
    check_running(future)
    return {"driver": driver, "spin": spin, "batch": batch, "future": future}


def check_running(future: DispatchFuture) -> None:
    if future.done():
        os._exit(6)


def close(thing: object) -> None:
    """Close what can be closed, wait for what can be waited for."""
    for name in ("close", "result"):
        if hasattr(thing, name):
            try:
                getattr(thing, name)()
            except DispatchFailed:  # its driver was closed
                return


def leave(_: object) -> None:
    """Only drop it."""


def end_in_order(things: dict[str, object], order: Iterable[str], end: Callable[[object], None]) -> None:
    for name in order:
        end(things[name])
        del things[name]


def end_on_one_driver(end: Callable[[object], None]) -> None:
    """Try the 24 orders of all but the driver, whose opening takes most of the time, and the kernel, which goes last."""
    with Driver() as driver:
        for order in itertools.permutations(["buffer", "bound", "batch", "future"]):
            end_in_order(everything(driver), [*order, "kernel"], end)


def end_with_the_driver(end: Callable[[object], None]) -> None:
    """Try the 24 orders of the driver and what holds memory or work of it; the kernel and the bound one go last."""
    for order in itertools.permutations(["driver", "buffer", "batch", "future"]):
        end_in_order(everything(), [*order, "bound", "kernel"], end)


def end_in_every_order(end: Callable[[object], None]) -> None:
    """Try all 720 orders; takes a minute."""
    for order in itertools.permutations(["driver", "kernel", "buffer", "bound", "batch", "future"]):
        end_in_order(everything(), order, end)


def all_but_the_driver_are_dropped_in_every_order() -> None:
    end_on_one_driver(leave)


def all_but_the_driver_are_closed_in_every_order() -> None:
    end_on_one_driver(close)


def driver_is_dropped_at_every_place_in_the_order() -> None:
    end_with_the_driver(leave)


def driver_is_closed_at_every_place_in_the_order() -> None:
    end_with_the_driver(close)


def all_are_dropped_in_every_order() -> None:
    end_in_every_order(leave)


def all_are_closed_in_every_order() -> None:
    end_in_every_order(close)


def driver_is_closed_while_work_runs() -> None:
    things = running()
    things["driver"].close()  # type: ignore[attr-defined]


def buffers_and_driver_are_closed_while_work_runs() -> None:
    things = running()
    spin = things["spin"]
    assert isinstance(spin, Spin)
    spin.ended.close()
    spin.each.close()
    close(things["driver"])
    things.clear()
    gc.collect()


def driver_is_closed_by_another_thread_while_one_waits() -> None:
    things = running()
    waiting = threading.Thread(target=close, args=(things["future"],))
    waiting.start()
    close(things["driver"])
    waiting.join()


def all_die_in_one_cycle_while_work_runs() -> None:
    things = running()
    Cycle(*things.values())
    things.clear()
    gc.collect()


def all_die_in_one_cycle_with_the_work_itself() -> None:
    """The collector comes upon the work while the cycle, which was made last, still holds it."""
    things = running()
    future = things["future"]
    Cycle(*things.values(), *future._submission._works)  # type: ignore[attr-defined]  # noqa: SLF001 -- what a frame may hold
    things.clear()
    del future
    gc.collect()


def all_die_in_knots_while_work_runs() -> None:
    """Each refers to another, the one made last to the one made first."""
    things = running()
    ring = list(things.values())
    for one, next_ in zip(ring, [*ring[1:], ring[0]], strict=True):
        one.next = next_  # type: ignore[attr-defined]
    things.clear()
    ring.clear()
    del one, next_
    gc.collect()


def all_die_in_another_thread_while_work_runs() -> None:
    things = [running()]
    thread = threading.Thread(target=things.clear)
    thread.start()
    thread.join()


def exits_while_work_runs() -> None:
    kept.append(running())


def exits_with_an_uncollected_cycle_while_work_runs() -> None:
    gc.disable()
    Cycle(*running().values())


def exits_with_everything_alive() -> None:
    kept.append(everything())


def exits_with_an_uncollected_cycle() -> None:
    gc.disable()
    Cycle(*everything().values())


def exits_with_a_daemon_thread_that_waits() -> None:
    things = running()
    kept.append(things)
    waits = threading.Event()

    def wait() -> None:
        waits.set()
        close(things["future"])

    threading.Thread(target=wait, daemon=True).start()
    waits.wait()


def exits_with_a_daemon_thread_that_submits() -> None:
    things = everything()
    submitted = threading.Event()

    def submit() -> None:
        while True:
            things["batch"].submit()  # type: ignore[attr-defined]
            submitted.set()

    threading.Thread(target=submit, daemon=True).start()
    submitted.wait()


if __name__ == "__main__":
    signal.alarm(int(sys.argv[2]) if len(sys.argv) > 2 else HANGS_AFTER_S)
    globals()[sys.argv[1]]()
