"""A trace as one HTML page with its pictures in SVG: it loads nothing, and needs no JavaScript."""

from __future__ import annotations

import math
from collections import defaultdict
from html import escape
from typing import TYPE_CHECKING, NamedTuple

from vyre_driver._version import __version__
from vyre_driver.display.line import table
from vyre_driver.profiling.summary import HOST_HEAD, duration, figures_of, host_rows, kernel_head, kernel_rows, notes_of
from vyre_driver.profiling.trace_events import DEVICE_TRACKS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from vyre_driver.profiling.summary import Figures, KernelTimes
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


def _svg(height: float, inside: str, label: str) -> str:
    return f'<svg viewBox="0 0 {WIDTH:.0f} {height:.0f}" role="img" aria-label="{escape(label)}">{inside}</svg>'


def _short(name: str) -> str:
    most = 27
    return name if len(name) <= most else name[: most - 1] + "…"


_MOST_ROWS = 50
_MOST_HISTOGRAMS = 12
_FEWEST = 5  # dispatches of a histogram
_CATEGORIES = {
    "dispatch": "dispatch on the device",
    "copy": "copy on the device",
    "call": "call",
    "execute": "submit and wait",
    "submit": "submit",
    "transfer": "upload, read back",
    "wait": "wait",
    "compile": "compile",
    "cache": "cache",
    "failure": "failure",
}
_STYLE = """
:root { color-scheme: light dark; --page: #fcfcfb; --ink: #1b1b1a; --soft: #6a6a66; --line: #dddcd7; --panel: #f3f2ee;
  --dispatch: #2a6fdb; --copy: #0f8f7e; --call: #b9c3d3; --execute: #8fa6c9; --submit: #c58f1a; --transfer: #53a88f;
  --wait: #d8d4c8; --compile: #a35bb5; --cache: #d58bb0; --failure: #c8362b; --in: #10100f; }
@media (prefers-color-scheme: dark) {
  :root { --page: #161615; --ink: #ecebe6; --soft: #9c9b95; --line: #383733; --panel: #21201e;
    --dispatch: #5b9bf5; --copy: #35b8a4; --call: #4a5361; --execute: #5d7499; --submit: #d9a736; --transfer: #3f8a75;
    --wait: #45433c; --compile: #b978ca; --cache: #b76c92; --failure: #ef6a5e; --in: #fdfdfb; } }
body { margin: 2rem auto; max-width: 72rem; padding: 0 1.5rem; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin: 0 0 .2rem; } h2 { font-size: 1.1rem; margin: 2.2rem 0 .6rem; }
p, li { color: var(--soft); max-width: 60rem; } p { margin: .2rem 0; } ul { margin: .3rem 0; padding-left: 1.2rem; }
svg { display: block; width: 100%; height: auto; background: var(--panel); border-radius: 6px; padding: .6rem;
  box-sizing: border-box; }
svg text { font: 11px system-ui, sans-serif; fill: var(--ink); } svg .in { fill: var(--in); pointer-events: none; }
svg .tick { fill: var(--soft); text-anchor: middle; } .grid { stroke: var(--line); } .base { stroke: var(--soft); }
section { overflow-x: auto; } table { border-collapse: collapse; width: 100%; }
th, td { text-align: right; padding: .25rem .6rem; border-bottom: 1px solid var(--line); white-space: nowrap;
  font-variant-numeric: tabular-nums; }
th { color: var(--soft); font-weight: 500; }
th:first-child, td:first-child { text-align: left; white-space: normal; overflow-wrap: anywhere; }
.grid3 { display: grid; grid-template-columns: repeat(auto-fill, minmax(18rem, 1fr)); gap: 1rem; }
figure { margin: 0; } figcaption { font-size: .85rem; overflow-wrap: anywhere; } .key { display: inline-block; width: .8em;
  height: .8em; border-radius: 2px; margin: 0 .35em 0 1em; } .keys { margin-left: -1em; font-size: .85rem; }
.named { white-space: nowrap; }
.tiles { display: flex; flex-wrap: wrap; gap: 2.5rem; margin: 1.2rem 0 0; } .tiles b { display: block;
  font-size: 1.3rem; color: var(--ink); font-weight: 600; } .tiles span { color: var(--soft); font-size: .85rem; }
"""


