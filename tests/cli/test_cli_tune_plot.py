"""The search of a tuning, drawn: as it ends, and later from its record."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest

from vyre_driver.autotune import AutotuneKey, AutotuneRecord, AutotuneStore
from vyre_driver.autotune.search.outcomes import Outcome, Status
from vyre_driver.autotune.search.space import Candidate
from vyre_driver.autotune.store.timings import Timing, format_timings
from vyre_driver.cli import main
from vyre_driver.cli.tune_plot import Search, svg_of, text_of

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import RunChild

RECORD = AutotuneRecord(
    (16, 8, 1),
    1,
    (128, 64, 8),
    "2026-11-21",
    "cd" * 32,
    400,
    1000,
    1_795_000_000,
    "matmul",
    "a device",
    "a driver 1",
    "64x64x64",
)


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that the variable names, which is not there."""
    named = tmp_path / "autotune.toml"
    monkeypatch.setenv("VYRE_AUTOTUNE_FILE", str(named))
    return named


def saved(path: Path, record: AutotuneRecord) -> None:
    store = AutotuneStore()
    store.put(AutotuneKey("11" * 16, "gpu"), record)
    store.save_if_dirty(path)


def candidate(size: int) -> Candidate:
    return Candidate((size, 1, 1), {})


def test_a_search_is_drawn_with_its_winner_and_its_noise() -> None:
    best = Outcome(candidate(64), Status.TIMED, 20, 1000.0, 100.0)
    slow = Outcome(candidate(128), Status.DROPPED, 5, 2000.0, 0.0, "too <slow>")
    search = Search.of_outcomes("saxpy 100", (best, slow, Outcome(candidate(256), Status.FAILED)), best)
    lines = text_of(search)
    assert [line[2] for line in lines[:2]] == ["*", " "]
    assert ["#" * 20 + "~~" in lines[0], "#" * 40 in lines[1], lines[2].strip()] == [True, True, "1 failed"]
    drawn = svg_of([search, search])
    assert [drawn.count(one) for one in ('class="best"', 'class="bar"', "too &lt;slow&gt;", "1 failed")] == [2, 2, 2, 2]
    assert text_of(Search.of_outcomes("none", (Outcome(candidate(1), Status.NOT_TRIED),), best)) == []


def test_the_search_of_a_record_is_drawn_as_it_was_when_it_was_measured(run_here: RunChild, path: Path, tmp_path: Path) -> None:
    times = [Timing("TILE=64, UNROLL=2", 1000, 100, 20), Timing("TILE=8, UNROLL=<1>", 2000, 0, 5)]
    saved(path, replace(RECORD, timings=format_timings(times)))
    picture = tmp_path / "search.svg"
    done = run_here("tune", "show", "matmul", "--plot", str(picture))
    lines, drawn = done.stdout.splitlines(), picture.read_text()
    assert lines[13:] == [
        "  timings: 2 candidates",
        f"  key: {'11' * 16}",
        "  adapter: gpu",
        f"  * TILE=64, UNROLL=2   {'#' * 20}~~{' ' * 19}  1.00 us +- 100.0 ns of 20 runs",
        f"    TILE=8, UNROLL=<1>  {'#' * 40}   2.00 us +- 0.00 s of 5 runs",
    ]
    assert [drawn.count(one) for one in ('class="best"', 'class="bar"', "matmul 64x64x64: TILE=64", "UNROLL=&lt;1&gt;")] == [
        1,
        1,
        1,
        1,
    ]
    listed = json.loads(run_here("tune", "list", "--json").stdout)["records"][0]["timings"]
    assert listed == [one._asdict() for one in times]


def test_a_picture_is_xml_whatever_the_kernel_is_called() -> None:
    record = replace(RECORD, kernel="\x1b[31m<red>\0\ufffe", timings=format_timings([Timing("TILE=8", 1000, 0, 5)]))
    drawn = ET.fromstring(svg_of([Search.of_record(record)]))  # noqa: S314 -- our own
    assert next(one.text for one in drawn.iter() if one.get("font-weight")) == "\\x1b[31m<red>\\x00\\ufffe 64x64x64: TILE=8"


def test_a_record_without_times_is_not_drawn(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved(path, RECORD)
    picture = tmp_path / "search.svg"
    status, (out, told) = main(["tune", "show", "matmul", "--plot", str(picture)]), capsys.readouterr()
    assert (status, out, picture.exists()) == (2, "", False)
    assert "record cdcdcdcdcdcd of matmul keeps no times of candidates to draw. Fix: measure it again with this version" in told
