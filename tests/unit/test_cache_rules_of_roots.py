"""The rules of a cache's root: where it lies, and who else may have rights there."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from one_entry import ENTRY, KEY, OTHER, PLACE, below, mode

from vyre_driver.cache import CacheLookup, DiskPipelineCache, Verdict

if TYPE_CHECKING:
    from pathlib import Path


def test_rule_c02_the_working_directory_is_never_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("VYRE_CACHE_DIR", raising=False)
    for variable in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(variable, ".")
    before = below(tmp_path)
    DiskPipelineCache.from_settings().put(KEY, ENTRY)
    assert below(tmp_path) == before


@pytest.mark.parametrize("ancestor", ["a", "a/b"])
def test_rule_c06_a_root_below_everybodys_directory_is_not_used(tmp_path: Path, ancestor: str) -> None:
    root = tmp_path / "a" / "b" / "root"
    DiskPipelineCache(root).put(KEY, ENTRY)
    (tmp_path / ancestor).chmod(0o777)
    found = DiskPipelineCache(root).get(KEY)
    reason = f"everybody may write to {tmp_path / ancestor} (mode 777)"
    assert found == CacheLookup(Verdict.MISS, None, f"no entry (memory only: {root} is not used, {reason})")
    (tmp_path / ancestor).chmod(0o1777)
    assert DiskPipelineCache(root).get(KEY).verdict is Verdict.HIT


def test_rule_c06_a_link_on_the_way_to_the_root_is_followed_and_the_root_itself_may_be_none(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "way").symlink_to(tmp_path / "disk")
    DiskPipelineCache(tmp_path / "way" / "root").put(KEY, ENTRY)
    (tmp_path / "link").symlink_to(tmp_path / "disk" / "root")
    roots = [tmp_path / "disk" / "root", tmp_path / "way" / "root", tmp_path / "link"]
    assert [DiskPipelineCache(root).get(KEY).verdict.name for root in roots] == ["HIT", "HIT", "MISS"]


@pytest.mark.parametrize("who", ["geteuid", "getegid"])
def test_rule_c10_with_the_rights_of_another_user_the_disk_is_not_used(
    root: Path, monkeypatch: pytest.MonkeyPatch, who: str
) -> None:
    DiskPipelineCache(root).put(KEY, ENTRY)
    monkeypatch.setattr(os, who.replace("gete", "get"), lambda: 12345)
    cache = DiskPipelineCache(root)
    own = getattr(os, who)()
    kind = "user" if who == "geteuid" else "group"
    assert (cache.get(KEY).verdict, cache.put(OTHER, ENTRY)) == (Verdict.MISS, True)
    assert cache.stats()["refused"] == f"the process runs as {kind} {own} for {kind} 12345"
    assert (root / "cd").exists() is False


def test_rule_c32_a_read_only_cache_makes_no_root(root: Path) -> None:
    reader = DiskPipelineCache(root, readonly=True)
    assert (reader.get(KEY).verdict, reader.put(KEY, ENTRY), reader.get(KEY).entry, root.exists()) == (
        Verdict.MISS,
        True,
        ENTRY,
        False,
    )


@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_a_shared_root_has_group_rights_whatever_the_umask(root: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        shared = DiskPipelineCache(root, shared=True)
        assert shared.put(KEY, ENTRY) is True
        (root / PLACE).write_bytes(b"damaged")
        assert [shared.get(KEY).verdict, shared.put(KEY, ENTRY)] == [Verdict.TRUNCATED, True]
    finally:
        os.umask(before)
    names = ["", "ab", "quarantine", PLACE, "CACHEDIR.TAG"]
    assert [mode(root / name) for name in names[:4]] == [0o2770, 0o2770, 0o2770, 0o660]
    assert (shared.get(KEY).entry, shared.check()) == (ENTRY, [])


def test_a_shared_root_is_not_trusted_by_who_did_not_ask_for_it(root: Path) -> None:
    DiskPipelineCache(root, shared=True).put(KEY, ENTRY)
    private = DiskPipelineCache(root)
    assert (private.get(KEY).verdict, private.stats()["refused"]) == (Verdict.MISS, "others may write to it (mode 2770)")


def test_a_shared_root_that_everybody_may_write_to_is_not_trusted(root: Path) -> None:
    DiskPipelineCache(root, shared=True).put(KEY, ENTRY)
    root.chmod(0o2777)
    shared = DiskPipelineCache(root, shared=True)
    assert (shared.get(KEY).verdict, shared.stats()["refused"]) == (Verdict.MISS, "others may write to it (mode 2777)")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_a_shared_root_takes_entries_of_its_group_and_no_others(root: Path) -> None:
    shared = DiskPipelineCache(root, shared=True)
    shared.put(KEY, ENTRY)
    os.chown(root / PLACE, 12345, root.stat().st_gid)
    assert shared.get(KEY).entry == ENTRY
    os.chown(root / PLACE, 12345, 12345)
    assert shared.get(KEY).verdict is Verdict.UNTRUSTED
    os.chown(root, 12345, 12345)
    other = DiskPipelineCache(root, shared=True)
    assert other.get(KEY).verdict is Verdict.MISS
    assert other.stats()["refused"] == "it belongs to user 12345 and group 12345, neither of them ours"
