"""The search of a tuning, drawn: the time of each candidate with its noise, and which one won; as text, and as SVG."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, NamedTuple

from vyre_driver.autotune.search.outcomes import Status
from vyre_driver.autotune.store.timings import parse_timings
from vyre_driver.cli.options import printable
from vyre_driver.cli.progress import human_count, human_measure
from vyre_driver.errors import FileUnusable
from vyre_driver.process.whole_files import write_whole

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from pathlib import Path

    from vyre_driver.autotune.search.outcomes import Outcome
    from vyre_driver.autotune.store.record import AutotuneRecord

_COLUMNS = 40
_MOST_LINES = 24
_WIDTH, _ROW, _HEAD, _LETTER = 640, 20, 44, 8.0
_STYLE = """
text { font: 12px system-ui, sans-serif; fill: #1b1b1a; } .soft { fill: #6a6a66; } .bar { fill: #8fa6c9; }
.best { fill: #2a6fdb; } .noise { stroke: #1b1b1a; stroke-width: 1.5; } .page { fill: #fcfcfb; }
@media (prefers-color-scheme: dark) { text { fill: #ecebe6; } .soft { fill: #9c9b95; } .bar { fill: #5d7499; }
.best { fill: #5b9bf5; } .noise { stroke: #ecebe6; } .page { fill: #161615; } }
"""


class Row(NamedTuple):
    """A candidate that was timed: nanoseconds, their median absolute deviation, the timed runs, and what became of it."""

    candidate: str
    median_ns: float
    spread_ns: float
    samples: int
    fate: str = ""


class Search(NamedTuple):
    """One search: what was tuned, the candidates that were timed (the fastest first), the best, and how many were not timed."""

    title: str
    timed: Sequence[Row]
    best: str
    rest: str = ""

    @classmethod
    def of_outcomes(cls, title: str, outcomes: Sequence[Outcome], best: Outcome) -> Search:
        """Return a search that has just ended."""
        timed = sorted((one for one in outcomes if one.samples), key=lambda one: one.median_ns)
        rows = [
            Row(str(one.candidate), one.median_ns, one.spread_ns, one.samples, f"{one.status.value} {one.detail}".strip())
            for one in timed
        ]
        counts = {status: sum(one.status is status and not one.samples for one in outcomes) for status in Status}
        rest = ", ".join(f"{number} {status.value}" for status, number in counts.items() if number)
        return cls(title, rows, str(best.candidate), rest)

    @classmethod
    def of_record(cls, record: AutotuneRecord) -> Search:
        """Return the search that a record keeps the times of; without them nothing is timed."""
        timings = parse_timings(record.timings)
        best = timings[0].candidate if timings else ""
        rows = [Row(*one) for one in sorted(timings, key=lambda one: one.median_ns)]
        return cls(f"{record.kernel} {record.size}".strip(), rows, best)


def add_plot(parser: argparse.ArgumentParser) -> None:
    """Add ``--plot``: None where it is not given, empty without a file."""
    parser.add_argument(
        "--plot",
        nargs="?",
        const="",
        metavar="FILE.svg",
        help="draw the time and the noise of each candidate, as text or, with a file, as SVG too",
    )


def text_of(search: Search) -> list[str]:
    """Return a line for each candidate that was timed: a bar as long as its median, and its noise; the winner has a star."""
    shown = search.timed[:_MOST_LINES]
    if not shown:
        return []
    most = max(one.median_ns + one.spread_ns for one in shown) or 1.0
    names = [printable(one.candidate) for one in shown]
    width = max(map(len, names))
    lines = []
    for name, one in zip(names, shown, strict=True):
        bar = "#" * max(1, round(one.median_ns / most * _COLUMNS))
        noise = "~" * round(one.spread_ns / most * _COLUMNS)
        star = "*" if one.candidate == search.best else " "
        took = f"{human_measure(one.median_ns / 1e9, 's')} +- {human_measure(one.spread_ns / 1e9, 's')}"
        lines.append(f"  {star} {name:<{width}}  {bar + noise:<{_COLUMNS + 1}}  {took} of {human_count(one.samples, 'run')}")
    left = len(search.timed) - len(shown)
    lines += [f"    and {left} slower"] if left else []
    return [*lines, *([f"    {search.rest}"] if search.rest else [])]


def svg_of(searches: Sequence[Search]) -> str:
    """Return all searches as one picture, one below the other."""
    left = 24 + round(_LETTER * max((len(one.candidate) for search in searches for one in search.timed), default=0))
    y, parts = 0, []
    for one in searches:
        drawn, height = _panel(one, left, y)
        parts.append(drawn)
        y += height
    size = f'viewBox="0 0 {left + _WIDTH} {y}" width="{left + _WIDTH}" height="{y}"'
    page = '<rect class="page" width="100%" height="100%"/>'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}><style>{_STYLE}</style>{page}\n' + "\n".join(parts) + "\n</svg>\n"


def write_plot(path: Path, searches: Sequence[Search]) -> None:
    """Write the picture to a file; raises FileUnusable."""
    try:
        write_whole(path, svg_of(searches).encode("utf-8", "backslashreplace"))
    except OSError as error:
        raise FileUnusable(f"cannot write {path} ({error.strerror})", fix="name another file", path=str(path)) from error


def _panel(search: Search, left: int, top: int) -> tuple[str, int]:
    timed = search.timed
    parts = [f'<text x="12" y="{top + 24}" font-weight="600">{_shown(search.title)}: {_shown(search.best)}</text>']
    scale = (_WIDTH - 190) / (max((one.median_ns + one.spread_ns for one in timed), default=0.0) or 1.0)
    y = top + _HEAD
    for one in timed:
        kind = "best" if one.candidate == search.best else "bar"
        end, noise, middle = left + one.median_ns * scale, one.spread_ns * scale, y + _ROW / 2 - 2
        took = f"{human_measure(one.median_ns / 1e9, 's')} of {human_count(one.samples, 'run')}"
        title = f"<title>{_shown(one.fate)}</title>" if one.fate else ""
        parts += [
            f'<text x="12" y="{y + 12}">{_shown(one.candidate)}</text>',
            f'<rect class="{kind}" x="{left}" y="{y}" width="{end - left:.1f}" height="{_ROW - 4}">{title}</rect>',
            f'<line class="noise" x1="{end - noise:.1f}" x2="{end + noise:.1f}" y1="{middle}" y2="{middle}"/>',
            f'<text class="soft" x="{end + noise + 8:.1f}" y="{y + 12}">{took}</text>',
        ]
        y += _ROW
    if search.rest:
        parts.append(f'<text class="soft" x="12" y="{y + 14}">not timed: {_shown(search.rest)}</text>')
        y += _ROW
    return "\n".join(parts), y + 16 - top


def _shown(text: str) -> str:
    """Return a text for XML, which has no place for control characters."""
    return escape(printable(text))
