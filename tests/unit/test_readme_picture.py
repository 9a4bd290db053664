"""The README's picture is the chart of the results that it says."""

from __future__ import annotations

from pathlib import Path

from benchmarks.plot import CHARTS

ROOT = Path(__file__).parents[2]


def test_the_picture_in_the_readme_is_the_chart_of_dispatches() -> None:
    """``python -m benchmarks.plot FOLDER`` writes it."""
    (chart,) = (one for one in CHARTS if one.name == "dispatch")
    assert (ROOT / "docs/images/dispatch.svg").read_text("utf-8") == chart.svg()
