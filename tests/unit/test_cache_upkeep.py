"""Pruned, checked, listed, explained, cleared, flushed: what is done to a cache as a whole."""

from __future__ import annotations

import errno
import os
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from literals import cache_key, device, device_manifest, key
from numbered_entries import DAY, PAGE, fill, path_of

from vyre_driver.cache import DiskPipelineCache, PipelineEntry, Verdict
from vyre_driver.cache.entry import encode_entry
from vyre_driver.cache.explain import Explanation, NearEntry, differences
from vyre_driver.cache.files import CacheRoot
from vyre_driver.cache.upkeep import CacheProblem, CacheUsage, PruneReport, is_due
from vyre_driver.errors import CacheUnusable
from vyre_driver.identity import device_fields
from vyre_driver.identity.manifest import encode_manifest
from vyre_driver.upstream.keys import PipelineDeviceFingerprint

if TYPE_CHECKING:
    from pathlib import Path

    from vyre_driver.identity.manifest import FieldValue
FINGERPRINT = PipelineDeviceFingerprint(1, 2, bytes(32))


def kept(root: Path) -> list[int]:
    return sorted(int(path.name[:2], 16) for path in root.glob("??/*.bin"))


def blocks(root: Path, number: int) -> int:
    return path_of(root, number).stat().st_blocks * 512


def test_what_was_not_used_for_longest_goes_first_until_the_rest_fits(root: Path) -> None:
    cache = fill(root, {1: 500, 2: 100, 3: 400, 4: 300, 5: 200})
    size = blocks(root, 1)
    assert cache.prune(max_bytes=3 * size) == PruneReport(entries=2, freed_bytes=2 * size, kept=3, kept_bytes=3 * size)
    assert kept(root) == [2, 4, 5]


def test_an_entry_that_was_got_counts_as_used(root: Path) -> None:
    cache = fill(root, {1: 9000, 2: 8000})
    cache.get(key(1))
    cache.prune(max_bytes=blocks(root, 1))
    assert kept(root) == [1]


def test_what_was_not_used_for_90_days_goes_though_there_is_room(root: Path) -> None:
    cache = fill(root, {1: 91 * DAY, 2: 89 * DAY})
    assert (cache.prune().entries, kept(root), cache.prune(max_age_s=DAY).entries, kept(root)) == (1, [2], 1, [])


def test_rule_c29_entries_of_a_driver_that_is_gone_go_by_disuse(root: Path) -> None:
    cache = DiskPipelineCache(root)
    before, after = (cache_key(bytes([n]) * 32, manifest(driverInfo=f"Mesa {n}")) for n in (1, 2))
    for one in (before, after):
        cache.put(one, PipelineEntry(one.manifest, b"words"))
        os.utime(path_of(root, one.digest[0]), (time.time() - 91 * DAY,) * 2)
    assert (cache.get(after).verdict, cache.prune().entries, kept(root)) == (Verdict.HIT, 1, [2])


def test_rule_c30_who_has_an_entry_open_reads_it_to_its_end_though_it_is_evicted(root: Path) -> None:
    cache = fill(root, {1: 1})
    whole = path_of(root, 1).read_bytes()
    with path_of(root, 1).open("rb") as file:
        begun = file.read(100)
        assert (cache.prune(max_bytes=1).entries, kept(root)) == (1, [])
        assert begun + file.read() == whole
    assert (cache.get(key(1)).verdict, cache.check()) == (Verdict.MISS, [])


def test_blocks_are_counted_and_not_bytes(root: Path) -> None:
    cache = fill(root, {1: 2, 2: 1}, size=10)
    size = blocks(root, 1)
    assert size >= 512
    assert (cache.prune(max_bytes=2 * size - 1).entries, kept(root)) == (1, [2])


def test_a_clock_that_was_set_back_evicts_nothing_and_keeps_the_order_of_use(root: Path) -> None:
    cache = fill(root, {1: 100, 2: -1000 * DAY, 3: -2000 * DAY})
    assert (cache.prune().entries, kept(root)) == (0, [1, 2, 3])
    assert (cache.prune(max_bytes=2 * blocks(root, 1)).entries, kept(root)) == (1, [2, 3])
    assert (cache.get(key(2)).verdict, abs(path_of(root, 2).stat().st_mtime - time.time()) < 100) == (Verdict.HIT, True)
    assert cache.check() == []


