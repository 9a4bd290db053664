"""One trace over all workers: tasks as Dask's scheduler saw them, and in each worker what its driver's profile saw.

The file is as those of ``driver.profile()`` (docs/profiling.md): a process for each worker, and in it a row for each thread.
"""

from __future__ import annotations

import time
import uuid
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vyre_driver.errors import FileUnusable, WorkerLost
from vyre_driver.profiling.trace_events import in_order, joined, write_document

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Mapping

    from distributed import Client, Worker

    from vyre_driver.profiling.trace_events import Document, Event

_PLUGIN = "vyre-driver"
_TASK_ROWS = 1 << 26  # the rows of a profile are below


@contextmanager
def recorded(client: Client, path: str | os.PathLike[str]) -> Iterator[None]:
    """Record what all workers do in the block, and write it to a file.

    Raises
    ------
    WorkerLost
        If no worker is left at the end.
    FileUnusable
        If the file cannot be written.
    """
    began = time.time()
    client.get_task_stream(start=began, stop=began)  # from now on the scheduler keeps it
    name = uuid.uuid4().hex
    try:
        client.run(_start, name)
        yield
    finally:
        profiles = client.run(_stop, name, on_error="ignore")
    document = trace_of(client.get_task_stream(start=began), {one: found for one, found in profiles.items() if found})
    try:
        write_document(Path(path), document)
    except OSError as error:
        raise FileUnusable(
            f"the timeline cannot be written to {path}: {error.strerror}", fix="name another file", path=str(path)
        ) from error


def trace_of(stream: Iterable[Mapping[str, Any]], profiles: Mapping[str, Document]) -> Document:
    """Return the profiles of workers, which are named by their addresses, as one document with the tasks of Dask's stream."""
    if not profiles:
        raise WorkerLost("no worker that was there when the timeline began is left", fix="look into the logs of the workers")
    tasks = list(stream)
    numbers = {worker: number for number, worker in enumerate(sorted({*profiles, *(one["worker"] for one in tasks)}))}
    whole = joined([_numbered(one, worker, numbers[worker]) for worker, one in sorted(profiles.items())])
    zero_us = whole["otherData"]["started_unix_ns"] / 1e3
    events = list(whole["traceEvents"])
    rows: dict[tuple[int, object], int] = {}
    for task in tasks:
        pid = numbers[task["worker"]]
        row = rows.setdefault((pid, task["thread"]), _TASK_ROWS + len(rows))
        events += [_task(task, part, pid, row, zero_us) for part in task["startstops"]]
    events += [_named("thread_name", pid, row, "tasks") for (pid, _), row in rows.items()]
    events += [_named("process_name", number, 0, worker) for worker, number in numbers.items() if worker not in profiles]
    return {**whole, "traceEvents": in_order(events)}


def _numbered(document: Document, worker: str, number: int) -> Document:
    """Return a profile with the worker's name and number for those of its process: two machines may have the same number."""
    events = [{**one, "pid": number} for one in document["traceEvents"] if one["name"] != "process_name"]
    about = document["otherData"]
    drivers = [{**one, "pid": number} for one in about["drivers"]]
    return {
        "traceEvents": [_named("process_name", number, 0, worker), *events],
        "otherData": {**about, "drivers": drivers},
    }


def _named(what: str, pid: int, row: int, name: str) -> Event:
    return {"name": what, "ph": "M", "pid": pid, "tid": row, "ts": 0.0, "args": {"name": name}}


def _task(task: Mapping[str, Any], part: Mapping[str, Any], pid: int, row: int, zero_us: float) -> Event:
    """Return a part of a task, its computation or a transfer for it, which may have begun a little before the profiles."""
    name = _name_of(task["key"]) if part["action"] == "compute" else part["action"]
    event = {"name": name, "cat": part["action"], "ph": "X", "pid": pid, "tid": row, "args": {"key": str(task["key"])}}
    begins = part["start"] * 1e6 - zero_us
    return {**event, "ts": max(0.0, begins), "dur": max(0.0, part["stop"] * 1e6 - zero_us - max(0.0, begins))}


def _name_of(key: object) -> str:
    """Return a task's name without what makes its key unique."""
    from dask.utils import key_split

    return str(key_split(key))


def _start(name: str, dask_worker: Worker) -> None:
    plugin = dask_worker.plugins[_PLUGIN]
    profile = plugin.driver.profile()
    profile.start()
    plugin.profiles[name] = profile


def _stop(name: str, dask_worker: Worker) -> Document | None:
    profile = dask_worker.plugins[_PLUGIN].profiles.pop(name, None)
    if profile is None:  # the process was started within the block
        return None
    profile.stop()
    found: Document = profile.trace
    return found
