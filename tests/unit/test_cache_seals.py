"""Seals and base directories: what a key lets in, and what a cache below another gives."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from literals import refusal
from test_cache_bundles import KEY, OTHER_KEY, blob, entry, pipeline

from vyre_driver.cache.disk import DiskPipelineCache
from vyre_driver.cache.entry import FORMAT_VERSION, HEADER_BYTES, Verdict, decode_entry, encode_entry
from vyre_driver.cache.seal import SEAL_BYTES, read_hmac_key
from vyre_driver.errors import InvalidSetting

FIRST = pipeline(1)


def test_a_sealed_entry_is_read_with_its_key_and_without_any() -> None:
    data = encode_entry(FIRST.digest, entry(FIRST, blob()), hmac_key=KEY)
    plain = encode_entry(FIRST.digest, entry(FIRST, blob()))
    assert len(data) == len(plain) + SEAL_BYTES
    assert decode_entry(FIRST.digest, data, hmac_key=KEY) == (Verdict.HIT, entry(FIRST, blob()))
    assert decode_entry(FIRST.digest, data) == (Verdict.HIT, entry(FIRST, blob()))


def test_without_the_right_seal_an_entry_is_untrusted() -> None:
    sealed, plain = (encode_entry(FIRST.digest, entry(FIRST), hmac_key=key) for key in (KEY, None))
    assert decode_entry(FIRST.digest, sealed, hmac_key=OTHER_KEY) == (Verdict.UNTRUSTED, None)
    assert decode_entry(FIRST.digest, plain, hmac_key=KEY) == (Verdict.UNTRUSTED, None)


def test_every_changed_byte_of_a_sealed_entry_shows_even_with_a_new_digest() -> None:
    data = encode_entry(FIRST.digest, entry(FIRST, blob()), hmac_key=KEY)
    for place in range(len(data)):
        changed = bytearray(data)
        changed[place] ^= 1
        assert decode_entry(FIRST.digest, bytes(changed), hmac_key=KEY)[1] is None
        if place >= 48:
            from blake3 import blake3

            changed[16:48] = blake3(bytes(changed[48:])).digest()
            assert decode_entry(FIRST.digest, bytes(changed), hmac_key=KEY)[1] is None


def test_a_sealed_entry_cut_or_extended_is_no_hit() -> None:
    data = encode_entry(FIRST.digest, entry(FIRST), hmac_key=KEY)
    cut = {decode_entry(FIRST.digest, data[:length], hmac_key=KEY)[0] for length in range(HEADER_BYTES, len(data))}
    assert (cut, decode_entry(FIRST.digest, data + b"\0", hmac_key=KEY)[0]) == ({Verdict.TRUNCATED}, Verdict.EXTENDED)
    assert FORMAT_VERSION == 2


def test_a_cache_with_a_key_seals_what_it_puts_and_misses_what_others_put(tmp_path: Path) -> None:
    DiskPipelineCache(tmp_path / "root").put(FIRST, entry(FIRST))
    cache = DiskPipelineCache(tmp_path / "root", hmac_key=KEY)
    assert (cache.get(FIRST).verdict, cache.stats()["sealed"]) == (Verdict.UNTRUSTED, True)
    assert [problem.kind for problem in cache.check()] == ["untrusted"]
    assert cache.put(FIRST, entry(FIRST))
    assert (cache.get(FIRST).verdict, cache.check()) == (Verdict.HIT, [])
    assert [one.header.is_sealed for one in cache.entries()] == [True]
    assert DiskPipelineCache(tmp_path / "root", hmac_key=OTHER_KEY).get(FIRST).verdict is Verdict.UNTRUSTED


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    path = tmp_path / "key"
    path.write_bytes(KEY)
    path.chmod(0o600)
    return path


def test_the_settings_name_key_and_base(key_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VYRE_CACHE_DIR", str(tmp_path / "root"))
    monkeypatch.setenv("VYRE_CACHE_BASE", str(tmp_path / "base"))
    monkeypatch.setenv("VYRE_CACHE_HMAC_KEY_FILE", str(key_file))
    stats = DiskPipelineCache.from_settings().stats()
    assert (stats["root"], stats["base"], stats["sealed"]) == (str(tmp_path / "root"), str(tmp_path / "base"), True)


def test_a_key_file_of_any_use_is_read(key_file: Path, tmp_path: Path) -> None:
    assert read_hmac_key(key_file, tmp_path / "root") == read_hmac_key(key_file, None) == KEY
    key_file.write_bytes(b"k" * 4096)
    assert read_hmac_key(key_file, None) == b"k" * 4096


@pytest.mark.parametrize(
    ("data", "mode", "says"),
    [
        (b"", 0o600, "it has 0 bytes"),
        (b"k" * 31, 0o600, "it has 31 bytes"),
        (b"k" * 4097, 0o600, "it has 4097 bytes"),
        (KEY, 0o604, "others may read or change it (mode 604)"),
        (KEY, 0o620, "others may read or change it (mode 620)"),
    ],
)
def test_a_key_that_others_could_have_or_guess_is_refused(data: bytes, mode: int, says: str, key_file: Path) -> None:
    key_file.write_bytes(data)
    key_file.chmod(mode)
    kind, code, message = refusal(lambda: read_hmac_key(key_file, None))
    assert (kind, code, says in message) == (InvalidSetting, 2401, True)


def test_a_key_inside_the_cache_or_nowhere_is_refused(key_file: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(tmp_path)
    for path, root, says in [
        (key_file, tmp_path, "it lies in the cache itself"),
        (link / "key", tmp_path, "it lies in the cache itself"),
        (tmp_path / "missing", None, "it cannot be read (No such file or directory)"),
        (tmp_path, None, "is not a regular file"),
    ]:
        assert says in refusal(lambda path=path, root=root: read_hmac_key(path, root))[2]


def test_a_fifo_in_the_keys_place_hangs_nobody(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo", 0o600)
    assert "is not a regular file" in refusal(lambda: read_hmac_key(tmp_path / "fifo", None))[2]


def test_what_is_not_here_is_found_in_the_base_which_is_never_changed(tmp_path: Path) -> None:
    base = DiskPipelineCache(tmp_path / "base")
    second = pipeline(2)
    for key in (FIRST, second):
        assert base.put(key, entry(key))
    damaged = base.entry_path(second)
    assert damaged is not None
    damaged.write_bytes(damaged.read_bytes()[:-1])
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "base").rglob("*")}
    cache = DiskPipelineCache(tmp_path / "root", base=tmp_path / "base")
    assert (cache.get(FIRST).verdict, cache.get(second).verdict) == (Verdict.HIT, Verdict.TRUNCATED)
    assert cache.put(second, entry(second))
    assert cache.get(second).verdict is Verdict.HIT
    assert cache.clear() > 0
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "base").rglob("*")} == before
    assert cache.get(FIRST).verdict is Verdict.HIT


def test_the_own_root_goes_before_the_base(tmp_path: Path) -> None:
    base, cache = DiskPipelineCache(tmp_path / "base"), DiskPipelineCache(tmp_path / "root", base=tmp_path / "base")
    base.put(FIRST, entry(FIRST))
    cache.put(FIRST, entry(FIRST, blob()))
    found = cache.get(FIRST).entry
    assert found is not None
    assert found.native == blob()


def test_a_base_without_the_key_gives_nothing(tmp_path: Path) -> None:
    DiskPipelineCache(tmp_path / "base").put(FIRST, entry(FIRST))
    cache = DiskPipelineCache(tmp_path / "root", base=tmp_path / "base", hmac_key=KEY)
    assert cache.get(FIRST).verdict is Verdict.UNTRUSTED


def test_a_base_that_is_not_there_is_as_an_empty_one(tmp_path: Path) -> None:
    cache = DiskPipelineCache(tmp_path / "root", base=tmp_path / "nowhere")
    assert (cache.get(FIRST).verdict, (tmp_path / "nowhere").exists()) == (Verdict.MISS, False)


def test_peeking_changes_and_counts_nothing(tmp_path: Path) -> None:
    cache = DiskPipelineCache(tmp_path / "root")
    cache.put(FIRST, entry(FIRST))
    path = cache.entry_path(FIRST)
    assert path is not None
    path.write_bytes(path.read_bytes()[:-1])
    counts = cache.stats()["counts"]
    assert (cache.peek(FIRST).verdict, path.exists(), cache.stats()["counts"]) == (Verdict.TRUNCATED, True, counts)
    assert cache.peek(pipeline(9)).verdict is Verdict.MISS


def layered(tmp_path: Path) -> DiskPipelineCache:
    """Make a cache with one entry of its own, one that the base has too, and one that only the base has."""
    base, cache = DiskPipelineCache(tmp_path / "base"), DiskPipelineCache(tmp_path / "root", base=tmp_path / "base")
    for number, holders in [(1, [cache]), (2, [cache, base]), (3, [base])]:
        for holder in holders:
            holder.put(pipeline(number), entry(pipeline(number)))
    return cache


def test_the_entries_of_a_base_are_listed_once_and_counted_apart(tmp_path: Path) -> None:
    cache = layered(tmp_path)
    roots = {1: "root", 2: "root", 3: "base"}
    wanted = sorted((pipeline(number).hex, str(tmp_path / root)) for number, root in roots.items())
    assert sorted((one.key, str(Path(one.path).parents[1])) for one in cache.entries()) == wanted
    assert (cache.usage().entries, cache.usage(base=True).entries) == (2, 2)
    assert DiskPipelineCache(tmp_path / "root").usage(base=True).entries == 0


def test_a_miss_is_explained_by_the_entries_of_the_base_too(tmp_path: Path) -> None:
    cache = layered(tmp_path)
    found = [cache.explain(pipeline(number)) for number in (3, 4)]
    assert [(one.verdict.name, one.compared, len(one.nearest)) for one in found] == [("HIT", 0, 0), ("MISS", 3, 3)]
    only_base = DiskPipelineCache(None, base=tmp_path / "base")
    assert (only_base.get(pipeline(3)).verdict, only_base.explain(pipeline(1)).compared) == (Verdict.HIT, 2)


def test_above_a_base_what_an_unused_root_did_not_take_is_found_in_memory(tmp_path: Path) -> None:
    layered(tmp_path)
    (tmp_path / "root").chmod(0o777)
    cache = DiskPipelineCache(tmp_path / "root", base=tmp_path / "base")
    assert cache.put(pipeline(4), entry(pipeline(4)))
    found = [cache.get(pipeline(number)).reason for number in (4, 3, 1)]
    assert (found[0], found[1].split(" of ")[0], found[2]) == ("entry in memory", "verified entry", "no entry")
    assert [one.key for one in cache.entries() if one.key == pipeline(1).hex] == []
