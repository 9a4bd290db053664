"""Ctrl-C at random moments of opening, compiling, calling, submitting and closing; ``make stress`` does so for ten minutes."""

from __future__ import annotations

import json

import pytest
from interruptions import Child

pytestmark = pytest.mark.device


@pytest.mark.parametrize("count", [12, pytest.param(300, marks=pytest.mark.thorough)])
def test_signals_at_random_moments_end_no_process_and_lose_nothing(count: int) -> None:
    done = Child("interruption_signals.py").run("1", "", "600", str(count))
    assert (done.returncode, done.stderr) == (0, "")
    told = json.loads(done.stdout)
    assert (told["complaints"], sum(told["interrupted"].values())) == ([], count)
