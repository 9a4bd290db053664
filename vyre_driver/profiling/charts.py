"""The pictures of a report, as SVG whose colours are the page's: a timeline, histograms, and the roofline."""

from __future__ import annotations

import math
from collections import defaultdict
from html import escape
from typing import TYPE_CHECKING, NamedTuple

from vyre_driver.profiling.summary import duration, rate
from vyre_driver.profiling.trace_events import DEVICE_TRACKS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from vyre_driver.profiling.figures import KernelTimes
    from vyre_driver.profiling.trace_events import Document, Event

WIDTH = 1000.0
_LEFT = 190.0
_ROW = 16.0
_DEEPEST = 5  # rows of a thread
_LEAST = 0.5  # width of what is seen at all
_BINS = 24
_SHORTEST_US = 1e-3  # a clock may give 0, which has no logarithm
_LANE_GAP = 10.0


class _Bar(NamedTuple):
    x: float
    width: float
    row: int
    category: str
    title: str
    name: str


def timeline(document: Document) -> str:
    """Return the lanes of queues and threads over time; what is less than half a point wide goes into one bar with others."""
    events = [one for one in document["traceEvents"] if one["ph"] == "X"]
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in document["traceEvents"] if e["name"] == "thread_name"}
    if not events:
        return ""
    first = min(one["ts"] for one in events)
    last = max(one["ts"] + one["dur"] for one in events)
    scale = (WIDTH - _LEFT) / max(last - first, 1e-3)
    lanes: dict[tuple[int, int], list[Event]] = defaultdict(list)
    for one in events:
        lanes[one["pid"], one["tid"]].append(one)
    y, parts = 24.0, []
    for lane in sorted(lanes, key=lambda lane: (lane[0], lane[1] < DEVICE_TRACKS, lane[1])):
        bars = _bars(lanes[lane], first, scale)
        rows = 1 + max(one.row for one in bars)
        parts.append(f'<text class="lane" x="0" y="{y + 12:.0f}">{escape(_short(names.get(lane, str(lane[1]))))}</text>')
        parts += [_drawn(one, y) for one in bars]
        y += rows * (_ROW + 1) + _LANE_GAP
    return _svg(y, _axis(first, last, scale, y) + "".join(parts), "What the device's queues and the host's threads did")


def _bars(events: Iterable[Event], first: float, scale: float) -> list[_Bar]:
    bars: list[_Bar] = []
    ends: list[float] = []
    latest: dict[int, int] = {}
    for one in sorted(events, key=lambda event: (event["ts"], -event["dur"])):
        while ends and ends[-1] <= one["ts"] + 1e-6:
            ends.pop()
        row = min(len(ends), _DEEPEST - 1)
        ends.append(one["ts"] + one["dur"])
        x, width = _LEFT + (one["ts"] - first) * scale, one["dur"] * scale
        category = one["cat"].rpartition(" ")[2]
        before = bars[latest[row]] if row in latest else None
        if before is not None and width < _LEAST and before.category == category and x - before.x - before.width < _LEAST:
            bars[latest[row]] = before._replace(width=max(before.width, x + width - before.x), title="", name="")
            continue
        title = f"{one['name']}: {duration(one['dur'])} at {duration(one['ts'])}"
        latest[row] = len(bars)
        bars.append(_Bar(x, width, row, category, title, one["name"]))
    return bars


def _drawn(bar: _Bar, y: float) -> str:
    top, width = y + bar.row * (_ROW + 1), max(bar.width, _LEAST)
    title = escape(bar.title or f"many of {bar.category}")
    shape = f'<rect class="c-{bar.category}" x="{bar.x:.2f}" y="{top:.0f}" width="{width:.2f}" height="{_ROW:.0f}">'
    room = int(width / 7.5)
    text = ""
    if bar.name and room >= 4:
        shown = bar.name if len(bar.name) <= room else bar.name[: room - 1] + "…"
        text = f'<text class="in" x="{bar.x + 3:.1f}" y="{top + 12:.0f}">{escape(shown)}</text>'
    return f"{shape}<title>{title}</title></rect>{text}"


def _axis(first: float, last: float, scale: float, bottom: float) -> str:
    step = _nice((last - first) / 8)
    parts = []
    at = 0.0
    while at <= last - first:
        x = _LEFT + at * scale
        parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="18" y2="{bottom:.0f}"/>')
        anchor = ' style="text-anchor:end"' if x > WIDTH - 30 else ""
        parts.append(f'<text class="tick"{anchor} x="{x:.1f}" y="12">{duration(at) if at else "0"}</text>')
        at += step
    return "".join(parts)


def _nice(step: float) -> float:
    power = 10.0 ** math.floor(math.log10(max(step, 1e-3)))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= step)


def _bin(duration_us: float, low_us: float, high_us: float) -> int:
    """Return the bar of a duration between the shortest and the longest one, on a logarithmic axis."""
    first, last, at = (math.log(max(one, _SHORTEST_US)) for one in (low_us, high_us, duration_us))
    return 0 if last <= first else min(_BINS - 1, int((at - first) / (last - first) * _BINS))


