"""Crash markers: what a driver has died on is set aside, and what it took before needs no marker."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from blake3 import blake3
from literals import key

from vyre_driver.cache import DiskPipelineCache, PipelineEntry, Verdict
from vyre_driver.cache import marker as markers_module
from vyre_driver.cache.marker import MARKS, CrashMarkers

if TYPE_CHECKING:
    from collections.abc import Callable

KEY = key(0xAB)
NAME = "ab" * 32
BLOB = b"\x20\0\0\0\1\0\0\0" + bytes(24) + b"what the driver compiled"  # of no device, as the manifest
DIED = "a process died when the driver was given its compiled blob"
TWICE = "the driver has died on this blob twice"
DAY_S = 24 * 3600
HANGS_AFTER_S = 60

# One process that gives its driver the blob: it says when it does, and comes back from that when it is told.
USER = """
import sys
from vyre_driver.cache import DiskPipelineCache
from vyre_driver.cache.marker import CrashMarkers
from vyre_driver.identity import PipelineCacheKey

key = PipelineCacheKey(1, bytes(32), bytes(32), 0, (1, 1, 1), 0, "", b"manifest", b"\\xab" * 32)
blob = b"\\x20\\0\\0\\0\\1\\0\\0\\0" + bytes(24) + b"what the driver compiled"
with CrashMarkers(DiskPipelineCache(sys.argv[1])).first_use(key, blob) as refused:
    print(refused or "using", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A cache with the entry of one key, blob and all."""
    DiskPipelineCache(tmp_path / "root").put(KEY, PipelineEntry(b"manifest", b"code", BLOB))
    return tmp_path / "root"


def use(root: Path, blob: bytes = BLOB) -> tuple[str, dict[str, int]]:
    """Why a process that starts now would not give a blob to its driver, and what it counted."""
    cache = DiskPipelineCache(root)
    with CrashMarkers(cache).first_use(KEY, blob) as refused:
        pass
    return refused, cache.stats()["counts"]  # type: ignore[return-value]


def start_user(root: Path) -> subprocess.Popen[str]:
    """Start a process that is in its driver with the blob."""
    child = subprocess.Popen([sys.executable, "-c", USER, str(root)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "using\n"
    return child


def end(child: subprocess.Popen[str]) -> None:
    child.communicate("back\n", timeout=HANGS_AFTER_S)
    assert child.returncode == 0


def die(root: Path) -> None:
    """Let a process be killed while the driver has the blob."""
    with start_user(root) as child:
        child.send_signal(signal.SIGKILL)
        child.communicate(timeout=HANGS_AFTER_S)
    assert child.returncode == -signal.SIGKILL


def marks(root: Path) -> list[str]:
    return sorted(path.name.replace(machine(), "machine") for path in (root / MARKS).iterdir())


def machine() -> str:
    return blake3(markers_module._machine()).hexdigest()[:16]  # noqa: SLF001 -- the name of its lists


def test_a_blob_is_marked_while_it_is_used_for_the_first_time_and_known_to_be_good_afterwards(root: Path) -> None:
    with CrashMarkers(DiskPipelineCache(root)).first_use(KEY, BLOB) as refused:
        assert (refused, marks(root)) == ("", [f"{NAME}.mark"])
        assert (root / MARKS / f"{NAME}.mark").read_bytes() == blake3(BLOB).digest()
    assert (marks(root), (root / MARKS / f"{machine()}.good").read_bytes()) == (["machine.good"], blake3(BLOB).digest())


def test_the_marker_is_durable_before_the_blob_is_used(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced = []
    fsync = os.fsync

    def note(descriptor: int) -> None:
        synced.append(Path(f"/proc/self/fd/{descriptor}").readlink())
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    with CrashMarkers(DiskPipelineCache(root)).first_use(KEY, BLOB):
        assert synced == [root / MARKS / f"{NAME}.mark", root / MARKS]


def test_a_blob_that_this_machine_used_before_needs_no_marker(root: Path) -> None:
    use(root)
    with CrashMarkers(DiskPipelineCache(root)).first_use(KEY, BLOB) as refused:
        assert (refused, marks(root)) == ("", ["machine.good"])


def test_a_blob_that_another_machine_used_needs_one(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(root)
    monkeypatch.setattr(markers_module, "_machine", lambda: b"another")
    with CrashMarkers(DiskPipelineCache(root)).first_use(KEY, BLOB):
        assert f"{NAME}.mark" in marks(root)


def test_a_blob_that_this_process_made_needs_no_marker_here_and_one_in_another_process(root: Path) -> None:
    made_here = CrashMarkers(DiskPipelineCache(root))
    made_here.made_here(BLOB)
    with made_here.first_use(KEY, BLOB) as refused:
        assert (refused, (root / MARKS).exists()) == ("", False)
    with CrashMarkers(DiskPipelineCache(root)).first_use(KEY, BLOB):
        assert marks(root) == [f"{NAME}.mark"]


def test_another_blob_of_the_same_key_needs_one(root: Path) -> None:
    use(root)
    with CrashMarkers(DiskPipelineCache(root)).first_use(KEY, b"another blob"):
        assert marks(root) == [f"{NAME}.mark", "machine.good"]


def test_a_use_that_fails_leaves_no_marker_and_proves_nothing(root: Path) -> None:
    with pytest.raises(ZeroDivisionError), CrashMarkers(DiskPipelineCache(root)).first_use(KEY, BLOB):
        _ = 1 / 0
    assert (marks(root), DiskPipelineCache(root).get(KEY).verdict) == ([], Verdict.HIT)


def test_rule_c25_a_driver_that_died_is_found_at_the_next_start_and_the_entry_is_set_aside(root: Path) -> None:
    die(root)
    cache = DiskPipelineCache(root)
    assert (CrashMarkers(cache).sweep(), cache.get(KEY).verdict) == ({KEY.digest: DIED}, Verdict.MISS)
    assert cache.stats()["counts"] == {"crashed": 1, "miss": 1, "quarantined": 1}
    assert ((root / "quarantine" / f"{NAME}.bin").is_file(), marks(root)) == (True, ["machine.suspect"])


def test_a_driver_that_died_meanwhile_is_found_when_the_blob_is_wanted(root: Path) -> None:
    die(root)
    assert use(root) == (DIED, {"crashed": 1, "quarantined": 1})
    assert (DiskPipelineCache(root).get(KEY).verdict, marks(root)) == (Verdict.MISS, ["machine.suspect"])


def die_and_compile_again(root: Path) -> None:
    """Let a process be killed with the blob, find that, and store the same bytes again."""
    die(root)
    assert CrashMarkers(DiskPipelineCache(root)).sweep() == {KEY.digest: DIED}
    DiskPipelineCache(root).put(KEY, PipelineEntry(b"manifest", b"code", BLOB))


def test_a_process_that_was_killed_once_condemns_no_blob(root: Path) -> None:
    die_and_compile_again(root)
    assert (CrashMarkers(DiskPipelineCache(root)).is_deadly(BLOB), use(root)) == (False, ("", {}))
    assert (marks(root), DiskPipelineCache(root).get(KEY).verdict) == (["machine.good", "machine.suspect"], Verdict.HIT)


def test_a_blob_that_a_driver_died_on_twice_is_never_used_again_though_it_comes_back(root: Path) -> None:
    die_and_compile_again(root)
    die_and_compile_again(root)
    assert [use(root), use(root, b"another blob")] == [(TWICE, {}), ("", {})]
    markers = CrashMarkers(DiskPipelineCache(root))
    assert [markers.is_deadly(BLOB), markers.is_deadly(b"another blob")] == [True, False]


def at_the_next_sleep(monkeypatch: pytest.MonkeyPatch, do: Callable[[], object]) -> None:
    """Have this done instead of the next sleep; those after it are real."""
    sleep = time.sleep

    def instead(_: float) -> None:
        monkeypatch.setattr(time, "sleep", sleep)
        do()

    monkeypatch.setattr(time, "sleep", instead)


def test_the_marker_of_a_living_process_is_left_alone_and_waited_for(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with start_user(root) as child:
        cache = DiskPipelineCache(root)
        assert (CrashMarkers(cache).sweep(), marks(root)) == ({}, [f"{NAME}.mark"])
        at_the_next_sleep(monkeypatch, lambda: end(child))
        assert (use(root), marks(root), child.returncode) == (("", {}), ["machine.good"], 0)


def test_who_waited_for_a_process_that_took_the_blob_writes_no_marker(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with start_user(root) as child:
        at_the_next_sleep(monkeypatch, lambda: end(child))
        with CrashMarkers(DiskPipelineCache(root)).first_use(KEY, BLOB) as refused:
            assert (refused, marks(root)) == ("", ["machine.good"])


def test_who_waited_for_a_process_that_died_does_not_use_the_blob(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    die_and_compile_again(root)
    with start_user(root) as child:

        def let_it_die_and_be_found() -> None:
            child.kill()
            child.communicate(timeout=HANGS_AFTER_S)
            assert CrashMarkers(DiskPipelineCache(root)).sweep() == {KEY.digest: DIED}

        at_the_next_sleep(monkeypatch, let_it_die_and_be_found)
        assert (use(root), marks(root)) == ((TWICE, {}), ["machine.deadly", "machine.suspect"])


def test_a_blob_that_another_process_is_stuck_with_is_not_used(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(markers_module, "_LONGEST_WAIT_S", 0.02)
    with start_user(root) as child:
        assert use(root) == ("another process gave the driver this blob over 0.02 s ago", {})
        assert DiskPipelineCache(root).get(KEY).verdict is Verdict.HIT
        end(child)


def test_a_marker_of_a_process_that_had_not_come_to_its_driver_says_nothing(root: Path) -> None:
    (root / MARKS).mkdir(mode=0o700)
    (root / MARKS / f"{NAME}.mark").touch()
    cache = DiskPipelineCache(root)
    assert (CrashMarkers(cache).sweep(), marks(root), cache.get(KEY).verdict) == ({}, [], Verdict.HIT)
    (root / MARKS / f"{NAME}.mark").touch()
    assert (use(root), DiskPipelineCache(root).get(KEY).verdict) == (("", {}), Verdict.HIT)


def test_a_marker_that_is_removed_just_before_it_is_locked_is_made_anew(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flock = fcntl.flock

    def remove_first(descriptor: int, how: int) -> None:
        monkeypatch.setattr(fcntl, "flock", flock)
        (root / MARKS / f"{NAME}.mark").unlink()
        flock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", remove_first)
    with CrashMarkers(DiskPipelineCache(root)).first_use(KEY, BLOB) as refused:
        assert (refused, marks(root)) == ("", [f"{NAME}.mark"])


@pytest.mark.parametrize("cut", [1, 31])
def test_a_marker_cut_short_sets_the_entry_aside_all_the_same(root: Path, cut: int) -> None:
    (root / MARKS).mkdir(mode=0o700)
    (root / MARKS / f"{NAME}.mark").write_bytes(blake3(BLOB).digest()[:cut])
    assert (CrashMarkers(DiskPipelineCache(root)).sweep(), marks(root)) == ({KEY.digest: DIED}, [])


def test_a_list_cut_short_by_a_crash_still_tells_of_what_follows(root: Path) -> None:
    use(root)
    good = root / MARKS / f"{machine()}.good"
    good.write_bytes(b"cut" + good.read_bytes())
    with CrashMarkers(DiskPipelineCache(root)).first_use(KEY, BLOB):
        assert marks(root) == ["machine.good"]


def test_a_full_list_starts_afresh(root: Path) -> None:
    use(root)
    good = root / MARKS / f"{machine()}.good"
    good.write_bytes(bytes(1 << 20))
    use(root)
    assert good.read_bytes() == blake3(BLOB).digest()


def test_lists_that_no_machine_writes_to_any_more_go(root: Path) -> None:
    (root / MARKS).mkdir(mode=0o700)
    for name, days in (("gone.good", 91), ("gone.deadly", 91), ("gone.suspect", 91), ("here.good", 89), ("stranger.txt", 91)):
        (root / MARKS / name).touch()
        os.utime(root / MARKS / name, (time.time() - days * DAY_S,) * 2)
    CrashMarkers(DiskPipelineCache(root)).sweep()
    assert marks(root) == ["here.good", "stranger.txt"]


def test_in_memory_and_in_a_root_that_is_not_trusted_nothing_is_marked(root: Path) -> None:
    with CrashMarkers(DiskPipelineCache(None)).first_use(KEY, BLOB) as refused:
        assert refused == ""
    root.chmod(0o777)
    assert (use(root), (root / MARKS).exists()) == (("", {}), False)


@pytest.mark.parametrize(
    ("target", "code", "counts"),
    [
        *(("os.open", code, {"marker_failed": 1}) for code in (errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EIO)),
        *(("fcntl.flock", code, {"marker_failed": 1}) for code in (errno.ENOLCK, errno.ENOSYS, errno.ESTALE)),
        ("os.write", errno.ENOSPC, {"marker_failed": 1, "marks_failed": 1}),
    ],
)
def test_a_marker_that_cannot_be_made_locked_or_written_is_counted_and_the_blob_is_used(
    root: Path, monkeypatch: pytest.MonkeyPatch, target: str, code: int, counts: dict[str, int]
) -> None:
    (root / MARKS).mkdir(mode=0o700)
    real = os.open

    def fail(first: object, flags: object, *rest: int, **more: int) -> int:
        if target == "os.open" and isinstance(flags, int) and not flags & os.O_CREAT:
            return real(first, flags, *rest, **more)  # type: ignore[arg-type]
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(target, fail)
    assert use(root) == ("", counts)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(errno.EROFS, "Read-only file system")], ids=["Ctrl-C", "disk"])
def test_a_marker_that_is_not_removed_tells_of_no_death(
    root: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", fail)
        if isinstance(error, OSError):
            assert use(root) == ("", {"marker_failed": 1})
        else:
            with pytest.raises(KeyboardInterrupt):
                use(root)
    cache = DiskPipelineCache(root)
    assert (CrashMarkers(cache).sweep(), cache.get(KEY).verdict, marks(root)) == ({}, Verdict.HIT, ["machine.good"])


def test_a_read_only_cache_changes_no_mark_and_still_gives_no_driver_what_it_died_on_twice(root: Path) -> None:
    die_and_compile_again(root)
    die_and_compile_again(root)
    left = root / MARKS / f"{'cd' * 32}.mark"
    left.touch()
    before = {path.name: path.read_bytes() for path in (root / MARKS).iterdir()}
    cache = DiskPipelineCache(root, readonly=True)
    swept = CrashMarkers(cache).sweep()
    with CrashMarkers(cache).first_use(KEY, BLOB) as refused, CrashMarkers(cache).first_use(KEY, BLOB + b"else") as other:
        pass
    after = {path.name: path.read_bytes() for path in (root / MARKS).iterdir()}
    assert (swept, refused, other, after) == ({}, TWICE, "", before)
