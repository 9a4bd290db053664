"""Charts as SVG, readable on light and on dark pages: dots in rows, and lines.

Ink takes the colours of the reader's system; a page that puts the chart into its own text overrides it by the class ``ink``.
"""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

# By contender, the same in every chart: at least 3 to 1 on white and on dark grey.
COLOURS = {
    "vyre_driver": "#2f7ed8",
    "vyre_driver, pinned": "#7a5af5",
    "vyre_driver from C": "#7a5af5",
    "PyTorch": "#e4572e",
    "PyTorch, pinned": "#b8541a",
    "CuPy": "#2a9d5c",
    "CuPy jit": "#7a9a2e",
    "Triton": "#b45bd0",
    "Taichi": "#a0694a",
    "wgpu-py": "#d43d4f",
    "numba": "#b07d12",
    "numpy": "#808080",
    "kompute alone": "#c2417c",
    "bare Vulkan in C": "#0e8a99",
}
_STYLE = (
    "<style>.ink{fill:#222}.soft{fill:#666}.grid{stroke:#8886}.row{stroke:#8883}"
    "@media (prefers-color-scheme:dark){.ink{fill:#e6e6e6}.soft{fill:#a6a6a6}}</style>"
)
_LABELS, _WIDTH, _ROW, _TOP = 250, 520, 26, 70
_RADIUS = 5.5
_LANE = 2 * _RADIUS + 1


class Line(NamedTuple):
    """One line of a chart: who, and its points."""

    contender: str
    points: Sequence[tuple[float, float]]


def dots(title: str, unit: str, rows: Mapping[str, Mapping[str, float]]) -> str:
    """Return a chart with a row for each thing measured and a dot for each contender, on a logarithmic axis.

    Dots of a row that would hide each other lie one below the other, and the row is as high as that takes.
    """
    values = [value for row in rows.values() for value in row.values()]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    contenders = _in_order(name for row in rows.values() for name in row)

    def x_of(value: float) -> float:
        return _LABELS + _WIDTH * (math.log10(value) - low) / (high - low)

    lanes = {what: _lanes({name: x_of(row[name]) for name in contenders if name in row}) for what, row in rows.items()}
    heights = {what: max(_ROW, _LANE * (max(lane.values()) + 1) + _ROW - _LANE) for what, lane in lanes.items()}
    bottom = _TOP + sum(heights.values())
    parts = [*_head(title, f"{unit}; less is better, logarithmic", _LABELS + _WIDTH + 30, bottom + 44), *_legend(contenders)]
    between = (1, 2, 5) if high - low <= 2 else (1,)  # few powers of ten are too few places to read a dot by
    for value in [10.0**power * step for power in range(low, high) for step in between] + [10.0**high]:
        parts.append(f'<path class="grid" d="M{x_of(value):.1f},{_TOP} V{bottom}"/>')
        label = f"{value:,.0f}" if value >= 1 else f"{value:g}"
        parts.append(f'<text class="soft" x="{x_of(value):.1f}" y="{bottom + 18}" text-anchor="middle">{label}</text>')
    top = float(_TOP)
    for what, row in rows.items():
        y = top + heights[what] / 2
        parts.append(f'<path class="row" d="M{_LABELS},{y} h{_WIDTH}"/>')
        parts.append(f'<text class="ink" x="{_LABELS - 12}" y="{y + 4}" text-anchor="end">{escape(what)}</text>')
        first = y - _LANE * max(lanes[what].values()) / 2
        for name, lane in lanes[what].items():
            note = f"<title>{escape(name)}, {escape(what)}: {row[name]:.4g} {escape(unit)}</title>"
            place = f'cx="{x_of(row[name]):.1f}" cy="{first + _LANE * lane:g}"'
            parts.append(f'<circle {place} r="{_RADIUS}" fill="{COLOURS[name]}">{note}</circle>')
        top += heights[what]
    return "\n".join([*parts, "</svg>", ""])


def _lanes(places: Mapping[str, float]) -> dict[str, int]:
    """Return for each dot of a row, by its place along the axis, how many dots lie above it so that none hides another."""
    lanes: dict[str, int] = {}
    for name, x in places.items():
        taken = {lane for other, lane in lanes.items() if abs(places[other] - x) < _LANE}
        lanes[name] = next(lane for lane in range(len(places)) if lane not in taken)
    return lanes


def lines(title: str, unit: str, given: Sequence[Line], labels: Mapping[float, str]) -> str:
    """Return a chart of lines over a logarithmic axis, whose places ``labels`` names; more is better."""
    xs = [x for line in given for x, _ in line.points]
    low, high = math.log2(min(xs)), math.log2(max(xs))
    step = _step(max(y for line in given for _, y in line.points))
    top = step * math.ceil(max(y for line in given for _, y in line.points) / step)
    left, width, height = 60, _LABELS + _WIDTH - 60, 300

    def place(x: float, y: float) -> str:
        return f"{left + width * (math.log2(x) - low) / (high - low):.1f},{_TOP + height * (1 - y / top):.1f}"

    parts = [*_head(title, f"{unit}; more is better", _LABELS + _WIDTH + 30, _TOP + height + 40)]
    parts += _legend(_in_order(line.contender for line in given))
    for number in range(round(top / step) + 1):
        y = place(2**low, number * step).partition(",")[2]
        parts.append(f'<path class="grid" d="M{left},{y} h{width}"/>')
        parts.append(f'<text class="soft" x="{left - 8}" y="{float(y) + 4:.1f}" text-anchor="end">{number * step:g}</text>')
    for x, label in labels.items():
        parts.append(
            f'<text class="soft" x="{place(x, 0).partition(",")[0]}" y="{_TOP + height + 20}" text-anchor="middle">'
            f"{escape(label)}</text>"
        )
    for line in given:
        path = " ".join(place(x, y) for x, y in sorted(line.points))
        parts.append(f'<polyline points="{path}" fill="none" stroke="{COLOURS[line.contender]}" stroke-width="2.5"/>')
    return "\n".join([*parts, "</svg>", ""])


def _head(title: str, below: str, width: int, height: int) -> list[str]:
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}" font-size="13"'
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="chart" {size} role="img" font-family="system-ui, sans-serif">',
        f"{_STYLE}<title>{escape(title)}</title>",
        f'<text class="ink" x="8" y="20" font-size="16" font-weight="600">{escape(title)}</text>',
        f'<text class="soft" x="{width - 8}" y="20" text-anchor="end">{escape(below)}</text>',
    ]


def _legend(contenders: Sequence[str]) -> list[str]:
    parts, x = [], 14.0
    for name in contenders:
        parts.append(f'<circle cx="{x:.0f}" cy="44" r="{_RADIUS}" fill="{COLOURS[name]}"/>')
        parts.append(f'<text class="ink" x="{x + 11:.0f}" y="48">{escape(name)}</text>')
        x += 34 + 7.0 * len(name)
    return parts


def _in_order(names: Iterable[str]) -> list[str]:
    return sorted(set(names), key=list(COLOURS).index)


def _step(most: float) -> float:
    """Return the distance of the lines of a grid: 1, 2 or 5 times a power of ten, for four to nine lines."""
    power = 10.0 ** math.floor(math.log10(most / 4))
    return next(power * factor for factor in (1, 2, 5, 10) if most / (power * factor) <= 8)
