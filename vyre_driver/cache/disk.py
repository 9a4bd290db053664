"""The pipeline cache on disk: one verified file an entry, published by rename, no locks.

It may be slow or empty, never wrong and never fatal. Bytes that raise any doubt are a verdict and a miss, are counted, and are
moved aside. An OSError on ``get`` or ``put`` is forgiven in one place, ``_forgive``, and counted there.

A root is trusted only when it is a directory of ours (or root's) that nobody else may write to; otherwise, and without a
usable home, entries live in memory only.
"""

from __future__ import annotations

import os
import secrets
import stat
import threading
from collections import Counter, OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs

from vyre_driver import _fast, settings
from vyre_driver.cache.entry import MAX_ENTRY_BYTES, PipelineEntry, Verdict, decode_entry, encode_entry

if TYPE_CHECKING:
    from vyre_driver.identity import PipelineCacheKey

_MEMORY_BYTES = 64 * 1024 * 1024
_QUARANTINE = "quarantine"
_CACHEDIR_TAG = (
    "Signature: 8a477f597d28d172789f06886806bc55\n# Compiled GPU pipelines of vyre_driver. Safe to delete at any time.\n"
)
# Doubts about bytes that are ours to move; an outdated entry is simply overwritten.
_QUARANTINED = frozenset({Verdict.TRUNCATED, Verdict.EXTENDED, Verdict.CORRUPT, Verdict.FOREIGN_KEY, Verdict.TOO_LARGE})


@dataclass(frozen=True, slots=True)
class CacheLookup:
    """What ``get`` found: the verdict, the entry on a hit, and the reason in words."""

    verdict: Verdict
    entry: PipelineEntry | None
    reason: str


class DiskPipelineCache:
    """Entries by key, below ``root``; with ``root`` None in memory only.

    ``get`` and ``put`` never raise for what happens on the disk. May be used from several threads and processes at once.
    """

    def __init__(self, root: str | os.PathLike[str] | None) -> None:
        """Remember the root; nothing is read or made before the first ``get`` or ``put``."""
        self._root = None if root is None else Path(root)
        self._refused = ""
        self._memory: OrderedDict[bytes, PipelineEntry] = OrderedDict()
        self._memory_bytes = 0
        self._counts: Counter[str] = Counter()
        self._last_error: str | None = None
        self._lock = threading.Lock()

    @classmethod
    def from_settings(cls) -> DiskPipelineCache:
        """Open the cache that VYRE_CACHE_DISABLE and VYRE_CACHE_DIR ask for, by default ``default_root()``.

        Raises
        ------
        InvalidSetting
            2401 if one of them cannot be meant.
        """
        if settings.switch(settings.CACHE_DISABLE):
            return cls(None)
        return cls(settings.absolute_directory(settings.CACHE_DIR) or cls.default_root())

    @staticmethod
    def default_root() -> Path | None:
        """``$XDG_CACHE_HOME/vyre/pipelines``, else ``~/.cache/vyre/pipelines``; None without a usable home.

        A relative or empty XDG_CACHE_HOME is ignored, and the working directory is never used.
        """
        try:
            base = Path(platformdirs.user_cache_dir("vyre", appauthor=False))
        except RuntimeError:  # platformdirs found no home
            base = Path()
        if not base.is_absolute():
            base = Path(os.path.expanduser("~/.cache/vyre"))  # noqa: PTH111 -- Path.expanduser raises without a home
        return base / "pipelines" if base.is_absolute() else None

    @property
    def root(self) -> Path | None:
        """The directory, or None in memory."""
        return self._root

    def path_for(self, key: PipelineCacheKey) -> Path | None:
        """Return the file of a key, ``root/ab/abcd....bin``; None in memory."""
        return None if self._root is None else self._root / _fast.shard_path(key.digest)

    def get(self, key: PipelineCacheKey) -> CacheLookup:
        """Return the verified entry of a key, or why there is none."""
        path = self._usable_path(key, create=False)
        lookup = self._get_from_memory(key) if path is None else self._get_from_disk(key, path)
        self._count(lookup.verdict.name.lower())
        return lookup

    def put(self, key: PipelineCacheKey, entry: PipelineEntry) -> bool:
        """Publish an entry under its key; returns whether it is stored. Readers see the whole entry or none."""
        if entry.byte_len > MAX_ENTRY_BYTES:
            self._forgive("put", OSError(f"the entry has {entry.byte_len} bytes, over the limit of {MAX_ENTRY_BYTES} bytes"))
            return False
        path = self._usable_path(key, create=True)
        if path is None:
            self._put_in_memory(key, entry)
        else:
            try:
                _publish(path, encode_entry(key.digest, entry))
            except OSError as error:
                self._forgive("put", error)
                return False
        self._count("put")
        return True

    def stats(self) -> dict[str, object]:
        """Return the root, why it is not used (None when it is), the counts by verdict, and the last forgiven error."""
        with self._lock:
            return {
                "root": None if self._root is None else str(self._root),
                "refused": self._refused or None,
                "counts": dict(sorted(self._counts.items())),
                "last_error": self._last_error,
            }

    def _usable_path(self, key: PipelineCacheKey, *, create: bool) -> Path | None:
        """The key's file when the root may be used: judged each time, because it may be replaced; made on a put."""
        if self._root is None:
            return None
        try:
            self._refused = _distrust(self._root)
        except FileNotFoundError:
            self._refused = self._make_root(self._root) if create else ""
        except OSError as error:
            self._refused = self._forgive("root", error)
        return None if self._refused else self.path_for(key)

    def _make_root(self, root: Path) -> str:
        """Make the root; returns why it may not be used, empty when it may. A missing tag is no reason."""
        try:
            root.mkdir(mode=0o700, parents=True, exist_ok=True)
            refused = _distrust(root)
        except OSError as error:
            return self._forgive("root", error)
        if not refused:
            try:
                _write_tag(root / "CACHEDIR.TAG")
            except OSError as error:
                self._forgive("tag", error)
        return refused

    def _get_from_memory(self, key: PipelineCacheKey) -> CacheLookup:
        with self._lock:
            entry = self._memory.get(key.digest)
            if entry is not None:
                self._memory.move_to_end(key.digest)
        if entry is not None:
            return CacheLookup(Verdict.HIT, entry, "entry in memory")
        where = "memory only" if self._root is None else f"memory only: {self._root} is not used, {self._refused}"
        return CacheLookup(Verdict.MISS, None, f"{Verdict.MISS.value} ({where})")

    def _get_from_disk(self, key: PipelineCacheKey, path: Path) -> CacheLookup:
        try:
            verdict, data = _read(path)
        except FileNotFoundError:
            return CacheLookup(Verdict.MISS, None, Verdict.MISS.value)
        except OSError as error:
            self._forgive("get", error)
            return CacheLookup(Verdict.IO_ERROR, None, f"{Verdict.IO_ERROR.value} ({error.strerror})")
        entry = None
        if verdict is Verdict.HIT:
            verdict, entry = decode_entry(key.digest, data)
        if verdict is Verdict.HIT:
            return CacheLookup(verdict, entry, f"verified entry of {len(data)} bytes")
        if verdict in _QUARANTINED:
            self._quarantine(path)
        return CacheLookup(verdict, None, verdict.value)

    def _quarantine(self, path: Path) -> None:
        try:
            aside = path.parent.parent / _QUARANTINE
            aside.mkdir(mode=0o700, exist_ok=True)
            path.replace(aside / path.name)
        except OSError as error:
            self._forgive("quarantine", error)
        else:
            self._count("quarantined")

    def _put_in_memory(self, key: PipelineCacheKey, entry: PipelineEntry) -> None:
        with self._lock:
            replaced = self._memory.pop(key.digest, None)
            self._memory[key.digest] = entry
            self._memory_bytes += entry.byte_len - (replaced.byte_len if replaced else 0)
            while self._memory_bytes > _MEMORY_BYTES:
                _, dropped = self._memory.popitem(last=False)
                self._memory_bytes -= dropped.byte_len

    def _count(self, what: str) -> None:
        with self._lock:
            self._counts[what] += 1

    def _forgive(self, what: str, error: OSError) -> str:
        """Count an error and let the work go on; returns it in words. The only place where a cache failure is swallowed."""
        with self._lock:
            self._counts[f"{what}_failed"] += 1
            self._last_error = f"{what}: {error}"
        return error.strerror or str(error)


