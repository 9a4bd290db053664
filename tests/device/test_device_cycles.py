"""Create, bind, dispatch and free, again and again, leaves nothing behind; tests/stress does it more often."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import RunChild

pytestmark = pytest.mark.device

CYCLES = 500
A_PAGE = 4096  # less than what any device memory takes


@pytest.mark.parametrize("kind", ["bound", "batches", "calls"])
def test_five_hundred_cycles_leave_nothing_behind(run_python: RunChild, children: Path, kind: str) -> None:
    done = run_python("-W", "error", str(children / "cycles.py"), kind, str(CYCLES))
    assert (done.status, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert (
        found["live"],
        found["objects"] < CYCLES // 10,
        found["bytes a cycle"] < A_PAGE,
    ) == ({"memory_live_bytes": 0, "memory_allocated": 0, "pipelines_created": 0}, True, True), found
