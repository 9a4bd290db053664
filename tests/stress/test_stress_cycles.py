"""What takes too long for each run of the suite: ``make stress``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import RunChild

pytestmark = pytest.mark.device

CHILDREN = Path(__file__).parents[1] / "device" / "children"
CYCLES = 10_000
# kompute's Manager remembers each tensor, algorithm and sequence it ever made in 48 bytes, which grow by doubling: at most 64.
# A cycle makes up to 5 of them; the rest is what the allocator rounds.
BYTES_A_CYCLE = 8 * 64
HANGS_AFTER_S = 600


@pytest.mark.parametrize("kind", ["bound", "batches", "calls"])
def test_ten_thousand_cycles_leave_nothing_behind(run_python: RunChild, kind: str) -> None:
    done = run_python("-W", "error", str(CHILDREN / "cycles.py"), kind, str(CYCLES), hangs_after_s=HANGS_AFTER_S)
    assert (done.status, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert (
        found["live"],
        found["objects"] < 50,
        found["bytes a cycle"] < BYTES_A_CYCLE,
    ) == ({"memory_live_bytes": 0, "memory_allocated": 0, "pipelines_created": 0}, True, True), found


@pytest.mark.parametrize("case", ["all_are_dropped_in_every_order", "all_are_closed_in_every_order"])
def test_a_process_ends_cleanly_when(run_python: RunChild, case: str) -> None:
    done = run_python("-W", "error", str(CHILDREN / "endings.py"), case, str(HANGS_AFTER_S), hangs_after_s=HANGS_AFTER_S)
    assert (done.status, done.stdout, done.stderr) == (0, "", "")
