"""Upstream's disk cache: names, behaviours and error kinds of its vectors, and where we depart on purpose."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from vectors import vectors

from vyre_driver.cache import DiskPipelineCache, PipelineEntry, Verdict
from vyre_driver.cache.entry import encode_entry
from vyre_driver.cache.upstream import MAX_DISK_PIPELINE_BLOB_BYTES
from vyre_driver.errors import CacheUnusable, InvalidBlob, InvalidKey
from vyre_driver.identity import PipelineCacheKey, PipelineFeatureFlags
from vyre_driver.upstream.keys import PipelineDeviceFingerprint

VECTORS = vectors("pipeline_device_fingerprint.json")
FACTS = VECTORS["behaviours"]
DEVICE = PipelineDeviceFingerprint.from_parts(1, 2, "revision", "extra")
PROGRAM = bytes(32)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


@pytest.fixture
def cache(root: Path) -> DiskPipelineCache:
    return DiskPipelineCache(root)


def files(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


@pytest.mark.parametrize("facts", VECTORS["cases"], ids=str)
def test_the_path_of_a_program_on_a_device_is_upstreams(cache: DiskPipelineCache, root: Path, facts: dict[str, Any]) -> None:
    made = PipelineDeviceFingerprint.from_parts(facts["vendor"], facts["device"], facts["revision"], facts["revision_extra"])
    assert cache.path_for(bytes.fromhex(facts["program_digest"]), made) == str(root / facts["relative_path"])


def test_a_blob_is_written_as_it_is_to_its_path_alone(cache: DiskPipelineCache, root: Path) -> None:
    """A departure: upstream leaves no tag in a root that it makes."""
    cache.write(PROGRAM, DEVICE, b"blob")
    path = Path(str(cache.path_for(PROGRAM, DEVICE)))
    assert (files(root), path.read_bytes()) == (sorted(["CACHEDIR.TAG", str(path.relative_to(root))]), b"blob")


def test_the_file_of_the_vectors_is_the_one_that_a_write_makes(cache: DiskPipelineCache, root: Path) -> None:
    (named,) = FACTS["files_after_write"]
    assert (len(named), named[2], named[:2], named[-4:]) == (71, "/", named[3:5], ".bin")
    cache.write(PROGRAM, DEVICE, b"x")
    assert [len(name) for name in files(root) if name != "CACHEDIR.TAG"] == [71]


def test_an_overwritten_blob_reads_as_the_last_one(cache: DiskPipelineCache) -> None:
    for blob in (b"first", bytes.fromhex(FACTS["overwrite_reads"])):
        cache.write(PROGRAM, DEVICE, blob)
    found = cache.read(PROGRAM, DEVICE)
    assert found is not None
    assert found.hex() == FACTS["overwrite_reads"]


def test_an_empty_blob_reads_as_empty_and_a_missing_one_as_none(cache: DiskPipelineCache) -> None:
    cache.write(PROGRAM, DEVICE, b"")
    empty = cache.read(PROGRAM, DEVICE)
    assert empty is not None
    assert (len(empty), cache.read(b"\1" * 32, DEVICE) is None) == (FACTS["read_empty_blob"], FACTS["read_miss"])


def kind(error: pytest.ExceptionInfo[InvalidBlob]) -> dict[str, object]:
    return {"kind": error.value.context["kind"]}


def test_the_bound_is_upstreams_on_both_ways(cache: DiskPipelineCache) -> None:
    limit = FACTS["max_blob_bytes"]
    assert limit == MAX_DISK_PIPELINE_BLOB_BYTES
    cache.write(PROGRAM, DEVICE, bytes(limit))
    found = cache.read(PROGRAM, DEVICE)
    assert (found is not None and len(found) == limit) is FACTS["write_at_limit_ok"]
    with pytest.raises(InvalidBlob, match="has 67108865 bytes, over the limit of 67108864 bytes") as written:
        cache.write(PROGRAM, DEVICE, bytes(limit + 1))
    assert kind(written) == FACTS["write_over_limit"]
    path = Path(str(cache.path_for(PROGRAM, DEVICE)))
    os.truncate(path, limit + 1)
    with pytest.raises(InvalidBlob, match="has 67108865 bytes, over the limit of 67108864 bytes") as read:
        cache.read(PROGRAM, DEVICE)
    assert kind(read) == FACTS["read_over_limit"]


def test_a_mask_invalidates_as_upstreams_does(cache: DiskPipelineCache) -> None:
    digests = {number: bytes([number]) * 32 for number in (1, 3, 4, 5)}
    for number in (1, 3, 4):
        cache.write(digests[number], DEVICE, b"blob")
    cache.invalidate_impacted([1, 0, 7, 1, 1], list(digests.values()), DEVICE)
    still = {str(number): cache.read(digests[number], DEVICE) is not None for number in (1, 3, 4)}
    assert still == FACTS["invalidate_mask_1_0_7_1_1_over_digests_1_3_4_5"]


def test_a_flush_waits_for_what_was_written(cache: DiskPipelineCache, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fdatasync", synced.append)
    cache.write(PROGRAM, DEVICE, b"blob")
    cache.flush()
    cache.flush()
    assert (len(synced) == 1) is FACTS["flush_ok"]


def test_a_flush_forgives_what_was_invalidated_since(cache: DiskPipelineCache) -> None:
    """A departure: upstream's flush fails with NotFound then, and every later one too."""
    assert (FACTS["flush_after_invalidate_of_pending"], FACTS["second_flush_still_fails"]) == ("NotFound", "NotFound")
    cache.write(PROGRAM, DEVICE, b"blob")
    cache.invalidate_impacted([1], [PROGRAM], DEVICE)
    cache.flush()
    cache.flush()