def histogram(kernel: KernelTimes) -> str:
    """Return how often a kernel took how long, from its shortest to its longest dispatch.

    The axis of times is logarithmic: one slow dispatch, such as the first, would leave the others a single bar on a linear one.
    """
    low, high = min(kernel.durations_us), max(kernel.durations_us)
    counts = [0] * _BINS
    for duration_us in kernel.durations_us:
        counts[_bin(duration_us, low, high)] += 1
    width, height = 300.0, 90.0
    each = width / _BINS
    bars = "".join(
        f'<rect class="c-{kernel.category}" x="{place * each:.1f}" y="{height - number / max(counts) * height:.1f}" '
        f'width="{each - 1:.1f}" height="{number / max(counts) * height:.1f}"><title>{number}</title></rect>'
        for place, number in enumerate(counts)
        if number
    )
    labels = (
        f'<text class="tick" style="text-anchor:start" x="0" y="{height + 14}">{duration(low)}</text>'
        f'<text class="tick" style="text-anchor:end" x="{width}" y="{height + 14}">{duration(high)}</text>'
    )
    base = f'<line class="base" x1="0" x2="{width}" y1="{height}" y2="{height}"/>'
    return (
        f'<svg class="small" viewBox="0 0 {width:.0f} {height + 20:.0f}" role="img" '
        f'aria-label="Histogram of {escape(kernel.name)}">{bars}{base}{labels}</svg>'
    )


def bandwidth_bars(kernels: Sequence[KernelTimes], bandwidth: float | None) -> str:
    """Return the bytes a second of each kernel, beside what a copy reaches."""
    known = [(one, one.bytes_per_second) for one in kernels if one.bytes_per_second]
    if not known:
        return ""
    roof = max([bandwidth or 0.0, *(moved or 0.0 for _, moved in known)])
    scale, y, parts = (WIDTH - _LEFT - 90) / roof, 8.0, []
    for one, moved in known:
        width = (moved or 0.0) * scale
        parts.append(f'<text class="lane" x="0" y="{y + 12:.0f}">{escape(_short(one.name))}</text>')
        parts.append(f'<rect class="c-{one.category}" x="{_LEFT}" y="{y:.0f}" width="{width:.1f}" height="{_ROW}"/>')
        parts.append(f'<text class="value" x="{_LEFT + width + 6:.1f}" y="{y + 12:.0f}">{rate(moved)}</text>')
        y += _ROW + 6
    if bandwidth:
        x = _LEFT + bandwidth * scale
        parts.append(f'<line class="roof" x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{y:.0f}"/>')
        parts.append(
            f'<text class="tick" style="text-anchor:end" x="{x:.1f}" y="{y + 12:.0f}">a copy: {rate(bandwidth)}</text>'
        )
    return _svg(y + 18, "".join(parts), "Bytes a second of each kernel")


def roofline(kernels: Sequence[KernelTimes], bandwidth: float | None, flops: Mapping[str, float]) -> str:
    """Return operations a second over operations a byte, under the memory's roof, of kernels whose operations are known."""
    known = [
        (one, flops[one.name] * one.count / one.moved_bytes, flops[one.name] / (one.total_us / one.count) * 1e6)
        for one in kernels
        if one.name in flops and one.moved_bytes and one.total_us
    ]
    if not known or not bandwidth:
        return ""
    height = 320.0
    low = min(0.1, *(x / 2 for _, x, _ in known)) if known else 0.1
    high = max(100.0, *(2 * x for _, x, _ in known))
    top = max(high * bandwidth, *(2 * y for _, _, y in known))
    bottom = min(low * bandwidth, *(y / 2 for _, _, y in known))

    def place(x: float, y: float) -> tuple[float, float]:
        across = (math.log10(x) - math.log10(low)) / (math.log10(high) - math.log10(low))
        up = (math.log10(y) - math.log10(bottom)) / (math.log10(top) - math.log10(bottom))
        return 70 + across * (WIDTH - 90), 10 + (1 - up) * (height - 50)

    parts = []
    for exponent in range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1):
        x, _ = place(10.0**exponent, bottom)
        parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="10" y2="{height - 40}"/>')
        parts.append(f'<text class="tick" x="{x:.1f}" y="{height - 24}">{10.0**exponent:g}</text>')
    for exponent in range(math.ceil(math.log10(bottom)), math.floor(math.log10(top)) + 1):
        _, y = place(low, 10.0**exponent)
        parts.append(f'<line class="grid" x1="70" x2="{WIDTH - 20}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text class="tick" style="text-anchor:end" x="64" y="{y + 4:.1f}">{10.0 ** (exponent - 9):g}</text>')
    (x1, y1), (x2, y2) = place(low, low * bandwidth), place(high, high * bandwidth)
    parts.append(f'<line class="roof" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>')
    for one, intensity, speed in known:
        x, y = place(intensity, speed)
        title = f"{one.name}: {speed / 1e9:.1f} GFLOP/s at {intensity:.2g} FLOP/byte"
        parts.append(f'<circle class="c-dispatch" cx="{x:.1f}" cy="{y:.1f}" r="6"><title>{escape(title)}</title></circle>')
        parts.append(f'<text class="value" x="{x + 10:.1f}" y="{y + 4:.1f}">{escape(_short(one.name))}</text>')
    parts.append(f'<text class="tick" x="{WIDTH / 2}" y="{height - 6}">FLOP/byte (GFLOP/s upwards)</text>')
    return _svg(height, "".join(parts), "Roofline")


def _svg(height: float, inside: str, label: str) -> str:
    return f'<svg viewBox="0 0 {WIDTH:.0f} {height:.0f}" role="img" aria-label="{escape(label)}">{inside}</svg>'


def _short(name: str) -> str:
    most = 27
    return name if len(name) <= most else name[: most - 1] + "…"
