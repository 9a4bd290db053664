"""The page of charts, drawn from benchmarks/results when the site is built."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from benchmarks.plot import CHARTS, RESULTS

if TYPE_CHECKING:
    from staging import Stage


def stage(made: Stage) -> None:
    """Write the page, with the charts in its text, so that they take the page's colours, and as files."""
    from staging import toctree

    parts = [
        "# Performance\n",
        (
            "Medians of runs in turn with the other packages' on the same machine, each chart drawn from one file of results. "
            "Rest the pointer on a dot for its figure. [How these and all others were measured](../performance.md), with "
            "what is slower and why, is a page of its own.\n"
        ),
    ]
    for chart in CHARTS:
        svg = chart.svg()
        made.write(f"files/benchmarks/charts/{chart.name}.svg", svg)
        made.write(f"files/benchmarks/results/{chart.results}.json", (RESULTS / f"{chart.results}.json").read_bytes())
        title = svg.partition("<title>")[2].partition("</title>")[0]
        source = f"[{chart.results}.json](../files/benchmarks/results/{chart.results}.json)"
        parts += [
            f"## {title}\n",
            f"{chart.about}\n",
            f'<div class="chart">\n{svg}</div>\n',
            f"{_where(chart.results)} {source}\n",
        ]
    made.write(
        "benchmarks/index.md", "\n".join([*parts, toctree(["performance"], titles={"performance": "How it was measured"})])
    )


def _where(results: str) -> str:
    facts: dict[str, Any] = json.loads((RESULTS / f"{results}.json").read_text("utf-8"))["facts"]
    return f"{facts['device']}, driver {facts['driver'].removeprefix('NVIDIA ')}, {facts['date']}."
