"""Read what processes of this user show of their drivers; nothing that one of them sends is believed unseen."""

from __future__ import annotations

import json
import os
import select
import socket
import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from vyre_driver.telemetry.serving import SCHEMA, address, directory, listed, peer_uid, remove_stale

_MOST_BYTES = 1 << 20
_MOST_PROCESSES = 256
_CHUNK_BYTES = 1 << 16
_LARGEST = 1 << 63


@dataclass(frozen=True, slots=True)
class SeenKernel:
    """The kernels of one name: dispatches, and the ns of those that were waited for."""

    name: str
    dispatches: int
    total_ns: int


@dataclass(frozen=True, slots=True)
class SeenBuffers:
    """The buffers of one name: how many, and their bytes."""

    name: str
    count: int
    bytes: int


@dataclass(frozen=True, slots=True)
class SeenDriver:
    """A driver as its process shows it; ``in_flight`` is None where nobody counts it."""

    number: int
    device: str
    is_lost: bool
    dispatches: int
    compiles: int
    failures: int
    in_flight: int | None
    bytes_up: int
    bytes_down: int
    memory_bytes: int
    hits: int
    misses: int
    kernels: tuple[SeenKernel, ...]
    buffers: tuple[SeenBuffers, ...]


@dataclass(frozen=True, slots=True)
class SeenProcess:
    """A process that shows itself; ``taken_ns`` is when, by a clock that only goes on."""

    pid: int
    command: str
    taken_ns: int
    drivers: tuple[SeenDriver, ...]


@dataclass(frozen=True, slots=True)
class Unread:
    """A socket that gave nothing that can be shown, and why."""

    name: str
    why: str


def read_processes(within_s: float) -> tuple[list[SeenProcess], list[Unread]]:
    """Return what every process of this user shows, asked at once, and what could not be read in time.

    Sockets that killed processes have left are removed. Raises NoPlace if there is no directory for them.
    """
    opened = directory()
    with ExitStack() as stack:
        stack.callback(os.close, opened)
        remove_stale(opened)
        names = sorted(name for name in listed(opened) if not name.startswith("."))
        waiting: dict[int, _Answer] = {}
        unread = [Unread(name, f"there are more than {_MOST_PROCESSES}") for name in names[_MOST_PROCESSES:]]
        for name in names[:_MOST_PROCESSES]:
            end = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            end.setblocking(False)
            try:
                end.connect(address(opened, name))
                if peer_uid(end) != os.geteuid():
                    raise OSError(0, "it belongs to another user")  # noqa: TRY301 -- told like the others
            except OSError as error:
                unread.append(Unread(name, error.strerror or str(error)))
            else:
                waiting[end.fileno()] = _Answer(name, end)
        answers = list(waiting.values())
        _receive(waiting, time.monotonic() + within_s)
    seen = [one.process() for one in answers]
    return (
        sorted([one for one in seen if isinstance(one, SeenProcess)], key=lambda one: one.pid),
        unread + [one for one in seen if isinstance(one, Unread)],
    )


class _Answer:
    """What comes from one socket."""

    def __init__(self, name: str, end: socket.socket) -> None:
        self.name, self.end = name, end
        self.data = bytearray()
        self.why = "it did not answer in time"

    def receive(self) -> bool:
        """Take what is there; returns whether more may come."""
        try:
            part = self.end.recv(_CHUNK_BYTES)
        except BlockingIOError:
            return True
        except OSError as error:
            self.why = error.strerror or str(error)
            return False
        self.data += part
        self.why = "" if not part else "it sends without end" if len(self.data) > _MOST_BYTES else self.why
        return bool(part) and len(self.data) <= _MOST_BYTES

    def process(self) -> SeenProcess | Unread:
        """Return what was read."""
        if self.why:
            return Unread(self.name, self.why)
        try:
            return _process_of(json.loads(self.data))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return Unread(self.name, "what it sends is not what a driver shows")


def _receive(waiting: dict[int, _Answer], deadline: float) -> None:
    poll = select.poll()
    for number in waiting:
        poll.register(number, select.POLLIN)
    while waiting:
        left_s = deadline - time.monotonic()
        ready = poll.poll(max(0.0, left_s) * 1000)
        if left_s <= 0 and not ready:
            return
        for number, _ in ready:
            if not waiting[number].receive():
                poll.unregister(number)
                del waiting[number]
        if left_s <= 0:
            return


def _process_of(data: Any) -> SeenProcess:  # noqa: ANN401 -- whatever JSON holds
    """Return a document as a process; raises ValueError, KeyError, TypeError or AttributeError if it is none."""
    if data["schema"] != SCHEMA:
        raise ValueError("another version shows itself otherwise")
    drivers = tuple([_driver_of(one) for one in data["drivers"]])
    return SeenProcess(_count(data["pid"]), _text(data["command"]), _count(data["taken_ns"]), drivers)


def _driver_of(data: Any) -> SeenDriver:  # noqa: ANN401 -- whatever JSON holds
    events, cache = data["events"], data["cache"]
    counts = {kind: _count(events[kind]["count"]) for kind in ("dispatch", "compile", "failure")}
    kernels = [SeenKernel(_text(one["name"]), _count(one["dispatches"]), _count(one["total_ns"])) for one in data["kernels"]]
    buffers = [SeenBuffers(_text(one["name"]), _count(one["count"]), _count(one["bytes"])) for one in data["buffers"]]
    return SeenDriver(
        _count(data["number"]),
        _text(data["device"]),
        bool(data["is_lost"]),
        counts["dispatch"],
        counts["compile"],
        counts["failure"],
        None if data["in_flight"] is None else _count(data["in_flight"]),
        _count(data["moved"]["up"]),
        _count(data["moved"]["down"]),
        _count(data["memory_bytes"]),
        _count(cache.get("hit", 0)),
        _count(cache.get("miss", 0)),
        tuple(kernels),
        tuple(buffers),
    )


def _count(value: object) -> int:
    if type(value) is not int or not 0 <= value < _LARGEST:
        raise ValueError(f"{value!r} is no count")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value
