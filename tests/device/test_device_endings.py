"""How buffers, bound kernels, batches and futures end: in any order, collected, or left to the exit, with work running."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import RunChild

pytestmark = pytest.mark.device


@pytest.mark.parametrize(
    "case",
    [
        "all_but_the_driver_are_dropped_in_every_order",
        "all_but_the_driver_are_closed_in_every_order",
        "driver_is_dropped_at_every_place_in_the_order",
        "driver_is_closed_at_every_place_in_the_order",
        "exits_with_everything_alive",
        "exits_with_an_uncollected_cycle",
        "exits_with_a_daemon_thread_that_submits",
    ],
)
def test_a_process_ends_cleanly_when(run_forked: RunChild, children: Path, case: str) -> None:
    done = run_forked("-W", "error", str(children / "endings.py"), case)
    assert (done.status, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(
    "case",
    [
        "driver_is_closed_while_work_runs",
        "buffers_and_driver_are_closed_while_work_runs",
        "driver_is_closed_by_another_thread_while_one_waits",
        "all_die_in_one_cycle_while_work_runs",
        "all_die_in_one_cycle_with_the_work_itself",
        "all_die_in_knots_while_work_runs",
        "all_die_in_another_thread_while_work_runs",
        "exits_while_work_runs",
        "exits_with_an_uncollected_cycle_while_work_runs",
        "exits_with_a_daemon_thread_that_waits",
    ],
)
def test_a_process_ends_cleanly_while_work_runs_when(run_forked: RunChild, children: Path, case: str) -> None:
    done = run_forked("-W", "error", str(children / "endings.py"), case)
    assert (done.status, done.stdout, done.stderr) == (0, "", "")
