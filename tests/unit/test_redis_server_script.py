"""What scripts/redis_server.py runs, keeps, and says when it cannot fetch."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
import redis_server

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Main = Callable[[], int]


@pytest.fixture
def main(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Main:
    """Run the script in this process, with folders and a PATH of the test's own."""
    for folder in ("it's a place", "tools"):
        (tmp_path / folder).mkdir()
    monkeypatch.setattr(redis_server, "PROGRAMS", tmp_path / "it's a place")
    monkeypatch.setattr(redis_server, "system", lambda: "debian12-x86_64")
    monkeypatch.setattr(sys, "argv", ["scripts/redis_server.py", "--cache", str(tmp_path / "cache")])
    monkeypatch.setenv("PATH", f"{tmp_path}/tools")
    return redis_server.main


def put(path: Path, body: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n", "utf-8")
    path.chmod(0o755)


def said_by_the_launcher() -> str:
    launcher = redis_server.PROGRAMS / "redis-server"
    return subprocess.run([launcher, "two  words"], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("name", ["redis-server", "valkey-server"])
def test_a_server_that_is_installed_is_run(main: Main, tmp_path: Path, name: str) -> None:
    put(tmp_path / "tools" / name, 'echo "$1"')
    assert (main(), said_by_the_launcher()) == (0, "two  words\n")
    assert main() == 0
    assert not (tmp_path / "cache").exists()


def test_a_server_that_is_kept_is_run_with_its_libraries(main: Main, tmp_path: Path) -> None:
    kept = tmp_path / "cache/redis-1-debian12-x86_64/usr"
    (kept / "lib/x86_64-linux-gnu").mkdir(parents=True)
    put(kept / "bin/redis-server", 'echo "$1 $LD_LIBRARY_PATH"')
    assert (main(), said_by_the_launcher()) == (0, f"two  words {kept}/lib/x86_64-linux-gnu\n")


def test_without_apt_it_says_what_to_install(main: Main, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main()
    assert str(caught.value).splitlines() == [
        "redis_server: apt-get is not here, which fetches redis-server.",
        "Fix: install redis or valkey with this system's own package manager.",
    ]
    assert capsys.readouterr() == ("", "")


def test_a_fetch_that_fails_leaves_nothing_behind(main: Main, tmp_path: Path) -> None:
    for tool in ("apt-get", "dpkg-deb"):
        put(tmp_path / "tools" / tool, "echo 'E: no such package' >&2\nexit 100")
    with pytest.raises(SystemExit) as caught:
        main()
    assert str(caught.value).splitlines() == [
        "redis_server: redis-server could not be fetched: apt-get ended with 100: E: no such package.",
        "Fix: check the network and apt's sources.",
    ]
    assert list((tmp_path / "cache").iterdir()) == []
