"""List what lies below a root by file names and headers, without verifying it."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vyre_driver.cache.entry import HEADER_BYTES, EntryHeader, read_header
from vyre_driver.cache.files import OPEN_TO_READ, QUARANTINE
from vyre_driver.identity.manifest import FieldValue, decode_manifest
from vyre_driver.process._opened import Opened

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from vyre_driver.cache.root import CacheRoot

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
