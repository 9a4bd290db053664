"""The README's picture is the chart of the results that it says."""

from __future__ import annotations

import itertools
import math
import re
from pathlib import Path

from benchmarks.plot import CHARTS

ROOT = Path(__file__).parents[2]


def test_the_picture_in_the_readme_is_the_chart_of_dispatches() -> None:
    """``python -m benchmarks.plot FOLDER`` writes it."""
    (chart,) = (one for one in CHARTS if one.name == "dispatch")
    assert (ROOT / "docs/images/dispatch.svg").read_text("utf-8") == chart.svg()


def test_no_dot_of_the_picture_hides_another() -> None:
    (chart,) = (one for one in CHARTS if one.name == "dispatch")
    dots = [tuple(map(float, found)) for found in re.findall(r'<circle cx="([\d.]+)" cy="([\d.]+)"', chart.svg())]
    hidden = [both for both in itertools.combinations(dots, 2) if math.dist(*both) < 11]
    assert (len(dots) > 20, hidden) == (True, [])
