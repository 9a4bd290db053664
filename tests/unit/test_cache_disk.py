"""The cache on disk: what is written where, and what doubtful entries and roots come to."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from typing import TYPE_CHECKING, Any

import pytest
from literals import device_manifest, key, native_blob

from vyre_driver.cache import CacheLookup, DiskPipelineCache, PipelineEntry, Verdict, _read
from vyre_driver.cache.entry import HEADER_BYTES, MAX_ENTRY_BYTES, encode_entry

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

KEY = key(0xAB)
OTHER = key(0xCD)
ENTRY = PipelineEntry(device_manifest(), b"SPIR-V words", native_blob())
NEWER = PipelineEntry(b"manifest", b"other words")
ENCODED = encode_entry(KEY.digest, ENTRY)
SHARD = "ab/" + "ab" * 32 + ".bin"

HIT = CacheLookup(Verdict.HIT, ENTRY, f"verified entry of {len(ENCODED)} bytes")
TAG = "Signature: 8a477f597d28d172789f06886806bc55\n# Compiled GPU pipelines of vyre_driver. Safe to delete at any time.\n"


@pytest.fixture
def cache(root: Path) -> DiskPipelineCache:
    return DiskPipelineCache(root)


@pytest.fixture
def path(root: Path, cache: DiskPipelineCache) -> Path:
    """The file of an entry that was put."""
    assert cache.put(KEY, ENTRY) is True
    return root / SHARD


def files(root: Path) -> list[str]:
    """Every name below a directory, or none when it is not there."""
    return sorted(str(path.relative_to(root)) for path in root.rglob("*"))


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def counts(cache: DiskPipelineCache) -> object:
    return cache.stats()["counts"]


def told(change: Callable[[tuple[Any, ...]], tuple[Any, ...]], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let what is told of a file that was read be another: a test that really gave files away would need to be root."""
    real = _read.read_entry

    def changed(root: bytes, place: str, limit: int, settled_ns: int, *_judged: object) -> tuple[Any, ...]:
        *before, file, data = real(root, place, limit, settled_ns)
        assert file is not None
        return (*before, change(file), data)

    monkeypatch.setattr(_read, "read_entry", changed)


def test_a_second_put_takes_the_place_of_the_first(cache: DiskPipelineCache, root: Path) -> None:
    assert [cache.put(KEY, ENTRY), cache.put(KEY, NEWER), cache.get(KEY).entry] == [True, True, NEWER]
    assert files(root) == ["CACHEDIR.TAG", "ab", SHARD]


