"""The README's picture shows the results that it says."""

from __future__ import annotations

import json
import re
from pathlib import Path

from benchmarks.bars import ROWS, medians, svg

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results" / "2026-11-24-h200-dispatch.json"


def test_the_picture_in_the_readme_is_drawn_from_its_results() -> None:
    picture = (ROOT / "docs" / "images" / "dispatch.svg").read_text("utf-8")
    device = json.loads(RESULTS.read_text("utf-8"))["facts"]["device"]
    assert picture == svg(device, medians(RESULTS))


def test_a_bar_stands_for_each_contender_that_was_measured() -> None:
    found = medians(RESULTS)
    bars = re.findall(r'<rect class="(\w+)" x="290" y="\d\d+" width="([\d.]+)"', svg("GPU", found))
    assert [name for name, _ in bars] == [name for row in ROWS for name in ("ours", "torch", "kp") if name in found[row]]
    assert all(float(width) > 0 for _, width in bars)
