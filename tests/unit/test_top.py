"""What ``vyre-driver top`` makes of sockets that lie, stall or never end, and of places that may not be used."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import socket
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from vyre_driver import settings
from vyre_driver.cli.top import SeenBuffers, SeenDriver, SeenKernel, SeenProcess, Unread, lines_of, rates_of, read_processes
from vyre_driver.telemetry import serving

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from conftest import RunChild

DRIVER: dict[str, Any] = {
    "number": 1,
    "device": "a GPU",
    "uuid": "00",
    "is_lost": False,
    "events": {kind: {"count": 3, "total_ns": 5} for kind in ("dispatch", "compile", "failure")},
    "failures": [],
    "kernels": [{"name": "k", "dispatches": 3, "total_ns": 5, "device_ns": 0}],
    "in_flight": 0,
    "moved": {"up": 1, "down": 2},
    "memory_bytes": 7,
    "buffers": [{"name": "b", "count": 1, "bytes": 7}],
    "cache": {"hit": 1},
}
DOCUMENT: dict[str, Any] = {"schema": 1, "pid": 7, "command": "x", "taken_ns": 5, "drivers": [DRIVER]}
NO_DRIVER = "what it sends is not what a driver shows"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    made = tmp_path / "vyre"
    made.mkdir(mode=0o700)
    return made


@contextlib.contextmanager
def listening(place: Path, name: str, answer: Callable[[socket.socket], object]) -> Iterator[None]:
    """Have a thread answer whoever connects to a socket; what it raises ends its answer."""
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    server.bind(str(place / name))
    server.listen()
    held: list[socket.socket] = []

    def work() -> None:
        with contextlib.suppress(OSError):
            while True:
                end, _ = server.accept()
                held.append(end)
                with contextlib.suppress(OSError):
                    answer(end)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        while thread.is_alive():  # it may be in an answer that has no end, or take another connection just now
            for one in (server, *held):
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)
            thread.join(0.01)
        for one in (server, *held):
            one.close()


def sending(data: bytes) -> Callable[[socket.socket], None]:
    def answer(end: socket.socket) -> None:
        end.sendall(data)
        end.close()

    return answer


def without_end(end: socket.socket) -> None:
    while True:
        end.sendall(b" " * 65536)


def wrong(**changes: object) -> bytes:
    return json.dumps({**DOCUMENT, "drivers": [{**DRIVER, **changes}]}).encode()


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (sending(b""), NO_DRIVER),
        (sending(b"\xff\x00garbage"), NO_DRIVER),
        (sending(b"[" * 100_000), NO_DRIVER),
        (sending(b"1" * 10_000), NO_DRIVER),
        (sending(json.dumps(DOCUMENT).encode()[:-5]), NO_DRIVER),
        (sending(json.dumps({**DOCUMENT, "schema": 2}).encode()), NO_DRIVER),
        (sending(json.dumps({**DOCUMENT, "drivers": 3}).encode()), NO_DRIVER),
        (sending(wrong(memory_bytes=-1)), NO_DRIVER),
        (sending(wrong(memory_bytes=2**63)), NO_DRIVER),
        (sending(wrong(memory_bytes=True)), NO_DRIVER),
        (sending(wrong(memory_bytes=1.5)), NO_DRIVER),
        (sending(wrong(device=["x"])), NO_DRIVER),
        (sending(wrong(moved=None)), NO_DRIVER),
        (sending(wrong(cache=[])), NO_DRIVER),
        (without_end, "it sends without end"),
        (lambda _: None, "it did not answer in time"),
    ],
    ids=map(str, range(16)),
)
def test_a_socket_that_lies_or_stalls_is_a_line_and_the_others_are_shown(
    place: Path, answer: Callable[[socket.socket], object], why: str
) -> None:
    good = sending(json.dumps(DOCUMENT).encode())
    with listening(place, "1-good.sock", good), listening(place, "2-bad.sock", answer):
        began = time.monotonic()
        processes, unread = read_processes(0.3)
        took_s = time.monotonic() - began
    assert ([one.pid for one in processes], unread, took_s < 30) == ([7], [Unread("2-bad.sock", why)], True)


def test_a_socket_of_another_user_is_not_read(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vyre_driver.cli.top.peer_uid", lambda _: os.geteuid() + 1)
    with listening(place, "1-a.sock", sending(json.dumps(DOCUMENT).encode())):
        assert read_processes(0.3) == ([], [Unread("1-a.sock", "it belongs to another user")])


def test_only_sockets_that_nobody_listens_to_are_removed(place: Path) -> None:
    (place / "kept.sock").write_text("a file of somebody's")
    (place / "other").write_text("another")
    for name in ("left.sock", ".young.sock", ".old.sock"):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as end:
            end.bind(str(place / name))
    os.utime(place / ".old.sock", (1, 1))
    with listening(place, "live.sock", sending(json.dumps(DOCUMENT).encode())):
        processes, unread = read_processes(5)
        found = sorted(path.name for path in place.iterdir())
    assert (found, len(processes)) == ([".young.sock", "kept.sock", "live.sock", "other"], 1)
    assert unread == [Unread("kept.sock", "Connection refused")]


class Opened:
    """Stands for a driver."""

    number, is_closed = 1, False


@pytest.fixture
def served(place: Path) -> Iterator[Path]:
    """The place, with no server of this process before and after."""
    serving._close()  # noqa: SLF001 -- it is there for the end of the process
    yield place
    serving._close()  # noqa: SLF001


def test_a_place_that_others_may_enter_is_not_used_and_the_driver_goes_on(
    served: Path, caplog: pytest.LogCaptureFixture, run_here: RunChild
) -> None:
    served.chmod(0o755)
    serving.serve(Opened())  # type: ignore[arg-type]
    said = f"{served} belongs to user {os.geteuid()} and has mode 755, not 700"
    assert [(one.name, one.levelname, one.getMessage()) for one in caplog.records] == [
        ("vyre_driver.telemetry.serving", "WARNING", f"vyre-driver top will not see this process: {said}")
    ]
    assert list(served.iterdir()) == []
    done = run_here("top", "--once")
    fix = "set XDG_RUNTIME_DIR to a directory that only you may enter"
    assert (done.status, done.complaint) == (2, [f"vyre-driver: error 2501: no sockets can be looked for: {said}. Fix: {fix}."])


def test_a_link_in_place_of_the_directory_is_not_followed(served: Path, caplog: pytest.LogCaptureFixture) -> None:
    served.rename(served.with_name("elsewhere"))
    served.symlink_to(served.with_name("elsewhere"))
    serving.serve(Opened())  # type: ignore[arg-type]
    assert "cannot be used: Not a directory" in caplog.text
    assert list(served.iterdir()) == []


def test_whoever_is_another_user_gets_nothing(served: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "peer_uid", lambda _: os.geteuid() + 1)
    driver = Opened()
    serving.serve(driver)  # type: ignore[arg-type]
    (path,) = served.iterdir()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as end:
        end.settimeout(30)
        end.connect(str(path))
        assert end.recv(100) == b""


def test_a_driver_that_cannot_be_looked_at_is_left_out(served: Path, caplog: pytest.LogCaptureFixture) -> None:
    driver = Opened()  # which has no context
    serving.serve(driver)  # type: ignore[arg-type]
    with caplog.at_level(logging.WARNING, "vyre_driver"):
        (process,), unread = read_processes(30)
    assert (process.pid, process.drivers, unread) == (os.getpid(), (), [])
    assert "vyre-driver top sees nothing of driver 1" in caplog.text
    assert [path.name.partition("-")[0] for path in served.iterdir()] == [str(os.getpid())]


def test_sockets_lie_where_only_their_user_may_enter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    named = settings.runtime_directory()
    found = []
    for value in ("", "relative", str(tmp_path / "absent")):
        monkeypatch.setenv("XDG_RUNTIME_DIR", value)
        monkeypatch.setattr("os.geteuid", lambda: 987_654)  # who has no /run/user
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
        found.append(settings.runtime_directory())
    assert (named, found) == (tmp_path / "vyre", [tmp_path / "state" / "vyre" / "run"] * 3)


def driver(**changes: object) -> SeenDriver:
    known: dict[str, Any] = {
        "number": 1,
        "device": "a GPU",
        "is_lost": False,
        "dispatches": 1200,
        "compiles": 1,
        "failures": 2,
        "in_flight": 3,
        "bytes_up": 4_000_000,
        "bytes_down": 1000,
        "memory_bytes": 5_000_000,
        "hits": 1,
        "misses": 0,
        "kernels": (SeenKernel("saxpy", 1000, 12_000_000), SeenKernel("never", 0, 0)),
        "buffers": (SeenBuffers("", 2, 10), SeenBuffers("weights", 1, 4_000_000)),
    }
    return SeenDriver(**{**known, **changes})


def test_the_table_has_a_row_for_each_driver_with_its_kernels_and_buffers_below() -> None:
    before = [SeenProcess(7, "serve.py", 0, (driver(dispatches=200, bytes_up=0),))]
    now = [SeenProcess(7, "serve.py", 2_000_000_000, (driver(), driver(number=2, is_lost=True, kernels=(), buffers=())))]
    assert list(lines_of(now, [Unread("x.sock", "it did not answer in time")], rates_of(before, now))) == [
        "1 process, 2 drivers",
        "PID  COMMAND   DRIVER  DEVICE  DISPATCHES  PER S  FAILED  IN FLIGHT  MEMORY    UP/S   DOWN/S  CACHE",
        "  7  serve.py       1  a GPU        1,200    500       2          3  5.0 MB  2.0 MB  0 bytes  1 hit, 0 misses",
        "    kernel saxpy: 1,000 dispatches, 12.0 us each",
        "    kernel never: 0 dispatches",
        "    memory weights: 4.0 MB in 1 buffer",
        "    memory (unnamed): 10 bytes in 2 buffers",
        "  7  serve.py       2  a GPU        1,200      -       2       lost  5.0 MB       -        -  1 hit, 0 misses",
        "x.sock: not shown, it did not answer in time",
    ]


def test_a_process_that_counts_less_than_before_is_another_one_and_has_no_rate() -> None:
    before = [SeenProcess(7, "a", 0, (driver(),))]
    now = [SeenProcess(7, "b", 1_000_000_000, (driver(dispatches=5),))]
    assert (rates_of(before, now), rates_of(now, now)) == ({}, {})
