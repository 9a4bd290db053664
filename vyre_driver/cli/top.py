"""``vyre-driver top``: what the drivers of this user's processes do, again and again on a terminal, once elsewhere.

Seen are processes that run with VYRE_TOP=1: a row for each driver, its kernels and its buffers below it. A process sends text
that Prometheus could read, of which nothing is believed: bytes, processes, time and numbers are bounded.
"""

from __future__ import annotations

import os
import re
import socket
import sys
import time
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple

from vyre_driver import settings
from vyre_driver.cli.options import add_json, human_bytes, human_measure, print_json, printable, say
from vyre_driver.display.line import aligned, count
from vyre_driver.errors import InvalidCommand
from vyre_driver.telemetry.prometheus import PREFIX
from vyre_driver.telemetry.serving import MOST_BYTES, NoPlace, address, directory, listed, peer, remove_stale

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Iterator

_ANSWER_S = 1.0
_INTERVAL_S = 1.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the verb takes."""
    parser.add_argument("--once", action="store_true", help="print one table, after a second")
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    """Show them until Ctrl-C on a terminal; elsewhere, and with --once or --json, once."""
    if options.json:
        look = look_at_all(_ANSWER_S)
        print_json({"drivers": [driver._asdict() for driver in look.drivers], "unread": look.unread})
    elif options.once or not sys.stdout.isatty():
        before = look_at_all(_ANSWER_S)
        time.sleep(_INTERVAL_S)
        say("\n".join(map(printable, lines_of(before, look_at_all(_ANSWER_S)))))  # a name may hold a line feed
    else:
        with suppress(KeyboardInterrupt):  # which is the way out
            _show()
    return 0


def _show() -> None:
    from rich.console import Console  # late: a pipe needs none
    from rich.live import Live
    from rich.text import Text

    console = Console(highlight=False, markup=False, emoji=False)
    with Live(console=console, screen=True, auto_refresh=False) as live:
        before = Look(0.0, [], {})
        while True:
            look = look_at_all(_ANSWER_S)
            lines = [printable(line)[: console.width] for line in lines_of(before, look)]
            live.update(Text("\n".join(lines[: console.height])), refresh=True)
            before = look
            time.sleep(_INTERVAL_S)


class SeenDriver(NamedTuple):
    """A driver as its process shows it: its metrics by name, without the prefix, and by the values of the labels they have."""

    pid: int
    socket: str
    number: str
    device: str
    command: str
    metrics: dict[str, dict[str, float]]

    def value(self, name: str, labels: str = "") -> float:
        """Return a metric, 0 where the process shows none."""
        return self.metrics.get(name, {}).get(labels, 0.0)

    def largest(self, name: str) -> list[tuple[str, float]]:
        """Return the values of a metric by their labels, the largest first."""
        return sorted(self.metrics.get(name, {}).items(), key=lambda item: -item[1])


class Look(NamedTuple):
    """What was seen from a second of the monotonic clock on, and why the sockets that are not shown could not be read."""

    at_s: float
    drivers: list[SeenDriver]
    unread: dict[str, str]


_HEAD = (
    *("PID", "COMMAND", "DRIVER", "DEVICE", "DISPATCHES", "PER S", "FAILED"),
    *("IN FLIGHT", "MEMORY", "UP/S", "DOWN/S", "CACHE"),
)
_LEFT = frozenset({1, 3, 11})
_WIDEST = 28
_SHOWN = 5


def lines_of(before: Look, now: Look) -> Iterator[str]:
    """Yield the lines of the table; rates are those of drivers that were there before."""
    old = {(driver.socket, driver.number): driver for driver in before.drivers}
    processes = len({driver.socket for driver in now.drivers})
    yield f"{count(processes, 'process')}, {count(len(now.drivers), 'driver')}"
    if not processes:
        yield f"no process of this user shows its drivers; those that start with {settings.TOP.variable}=1 do"
    rows = [_row(driver, old.get((driver.socket, driver.number)), now.at_s - before.at_s) for driver in now.drivers]
    head, *lines = aligned([_HEAD, *rows], _LEFT)
    if rows:
        yield head
    for line, driver in zip(lines, now.drivers, strict=True):
        yield line
        yield from _details(driver)
    for name, why in now.unread.items():
        yield f"{name}: not shown, {why}"


def _row(driver: SeenDriver, old: SeenDriver | None, seconds: float) -> tuple[str, ...]:
    def rate(name: str, labels: str, show: Callable[[float], str]) -> str:
        return "-" if old is None else show((driver.value(name, labels) - old.value(name, labels)) / seconds)

    in_flight = f"{driver.value('in_flight'):.0f}" if "in_flight" in driver.metrics else "-"
    return (
        f"{driver.pid}",
        driver.command[:_WIDEST],
        driver.number[:_WIDEST],
        driver.device[:_WIDEST],
        f"{driver.value('events_total', 'dispatch'):,.0f}",
        rate("events_total", "dispatch", "{:,.0f}".format),
        f"{driver.value('events_total', 'failure'):,.0f}",
        "lost" if driver.value("device_lost") else in_flight,
        _bytes(driver.value("memory_bytes")),
        rate("moved_bytes_total", "up", _bytes),
        rate("moved_bytes_total", "down", _bytes),
        ", ".join(count(round(driver.value("cache_total", what)), what) for what in ("hit", "miss")),
    )


def _details(driver: SeenDriver) -> Iterator[str]:
    """Yield the kernels with most dispatches, and the names of the largest buffers."""
    kernels, buffers = driver.largest("kernel_dispatches_total"), driver.largest("buffer_bytes")
    for name, number in kernels[:_SHOWN]:
        mean = f", {human_measure(driver.value('kernel_seconds_total', name) / number, 's')} each" if number else ""
        yield f"    kernel {name[:_WIDEST]}: {count(round(number), 'dispatch')}{mean}"
    if len(kernels) > _SHOWN:
        yield f"    and {count(len(kernels) - _SHOWN, 'kernel')} more"
    for name, byte_len in buffers[:_SHOWN]:
        number = driver.value("buffers", name)
        yield f"    memory {name[:_WIDEST] or '(unnamed)'}: {_bytes(byte_len)} in {count(round(number), 'buffer')}"
    if len(buffers) > _SHOWN:
        yield f"    and {count(len(buffers) - _SHOWN, 'name')} more"


def _bytes(number: float) -> str:
    return human_bytes(round(number))


_MOST_PROCESSES = 256
_CHUNK_BYTES = 1 << 16
_LARGEST = 2.0**63
_SAMPLE = re.compile(PREFIX + r"(\w+)\{(.*)\} (\S+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_ESCAPED = re.compile(r"\\(.)")


def look_at_all(within_s: float) -> Look:
    """Return what every process of this user shows, asked at once, and what could not be read in time.

    Sockets that killed processes have left are removed.

    Raises
    ------
    InvalidCommand
        If there is no directory for sockets.
    """
    try:
        opened = directory()
    except NoPlace as error:
        fix = "set XDG_RUNTIME_DIR to a directory that only you may enter"
        raise InvalidCommand(f"no sockets can be looked for: {error}", fix=fix) from error
    look, asked = Look(time.monotonic(), [], {}), {}
    with ExitStack() as stack:
        stack.callback(os.close, opened)
        remove_stale(opened)
        names = sorted(name for name in listed(opened) if not name.startswith("."))
        for name in names[:_MOST_PROCESSES]:
            end = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            with _noting(look.unread, name):
                asked[name] = end, _connected(end, address(opened, name))
        for name, (end, pid) in asked.items():
            with _noting(look.unread, name):
                look.drivers.extend(_drivers_of(_received(end, look.at_s + within_s).decode(), pid, name))
    look.unread.update(dict.fromkeys(names[_MOST_PROCESSES:], f"there are more than {_MOST_PROCESSES}"))
    look.drivers.sort(key=lambda driver: driver.pid)
    return look


@contextmanager
def _noting(unread: dict[str, str], name: str) -> Iterator[None]:
    """Note why a socket could not be read."""
    try:
        yield
    except (BlockingIOError, TimeoutError):
        unread[name] = "it did not answer in time"
    except OSError as error:
        unread[name] = error.strerror or str(error)
    except ValueError:
        unread[name] = "what it sends is not what a driver shows"


def _connected(end: socket.socket, place: str) -> int:
    """Connect without waiting, and return the process at the other end, which must be of this user."""
    end.setblocking(False)
    end.connect(place)
    pid, uid = peer(end)
    if uid != os.geteuid():
        raise OSError(0, "it belongs to another user")
    return pid


def _received(end: socket.socket, deadline: float) -> bytes:
    """Return what a socket sends until its end: behind the deadline what is there already."""
    data = b""
    while len(data) <= MOST_BYTES:
        end.settimeout(max(0.0, deadline - time.monotonic()))
        part = end.recv(_CHUNK_BYTES)
        if not part:
            return data
        data += part
    raise OSError(0, "it sends without end")


def _drivers_of(text: str, pid: int, name: str) -> Iterable[SeenDriver]:
    """Return the drivers of a text; raises ValueError at a line that is no sample of one, or that no driver counts to."""
    drivers: dict[str, SeenDriver] = {}
    for line in text.split("\n"):
        if not line or line.startswith("#"):
            continue
        found = _SAMPLE.fullmatch(line)
        value = -1.0 if found is None else float(found[3])
        if found is None or not 0 <= value < _LARGEST:
            raise ValueError(f"{line!r} is no sample of a driver")
        labels = {label: _ESCAPED.sub(_unescaped, said) for label, said in _LABEL.findall(found[2])}
        number, device, _ = (labels.pop(label, "") for label in ("number", "device", "uuid"))
        command = labels.get("command", "")  # of the first metric, ``info``
        driver = drivers.setdefault(number, SeenDriver(pid, name, number, device, command, {}))
        driver.metrics.setdefault(found[1], {})[" ".join(labels.values())] = value
    return drivers.values()


def _unescaped(found: re.Match[str]) -> str:
    return "\n" if found[1] == "n" else found[1]
