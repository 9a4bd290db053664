"""Interleaved timing: each round runs every contender, so that a drift of the machine falls on all of them."""

from __future__ import annotations

import argparse
import datetime as dt
import json
import platform
import statistics
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


@dataclass(frozen=True, slots=True)
class Row:
    """One figure: median, 10th and 90th percentile of the rounds' medians, in microseconds a call."""

    what: str
    contender: str
    median_us: float
    p10_us: float
    p90_us: float


def time_call(call: Callable[[], object], repeats: int, divide_by: int = 1) -> float:
    """Return the median microseconds of a call over ``repeats``, divided by what one call does."""
    times = []
    for _ in range(repeats):
        began = time.perf_counter_ns()
        call()
        times.append(time.perf_counter_ns() - began)
    return statistics.median(times) / 1000 / divide_by


def interleave(what: str, contenders: Mapping[str, Callable[[], float]], rounds: int, busy_s: float = 0) -> list[Row]:
    """Run every contender once a round; each returns its median in microseconds.

    With ``busy_s`` each is measured again until it has kept the device busy for so long, and the last figure counts: an idle
    device has slowed its clock down, and the processor's caches hold what the contender before it has used.
    """
    figures: dict[str, list[float]] = {name: [] for name in contenders}
    for name, measure in contenders.items():
        measure()
        del name
    for _ in range(rounds):
        for name, measure in contenders.items():
            figures[name].append(_measured_busy(measure, busy_s))
    return [_row(what, name, values) for name, values in figures.items()]


def _measured_busy(measure: Callable[[], float], busy_s: float) -> float:
    end = time.perf_counter() + busy_s
    found = measure()
    while time.perf_counter() < end:
        found = measure()
    return found


def _row(what: str, name: str, values: list[float]) -> Row:
    ordered = sorted(values)
    return Row(what, name, statistics.median(ordered), ordered[len(ordered) // 10], ordered[(len(ordered) * 9) // 10])


def parser(description: str | None) -> argparse.ArgumentParser:
    """Return the options every benchmark has."""
    options = argparse.ArgumentParser(description=description)
    options.add_argument("--json", action="store_true", help="print data instead of a table")
    options.add_argument("--rounds", type=int, default=7, help="rounds, each with every contender (default 7)")
    options.add_argument("--repeats", type=int, default=200, help="calls a round (default 200)")
    options.add_argument("--device", help="as vyre-driver's --device")
    return options


def print_rows(rows: list[Row], facts: Mapping[str, Any], *, as_json: bool) -> None:
    """Print the rows with the facts that a figure is worth nothing without."""
    facts = {
        "date": dt.datetime.now(tz=dt.timezone.utc).date().isoformat(),
        "python": platform.python_version(),
        "machine": platform.machine(),
        **facts,
    }
    if as_json:
        data = [{name: getattr(row, name) for name in Row.__slots__} for row in rows]
        json.dump({"schema": 1, "facts": facts, "rows": data}, sys.stdout, indent=1)
        print()
        return
    for name, value in facts.items():
        print(f"{name}: {value}")
    for row in rows:
        print(f"{row.what:48} {row.contender:10} {row.median_us:12.2f} us  ({row.p10_us:.2f} .. {row.p90_us:.2f})")
