"""Draw TFLOP/s of products over their size, with the ceiling that a micro-benchmark of matrices through Vulkan names."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Any

_COLOURS = {"untuned": "#3b7dd8", "tuned": "#1b4f9c", "torch": "#e07a3f"}
_NAMES = {"untuned": "vyre_driver", "tuned": "vyre_driver, tuned", "torch": "PyTorch"}
_LEFT, _TOP, _WIDTH, _HEIGHT = 60, 40, 640, 380
_LARGEST, _STEP = 800, 100
_CEILING = 612
"""TFLOP/s of float16 matrices summed in float32, from registers alone, on a GH200 through Vulkan.

Source: README of the project "Vulkan cooperative matrix benchmark", its example of a GH200.
"""


def picture(title: str, points: list[dict[str, Any]]) -> str:
    """Return an SVG: sizes by powers of two, TFLOP/s from 0 on, a line for each choice."""
    lines = defaultdict(list)
    for one in points:
        lines[one["choice"]].append((one["size"][1], one["tflops"]))
    sizes = sorted({size for line in lines.values() for size, _ in line})
    low, high = math.log2(sizes[0]), math.log2(sizes[-1])

    def place(size: float, rate: float) -> tuple[float, float]:
        x = _LEFT + _WIDTH * (math.log2(size) - low) / (high - low)
        return round(x, 1), round(_TOP + _HEIGHT * (1 - min(rate, _LARGEST) / _LARGEST), 1)

    whole = f'width="{_LEFT + _WIDTH + 240}" height="{_TOP + _HEIGHT + 50}"'
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" {whole} font-family="sans-serif" font-size="12">']
    parts.append(f'<rect width="100%" height="100%" fill="white"/><text x="{_LEFT}" y="22" font-size="15">{title}</text>')
    for rate in range(0, _LARGEST + 1, _STEP):
        _, y = place(sizes[0], rate)
        parts.append(f'<path d="M{_LEFT},{y} h{_WIDTH}" stroke="#ddd"/><text x="{_LEFT - 30}" y="{y + 4}">{rate}</text>')
    parts += [
        f'<text x="{place(1 << power, 0)[0]}" y="{_TOP + _HEIGHT + 20}" text-anchor="middle">{1 << power}</text>'
        for power in range(math.ceil(low), math.floor(high) + 1, 2)
    ]
    ceiling, right = place(sizes[0], _CEILING)[1], _LEFT + _WIDTH + 12
    parts += [
        f'<path d="M{_LEFT},{ceiling} h{_WIDTH}" stroke="#999" stroke-dasharray="6 4"/>',
        f'<text x="{right}" y="{ceiling + 4}" fill="#777">matrices alone, published</text>',
    ]
    for number, (choice, line) in enumerate(sorted(lines.items())):
        path = " ".join("{},{}".format(*place(*one)) for one in sorted(line))
        parts.append(f'<polyline points="{path}" fill="none" stroke="{_COLOURS[choice]}" stroke-width="2"/>')
        at = f'x="{_LEFT + _WIDTH + 12}" y="{_TOP + 20 * number + 10}"'
        parts.append(f'<text {at} fill="{_COLOURS[choice]}">{_NAMES[choice]}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"
