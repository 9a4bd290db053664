"""The script of `make rooms`: what it runs leaves nothing behind, and what fails is named."""

from __future__ import annotations

import fcntl
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
import room as fresh
import rooms

ISOLATED = ["unshare", "--mount", "--pid", "--fork", "true"]


@pytest.fixture
def room(tmp_path: Path) -> fresh.Room:
    """This machine's own root, in namespaces of its own."""
    if os.geteuid() or subprocess.run(ISOLATED, check=False, capture_output=True).returncode:
        pytest.skip("needs root that may make namespaces")
    return fresh.Room(Path("/"), tmp_path / "log")


def mounts() -> str:
    return Path("/proc/self/mountinfo").read_text("utf-8")


def test_a_command_tells_what_it_printed_and_when_the_mark_came(room: fresh.Room) -> None:
    said, seconds, first = room.run("echo one; sleep 0.1; echo two verified; sleep 0.3; echo three", mark="verified")
    assert (said, 0.1 <= first <= seconds - 0.3) == ("one\ntwo verified\nthree\n", True)


def test_a_command_that_fails_is_told_by_its_last_lines(room: fresh.Room) -> None:
    with pytest.raises(fresh.StepFailed) as caught:
        room.run("seq 9; exit 3")
    assert str(caught.value) == "`seq 9; exit 3` ended with 3: 7 | 8 | 9"
    assert room.run("exit 3", status=3)[0] == ""


def test_a_command_has_a_terminal_or_none_as_it_is_asked(room: fresh.Room) -> None:
    asked = "for fd in 0 1 2; do tty <&$fd || true; done; if (exec 3</dev/tty) 2>/dev/null; then echo controlled; fi; exit 7"
    assert room.run(asked, status=7, terminal=True)[0].splitlines() == ["/dev/pts/0"] * 3 + ["controlled"]
    assert room.run(asked, status=7)[0].splitlines() == ["not a tty"] * 3


def test_a_command_finds_terminals_and_shared_memory_of_its_own(room: fresh.Room) -> None:
    code = "import os, pty; print(os.ttyname(pty.openpty()[1])); print(os.listdir('/dev/shm'))"
    assert room.run(f'python3 -c "{code}"')[0] == "/dev/pts/0\n[]\n"


def test_a_long_command_says_where_it_is(
    room: fresh.Room, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(fresh, "PROGRESS_S", 0.2)
    room.run("for i in 1 2 3 4 5; do sleep 0.1; echo; echo step $i; done")
    shown = capsys.readouterr().out.splitlines()
    assert shown
    assert all(re.fullmatch(r"rooms:   \d+ s: step \d", line) for line in shown)


def test_the_tests_that_failed_are_named(room: fresh.Room) -> None:
    said = "FAILED tests/a/test_b.py::test_c[x - y] - assert 1 == 2\nERROR tests/d.py - ImportError\nFAILED build/not.py"
    with pytest.raises(fresh.StepFailed) as caught:
        room.run(f"printf '\\033[31m%s\\033[0m\\n' 'FAILED tests/red.py::test_colour'; echo '{said}'; exit 1")
    assert rooms.failed_tests(caught.value.output) == [
        "tests/red.py::test_colour",
        "tests/a/test_b.py::test_c[x - y]",
        "tests/d.py",
    ]


def test_a_command_that_takes_too_long_takes_its_children_with_it(room: fresh.Room, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fresh, "LIMIT_S", 1)
    before, start = mounts(), time.monotonic()
    with pytest.raises(fresh.StepFailed) as caught:
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
    room: fresh.Room, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fake = tmp_path / "bin/debootstrap"
    fake.parent.mkdir()
    fake.write_text('#!/bin/sh\nmkdir -p "$4/dev"; echo "I: Retrieving"; echo "E: no such mirror"; exit 1\n')
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(fake.parent), prepend=os.pathsep)
    cache = tmp_path / "cache"
    cache.mkdir()
    with pytest.raises(fresh.RoomUnavailable) as caught:
        fresh.make_root("trixie", {"debian": "http://none.invalid"}, cache)
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
        failure = next(waiting)
        failed = ["tests/unit/test_a.py::test_b"] if failure.startswith("`") else []
        return rooms.Row(rooms.SUITES[suite], way, "3.13.5", "2.5.5", "llvmpipe", {"pip install": 7.25}, failure, failed)

    given = ["--room", "trixie", "--way", "wheel", "--way", "clone", "--cache", str(tmp_path), "--json", str(tmp_path / "told")]
    monkeypatch.setattr(sys, "argv", ["rooms.py", *given])
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(rooms.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(rooms, "visit", visit)
    assert rooms.main() == status
    began, *_ = said = capsys.readouterr().out.splitlines()
    assert began == f"rooms: Debian 13, wheel: begins (log: {tmp_path}/trixie-wheel.log)"
    header, *lines, untested = said[4:]
    assert header.split() == ["room", "way", "Python", "NumPy", "device", "seconds", "verdict"]
    assert [line.split("pip install 7.2")[1].strip() for line in lines[:2]] == [one or "ok" for one in failures]
    named = ["failed in Debian 13, clone: tests/unit/test_a.py::test_b"]
    assert lines[2:] == (named if status == 1 else [])
    assert "for no room can show it: Fedora, RHEL" in untested
    told = json.loads((tmp_path / "told").read_text("utf-8"))
    assert [row["failure"] for row in told["rows"]] == failures


def test_a_second_run_over_the_same_rooms_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["rooms.py", "--cache", str(tmp_path)])
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(rooms.shutil, "which", lambda name: f"/usr/bin/{name}")
    with (tmp_path / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert rooms.main() == 2
    fix = "Fix: wait for it, or name another folder with --cache."
    assert capsys.readouterr().out == f"rooms: another run has rooms in {tmp_path}. {fix}\n"


def test_who_is_not_root_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["rooms.py"])
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(SystemExit) as ended:
        rooms.main()
    said = capsys.readouterr().err.splitlines()[-1]
    assert (ended.value.code, said.endswith("Fix: run as root, or in a container as its root")) == (2, True)
