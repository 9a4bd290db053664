"""``vyre-driver run`` with a program that upstream's 0.7.2 wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from upstream_graphs import cases

from vyre_driver import Program

if TYPE_CHECKING:
    from pathlib import Path

    from cli.conftest import Refused
    from conftest import RunChild

CASE = cases()["bin_Add"]
WIRE = CASE.bytes_of["program"]
OUTPUT = (CASE.outputs or {})["out"]


@pytest.fixture
def program(work: Path) -> Path:
    """A file with the program, beside its input ``words.npy``."""
    path = work / "program.vyre"
    path.write_bytes(WIRE)
    np.save(work / "words.npy", CASE.arrays(Program.from_wire(WIRE))["x"])
    return path


@pytest.mark.device
@pytest.mark.usefixtures("program")
def test_a_program_of_upstream_runs_with_the_result_of_its_oracle(run_here: RunChild, work: Path) -> None:
    run_here("run", "program.vyre", "--in", "x=words.npy", "--out", "out=out.npy")
    assert np.load(work / "out.npy").tobytes() == OUTPUT


@pytest.mark.device
def test_a_program_is_read_from_standard_input(run_cli: RunChild, program: Path, work: Path) -> None:
    with program.open("rb") as file:
        done = run_cli("run", "-", "--in", "x=words.npy", "--out", "out=out.bin", stdin=file)
    assert (done.status, done.complaint) == (0, [])
    assert (work / "out.bin").read_bytes() == OUTPUT


@pytest.mark.usefixtures("program")
def test_what_does_not_fit_a_program_is_refused(refused_here: Refused, work: Path) -> None:
    (work / "cut.vyre").write_bytes(WIRE[:-1])
    messages = {
        "entry": refused_here("run", "program.vyre", "--entry", "main"),
        "missing": refused_here("run", "program.vyre"),
        "no number": refused_here("run", "program.vyre", "--in", "x=words.npy", "--spec", "n=x"),
        "cut": refused_here("run", "cut.vyre"),
    }
    assert messages == {
        "entry": "2501: a program has no entry points, and --entry names one. Fix: leave --entry out.",
        "missing": "2201: the program has input 'x' at binding 0, and nothing was given for it. Fix: add --in x=FILE or "
        "--in x=random:N.",
        "no number": "2102: --spec n=x is no number. Fix: give a number, true or false.",
        "cut": "2105: the bytes are not a program in a wire format that is read: byte 8: its body does not have the digest "
        "that the header gives. Fix: write the program anew with to_wire().",
    }
