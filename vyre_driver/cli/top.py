"""``vyre-driver top``: what the drivers of this user's processes do, again and again on a terminal, once elsewhere.

Seen are processes that run with VYRE_TOP=1.
"""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING

from vyre_driver.cli.options import add_json, print_json, printable, say
from vyre_driver.cli.top_table import Rates, lines_of, rates_of
from vyre_driver.errors import InvalidCommand
from vyre_driver.telemetry.reading import read_processes
from vyre_driver.telemetry.serving import NoPlace

if TYPE_CHECKING:
    import argparse

    from vyre_driver.telemetry.reading import SeenProcess, Unread

    Seen = tuple[list[SeenProcess], list[Unread]]

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
