"""``vyre-driver stub``: where the stub goes, and what it holds."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from vyre_driver.spirv.module import SpirvModule
from vyre_driver.spirv.stub import stub_of

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Refused, RunChild


def test_the_stub_lies_beside_the_shader(run_here: RunChild, work: Path) -> None:
    done = run_here("stub", "saxpy.spv")
    assert (done.status, done.stdout) == (0, "saxpy.pyi\n")
    assert (work / "saxpy.pyi").read_text() == stub_of(SpirvModule.from_file("saxpy.spv"))


def test_the_stub_goes_where_it_is_told_in_place_of_what_was_there(run_here: RunChild, work: Path) -> None:
    (work / "kernel.pyi").write_text("old")
    done = run_here("stub", "saxpy.comp", "--out", "kernel.pyi", "--json")
    assert json.loads(done.stdout) == {"schema": 1, "shader": "saxpy.comp", "stub": "kernel.pyi"}
    assert (work / "kernel.pyi").read_text().startswith('"""saxpy.comp: kernel(')


def test_a_dash_prints_it(run_cli: RunChild, work: Path) -> None:
    done = run_cli("stub", "saxpy.spv", "--out", "-")
    assert (done.stdout, list(work.glob("*.pyi"))) == (stub_of(SpirvModule.from_file("saxpy.spv")), [])


def test_a_place_that_cannot_be_written_is_refused(refused_here: Refused) -> None:
    assert refused_here("stub", "saxpy.spv", "--out", "nowhere/saxpy.pyi") == (
        "2202: cannot write nowhere/saxpy.pyi (No such file or directory). Fix: name a file in a writable directory."
    )


def test_a_file_behind_a_link_is_written_and_keeps_its_mode(run_here: RunChild, work: Path) -> None:
    (work / "kernel.pyi").write_text("old")
    (work / "kernel.pyi").chmod(0o600)
    (work / "link.pyi").symlink_to("kernel.pyi")
    done = run_here("stub", "saxpy.spv", "--out", "link.pyi")
    assert (done.status, (work / "link.pyi").is_symlink(), (work / "kernel.pyi").stat().st_mode & 0o777) == (0, True, 0o600)
    assert (work / "kernel.pyi").read_text() == stub_of(SpirvModule.from_file("saxpy.spv"))


def test_a_name_as_long_as_the_system_takes_is_written(run_here: RunChild, work: Path) -> None:
    name = "k" * 251 + ".pyi"
    done = run_here("stub", "saxpy.spv", "--out", name)
    assert (done.status, (work / name).read_text()) == (0, stub_of(SpirvModule.from_file("saxpy.spv")))
