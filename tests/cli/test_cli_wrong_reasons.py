"""Verbs that used to give a wrong reason, or none: in a read-only container, for short arrays, for what is not there."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np
import pytest

from vyre_driver.cli import main

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import RunChild

NO_PLACE = """
import sys, tempfile
tempfile._candidate_tempdir_list = lambda: []
"""
RUNS_A_VERB = f"{NO_PLACE}from vyre_driver.cli import main\nsys.exit(main(sys.argv[1:]))"
ONE_PROCESS_A_JOB = "from vyre_driver.cli import demo\ndemo._PROCESSES = (1,)\n"
OPENS = f"""{NO_PLACE}
from vyre_driver import Driver
Driver(allow_software=True, isolated=True).close()
print("opened")
"""


@pytest.mark.device
def test_an_isolated_driver_needs_no_temporary_directory(run_python: RunChild) -> None:
    ended = run_python("-c", OPENS)
    assert (ended.status, ended.stdout, ended.stderr) == (0, "opened\n", "")


@pytest.mark.device
def test_the_doctor_and_the_demo_need_no_temporary_directory(run_python: RunChild, tmp_path: Path) -> None:
    checked = run_python("-c", RUNS_A_VERB, "doctor", env={"VYRE_ALLOW_SOFTWARE": "1"})
    assert ("verdict: " in checked.stdout, "error 2202" in checked.stderr) == (True, False)
    text, numbers = tmp_path / "text", tmp_path / "numbers.npy"
    text.write_bytes(b"aaabbc")
    np.save(numbers, np.arange(1000, dtype=np.float32))
    small = ("--files", str(text), "--npy", str(numbers))
    shown = run_python("-c", ONE_PROCESS_A_JOB + RUNS_A_VERB, "demo", *small, "--out-dir", str(tmp_path))
    assert (shown.status, shown.stdout.count("WRONG")) == (0, 0), shown.stderr


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (
            FileNotFoundError(2, "No usable temporary directory found in ['/tmp']"),
            (
                "there is no directory for temporary files (No usable temporary directory found in ['/tmp']). "
                "Fix: make /tmp a directory that this user may write to, or set TMPDIR to one."
            ),
        ),
        (
            PermissionError(13, "Permission denied", "/some/file"),
            "the system refused a step: Permission denied (/some/file). Fix: correct what it names.",
        ),
        (
            OSError(28, "No space left on device"),
            "cannot write standard output (No space left on device). Fix: free some space.",
        ),
    ],
)
def test_only_a_failed_write_is_called_standard_output_s(
    error: OSError, says: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def refuse(_options: object) -> int:
        raise error

    monkeypatch.setattr("vyre_driver.cli.explain.run", refuse)
    monkeypatch.setattr("vyre_driver.cli._silence_stdout", lambda: None)
    assert (main(["explain"]), capfd.readouterr().err) == (2, f"vyre-driver: error 2202: {says}\n")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            ["run", "saxpy", "--in", "x=random:10", "--in", "y=random:12", "--push", "count=12", "--push", "alpha=1"],
            (
                "error 2201: x of saxpy has 10 elements, and --push count=12 has it read 12. "
                "Fix: give count the length of the shortest array, or x 12 elements."
            ),
        ),
        (
            ["run", "saxpy", "--in", "x=random:12", "--count", "y=10", "--push", "count=12", "--push", "alpha=1"],
            (
                "error 2201: y of saxpy has 10 elements, and --push count=12 has it read 12. "
                "Fix: give count the length of the shortest array, or y 12 elements."
            ),
        ),
        (
            ["kernel", "check", f"{os.sep}nowhere{os.sep}nofile.py"],
            "error 2202: /nowhere/nofile.py does not exist. Fix: name a Python file that is there.",
        ),
        (["explain", "9999"], "error 2501: there is no error '9999'. Fix: see vyre-driver explain, which lists all."),
        (
            ["explain", "1050"],
            (
                "error 2501: there is no error '1050'. Fix: write 1005 or 1007 or 1006, or see vyre-driver explain, "
                "which lists all."
            ),
        ),
    ],
)
def test_what_a_verb_cannot_do_is_refused(arguments: list[str], says: str, run_here: RunChild) -> None:
    ended = run_here(*arguments)
    assert (ended.status, ended.stdout, ended.stderr) == (2, "", f"vyre-driver: {says}\n")


PRODUCT = ["--push", "m=4", "--push", "n=3", "--push", "k=5", "--push", "part=5"]
ROWS = ["--push", "rows=4", "--push", "columns=5"]
FEWER = "Fix: give smaller numbers, or"


@pytest.mark.parametrize(
    ("shader", "arrays", "push", "says"),
    [
        ("saxpy_vectors", {"xv": "10", "yv": "12"}, ["--push", "alpha=1", "--push", "count=12"], "xv of saxpy_vectors has 10"),
        ("reduce", {"x": "10:uint32"}, ["--push", "count=12"], "x of reduce has 10 elements, and --push count=12 has it"),
        (
            "matmul",
            {"a": "19", "b": "15"},
            PRODUCT,
            f"a of matmul has 19 elements, and --push m=4 and --push k=5 have it read 20. {FEWER} a 20 elements.",
        ),
        ("matmul_f16", {"a": "20:float16", "b": "14:float16"}, PRODUCT, "b of matmul_f16 has 14 elements, and --push k=5 and"),
        ("softmax", {"x": "19"}, ROWS, "x of softmax has 19 elements, and --push rows=4 and --push columns=5 have it"),
        ("rmsnorm", {"x": "20", "weight": "4"}, [*ROWS, "--push", "eps=0"], "weight of rmsnorm has 4 elements"),
    ],
)
def test_arrays_shorter_than_an_included_shader_reads_are_refused(
    shader: str, arrays: dict[str, str], push: list[str], says: str, run_here: RunChild
) -> None:
    inputs = [word for name, shape in arrays.items() for word in ("--in", f"{name}=ones:{shape}")]
    outputs = {"saxpy_vectors": "sumsv", "reduce": "results", "matmul": "c", "matmul_f16": "c"}
    ended = run_here("run", shader, *inputs, "--count", f"{outputs.get(shader, 'y')}=20", *push)
    assert (ended.status, ended.stdout, ended.stderr.startswith(f"vyre-driver: error 2201: {says}")) == (2, "", True)


@pytest.mark.device
def test_arrays_as_long_as_an_included_shader_reads_are_taken(run_here: RunChild) -> None:
    words = ["run", "matmul", "--in", "a=ones:4x5", "--in", "b=ones:5x3", "--count", "c=12", *PRODUCT]
    words += ["--workgroups", "1", "--allow-software"]
    ended = run_here(*words)
    assert (ended.status, ended.stderr) == (0, "")


@pytest.mark.device
def test_a_file_that_is_called_as_an_included_shader_is_read_as_it_is(
    run_here: RunChild, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "saxpy").write_text("""#version 450
layout(binding = 0) readonly buffer X { float x[]; };
layout(binding = 1) buffer Y { float y[]; };
layout(push_constant) uniform Push { uint count; };
void main() { y[0] = x[0] + float(count); }
""")
    monkeypatch.chdir(tmp_path)
    words = ["run", "saxpy", "--in", "x=ones:1", "--count", "y=1", "--push", "count=12"]
    words += ["--workgroups", "1", "--allow-software"]
    ended = run_here(*words)
    assert (ended.status, ended.stderr) == (0, "")
