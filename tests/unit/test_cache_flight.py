"""Single flight: of all who miss a key one compiles, and nobody waits for what will not come."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from flights import HANGS_AFTER_S, LONG, Airport
from literals import key

from vyre_driver.cache import DiskPipelineCache, PipelineEntry, flight
from vyre_driver.cache.flight import FLIGHTS, UNKNOWN_PACE_NS, FlightLock, SingleFlight

if TYPE_CHECKING:
    from collections.abc import Iterator

KEY = key(0xAB)
DEVICE = b"\x01" * 32
LOCK = "ab" * 32 + ".first.lock"
PACE = "01" * 32 + ".pace"
BLOB = b"\x20\0\0\0\1\0\0\0" + bytes(24) + b"what the driver compiled"  # of no device, as the manifest
# At the pace that holds for an unknown device, a wait that is soon over.
SHORT = 500


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A cache with one entry."""
    DiskPipelineCache(tmp_path / "root").put(key(1), PipelineEntry(b"manifest", b"code"))
    return tmp_path / "root"


@pytest.fixture
def airport(root: Path) -> Iterator[Airport]:
    made = Airport(root)
    yield made
    made.close()


def locks(root: Path) -> list[str]:
    return sorted(path.name for path in (root / FLIGHTS).iterdir() if path.suffix == ".lock")


def test_of_16_processes_that_miss_a_key_one_compiles(airport: Airport, root: Path) -> None:
    for number in range(16):
        airport.start(str(number))
    airport.wait_for("boarding", 16)
    (owner,) = airport.wait_for("compiling", 1)
    airport.tell(owner, "land")
    shared = airport.wait_for("shared", 15)
    airport.wait_for("alone", 1)
    assert ({owner, *shared}, airport.who_said("compiling"), locks(root)) == ({*airport.flyers}, [owner], [])


@pytest.mark.parametrize("is_killed", [True, False])
def test_when_the_owner_is_killed_or_fails_one_of_those_who_wait_compiles(airport: Airport, is_killed: bool) -> None:  # noqa: FBT001 -- both ways
    owner = airport.start_behind(4)
    if is_killed:
        airport.kill(owner)
    else:
        airport.tell(owner, "fail")
    _, second = airport.wait_for("compiling", 2)
    airport.tell(second, "land")
    shared = airport.wait_for("shared", 2)
    assert ({owner, second, *shared}, len(airport.who_said("compiling"))) == ({*airport.flyers}, 2)


def test_an_owner_that_takes_too_long_is_waited_for_no_longer(airport: Airport) -> None:
    airport.start_behind(3, SHORT)
    assert sorted(airport.wait_for("compiling", 3)) == ["0", "1", "2"]
    for name in airport.flyers:
        airport.tell(name, "land")
    assert sorted(airport.wait_for("counted flight_overdue", 2)) == ["1", "2"]


def test_on_a_device_that_gives_no_blobs_nobody_waits_any_more(airport: Airport) -> None:
    owner = airport.start_behind(4)
    airport.tell(owner, "no blobs")
    assert len(airport.wait_for("compiling", 4)) == 4


def test_nobody_waits_for_what_is_compiled_in_no_time(airport: Airport) -> None:
    airport.start_behind(2, 1)
    assert sorted(airport.wait_for("compiling", 2)) == ["0", "1"]


def test_who_comes_after_the_landing_finds_the_entry(airport: Airport) -> None:
    owner = airport.start_behind(1)
    airport.tell(owner, "land")
    airport.wait_for("alone", 1)
    cache = DiskPipelineCache(airport.root)
    with SingleFlight(cache, DEVICE).acquire(KEY, LONG, lambda: cache.get_uncounted(KEY).entry) as found:
        assert found == PipelineEntry(b"manifest", b"code", BLOB)


@pytest.mark.parametrize("make", [lambda path: path.touch(), lambda path: path.symlink_to("nowhere")], ids=["file", "link"])
def test_without_a_directory_for_locks_everybody_compiles_at_once(airport: Airport, root: Path, make: object) -> None:
    make(root / FLIGHTS)  # type: ignore[operator]
    airport.start_behind(2)
    assert sorted(airport.wait_for("compiling", 2)) == ["0", "1"]


def test_a_lock_file_that_cannot_be_made_is_counted_and_everybody_compiles_at_once(airport: Airport, root: Path) -> None:
    (root / FLIGHTS / LOCK).mkdir(parents=True)
    (root / FLIGHTS).chmod(0o700)
    airport.start_behind(2)
    for name in sorted(airport.wait_for("compiling", 2)):
        airport.tell(name, "land")
    assert sorted(airport.wait_for("counted lock_failed", 2)) == ["0", "1"]


