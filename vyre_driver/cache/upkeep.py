"""What is done with a root as a whole: its files are listed, kept within the root's limits, checked, repaired and removed.

A listing goes by file names and headers and verifies nothing; a check reads and verifies every entry.

No lock: any number of processes may prune, get and put at once. A process that finds a file gone takes it off what is left; one
that reads a file that is removed under it keeps reading it. A time in the future (the clock was set back) counts as use just
now.
"""

from __future__ import annotations

import os
import re
import stat
import time
import weakref
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from vyre_driver.cache.entry import (
    HEADER_BYTES,
    MAX_ENTRY_BYTES,
    DeviceIds,
    EntryHeader,
    Verdict,
    claims_to_be_entry,
    decode_entry,
    read_header,
)
from vyre_driver.cache.files import OPEN_TO_READ, QUARANTINE, CacheRoot, read_bounded, set_aside
from vyre_driver.cache.kernel_names import remove_names
from vyre_driver.identity.manifest import FieldValue, decode_manifest
from vyre_driver.process._opened import Opened

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from vyre_driver.cache.directory import EntryDirectory, Tally

SHARD_NAME = re.compile(r"[0-9a-f]{2}")
FILE_NAME = re.compile(r"[0-9a-f]{64}\.bin")
TEMPORARY_NAME = re.compile(r"\.[0-9a-f]{32}\.tmp|[0-9a-f]{64}\.bin\.tmp\.[0-9]+\.[0-9]+")
"""Ours, and upstream's."""

BLOCK_BYTES = 512
_FIRST_READ_BYTES = 8192


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """An entry as the first bytes of its file describe it. ``used_at`` is seconds since 1970, right to the hour."""

    path: str
    key: str
    byte_len: int
    allocated_bytes: int
    used_at: float
    header: EntryHeader
    manifest: bytes
    kernel: str = ""
    """The name of the kernel that it was compiled for, as events have it, made printable; empty where none was kept."""

    @property
    def imported(self) -> bool:
        """Whether it came out of a bundle."""
        return self.header.imported

    def fields(self) -> tuple[tuple[str, FieldValue], ...]:
        """Return the manifest's fields in order, none if it is not readable."""
        try:
            return decode_manifest(self.manifest)
        except ValueError:
            return ()


@dataclass(frozen=True, slots=True)
class CacheUsage:
    """What a root holds: files of each kind, and the bytes that the file system gave them."""

    entries: int = 0
    imported: int = 0
    raw_blobs: int = 0
    temporaries: int = 0
    quarantined: int = 0
    allocated_bytes: int = 0


def listing(directory: str) -> Iterator[tuple[os.DirEntry[str], os.stat_result]]:
    """Yield what is in a directory, links not followed; nothing when it is gone, nor what goes meanwhile."""
    try:
        with os.scandir(directory) as opened:
            entries = list(opened)
    except FileNotFoundError:
        return
    for entry in entries:
        try:
            found = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            continue
        yield entry, found


def trusted_shards(root: CacheRoot) -> Iterator[str]:
    """Yield the paths of a root's sub-directories that may be used; call it after ``untrusted_reason``."""
    for entry, found in listing(root.path):
        if SHARD_NAME.fullmatch(entry.name) and root.trusts_directory(found):
            yield entry.path


def quarantine_of(root: CacheRoot) -> str | None:
    """Return the path of the root's quarantine, or None where there is none that may be used."""
    try:
        return f"{root.path}/{QUARANTINE}" if root.trusts_shard(QUARANTINE) else None
    except FileNotFoundError:
        return None


def stored_entries(root: CacheRoot, names: Mapping[str, str] | None = None) -> Iterator[StoredEntry]:
    """Yield the entries of a root, in no order; raw blobs and what has no header of this format are left out.

    ``names`` are those of kernels, by key in hex.
    """
    for shard in trusted_shards(root):
        for entry, found in listing(shard):
            is_ours = FILE_NAME.fullmatch(entry.name) is not None and root.trusts_file(found)
            stored = read_stored(entry.path, found, (names or {}).get(entry.name[:64], "")) if is_ours else None
            if stored is not None:
                yield stored


