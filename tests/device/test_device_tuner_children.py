"""Tuning in processes of their own: candidates that kill theirs or hang, parents that are killed, and what is left."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from descriptors import descriptors_over_1024
from made_kernels import TurningKernel
from tunings import BEST, FEW, SHORT, details, memory_in_use, statuses, tuned

from vyre_driver.autotune import Progress, Status
from vyre_driver.errors import InvalidInput

if TYPE_CHECKING:
    from vyre_driver import Driver


pytestmark = pytest.mark.device


def children_of_this_process() -> list[int]:
    """Those that run still, or were not waited for, whichever thread started them."""
    return [int(one) for path in Path("/proc/self/task").glob("*/children") for one in path.read_text("ascii").split()]


def test_a_candidate_that_kills_its_process_is_noted_and_the_others_are_timed(layered: Driver) -> None:
    definition = TurningKernel((800, 1, BEST, 2), ((1, "dies"), (2, "crashes")), home=os.getpid())
    result = tuned(layered, definition, isolate=True)
    assert result.best.candidate["TURNS"] == BEST
    assert [statuses(result)[one] for one in (1, 2)] == [Status.FAILED, Status.FAILED]
    said = {one: details(result)[one].partition(". Fix")[0] for one in (1, 2)}
    assert said == {
        1: "the process that ran TURNS=1 ended with SIGKILL",
        2: "the process that ran TURNS=2 ended with SIGSEGV",
    }
    assert children_of_this_process() == []


def test_a_candidate_that_hangs_is_killed_and_the_others_are_timed(layered: Driver) -> None:
    definition = TurningKernel((800, 1, BEST), ((1, "endless"),))
    result = tuned(layered, definition, isolate=True, budget=replace(SHORT, run_timeout=0.5))
    assert (result.best.candidate["TURNS"], statuses(result)[1]) == (BEST, Status.HUNG)
    assert "did not end in 0.5 s" in details(result)[1]
    assert children_of_this_process() == []


@pytest.mark.thorough
def test_a_candidate_that_is_never_ready_is_killed_and_the_others_are_timed(layered: Driver) -> None:
    definition = TurningKernel((800, 1, BEST), ((1, "sleeps"),), home=os.getpid())
    result = tuned(layered, definition, isolate=True, budget=replace(SHORT, make_timeout=5.0))
    assert (result.best.candidate["TURNS"], statuses(result)[1]) == (BEST, Status.HUNG)
    assert details(result)[1].startswith("the process that ran TURNS=1 gave no answer to make in 5 s and was killed. Fix: ")
    assert children_of_this_process() == []


def test_a_process_with_more_than_1024_descriptors_tunes_in_processes_of_their_own(layered: Driver) -> None:
    """Which select() would refuse to wait for."""
    with descriptors_over_1024(4096):
        result = tuned(layered, TurningKernel((800, BEST), home=os.getpid()), isolate=True)
    assert result.best.candidate["TURNS"] == BEST


def test_a_candidate_whose_process_died_after_it_served_others_gets_one_more_chance(layered: Driver, tmp_path: Path) -> None:
    marker = tmp_path / "died"
    definition = TurningKernel((800, BEST, 1600), ((BEST, "dies once"),), home=os.getpid(), marker=str(marker))
    result = tuned(layered, definition, isolate=True)
    assert (marker.exists(), result.best.candidate["TURNS"]) == (True, BEST)
    assert statuses(result) == {800: Status.DROPPED, BEST: Status.TIMED, 1600: Status.DROPPED}


@pytest.mark.parametrize("isolate", [False, True])
def test_an_interrupted_tuning_leaves_neither_buffers_nor_processes(layered: Driver, isolate: bool) -> None:  # noqa: FBT001 -- a case
    def interrupted(progress: Progress) -> None:
        if progress.tried == len(FEW):
            raise KeyboardInterrupt

    before = memory_in_use(layered)
    with pytest.raises(KeyboardInterrupt):
        tuned(layered, TurningKernel(FEW), isolate=isolate, on_progress=interrupted)
    assert (memory_in_use(layered), children_of_this_process()) == (before, [])


@pytest.mark.parametrize("isolate", [False, True])
def test_a_tuning_leaves_neither_buffers_nor_processes_nor_files(
    layered: Driver,
    isolate: bool,  # noqa: FBT001 -- a case
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    before = memory_in_use(layered)
    tuned(layered, TurningKernel(FEW, quick_to=1000), isolate=isolate)
    assert (memory_in_use(layered), children_of_this_process()) == (before, [])
    assert list((tmp_path / "temporary").iterdir()) == []


KILLED = """
import os, sys
from pathlib import Path
from made_kernels import TurningKernel
from vyre_driver import Driver
from vyre_driver.autotune import AutotuneStore
from vyre_driver.autotune.measure.tuned import TunedKernel
from vyre_driver.autotune.measure.tune import tune

def told(progress):
    print(*[path.read_text() for path in Path("/proc/self/task").glob("*/children")], flush=True)
    if sys.argv[1] == "waits":
        sys.stdin.read()

flaws = () if sys.argv[1] == "waits" else ((1, "sleeps"),)
with Driver(autotune=AutotuneStore()) as driver:
    tune(TunedKernel(driver, TurningKernel((100, 1), flaws, marker=sys.argv[2])), isolate=True, on_progress=told)
"""


def is_readable(descriptor: int) -> bool:
    """Whether there is something to read within a minute; of a process, that it has ended."""
    return select.select([descriptor], [], [], 60)[0] == [descriptor]


@pytest.mark.parametrize("child_does", ["waits", "sleeps"])
def test_a_child_ends_when_its_parent_is_killed(child_does: str, tmp_path: Path) -> None:
    fifo = tmp_path / "asleep"
    os.mkfifo(fifo)
    asleep = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    command = [sys.executable, "-c", KILLED, child_does, str(fifo)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as parent:
        assert parent.stdout is not None
        child = os.pidfd_open(int(parent.stdout.readline()))
        try:
            assert child_does == "waits" or is_readable(asleep)
            parent.kill()
            assert is_readable(child)
        finally:
            os.close(child)
            os.close(asleep)


class Unsendable(TurningKernel):
    """Cannot be pickled."""

    def __reduce__(self) -> Any:  # noqa: ANN401 -- pickle's
        raise TypeError("not this one")


def test_a_kernel_that_cannot_be_sent_to_a_child_is_refused(layered: Driver) -> None:
    with pytest.raises(InvalidInput, match=r"turning cannot be sent to a child process \(TypeError: not this one\)"):
        tuned(layered, Unsendable(FEW), isolate=True)


def test_a_kernel_that_a_child_cannot_import_is_refused(layered: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [one for one in sys.path if not one.endswith("children")])
    with pytest.raises(InvalidInput, match=r"cannot use the kernel \(ModuleNotFoundError: No module named 'made_kernels'\)"):
        tuned(layered, TurningKernel(FEW), isolate=True)
    assert children_of_this_process() == []