def _write_tag(path: Path) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(_CACHEDIR_TAG)


def _distrust(root: Path) -> str:
    """Say why a root may not be used; empty when it may."""
    found = os.lstat(root)
    if not stat.S_ISDIR(found.st_mode):
        return "it is not a directory"
    if found.st_uid not in {os.geteuid(), 0}:
        return f"it belongs to user {found.st_uid}"
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"others may write to it (mode {stat.S_IMODE(found.st_mode):o})"
    return ""


def _read(path: Path) -> tuple[Verdict, bytes]:
    """Read a regular file of ours, within the bound; HIT here means only that its bytes may be looked at."""
    # O_NONBLOCK: a FIFO in the entry's place must not hang the reader.
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_uid not in {os.geteuid(), 0}:
            return Verdict.UNTRUSTED, b""
        if found.st_size > MAX_ENTRY_BYTES:
            return Verdict.TOO_LARGE, b""
        return Verdict.HIT, _read_all(descriptor, found.st_size)
    finally:
        os.close(descriptor)


def _read_all(descriptor: int, size: int) -> bytes:
    """Read one byte more than the file had: a file that grew meanwhile must not pass for whole."""
    parts = []
    left = size + 1
    while left > 0:
        part = os.read(descriptor, left)
        if not part:
            break
        parts.append(part)
        left -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _publish(path: Path, data: bytes) -> None:
    """Write the bytes under an unpredictable name beside ``path``, then rename: a reader never sees a part."""
    path.parent.mkdir(mode=0o700, exist_ok=True)  # a root that has just gone is made, and judged, by the next put
    temporary = path.parent / f".{secrets.token_hex(16)}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(temporary, flags, 0o600)
    try:
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(descriptor, view) :]
        finally:
            os.close(descriptor)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