def read_stored(path: str, found: os.stat_result, kernel: str = "") -> StoredEntry | None:
    """Return the entry that a file's first bytes describe, or None when they are not those of an entry or cannot be read."""
    try:
        with Opened(path, OPEN_TO_READ) as descriptor:
            data = os.read(descriptor, _FIRST_READ_BYTES)
            header = read_header(data)
            if header is None:
                return None
            end = HEADER_BYTES + header.manifest_bytes
            if end > found.st_size:
                return None
            if end > len(data):
                data = os.pread(descriptor, end, 0)
    except OSError:
        return None
    key = os.path.basename(path)[:64]  # noqa: PTH119
    size, allocated = found.st_size, found.st_blocks * BLOCK_BYTES
    return StoredEntry(path, key, size, allocated, found.st_mtime, header, data[HEADER_BYTES:end], kernel)


def usage(root: CacheRoot) -> CacheUsage:
    """Count what a root holds; the first bytes of every file are read."""
    entries = imported = raw_blobs = temporaries = quarantined = allocated = 0
    for shard in trusted_shards(root):
        for entry, found in listing(shard):
            if not root.trusts_file(found):
                continue
            allocated += found.st_blocks * BLOCK_BYTES
            if TEMPORARY_NAME.fullmatch(entry.name):
                temporaries += 1
            elif FILE_NAME.fullmatch(entry.name):
                stored = read_stored(entry.path, found)
                entries += stored is not None
                raw_blobs += stored is None
                imported += stored is not None and stored.imported
    for _, found in listing(quarantine_of(root) or ""):
        quarantined += 1
        allocated += found.st_blocks * BLOCK_BYTES
    return CacheUsage(entries, imported, raw_blobs, temporaries, quarantined, allocated)


DEFAULT_MAX_BYTES = 1 << 30
DEFAULT_MAX_AGE_S = 90 * 86400.0
TEMPORARY_MAX_AGE_S = 3600.0
QUARANTINE_MAX_AGE_S = 7 * 86400.0
QUARANTINE_MAX_BYTES = 64 * 1024 * 1024
PRUNED_NAME = ".pruned"
PRUNE_EVERY_S = 86400.0
# A prune is due when puts have come to this part of the bound since the last one.
_PRUNE_PART = 8


@dataclass(frozen=True, slots=True)
class PruneReport:
    """What a prune did: files removed of each kind, and allocated bytes freed and kept. ``failed``: could not be removed."""

    entries: int = 0
    temporaries: int = 0
    quarantined: int = 0
    freed_bytes: int = 0
    kept: int = 0
    kept_bytes: int = 0
    failed: int = 0


class EvictionListener(Protocol):
    """What receives the entries that a cache removed."""

    def evicted(self, entries: int, freed_bytes: int) -> None:
        """Receive the number of entries removed, and the allocated bytes of all that was removed."""


class Pruner:
    """When a cache's root (None in memory) is pruned, and which listeners hear of it."""

    def __init__(self, directory: EntryDirectory | None, tally: Tally, max_bytes: int) -> None:
        """Remember them; nothing is read."""
        self.max_bytes = max_bytes
        self._directory = directory
        self._tally = tally
        self._bytes_to_prune: int | None = None
        # As in Room: each step is one atomic operation of the set, for a listener may be collected at any time.
        self._listeners: set[weakref.ref[EvictionListener]] = set()

    def tell(self, listener: EvictionListener) -> None:
        """Tell a listener of each prune that removed entries, as long as it lives."""
        self._listeners.add(weakref.ref(listener, self._listeners.discard))

    def prune(self, max_bytes: int | None = None, max_age_s: float | None = None) -> PruneReport:
        """Prune now, as ``DiskPipelineCache.prune``."""
        directory = self._directory
        if directory is None or directory.read_only or not directory.is_usable():
            return PruneReport()
        self._bytes_to_prune = self.max_bytes // _PRUNE_PART
        try:
            mark_pruned(directory.root)
        except OSError as error:
            self._tally.ignore_error("prune", error)
        try:
            bound = self.max_bytes if max_bytes is None else max_bytes
            report = prune(directory.root, self._tally, bound, DEFAULT_MAX_AGE_S if max_age_s is None else max_age_s)
        except OSError as error:
            self._tally.ignore_error("prune", error)
            return PruneReport(failed=1)
        for reference in list(self._listeners) if report.entries else ():
            listener = reference()
            if listener is not None:
                listener.evicted(report.entries, report.freed_bytes)
        return report

    def note_written(self, byte_len: int) -> None:
        """Prune after a put when enough was put, and after the first one when no process has for a day."""
        directory = self._directory
        try:
            left = self._bytes_to_prune
            if left is None:
                is_pruned = directory is None or directory.has_made_root or not is_due(directory.root)
                left = self.max_bytes // _PRUNE_PART if is_pruned else 0
            self._bytes_to_prune = left - byte_len
        except OSError as error:
            self._tally.ignore_error("prune", error)
            return
        if self._bytes_to_prune < 0:
            self.prune()


