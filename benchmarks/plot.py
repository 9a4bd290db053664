"""Draw what ``benchmarks.transfers --json`` printed: GB/s over bytes, as an SVG picture for each of write, read and call.

``python -m benchmarks.plot RESULTS.json PICTURE.svg`` writes PICTURE-write.svg and so on.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import defaultdict
from pathlib import Path

_COLOURS = ("#3b7dd8", "#1b4f9c", "#2ca58d", "#e07a3f", "#b5542a", "#8e5ea2", "#555555")
_LEFT, _TOP, _WIDTH, _HEIGHT = 60, 40, 760, 380
_LARGEST_GBS = 60

Lines = dict[str, list[tuple[int, float]]]  # by contender, bytes and GB/s


def lines_of(path: Path) -> dict[str, Lines]:
    """Return the lines of each picture, by what was measured."""
    found: dict[str, Lines] = defaultdict(lambda: defaultdict(list))
    for row in json.loads(path.read_text("utf-8"))["rows"]:
        what, _, size = row["what"].partition(", ")
        byte_len = int(size.split()[0])
        name = row["contender"].replace(f" {what}", "").split(f" {byte_len}")[0]
        found[what][name].append((byte_len, byte_len / row["median_us"] / 1e3))
    return found


def svg(title: str, lines: Lines) -> str:
    """Return a picture: bytes by powers of two, GB/s from 0 on."""
    sizes = sorted({byte_len for points in lines.values() for byte_len, _ in points})
    low, high = math.log2(sizes[0]), math.log2(sizes[-1])

    def place(byte_len: int, rate: float) -> str:
        x = _LEFT + _WIDTH * (math.log2(byte_len) - low) / (high - low)
        return f"{x:.1f},{_TOP + _HEIGHT * (1 - rate / _LARGEST_GBS):.1f}"

    size = f'width="{_LEFT + _WIDTH + 220}" height="{_TOP + _HEIGHT + 50}"'
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">']
    parts.append(f'<rect width="100%" height="100%" fill="white"/><text x="{_LEFT}" y="22" font-size="15">{title}, GB/s</text>')
    for rate in range(0, _LARGEST_GBS + 1, 10):
        y = place(sizes[0], rate).partition(",")[2]
        parts.append(
            f'<path d="M{_LEFT},{y} h{_WIDTH}" stroke="#ddd"/><text x="{_LEFT - 26}" y="{float(y) + 4:.0f}">{rate}</text>'
        )
    for power in range(math.ceil(low), math.floor(high) + 1, 4):
        x, label = place(1 << power, 0).partition(",")[0], "KMG"[power // 10 - 1] + "iB"
        parts.append(f'<text x="{x}" y="{_TOP + _HEIGHT + 20}" text-anchor="middle">{1 << power % 10} {label}</text>')
    for number, (name, points) in enumerate(sorted(lines.items())):
        colour = _COLOURS[number % len(_COLOURS)]
        path = " ".join(place(byte_len, min(rate, _LARGEST_GBS)) for byte_len, rate in sorted(points))
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts.append(f'<text x="{_LEFT + _WIDTH + 12}" y="{_TOP + 20 * number + 10}" fill="{colour}">{name}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("results", type=Path)
    options.add_argument("picture", type=Path)
    given = options.parse_args()
    for what, lines in lines_of(given.results).items():
        if not what.startswith("bare"):
            given.picture.with_stem(f"{given.picture.stem}-{what}").write_text(svg(what, lines), encoding="utf-8")


if __name__ == "__main__":
    main()
