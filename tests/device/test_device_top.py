"""What ``vyre-driver top`` shows of real processes that work, fork, are killed, get signals or have hostile peers."""

from __future__ import annotations

import json
import os
import pty
import random
import select
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

import pytest

from vyre_driver.cli import top
from vyre_driver.cli.top import SeenDriver, look_at_all

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from conftest import RunChild

pytestmark = pytest.mark.device
SOON_S = 60.0


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of the sockets, whose path is longer than the address of one."""
    base = tmp_path / ("long" * 30)
    base.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(base))
    monkeypatch.setenv("VYRE_TOP", "1")
    monkeypatch.setattr(top, "_INTERVAL_S", 0.1)
    return base / "vyre"


class Shown:
    """A process that works until its standard input ends."""

    def __init__(self, children: Path, *arguments: str) -> None:
        command = [sys.executable, str(children / "shown.py"), *arguments]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        assert select.select([self.process.stdout], [], [], SOON_S)[0], "the process works, or fails, in vain"
        assert self.process.stdout.readline() == "ready\n"

    def end(self) -> tuple[int, ...]:
        """Have it end well; returns what it prints: calls that were right, dispatches, signals."""
        out, _ = self.process.communicate(timeout=SOON_S)
        assert self.process.returncode == 0
        return tuple(map(int, out.split()))


@pytest.fixture
def started(place: Path, children: Path) -> Iterator[Callable[..., Shown]]:
    assert not place.exists()
    made: list[Shown] = []

    def start(*arguments: str) -> Shown:
        made.append(Shown(children, *arguments))
        return made[-1]

    yield start
    for one in made:
        one.process.kill()
        one.process.communicate()


def shown(run_here: RunChild) -> dict[int, SeenDriver]:
    """Return the drivers that ``top --json`` prints, by their process."""
    found = json.loads(run_here("top", "--json").stdout)
    assert found["unread"] == {}
    return {one["pid"]: SeenDriver(**one) for one in found["drivers"]}


def names(place: Path) -> list[str]:
    return sorted(path.name for path in place.iterdir())


def test_what_a_process_does_is_shown_and_its_socket_goes_with_it(
    place: Path, started: Callable[..., Shown], run_here: RunChild
) -> None:
    one, other = started(), started()
    modes = [path.lstat().st_mode & 0o777 for path in (place, *place.iterdir())]
    found = shown(run_here)
    plain = run_here("top")
    driver, later = found[one.process.pid], shown(run_here)[one.process.pid]
    assert (modes, set(found)) == ([0o700, 0o600, 0o600], {one.process.pid, other.process.pid})
    assert (driver.command, driver.number, driver.metrics["events_total"]["failure"]) == ("shown.py", "1", 1)
    (kernel,) = driver.metrics["kernel_dispatches_total"]
    assert kernel.startswith("saxpy")
    assert abs(driver.value("events_total", "dispatch") - driver.value("kernel_dispatches_total", kernel)) <= 1
    assert 0 < driver.value("kernel_dispatches_total", kernel) < later.value("kernel_dispatches_total", kernel)
    assert driver.value("kernel_seconds_total", kernel) > 0
    name = "weights\x1b[31m"
    assert (driver.value("buffers", name), driver.value("buffer_bytes", name)) == (1, 4000)
    assert driver.value("moved_bytes_total", "up") >= 2 * driver.value("moved_bytes_total", "down") > 0
    lines = plain.stdout.splitlines()
    assert (plain.status, plain.stderr, lines[0]) == (0, "", "2 processes, 2 drivers")
    assert ("\x1b" in plain.stdout, sum("weights\\x1b[31m: 4.0 kB in 1 buffer" in line for line in lines)) == (False, 2)
    for each in (one, other):
        right, dispatches, _ = each.end()
        assert right == dispatches > 0
    assert names(place) == []
    assert run_here("top", "--once").stdout.splitlines()[0] == "0 processes, 0 drivers"


def test_what_a_killed_process_leaves_is_removed(place: Path, started: Callable[..., Shown], run_here: RunChild) -> None:
    one, other = started(), started()
    before = names(place)
    one.process.send_signal(signal.SIGKILL)
    one.process.wait()
    assert (len(before), names(place)) == (2, before)
    assert list(shown(run_here)) == [other.process.pid]
    assert [int(name.partition("-")[0]) for name in names(place)] == [other.process.pid]
    other.process.kill()
    other.process.wait()
    started()  # another driver removes it as well
    assert len(names(place)) == 1


@pytest.mark.parametrize("how", ["at exit", "at once"])
def test_a_forked_child_leaves_the_socket_to_its_parent(
    place: Path, started: Callable[..., Shown], run_here: RunChild, how: str
) -> None:
    one = started("fork", *(["at once"] if how == "at once" else []))
    assert (list(shown(run_here)), len(names(place))) == ([one.process.pid], 1)
    one.end()
    assert names(place) == []


def test_hostile_peers_neither_stop_the_process_nor_keep_others_from_seeing_it(
    place: Path, started: Callable[..., Shown]
) -> None:
    one = started()
    (name,) = names(place)
    rng = random.Random(0)  # noqa: S311 -- a test
    with ExitStack() as stack:
        opened = os.open(place, os.O_RDONLY)
        stack.callback(os.close, opened)
        address = f"/proc/self/fd/{opened}/{name}"
        served = refused = 0
        until = time.monotonic() + 1.2
        while time.monotonic() < until:  # thousands: idle ones, some that send garbage, and some that go at once
            peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            peer.setblocking(False)
            try:
                peer.connect(address)
            except BlockingIOError:
                refused += 1
                peer.close()
                time.sleep(0.0005)
                continue
            served += 1
            with suppress(OSError):
                peer.send(rng.randbytes(rng.randrange(1, 5000)))
            if rng.random() < 0.5 or served > 500:
                peer.close()
            else:
                stack.enter_context(peer)
        assert (served > 20, served < 1000, refused > 100) == (True, True, True)
        deadline = time.monotonic() + SOON_S
        while not (drivers := look_at_all(5).drivers) and time.monotonic() < deadline:
            time.sleep(0.05)
    assert [each.pid for each in drivers] == [one.process.pid]
    right, dispatches, _ = one.end()
    assert right == dispatches > 0


@pytest.mark.thorough
def test_signals_of_a_process_that_is_looked_at_all_reach_its_own_handler(
    started: Callable[..., Shown], run_here: RunChild
) -> None:
    one = started()
    rng = random.Random(1)  # noqa: S311 -- a test
    sent = looks = 0
    until = time.monotonic() + 1.5
    while time.monotonic() < until:
        one.process.send_signal(signal.SIGUSR1)
        sent += 1
        time.sleep(rng.random() * 0.004)
        if rng.random() < 0.1:
            looks += len(look_at_all(1).drivers)
    found = list(shown(run_here))
    right, dispatches, came = one.end()
    assert (right == dispatches > 0, 0 < came <= sent, looks > 0) == (True, True, True)
    assert found == [one.process.pid]


def test_a_terminal_shows_it_again_and_again_until_ctrl_c(place: Path, started: Callable[..., Shown]) -> None:
    assert place
    started()
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", "from vyre_driver.cli import main, top; top._INTERVAL_S = 0.1; main(['top'])"]
    env = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "150", "LINES": "40"}
    with subprocess.Popen(command, stdout=theirs, stderr=subprocess.PIPE, env=env) as watched:
        os.close(theirs)
        seen = b""
        while seen.count(b"1 process, 1 driver") < 3 and select.select([ours], [], [], SOON_S)[0]:
            seen += os.read(ours, 1 << 16)
        watched.send_signal(signal.SIGINT)
        with suppress(OSError):
            while os.read(ours, 1 << 16):
                pass
        assert watched.wait(SOON_S) == 0
        assert watched.stderr is not None
        assert (watched.stderr.read(), b"weights\\x1b[31m" in seen) == (b"", True)
        assert seen.count(b"1 process, 1 driver") >= 3
    os.close(ours)


def test_nothing_is_shown_unless_it_is_asked_for(
    place: Path, started: Callable[..., Shown], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("VYRE_TOP")
    started().end()
    assert not place.exists()


def test_an_isolated_driver_is_shown_by_the_process_that_has_its_device(
    place: Path, run_here: RunChild, run_python: RunChild
) -> None:
    code = (
        "import os, json, subprocess, sys, numpy as np\nfrom vyre_driver import Driver\n"
        "from vyre_driver.spirv.shipped import shipped_module\nx = np.ones(100, np.float32)\n"
        "with Driver(isolated=True) as driver:\n"
        "    driver.compile(shipped_module('saxpy'))(x, x, alpha=2.0, count=100)\n"
        "    command = [sys.executable, '-m', 'vyre_driver', 'top', '--json']\n"
        "    found = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)\n"
        "    (one,) = found['drivers']\n    print(one['pid'] == driver.pid, one['metrics']['events_total']['dispatch'])"
    )
    done = run_python("-c", code)
    assert (done.status, done.stdout) == (0, "True 1.0\n"), done.stderr
    assert shown(run_here) == {}
    assert names(place) == []