def html_of(document: Document, bandwidth: float | None) -> str:
    """Return the page; ``bandwidth`` are bytes a second of the device's memory, None where not known."""
    figures = figures_of(document)
    kernels = figures.kernels
    colours = "".join(f".c-{name} {{ fill: var(--{name}); background: var(--{name}); }}\n" for name in _CATEGORIES)
    sections = [
        ("Timeline", _keys(document) + timeline(document), "Point at a bar for its time. Zoom in Perfetto: the saved trace."),
        ("On the device", _kernel_table(kernels, bandwidth), _BYTES if any(one.moved_bytes for one in kernels) else ""),
        ("How long dispatches took", _histograms(kernels), "The axis of times is logarithmic."),
        ("When the device was idle", _idle(figures), ""),
        ("On the host", table(host_rows(figures, _MOST_ROWS), head=("stage", *HOST_HEAD)) if figures.host else "", _HOST),
    ]
    body = "".join(
        f"<section><h2>{title}</h2>{f'<p>{about}</p>' if about else ''}{content}</section>\n"
        for title, content, about in sections
        if content
    )
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>Profile of {escape(_devices(figures))}</title>\n<style>{_STYLE}{colours}</style></head>\n<body>\n"
        f"<h1>Profile of {escape(_devices(figures))}</h1>\n"
        f"<ul>{''.join(f'<li>{escape(note)}</li>' for note in notes_of(figures))}</ul>\n"
        f"{_tiles(figures)}\n{body}<p>vyre_driver {__version__}</p>\n</body></html>\n"
    )


_HOST = "A stage within another counts in both; where the host waits, the device's work is included."
_BYTES = (
    "What the bindings hold is counted once where a kernel reads or writes it, and twice where it does both: "
    "kernels that read something again, or only a part of it, differ."
)


def _devices(figures: Figures) -> str:
    return ", ".join(dict.fromkeys(one["device"] for one in figures.about["drivers"]))


def _tiles(figures: Figures) -> str:
    busy = sum(one.busy_us for one in figures.tracks)
    facts = [
        (duration(figures.seconds * 1e6), "recorded"),
        (duration(busy), "the device was busy"),
        (str(sum(one.count for one in figures.kernels if one.category == "dispatch")), "submissions of work"),
        (duration(sum(figures.host.get(name, (0, 0.0))[1] for name in ("compile", "make pipeline")) * 1e6), "compiling"),
    ]
    facts += [(str(figures.failures), "failures")] if figures.failures else []
    return f'<div class="tiles">{"".join(f"<div><b>{value}</b><span>{name}</span></div>" for value, name in facts)}</div>'


def _keys(document: Document) -> str:
    there = {one["cat"].rpartition(" ")[2] for one in document["traceEvents"] if one["ph"] == "X"}
    keys = [
        f'<span class="named"><span class="key c-{name}"></span>{about}</span> '
        for name, about in _CATEGORIES.items()
        if name in there
    ]
    return f'<p class="keys">{"".join(keys)}</p>' if keys else ""


def _kernel_table(kernels: Sequence[KernelTimes], bandwidth: float | None) -> str:
    if not kernels:
        return "<p>The device did nothing.</p>"
    more = len(kernels) - _MOST_ROWS
    shown = table(kernel_rows(kernels[:_MOST_ROWS], bandwidth), head=("kernel", *kernel_head(bandwidth)))
    return shown + (f"<p>and {more} more</p>" if more > 0 else "")


def _histograms(kernels: Sequence[KernelTimes]) -> str:
    shown = [one for one in kernels if one.count >= _FEWEST][:_MOST_HISTOGRAMS]
    figures = "".join(
        f"<figure>{histogram(one)}<figcaption>{escape(one.name)}, {one.count} times</figcaption></figure>" for one in shown
    )
    return f'<div class="grid3">{figures}</div>' if shown else ""


def _idle(figures: Figures) -> str:
    rows = []
    for one in figures.tracks:
        whole = one.to_us - one.from_us
        gaps = ", ".join(f"{duration(took)} at {duration(at)}" for at, took in one.gaps[:3])
        rows.append([one.name, duration(whole), f"{one.busy_us / whole:.0%}" if whole else "100%", gaps])
    return table(rows, head=("queue", "from first to last", "busy", "longest gaps")) if rows else ""
