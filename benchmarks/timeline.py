"""What host and device did with the pieces of a stream, as an SVG picture."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_AREAS = 4
_PHASES = (("the host fills the area", "#3b7dd8"), ("the bus moves both ways", "#e07a3f"), ("the host empties it", "#2ca58d"))
_LEFT, _WIDTH, _HEIGHT, _GAP = 80, 1100, 26, 8


def draw(path: Path, title: str, turns: Sequence[tuple[int, int, int, int, int, int]]) -> None:
    """Write a picture of ``Mover.times``: a lane for each area, and in it what its pieces were waiting for."""
    first, last = turns[0][1], turns[-1][5]
    scale = _WIDTH / (last - first)
    bottom = 60 + _AREAS * (_HEIGHT + _GAP)
    size = f'width="{_LEFT + _WIDTH + 20}" height="{bottom + 30}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="10" y="20" font-size="14">{title}: {len(turns)} pieces in {(last - first) / 1e6:.1f} ms</text>',
    ]
    for number, (name, colour) in enumerate(_PHASES):
        parts.append(f'<rect x="{_LEFT + 200 * number}" y="32" width="12" height="12" fill="{colour}"/>')
        parts.append(f'<text x="{_LEFT + 200 * number + 18}" y="43">{name}</text>')
    parts += [f'<text x="10" y="{60 + area * (_HEIGHT + _GAP) + 17}">area {area + 1}</text>' for area in range(_AREAS)]
    for number, (_, begun, filled, submitted, ended, emptied) in enumerate(turns):
        y = 60 + number % _AREAS * (_HEIGHT + _GAP)
        for (since, until), (_, colour) in zip(((begun, filled), (submitted, ended), (ended, emptied)), _PHASES, strict=True):
            x, width = _LEFT + (since - first) * scale, (until - since) * scale
            parts.append(f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{_HEIGHT}" fill="{colour}"/>')
    for tenth in range(11):
        x = _LEFT + _WIDTH * tenth / 10
        parts.append(f'<text x="{x:.0f}" y="{bottom + 15}" text-anchor="middle">{(last - first) * tenth / 1e7:.1f} ms</text>')
    path.write_text("\n".join([*parts, "</svg>"]) + "\n", encoding="utf-8")