def compile_with(cache: DiskPipelineCache) -> bool:
    with SingleFlight(cache, DEVICE).acquire(KEY, LONG, lambda: cache.get_uncounted(KEY).entry) as found:
        return found is None


@pytest.mark.parametrize(
    ("target", "code", "counted"),
    [
        *(
            ("fcntl.flock", code, "lock_failed")
            for code in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.ESTALE, errno.EIO)
        ),
        ("os.mkdir", errno.EROFS, "flight_failed"),
    ],
)
def test_a_file_system_without_locks_and_a_root_that_cannot_be_written_are_counted_and_forgiven(
    root: Path, monkeypatch: pytest.MonkeyPatch, target: str, code: int, counted: str
) -> None:
    def fail(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(target, fail)
    cache = DiskPipelineCache(root)
    assert (compile_with(cache), cache.stats()["counts"]) == (True, {counted: 1})
    assert (root / FLIGHTS).exists() is (counted == "lock_failed")


def test_no_lock_is_made_in_a_root_that_others_may_write_to(root: Path) -> None:
    root.chmod(0o777)
    assert (compile_with(DiskPipelineCache(root)), (root / FLIGHTS).exists()) == (True, False)


@pytest.mark.parametrize("on_disk", [True, False])
def test_of_8_threads_one_compiles(root: Path, on_disk: bool) -> None:  # noqa: FBT001 -- both ways
    cache = DiskPipelineCache(root if on_disk else None)
    start = threading.Barrier(8)

    def fly(_: int) -> str:
        start.wait(HANGS_AFTER_S)
        with SingleFlight(cache, DEVICE).acquire(KEY, LONG, lambda: cache.get_uncounted(KEY).entry) as found:
            if found is None:
                time.sleep(0.05)  # lets the others come to wait; they may come later as well
                cache.put(KEY, PipelineEntry(b"manifest", b"code", BLOB))
        return "compiled" if found is None else "shared"

    with ThreadPoolExecutor(8) as pool:
        assert Counter(pool.map(fly, range(8))) == {"compiled": 1, "shared": 7}


def test_caches_in_memory_do_not_wait_for_each_other() -> None:
    one, other = DiskPipelineCache(None), DiskPipelineCache(None)
    with SingleFlight(one, DEVICE).acquire(KEY, LONG, lambda: None):
        assert compile_with(other)


@pytest.mark.parametrize("on_disk", [True, False])
def test_who_is_interrupted_before_giving_a_lock_back_gives_it_back_by_going(root: Path, on_disk: bool) -> None:  # noqa: FBT001 -- both ways
    cache = DiskPipelineCache(root if on_disk else None)
    owner, other = FlightLock(cache, KEY, "first"), FlightLock(cache, KEY, "first")
    assert (owner.take(), other.take(), len(flight._taken)) == (True, False, 1)  # noqa: SLF001 -- what is never read again
    del owner
    assert not flight._taken  # noqa: SLF001
    assert other.take()
    other.release()


def test_releasing_a_lock_that_was_not_taken_leaves_it_to_its_owner(root: Path) -> None:
    cache = DiskPipelineCache(root)
    owner, other = FlightLock(cache, KEY, "first"), FlightLock(cache, KEY, "first")
    assert (owner.take(), other.take()) == (True, False)
    other.release()
    assert (other.take(), locks(root)) == (False, [LOCK])
    owner.release()
    assert (other.take(), locks(root)) == (True, [LOCK])
    other.release()
    assert locks(root) == []


def test_an_interrupt_in_the_middle_of_giving_a_lock_back_leaves_no_file_open(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flock = fcntl.flock

    def interrupted(descriptor: int, what: int) -> None:
        flock(descriptor, what)
        if what & fcntl.LOCK_UN:
            raise KeyboardInterrupt

    cache = DiskPipelineCache(root)
    owner = FlightLock(cache, KEY, "first")
    assert owner.take()
    monkeypatch.setattr(fcntl, "flock", interrupted)
    with suppress(KeyboardInterrupt):
        owner.release()
    opened = [str(one.readlink()) for one in Path("/proc/self/fd").iterdir() if one.is_symlink()]
    assert ([one for one in opened if ".lock" in one], FlightLock(cache, KEY, "first").take()) == ([], True)


def test_an_interrupt_just_after_a_lock_was_taken_gives_it_back(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = DiskPipelineCache(root)
    wait_for = SingleFlight._wait_for  # noqa: SLF001 -- an interrupt comes when it has returned

    def interrupted(*arguments: object) -> None:
        wait_for(*arguments)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    monkeypatch.setattr(SingleFlight, "_wait_for", interrupted)
    with pytest.raises(KeyboardInterrupt) as caught, SingleFlight(cache, DEVICE).acquire(KEY, SHORT, lambda: None):
        pytest.fail("nobody is to compile")
    assert (locks(root), FlightLock(cache, KEY, "first").take(), bool(caught.traceback)) == ([], True, True)


def test_a_forked_child_does_not_wait_for_its_parents_threads(root: Path) -> None:
    code = f"""
import os
from pathlib import Path
from vyre_driver.cache import DiskPipelineCache
from vyre_driver.cache.flight import SingleFlight
from vyre_driver.identity import PipelineCacheKey
key = PipelineCacheKey(1, bytes(32), bytes(32), 0, (1, 1, 1), 0, "", b"manifest", b"\\xab" * 32)
cache = DiskPipelineCache(None)
flights = SingleFlight(cache, bytes(32))
with flights.acquire(key, {LONG}, lambda: None):
    child = os.fork()
    if child == 0:
        with flights.acquire(key, {LONG}, lambda: None) as found:
            os._exit(7)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", code]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True, timeout=HANGS_AFTER_S, cwd=root)
    assert done.stdout == "7\n"


def test_what_killed_processes_left_behind_is_removed_after_an_hour(root: Path) -> None:
    folder = root / FLIGHTS
    folder.mkdir(mode=0o700)
    names = ["old.first.lock", "held.first.lock", "young.first.lock", ".old.tmp", PACE]
    for name in names:
        (folder / name).write_bytes(b"")
        os.utime(folder / name, (time.time() - 4000,) * 2)
    os.utime(folder / "young.first.lock")
    with (folder / "held.first.lock").open("wb") as held:
        os.utime(folder / "held.first.lock", (time.time() - 4000,) * 2)
        fcntl.flock(held, fcntl.LOCK_EX)
        compile_with(DiskPipelineCache(root))
    assert sorted(path.name for path in folder.iterdir()) == sorted(["held.first.lock", "young.first.lock", PACE])


def test_an_unknown_device_is_as_slow_as_the_slowest_driver_measured(root: Path) -> None:
    assert SingleFlight(DiskPipelineCache(root), DEVICE).expected_s(1000) == 1000 * UNKNOWN_PACE_NS / 1e9


@pytest.mark.parametrize("on_disk", [True, False])
def test_the_slowest_pace_of_a_device_is_remembered(root: Path, on_disk: bool) -> None:  # noqa: FBT001 -- both ways
    flights = SingleFlight(DiskPipelineCache(root if on_disk else None), DEVICE)
    for compile_ns in (2_000_000, 7_000_000, 1_000_000):
        flights.learn(1000, compile_ns, has_blob=True)
    asked = SingleFlight(DiskPipelineCache(root), DEVICE) if on_disk else flights
    other = SingleFlight(DiskPipelineCache(root), b"\x02" * 32)
    assert (asked.expected_s(500), other.expected_s(500)) == (0.0035, 500 * UNKNOWN_PACE_NS / 1e9)


def test_a_device_that_gives_a_blob_after_all_is_waited_for_again(root: Path) -> None:
    flights, other = (SingleFlight(DiskPipelineCache(root), DEVICE) for _ in range(2))
    flights.learn(1000, 5_000_000, has_blob=False)
    assert (other.gives_no_blobs(), other.expected_s(1000)) == (True, 0.05)
    other.learn(1000, 5_000_000, has_blob=True)
    assert (flights.gives_no_blobs(), flights.expected_s(1000)) == (False, 0.005)


@pytest.mark.parametrize(
    "data", [b"", b"fast", b"-5", b"\xff" * 32, b"1" * 10], ids=["empty", "word", "minus", "bytes", "ages"]
)
def test_whatever_a_pace_file_holds_the_wait_is_bounded(root: Path, data: bytes) -> None:
    (root / FLIGHTS).mkdir(mode=0o700)
    (root / FLIGHTS / PACE).write_bytes(data)
    flights = SingleFlight(DiskPipelineCache(root), DEVICE)
    assert (flights.gives_no_blobs(), compile_with(DiskPipelineCache(root))) == (False, True)
