"""What ``vyre-driver top`` makes of sockets that lie, stall or never end, and of places that may not be used."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import threading
import time
from typing import TYPE_CHECKING

import pytest

from vyre_driver import settings
from vyre_driver.cli.top import Look, SeenDriver, lines_of, look_at_all
from vyre_driver.telemetry import serving

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from conftest import RunChild

METRICS = """# HELP vyre_driver_info What the driver runs on.
vyre_driver_info{device="a \\"GPU\\"",uuid="00",number="1",vulkan="1.3",command="serve.py"} 1
vyre_driver_kernel_dispatches_total{device="a \\"GPU\\"",uuid="00",number="1",kernel="C:\\\\n\\nk"} 3
vyre_driver_failures_total{device="a \\"GPU\\"",uuid="00",number="1",operation="compile",code="2201"} 2
vyre_driver_memory_bytes{device="a \\"GPU\\"",uuid="00",number="1"} 7
"""
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


def valued(value: str) -> bytes:
    return METRICS.encode().replace(b"} 7", b"} " + value.encode())


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (sending(b"\xff\x00garbage"), NO_DRIVER),
        (sending(b"vyre_driver_memory_bytes 7\n"), NO_DRIVER),
        (sending(b"other_memory_bytes{} 7\n"), NO_DRIVER),
        (sending(METRICS.encode()[:-3]), NO_DRIVER),
        (sending(METRICS.encode().replace(b"\n", b"\r\n")), NO_DRIVER),
        (sending(valued("-1")), NO_DRIVER),
        (sending(valued(str(2**63))), NO_DRIVER),
        (sending(valued("NaN")), NO_DRIVER),
        (sending(valued("+Inf")), NO_DRIVER),
        (sending(valued("9" * 100_000)), NO_DRIVER),
        (sending(valued("seven")), NO_DRIVER),
        (sending(b"{" * 1_000_000), NO_DRIVER),
        (without_end, "it sends without end"),
        (lambda _: None, "it did not answer in time"),
    ],
    ids=map(str, range(14)),
)
def test_a_socket_that_lies_or_stalls_is_a_line_and_the_others_are_shown(
    place: Path, answer: Callable[[socket.socket], object], why: str
) -> None:
    good = sending(METRICS.encode())
    with listening(place, "1-bad.sock", answer), listening(place, "2-good.sock", good):
        began = time.monotonic()
        look = look_at_all(0.3)
        took_s = time.monotonic() - began
    metrics = {
        "info": {"1.3 serve.py": 1},
        "kernel_dispatches_total": {"C:\\n\nk": 3},
        "failures_total": {"compile 2201": 2},
        "memory_bytes": {"": 7},
    }
    assert (look.drivers, look.unread, took_s < 30) == (
        [SeenDriver(os.getpid(), "2-good.sock", "1", 'a "GPU"', "serve.py", metrics)],
        {"1-bad.sock": why},
        True,
    )


def test_a_socket_of_another_user_is_not_read(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vyre_driver.cli.top.peer", lambda _: (7, os.geteuid() + 1))
    with listening(place, "1-a.sock", sending(METRICS.encode())):
        assert look_at_all(0.3)[1:] == ([], {"1-a.sock": "it belongs to another user"})


def test_only_sockets_that_nobody_listens_to_are_removed(place: Path) -> None:
    (place / "kept.sock").write_text("a file of somebody's")
    (place / "other").write_text("another")
    for name in ("left.sock", ".young.sock", ".old.sock"):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as end:
            end.bind(str(place / name))
    os.utime(place / ".old.sock", (1, 1))
    with listening(place, "live.sock", sending(METRICS.encode())):
        look = look_at_all(5)
        found = sorted(path.name for path in place.iterdir())
    assert (found, len(look.drivers)) == ([".young.sock", "kept.sock", "live.sock", "other"], 1)
    assert look.unread == {"kept.sock": "Connection refused"}


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
    monkeypatch.setattr(serving, "peer", lambda _: (7, os.geteuid() + 1))
    driver = Opened()
    serving.serve(driver)  # type: ignore[arg-type]
    (path,) = served.iterdir()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as end:
        end.settimeout(30)
        end.connect(str(path))
        assert end.recv(100) == b""


def test_a_driver_that_cannot_be_looked_at_or_has_too_much_to_show_is_left_out(
    served: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = {1: METRICS, 2: METRICS.replace("k", "k" * serving.MOST_BYTES), 4: METRICS.replace('number="1"', 'number="4"')}
    monkeypatch.setattr(serving, "metrics_of", lambda drivers: texts[drivers[0].number])
    drivers = [Opened() for _ in range(4)]
    for number, driver in enumerate(drivers, 1):
        driver.number = number
        serving.serve(driver)  # type: ignore[arg-type]
    with caplog.at_level(logging.WARNING, "vyre_driver"):
        look = look_at_all(30)
    assert ([(one.pid, one.number) for one in look.drivers], look.unread) == ([(os.getpid(), "1"), (os.getpid(), "4")], {})
    assert "vyre-driver top sees nothing of driver 3" in caplog.text
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


def seen(number: str, **changes: dict[str, float]) -> SeenDriver:
    metrics = {
        "events_total": {"dispatch": 1200, "failure": 2},
        "in_flight": {"": 3},
        "moved_bytes_total": {"up": 4_000_000, "down": 1000},
        "memory_bytes": {"": 5_000_000},
        "cache_total": {"hit": 1},
        **changes,
    }
    return SeenDriver(7, "7.sock", number, "a GPU", "serve.py", metrics)


def test_the_table_has_a_row_for_each_driver_with_its_kernels_and_buffers_below() -> None:
    busy = seen(
        "1",
        kernel_dispatches_total={"never": 0, "saxpy": 1000},
        kernel_seconds_total={"saxpy": 0.012},
        buffers={"": 2, "weights": 1},
        buffer_bytes={"": 10, "weights": 4_000_000},
    )
    before = Look(1.0, [seen("1", events_total={"dispatch": 200}, moved_bytes_total={"down": 1000})], {})
    now = Look(3.0, [busy, seen("2", device_lost={"": 1})], {"x.sock": "it did not answer in time"})
    assert list(lines_of(before, now)) == [
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
