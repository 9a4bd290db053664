"""Fleets under observation: what each worker does where work takes too long, and what a killed worker costs."""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import itertools
import json
import os
import signal
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from distributed import SchedulerPlugin

from benchmarks import fleet_work
from vyre_driver.distributed import LocalFleet

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from benchmarks.fleet_work import Done

_ANSWERS_WITHIN_S = 10.0


class Late(TimeoutError):
    """Work that took too long; ``state`` tells what every worker did then."""

    def __init__(self, state: dict[str, Any]) -> None:
        super().__init__("it took too long")
        self.state = state


@contextlib.contextmanager
def watched(devices: Sequence[Any]) -> Iterator[LocalFleet]:
    """Open a fleet; TimeoutError becomes Late, and stderr has the stacks of all threads of all workers."""
    with LocalFleet(devices) as fleet:
        processes = fleet.client.run(stacks_on_signal)
        try:
            yield fleet
        except (TimeoutError, asyncio.TimeoutError) as error:
            state = state_of(fleet)
            print(json.dumps(state, indent=1), file=sys.stderr, flush=True)
            for process in processes.values():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGUSR1)
            state["seconds_of_threads"] = fleet.client.run(fleet_work.taken, on_error="ignore")
            raise Late(state) from error


def stacks_on_signal() -> int:
    """Have this worker write the stacks of its threads to stderr at SIGUSR1; returns its process."""
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    return os.getpid()


def state_of(fleet: LocalFleet) -> dict[str, Any]:
    """Return what the scheduler knows of workers and tasks, and the stacks of the tasks that run."""
    scheduler = fleet.cluster.scheduler
    workers = {
        address: {
            "status": one.status.name,
            "memory_bytes": one.memory.process,
            "limit_bytes": one.memory_limit,
            "processing": sorted(str(task.key) for task in one.processing),
        }
        for address, one in scheduler.workers.items()
    }
    groups = {
        str(name): {state: count for state, count in group.states.items() if count}
        for name, group in scheduler.task_groups.items()
    }
    try:
        ask = fleet.client.scheduler.call_stack
        found = fleet.client.sync(ask, keys=None, callback_timeout=_ANSWERS_WITHIN_S)
        stacks = {worker: {str(key): list(lines) for key, lines in tasks.items()} for worker, tasks in found.items()}
    except (OSError, TimeoutError, asyncio.TimeoutError) as error:
        stacks = {"failed": f"{type(error).__name__}: {error}"}
    return {"workers": workers, "tasks": groups, "stacks": stacks}


class Comings(SchedulerPlugin):  # type: ignore[misc] # Dask has no types that we use
    """When the scheduler saw workers come and go, in seconds since 1970."""

    name = "comings"

    def __init__(self) -> None:
        self.came: list[float] = []
        self.went: list[float] = []

    def add_worker(self, *_: object, **__: object) -> None:
        self.came.append(time.time())

    def remove_worker(self, *_: object, **__: object) -> None:
        self.went.append(time.time())


class KilledWorker:
    """One worker of a fleet that is killed, and what happened then."""

    def __init__(self, fleet: LocalFleet) -> None:
        self._fleet = fleet
        self._before = set(fleet.client.run(os.getpid).values())
        self._comings = Comings()
        fleet.cluster.loop.add_callback(fleet.cluster.scheduler.add_plugin, self._comings)
        self._at = 0.0

    def kill(self) -> None:
        self._at = time.time()
        os.kill(min(self._before), signal.SIGKILL)

    def pieces_ms(self, found: Sequence[Done], ended: float) -> dict[str, Any]:
        """Return when things happened after the kill, in ms, and how many products each process made."""
        (process,) = set(self._fleet.client.run(os.getpid).values()) - self._before
        theirs = [one for one in found if one.process == process]
        others = sorted(one.ended for one in found if one.process != process and one.ended > self._at)
        times = {
            "the scheduler saw it go": self._comings.went[0],
            "a new process had its modules": min((one.imported for one in theirs), default=ended),
            "it had joined": self._comings.came[0],
            "its first product began": min((one.began for one in theirs), default=ended),
            "its first product ended": min((one.ended for one in theirs), default=ended),
            "the last product ended": max(one.ended for one in found),
            "the client had all": ended,
        }
        pauses = {
            "longest without a product by others": max((b - a for a, b in itertools.pairwise([self._at, *others])), default=0.0)
        }
        made = Counter(one.process for one in found)
        return {
            **{what: round((at - self._at) * 1e3) for what, at in times.items()},
            **{what: round(seconds * 1e3) for what, seconds in pauses.items()},
            "products": {
                "killed": made[min(self._before)],
                "new": made[process],
                "others": sum(made[p] for p in self._before - {min(self._before)}),
            },
        }
