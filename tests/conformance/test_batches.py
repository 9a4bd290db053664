"""Cases in child processes: a crash, a hang and an error are failures of one case, and a journal lets a run go on."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from vyre_driver.cli import main
from vyre_driver.conformance.batches import Tally, batches, run_batches, run_job
from vyre_driver.conformance.cases import hand_written
from vyre_driver.conformance.jobs import Job
from vyre_driver.conformance.options import Options
from vyre_driver.errors import FileUnusable

if TYPE_CHECKING:
    from pathlib import Path

SEEDS = Job("cpu-ref", 40, 5)


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


def test_a_job_gives_what_the_same_process_would(python: Path) -> None:
    assert not python.exists()
    assert run_job(SEEDS) == Tally(asked=5, agreed=5)


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ("os.abort()", "the process ended with signal 6 (SIGABRT)"),
        ("os._exit(3)", "the process ended with status 3: "),
        ("time.sleep(600)", "no answer in 20 s"),
    ],
)
def test_a_case_that_ends_or_stops_its_process_fails_and_the_others_are_asked(python: Path, what: str, why: str) -> None:
    python.write_text(SPOILED.format(what=what))
    failed = {"case": "seed 42", "why": why, "grid": [], "program": "", "text": f"seed 42: {why}"}
    assert run_job(SEEDS, timeout_s=20) == Tally(asked=5, agreed=4, failed=[failed])


def test_what_a_child_complains_of_is_told(python: Path) -> None:
    python.write_text(SPOILED.format(what="raise RuntimeError('tired')"))
    (failure,) = run_job(SEEDS).failed
    assert failure["why"].startswith("the process ended with status 1: ")
    assert failure["why"].endswith("RuntimeError: tired")


def test_a_job_stops_at_so_many_failures(python: Path) -> None:
    python.write_text(SPOILED.format(what="os.abort()"))
    assert (run_job(SEEDS, max_failures=1).asked, len(run_job(SEEDS, max_failures=1).failed)) == (3, 1)


def test_a_job_is_cut_into_batches() -> None:
    assert [(one.first, one.count) for one in batches(Job("cpu-ref", 7, 12), 5)] == [(7, 5), (12, 5), (17, 2)]
    assert list(batches(Job("cpu-ref", 7, 0), 5)) == []


def test_a_job_of_hand_written_cases_counts_their_places() -> None:
    names = [case.name for case in hand_written(Options())]
    job = Job("cpu-ref", 3, 2, by_hand=True)
    assert ([case.name for case in job.cases()], job.name(1)) == (names[3:5], names[4])


def test_a_journal_keeps_what_is_done(python: Path, tmp_path: Path) -> None:
    journal = tmp_path / "done.jsonl"
    cut = list(batches(SEEDS, 3))
    first = run_batches(iter(cut[:1]), journal=journal)
    python.write_text(SPOILED.format(what="os.abort()"))  # seed 42 is among those that are done
    both = run_batches(iter(cut), journal=journal)
    assert (first, both) == (Tally(asked=3, agreed=3), Tally(asked=5, agreed=5))
    assert [json.loads(line)["job"]["first"] for line in journal.read_text().splitlines()] == [40, 43]


def test_a_line_of_a_journal_that_was_cut_off_is_done_again(tmp_path: Path) -> None:
    journal = tmp_path / "done.jsonl"
    run_batches(batches(SEEDS, 3), journal=journal)
    whole = journal.read_text()
    journal.write_text(whole[:-10])
    assert run_batches(batches(SEEDS, 3), journal=journal) == Tally(asked=5, agreed=5)
    assert journal.read_text() == whole


def test_what_is_no_journal_is_refused(tmp_path: Path) -> None:
    journal = tmp_path / "done.jsonl"
    journal.write_text("hello\n")
    with pytest.raises(FileUnusable, match=r"done\.jsonl is no journal of this command"):
        run_batches(batches(SEEDS), journal=journal)
    assert journal.read_text() == "hello\n"


def test_a_journal_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileUnusable, match="cannot be written"):
        run_batches(batches(SEEDS), journal=tmp_path / "nowhere" / "done.jsonl")


def test_the_verb_asks_in_batches(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    journal = tmp_path / "done.jsonl"
    how = ["--no-cases", "--count", "5", "--seed", "40", "--batch", "2", "--journal", str(journal), "--json"]
    status = main(["conform", "--backend", "cpu-ref", *how])
    found = json.loads(capsys.readouterr().out)
    del found["seconds"]
    facts = {"schema": 1, "backend": "cpu-ref", "seed": 40, "count": 5}
    assert (status, found) == (0, {**facts, "asked": 5, "agreed": 5, "unsupported": {}, "failed": []})
    assert len(journal.read_text().splitlines()) == 3