def test_the_quarantine_is_bounded_in_bytes_and_age(root: Path) -> None:
    cache = fill(root, {1: 0, 2: 0, 3: 0})
    for number in (1, 2):
        os.truncate(path_of(root, number), 3 * PAGE)
        cache.get(key(number))
    assert len(list((root / "quarantine").iterdir())) == 2
    report = cache.prune(max_bytes=16 * 3 * PAGE)
    assert (report.quarantined, report.kept, len(list((root / "quarantine").iterdir()))) == (1, 1, 1)


def test_a_bound_that_the_quarantine_shares_is_kept(root: Path) -> None:
    cache = fill(root, {1: 10, 2: 5})
    report = cache.prune(max_bytes=1)
    assert (report.entries, report.kept_bytes, kept(root)) == (2, 0, [])


def test_what_stays_in_quarantine_is_room_that_entries_do_not_have(root: Path) -> None:
    cache = fill(root, dict.fromkeys(range(17), 100.0), size=PAGE - 300)
    size = blocks(root, 0)
    os.truncate(path_of(root, 0), PAGE - 100)
    cache.get(key(0))
    report = cache.prune(max_bytes=16 * size)
    assert (report.quarantined, report.entries, report.kept, report.kept_bytes) == (0, 1, 15, 16 * size)


def test_a_temporary_file_of_the_future_is_swept_as_one_of_the_past(root: Path) -> None:
    cache = fill(root, {1: 0})
    for number, age in enumerate((-2 * DAY, 2 * DAY, 60, -60)):
        path = root / "01" / f".{number:032x}.tmp"
        path.write_bytes(b"half")
        os.utime(path, (time.time() - age,) * 2)
    assert (cache.prune().temporaries, sorted(path.name[-5] for path in root.glob("01/.*.tmp"))) == (2, ["2", "3"])


def test_a_manifest_of_any_length_is_listed_whole(root: Path) -> None:
    manifests = [encode_manifest([("text", "x" * length)]) for length in (1, 7900, 8000, 100_000)]
    cache = DiskPipelineCache(root)
    for number, one in enumerate(manifests):
        cache.put(cache_key(bytes([number]) * 32, one), PipelineEntry(one, b"words"))
    assert sorted((stored.key[:2], stored.manifest) for stored in cache.entries()) == [
        (f"{number:02x}", one) for number, one in enumerate(manifests)
    ]


def test_names_that_are_none_of_the_caches_are_left_alone(root: Path) -> None:
    cache = fill(root, {1: 0})
    names = ["note.txt", "01/note.txt", "zz/" + "ab" * 32 + ".bin"]
    for name in names:
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_bytes(b"mine")
        os.utime(root / name, (1e9, 1e9))
    cache.prune(max_bytes=1)
    assert cache.clear() == 0
    assert [(root / name).read_bytes() for name in names] == [b"mine"] * 3


def test_nothing_that_a_link_leads_to_is_pruned(root: Path, tmp_path: Path) -> None:
    cache = fill(root, {1: 0})
    (root / "01").rename(tmp_path / "elsewhere")
    (root / "01").symlink_to(tmp_path / "elsewhere")
    assert (cache.prune(max_bytes=1).entries, cache.clear(), len(list((tmp_path / "elsewhere").iterdir()))) == (0, 0, 1)


