"""Traces as documents in the JSON trace event format, which Perfetto and chrome://tracing show.

Source: "Trace Event Format", 2016: complete events X, metadata M, asynchronous b and e, instants i, flows s and f; times are
microseconds. What these documents have beyond it is described in docs/profiling.md.
"""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any, TypeAlias

from vyre_driver._version import __version__
from vyre_driver.errors import InvalidInput
from vyre_driver.process.whole_files import write_whole

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from vyre_driver.profiling.recorder import DeviceSpan, HostSpan, Recording

FORMAT, VERSION = "vyre_driver.trace", 1
DEVICE_TRACKS = 1 << 24  # thread numbers of the system's are below
_QUEUES = 16  # numbers of a driver's tracks
_NS_PER_US = 1000.0

Document: TypeAlias = "dict[str, Any]"
Event: TypeAlias = "dict[str, Any]"


def document_of(recordings: Sequence[Recording]) -> Document:
    """Return what was recorded of drivers of one process as a document, whose times begin with the first of them."""
    first = min(recordings, key=lambda one: one.began_ns)
    events: list[Event] = [_meta("process_name", first.pid, 0, name=f"python ({first.pid})")]
    for one in recordings:
        events += _tracks(one)
        numbers = iter(range(one.number << 40, (one.number + 1) << 40))
        for span in one.spans:
            events += _host_events(one, span, first.began_ns, numbers)
        for work in one.work:
            events += _device_events(one, work, first.began_ns, numbers)
    about = {
        "format": FORMAT,
        "version": VERSION,
        "vyre_driver": __version__,
        "started_unix_ns": first.unix_ns,
        "seconds": max((one.ended_ns for one in recordings), default=0) / 1e9 - first.began_ns / 1e9,
        "drivers": [
            {"pid": one.pid, "number": one.number, "device": one.device, "clock": one.clock, "missing": dict(one.missing)}
            for one in recordings
        ],
    }
    return {"traceEvents": in_order(events), "displayTimeUnit": "ns", "otherData": about}


def in_order(events: Iterable[Event]) -> list[Event]:
    """Return events in order of time, metadata first, and what goes around others before those."""
    return sorted(events, key=lambda one: (one["ph"] != "M", one.get("ts", 0.0), -one.get("dur", 0.0)))


def _tracks(one: Recording) -> list[Event]:
    found = []
    for thread in sorted({span.thread for span in one.spans} | {work.thread for work in one.work}):
        name = one.threads.get(thread, "copies")
        found.append(_meta("thread_name", one.pid, thread, name=name))
    for queue in sorted({work.queue for work in one.work}):
        kind = "queue" if queue == 0 else f"copy queue {queue}"
        track = _track(one, queue)
        found.append(_meta("thread_name", one.pid, track, name=f"{one.device} #{one.number} {kind}"))
        found.append(_meta("thread_sort_index", one.pid, track, sort_index=-_QUEUES + queue))
    return found


def _meta(name: str, pid: int, tid: int, /, **args: Any) -> Event:  # noqa: ANN401 -- of each its own
    return {"ph": "M", "name": name, "pid": pid, "tid": tid, "ts": 0.0, "args": args}


def _track(one: Recording, queue: int) -> int:
    return DEVICE_TRACKS + _QUEUES * one.number + queue


def _host_events(one: Recording, span: HostSpan, zero_ns: int, numbers: Any) -> list[Event]:  # noqa: ANN401 -- an iterator
    event: Event = {
        "name": span.name,
        "cat": span.category,
        "pid": one.pid,
        "tid": span.thread,
        "ts": (span.began_ns - zero_ns) / _NS_PER_US,
    }
    args = {"args": dict(span.args)} if span.args else {}
    if span.is_async:
        pair = {"id": next(numbers)}
        end = {**event, "ph": "e", "ts": (span.ended_ns - zero_ns) / _NS_PER_US, **pair}
        return [{**event, "ph": "b", **pair, **args}, end]
    if span.ended_ns == span.began_ns:
        return [] if span.category == "call" else [{**event, "ph": "i", "s": "t", **args}]
    return [{**event, "ph": "X", "dur": (span.ended_ns - span.began_ns) / _NS_PER_US, **args}]


