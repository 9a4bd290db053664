"""Which directories are trusted, where the cache lies by default, and what memory does instead."""

from __future__ import annotations

import errno
import os
import pwd
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from literals import key, refusal

from vyre_driver.cache import CacheLookup, DiskPipelineCache, PipelineEntry, Verdict, _read
from vyre_driver.cache.entry import HEADER_BYTES, encode_entry
from vyre_driver.cache.upkeep import CacheProblem
from vyre_driver.errors import InvalidSetting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

KEY = key(0xAB)
ENTRY = PipelineEntry(b"manifest", b"SPIR-V words")
FROM_MEMORY = CacheLookup(Verdict.HIT, ENTRY, "entry in memory")
MIB = 1024 * 1024


def untrusted_directory(mode: int) -> Callable[[Path], None]:
    def make(root: Path) -> None:
        root.mkdir()
        root.chmod(mode)

    return make


def link_to_directory(root: Path) -> None:
    (root.parent / "target").mkdir()
    root.symlink_to(root.parent / "target")


REFUSED: dict[str, tuple[Callable[[Path], None], str]] = {
    "a group may write to it": (untrusted_directory(0o770), "others may write to it (mode 770)"),
    "everybody may write to it": (untrusted_directory(0o777), "others may write to it (mode 777)"),
    "only the group may write to it": (untrusted_directory(0o520), "others may write to it (mode 520)"),
    "only others may write to it": (untrusted_directory(0o702), "others may write to it (mode 702)"),
    "everybody may write, and delete his own": (untrusted_directory(0o1777), "others may write to it (mode 1777)"),
    "it is a file": (Path.touch, "it is not a directory"),
    "it is a symlink": (link_to_directory, "it is not a directory"),
    "it is a symlink to nowhere": (lambda root: root.symlink_to("nowhere"), "it is not a directory"),
    "it is a fifo": (os.mkfifo, "it is not a directory"),
}


