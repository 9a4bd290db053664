"""``vyre-driver top``: what the drivers of this user's processes do, again and again on a terminal, once elsewhere.

Seen are processes that run with VYRE_TOP=1: a row for each driver, its kernels and its buffers below it. Nothing that a process
sends is believed unseen.
"""

from __future__ import annotations

import json
import os
import select
import socket
import sys
import time
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from vyre_driver import settings
from vyre_driver.cli.options import add_json, human_bytes, human_count, human_measure, print_json, printable, say
from vyre_driver.display.line import aligned
from vyre_driver.errors import InvalidCommand
from vyre_driver.telemetry.serving import SCHEMA, NoPlace, address, directory, listed, peer_uid, remove_stale

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

Seen: TypeAlias = "tuple[list[SeenProcess], list[Unread]]"
_ANSWER_S = 1.0
_INTERVAL_S = 1.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the verb takes."""
    parser.add_argument("--once", action="store_true", help="print one table, after a second")
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    """Show them until Ctrl-C on a terminal; elsewhere, and with --once or --json, once."""
    if options.json or options.once or not sys.stdout.isatty():
        before = _read()
        time.sleep(_INTERVAL_S)
        seen = _read()
        rates = rates_of(before[0], seen[0])
        if options.json:
            print_json(_as_data(seen, rates))
        else:
            say("\n".join(map(printable, lines_of(*seen, rates))))  # a name may hold a line feed
        return 0
    with suppress(KeyboardInterrupt):  # which is the way out
        _show()
    return 0


def _show() -> None:
    from rich.console import Console  # late: a pipe needs none
    from rich.live import Live
    from rich.text import Text

    console = Console(highlight=False, markup=False, emoji=False)
    with Live(console=console, screen=True, auto_refresh=False) as live:
        before: Seen = ([], [])
        while True:
            seen = _read()
            lines = [printable(line)[: console.width] for line in lines_of(*seen, rates_of(before[0], seen[0]))]
            live.update(Text("\n".join(lines[: console.height])), refresh=True)
            before = seen
            time.sleep(_INTERVAL_S)


def _read() -> Seen:
    try:
        return read_processes(_ANSWER_S)
    except NoPlace as error:
        raise InvalidCommand(
            f"no sockets can be looked for: {error}", fix="set XDG_RUNTIME_DIR to a directory that only you may enter"
        ) from error


def _as_data(seen: Seen, rates: Rates) -> dict[str, object]:
    """Return plain data: times in ns, and of each driver the rates of the last second, None where it was not there before."""
    processes = []
    for one in seen[0]:
        drivers = [
            {**asdict(driver), "per_second": None if rate is None else rate._asdict()}
            for driver in one.drivers
            for rate in [rates.get((one.pid, driver.number))]
        ]
        processes.append({"pid": one.pid, "command": one.command, "drivers": drivers})
    return {"processes": processes, "unread": [asdict(one) for one in seen[1]]}


_HEAD = (
    *("PID", "COMMAND", "DRIVER", "DEVICE", "DISPATCHES", "PER S", "FAILED"),
    *("IN FLIGHT", "MEMORY", "UP/S", "DOWN/S", "CACHE"),
)
_LEFT = frozenset({1, 3, 11})
_WIDEST = 28
_SHOWN = 5
_NS_PER_S = 1e9


class Rate(NamedTuple):
    """What a driver does in a second."""

    dispatches: float
    bytes_up: float
    bytes_down: float


Rates: TypeAlias = dict[tuple[int, int], Rate]
"""By process and driver."""


def rates_of(before: Sequence[SeenProcess], now: Sequence[SeenProcess]) -> Rates:
    """Return what drivers that were there before, and have counted on since, do in a second."""
    known = {(one.pid, driver.number): (one.taken_ns, driver) for one in before for driver in one.drivers}
    found: Rates = {}
    for one in now:
        for driver in one.drivers:
            taken_ns, old = known.get((one.pid, driver.number), (one.taken_ns, driver))
            seconds = (one.taken_ns - taken_ns) / _NS_PER_S
            grown = [
                driver.dispatches - old.dispatches,
                driver.bytes_up - old.bytes_up,
                driver.bytes_down - old.bytes_down,
            ]
            if seconds > 0 and min(grown) >= 0:
                found[one.pid, driver.number] = Rate(*(each / seconds for each in grown))
    return found


def lines_of(processes: Sequence[SeenProcess], unread: Sequence[Unread], rates: Rates) -> Iterator[str]:
    """Yield the lines of the table."""
    drivers = [(one, driver) for one in processes for driver in one.drivers]
    yield f"{_several(len(processes), 'process', 'processes')}, {human_count(len(drivers), 'driver')}"
    if not processes:
        yield f"no process of this user shows its drivers; those that start with {settings.TOP.variable}=1 do"
    rows = [_row(one, driver, rates.get((one.pid, driver.number))) for one, driver in drivers]
    head, *lines = aligned([_HEAD, *rows], _LEFT)
    if rows:
        yield head
    for line, (_, driver) in zip(lines, drivers, strict=True):
        yield line
        yield from _details(driver)
    for one in unread:
        yield f"{one.name}: not shown, {one.why}"


def _row(process: SeenProcess, driver: SeenDriver, rate: Rate | None) -> tuple[str, ...]:
    state = "lost" if driver.is_lost else "-" if driver.in_flight is None else f"{driver.in_flight}"
    return (
        f"{process.pid}",
        process.command[:_WIDEST],
        f"{driver.number}",
        driver.device[:_WIDEST],
        f"{driver.dispatches:,}",
        "-" if rate is None else f"{rate.dispatches:,.0f}",
        f"{driver.failures:,}",
        state,
        human_bytes(driver.memory_bytes),
        "-" if rate is None else human_bytes(round(rate.bytes_up)),
        "-" if rate is None else human_bytes(round(rate.bytes_down)),
        f"{_several(driver.hits, 'hit', 'hits')}, {_several(driver.misses, 'miss', 'misses')}",
    )


def _details(driver: SeenDriver) -> Iterator[str]:
    """Yield the kernels with most dispatches, and the names of the largest buffers."""
    kernels = sorted(driver.kernels, key=lambda one: -one.dispatches)
    for one in kernels[:_SHOWN]:
        mean = f", {human_measure(one.total_ns / one.dispatches / _NS_PER_S, 's')} each" if one.dispatches else ""
        yield f"    kernel {one.name[:_WIDEST]}: {_several(one.dispatches, 'dispatch', 'dispatches')}{mean}"
    if len(kernels) > _SHOWN:
        yield f"    and {human_count(len(kernels) - _SHOWN, 'kernel')} more"
    buffers = sorted(driver.buffers, key=lambda one: -one.bytes)
    for two in buffers[:_SHOWN]:
        name, number = two.name[:_WIDEST] or "(unnamed)", human_count(two.count, "buffer")
        yield f"    memory {name}: {human_bytes(two.bytes)} in {number}"
    if len(buffers) > _SHOWN:
        yield f"    and {human_count(len(buffers) - _SHOWN, 'name')} more"


def _several(number: int, one: str, several: str) -> str:
    return f"{number:,} {one if number == 1 else several}"


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