def test_an_entry_is_one_file_of_the_encoded_bytes_below_its_shard_which_any_cache_of_the_root_finds(
    cache: DiskPipelineCache, root: Path
) -> None:
    absent = CacheLookup(Verdict.MISS, None, "no entry")
    assert (cache.get(KEY), cache.entry_path(KEY), cache.root, root.exists()) == (absent, root / SHARD, root, False)
    assert (cache.put(KEY, ENTRY), cache.get(KEY), DiskPipelineCache(str(root)).get(KEY)) == (True, HIT, HIT)
    assert (cache.get(OTHER), files(root), (root / SHARD).read_bytes()) == (absent, ["CACHEDIR.TAG", "ab", SHARD], ENCODED)


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
def test_only_the_owner_may_look_whatever_the_umask(cache: DiskPipelineCache, root: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        cache.put(KEY, ENTRY)
    finally:
        os.umask(before)
    names = [root, root / "CACHEDIR.TAG", root / "ab", root / SHARD]
    assert [mode(name) for name in names] == [0o700, 0o600, 0o700, 0o600]


def test_the_root_says_that_it_is_a_cache(path: Path, root: Path) -> None:
    assert path.exists()
    assert (root / "CACHEDIR.TAG").read_text() == TAG


def test_a_root_that_was_there_is_not_tagged(cache: DiskPipelineCache, root: Path) -> None:
    root.mkdir(mode=0o755)
    cache.put(KEY, ENTRY)
    assert (files(root), mode(root)) == ([".pruned", "ab", SHARD], 0o755)


def test_a_root_is_made_with_its_parents(tmp_path: Path) -> None:
    deep = DiskPipelineCache(tmp_path / "a" / "b" / "c")
    assert (deep.put(KEY, ENTRY), deep.get(KEY)) == (True, HIT)


def test_what_happened_is_counted_by_verdict(cache: DiskPipelineCache, root: Path) -> None:
    cache.get(KEY)
    cache.put(KEY, ENTRY)
    cache.get(KEY)
    cache.get(KEY)
    expected = {"hit": 2, "miss": 1, "put": 1}
    assert cache.stats() == {
        "root": str(root),
        "refused": None,
        "readonly": False,
        "base": None,
        "sealed": False,
        "counts": expected,
        "last_error": None,
    }


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


DOUBTFUL: dict[str, tuple[Verdict, bytes]] = {
    "cut": (Verdict.TRUNCATED, ENCODED[:-1]),
    "empty": (Verdict.TRUNCATED, b""),
    "zeros, as a power loss leaves": (Verdict.CORRUPT, bytes(400)),
    "extended": (Verdict.EXTENDED, ENCODED + b"\0"),
    "flipped": (Verdict.CORRUPT, flipped(ENCODED, HEADER_BYTES + 3)),
    "another key's": (Verdict.FOREIGN_KEY, encode_entry(OTHER.digest, ENTRY)),
    "another device's": (
        Verdict.FOREIGN_DEVICE,
        encode_entry(KEY.digest, PipelineEntry(ENTRY.manifest, b"words", native_blob(device_id=7))),
    ),
}


@pytest.mark.parametrize("what", DOUBTFUL)
def test_a_doubtful_entry_is_a_miss_once_moved_aside_and_healed_by_the_next_put(
    cache: DiskPipelineCache, root: Path, path: Path, what: str
) -> None:
    verdict, data = DOUBTFUL[what]
    path.write_bytes(data)
    assert cache.get(KEY) == CacheLookup(verdict, None, verdict.value)
    aside = root / "quarantine" / path.name
    assert (path.exists(), aside.read_bytes(), mode(aside.parent)) == (False, data, 0o700)
    assert counts(cache) == {"put": 1, "quarantined": 1, verdict.name.lower(): 1}
    assert (cache.get(KEY).verdict, cache.check(), cache.put(KEY, ENTRY), cache.get(KEY)) == (Verdict.MISS, [], True, HIT)


def test_a_file_over_64_mib_is_not_read_and_moved_aside(cache: DiskPipelineCache, path: Path) -> None:
    os.truncate(path, MAX_ENTRY_BYTES + 1)
    assert (cache.get(KEY), path.exists()) == (CacheLookup(Verdict.TOO_LARGE, None, "the entry is over 64 MiB"), False)


def test_a_file_of_exactly_64_mib_is_read(cache: DiskPipelineCache, path: Path) -> None:
    os.truncate(path, MAX_ENTRY_BYTES)
    assert cache.get(KEY).verdict is Verdict.EXTENDED


def test_an_entry_of_another_format_stays_until_the_next_put(cache: DiskPipelineCache, root: Path, path: Path) -> None:
    path.write_bytes(ENCODED[:8] + b"\3" + ENCODED[9:])
    assert cache.get(KEY) == CacheLookup(Verdict.OUTDATED, None, "the entry has another format version")
    assert (path.exists(), (root / "quarantine").exists()) == (True, False)
    assert (cache.put(KEY, ENTRY), cache.get(KEY)) == (True, HIT)


def test_right_bytes_under_the_wrong_name_are_a_foreign_key(cache: DiskPipelineCache, root: Path, path: Path) -> None:
    wrong = root / "cd" / ("cd" * 32 + ".bin")
    wrong.parent.mkdir()
    path.rename(wrong)
    assert cache.get(OTHER) == CacheLookup(Verdict.FOREIGN_KEY, None, "the entry belongs to another key")
    assert (wrong.exists(), (root / "quarantine" / wrong.name).read_bytes()) == (False, ENCODED)


def test_a_second_doubtful_entry_takes_the_place_of_the_first_aside(cache: DiskPipelineCache, root: Path, path: Path) -> None:
    for what in ("cut", "flipped"):
        path.write_bytes(DOUBTFUL[what][1])
        cache.get(KEY)
    assert files(root / "quarantine") == [path.name]
    assert (root / "quarantine" / path.name).read_bytes() == DOUBTFUL["flipped"][1]


def test_an_entry_that_cannot_be_moved_aside_is_a_miss_all_the_same(cache: DiskPipelineCache, root: Path, path: Path) -> None:
    path.write_bytes(b"")
    (root / "quarantine").write_bytes(b"in the way")
    assert (cache.get(KEY).verdict, path.exists()) == (Verdict.TRUNCATED, True)
    assert counts(cache) == {"put": 1, "quarantine_failed": 1, "truncated": 1}


def test_a_put_replaces_a_symlink_and_leaves_its_target(cache: DiskPipelineCache, path: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_bytes(b"precious")
    path.unlink()
    path.symlink_to(target)
    assert (cache.put(KEY, ENTRY), cache.get(KEY), target.read_bytes()) == (True, HIT, b"precious")


NOT_OURS = CacheLookup(Verdict.UNTRUSTED, None, "somebody else could have written the entry")
NO_FILES: dict[str, tuple[Callable[[Path], object], CacheLookup, bool]] = {
    "a symlink": (
        lambda path: path.symlink_to("/dev/zero"),
        CacheLookup(Verdict.IO_ERROR, None, f"the entry could not be read ({os.strerror(errno.ELOOP)})"),
        True,
    ),
    "a fifo": (os.mkfifo, NOT_OURS, True),
    "a directory": (os.mkdir, NOT_OURS, False),
}


@pytest.mark.parametrize("is_mended", [False, True])
@pytest.mark.parametrize("what", NO_FILES)
def test_what_is_no_file_is_not_followed_and_does_not_hang_and_gives_way_to_a_put_or_to_a_check(
    cache: DiskPipelineCache,
    path: Path,
    what: str,
    is_mended: bool,  # noqa: FBT001 -- both ways
) -> None:
    make, expected, gives_way = NO_FILES[what]
    path.unlink()
    make(path)
    assert cache.get(KEY) == expected
    if is_mended:
        assert [(problem.kind, problem.fixed) for problem in cache.check(fix=True)] == [("untrusted", True)]
        assert cache.check() == []
    is_put = is_mended or gives_way
    assert (cache.put(KEY, ENTRY), cache.get(KEY)) == (is_put, HIT if is_put else expected)


@pytest.mark.parametrize("size", [3, 200])
def test_a_file_in_a_shards_place_is_not_trusted_and_drops_the_put(cache: DiskPipelineCache, root: Path, size: int) -> None:
    cache.put(OTHER, ENTRY)
    (root / "ab").write_bytes(bytes(size))
    assert (cache.get(KEY).verdict, cache.put(KEY, ENTRY)) == (Verdict.UNTRUSTED, False)
    assert counts(cache) == {"put": 1, "put_failed": 1, "untrusted": 1}


def test_a_symlink_in_a_shards_place_is_not_followed(cache: DiskPipelineCache, root: Path, path: Path, tmp_path: Path) -> None:
    assert cache.get(KEY) == HIT
    moved = path.parent.rename(tmp_path / "moved")
    (root / "ab").symlink_to(moved)
    assert (cache.get(KEY).verdict, cache.put(KEY, NEWER)) == (Verdict.UNTRUSTED, False)
    assert (files(moved), (moved / path.name).read_bytes()) == ([path.name], ENCODED)
    assert [(problem.kind, problem.fixed) for problem in cache.check(fix=True)] == [("directory", True)]
    assert (cache.check(), cache.put(KEY, ENTRY), cache.get(KEY), files(moved)) == ([], True, HIT, [path.name])


def test_an_entry_of_another_user_is_not_trusted(cache: DiskPipelineCache, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told(lambda file: (file[0], 12345, *file[2:]), monkeypatch)
    assert cache.get(KEY) == CacheLookup(Verdict.UNTRUSTED, None, "somebody else could have written the entry")
    assert path.read_bytes() == ENCODED


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_an_entry_that_others_may_write_to_is_not_trusted(cache: DiskPipelineCache, path: Path, mode: int) -> None:
    path.chmod(mode)
    assert (cache.get(KEY).verdict, cache.put(KEY, ENTRY), cache.get(KEY)) == (Verdict.UNTRUSTED, True, HIT)


@pytest.mark.usefixtures("path")
def test_an_entry_of_root_is_trusted_by_everybody(cache: DiskPipelineCache, monkeypatch: pytest.MonkeyPatch) -> None:
    told(lambda file: (file[0], 0, *file[2:]), monkeypatch)
    assert cache.get(KEY) == HIT


def test_a_file_that_is_written_in_pieces_is_whole(cache: DiskPipelineCache, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:7]))
    assert (cache.put(KEY, ENTRY), cache.get(KEY)) == (True, HIT)


def test_an_entry_of_64_mib_is_stored(cache: DiskPipelineCache) -> None:
    entry = PipelineEntry(b"", bytes(MAX_ENTRY_BYTES - HEADER_BYTES))
    assert (cache.put(KEY, entry), cache.get(KEY).entry == entry) == (True, True)


@pytest.mark.parametrize("in_memory", [False, True])
def test_an_entry_over_64_mib_is_dropped(root: Path, in_memory: bool) -> None:  # noqa: FBT001 -- both kinds of cache
    cache = DiskPipelineCache(None if in_memory else root)
    large = PipelineEntry(b"", bytes(MAX_ENTRY_BYTES - HEADER_BYTES + 1))
    assert (cache.put(KEY, large), cache.get(KEY).verdict, root.exists()) == (False, Verdict.MISS, False)
    expected = "put: the entry has 67108865 bytes, over the limit of 67108864 bytes"
    assert (counts(cache), cache.stats()["last_error"]) == ({"miss": 1, "put_failed": 1}, expected)


def test_after_the_root_is_deleted_a_put_makes_it_as_at_first(cache: DiskPipelineCache, root: Path, path: Path) -> None:
    root.rename(root.with_name("gone"))
    assert (cache.put(KEY, ENTRY), cache.get(KEY)) == (True, HIT)
    assert [mode(name) for name in (root, path.parent, path)] == [0o700, 0o700, 0o600]
    assert (root / "CACHEDIR.TAG").read_text() == TAG


@pytest.mark.usefixtures("path")
def test_a_root_in_whose_place_is_one_of_anybodys_is_neither_read_nor_written(cache: DiskPipelineCache, root: Path) -> None:
    root.rename(root.with_name("gone"))
    shutil.copytree(root.with_name("gone"), root)
    root.chmod(0o777)
    assert cache.get(KEY).verdict is not Verdict.HIT
    cache.put(OTHER, ENTRY)
    assert files(root) == ["CACHEDIR.TAG", "ab", SHARD]


@pytest.mark.parametrize("on_disk", [True, False])
def test_an_entry_that_is_only_to_be_new_leaves_one_that_is_there(tmp_path: Path, on_disk: bool) -> None:  # noqa: FBT001 -- both ways
    cache = DiskPipelineCache(tmp_path / "root" if on_disk else None)
    new, other = PipelineEntry(b"manifest", b"code"), PipelineEntry(b"manifest", b"code", b"\x20\0\0\0\1\0\0\0" + bytes(28))
    stored = [cache.put(key(1), new, only_new=True), cache.put(key(2), other), cache.put(key(2), new, only_new=True)]
    assert (stored, cache.get(key(1)).entry, cache.get(key(2)).entry) == ([True] * 3, new, other)
    assert not list(tmp_path.rglob("*.tmp"))


def test_without_hard_links_a_new_entry_is_renamed_into_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", fail)
    cache = DiskPipelineCache(tmp_path / "root")
    assert cache.put(key(1), PipelineEntry(b"manifest", b"code"), only_new=True)
    assert (cache.get(key(1)).verdict, list(tmp_path.rglob("*.tmp"))) == (Verdict.HIT, [])
