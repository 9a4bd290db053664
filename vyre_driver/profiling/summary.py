"""The figures of a trace as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_driver.display.line import count
from vyre_driver.profiling.figures import figures_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vyre_driver.profiling.figures import Figures, TrackTimes
    from vyre_driver.profiling.trace_events import Document

_MOST_KERNELS = 15
_MOST_STAGES = 12
_WIDEST = 32


def text_of(document: Document, bandwidth: float | None = None) -> str:
    """Return the summary of a document; ``bandwidth`` are bytes a second of the device's memory, None where not known."""
    figures = figures_of(document)
    parts = [_head(figures), _kernels(figures, bandwidth), _device(figures.tracks), _host(figures)]
    return "\n\n".join(part for part in parts if part) + "\n"


def duration(us: float) -> str:
    """Return microseconds in the unit that fits."""
    if us >= 1e6:
        return f"{us / 1e6:.2f} s"
    return f"{us / 1e3:.2f} ms" if us >= 1e3 else f"{us:.1f} us"


def rate(bytes_per_second: float | None) -> str:
    """Return bytes a second in GB/s; nothing for None."""
    return "" if bytes_per_second is None else f"{bytes_per_second / 1e9:.1f} GB/s"


def notes_of(figures: Figures) -> list[str]:
    """Return, for each driver, the device, whose clock was read, and what is missing."""
    found = []
    for one in figures.about["drivers"]:
        found.append(f"{one['device']} (process {one['pid']}, driver {one['number']}): times by {one['clock']}")
        found += [f"  missing: {number} {name}" for name, number in one["missing"].items()]
    return found


def _head(figures: Figures) -> str:
    failed = f", {count(figures.failures, 'failure')}" if figures.failures else ""
    return "\n".join([f"Profile of {duration(figures.seconds * 1e6)}{failed}", *notes_of(figures)])


def _kernels(figures: Figures, bandwidth: float | None) -> str:
    rows = [("on the device", "count", "total", "median", "p90", "moves", "of the copy's")]
    for one in figures.kernels[:_MOST_KERNELS]:
        moved = one.bytes_per_second
        share = "" if moved is None or not bandwidth else f"{moved / bandwidth:.0%}"
        name = one.name if len(one.name) <= _WIDEST else one.name[: _WIDEST - 3] + "..."
        times = (duration(one.total_us), duration(one.median_us), duration(one.p90_us))
        rows.append((name, str(one.count), *times, rate(moved), share))
    more = len(figures.kernels) - _MOST_KERNELS
    lines = _table([row if bandwidth else row[:-1] for row in rows])
    lines += [f"  and {more} more"] if more > 0 else []
    lines += [f"A copy on the device moves {rate(bandwidth)}."] if bandwidth else []
    return "\n".join(lines) if figures.kernels else "The device did nothing."


def _device(tracks: Sequence[TrackTimes]) -> str:
    lines = []
    for one in tracks:
        whole = one.to_us - one.from_us
        share = one.busy_us / whole if whole else 1.0
        lines.append(f"{one.name}: busy {duration(one.busy_us)} of {duration(whole)} ({share:.0%})")
        longest = ", ".join(f"{duration(took)} at {duration(at)}" for at, took in one.gaps)
        lines += [f"  longest gaps: {longest}"] if longest else []
    return "\n".join(lines)


def _host(figures: Figures) -> str:
    rows = [("on the host", "count", "total")]
    rows += [(name, str(number), duration(s * 1e6)) for name, (number, s) in list(figures.host.items())[:_MOST_STAGES]]
    return "\n".join(_table(rows)) if figures.host else ""


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        lines.append("  ".join(cells).rstrip())
    return lines
