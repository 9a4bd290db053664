"""The tuning store: what is joined when many save, what survives faults, and what is never overwritten."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import threading
from typing import TYPE_CHECKING, Any

import pytest

from vyre_driver.autotune import AutotuneKey, AutotuneRecord, AutotuneStore, AutotuneWarning
from vyre_driver.autotune.store import store as autotune_file
from vyre_driver.errors import FileUnusable, InvalidAutotuneFile

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import RunChild

ONE, TWO = AutotuneKey("11" * 16, "gpu"), AutotuneKey("22" * 16, "gpu")
IDENTITY, ANOTHER = "ab" * 32, "cd" * 32


def record(unroll: int, *, samples: int = 0, identity: str = "") -> AutotuneRecord:
    return AutotuneRecord((64, 1, 1), unroll, (0, 0, 0), "2026-11-21", identity, samples)


def store_of(*records: tuple[AutotuneKey, AutotuneRecord]) -> AutotuneStore:
    store = AutotuneStore()
    for key, one in records:
        store.put(key, one)
    return store


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "autotune.toml"


def on_disk(path: Path) -> dict[AutotuneKey, int]:
    return {key: one.unroll for (key, _), one in AutotuneStore.load(path).records().items()}


def names(path: Path) -> list[str]:
    return sorted(one.name for one in path.parent.iterdir() if not one.name.endswith(".lock"))


def test_a_file_that_is_not_there_is_an_empty_store_and_a_clean_one_is_not_written(path: Path) -> None:
    store = AutotuneStore.load(path)
    told = len(store), store.is_empty, store.is_dirty, store.get(ONE), store.save_if_dirty(path)
    assert (told, path.parent.exists()) == ((0, True, False, None, False), False)


def test_what_is_put_is_found_and_saved_with_its_directory(path: Path) -> None:
    store = store_of((ONE, record(4)))
    told = store.is_dirty, store.get(ONE), store.save_if_dirty(path), store.is_dirty, store.save_if_dirty(path)
    assert (told, on_disk(path), names(path)) == ((True, record(4), True, False, False), {ONE: 4}, ["autotune.toml"])


def test_a_record_of_another_identity_is_none_of_this_one(path: Path) -> None:
    mine, other = record(1, identity=IDENTITY), record(2, identity=ANOTHER)
    store = store_of((ONE, mine), (ONE, other))
    store.save_if_dirty(path)
    again = AutotuneStore.load(path)
    for one in (store, again):
        assert (one.get(ONE, IDENTITY), one.get(ONE, ANOTHER), one.get(ONE, ""), len(one)) == (mine, other, None, 2)
    assert (store.get(ONE), again.get(ONE)) == (other, other)


def test_what_a_killed_process_was_writing_is_gone_after_the_next_save(path: Path, run_python: RunChild) -> None:
    code = """
