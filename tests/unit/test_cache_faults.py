"""A disk that fails: never fatal, never wrong, always counted, and nothing half-made left behind."""

from __future__ import annotations

import errno
import os
import resource
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from literals import key

from vyre_driver.cache import CacheLookup, DiskPipelineCache, PipelineEntry, Verdict, _read
from vyre_driver.cache.entry import encode_entry

if TYPE_CHECKING:
    from collections.abc import Iterator

KEY = key(0xAB)
OLD = PipelineEntry(b"manifest", b"old words")
NEW = PipelineEntry(b"manifest", b"new words")
NAMES = [".pruned", "ab", "ab/" + "ab" * 32 + ".bin"]

CODES = [errno.ENOSPC, errno.EACCES, errno.EROFS, errno.EMFILE, errno.EIO, errno.EDQUOT, errno.EINTR, errno.ESTALE]
each_code = pytest.mark.parametrize("code", CODES, ids=lambda code: errno.errorcode[code])


def failing(code: int) -> object:
    def fail(*_arguments: object, **_options: object) -> None:
        raise OSError(code, os.strerror(code))

    return fail


@pytest.fixture
def cache(tmp_path: Path) -> DiskPipelineCache:
    """A cache that has been used, on a root that holds the old entry."""
    (tmp_path / "root").mkdir(mode=0o700)
    made = DiskPipelineCache(tmp_path / "root")
    made.put(KEY, OLD)
    return made


@pytest.fixture
def _nothing_left(tmp_path: Path) -> Iterator[None]:
    """After the test there is one entry below the root, and nothing else."""
    yield
    assert sorted(str(path.relative_to(tmp_path / "root")) for path in (tmp_path / "root").rglob("*")) == NAMES


def put_under_fault(cache: DiskPipelineCache, owner: object, function: str, fault: object) -> bool:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, function, fault)
        return cache.put(KEY, NEW)


def unseen(code: int, patch: pytest.MonkeyPatch) -> None:
    """Let nothing be told of the root."""
    patch.setattr(_read, "read_entry", lambda *_: (0, code, None, 0, None, None, None))
    patch.setattr(os, "lstat", failing(code))


def open_files() -> list[Path]:
    return sorted(Path("/proc/self/fd").iterdir())


def last_error(what: str, code: int) -> str:
    return f"{what}: [Errno {code}] {os.strerror(code)}"


def counts(cache: DiskPipelineCache) -> object:
    return cache.stats()["counts"]


@each_code
@pytest.mark.usefixtures("_nothing_left")
@pytest.mark.parametrize("function", ["open", "write", "replace"])
def test_a_put_that_fails_is_dropped_and_leaves_the_old_entry_alone_until_the_disk_works_again(
    cache: DiskPipelineCache, function: str, code: int
) -> None:
    before = open_files()
    assert put_under_fault(cache, os, function, failing(code)) is False
    assert (cache.stats()["last_error"], cache.get(KEY).entry) == (last_error("put", code), OLD)
    assert (counts(cache), open_files()) == ({"hit": 1, "put": 1, "put_failed": 1}, before)
    assert (cache.put(KEY, NEW), cache.get(KEY).entry) == (True, NEW)


@pytest.mark.parametrize("function", ["write", "close", "replace"])
@pytest.mark.usefixtures("_nothing_left")
def test_an_interrupt_of_a_put_is_raised_and_leaves_nothing(cache: DiskPipelineCache, function: str) -> None:
    """Also one that comes when the file has just got its name, and there is no temporary file to remove any more."""
    real, before = getattr(os, function), len(open_files())

    def interrupted(*given: object, **named: object) -> None:
        real(*given, **named)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        put_under_fault(cache, os, function, interrupted)
    assert (len(open_files()), cache.get(KEY).entry) == (before, NEW if function == "replace" else OLD)


@each_code
@pytest.mark.usefixtures("_nothing_left")
def test_a_put_that_fails_on_closing_is_dropped(cache: DiskPipelineCache, code: int) -> None:
    close = os.close

    def close_and_fail(descriptor: int) -> None:
        close(descriptor)
        raise OSError(code, os.strerror(code))

    assert put_under_fault(cache, os, "close", close_and_fail) is False
    assert (cache.stats()["last_error"], cache.get(KEY).entry) == (last_error("put", code), OLD)


@each_code
@pytest.mark.usefixtures("_nothing_left")
def test_a_put_that_fails_after_some_bytes_is_dropped(cache: DiskPipelineCache, code: int) -> None:
    write = os.write
    written: list[int] = []

    def write_some_and_fail(descriptor: int, data: bytes) -> int:
        if written:
            raise OSError(code, os.strerror(code))
        written.append(write(descriptor, data[:10]))
        return written[0]

    assert put_under_fault(cache, os, "write", write_some_and_fail) is False
    assert (written, cache.get(KEY).entry) == ([10], OLD)


