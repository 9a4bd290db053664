"""A trace as one HTML page, which loads nothing and needs no JavaScript."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from vyre_driver._version import __version__
from vyre_driver.profiling.charts import bandwidth_bars, histogram, roofline, timeline
from vyre_driver.profiling.figures import figures_of
from vyre_driver.profiling.summary import duration, notes_of, rate

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from vyre_driver.profiling.figures import Figures, KernelTimes
    from vyre_driver.profiling.trace_events import Document

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
.roof { stroke: var(--failure); stroke-width: 2; stroke-dasharray: 6 4; }
table { border-collapse: collapse; width: 100%; } .wide { overflow-x: auto; }
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


def html_of(document: Document, bandwidth: float | None, flops: Mapping[str, float]) -> str:
    """Return the page; ``bandwidth`` in bytes a second, None where not known, ``flops`` of one dispatch by kernel's name."""
    figures = figures_of(document)
    kernels = figures.kernels
    colours = "".join(f".c-{name} {{ fill: var(--{name}); background: var(--{name}); }}\n" for name in _CATEGORIES)
    sections = [
        ("Timeline", _keys(document) + timeline(document), "Point at a bar for its time. Zoom in Perfetto: the saved trace."),
        ("On the device", _kernel_table(kernels, bandwidth), ""),
        ("Bytes a second", bandwidth_bars(kernels[:_MOST_HISTOGRAMS], bandwidth), _BYTES),
        ("Roofline", roofline(kernels, bandwidth, flops), "The dashed line is what the memory of the device allows."),
        ("How long dispatches took", _histograms(kernels), "The axis of times is logarithmic."),
        ("When the device was idle", _idle(figures), ""),
        (
            "On the host",
            _host_table(figures),
            _HOST,
        ),
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
    head = ["kernel", "count", "total", "median", "90 %", "moves", *(["of a copy's"] if bandwidth else [])]
    rows = []
    for one in kernels[:_MOST_ROWS]:
        moved = one.bytes_per_second
        share = [f"{moved / bandwidth:.0%}" if moved else ""] if bandwidth else []
        times = [duration(each) for each in (one.total_us, one.median_us, one.p90_us)]
        rows.append([one.name, str(one.count), *times, rate(moved), *share])
    more = len(kernels) - _MOST_ROWS
    return _table(head, rows) + (f"<p>and {more} more</p>" if more > 0 else "")


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    top = "".join(f"<th>{escape(one)}</th>" for one in head)
    lines = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>\n" for row in rows)
    return f'<div class="wide"><table><thead><tr>{top}</tr></thead>\n<tbody>{lines}</tbody></table></div>'


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
    return _table(["queue", "from first to last", "busy", "longest gaps"], rows) if rows else ""


def _host_table(figures: Figures) -> str:
    rows = [[name, str(number), duration(s * 1e6)] for name, (number, s) in list(figures.host.items())[:_MOST_ROWS]]
    return _table(["stage", "count", "total"], rows) if rows else ""
