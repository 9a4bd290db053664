"""Cases in child processes: a crash, a hang and an error are failures of one case."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from vyre_driver.cli import main
from vyre_driver.conformance.cases import hand_written
from vyre_driver.conformance.jobs import Job, batches, run_batches, run_job
from vyre_driver.conformance.options import Options
from vyre_driver.conformance.suite import Answer, Failure

if TYPE_CHECKING:
    from pathlib import Path

SEEDS = Job("cpu-ref", 40, 5)
AGREED = [Answer(f"seed {seed}") for seed in range(40, 45)]


@pytest.fixture
def python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Python that runs ``sitecustomize.py`` of this folder first, in which a test says what goes wrong."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]))
    return tmp_path / "sitecustomize.py"


# The reference's interpreter of the child does something of its own for one program, which it knows by its workgroup count.
SPOILED = """
import sys, os, time
if "vyre_driver.conformance.jobs" in sys.orig_argv:
    import vyre_driver.conformance.suite as suite
    answer = suite.answer
    def spoiled(backend, case, **how):
        if case.name == "seed 42":
            {what}
        return answer(backend, case, **how)
    suite.answer = spoiled
"""
SPOILED_TWICE = SPOILED.replace('== "seed 42"', "in {{'seed 42', 'seed 44'}}")


def test_a_job_gives_what_the_same_process_would(python: Path) -> None:
    assert not python.exists()
    assert run_job(SEEDS) == AGREED


@pytest.mark.parametrize(
    ("what", "timeout_s", "why"),
    [
        ("os.abort()", 60, "the process ended with signal 6 (SIGABRT)"),
        ("os._exit(3)", 60, "the process ended with status 3: "),
        ("time.sleep(600)", 2, "no answer in 2 s"),
    ],
)
def test_a_case_that_ends_or_stops_its_process_fails_and_the_others_are_asked(
    python: Path, what: str, timeout_s: float, why: str
) -> None:
    python.write_text(SPOILED.format(what=what))
    failed = Answer("seed 42", failure=Failure("seed 42", why, (), "", f"seed 42: {why}"))
    assert run_job(SEEDS, timeout_s=timeout_s) == [*AGREED[:2], failed, *AGREED[3:]]


# From seed 42 on the device of that process is gone, whatever is asked of it.
LOST = """
import sys
if "vyre_driver.conformance.jobs" in sys.orig_argv:
    import vyre_driver.conformance.suite as suite
    from vyre_driver.errors import DeviceLost
    answer, gone = suite.answer, []
    def losing(*_, **_how):
        raise DeviceLost("'GPU' was lost", fix="make a new Driver")
    def lost(backend, case, **how):
        gone.extend([True] * (case.name == "seed 42"))
        return answer(losing if gone else backend, case, **how)
    suite.answer = lost
"""


def test_a_lost_device_is_one_failure_and_another_process_goes_on_behind_it(python: Path) -> None:
    python.write_text(LOST)
    found = run_job(SEEDS)
    failed = found[2].failure
    assert failed is not None
    assert (failed.case, failed.why) == ("seed 42", "DeviceLost 2006: 'GPU' was lost. Fix: make a new Driver.")
    assert found == [*AGREED[:2], Answer("seed 42", failure=failed, is_last=True), *AGREED[3:]]


def test_a_process_that_a_lost_device_does_not_let_go_is_ended(python: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vyre_driver.conformance.jobs._LEAVING_S", 0.2)
    python.write_text(f"{LOST}    import atexit, time\n    atexit.register(lambda: gone and time.sleep(600))\n")
    assert [answer.failure is None for answer in run_job(SEEDS, timeout_s=20)] == [True, True, False, True, True]


def test_what_a_child_complains_of_is_told(python: Path) -> None:
    python.write_text(SPOILED.format(what="raise RuntimeError('tired')"))
    (failure,) = [answer.failure for answer in run_job(SEEDS) if answer.failure is not None]
    assert failure.why.startswith("the process ended with status 1: ")
    assert failure.why.endswith("RuntimeError: tired")


def test_a_job_stops_at_so_many_failures(python: Path) -> None:
    python.write_text(SPOILED.format(what="os.abort()"))
    assert [answer.failure is None for answer in run_job(SEEDS, max_failures=1)] == [True, True, False]


def test_a_job_is_cut_into_batches() -> None:
    assert [(one.first, one.count) for one in batches(Job("cpu-ref", 7, 12), 5)] == [(7, 5), (12, 5), (17, 2)]
    assert list(batches(Job("cpu-ref", 7, 0), 5)) == []


def test_a_job_of_hand_written_cases_counts_their_places() -> None:
    names = [case.name for case in hand_written(Options())]
    job = Job("cpu-ref", 3, 2, by_hand=True)
    assert ([case.name for case in job.cases()], job.name(1)) == (names[3:5], names[4])


def test_workers_side_by_side_find_what_one_finds_in_the_order_of_the_jobs(python: Path) -> None:
    """The first job ends last."""
    python.write_text(SPOILED_TWICE.format(what="time.sleep(0.4) if case.name == 'seed 42' else os._exit(4); os._exit(3)"))
    found = run_batches(batches(SEEDS, 2), workers=3)
    why = {"seed 42": "the process ended with status 3: ", "seed 44": "the process ended with status 4: "}
    assert (found.asked, found.agreed, {one.case: one.why for one in found.failures}) == (5, 3, why)
    assert [one.case for one in found.failures] == ["seed 42", "seed 44"]


def test_the_last_failure_that_is_wanted_stops_the_workers_beside_it(python: Path) -> None:
    """Another one would sleep for ten minutes: it is ended, and is not a failure."""
    python.write_text(SPOILED_TWICE.format(what="os._exit(3) if case.name == 'seed 42' else time.sleep(600)"))
    found = run_batches(batches(SEEDS, 1), workers=5, max_failures=1)
    assert [one.case for one in found.failures] == ["seed 42"]


def test_the_verb_asks_in_child_processes(capsys: pytest.CaptureFixture[str]) -> None:
    how = ["--no-cases", "--count", "5", "--seed", "40", "--jobs", "1", "--json"]
    status = main(["conform", "--backend", "cpu-ref", *how])
    found = json.loads(capsys.readouterr().out)
    del found["seconds"]
    facts = {"schema": 1, "backend": "cpu-ref", "seed": 40, "count": 5}
    assert (status, found) == (0, {**facts, "asked": 5, "agreed": 5, "unsupported": {}, "failed": []})


def test_the_verb_asks_side_by_side_about_constants(capsys: pytest.CaptureFixture[str]) -> None:
    how = ["--no-cases", "--count", "4", "--jobs", "2", "--constants", "--no-subgroups", "--json"]
    assert main(["conform", "--backend", "cpu-ref", *how]) == 0
    assert json.loads(capsys.readouterr().out)["agreed"] == 4