import os, sys
from vyre_driver.autotune import AutotuneKey, AutotuneRecord, AutotuneStore
store = AutotuneStore()
store.put(AutotuneKey("11" * 16, "gpu"), AutotuneRecord((64, 1, 1), 4, (0, 0, 0), "2026-11-21", "", 0))
os.fsync = lambda _: os._exit(9)
store.save_if_dirty(sys.argv[1])
"""
    assert run_python("-c", code, str(path)).status == 9
    left = names(path)
    store_of((TWO, record(2))).save_if_dirty(path)
    assert (len(left), on_disk(path), names(path)) == (1, {TWO: 2}, ["autotune.toml"])


def test_two_that_save_after_each_other_both_keep_their_records(path: Path) -> None:
    first, second = AutotuneStore.load(path), AutotuneStore.load(path)
    first.put(ONE, record(1))
    second.put(TWO, record(2))
    assert (first.save_if_dirty(path), second.save_if_dirty(path)) == (True, True)
    assert (on_disk(path), second.get(ONE), first.get(TWO)) == ({ONE: 1, TWO: 2}, record(1), None)


@pytest.mark.parametrize("first", [0, 1], ids=["better first", "better last"])
def test_of_two_for_one_kernel_the_better_measured_stays_whoever_saves_last(path: Path, first: int) -> None:
    both = [record(1, samples=50), record(2, samples=3)]
    for one in (both[first], both[1 - first]):
        store_of((ONE, one)).save_if_dirty(path)
    assert on_disk(path) == {ONE: 1}


def test_a_better_measured_record_goes_when_it_is_forgotten_first(path: Path) -> None:
    store = store_of((ONE, record(1, samples=50)))
    store.save_if_dirty(path)
    told = store.forget(ONE), store.get(ONE), store.is_empty, store.forget(ONE)
    store.put(ONE, record(2))
    assert (told, store.save_if_dirty(path), on_disk(path)) == ((True, None, True, False), True, {ONE: 2})


def test_what_is_forgotten_stays_gone_when_others_save_what_they_have(path: Path) -> None:
    store_of((ONE, record(1)), (TWO, record(2))).save_if_dirty(path)
    holder, forgetter = AutotuneStore.load(path), AutotuneStore.load(path)
    forgetter.forget(ONE)
    forgetter.save_if_dirty(path)
    holder.put(AutotuneKey("33", "gpu"), record(3))
    holder.save_if_dirty(path)
    assert on_disk(path) == {TWO: 2, AutotuneKey("33", "gpu"): 3}


def test_what_is_put_while_another_thread_saves_is_saved_next(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, fsync = store_of((ONE, record(1))), os.fsync

    def put_meanwhile(descriptor: int) -> None:
        store.put(TWO, record(2))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", put_meanwhile)
    store.save_if_dirty(path)
    monkeypatch.undo()
    told = store.is_dirty, store.get(TWO), on_disk(path), store.save_if_dirty(path)
    assert (told, on_disk(path)) == ((True, record(2), {ONE: 1}, True), {ONE: 1, TWO: 2})


def test_a_bad_record_is_warned_of_once_left_out_and_kept_in_the_file(path: Path) -> None:
    path.parent.mkdir()
    path.write_text('[[record]]\nkey = "k"\nadapter = "a"\nworkgroup_size = [1, -1, 1]\nunroll = 1\ntile = [0, 0, 0]\n')
    why = "workgroup_size of a tuning record is -1, which is not an integer from 0 to 4294967295"
    with pytest.warns(AutotuneWarning, match=f"^a record of {re.escape(str(path))} is left out, and kept in the file: {why}$"):
        store = AutotuneStore.load(path)
    store.put(ONE, record(1))
    store.save_if_dirty(path)
    with pytest.warns(AutotuneWarning, match=why):
        assert on_disk(path) == {ONE: 1}


def test_a_file_that_is_none_is_refused_when_loaded_and_moved_aside_when_saved_to(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"schema = \xff")
    with pytest.raises(
        InvalidAutotuneFile, match=r"^.* is not an autotune file: 'utf-8' codec .* Fix: correct it or move it away\.$"
    ):
        AutotuneStore.load(path)
    with pytest.warns(AutotuneWarning, match=r"It is .*autotune\.toml\.unreadable-[0-9a-f]{8} now$"):
        assert store_of((ONE, record(1))).save_if_dirty(path)
    (aside,) = path.parent.glob("*.unreadable-*")
    assert (aside.read_bytes(), on_disk(path)) == (b"schema = \xff", {ONE: 1})


def test_a_newer_versions_file_is_read_and_never_written(path: Path) -> None:
    path.parent.mkdir()
    text = 'schema = 2\n[[record]]\nkey = "k"\nadapter = "a"\nworkgroup_size = [1, 1, 1]\nunroll = 7\ntile = [0, 0, 0]\n'
    path.write_text(text)
    store = AutotuneStore.load(path)
    store.put(ONE, record(1))
    with pytest.raises(InvalidAutotuneFile) as caught:
        store.save_if_dirty(path)
    told = str(caught.value), store.get(AutotuneKey("k", "a")), store.is_dirty, path.read_text()
    message = (
        f"{path} has schema 2, and this version writes schema 1. Fix: save to another file, or use the version that wrote it."
    )
    assert told == (message, AutotuneRecord((1, 1, 1), 7, (0, 0, 0)), True, text)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda path: path.mkdir(), "is not a regular file"),
        (os.mkfifo, "is not a regular file"),
        (lambda path: os.truncate(os.open(path, os.O_CREAT | os.O_RDWR), autotune_file.MAX_BYTES + 1), "has 67108865 bytes"),
        (lambda path: path.symlink_to(path), "cannot be read"),
    ],
    ids=["a directory", "a FIFO", "too long", "a link to itself"],
)
def test_what_cannot_be_read_is_an_error_and_nothing_is_written_over_it(
    path: Path, make: Callable[[Path], Any], why: str
) -> None:
    path.parent.mkdir()
    make(path)
    before = path.lstat().st_ino
    with pytest.raises(FileUnusable, match=f"^the autotune file .*autotune.toml {why}"):
        AutotuneStore.load(path)
    store = store_of((ONE, record(1)))
    with pytest.raises(FileUnusable):
        store.save_if_dirty(path)
    assert (store.is_dirty, path.lstat().st_ino) == (True, before)


def test_a_link_stays_one_and_its_file_keeps_its_mode(path: Path, tmp_path: Path) -> None:
    path.parent.mkdir()
    real = tmp_path / "dotfiles.toml"
    path.symlink_to(real)
    told = store_of((ONE, record(1))).save_if_dirty(path)
    real.chmod(0o640)
    store_of((TWO, record(2))).save_if_dirty(path)
    assert (told, path.is_symlink(), real.stat().st_mode & 0o777, on_disk(path)) == (True, True, 0o640, {ONE: 1, TWO: 2})


def test_the_lock_is_for_whom_the_file_is_for(path: Path) -> None:
    modes = []
    for mode in (0o600, 0o660):
        store_of((ONE, record(mode))).save_if_dirty(path)
        path.chmod(mode)
        path.with_name("autotune.toml.lock").unlink(missing_ok=True)
        with autotune_file.locked(path, 1):
            modes.append(path.with_name("autotune.toml.lock").stat().st_mode & 0o777)
    assert modes == [0o600, 0o660]


def test_a_lock_that_another_holds_is_waited_for_only_so_long(path: Path) -> None:
    store = store_of((ONE, record(1)))
    with autotune_file.locked(path, 1), pytest.raises(FileUnusable) as caught:
        store.save_if_dirty(path, wait_s=0.05)
    message = f"the autotune file {path} is locked by another process. Fix: save again later, or wait longer."
    assert (str(caught.value), store.is_dirty, store.save_if_dirty(path), on_disk(path)) == (message, True, True, {ONE: 1})


def test_a_child_that_was_forked_during_a_save_does_not_keep_the_lock(path: Path, run_python: RunChild) -> None:
    code = """