def test_one_blob_that_cannot_be_removed_does_not_keep_the_others(cache: DiskPipelineCache) -> None:
    """A departure: upstream stops at the first error."""
    stuck, other = bytes([1]) * 32, bytes([2]) * 32
    path = Path(str(cache.path_for(stuck, DEVICE)))
    cache.write(other, DEVICE, b"blob")
    assert path is not None
    path.mkdir(parents=True)
    with pytest.raises(IsADirectoryError):
        cache.invalidate_impacted([1, 1], [stuck, other], DEVICE)
    assert cache.read(other, DEVICE) is None


def raw_key(program: bytes) -> PipelineCacheKey:
    """A strong key forged to have the name of a raw blob, which no key made by ``new`` has."""
    digest = DEVICE.cache_key(program)
    return PipelineCacheKey(1, bytes(32), bytes(32), 0, (1, 1, 1), PipelineFeatureFlags(0), "kompute", b"m", digest)


def test_a_raw_blob_is_never_read_as_an_entry(cache: DiskPipelineCache) -> None:
    cache.write(PROGRAM, DEVICE, b"any other bytes than an entry's")
    assert cache.get(raw_key(PROGRAM)).verdict is Verdict.CORRUPT


def test_an_entry_is_never_read_as_a_raw_blob(cache: DiskPipelineCache) -> None:
    cache.put(raw_key(PROGRAM), PipelineEntry(b"m", b"words"))
    with pytest.raises(InvalidBlob, match="is an entry, which only get may read") as error:
        cache.read(PROGRAM, DEVICE)
    assert kind(error) == {"kind": "InvalidData"}


def test_an_entry_is_never_written_as_a_raw_blob(cache: DiskPipelineCache, root: Path) -> None:
    """A departure: upstream writes any bytes."""
    entry = encode_entry(DEVICE.cache_key(PROGRAM), PipelineEntry(b"m", b"words"))
    with pytest.raises(InvalidBlob, match="begins as an entry of the cache does") as error:
        cache.write(PROGRAM, DEVICE, entry)
    assert (kind(error), root.exists()) == ({"kind": "InvalidInput"}, False)