@pytest.mark.usefixtures("_nothing_left")
@pytest.mark.parametrize("interruption", [KeyboardInterrupt, SystemExit, MemoryError])
def test_a_put_that_is_interrupted_passes_it_on_and_leaves_nothing(
    cache: DiskPipelineCache, interruption: type[BaseException]
) -> None:
    def interrupt(*_: object) -> int:
        raise interruption

    with pytest.raises(interruption):
        put_under_fault(cache, os, "write", interrupt)
    assert cache.get(KEY).entry == OLD


def test_a_temporary_file_that_cannot_be_removed_is_forgiven_too(cache: DiskPipelineCache) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "unlink", failing(errno.EROFS))
        assert put_under_fault(cache, os, "write", failing(errno.EIO)) is False
    assert (cache.get(KEY).entry, counts(cache)) == (OLD, {"hit": 1, "put": 1, "put_failed": 1})


@each_code
@pytest.mark.usefixtures("_nothing_left")
def test_a_get_that_fails_is_a_miss_with_its_reason(cache: DiskPipelineCache, code: int) -> None:
    real = _read.read_entry
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_read, "read_entry", lambda *given: (2, code, *real(*given)[2:5], None, None))
        found = cache.get(KEY)
    assert found == CacheLookup(Verdict.IO_ERROR, None, f"the entry could not be read ({os.strerror(code)})")
    assert cache.stats()["last_error"] == last_error("get", code)
    assert (counts(cache), cache.get(KEY).entry) == ({"get_failed": 1, "io_error": 1, "put": 1}, OLD)


@pytest.mark.usefixtures("_nothing_left")
def test_a_process_that_may_open_no_more_files_misses_and_drops_what_it_puts(cache: DiskPipelineCache) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        found = [cache.get(KEY), cache.put(KEY, NEW)]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert found == [CacheLookup(Verdict.IO_ERROR, None, "the entry could not be read (Too many open files)"), False]
    assert (counts(cache), cache.get(KEY).entry) == ({"get_failed": 1, "io_error": 1, "put": 1, "put_failed": 1}, OLD)


def test_a_get_leaves_no_file_open(cache: DiskPipelineCache, tmp_path: Path) -> None:
    before = open_files()
    for damaged in (b"", b"damaged", encode_entry(KEY.digest, OLD)):
        (tmp_path / "root" / NAMES[2]).write_bytes(damaged)
        for _ in range(5):
            cache.get(KEY)
    assert open_files() == before


@each_code
def test_a_quarantine_that_fails_is_counted_and_the_doubtful_entry_stays_a_miss(
    cache: DiskPipelineCache, tmp_path: Path, code: int
) -> None:
    path = tmp_path / "root" / NAMES[2]
    path.write_bytes(b"damaged")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "replace", failing(code))
        assert cache.get(KEY).verdict is Verdict.TRUNCATED
    assert (cache.stats()["last_error"], path.read_bytes()) == (last_error("quarantine", code), b"damaged")
    assert counts(cache) == {"put": 1, "quarantine_failed": 1, "truncated": 1}


@each_code
def test_a_root_that_cannot_be_made_is_memory_only_and_said_until_it_can_be(tmp_path: Path, code: int) -> None:
    cache = DiskPipelineCache(tmp_path / "root")
    assert put_under_fault(cache, os, "mkdir", failing(code)) is True
    stats = cache.stats()
    assert (stats["refused"], stats["last_error"]) == (os.strerror(code), last_error("root", code))
    assert (counts(cache), (tmp_path / "root").exists()) == ({"put": 1, "root_failed": 1}, False)
    assert (cache.put(KEY, NEW), DiskPipelineCache(tmp_path / "root").get(KEY).entry) == (True, NEW)


@each_code
def test_a_root_that_cannot_be_judged_is_memory_only_and_said_until_it_can_be(
    cache: DiskPipelineCache, tmp_path: Path, code: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        unseen(code, patch)
        found = cache.get(KEY)
    reason = f"no entry (memory only: {tmp_path / 'root'} is not used, {os.strerror(code)})"
    assert (found, cache.stats()["refused"]) == (CacheLookup(Verdict.MISS, None, reason), os.strerror(code))
    assert (cache.get(KEY).entry, cache.stats()["refused"]) == (OLD, None)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EMFILE, errno.EIO])
def test_a_root_whose_tag_cannot_be_written_is_used_all_the_same(tmp_path: Path, code: int) -> None:
    cache = DiskPipelineCache(tmp_path / "root")
    assert put_under_fault(cache, os, "open", failing(code)) is False
    assert counts(cache) == {"put_failed": 1, "tag_failed": 1}
    assert (cache.put(KEY, NEW), cache.stats()["refused"], DiskPipelineCache(tmp_path / "root").get(KEY).entry) == (
        True,
        None,
        NEW,
    )