def is_due(root: CacheRoot) -> bool:
    """Whether the last prune of a root is more than a day off, either way, or none has been."""
    try:
        found = os.lstat(f"{root.path}/{PRUNED_NAME}")
    except FileNotFoundError:
        return True
    return abs(time.time() - found.st_mtime) > PRUNE_EVERY_S


def mark_pruned(root: CacheRoot) -> None:
    """Note that a prune begins, so that other processes need not."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    with Opened(f"{root.path}/{PRUNED_NAME}", flags, root.file_mode) as descriptor:
        os.utime(descriptor)


def prune(root: CacheRoot, tally: Tally, max_bytes: int, max_age_s: float) -> PruneReport:
    """Bring a root within its bounds; to be called after ``untrusted_reason``. Files that cannot be removed are counted.

    ``max_bytes`` bounds what entries, raw blobs and quarantine take of the file system together; what is older than
    ``max_age_s`` seconds of disuse goes in any case.
    """
    sweep = _Sweep(tally, time.time())
    in_quarantine = sweep.quarantine(quarantine_of(root), max_bytes)
    files: list[tuple[float, int, str]] = []
    sweep.shard(root.path)  # what a killed process left of the names of kernels
    for shard in trusted_shards(root):
        files += sweep.shard(shard)
    files.sort()
    total = in_quarantine + sum(size for _, size, _ in files)
    kept = len(files)
    for used_at, size, path in files:
        if total <= max_bytes and sweep.now - used_at <= max_age_s:
            break
        if sweep.remove(path, size, used_at):
            sweep.entries += 1
            total -= size
            kept -= 1
    return PruneReport(sweep.entries, sweep.temporaries, sweep.quarantined, sweep.freed_bytes, kept, total, sweep.failed)


class _Sweep:
    """The counters of one prune."""

    def __init__(self, tally: Tally, now: float) -> None:
        self.now = now
        self.entries = self.temporaries = self.quarantined = self.freed_bytes = self.failed = 0
        self._tally = tally

    def shard(self, path: str) -> list[tuple[float, int, str]]:
        """Sweep temporary files; return time of last use, allocated bytes and path of the others."""
        found = []
        for entry, status in listing(path):
            if not stat.S_ISREG(status.st_mode):
                continue
            size = status.st_blocks * BLOCK_BYTES
            if FILE_NAME.fullmatch(entry.name):
                found.append((status.st_mtime, size, entry.path))
            elif TEMPORARY_NAME.fullmatch(entry.name) and abs(self.now - status.st_mtime) > TEMPORARY_MAX_AGE_S:
                self.temporaries += self.remove(entry.path, size)
        return found

    def quarantine(self, path: str | None, max_bytes: int) -> int:
        """Sweep the quarantine, by the time at which files came there; return the allocated bytes that stay."""
        room = min(QUARANTINE_MAX_BYTES, max_bytes // 16)
        found = [
            (status.st_ctime, status.st_blocks * BLOCK_BYTES, entry.path)
            for entry, status in listing(path or "")
            if stat.S_ISREG(status.st_mode)
        ]
        total = sum(size for _, size, _ in found)
        for came_at, size, name in sorted(found):
            if total <= room and self.now - came_at <= QUARANTINE_MAX_AGE_S:
                break
            if self.remove(name, size):
                self.quarantined += 1
                total -= size
        return total

    def remove(self, path: str, size: int, used_at: float | None = None) -> bool:
        """Remove a file unless it was used after ``used_at``; returns whether it is gone, whichever process removed it."""
        try:
            if used_at is not None and os.lstat(path).st_mtime > used_at:
                return False
            os.unlink(path)  # noqa: PTH108
        except FileNotFoundError:
            return True
        except OSError as error:
            self._tally.ignore_error("prune", error)
            self.failed += 1
            return False
        self.freed_bytes += size
        return True


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