def test_what_cannot_be_removed_is_counted_and_the_rest_goes(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = fill(root, {1: 20, 2: 10})
    unlink = os.unlink

    def refuse(path: str) -> None:
        if path.endswith("01.bin"):
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
        unlink(path)

    monkeypatch.setattr(os, "unlink", refuse)
    report = cache.prune(max_bytes=1)
    assert (report.entries, report.failed, kept(root), cache.stats()["counts"]) == (1, 1, [1], {"prune_failed": 1, "put": 2})


def test_an_entry_that_is_used_while_others_are_pruned_stays(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = fill(root, {1: 9000})
    lstat = os.lstat

    def use_and_tell(path: str) -> os.stat_result:
        if str(path).endswith(".bin"):
            os.utime(path)
        return lstat(path)

    monkeypatch.setattr(os, "lstat", use_and_tell)
    assert (cache.prune(max_bytes=1).entries, kept(root)) == (0, [1])


def test_two_prunes_at_once_remove_no_more_than_one(root: Path) -> None:
    fill(root, {number: 1000 - number for number in range(60)})
    size = blocks(root, 0)
    reports: list[PruneReport] = []
    prunes = [
        threading.Thread(target=lambda: reports.append(DiskPipelineCache(root).prune(max_bytes=20 * size))) for _ in range(4)
    ]
    for one in prunes:
        one.start()
    for one in prunes:
        one.join()
    assert (kept(root), sum(report.freed_bytes for report in reports)) == (list(range(40, 60)), 40 * size)


def test_a_put_prunes_when_nobody_has_for_a_day_and_not_again(root: Path) -> None:
    fill(root, {1: 100 * DAY})
    first, second = DiskPipelineCache(root), DiskPipelineCache(root)
    assert is_due(CacheRoot(str(root))) is True
    first.put(key(2), PipelineEntry(b"", b""))
    assert (kept(root), is_due(CacheRoot(str(root)))) == ([2], False)
    os.utime(path_of(root, 2), (1e9, 1e9))
    second.put(key(3), PipelineEntry(b"", b""))
    assert kept(root) == [2, 3]
    for age in (2 * DAY, -2 * DAY):
        os.utime(root / ".pruned", (time.time() - age,) * 2)
        assert is_due(CacheRoot(str(root))) is True


def test_a_put_prunes_when_an_eighth_of_the_bound_was_written(root: Path) -> None:
    cache = DiskPipelineCache(root, max_bytes=80 * PAGE)
    for number in range(120):
        cache.put(key(number), PipelineEntry(b"", bytes(PAGE - 300)))
    assert 70 <= len(kept(root)) <= 90


def test_a_read_only_or_absent_cache_has_nothing_to_prune(root: Path) -> None:
    fill(root, {1: 100 * DAY})
    assert DiskPipelineCache(root, readonly=True).prune(max_bytes=1) == PruneReport()
    assert DiskPipelineCache(None).prune() == DiskPipelineCache(root.with_name("none")).prune() == PruneReport()
    assert (kept(root), root.with_name("none").exists()) == ([1], False)


def test_check_tells_each_problem_by_path_kind_and_text(root: Path) -> None:
    cache = fill(root, dict.fromkeys(range(1, 8), 0))
    data = {number: path_of(root, number).read_bytes() for number in range(1, 8)}
    path_of(root, 1).write_bytes(data[1][:-1])
    path_of(root, 2).write_bytes(data[2] + b"x")
    path_of(root, 3).write_bytes(data[1])
    path_of(root, 4).write_bytes(data[4][:8] + b"\1" + data[4][9:])
    path_of(root, 5).write_bytes(b"X" + data[5][1:])
    (root / "06" / "note.txt").write_bytes(b"mine")
    (root / "07" / ("06" * 32 + ".bin")).write_bytes(data[6])
    cache.write(bytes(32), FINGERPRINT, b"a raw blob is not a problem")
    expected = [
        CacheProblem(str(path_of(root, 1)), "truncated", "the entry is shorter than it says"),
        CacheProblem(str(path_of(root, 2)), "extended", "the entry is longer than it says"),
        CacheProblem(str(path_of(root, 3)), "foreign_key", "the entry belongs to another key"),
        CacheProblem(str(path_of(root, 4)), "outdated", "the entry has another format version"),
        CacheProblem(str(path_of(root, 5)), "corrupt", "the entry's digest does not match its bytes"),
        CacheProblem(str(root / "06" / "note.txt"), "name", "it is not a name of the cache's"),
        CacheProblem(str(root / "07" / ("06" * 32 + ".bin")), "foreign_key", "the entry belongs to another key"),
    ]
    assert cache.check() == expected
    assert [problem.fixed for problem in cache.check(fix=True)] == [True, True, True, True, True, False, True]
    assert [problem.kind for problem in cache.check()] == ["name"]
    assert [cache.get(key(number)).verdict.name for number in (4, 6, 7)] == ["MISS", "HIT", "HIT"]


def test_check_of_a_root_that_may_not_be_used_says_why(root: Path) -> None:
    cache = fill(root, {1: 0})
    root.chmod(0o777)
    assert cache.check(fix=True) == [CacheProblem(str(root), "root", "others may write to it (mode 777)")]
    assert (DiskPipelineCache(None).check(), DiskPipelineCache(root.with_name("none")).check()) == ([], [])


def test_usage_counts_files_of_each_kind(root: Path) -> None:
    cache = fill(root, {1: 0, 2: 0, 3: 0})
    cache.put(key(4), PipelineEntry(b"", b"", imported=True))
    cache.write(bytes(32), FINGERPRINT, b"blob")
    (root / "01" / f".{1:032x}.tmp").write_bytes(b"half")
    path_of(root, 3).write_bytes(b"")
    cache.get(key(3))
    found = cache.usage()
    allocated = sum(path.stat().st_blocks * 512 for path in root.rglob("*") if path.is_file() and path.parent != root)
    assert found == CacheUsage(3, 1, 1, 1, 1, allocated)
    assert (DiskPipelineCache(None).usage(), list(DiskPipelineCache(None).entries())) == (CacheUsage(), [])


def test_clear_removes_the_contents_and_not_the_root(root: Path) -> None:
    cache = fill(root, {1: 0, 2: 0})
    path_of(root, 1).write_bytes(b"")
    cache.get(key(1))
    inode = root.stat().st_ino
    assert (cache.clear(), sorted(path.name for path in root.iterdir())) == (2, ["CACHEDIR.TAG"])
    assert (root.stat().st_ino, cache.put(key(1), PipelineEntry(b"", b"")), cache.check()) == (inode, True, [])


def test_clear_empties_memory_and_refuses_a_root_that_may_not_be_used(root: Path) -> None:
    cache = DiskPipelineCache(None)
    cache.put(key(1), PipelineEntry(b"", b""))
    assert (cache.clear(), cache.get(key(1)).verdict) == (0, Verdict.MISS)
    filled = fill(root, {1: 0})
    root.chmod(0o777)
    with pytest.raises(CacheUnusable, match=r"may not be changed: others may write to it \(mode 777\)"):
        filled.clear()
    assert kept(root) == [1]


def manifest(**changes: FieldValue) -> bytes:
    fields: dict[str, FieldValue] = {
        "key version": 1,
        "shader": bytes(range(32)),
        "constant 0 TILE": "u32:0x00000010",
        "constant 1 SCALE": "f32:0x3f800000",
        "constant 2 SHIFT": "i32:0xffffffff",
        "spec fast": "bool:0x00000001",
        "driverInfo": "Mesa 22.3.6",
    }
    for name, value in device_fields(device()):
        fields.setdefault(name, value)
    return encode_manifest((fields | changes).items())


def explained(root: Path, stored: list[bytes], wanted: bytes) -> Explanation:
    cache = DiskPipelineCache(root)
    for number, one in enumerate(stored):
        cache.put(cache_key(bytes([number]) * 32, one), PipelineEntry(one, b"words"))
        os.utime(path_of(root, number), (1e9 + number, 1e9 + number))
    return cache.explain(cache_key(b"\xff" * 32, wanted))


def test_a_miss_is_explained_by_what_the_nearest_entry_differs_in(root: Path) -> None:
    wanted = manifest(**{"driverInfo": "23.1", "constant 0 TILE": "u32:0x00000020"})
    found = explained(root, [manifest(driverInfo="Mesa 22.3.6")], wanted)
    assert found.nearest == (NearEntry("00" * 32, 14, ("TILE: 16 -> 32", "driverInfo: Mesa 22.3.6 -> 23.1")),)
    assert str(found) == (
        "no entry; the nearest of 1 entries is 00000000, which differs in TILE: 16 -> 32; driverInfo: Mesa 22.3.6 -> 23.1"
    )


def test_the_three_nearest_come_first_and_of_equals_the_one_used_later(root: Path) -> None:
    far = manifest(driverInfo="other", vendorID=1, deviceID=2)
    stored = [far, manifest(driverInfo="a"), manifest(driverInfo="b"), manifest(vendorID=1, deviceID=3), far]
    found = explained(root, stored, manifest())
    assert ([one.key[:2] for one in found.nearest], found.compared) == (["02", "01", "03"], 5)
    assert found.nearest[2].differences == ("vendorID: 0x0001 -> 0x10de", "deviceID: 0x0003 -> 0x2330")


@pytest.mark.parametrize(
    ("name", "before", "after", "told"),
    [
        ("constant 1 SCALE", "f32:0x3f800000", "f32:0xc0200000", "SCALE: 1.0 -> -2.5"),
        ("constant 2 SHIFT", "i32:0xffffffff", "i32:0x7fffffff", "SHIFT: -1 -> 2147483647"),
        ("spec fast", "bool:0x00000000", "bool:0x00000001", "fast: false -> true"),
        ("spec fast", None, "bool:0x00000001", "fast: none -> true"),
        ("enabled feature shaderInt64", 1, None, "enabled feature shaderInt64: 1 -> none"),
        ("shader", bytes(32), bytes(range(1, 33)), "shader: 00000000... -> 01020304..."),
        ("bits", b"\1", b"\1\2\3\4", "bits: 01 -> 01020304"),
        ("apiVersion", 1 << 22 | 3 << 12 | 230, 1 << 22 | 4 << 12, "apiVersion: 1.3.230 -> 1.4.0"),
        ("workgroup override", "", "8x8x1", "workgroup override: none -> 8x8x1"),
        ("driverName", "u32:0x00000001", "a\x1b[31m", r"driverName: u32:0x00000001 -> a\x1b[31m"),
    ],
)
def test_a_difference_is_told_in_words(name: str, before: Any, after: Any, told: str) -> None:  # noqa: ANN401 -- columns
    found = {} if before is None else {name: before}
    wanted = {} if after is None else {name: after}
    assert differences(found, wanted) == (told,)


def test_what_is_there_is_explained_by_its_verdict_and_nothing_is_changed(root: Path) -> None:
    cache = fill(root, {1: 5 * DAY, 2: 0})
    path_of(root, 2).write_bytes(b"VYREPIPE damaged")
    before = {path: (path.stat().st_mtime, path.stat().st_size) for path in root.rglob("*")}
    counts = cache.stats()["counts"]
    found = [cache.explain(key(number)) for number in (1, 2)]
    assert [(one.verdict.name, str(one)) for one in found] == [
        ("HIT", f"verified entry of {path_of(root, 1).stat().st_size} bytes"),
        ("OUTDATED", "the entry has another format version"),
    ]
    assert {path: (path.stat().st_mtime, path.stat().st_size) for path in root.rglob("*")} == before
    assert cache.stats()["counts"] == counts


def test_a_miss_with_nothing_to_compare_is_said(root: Path) -> None:
    said = "no entry; there is no other entry to compare it with"
    assert str(DiskPipelineCache(root).explain(key(1))) == said
    memory = DiskPipelineCache(None)
    assert str(memory.explain(key(1))) == "no entry (memory only); there is no other entry to compare it with"
    memory.put(key(1), PipelineEntry(b"", b""))
    assert str(memory.explain(key(1))) == "entry in memory"


def test_a_refused_root_explains_itself(root: Path) -> None:
    fill(root, {1: 0})
    root.chmod(0o777)
    reason = f"no entry (memory only: {root} is not used, others may write to it (mode 777))"
    assert DiskPipelineCache(root).explain(key(1)) == Explanation(Verdict.MISS, reason)


def test_an_encoded_entry_is_what_lies_in_its_file(root: Path) -> None:
    entry = PipelineEntry(device_manifest(), b"words")
    DiskPipelineCache(root).put(key(1), entry)
    assert path_of(root, 1).read_bytes() == encode_entry(key(1).digest, entry)
