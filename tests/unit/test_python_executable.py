"""Which program child processes run in, where ``sys.executable`` is no Python: frozen programs, hosts with Python inside."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest

from vyre_driver.errors import InstallationUnusable
from vyre_driver.process.workers import python_executable

if TYPE_CHECKING:
    from pathlib import Path

VERSION = f"{sys.version_info[0]}.{sys.version_info[1]}"


def made(path: Path, folder: Path) -> Path:
    """Return the path of a new program that is no Python, and says in a file that it was started."""
    path.write_text(f"#!/bin/sh\ntouch {folder}/started\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def without_python(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where no Python is to be found but by ``sys.executable``."""
    monkeypatch.setattr(sys, "_base_executable", None)
    monkeypatch.setattr(sys, "base_exec_prefix", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))


@pytest.mark.parametrize("executable", [None, "", "python3", b"/usr/bin/python3", 3])
def test_without_an_executable_the_python_of_this_process_is_found(executable: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", executable)
    found = python_executable()
    assert os.path.realpath(found) == os.path.realpath("/proc/self/exe")


@pytest.mark.parametrize("name", ["app", "happy", "spyder", "uwsgi-py"])
def test_a_program_with_python_inside_is_not_started(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "executable", str(made(tmp_path / name, tmp_path)))
    assert (os.path.realpath(python_executable()), (tmp_path / "started").exists()) == (
        os.path.realpath("/proc/self/exe"),
        False,
    )


@pytest.mark.parametrize("name", ["app", "python-app"])
def test_a_frozen_program_is_not_started_again(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "executable", str(made(tmp_path / name, tmp_path)))
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    with pytest.raises(InstallationUnusable) as caught:
        python_executable()
    assert (str(caught.value), (tmp_path / "started").exists()) == (
        (
            f"a child process needs a Python {VERSION} that can import vyre_driver, and this is a frozen program, "
            "whose modules no Python can import. Fix: do without child processes: Driver() without isolated=True, "
            "tuning without isolation."
        ),
        False,
    )


@pytest.mark.usefixtures("without_python")
@pytest.mark.parametrize("name", ["app", "python3"])
def test_where_there_is_no_python_that_is_said(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    executable = str(made(tmp_path / name, tmp_path))
    monkeypatch.setattr(sys, "executable", executable)
    with pytest.raises(InstallationUnusable) as caught:
        python_executable()
    assert str(caught.value) == (
        f"a child process needs a Python {VERSION} that can import vyre_driver, and sys.executable is {executable!r}, "
        "which is none. Fix: set sys.executable to the path of that Python, or do without child processes: Driver() without "
        "isolated=True, tuning without isolation."
    )


def test_a_program_that_is_asked_whether_it_is_a_python_starts_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_VYRE_DRIVER_ASKS", "1")
    with pytest.raises(InstallationUnusable):
        python_executable()