def _device_events(one: Recording, work: DeviceSpan, zero_ns: int, numbers: Any) -> list[Event]:  # noqa: ANN401 -- an iterator
    track = _track(one, work.queue)
    begins = (work.began_ns - zero_ns) / _NS_PER_US
    args: dict[str, Any] = {"queued us": (work.began_ns - work.submit_ns) / _NS_PER_US}
    if work.moved_bytes:
        args["bytes"] = work.moved_bytes
    event: Event = {"name": work.name, "cat": f"device {work.category}", "pid": one.pid}
    flow = {"name": "submission", "cat": "flow", "pid": one.pid, "id": next(numbers)}
    device = {**event, "ph": "X", "tid": track, "ts": begins, "dur": (work.ended_ns - work.began_ns) / _NS_PER_US, "args": args}
    return [
        device,
        {**flow, "ph": "s", "tid": work.thread, "ts": (work.submit_ns - zero_ns) / _NS_PER_US},
        {**flow, "ph": "f", "bp": "e", "tid": track, "ts": begins},
    ]


def write_document(path: Path, document: Document) -> None:
    """Write a document, an event a line; gzipped where the name ends in ``.gz``. Raises OSError where it cannot be."""
    head = {name: value for name, value in document.items() if name != "traceEvents"}
    lines = ",\n".join(json.dumps(one, separators=(",", ":"), allow_nan=False) for one in document["traceEvents"])
    text = json.dumps(head)[:-1] + ', "traceEvents": [\n' + lines + "\n]}\n"
    data = text.encode()
    write_whole(path, gzip.compress(data, 6) if path.suffix == ".gz" else data)


def read_document(path: Path) -> Document:
    """Read a document of ours.

    Raises
    ------
    InvalidInput
        If the file is no trace of this package, or of a newer version of its format.
    OSError
        If it cannot be read.
    """
    data = path.read_bytes()
    try:
        found = json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)
        about, events = found["otherData"], found["traceEvents"]
        is_ours = about["format"] == FORMAT and isinstance(about["started_unix_ns"], int) and isinstance(events, list)
        version = about["version"]
    except (ValueError, TypeError, KeyError, OSError, EOFError) as error:
        raise InvalidInput(
            f"{str(path)!r} is no trace that vyre_driver has written ({type(error).__name__}: {error})",
            fix="give a file of profile.save() or vyre-driver trace",
        ) from error
    if not is_ours or version != VERSION:
        raise InvalidInput(
            f"{str(path)!r} is a trace of {about['format']!r} version {version!r}, not of {FORMAT!r} version {VERSION}",
            fix="write it with this version of vyre_driver",
        )
    return dict(found)


def joined(documents: Sequence[Document]) -> Document:
    """Return traces of several processes as one, by their system clocks; those of one machine agree to some microseconds.

    Raises
    ------
    InvalidInput
        If there is none, or two have the same process: their threads could not be told apart.
    """
    if not documents:
        raise InvalidInput("there are no traces to join", fix="give two or more")
    zero_ns = min(one["otherData"]["started_unix_ns"] for one in documents)
    events: list[Event] = []
    drivers: list[Any] = []
    taken: set[int] = set()
    ends = []
    for place, one in enumerate(documents):
        pids = {event["pid"] for event in one["traceEvents"]}
        if taken & pids:
            raise InvalidInput(
                f"process {min(taken & pids)} is in two of the traces", fix="give each trace once, of different processes"
            )
        taken |= pids
        later_ns = one["otherData"]["started_unix_ns"] - zero_ns
        for event in one["traceEvents"]:
            moved = {**event, "ts": event["ts"] + later_ns / _NS_PER_US} if event["ph"] != "M" else event
            events.append({**moved, "id": f"{place}.{event['id']}"} if "id" in event else moved)
        drivers += one["otherData"]["drivers"]
        ends.append(one["otherData"]["seconds"] + later_ns / 1e9)
    about = {**documents[0]["otherData"], "started_unix_ns": zero_ns, "seconds": max(ends), "drivers": drivers}
    return {"traceEvents": in_order(events), "displayTimeUnit": "ns", "otherData": about}