import os, sys
from vyre_driver.autotune.store.store import locked
reading, writing = os.pipe()
with locked(sys.argv[1], 1):
    child = os.fork()
    if child == 0:
        os.close(writing)
        os.read(reading, 1)
        os._exit(0)
with locked(sys.argv[1], 0):
    os.close(writing)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    done = run_python("-c", code, str(path))
    assert (done.stdout, done.status) == ("0\n", 0)


def test_a_lock_of_a_dead_process_blocks_nobody(path: Path, run_python: RunChild) -> None:
    code = "import os, sys; from vyre_driver.autotune.store.store import locked\nwith locked(sys.argv[1], 1): os._exit(3)"
    assert run_python("-c", code, str(path)).status == 3
    assert (store_of((ONE, record(1))).save_if_dirty(path, wait_s=0), on_disk(path)) == (True, {ONE: 1})


def test_the_original_is_waited_for_while_it_writes(path: Path) -> None:
    store_of((ONE, record(1))).save_if_dirty(path)
    text = path.read_text()
    store = store_of((TWO, record(2)))
    with path.open("r+") as original:
        fcntl.flock(original, fcntl.LOCK_EX)
        original.truncate(0)
        with pytest.raises(FileUnusable, match="is locked by another process"):
            store.save_if_dirty(path, wait_s=0.05)
        saver = threading.Thread(target=store.save_if_dirty, args=(path,))
        saver.start()
        original.write(text)
    saver.join()
    assert on_disk(path) == {ONE: 1, TWO: 2}


# The system calls of a save, and how many of each there are at least; a process dies before or after every one of them.
SEAMS = [("mkdir", 1), ("open", 4), ("fstat", 2), ("stat", 1), ("fchmod", 1), ("write", 1), ("fsync", 2), ("replace", 1)]

