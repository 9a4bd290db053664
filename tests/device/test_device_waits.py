"""Long waits let other threads run and hear Ctrl-C."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Finished, RunChild

pytestmark = pytest.mark.device

ATTEMPTS = 3  # of what a busy machine can disturb


def run_case(run_forked: RunChild, children: Path, case: str) -> Finished:
    return run_forked(str(children / "waits.py"), case, env={"LP_NUM_THREADS": "1"})


@pytest.mark.alone
def test_another_thread_keeps_four_fifths_of_its_speed_while_one_waits(run_forked: RunChild, children: Path) -> None:
    shares = []
    for _ in range(ATTEMPTS):
        done = run_case(run_forked, children, "ticks_while_another_thread_waits")
        found = json.loads(done.stdout or "null")
        assert (done.status, done.stderr, found["enough turns"], found["runs"]) == (0, "", True, 1)
        shares.append(found["share"])
        if shares[-1] >= 0.8:
            break
    assert shares[-1] >= 0.8, shares


@pytest.mark.alone
def test_a_run_lets_other_threads_run(run_forked: RunChild, children: Path) -> None:
    done = run_case(run_forked, children, "ticks_during_a_run")
    share = json.loads(done.stdout or "null")["share"]
    assert share > 0.3, share


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ("ctrl_c_in_run", {"raised": True, "still running": True, "runs": 2}),
        ("ctrl_c_in_run_with_a_time_out", {"raised": True, "still running": True, "runs": 2}),
        ("ctrl_c_in_result", {"raised": True, "still running": True, "runs": 2}),
        ("ctrl_c_in_a_read", {"raised": True, "still running": True, "runs": 2}),
        ("ctrl_c_in_a_call", {"raised": True, "still running": True, "runs": 1}),
        ("ctrl_c_and_the_end", {"raised": True}),
    ],
)
def test_ctrl_c_ends_the_wait_not_the_work_and_the_driver_works_on(
    run_forked: RunChild, children: Path, case: str, expected: dict[str, object]
) -> None:
    done = run_case(run_forked, children, case)
    assert (done.status, json.loads(done.stdout or "null"), done.stderr) == (0, expected, "")


def test_reads_of_several_threads_end_after_one_that_ctrl_c_ended(run_forked: RunChild, children: Path) -> None:
    done = run_case(run_forked, children, "ctrl_c_in_a_read_then_threads_read")
    expected = {"raised": True, "right": [True] * 4, "pending": 0}
    assert (done.status, json.loads(done.stdout or "null"), done.stderr) == (0, expected, "")


def test_a_signal_whose_handler_returns_ends_no_wait(run_forked: RunChild, children: Path) -> None:
    done = run_case(run_forked, children, "a_handler_that_returns")
    expected = {"handled": True, "not too early": True, "runs": 2}
    assert (done.status, json.loads(done.stdout or "null"), done.stderr) == (0, expected, "")
