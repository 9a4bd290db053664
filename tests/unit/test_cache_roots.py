"""Which directories are trusted, where the cache lies by default, and what memory does instead."""

from __future__ import annotations

import errno
import os
import pwd
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from literals import key, refusal
from one_entry import ENTRY, KEY, OTHER, PLACE, below, mode

from vyre_driver.cache import CacheLookup, DiskPipelineCache, PipelineEntry, Verdict, _read
from vyre_driver.cache.entry import HEADER_BYTES, encode_entry
from vyre_driver.cache.upkeep import CacheProblem
from vyre_driver.errors import InvalidSetting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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
    cache, only_put = DiskPipelineCache(root), DiskPipelineCache(root)
    assert cache.get(KEY).reason == f"no entry (memory only: {root} is not used, {reason})"
    for one in (cache, only_put):
        assert (one.put(KEY, ENTRY), one.get(KEY), one.stats()["refused"]) == (True, FROM_MEMORY, reason)
    assert below(place) == before


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


@pytest.mark.parametrize(
    ("sizes", "kept"),
    [
        ([32 * MIB, 32 * MIB], [1, 2]),
        ([32 * MIB, 16 * MIB, 16 * MIB + 1], [2, 3]),
        ([20 * MIB, 20 * MIB, 20 * MIB, 30 * MIB], [3, 4]),
    ],
)
def test_64_mib_stay_in_memory_and_the_oldest_entries_give_way_to_one_more_byte(sizes: list[int], kept: list[int]) -> None:
    assert fill(DiskPipelineCache(None), dict(enumerate(sizes, 1))) == kept


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


HOME, ACCOUNT = Path("/home/somebody/.cache/vyre/pipelines"), Path("/home/account/.cache/vyre/pipelines")


@pytest.mark.parametrize(
    ("cache_home", "home", "has_account", "root"),
    [
        ("/somewhere/cache", "/home/somebody", True, Path("/somewhere/cache/vyre/pipelines")),
        *(
            (cache_home, "/home/somebody", True, HOME)
            for cache_home in (None, "", "relative/cache", ".", "../cache", "~/cache")
        ),
        (None, None, True, ACCOUNT),
        *((None, home, True, ACCOUNT) for home in ("", "relative", ".")),
        ("", None, False, None),
        ("relative", None, False, None),
    ],
)
def test_the_default_root_is_below_the_first_absolute_of_cache_home_home_and_the_accounts_home(
    monkeypatch: pytest.MonkeyPatch,
    cache_home: str | None,
    home: str | None,
    has_account: bool,  # noqa: FBT001 -- a column
    root: Path | None,
) -> None:
    def account(user: int) -> pwd.struct_passwd:
        if not has_account:
            raise KeyError(user)
        return pwd.struct_passwd(("somebody", "x", user, user, "", "/home/account", "/bin/sh"))

    monkeypatch.setattr(pwd, "getpwuid", account)
    monkeypatch.setenv("TMPDIR", "/somewhere/tmp")
    for variable, value in (("XDG_CACHE_HOME", cache_home), ("HOME", home)):
        monkeypatch.delenv(variable, raising=False)
        if value is not None:
            monkeypatch.setenv(variable, value)
    assert DiskPipelineCache.default_root() == root


def test_a_user_without_home_and_account_gets_a_cache_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("VYRE_CACHE_DIR", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(variable)
    monkeypatch.setattr(pwd, "getpwuid", {}.__getitem__)
    assert DiskPipelineCache.from_settings().root is None


@pytest.mark.parametrize(
    ("directory", "disabled", "root"),
    [
        ("/chosen", None, "/chosen"),
        ("", None, "/somewhere/cache/vyre/pipelines"),
        *(("/chosen", word, "/chosen") for word in ("0", "")),
        *(("/chosen", word, None) for word in ("1", "on")),
        ("relative", "1", None),
    ],
)
def test_settings_choose_the_root_or_keep_the_cache_off_the_disk(
    monkeypatch: pytest.MonkeyPatch, directory: str, disabled: str | None, root: str | None
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere/cache")
    monkeypatch.setenv("VYRE_CACHE_DIR", directory)
    if disabled is not None:
        monkeypatch.setenv("VYRE_CACHE_DISABLE", disabled)
    assert DiskPipelineCache.from_settings().root == (None if root is None else Path(root))


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("VYRE_CACHE_DIR", "pipelines", "a relative path. Fix: set VYRE_CACHE_DIR to an absolute path."),
        (
            "VYRE_CACHE_DISABLE",
            "maybe",
            "which is neither on nor off. Fix: set VYRE_CACHE_DISABLE to 1 or 0, or unset it.",
        ),
    ],
)
def test_what_a_setting_does_not_allow_is_refused(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, message: str
) -> None:
    monkeypatch.setenv(variable, value)
    assert refusal(DiskPipelineCache.from_settings) == (InvalidSetting, 2401, f"{variable} is {value!r}, {message}")


def test_an_entry_in_memory_has_the_bytes_it_would_have_on_disk() -> None:
    assert ENTRY.byte_len == len(encode_entry(KEY.digest, ENTRY))


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