DIES = """
import os, sys
from pathlib import Path
from vyre_driver.autotune import AutotuneKey, AutotuneRecord, AutotuneStore

def keys(count):
    return [AutotuneKey(f"{number:032x}", "gpu") for number in range(count)]

def save(path, count, unroll):
    store = AutotuneStore()
    for key in keys(count):
        store.put(key, AutotuneRecord((2, 1, 1), unroll, (0, 0, 0), samples=unroll))
    store.save_if_dirty(path)

def dying(call, turn, when):
    def called(*arguments, **options):
        turn[0] -= 1
        if turn[0] == 0 and when == "before":
            os._exit(7)
        try:
            return call(*arguments, **options)
        finally:
            if turn[0] == 0:
                os._exit(7)
    return called

path, (name, when) = Path(sys.argv[1]), sys.argv[2:]
owner = Path if name == "mkdir" else os  # Python 3.10's Path has an os.mkdir of its own
save(path.with_name("warm.toml"), 1, 1)  # what is imported late opens files too
status = turn = 0
while turn == 0 or status:
    turn += 1
    path.unlink(missing_ok=True)
    save(path, 100, 1)
    child = os.fork()
    if child == 0:
        setattr(owner, name, dying(getattr(owner, name), [turn], when))
        save(path, 200, 2)
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    found = {key: record.unroll for (key, _), record in AutotuneStore.load(path).records().items()}
    assert found in (dict.fromkeys(keys(100), 1), dict.fromkeys(keys(200), 2)) and status in (0, 7), (turn, status)
save(path, 200, 2)
print(turn, {record.unroll for record in AutotuneStore.load(path).records().values()})
"""


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(("name", "calls"), SEAMS)
def test_a_process_that_dies_at_any_call_of_a_save_leaves_the_old_or_the_new_file(
    path: Path, run_python: RunChild, name: str, calls: int, when: str
) -> None:
    done = run_python("-c", DIES, str(path), name, when)
    turns, found = done.stdout.split()
    assert (done.status, int(turns) > calls, found, done.complaint) == (0, True, "{2}", [])


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO, errno.EACCES, errno.EROFS])
@pytest.mark.parametrize("name", ["write", "fsync", "replace", "open"])
def test_a_save_that_fails_leaves_the_old_file_nothing_else_and_is_still_to_be_done(
    path: Path, monkeypatch: pytest.MonkeyPatch, name: str, error: int
) -> None:
    store_of((ONE, record(1))).save_if_dirty(path)
    store = store_of((TWO, record(2)))
    call = getattr(os, name)

    def failing(*arguments: Any, **options: Any) -> Any:  # noqa: ANN401 -- os's
        if name == "open" and ".tmp" not in str(arguments[0]):
            return call(*arguments, **options)
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(os, name, failing)
    with pytest.raises(FileUnusable, match=f"cannot be written: .*{os.strerror(error)}"):
        store.save_if_dirty(path)
    monkeypatch.undo()
    told = store.is_dirty, on_disk(path), names(path), store.save_if_dirty(path)
    assert (told, on_disk(path)) == ((True, {ONE: 1}, ["autotune.toml"], True), {ONE: 1, TWO: 2})


def test_a_file_that_nobody_changed_is_not_parsed_again_and_one_that_somebody_did_is(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store_of((ONE, record(1))).save_if_dirty(path)
    store, parsed, parse = AutotuneStore.load(path), [], autotune_file.parse
    monkeypatch.setattr(autotune_file, "parse", lambda text: parsed.append(text) or parse(text))
    for unroll in (2, 3):
        store.put(TWO, record(unroll, samples=unroll))
        store.save_if_dirty(path)
    alone = len(parsed)
    store_of((AutotuneKey("33" * 16, "gpu"), record(9))).save_if_dirty(path)
    parsed.clear()
    store.put(ONE, record(4, samples=1))
    store.save_if_dirty(path)
    assert (alone, len(parsed), sorted(on_disk(path).values())) == (0, 1, [3, 4, 9])


def test_what_is_put_before_a_save_does_not_count_as_read_from_the_file(path: Path) -> None:
    store_of((ONE, record(1, samples=5))).save_if_dirty(path)
    store = AutotuneStore.load(path)
    store.put(ONE, record(2, samples=1))  # less well measured: the file's stays
    store.save_if_dirty(path)
    assert (on_disk(path), store.get(ONE)) == ({ONE: 1}, record(1, samples=5))


def test_a_file_with_a_byte_order_mark_is_loaded_and_saved_to(path: Path) -> None:
    store = store_of((ONE, record(1)))
    store.save_if_dirty(path)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    again = AutotuneStore.load(path)
    assert again.records() == store.records()
    again.put(TWO, record(2))
    assert again.save_if_dirty(path)
    assert (path.read_bytes()[:3] != b"\xef\xbb\xbf", len(AutotuneStore.load(path))) == (True, 2)


def test_a_file_that_no_thread_can_be_had_for_is_refused_with_what_helps(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> int:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("vyre_driver.process.threads._thread.start_new_thread", refused)
    with pytest.raises(FileUnusable) as caught, autotune_file.locked(path, 1):
        pass
    message = (
        f"the autotune file {path} cannot be locked, for which a thread is needed: can't start new thread. "
        "Fix: save before the interpreter shuts down, end other threads, or raise the process's limit of them (ulimit -u)."
    )
    assert (caught.value.code, str(caught.value)) == (2202, message)