def below(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*"))


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """An empty directory."""
    found = tmp_path / "place"
    found.mkdir()
    return found


@pytest.mark.parametrize("why", REFUSED)
def test_a_root_that_cannot_be_trusted_is_not_used_and_said(place: Path, why: str) -> None:
    make, reason = REFUSED[why]
    root = place / "root"
    make(root)
    before = below(place)
    cache = DiskPipelineCache(root)
    assert (cache.get(KEY).reason, cache.put(KEY, ENTRY), cache.get(KEY)) == (
        f"no entry (memory only: {root} is not used, {reason})",
        True,
        FROM_MEMORY,
    )
    assert (cache.stats()["refused"], below(place)) == (reason, before)


@pytest.mark.parametrize("why", REFUSED)
def test_a_put_into_a_root_that_cannot_be_trusted_stays_in_memory(place: Path, why: str) -> None:
    REFUSED[why][0](place / "root")
    before = below(place)
    cache = DiskPipelineCache(place / "root")
    assert (cache.put(KEY, ENTRY), cache.get(KEY), below(place)) == (True, FROM_MEMORY, before)
    assert cache.stats()["refused"] is not None


def test_an_entry_planted_in_a_root_that_cannot_be_trusted_is_not_read(place: Path) -> None:
    DiskPipelineCache(place / "root").put(KEY, ENTRY)
    (place / "root").chmod(0o777)
    assert DiskPipelineCache(place / "root").get(KEY).verdict is Verdict.MISS


@pytest.mark.parametrize("mode", [0o700, 0o755, 0o500 | 0o200])
def test_a_root_that_only_its_owner_may_write_to_is_used(place: Path, mode: int) -> None:
    (place / "root").mkdir()
    (place / "root").chmod(mode)
    cache = DiskPipelineCache(place / "root")
    assert (cache.put(KEY, ENTRY), cache.get(KEY).verdict, cache.stats()["refused"]) == (True, Verdict.HIT, None)
    assert below(place / "root") == [".pruned", "ab", "ab/" + "ab" * 32 + ".bin"]


def test_a_root_of_another_user_is_not_used(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (place / "root").mkdir(mode=0o700)
    lstat, read_entry = os.lstat, _read.read_entry

    def of_another(target: Path) -> os.stat_result:
        found = list(lstat(target))
        found[4] = 12345
        return os.stat_result(found)

    def read_of_another(*given: Any) -> tuple[Any, ...]:  # noqa: ANN401 -- the reader's
        stage, code, found, *rest = read_entry(*given[:4])
        assert found is not None
        return (stage, code, (found[0], 12345, *found[2:]), *rest)

    monkeypatch.setattr(os, "lstat", of_another)
    monkeypatch.setattr(_read, "read_entry", read_of_another)
    cache = DiskPipelineCache(place / "root")
    assert (cache.put(KEY, ENTRY), cache.get(KEY), cache.stats()["refused"]) == (True, FROM_MEMORY, "it belongs to user 12345")
    monkeypatch.undo()
    assert below(place) == ["root"]


@pytest.mark.parametrize("first", ["get", "put"])
def test_a_root_below_a_file_is_not_used_and_said(place: Path, first: str) -> None:
    (place / "file").touch()
    cache = DiskPipelineCache(place / "file" / "root")
    if_first = {"get": lambda: cache.get(KEY), "put": lambda: cache.put(KEY, ENTRY)}
    assert if_first[first]()
    assert (cache.put(KEY, ENTRY), cache.get(KEY), cache.stats()["refused"]) == (True, FROM_MEMORY, "Not a directory")
    assert below(place) == ["file"]


@pytest.fixture
def nobody() -> Iterator[None]:
    """Another user than the one who may write everywhere."""
    if os.geteuid():
        yield
        return
    os.seteuid(65534)
    yield
    os.seteuid(0)


@pytest.mark.usefixtures("nobody")
def test_a_root_that_this_user_cannot_make_is_not_used_and_said_from_the_first_look() -> None:
    cache = DiskPipelineCache(Path("/nowhere/at/all"))
    reason = "it is not there, and this user may not write to /"
    assert cache.get(KEY).reason == f"no entry (memory only: /nowhere/at/all is not used, {reason})"
    assert (cache.check(), cache.stats()["refused"]) == ([CacheProblem("/nowhere/at/all", "root", reason)], reason)


def test_a_root_that_could_not_be_made_stays_unused_until_it_can_be(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = DiskPipelineCache(place / "root")

    def mkdir(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "mkdir", mkdir)
    assert (cache.put(KEY, ENTRY), cache.get(KEY), cache.stats()["refused"]) == (True, FROM_MEMORY, "No space left on device")
    monkeypatch.undo()
    assert (cache.put(KEY, ENTRY), cache.stats()["refused"], below(place)[:1]) == (True, None, ["root"])


def test_a_cache_without_a_root_lives_in_memory() -> None:
    cache = DiskPipelineCache(None)
    assert cache.get(KEY) == CacheLookup(Verdict.MISS, None, "no entry (memory only)")
    assert (cache.put(KEY, ENTRY), cache.get(KEY), cache.entry_path(KEY), cache.root) == (True, FROM_MEMORY, None, None)
    counts = {"hit": 1, "miss": 1, "put": 1}
    alone = {"root": None, "refused": None, "readonly": False, "base": None, "sealed": False, "last_error": None}
    assert cache.stats() == {**alone, "counts": counts}


def test_two_caches_in_memory_share_nothing() -> None:
    DiskPipelineCache(None).put(KEY, ENTRY)
    assert DiskPipelineCache(None).get(KEY).verdict is Verdict.MISS


def fill(cache: DiskPipelineCache, sizes: dict[int, int]) -> list[int]:
    """Put entries of these encoded sizes under these keys; return the keys that are still there, without touching order."""
    for number, size in sizes.items():
        cache.put(key(number), PipelineEntry(b"", bytes(size - HEADER_BYTES)))
    return [number for number in sizes if cache.get(key(number)).verdict is Verdict.HIT]


def test_64_mib_stay_in_memory() -> None:
    assert fill(DiskPipelineCache(None), {1: 32 * MIB, 2: 32 * MIB}) == [1, 2]


def test_one_byte_more_than_64_mib_evicts_the_oldest_entry() -> None:
    assert fill(DiskPipelineCache(None), {1: 32 * MIB, 2: 16 * MIB, 3: 16 * MIB + 1}) == [2, 3]


def test_as_many_entries_are_evicted_as_the_new_one_needs() -> None:
    assert fill(DiskPipelineCache(None), {1: 20 * MIB, 2: 20 * MIB, 3: 20 * MIB, 4: 30 * MIB}) == [3, 4]


def test_an_entry_that_was_used_is_evicted_after_one_that_was_not() -> None:
    cache = DiskPipelineCache(None)
    fill(cache, {1: 30 * MIB, 2: 30 * MIB})
    cache.get(key(1))
    cache.put(key(3), PipelineEntry(b"", bytes(20 * MIB)))
    assert [cache.get(key(number)).verdict.name for number in (1, 2, 3)] == ["HIT", "MISS", "HIT"]


def test_an_entry_put_again_is_counted_once() -> None:
    cache = DiskPipelineCache(None)
    for _ in range(5):
        cache.put(key(1), PipelineEntry(b"", bytes(30 * MIB)))
    assert fill(cache, {2: 30 * MIB}) == [2]
    assert cache.get(key(1)).verdict is Verdict.HIT


def test_the_default_root_is_below_an_absolute_cache_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere/cache")
    assert DiskPipelineCache.default_root() == Path("/somewhere/cache/vyre/pipelines")


@pytest.mark.parametrize("cache_home", ["", "relative/cache", ".", "~/cache"])
def test_a_relative_or_empty_cache_home_is_ignored(monkeypatch: pytest.MonkeyPatch, cache_home: str) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", cache_home)
    monkeypatch.setenv("HOME", "/home/somebody")
    assert DiskPipelineCache.default_root() == Path("/home/somebody/.cache/vyre/pipelines")


def test_without_a_cache_home_the_default_root_is_below_the_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/somebody")
    assert DiskPipelineCache.default_root() == Path("/home/somebody/.cache/vyre/pipelines")


def account(user: int) -> pwd.struct_passwd:
    return pwd.struct_passwd(("somebody", "x", user, user, "", "/home/account", "/bin/sh"))


def no_account(user: int) -> pwd.struct_passwd:
    raise KeyError(user)


def test_without_home_the_default_root_is_below_the_home_of_the_users_account(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(pwd, "getpwuid", account)
    assert DiskPipelineCache.default_root() == Path("/home/account/.cache/vyre/pipelines")


@pytest.mark.parametrize("cache_home", ["", "relative"])
def test_a_user_without_home_and_account_has_no_default_root(monkeypatch: pytest.MonkeyPatch, cache_home: str) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", cache_home)
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(pwd, "getpwuid", no_account)
    assert DiskPipelineCache.default_root() is None


def test_a_user_without_home_and_account_gets_a_cache_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("VYRE_CACHE_DIR", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(variable)
    monkeypatch.setattr(pwd, "getpwuid", no_account)
    assert DiskPipelineCache.from_settings().root is None


@pytest.mark.parametrize("home", ["", "relative", "."])
def test_an_empty_or_relative_home_is_never_used(monkeypatch: pytest.MonkeyPatch, home: str) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", home)
    monkeypatch.setattr(pwd, "getpwuid", account)
    assert DiskPipelineCache.default_root() in {None, Path("/home/account/.cache/vyre/pipelines")}


def test_the_settings_directory_is_the_root(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("VYRE_CACHE_DIR", str(tmp_path / "chosen"))
    assert DiskPipelineCache.from_settings().root == tmp_path / "chosen"


def test_an_empty_settings_directory_is_the_default_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VYRE_CACHE_DIR", "")
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere/cache")
    assert DiskPipelineCache.from_settings().root == Path("/somewhere/cache/vyre/pipelines")


def test_a_relative_settings_directory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VYRE_CACHE_DIR", "pipelines")
    message = "VYRE_CACHE_DIR is 'pipelines', a relative path. Fix: set VYRE_CACHE_DIR to an absolute path."
    assert refusal(DiskPipelineCache.from_settings) == (InvalidSetting, 2401, message)


@pytest.mark.parametrize(("word", "is_on_disk"), [("1", False), ("on", False), ("0", True), ("", True)])
def test_the_cache_can_be_kept_off_the_disk(monkeypatch: pytest.MonkeyPatch, word: str, is_on_disk: bool) -> None:  # noqa: FBT001 -- a column
    monkeypatch.setenv("VYRE_CACHE_DIR", "/somewhere")
    monkeypatch.setenv("VYRE_CACHE_DISABLE", word)
    assert DiskPipelineCache.from_settings().root == (Path("/somewhere") if is_on_disk else None)


def test_a_cache_that_is_off_does_not_mind_its_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VYRE_CACHE_DIR", "relative")
    monkeypatch.setenv("VYRE_CACHE_DISABLE", "1")
    assert DiskPipelineCache.from_settings().root is None


def test_an_unclear_switch_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VYRE_CACHE_DISABLE", "maybe")
    message = "VYRE_CACHE_DISABLE is 'maybe', which is neither on nor off. Fix: set VYRE_CACHE_DISABLE to 1 or 0, or unset it."
    assert refusal(DiskPipelineCache.from_settings) == (InvalidSetting, 2401, message)


def test_an_entry_in_memory_has_the_bytes_it_would_have_on_disk() -> None:
    assert ENTRY.byte_len == len(encode_entry(KEY.digest, ENTRY))
