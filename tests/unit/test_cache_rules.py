"""The rules of a cache that may be slow or empty but never wrong, one or more tests a rule, named after it."""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from literals import cache_key, native_blob, refusal
from one_entry import DATA, ENTRY, KEY, MANIFEST, NEWER, OTHER, PLACE, below

from vyre_driver.cache import DiskPipelineCache, PipelineEntry, Verdict, _read, disk, entry
from vyre_driver.cache.directory import Tally
from vyre_driver.cache.entry import encode_entry
from vyre_driver.errors import CacheUnusable, InvalidSetting

DAY = 86400


@pytest.fixture
def cache(root: Path) -> DiskPipelineCache:
    """A cache with one entry."""
    made = DiskPipelineCache(root)
    assert made.put(KEY, ENTRY) is True
    return made


def test_rule_c06_a_shard_that_others_may_write_to_is_not_trusted(cache: DiskPipelineCache, root: Path) -> None:
    (root / "ab").chmod(0o777)
    assert (cache.get(KEY).verdict, cache.put(KEY, NEWER), (root / PLACE).read_bytes()) == (Verdict.UNTRUSTED, False, DATA)
    (root / "ab").chmod(0o700)
    assert (cache.get(KEY).entry, cache.check()) == (ENTRY, [])


def test_rule_c06_a_shard_that_was_judged_is_judged_anew_when_it_is_replaced(
    cache: DiskPipelineCache, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, asked = time.time_ns, []
    real = _read.read_entry

    def noted(path: bytes, place: str, limit: int, settled_ns: int, *judged: Any) -> object:  # noqa: ANN401
        asked.append(settled_ns)
        return real(path, place, limit, settled_ns, *judged)

    monkeypatch.setattr(_read, "read_entry", noted)
    monkeypatch.setattr(time, "time_ns", lambda: now() + 10**10)
    before = root.lstat().st_ctime_ns
    assert [cache.get(KEY).verdict for _ in range(2)] == [Verdict.HIT] * 2
    (root / "ab").rename(tmp_path / "moved")
    (root / "ab").symlink_to(tmp_path / "moved")
    while root.lstat().st_ctime_ns == before:  # a clock of some milliseconds
        (root / "tick").touch()
        (root / "tick").unlink()
    assert (cache.get(KEY).verdict, asked) == (Verdict.UNTRUSTED, [-1, before, before])


def test_rule_c06_a_root_that_has_just_changed_is_asked_for_its_shards_each_time(
    cache: DiskPipelineCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, real = [], _read.read_entry

    def noted(path: bytes, place: str, limit: int, settled_ns: int, *judged: Any) -> object:  # noqa: ANN401
        asked.append(settled_ns)
        return real(path, place, limit, settled_ns, *judged)

    monkeypatch.setattr(_read, "read_entry", noted)
    changed_ns = cache.root.lstat().st_ctime_ns if cache.root else 0
    for ahead in (10**9 - 1, -(10**12)):
        monkeypatch.setattr(time, "time_ns", lambda ahead=ahead: changed_ns + ahead)
        assert [cache.get(KEY).verdict for _ in range(2)] == [Verdict.HIT] * 2
    assert asked == [-1] * 4


def test_rule_c07_temporary_files_are_made_anew_and_follow_no_link(
    cache: DiskPipelineCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = []
    real = os.open

    def noted(path: str, how: int, *more: int, **options: int) -> int:
        flags.append(how)
        return real(path, how, *more, **options)

    monkeypatch.setattr(os, "open", noted)
    cache.put(KEY, NEWER)
    made = [how for how in flags if how & os.O_CREAT]
    wanted = os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    assert [how & wanted for how in made] == [wanted]


def test_rule_c08_the_cache_imports_nothing_that_runs_what_it_reads() -> None:
    sources = [path.read_text("utf-8") for path in Path(disk.__file__).parent.glob("*.py*") if path.suffix in {".py", ".pyx"}]
    words = ("pickle", "marshal", "shelve", "eval(", "exec(", "import_module")
    assert ({word for word in words for text in sources if word in text}, len(sources) > 10) == (set(), True)


def test_rule_c09_an_entry_that_came_from_elsewhere_says_so(cache: DiskPipelineCache) -> None:
    cache.put(OTHER, PipelineEntry(MANIFEST, b"words", imported=True))
    found = [cache.get(one).entry for one in (KEY, OTHER)]
    assert [one and one.imported for one in found] == [False, True]
    assert sorted((one.key[:2], one.imported) for one in cache.entries()) == [("ab", False), ("cd", True)]


def test_rule_c10_a_process_that_changes_its_user_is_judged_anew(
    cache: DiskPipelineCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cache.get(KEY).verdict is Verdict.HIT
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert cache.get(KEY).verdict is Verdict.MISS


def test_rule_c12_a_header_names_device_and_driver_before_the_blob(cache: DiskPipelineCache) -> None:
    (stored,) = cache.entries()
    assert (stored.key, stored.header.key_digest.hex(), stored.manifest) == ("ab" * 32, "ab" * 32, MANIFEST)
    ids = stored.header.ids
    assert (ids.cache_header, ids.driver_uuid) == (native_blob()[8:32], bytes(range(16)))
    assert (ids.driver_id, ids.driver_version, stored.header.written_by) == (4, 0x2230_0000, entry.WRITTEN_BY)


def test_rule_c14_a_blob_of_another_device_is_not_stored(cache: DiskPipelineCache) -> None:
    assert cache.put(KEY, PipelineEntry(MANIFEST, b"words", native_blob(vendor_id=7))) is False
    expected = "put: the native blob of 40 bytes is not one that the device in the manifest writes"
    assert (cache.stats()["last_error"], cache.get(KEY).entry) == (expected, ENTRY)


def test_rule_c14_a_header_that_contradicts_its_manifest_is_a_problem(cache: DiskPipelineCache, root: Path) -> None:
    """The header's ids are what the blob is compared with; check compares them with the manifest too."""
    blob = native_blob(device_id=7)
    data = bytearray(encode_entry(KEY.digest, PipelineEntry(MANIFEST, b"words", blob)))
    data[88:112] = blob[8:32]
    data[16:48] = entry.blake3(bytes(data[48:])).digest()
    (root / PLACE).write_bytes(data)
    assert [problem.kind for problem in cache.check()] == ["foreign_device"]


def test_rule_c15_a_blob_that_is_no_more_than_its_header_is_not_stored(cache: DiskPipelineCache) -> None:
    assert cache.put(KEY, PipelineEntry(MANIFEST, b"words", native_blob(b""))) is False
    assert cache.get(KEY).entry == ENTRY


def test_rule_c19_the_manifest_is_read_without_the_rest(cache: DiskPipelineCache) -> None:
    (stored,) = cache.entries()
    assert dict(stored.fields())["driverInfo"] == "545.29.06"


def test_rule_c20_a_put_goes_by_a_file_that_is_renamed(cache: DiskPipelineCache, root: Path) -> None:
    reader = (root / PLACE).open("rb")
    with reader:
        cache.put(KEY, NEWER)
        assert (reader.read(), cache.get(KEY).entry) == (DATA, NEWER)


def test_rule_c21_temporary_names_do_not_repeat_and_old_ones_are_swept(cache: DiskPipelineCache, root: Path) -> None:
    names = {"old": f".{1:032x}.tmp", "new": f".{2:032x}.tmp", "upstream's": f"{'ab' * 32}.bin.tmp.4242.0"}
    for name in names.values():
        (root / "ab" / name).write_bytes(b"half")
    for name in ("old", "upstream's"):
        os.utime(root / "ab" / names[name], (time.time() - 4000,) * 2)
    assert [problem.kind for problem in cache.check()] == ["temporary", "temporary"]
    assert (cache.prune().temporaries, sorted(path.name for path in (root / "ab").glob(".*.tmp"))) == (2, [names["new"]])
    assert cache.check() == []


def test_rule_c22_an_entry_needs_no_other_file(cache: DiskPipelineCache, root: Path, tmp_path: Path) -> None:
    alone = tmp_path / "alone"
    (alone / "ab").mkdir(parents=True, mode=0o700)
    (root / PLACE).rename(alone / PLACE)
    assert DiskPipelineCache(alone).get(KEY).entry == ENTRY
    assert cache.get(KEY).verdict is Verdict.MISS


def test_rule_c23_failures_are_counted_each_and_told_once_a_minute(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    tally = Tally()
    with caplog.at_level(logging.WARNING, "vyre_driver.cache"):
        for now[0] in (1000.0, 1001.0, 1059.0, 1060.0, 1061.0):
            tally.ignore_error("put", OSError(errno.ENOSPC, "No space left on device"))
        tally.ignore_error("get", OSError(errno.EIO, "Input/output error"))
    assert tally.counts() == {"get_failed": 1, "put_failed": 5}
    told = "the pipeline cache goes on without this: "
    put, get = f"{told}put: [Errno 28] No space left on device", f"{told}get: [Errno 5] Input/output error"
    assert [record.message for record in caplog.records] == [put, put, get]


def test_rule_c24_an_entry_that_was_replaced_meanwhile_is_not_put_aside(
    cache: DiskPipelineCache, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / PLACE).write_bytes(b"damaged")
    lstat = os.lstat

    def replaced(path: str) -> os.stat_result:
        if str(path).endswith(".bin"):
            monkeypatch.undo()
            DiskPipelineCache(root).put(KEY, ENTRY)
        return lstat(path)

    monkeypatch.setattr(os, "lstat", replaced)
    assert cache.get(KEY).verdict is Verdict.TRUNCATED
    assert (cache.get(KEY).entry, cache.stats()["counts"]) == (ENTRY, {"hit": 1, "put": 1, "truncated": 1})


def test_rule_c24_a_quarantine_that_leads_elsewhere_is_not_used(cache: DiskPipelineCache, root: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (root / "quarantine").symlink_to(tmp_path / "elsewhere")
    (root / PLACE).write_bytes(b"damaged")
    assert (cache.get(KEY).verdict, below(tmp_path / "elsewhere")) == (Verdict.TRUNCATED, [])


def test_rule_c26_a_locked_entry_and_root_are_read_and_written_all_the_same(cache: DiskPipelineCache, root: Path) -> None:
    with (root / PLACE).open("rb+") as file, (root / "CACHEDIR.TAG").open("rb+") as tag:
        for one in (file, tag):
            fcntl.flock(one, fcntl.LOCK_EX)
            fcntl.lockf(one, fcntl.LOCK_EX)
        found: list[object] = []
        actions = (lambda: cache.get(KEY).entry, lambda: cache.put(KEY, NEWER), lambda: cache.get(KEY).entry)
        worker = threading.Thread(target=lambda: found.extend(action() for action in actions))
        worker.start()
        worker.join(60)
        assert found == [ENTRY, True, NEWER]


def test_rule_c28_a_use_is_noted_in_the_files_own_time_at_most_hourly(cache: DiskPipelineCache, root: Path) -> None:
    now, path = time.time(), root / PLACE
    noted = []
    for age in (10 * DAY, 3700, 3500, -3500, -3700, -10 * DAY):
        os.utime(path, (now - age, now - age))
        assert cache.get(KEY).verdict is Verdict.HIT
        noted.append(abs(path.stat().st_mtime - (now - age)) > 1)
    assert noted == [True, True, False, False, True, True]


def test_rule_c28_a_miss_and_a_read_only_cache_note_no_use(cache: DiskPipelineCache, root: Path) -> None:
    path = root / PLACE
    os.utime(path, (1e9, 1e9))
    assert DiskPipelineCache(root, readonly=True).get(KEY).verdict is Verdict.HIT
    assert (cache.get(OTHER).verdict, path.stat().st_mtime) == (Verdict.MISS, 1e9)


def test_rule_c28_the_entries_of_root_are_left_as_they_are_by_others(
    cache: DiskPipelineCache, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in (root, root / "ab", root / PLACE):
        os.chown(path, 0, 0) if os.geteuid() == 0 else pytest.skip("only root may have files of root's")
    os.utime(root / PLACE, (1e9, 1e9))
    for name in ("geteuid", "getuid"):
        monkeypatch.setattr(os, name, lambda: 12345)
    assert (cache.get(KEY).entry, (root / PLACE).stat().st_mtime) == (ENTRY, 1e9)


def test_rule_c31_a_cache_may_be_deleted_at_any_time(cache: DiskPipelineCache, root: Path) -> None:
    (root / PLACE).unlink()
    (root / "ab").rmdir()
    assert (cache.get(KEY).verdict, cache.put(KEY, ENTRY)) == (Verdict.MISS, True)
    root.rename(root.with_name("gone"))
    assert (cache.get(KEY).verdict, cache.put(KEY, ENTRY), cache.get(KEY).entry) == (Verdict.MISS, True, ENTRY)
    assert (below(root), cache.check()) == (["CACHEDIR.TAG", "ab", PLACE], [])


@pytest.mark.parametrize(
    ("text", "size"), [("1", 1), ("4096", 4096), ("2K", 2048), ("3m", 3 << 20), ("1G", 1 << 30), ("", 1 << 30)]
)
def test_rule_c32_the_bound_is_read_when_the_cache_is_opened(
    root: Path, monkeypatch: pytest.MonkeyPatch, text: str, size: int
) -> None:
    monkeypatch.setenv("VYRE_CACHE_DIR", str(root))
    monkeypatch.setenv("VYRE_CACHE_MAX_SIZE", text)
    assert DiskPipelineCache.from_settings().arguments()["max_bytes"] == size


@pytest.mark.parametrize("text", ["0", "0G", "-1", "1.5G", "1T", "G", "1 G", "1GB", "\u0661", "1\u212a", " 1"])
def test_rule_c32_a_bound_that_cannot_be_meant_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("VYRE_CACHE_MAX_SIZE", text)
    message = (
        f"VYRE_CACHE_MAX_SIZE is {text!r}, which is not a number of bytes from 1 on. "
        "Fix: set VYRE_CACHE_MAX_SIZE to an integer, with K, M or G behind it as you like, or unset it."
    )
    assert refusal(DiskPipelineCache.from_settings) == (InvalidSetting, 2401, message)


def test_rule_c32_read_only_changes_nothing_and_keeps_what_is_new_in_memory(
    cache: DiskPipelineCache, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / PLACE).write_bytes(DATA[:-1])
    os.utime(root / PLACE, (1e9, 1e9))
    before = below(root)
    monkeypatch.setenv("VYRE_CACHE_DIR", str(root))
    monkeypatch.setenv("VYRE_CACHE_READONLY", "1")
    reader = DiskPipelineCache.from_settings()
    found = [reader.get(KEY).verdict.name, reader.put(OTHER, ENTRY), reader.get(OTHER).reason, reader.put(KEY, NEWER)]
    assert (found, reader.get(KEY).entry) == (["TRUNCATED", True, "entry in memory", True], NEWER)
    assert (reader.prune().entries, [problem.fixed for problem in reader.check(fix=True)]) == (0, [False])
    with pytest.raises(CacheUnusable, match="may not be changed: it is read-only"):
        reader.clear()
    assert (below(root), (root / PLACE).read_bytes(), (root / PLACE).stat().st_mtime) == (before, DATA[:-1], 1e9)
    assert (reader.stats()["readonly"], cache.stats()["readonly"]) == (True, False)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_an_entry_of_another_user_is_not_read_and_check_puts_it_aside(cache: DiskPipelineCache, root: Path) -> None:
    os.chown(root / PLACE, 12345, 12345)
    assert cache.get(KEY).verdict is Verdict.UNTRUSTED
    assert [(problem.kind, problem.fixed) for problem in cache.check(fix=True)] == [("untrusted", True)]
    assert (cache.check(), cache.put(KEY, ENTRY), cache.get(KEY).entry) == ([], True, ENTRY)


def test_keys_of_many_manifests_do_not_meet(cache: DiskPipelineCache) -> None:
    keys = [cache_key(bytes([number]) * 31 + b"\0", b"m%d" % number) for number in range(20)]
    for number, one in enumerate(keys):
        cache.put(one, PipelineEntry(one.manifest, bytes([number])))
    assert [cache.get(one).entry for one in keys] == [PipelineEntry(one.manifest, bytes([n])) for n, one in enumerate(keys)]
