"""Draw what share of a fleet's processes is ready after how many seconds, or how busy a scheduler is with how many GPUs.

python -m benchmarks.fleet_plot simulation FILE.json PICTURE.svg, with what fleet_simulation --json has printed,
python -m benchmarks.fleet_plot replay FILE.json PICTURE.svg, with what fleet_replay --json has, or
python -m benchmarks.fleet_plot scale FILE.json PICTURE.svg, with what fleet_scale simulate --json has written.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

_COLOURS = ("#777777", "#1b4f9c", "#3b7dd8", "#2ca58d", "#e07a3f", "#a0457a", "#c2a020", "#5b5bd6", "#d64550", "#4c7a34")
_LEFT, _TOP, _WIDTH, _HEIGHT = 60, 40, 560, 320


def picture(title: str, lines: dict[str, list[float]]) -> str:
    """Return an SVG: for each name the seconds of its processes, ascending, against the share that is ready by then."""
    last = max(seconds[-1] for seconds in lines.values())
    step = next(one for one in (0.5, 1, 2, 5, 10, 20) if last / one <= 10)
    longest = step * (int(last / step) + 1)
    whole = f'width="{_LEFT + _WIDTH + 290}" height="{_TOP + _HEIGHT + 50}"'
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" {whole} font-family="sans-serif" font-size="12">']
    parts.append(f'<rect width="100%" height="100%" fill="white"/><text x="{_LEFT}" y="22" font-size="15">{title}</text>')
    for percent in range(0, 101, 20):
        y = round(_TOP + _HEIGHT * (1 - percent / 100), 1)
        parts.append(f'<path d="M{_LEFT},{y} h{_WIDTH}" stroke="#ddd"/><text x="{_LEFT - 45}" y="{y + 4}">{percent} %</text>')
    for number in range(round(longest / step) + 1):
        x = round(_LEFT + _WIDTH * number * step / longest, 1)
        parts.append(f'<text x="{x}" y="{_TOP + _HEIGHT + 20}" text-anchor="middle">{number * step:g} s</text>')
    for number, (name, seconds) in enumerate(lines.items()):
        colour, path, count = _COLOURS[number % len(_COLOURS)], [f"{_LEFT},{_TOP + _HEIGHT}"], len(seconds)
        for place, one in enumerate(seconds):
            x = round(_LEFT + _WIDTH * one / longest, 1)
            path += [f"{x},{_TOP + _HEIGHT * (1 - share / count):.1f}" for share in (place, place + 1)]
        parts.append(f'<polyline points="{" ".join(path)}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts.append(f'<text x="{_LEFT + _WIDTH + 12}" y="{_TOP + 20 * number + 10}" fill="{colour}">{name}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def simulation_lines(told: dict[str, Any]) -> tuple[str, dict[str, list[float]]]:
    """Return the title and the lines of a simulation."""
    size = f"{told['machines']} machines of {told['processes']} processes, {told['pipelines']} pipelines of 1 s"
    return f"Simulated: {size}", {name: one["seconds_by_percent"] for name, one in told.items() if isinstance(one, dict)}


def replay_lines(told: dict[str, Any]) -> tuple[str, dict[str, list[float]]]:
    """Return the title and the lines of a fleet that was run and simulated."""
    size = f"{told['machines']} machines, {told['pipelines']} pipelines of {told['compile_ms']} ms"
    lines = {"simulated": told["simulated"]["seconds"]}
    return size, lines | {f"real, run {number}": one["seconds"] for number, one in enumerate(told["real"], 1)}


def scale_picture(told: dict[str, Any]) -> str:
    """Return an SVG: how much of the time the scheduler works, against the milliseconds of a task, on a logarithmic axis."""
    every = sorted({run["task_ms"] for one in told.values() for run in one["runs"]})
    place = {one: round(_LEFT + _WIDTH * number / (len(every) - 1), 1) for number, one in enumerate(every)}
    whole = f'width="{_LEFT + _WIDTH + 290}" height="{_TOP + _HEIGHT + 50}"'
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" {whole} font-family="sans-serif" font-size="12">']
    title = "Share of the time in which the scheduler works, by the length of a task"
    parts.append(f'<rect width="100%" height="100%" fill="white"/><text x="{_LEFT}" y="22" font-size="15">{title}</text>')
    for percent in range(0, 101, 25):
        y = _TOP + _HEIGHT * (1 - percent / 100)
        parts.append(f'<path d="M{_LEFT},{y} h{_WIDTH}" stroke="#ddd"/><text x="{_LEFT - 45}" y="{y + 4}">{percent} %</text>')
    parts += [f'<text x="{x}" y="{_TOP + _HEIGHT + 20}" text-anchor="middle">{one} ms</text>' for one, x in place.items()]
    lines = [(how, gpus) for how in told for gpus in sorted({run["gpus"] for run in told[how]["runs"]})]
    for number, (how, gpus) in enumerate(lines):
        runs = [run for run in told[how]["runs"] if run["gpus"] == gpus]
        path = " ".join(f"{place[run['task_ms']]},{_TOP + _HEIGHT * (1 - run['scheduler_busy']):.1f}" for run in runs)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{_COLOURS[number]}" stroke-width="2"/>')
        name = f"{gpus:,} GPUs, {'calls one by one' if how == 'submit' else 'arrays of blocks'}"
        parts.append(f'<text x="{_LEFT + _WIDTH + 12}" y="{_TOP + 20 * number + 10}" fill="{_COLOURS[number]}">{name}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def main() -> None:
    """Draw one picture."""
    what, source, target = sys.argv[1:]
    told = json.loads(Path(source).read_text("utf-8"))
    if what == "scale":
        Path(target).write_text(scale_picture(told), "utf-8")
        return
    title, lines = {"simulation": simulation_lines, "replay": replay_lines}[what](told)
    Path(target).write_text(picture(title, lines), "utf-8")


if __name__ == "__main__":
    main()
