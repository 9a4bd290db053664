"""Keep a root within its limits: evict by age, then by size, least recently used first.

No lock: any number of processes may prune, get and put at once. A process that finds a file gone takes it off what is left; one
that reads a file that is removed under it keeps reading it. A time in the future (the clock was set back) counts as use just
now.
"""

from __future__ import annotations

import os
import stat
import time
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from vyre_driver.cache.walk import BLOCK_BYTES, FILE_NAME, TEMPORARY_NAME, listing, quarantine_of, trusted_shards
from vyre_driver.process._opened import Opened

if TYPE_CHECKING:
    from vyre_driver.cache.directory import EntryDirectory
    from vyre_driver.cache.root import CacheRoot
    from vyre_driver.cache.tally import Tally

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
