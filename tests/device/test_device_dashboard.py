"""The Grafana dashboard in docs/grafana: every query asks for series that drivers have, by labels that these have."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from extras import imported
from kernels import STEP, glsl

from vyre_driver import DriverPool
from vyre_driver.errors import InvalidInput

if TYPE_CHECKING:
    from vyre_driver import Driver

pytestmark = pytest.mark.device

ROOT = Path(__file__).parents[2]
BOARD: dict[str, Any] = json.loads((ROOT / "docs/grafana/vyre-driver.json").read_text("utf-8"))
SERIES = re.compile(r"(vyre_driver_\w+)(?:\{([^}]*)\})?")
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
BY_PROMETHEUS = {"instance"}


def work(driver: Driver) -> None:
    """Have a driver do all that the dashboard shows: a call that ends, one that is refused, and one that the device times."""
    kernel = driver.compile(glsl(STEP))
    bound = kernel.bind(driver.buffer(np.ones(64, np.uint32)), push_constants={"factor": 2, "summand": 1}, label="mine")
    bound.run()
    if driver.context.device.is_timed:
        bound.run_timed(1)
    with pytest.raises(InvalidInput):
        driver.compile("saxpy")  # type: ignore[arg-type]


def emitted(text: str) -> dict[str, set[str]]:
    """The labels of each series of a text."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for family in imported("prometheus_client.parser").text_string_to_metric_families(text):
        for one in family.samples:
            found[one.name] |= set(one.labels)
    return found


def test_every_query_of_the_dashboard_asks_for_series_and_labels_that_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VYRE_CACHE_REMOTE", f"file:{tmp_path}")
    with DriverPool([0]) as pool:
        pool.submit(work).result(60)
        there = emitted(pool.metrics())
    targets = [target for panel in BOARD["panels"] for target in panel.get("targets", [])]
    queries = [target["expr"] for target in targets] + [one.get("definition", "") for one in BOARD["templating"]["list"]]
    wrong = []
    for query in queries:
        asked = SERIES.findall(query)
        known = BY_PROMETHEUS.union(*(there[name] for name, _ in asked))
        by = {label.strip() for found in re.findall(r"by \(([^)]*)\)", query) for label in found.split(",")}
        labels = by | {one.partition("=")[0].strip() for _, inside in asked for one in inside.split(",") if one}
        wrong += [(query, name) for name, _ in asked if name not in there]
        wrong += [(query, label) for label in labels if label not in known]
    legends = {label for target in targets for label in re.findall(r"{{(\w+)}}", target["legendFormat"])}
    assert (wrong, legends - BY_PROMETHEUS - set().union(*there.values())) == ([], set())
    assert len(queries) > 25  # so that none of it is empty


def test_panels_have_numbers_of_their_own_lie_side_by_side_and_ask_the_chosen_source() -> None:
    places = [tuple(panel["gridPos"][name] for name in "xywh") for panel in BOARD["panels"]]
    cells = [(x + dx, y + dy) for x, y, w, h in places for dx in range(w) for dy in range(h)]
    assert len(cells) == len(set(cells))
    assert {x for x, _ in cells} == set(range(24))
    assert len({panel["id"] for panel in BOARD["panels"]}) == len(BOARD["panels"])
    asked = [target["datasource"] for panel in BOARD["panels"] for target in panel.get("targets", [])]
    assert [one for one in asked if one != SOURCE] == []
