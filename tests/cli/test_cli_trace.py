"""``vyre-driver trace``: programs as they are, their status, and joined traces."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from traces import faults, on_device

from vyre_driver.profiling.trace_events import read_document

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import RunChild

PROGRAM = """
import os
import sys
import numpy as np
from vyre_driver import Driver, kernels
with Driver() as driver:
    kernels.saxpy(driver)(np.ones(100, np.float32), np.ones(100, np.float32), alpha=2.0)
print(sys.argv[1:], __name__)
os.chdir("/")
"""


@pytest.mark.device
def test_a_program_runs_as_it_is_and_its_trace_is_written(run_cli: RunChild, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM + "raise SystemExit(3)\n", "utf-8")
    done = run_cli("trace", "-o", "a.json", "--html", "a.html", "program.py", "--size", "1", "-o", "b", cwd=tmp_path)
    assert (done.status, done.stdout) == (3, "['--size', '1', '-o', 'b'] __main__\n")
    found = read_document(tmp_path / "a.json")
    assert (faults(found), on_device(found)) == ([], ["saxpy_vectors"])
    assert "Trace in a.json" in done.stderr
    assert (tmp_path / "a.html").read_text("utf-8").startswith("<!DOCTYPE html>")
    again = run_cli("trace", "-o", "b.json", "--quiet", "-m", "program", cwd=tmp_path, env={"PYTHONPATH": str(tmp_path)})
    assert (again.status, again.stderr) == (3, "")
    joined = run_cli("trace", "--quiet", "-o", "c.json", "--join", "a.json", "b.json", cwd=tmp_path)
    both = read_document(tmp_path / "c.json")
    assert (joined.status, joined.stderr, faults(both), on_device(both)) == (0, "", [], ["saxpy_vectors", "saxpy_vectors"])


@pytest.mark.device
def test_the_trace_of_a_program_that_fails_goes_up_to_there(run_cli: RunChild, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM + "raise ValueError('mine')\n", "utf-8")
    done = run_cli("trace", "program.py", cwd=tmp_path)
    assert (done.status, "ValueError: mine" in done.stderr) == (1, True)
    assert on_device(read_document(tmp_path / "trace.json")) == ["saxpy_vectors"]


def test_without_a_driver_there_is_no_trace(run_here: RunChild, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "program.py").write_text("print('done')\n", "utf-8")
    done = run_here("trace", "program.py")
    assert (done.status, done.stdout, "opened no driver" in done.stderr) == (0, "done\n", True)
    assert list(tmp_path.glob("*.json")) == []


@pytest.mark.parametrize(
    ("given", "problem"),
    [("--out=nowhere/a.json", "does not exist"), ("--out=.", "is a directory"), ("--html=.", "is a directory")],
)
def test_a_program_does_not_run_whose_trace_could_not_be_written(
    run_here: RunChild, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str, problem: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "program.py").write_text("print('done')\n", "utf-8")
    done = run_here("trace", given, "program.py")
    assert (done.status, done.stdout, problem in done.stderr) == (2, "", True), done.stderr


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (["trace"], "no program to run"),
        (["trace", "nowhere.py"], "there is no file nowhere.py"),
        (["trace", "-m"], "-m"),
        (["trace", "--join", "nowhere.json"], "cannot read nowhere.json"),
    ],
)
def test_what_cannot_be_traced_is_refused(
    run_here: RunChild, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: list[str], problem: str
) -> None:
    monkeypatch.chdir(tmp_path)
    done = run_here(*given)
    assert (done.status, problem in done.stderr) == (2, True), done.stderr
