"""Check every file below a cache root, and repair what can be repaired on request."""

from __future__ import annotations

import os
import stat
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vyre_driver.cache.entry import MAX_ENTRY_BYTES, DeviceIds, Verdict, claims_to_be_entry, decode_entry, read_header
from vyre_driver.cache.evict import PRUNED_NAME, TEMPORARY_MAX_AGE_S
from vyre_driver.cache.files import OPEN_TO_READ, read_bounded, set_aside
from vyre_driver.cache.kernel_names import remove_names
from vyre_driver.cache.walk import FILE_NAME, SHARD_NAME, TEMPORARY_NAME, listing, quarantine_of, stored_entries, trusted_shards
from vyre_driver.process._opened import Opened

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from vyre_driver.cache.directory import EntryDirectory
    from vyre_driver.cache.root import CacheRoot


@dataclass(frozen=True, slots=True)
class CacheProblem:
    """Something below a root that should not be there as it is.

    ``kind`` is a verdict's name in lower case, or ``root``, ``directory``, ``temporary``, ``name``; ``fixed`` says that it was
    moved to the quarantine or removed.
    """

    path: str
    kind: str
    text: str
    fixed: bool = False


def check_directory(directory: EntryDirectory, *, fix: bool, progress: Callable[[int], object]) -> list[CacheProblem]:
    """Return the problems below a root, sorted by path; every entry is read and verified.

    With ``fix``, damaged entries and those of others are quarantined; outdated ones, links, fifos, empty directories and
    temporary files older than an hour are removed. Names that are none of the cache's are reported and left alone.
    """
    if not directory.is_usable():
        return [CacheProblem(directory.root.path, "root", directory.refused)]
    found = _problems(directory.root, fix=fix and not directory.read_only, hmac_key=directory.hmac_key, progress=progress)
    return sorted(found, key=lambda problem: problem.path)


def _problems(
    root: CacheRoot, *, fix: bool, hmac_key: bytes | None, progress: Callable[[int], object]
) -> Iterator[CacheProblem]:
    done = 0
    for shard, facts in listing(root.path):
        if not SHARD_NAME.fullmatch(shard.name):
            continue
        if not root.trusts_directory(facts):
            fixed = fix and _remove_stray(shard.path, facts)
            yield CacheProblem(shard.path, "directory", "it is not a directory of ours alone, and is not used", fixed)
            continue
        for entry, found in listing(shard.path):
            done += 1
            progress(done)
            problem = _check_name(root, shard.name, entry, found, fix=fix, hmac_key=hmac_key)
            if problem is not None:
                yield problem


def _check_name(  # noqa: PLR0913 -- where it is, what it is, and what to do
    root: CacheRoot, shard: str, entry: os.DirEntry[str], found: os.stat_result, *, fix: bool, hmac_key: bytes | None
) -> CacheProblem | None:
    if TEMPORARY_NAME.fullmatch(entry.name):
        if abs(time.time() - found.st_mtime) <= TEMPORARY_MAX_AGE_S:
            return None
        text = "a writer that did not end left it behind over an hour ago"
        return CacheProblem(entry.path, "temporary", text, fix and _remove_stray(entry.path, found))
    if not FILE_NAME.fullmatch(entry.name):
        return CacheProblem(entry.path, "name", "it is not a name of the cache's")
    verdict = _judge(root, shard, entry, found, hmac_key)
    if verdict is None or verdict is Verdict.HIT:
        return None
    return CacheProblem(entry.path, verdict.name.lower(), verdict.value, fix and _fix(root, shard, entry, found, verdict))


def _judge(
    root: CacheRoot, shard: str, entry: os.DirEntry[str], found: os.stat_result, hmac_key: bytes | None
) -> Verdict | None:
    """Return the verdict on a file, or None for a raw blob and for what is gone."""
    if not root.trusts_file(found):
        return Verdict.UNTRUSTED
    if found.st_size > MAX_ENTRY_BYTES:
        return Verdict.TOO_LARGE
    try:
        data = _read(entry.path, found.st_size)
    except FileNotFoundError:
        return None
    except OSError:
        return Verdict.IO_ERROR
    if not claims_to_be_entry(data[:16]):
        return None
    if entry.name[:2] != shard:
        return Verdict.FOREIGN_KEY
    verdict, stored = decode_entry(bytes.fromhex(entry.name[:64]), data, hmac_key=hmac_key)
    header = read_header(data)
    if stored is not None and header is not None and header.ids != DeviceIds.of_manifest(stored.manifest):
        return Verdict.FOREIGN_DEVICE
    return verdict


def _read(path: str, size: int) -> bytes:
    with Opened(path, OPEN_TO_READ) as descriptor:
        return read_bounded(descriptor, size)


def _fix(root: CacheRoot, shard: str, entry: os.DirEntry[str], found: os.stat_result, verdict: Verdict) -> bool:
    if verdict is Verdict.IO_ERROR:
        return False
    if verdict is Verdict.OUTDATED or not stat.S_ISREG(found.st_mode):
        return _remove_stray(entry.path, found)
    return set_aside(root, shard, entry.name, (found.st_ino, found.st_size, found.st_mtime_ns))


def _remove_stray(path: str, found: os.stat_result) -> bool:
    """Remove a file, a link (not what it leads to) or an empty directory; returns whether it is gone."""
    try:
        (os.rmdir if stat.S_ISDIR(found.st_mode) else os.unlink)(path)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def clear_root(root: CacheRoot) -> int:
    """Remove entries, raw blobs, temporary files and the quarantine of a root that may be used; return how many files went.

    The root itself, its tag and names that are none of the cache's stay. The names of kernels go, uncounted.
    """
    removed = 0
    quarantine = quarantine_of(root)
    for directory in [*trusted_shards(root), *([quarantine] if quarantine else [])]:
        for entry, found in listing(directory):
            if FILE_NAME.fullmatch(entry.name) or TEMPORARY_NAME.fullmatch(entry.name):
                removed += not stat.S_ISDIR(found.st_mode) and _unlink(entry.path)
        with suppress(OSError):  # what is none of ours may be in it
            os.rmdir(directory)  # noqa: PTH106 -- os.scandir's
    _unlink(f"{root.path}/{PRUNED_NAME}")
    remove_names(root)
    return removed


def clear_imported(root: CacheRoot) -> int:
    """Remove the entries of a root that may be used whose headers say that they came from elsewhere; return how many went."""
    return sum(_unlink(one.path) for one in stored_entries(root) if one.imported)


def _unlink(path: str) -> bool:
    try:
        os.unlink(path)  # noqa: PTH108
    except FileNotFoundError:
        return False
    return True
