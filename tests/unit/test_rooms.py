"""The script of `make rooms`: what it runs leaves nothing behind, and what fails is named."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import rooms

ISOLATED = ["unshare", "--mount", "--pid", "--fork", "true"]


@pytest.fixture
def room(tmp_path: Path) -> rooms.Room:
    """This machine's own root, in namespaces of its own."""
    if os.geteuid() or subprocess.run(ISOLATED, check=False, capture_output=True).returncode:
        pytest.skip("needs root that may make namespaces")
    return rooms.Room(Path("/"), tmp_path / "log")


def mounts() -> str:
    return Path("/proc/self/mountinfo").read_text("utf-8")


def test_a_command_tells_what_it_printed_and_when_the_mark_came(room: rooms.Room) -> None:
    said, seconds, first = room.run("echo one; sleep 0.1; echo two verified; sleep 0.3; echo three", mark="verified")
    assert (said, 0.1 <= first <= seconds - 0.3) == ("one\ntwo verified\nthree\n", True)


def test_a_command_that_fails_is_told_by_its_last_lines(room: rooms.Room) -> None:
    with pytest.raises(rooms.StepFailed) as caught:
        room.run("seq 9; exit 3")
    assert str(caught.value) == "`seq 9; exit 3` ended with 3: 7 | 8 | 9"
    assert room.run("exit 3", status=3)[0] == ""


def test_a_command_that_takes_too_long_takes_its_children_with_it(room: rooms.Room, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rooms, "LIMIT_S", 1)
    before, start = mounts(), time.monotonic()
    with pytest.raises(rooms.StepFailed) as caught:
        room.run("setsid sleep 97.31 & sleep 97.31")
    assert (str(caught.value), time.monotonic() - start < 20) == (
        "`setsid sleep 97.31 & sleep 97.31` took more than 1 s",
        True,
    )
    assert (mounts() == before, left("97.31")) == (True, False)


def left(argument: str) -> bool:
    """Whether a process with this argument is still there after a moment."""
    for _ in range(50):
        found = subprocess.run(["pgrep", "-f", f"sleep {argument}"], check=False, capture_output=True).stdout  # noqa: S607
        if not found:
            return False
        time.sleep(0.1)
    return True


def test_a_root_that_cannot_be_made_is_named_and_nothing_of_it_stays(
    room: rooms.Room, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fake = tmp_path / "bin/debootstrap"
    fake.parent.mkdir()
    fake.write_text('#!/bin/sh\nmkdir -p "$4/dev"; echo "I: Retrieving"; echo "E: no such mirror"; exit 1\n')
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(fake.parent), prepend=os.pathsep)
    cache = tmp_path / "cache"
    cache.mkdir()
    with pytest.raises(rooms.RoomUnavailable) as caught:
        rooms.make_root("trixie", "http://none.invalid", cache)
    told = f"debootstrap ended with 1: I: Retrieving | E: no such mirror (all of it: {cache}/trixie.log)"
    assert (str(caught.value), [one.name for one in cache.iterdir()], room.place) == (told, ["trixie.log"], Path("/"))


@pytest.mark.parametrize(
    ("failures", "status"), [(["", ""], 0), (["", "`make demo` ended with 1: no"], 1), (["no room: no network", "it broke"], 2)]
)
def test_the_exit_status_and_the_table_say_what_failed(
    failures: list[str], status: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    waiting = iter(failures)

    def visit(suite: str, way: str, _: object) -> rooms.Row:
        return rooms.Row(rooms.SUITES[suite], way, "3.13.5", "2.5.5", "llvmpipe", {"pip install": 7.25}, next(waiting))

    given = ["--room", "trixie", "--way", "wheel", "--way", "clone", "--cache", str(tmp_path), "--json", str(tmp_path / "told")]
    monkeypatch.setattr(sys, "argv", ["rooms.py", *given])
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(rooms.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(rooms, "visit", visit)
    assert rooms.main() == status
    header, *lines, untested = capsys.readouterr().out.splitlines()[2:]
    assert header.split() == ["room", "way", "Python", "NumPy", "device", "seconds", "verdict"]
    assert [line.split("pip install 7.2")[1].strip() for line in lines] == [one or "ok" for one in failures]
    assert "Ubuntu, Fedora" in untested
    told = json.loads((tmp_path / "told").read_text("utf-8"))
    assert [row["failure"] for row in told["rows"]] == failures


def test_who_is_not_root_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["rooms.py"])
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(SystemExit) as ended:
        rooms.main()
    said = capsys.readouterr().err.splitlines()[-1]
    assert (ended.value.code, said.endswith("Fix: run as root, or in a container as its root")) == (2, True)
