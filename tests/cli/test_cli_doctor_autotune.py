"""The autotune file, as vyre-driver doctor looks at it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import platformdirs
import pytest

from vyre_driver.autotune import AutotuneKey, AutotuneRecord, AutotuneStore
from vyre_driver.cli.doctor_package import check_autotune
from vyre_driver.cli.doctor_vulkan import State

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that the variable names; it is not there yet."""
    named = tmp_path / "autotune.toml"
    monkeypatch.setenv("VYRE_AUTOTUNE_FILE", str(named))
    return named


def saved(path: Path) -> None:
    store = AutotuneStore()
    for byte in ("11", "22"):
        store.put(AutotuneKey(byte * 16, "gpu"), AutotuneRecord((64, 1, 1), 4, (0, 0, 0), "2026-11-21", "", 0))
    store.save_if_dirty(path)


def test_without_the_variable_the_default_place_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VYRE_AUTOTUNE_FILE", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    found = check_autotune()
    assert (found.state, found.says) == (State.OK, f"{tmp_path / 'vyre' / 'autotune.toml'} is not there yet")


def test_without_a_home_nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_home(*_: object, **__: object) -> str:
        raise RuntimeError

    monkeypatch.delenv("VYRE_AUTOTUNE_FILE", raising=False)
    monkeypatch.setattr(platformdirs, "user_state_dir", no_home)
    monkeypatch.setenv("HOME", "no/home")
    found = check_autotune()
    assert (found.state, found.says, len(found.fixes)) == (State.WARNING, "in memory only: nothing tuned is kept", 1)


def test_a_file_that_is_not_there_yet_and_one_with_records_are_well(path: Path) -> None:
    assert (check_autotune().state, check_autotune().says) == (State.OK, f"{path} is not there yet")
    saved(path)
    found = check_autotune()
    assert (found.state, found.says, found.facts) == (
        State.OK,
        f"{path}: 2 records",
        {"path": str(path), "mode": "read", "records": 2, "left_out": []},
    )


def test_a_record_that_cannot_be_meant_is_told_and_the_others_count(path: Path) -> None:
    saved(path)
    path.write_text(path.read_text().replace("unroll = 4", "unroll = -4", 1))
    found = check_autotune()
    assert (found.state, found.says, len(found.details), len(found.fixes)) == (
        State.WARNING,
        f"{path}: 1 records, 1 left out",
        1,
        1,
    )
    assert found.details[0].startswith(f"a record of {path} is left out")


def test_a_file_of_something_else_and_a_relative_path_are_told(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_text("no = [toml")
    found = check_autotune()
    assert (found.state, str(path) in found.says, len(found.fixes)) == (State.WARNING, True, 1)
    monkeypatch.setenv("VYRE_AUTOTUNE_FILE", "here.toml")
    relative = check_autotune()
    assert (relative.state, relative.says) == (State.WARNING, "VYRE_AUTOTUNE_FILE is 'here.toml', a relative path")


def test_its_child_process_tells_it_as_json(path: Path) -> None:
    saved(path)
    command = [sys.executable, "-m", "vyre_driver.cli.doctor_probe", "autotune"]
    done = subprocess.run(command, env={**os.environ}, capture_output=True, check=True, timeout=60)
    told = json.loads(done.stdout)
    assert (told["name"], told["state"], told["facts"]["records"]) == ("autotune", "ok", 2)
