"""One timeline over all workers: tasks as Dask's scheduler saw them, and calls of kernels as the workers timed them.

Source: the Trace Event Format, which Perfetto and chrome://tracing read.
"""

from __future__ import annotations

import json
import time
from collections import deque
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from vyre_driver.errors import FileUnusable

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Mapping

    from distributed import Client, Worker

MOST_CALLS = 100_000
_PLUGIN = "vyre-driver"
_DEVICE_ROW = 0


class TimedCall(NamedTuple):
    """A call of a kernel: when it had its turn and when it ended, in seconds since 1970 by its worker's clock."""

    kernel: str
    began: float
    ended: float


@contextmanager
def recorded(client: Client, path: str | os.PathLike[str]) -> Iterator[None]:
    """Record what all workers do in the block, and write it to a file.

    Raises
    ------
    FileUnusable
        If the file cannot be written.
    """
    began = time.time()
    client.get_task_stream(start=began, stop=began)  # from now on the scheduler keeps it
    client.run(_keep_calls)
    try:
        yield
    finally:
        calls = client.run(_calls, on_error="ignore")
        events = trace_events(client.get_task_stream(start=began), calls)
    try:
        Path(path).write_text(json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}) + "\n", "utf-8")
    except OSError as error:
        raise FileUnusable(
            f"the timeline cannot be written to {path}: {error.strerror}", fix="name another file", path=str(path)
        ) from error


def trace_events(stream: Iterable[Mapping[str, Any]], calls: Mapping[str, Iterable[TimedCall]]) -> list[dict[str, Any]]:
    """Return the events of a trace: a process for each worker, in it a row for the device and one for each thread."""
    tasks = list(stream)
    workers = sorted({one["worker"] for one in tasks} | set(calls))
    rows: dict[str, list[int]] = {worker: [] for worker in workers}
    events = [_named("process_name", pid, _DEVICE_ROW, worker) for pid, worker in enumerate(workers)]
    events += [_named("thread_name", pid, _DEVICE_ROW, "calls") for pid in range(len(workers))]
    for task in tasks:
        threads = rows[task["worker"]]
        if task["thread"] not in threads:
            threads.append(task["thread"])
            events.append(_named("thread_name", workers.index(task["worker"]), len(threads), f"thread {len(threads)}"))
        at = workers.index(task["worker"]), 1 + threads.index(task["thread"])
        for part in task["startstops"]:
            name = _name_of(task["key"]) if part["action"] == "compute" else part["action"]
            events.append(_span(name, part["action"], at, part["start"], part["stop"], {"key": str(task["key"])}))
    for worker, timed in calls.items():
        at = workers.index(worker), _DEVICE_ROW
        events += [_span(one.kernel, "call", at, one.began, one.ended, {}) for one in timed]
    return events


def _named(what: str, process: int, row: int, name: str) -> dict[str, Any]:
    return {"name": what, "ph": "M", "pid": process, "tid": row, "args": {"name": name}}


def _span(  # noqa: PLR0913 -- an event's fields
    name: str, kind: str, at: tuple[int, int], began: float, ended: float, facts: dict[str, str]
) -> dict[str, Any]:
    times = {"ts": round(began * 1e6), "dur": round((ended - began) * 1e6)}
    return {"name": name, "cat": kind, "ph": "X", "pid": at[0], "tid": at[1], **times, "args": facts}


def _name_of(key: object) -> str:
    """Return a task's name without what makes its key unique."""
    from dask.utils import key_split

    return str(key_split(key))


def _keep_calls(dask_worker: Worker) -> None:
    dask_worker.plugins[_PLUGIN].timed = deque(maxlen=MOST_CALLS)


def _calls(dask_worker: Worker) -> list[TimedCall]:
    plugin = dask_worker.plugins[_PLUGIN]
    found, plugin.timed = list(plugin.timed or ()), None
    return found