def test_a_symlink_in_a_blobs_place_is_not_followed(cache: DiskPipelineCache, tmp_path: Path) -> None:
    """A departure: upstream follows it."""
    cache.write(PROGRAM, DEVICE, b"blob")
    path = Path(str(cache.path_for(PROGRAM, DEVICE)))
    path.rename(tmp_path / "target")
    path.symlink_to(tmp_path / "target")
    with pytest.raises(OSError, match="Too many levels of symbolic links"):
        cache.read(PROGRAM, DEVICE)


def test_a_root_that_may_not_be_used_is_refused(cache: DiskPipelineCache, root: Path) -> None:
    """A departure: upstream uses any directory."""
    root.mkdir()
    root.chmod(0o777)
    for action in (
        lambda: cache.read(PROGRAM, DEVICE),
        lambda: cache.write(PROGRAM, DEVICE, b"blob"),
        lambda: cache.invalidate_impacted([1], [PROGRAM], DEVICE),
    ):
        with pytest.raises(CacheUnusable, match=r"is not used: others may write to it \(mode 777\)"):
            action()
    assert files(root) == []


@pytest.mark.parametrize(("what", "told"), [("file", "somebody else could have written it"), ("directory", "not ours alone")])
def test_a_blob_that_others_could_have_written_is_refused(cache: DiskPipelineCache, what: str, told: str) -> None:
    """A departure: upstream reads it."""
    cache.write(PROGRAM, DEVICE, b"blob")
    path = Path(str(cache.path_for(PROGRAM, DEVICE)))
    (path if what == "file" else path.parent).chmod(0o777)
    with pytest.raises(InvalidBlob, match=told) as error:
        cache.read(PROGRAM, DEVICE)
    assert kind(error) == {"kind": "InvalidData"}


def test_a_cache_in_memory_has_no_raw_blobs() -> None:
    cache = DiskPipelineCache(None)
    assert (cache.read(PROGRAM, DEVICE), cache.path_for(PROGRAM, DEVICE)) == (None, None)
    with pytest.raises(CacheUnusable, match="in memory only, which holds no raw blobs"):
        cache.write(PROGRAM, DEVICE, b"blob")


def test_a_read_only_cache_reads_raw_blobs_and_writes_none(root: Path, cache: DiskPipelineCache) -> None:
    cache.write(PROGRAM, DEVICE, b"blob")
    reader = DiskPipelineCache(root, readonly=True)
    with pytest.raises(CacheUnusable, match="is read-only"):
        reader.write(PROGRAM, DEVICE, b"other")
    with pytest.raises(CacheUnusable, match="is read-only"):
        reader.invalidate_impacted([1], [PROGRAM], DEVICE)
    assert reader.read(PROGRAM, DEVICE) == b"blob"


def test_a_program_digest_of_another_size_is_refused(cache: DiskPipelineCache) -> None:
    with pytest.raises(InvalidKey):
        cache.path_for(bytes(31), DEVICE)


def usable(facts: dict[str, Any]) -> bool:
    """Whether upstream's answer is an absolute path of this system."""
    return str(facts["default_root"]).startswith("/")


@pytest.mark.parametrize("facts", [facts for facts in VECTORS["default_root"] if usable(facts)], ids=str)
def test_the_default_root_is_upstreams(facts: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    set_environment(facts, monkeypatch)
    assert str(DiskPipelineCache.default_root()) == facts["default_root"]


@pytest.mark.parametrize("facts", [facts for facts in VECTORS["default_root"] if not usable(facts)], ids=str)
def test_a_default_root_that_would_lie_in_the_working_directory_is_never_given(
    facts: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A departure: upstream takes an empty XDG_CACHE_HOME or HOME for a relative path."""
    set_environment(facts, monkeypatch)
    found = DiskPipelineCache.default_root()
    assert found is None or (found.is_absolute() and str(found).endswith("/.cache/vyre/pipelines"))


def set_environment(facts: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("HOME", "LOCALAPPDATA", "XDG_CACHE_HOME"):
        if facts[variable] is None:
            monkeypatch.delenv(variable, raising=False)
        else:
            monkeypatch.setenv(variable, facts[variable])
