"""The search of a tuning, drawn: the time of each candidate with its noise, and which one won; as text, and as SVG."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, NamedTuple

from vyre_driver.autotune.search.outcomes import Status
from vyre_driver.cli.options import printable
from vyre_driver.cli.progress import human_count, human_measure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vyre_driver.autotune.search.outcomes import Outcome

_COLUMNS = 40
_MOST_LINES = 24
_WIDTH, _ROW, _HEAD, _LETTER = 640, 20, 44, 7.5
_STYLE = """
text { font: 12px system-ui, sans-serif; fill: #1b1b1a; } .soft { fill: #6a6a66; } .bar { fill: #8fa6c9; }
.best { fill: #2a6fdb; } .noise { stroke: #1b1b1a; stroke-width: 1.5; } .page { fill: #fcfcfb; }
@media (prefers-color-scheme: dark) { text { fill: #ecebe6; } .soft { fill: #9c9b95; } .bar { fill: #5d7499; }
.best { fill: #5b9bf5; } .noise { stroke: #ecebe6; } .page { fill: #161615; } }
"""


class Search(NamedTuple):
    """One search: what was tuned, its candidates in the order of preference, and the best of them."""

    title: str
    outcomes: Sequence[Outcome]
    best: Outcome

    @property
    def timed(self) -> list[Outcome]:
        """Those that were timed, the fastest first."""
        return sorted((one for one in self.outcomes if one.samples), key=lambda one: one.median_ns)

    @property
    def rest(self) -> str:
        """How many were not timed, and why; empty where all were."""
        counts = {status: sum(one.status is status and not one.samples for one in self.outcomes) for status in Status}
        return ", ".join(f"{number} {status.value}" for status, number in counts.items() if number)


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
        star = "*" if one.candidate == search.best.candidate else " "
        took = f"{human_measure(one.median_ns / 1e9, 's')} +- {human_measure(one.spread_ns / 1e9, 's')}"
        lines.append(f"  {star} {name:<{width}}  {bar + noise:<{_COLUMNS + 1}}  {took} of {human_count(one.samples, 'run')}")
    left = len(search.timed) - len(shown)
    lines += [f"    and {left} slower"] if left else []
    return [*lines, *([f"    {search.rest}"] if search.rest else [])]


def svg_of(searches: Sequence[Search]) -> str:
    """Return all searches as one picture, one below the other."""
    left = 24 + round(_LETTER * max((len(str(one.candidate)) for search in searches for one in search.timed), default=0))
    y, parts = 0, []
    for one in searches:
        drawn, height = _panel(one, left, y)
        parts.append(drawn)
        y += height
    size = f'viewBox="0 0 {left + _WIDTH} {y}" width="{left + _WIDTH}" height="{y}"'
    page = '<rect class="page" width="100%" height="100%"/>'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}><style>{_STYLE}</style>{page}\n' + "\n".join(parts) + "\n</svg>\n"


def _panel(search: Search, left: int, top: int) -> tuple[str, int]:
    timed = search.timed
    best = str(search.best.candidate)
    parts = [f'<text x="12" y="{top + 24}" font-weight="600">{escape(search.title)}: {escape(best)}</text>']
    scale = (_WIDTH - 190) / (max((one.median_ns + one.spread_ns for one in timed), default=0.0) or 1.0)
    y = top + _HEAD
    for one in timed:
        kind = "best" if one.candidate == search.best.candidate else "bar"
        end, noise, middle = left + one.median_ns * scale, one.spread_ns * scale, y + _ROW / 2 - 2
        took = f"{human_measure(one.median_ns / 1e9, 's')} of {human_count(one.samples, 'run')}"
        title = f"<title>{escape(one.status.value)} {escape(one.detail)}</title>"
        parts += [
            f'<text x="12" y="{y + 12}">{escape(str(one.candidate))}</text>',
            f'<rect class="{kind}" x="{left}" y="{y}" width="{end - left:.1f}" height="{_ROW - 4}">{title}</rect>',
            f'<line class="noise" x1="{end - noise:.1f}" x2="{end + noise:.1f}" y1="{middle}" y2="{middle}"/>',
            f'<text class="soft" x="{end + noise + 8:.1f}" y="{y + 12}">{took}</text>',
        ]
        y += _ROW
    if search.rest:
        parts.append(f'<text class="soft" x="12" y="{y + 14}">not timed: {escape(search.rest)}</text>')
        y += _ROW
    return "\n".join(parts), y + 16 - top
