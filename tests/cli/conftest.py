"""A directory with files to run on, and what every refused command has in common."""

from __future__ import annotations

import functools
from importlib.resources import files
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pytest

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from conftest import RunChild

X = np.arange(8, dtype=np.float32)
Y = np.ones(8, np.float32)


class Refused(Protocol):
    """Run a command that must be refused, and return its one line of stderr without ``vyre-driver: error``."""

    def __call__(self, *arguments: str, env: Mapping[str, str | None] | None = None) -> str: ...


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with the saxpy shader and its arrays."""
    directory = tmp_path / "work"
    directory.mkdir()
    for name in ("saxpy.comp", "saxpy.spv"):
        (directory / name).write_bytes(files("vyre_driver.shaders").joinpath(name).read_bytes())
    np.save(directory / "x.npy", X)
    np.save(directory / "y.npy", Y)
    monkeypatch.chdir(directory)
    return directory


@pytest.fixture
def refused(run_cli: RunChild, work: Path) -> Refused:
    """Run in ``work``: exit status 2, nothing on stdout, one line on stderr, and no file made or changed."""
    return functools.partial(refused_by, run_cli, work)


@pytest.fixture
def refused_here(run_here: RunChild, work: Path) -> Refused:
    """The same in this process."""
    return functools.partial(refused_by, run_here, work)


def refused_by(run: RunChild, work: Path, *arguments: str, env: Mapping[str, str | None] | None = None) -> str:
    before = snapshot(work)
    done = run(*arguments, env=env)
    assert (done.status, done.stdout, snapshot(work)) == (2, "", before), done.stderr
    complaint = "\n".join(done.complaint)
    assert "\n" not in complaint, complaint
    return complaint.removeprefix("vyre-driver: error ")


def snapshot(directory: Path) -> dict[str, object]:
    """Names and contents of what lies in a directory."""
    return {path.name: path.read_bytes() if path.is_file() else path.lstat().st_mode for path in directory.iterdir()}


SAXPY = ("run", "saxpy.spv", "--in", "x=x.npy", "--in", "y=y.npy", "--push", "alpha=2", "--push", "count=8")


@pytest.fixture
def run_saxpy(run_cli: RunChild, work: Path) -> RunChild:
    """Run saxpy.spv in ``work`` on x.npy and y.npy with alpha 2; arguments are added."""
    assert (work / "saxpy.spv").exists()
    return functools.partial(run_cli, *SAXPY)


@pytest.fixture
def run_saxpy_here(run_here: RunChild, work: Path) -> RunChild:
    """The same in this process."""
    assert (work / "saxpy.spv").exists()
    return functools.partial(run_here, *SAXPY)
