"""The table of ``vyre-driver top``: a row for each driver, its kernels and its buffers below it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from vyre_driver import settings
from vyre_driver.cli.progress import human_bytes, human_count, human_measure

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vyre_driver.telemetry.reading import SeenDriver, SeenProcess, Unread

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
    widths = [max(len(row[at]) for row in (_HEAD, *rows)) for at in range(len(_HEAD))]
    if rows:
        yield _joined(_HEAD, widths)
    for row, (_, driver) in zip(rows, drivers, strict=True):
        yield _joined(row, widths)
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


def _joined(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = [
        cell.ljust(width) if at in _LEFT else cell.rjust(width)
        for at, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return "  ".join(padded).rstrip()


def _several(number: int, one: str, several: str) -> str:
    return f"{number:,} {one if number == 1 else several}"
