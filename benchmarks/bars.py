"""Draw rows of ``benchmarks.dispatch --json`` as bars on a logarithmic scale: the README's picture.

``python -m benchmarks.bars benchmarks/results/2026-11-24-h200-dispatch.json docs/images/dispatch.svg``
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path

ROWS = {
    "resident dispatch": "a dispatch, data on the device",
    "256 B up, dispatch, 256 B down": "256 bytes up, a dispatch, 256 bytes down",
    "100 dependent, each": "one of 100 dependent dispatches",
    "alloc, bind, run, read, free": "allocate, bind, run, read, free",
}
CONTENDERS = {"ours": "vyre_driver", "torch": "PyTorch (CUDA)", "kp": "kompute alone"}
_LEFT, _WIDTH, _BAR, _GAP, _TOP = 290, 400, 14, 16, 48
_LEAST, _MOST = 1, 10_000  # microseconds
_STYLE = """
text { font: 13px sans-serif; fill: #222 } .small { font-size: 11px } .grid { stroke: #ccc }
.ours { fill: #2f6fd0 } .torch { fill: #e07a3f } .kp { fill: #8a8a8a }
@media (prefers-color-scheme: dark) {
  text { fill: #ddd } .grid { stroke: #555 } .ours { fill: #6aa3ff } .torch { fill: #f09a63 } .kp { fill: #9a9a9a }
}
"""


def medians(path: Path) -> dict[str, dict[str, float]]:
    """Return microseconds by what was measured and by contender."""
    found: dict[str, dict[str, float]] = {row: {} for row in ROWS}
    for row in json.loads(path.read_text("utf-8"))["rows"]:
        if row["what"] in ROWS and row["contender"] in CONTENDERS:
            found[row["what"]][row["contender"]] = row["median_us"]
    return found


def _x(microseconds: float) -> float:
    return _LEFT + _WIDTH * math.log(microseconds / _LEAST) / math.log(_MOST / _LEAST)


def _written(microseconds: float) -> str:
    return f"{microseconds:.1f}" if microseconds < 10 else f"{microseconds:,.0f}"


def svg(device: str, found: dict[str, dict[str, float]]) -> str:
    """Return the picture: a group of bars for each row, a bar for each contender that was measured."""
    parts, y = [], _TOP
    for row, said in ROWS.items():
        height = _BAR * len(found[row])
        parts.append(f'<text x="{_LEFT - 10}" y="{y + height / 2 + 4:.0f}" text-anchor="end">{said}</text>')
        for contender in (one for one in CONTENDERS if one in found[row]):
            value = found[row][contender]
            parts.append(
                f'<rect class="{contender}" x="{_LEFT}" y="{y}" width="{_x(value) - _LEFT:.1f}" height="{_BAR - 2}"/>'
                f'<text class="small" x="{_x(value) + 5:.1f}" y="{y + 10}">{_written(value)}</text>'
            )
            y += _BAR
        y += _GAP
    grid = [
        f'<path class="grid" d="M{_x(at):.1f},{_TOP - 6} V{y - 6}"/>'
        f'<text class="small" x="{_x(at):.1f}" y="{y + 8}" text-anchor="middle">{at:,}</text>'
        for at in (1, 10, 100, 1_000, 10_000)
    ]
    legend = [
        f'<rect class="{one}" x="{_LEFT + 130 * n}" y="8" width="12" height="12"/>'
        f'<text x="{_LEFT + 130 * n + 18}" y="18">{name}</text>'
        for n, (one, name) in enumerate(CONTENDERS.items())
    ]
    parts.append(f'<text class="small" x="{_LEFT}" y="{y + 26}">microseconds on an {device}, median; shorter is better</text>')
    size = f'width="{_LEFT + _WIDTH + 40}" height="{y + 36}" viewBox="0 0 {_LEFT + _WIDTH + 40} {y + 36}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">'
    return "\n".join([head, f"<style>{_STYLE}</style>", *grid, *legend, *parts, "</svg>"]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path)
    parser.add_argument("picture", type=Path)
    given = parser.parse_args()
    facts = json.loads(given.results.read_text("utf-8"))["facts"]
    given.picture.write_text(svg(facts["device"], medians(given.results)), "utf-8")


if __name__ == "__main__":
    main()
