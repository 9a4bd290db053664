"""The pipeline cache: one verified file an entry, published by rename, no locks.

It may be slow or empty, but never wrong and never fatal. An entry that fails any check is a miss with a verdict; it is counted
and moved aside. An OSError on ``get`` or ``put`` is ignored in one place (directory.py), and counted there.

Where the root may not be used (root.py), and without a usable home, entries live in memory only.
"""

from __future__ import annotations

import errno
import os
import threading
from collections import ChainMap, OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vyre_driver import _fast, settings
from vyre_driver.cache import upkeep
from vyre_driver.cache.directory import CacheLookup, EntryDirectory, Tally, described, require_changeable
from vyre_driver.cache.entry import PipelineEntry, Verdict, encode_entry, unfit_reason
from vyre_driver.cache.explain import Explanation, explain_lookup
from vyre_driver.cache.files import CacheRoot
from vyre_driver.cache.seal import read_hmac_key
from vyre_driver.cache.upkeep import CacheProblem, EvictionListener, check_directory, clear_imported, clear_root
from vyre_driver.cache.upstream import blob_place, read_blob, remove_blobs, write_blob
from vyre_driver.process._opened import Opened

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from vyre_driver.identity.keys import PipelineCacheKey
    from vyre_driver.upstream.keys import PipelineDeviceFingerprint

MAX_MEMORY_BYTES = 64 * 1024 * 1024


class MemoryEntries:
    """Entries by key digest, at most 64 MiB of them; the least recently used give way. May be used from several threads."""

    def __init__(self) -> None:
        """Start empty."""
        self._entries: OrderedDict[bytes, PipelineEntry] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """Count the entries."""
        return len(self._entries)

    def get(self, digest: bytes) -> PipelineEntry | None:
        """Return the entry, which counts as used now."""
        with self._lock:
            entry = self._entries.get(digest)
            if entry is not None:
                self._entries.move_to_end(digest)
        return entry

    def put(self, digest: bytes, entry: PipelineEntry, *, only_new: bool = False) -> None:
        """Keep an entry, in place of an earlier one; with ``only_new`` the earlier one stays."""
        with self._lock:
            if only_new and digest in self._entries:
                return
            self._change(digest, entry)
            while self._bytes > MAX_MEMORY_BYTES:
                self._change(next(iter(self._entries)), None)

    def drop(self, digest: bytes) -> None:
        """Drop an entry, if it is there."""
        with self._lock:
            self._change(digest, None)

    def clear(self, *, imported: bool = False) -> None:
        """Drop everything, or what was imported."""
        with self._lock:
            for digest, entry in list(self._entries.items()):
                if entry.imported or not imported:
                    self._change(digest, None)

    def _change(self, digest: bytes, entry: PipelineEntry | None) -> None:
        """Keep this entry instead, or none; an interrupt leaves counted what is kept."""
        try:
            dropped = self._entries.pop(digest, None)
            self._bytes -= dropped.byte_len if dropped else 0
            if entry is not None:
                self._entries[digest] = entry
                self._bytes += entry.byte_len
        except BaseException:
            self._bytes = sum(one.byte_len for one in self._entries.values())
            raise


MAX_FLUSH_THREADS = 16


class PendingFlush:
    """Files and directories that were written since the last flush. May be used from several threads."""

    def __init__(self) -> None:
        """Start with nothing pending."""
        self._files: set[str] = set()
        self._directories: set[str] = set()
        self._lock = threading.Lock()

    def add(self, path: str) -> None:
        """Note a file that was written, its directory and the one above, in which that one may be new."""
        directory = os.path.dirname(path)  # noqa: PTH120 -- on the way of a put
        with self._lock:
            self._files.add(path)
            self._directories.add(directory)
            self._directories.add(os.path.dirname(directory))  # noqa: PTH120

    def flush(self) -> None:
        """Wait until everything pending is on the disk; files that are gone by then are ignored.

        The first failure is raised when all the others were tried; what failed stays pending, and nothing else.
        """
        files: set[str] = set()
        directories: set[str] = set()
        none_left: tuple[set[str], set[str]] = set(), set()
        try:
            with self._lock:
                files, directories = self._files, self._directories
                self._files, self._directories = none_left
            failed_files = _sync_all(files, os.fdatasync)
            failed_directories = _sync_all(directories, _sync_directory)
            self._keep(failed_files, {*failed_directories, *(os.path.dirname(path) for path in failed_files)})  # noqa: PTH120
        except BaseException:  # an interrupt: which of them are on the disk is not known
            self._keep(files, directories)
            raise
        for error in (*failed_files.values(), *failed_directories.values()):
            raise error

    def _keep(self, files: Iterable[str], directories: Iterable[str]) -> None:
        with self._lock:
            self._files.update(files)
            self._directories.update(directories)


def _sync_all(paths: Iterable[str], sync: Callable[[int], None]) -> dict[str, OSError]:
    """Sync every path on a bounded number of threads; returns the errors by path."""
    ordered = sorted(paths)
    workers = min(os.cpu_count() or 1, MAX_FLUSH_THREADS, len(ordered))
    if workers <= 1:
        errors = [_sync(path, sync) for path in ordered]
    else:
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(workers, "vyre-flush") as pool:
            errors = list(pool.map(lambda path: _sync(path, sync), ordered))
    return {path: error for path, error in zip(ordered, errors, strict=True) if error is not None}


def _sync(path: str, sync: Callable[[int], None]) -> OSError | None:
    try:
        with Opened(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK) as descriptor:
            sync(descriptor)
    except FileNotFoundError:
        return None
    except OSError as error:
        return error
    return None


def _sync_directory(descriptor: int) -> None:
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in {errno.EINVAL, errno.ENOTSUP}:  # some file systems cannot, and need not
            raise


class DiskPipelineCache:
    """Entries by key, below ``root``; with ``root`` None in memory only.

    ``get`` and ``put`` never raise for what happens on the disk. May be used from several threads and processes at once.
    """

    def __init__(  # noqa: PLR0913 -- all but the root by keyword
        self,
        root: str | os.PathLike[str] | None,
        *,
        readonly: bool = False,
        shared: bool = False,
        max_bytes: int = upkeep.DEFAULT_MAX_BYTES,
        base: str | os.PathLike[str] | None = None,
        hmac_key: bytes | None = None,
    ) -> None:
        """Remember the root; nothing is read or made before the first ``get`` or ``put``.

        Parameters
        ----------
        root
            The directory; None keeps entries in memory.
        readonly
            Nothing below the root is changed; new entries stay in memory.
        shared
            The directory is a group's: made with group rights, and every member of the group is trusted like ourselves.
        max_bytes
            What ``prune`` leaves of the file system to the root.
        base
            Another root below this one, never changed: what is not here is looked for there. For a container's image.
        hmac_key
            The key that entries are sealed with, and without whose seal none is taken, from the base either; see ``seal.py``.
        """
        self._root = None if root is None else Path(os.path.abspath(root))  # noqa: PTH100 -- links stay as they are named
        self._root_text = str(self._root)
        self._tally = Tally()
        self._directory = self._base = None
        if self._root is not None:
            place = CacheRoot(self._root_text, shared=shared)
            self._directory = EntryDirectory(place, self._tally, read_only=readonly, hmac_key=hmac_key)
        if base is not None:
            below = CacheRoot(os.path.abspath(base))  # noqa: PTH100 -- as above
            self._base = EntryDirectory(below, self._tally, read_only=True, hmac_key=hmac_key)
        self._layers = tuple(one for one in (self._directory, self._base) if one is not None)
        self._memory = MemoryEntries()
        self._pruner = upkeep.Pruner(self._directory, self._tally, max_bytes)
        self.readonly = readonly
        self._pending = PendingFlush()
        self.hmac_key = hmac_key

    def __repr__(self) -> str:
        """Return its place and its state as one line."""
        return described(self._directory, self._base, len(self._memory))

    @classmethod
    def from_settings(cls, root: str | os.PathLike[str] | None = None) -> DiskPipelineCache:
        """Open the cache that the VYRE_CACHE_ variables ask for, by default in ``default_root()``.

        A ``root`` that is given takes the place of VYRE_CACHE_DIR.

        Raises
        ------
        InvalidSetting
            If one of them is not valid.
        """
        readonly = settings.switch(settings.CACHE_READONLY)
        max_bytes = settings.byte_size(settings.CACHE_MAX_SIZE) or upkeep.DEFAULT_MAX_BYTES
        if settings.switch(settings.CACHE_DISABLE):
            return cls(None)
        place = root or settings.absolute_path(settings.CACHE_DIR) or cls.default_root()
        base = settings.absolute_path(settings.CACHE_BASE)
        key_file = settings.absolute_path(settings.CACHE_HMAC_KEY_FILE)
        key = None if key_file is None else read_hmac_key(key_file, None if place is None else Path(place))
        return cls(place, readonly=readonly, max_bytes=max_bytes, base=base, hmac_key=key)

    @staticmethod
    def default_root() -> Path | None:
        """``pipelines`` below ``settings.user_directory``; None without a usable home."""
        below = settings.user_directory("cache")
        return None if below is None else below / "pipelines"

    def arguments(self) -> dict[str, Any]:
        """Return the arguments that open the same cache in another process; the key is among them."""
        return {
            "root": self._root,
            "readonly": self.readonly,
            "shared": self._directory is not None and self._directory.root.shared,
            "max_bytes": self._pruner.max_bytes,
            "base": self._base and self._base.root.path,
            "hmac_key": self.hmac_key,
        }

    @property
    def root(self) -> Path | None:
        """The directory, or None in memory."""
        return self._root

    def entry_path(self, key: PipelineCacheKey) -> Path | None:
        """Return the file of a key's entry, ``root/ab/abcd....bin``; None in memory."""
        return None if self._root is None else self._root / _fast.shard_path(key.digest)

    def get(self, key: PipelineCacheKey) -> CacheLookup:
        """Return the verified entry of a key, or why there is none."""
        lookup = self.get_uncounted(key)
        self._tally.count(lookup.verdict.counted)
        return lookup

    def get_uncounted(self, key: PipelineCacheKey) -> CacheLookup:
        """Return what ``get`` returns, uncounted: for a caller that missed, to see whether another has stored it since."""
        return self._look_up(key.digest, self._layers)

    def put(self, key: PipelineCacheKey, entry: PipelineEntry, *, only_new: bool = False, kernel: str = "") -> bool:
        """Publish an entry under its key; returns whether it is stored. Readers see the whole entry or none.

        With ``only_new`` an existing entry stays: a process that compiled less must not replace an entry that has more.
        ``kernel`` is the name of the kernel that it was compiled for, which ``entries`` tells; without it an earlier one stays.

        An entry over 64 MiB, or with a native blob that is no more than a header or of another device than its manifest says,
        is dropped and counted.
        """
        refused = unfit_reason(entry)
        if refused:
            self._tally.ignore_error("put", OSError(refused))
            return False
        stored = None
        if self._directory is not None and not self.readonly:
            place = _fast.shard_path(key.digest)
            data = encode_entry(key.digest, entry, hmac_key=self.hmac_key)
            stored = self._directory.put(place, data, only_new=only_new, kernel=kernel)
            if stored:
                self._note_written(self._directory, place, entry.byte_len)
        if stored is None:
            self._memory.put(key.digest, entry, only_new=only_new)
        if stored is not False:
            self._tally.count("put")
        return stored is not False

    def set_aside(self, digest: bytes) -> None:
        """Move the entry of a key, given by its digest, to the quarantine, if it is there."""
        if self._directory is not None and not self.readonly and self._directory.is_usable():
            self._directory.set_aside(_fast.shard_path(digest))
        self._memory.drop(digest)

    def own_directory(self, name: str, *, create: bool = True) -> Path | None:
        """Return ``root/name``, for what stands beside the entries; None when it may not be used, or is not there."""
        found = None if self._directory is None else self._directory.own_directory(name, create=create)
        return None if found is None else Path(found)

    @property
    def file_mode(self) -> int:
        """The mode of what is made below the root."""
        return 0o600 if self._directory is None else self._directory.root.file_mode

    def note(self, what: str, error: OSError | None = None) -> None:
        """Count what happened beside the entries; an error is ignored."""
        if error is None:
            self._tally.count(what)
        else:
            self._tally.ignore_error(what, error)

    def path_for(self, program_digest: bytes, fingerprint: PipelineDeviceFingerprint) -> str | None:
        """Return the file of a program's raw blob on a device, as upstream's disk cache (upstream.py) names it; None in memory.

        Raises
        ------
        InvalidKey
            If the digest has not 32 bytes.
        """
        return None if self._root is None else f"{self._root_text}/{blob_place(program_digest, fingerprint)}"

    def read(self, program_digest: bytes, fingerprint: PipelineDeviceFingerprint) -> bytes | None:
        """Return the raw blob of a program on a device, or None when there is none. Nothing of it is verified.

        Raises
        ------
        CacheUnusable
            If the root may not be used.
        InvalidBlob
            If what is there is not a file of ours, is over 64 MiB, or is an entry.
        InvalidKey
            If the digest has not 32 bytes.
        OSError
            If it cannot be read.
        """
        place = blob_place(program_digest, fingerprint)
        return None if self._directory is None else read_blob(self._directory, place)

    def write(self, program_digest: bytes, fingerprint: PipelineDeviceFingerprint, data: bytes) -> None:
        """Publish the raw blob of a program on a device: at most 64 MiB, of any content that is not an entry.

        Raises
        ------
        CacheUnusable
            If the cache is in memory, or the root may not be used or written to.
        InvalidBlob
            If the blob is over 64 MiB, or begins as an entry does.
        InvalidKey
            If the digest has not 32 bytes.
        OSError
            If it cannot be written.
        """
        place = blob_place(program_digest, fingerprint)
        self._note_written(write_blob(self._directory, place, data), place, len(data))

    def invalidate_impacted(
        self, mask: Sequence[int], program_digests: Sequence[bytes], fingerprint: PipelineDeviceFingerprint
    ) -> None:
        """Remove the raw blob of each program whose number in the mask is not 0; what has no digest or no blob does not matter.

        Raises
        ------
        CacheUnusable
            If the cache is in memory, or the root may not be used or written to.
        InvalidKey
            If a digest has not 32 bytes.
        OSError
            If one cannot be removed; the others are, and the first error is raised.
        """
        impacted = [digest for number, digest in zip(mask, program_digests, strict=False) if number]
        remove_blobs(self._directory, [blob_place(digest, fingerprint) for digest in impacted])

    def flush(self) -> None:
        """Wait until what this cache wrote is on the disk; what has been removed since does not matter.

        Raises
        ------
        OSError
            The first failure, when all else was flushed; what failed is tried again by the next flush.
        """
        self._pending.flush()

    def stats(self) -> dict[str, object]:
        """Return the root, why it is not used (None when it is), the counts by verdict, and the last ignored error."""
        return {
            "root": None if self._root is None else self._root_text,
            "refused": (self._directory.refused or None) if self._directory is not None else None,
            "readonly": self.readonly,
            "base": self._base and self._base.root.path,
            "sealed": self.hmac_key is not None,
            "counts": self._tally.counts(),
            "last_error": self._tally.last_error,
        }

    def tell_evictions(self, listener: EvictionListener) -> None:
        """Report to a listener, as long as it lives, how many entries each prune removed and how many bytes that freed."""
        self._pruner.tell(listener)

    def tell_uses(self, used: Callable[[bytes], object]) -> None:
        """Call a function with the digest of the key of each entry whose use is noted, at most once an hour for each."""
        if self._directory is not None:
            self._directory.used = used

    def prune(self, max_bytes: int | None = None, max_age_s: float | None = None) -> upkeep.PruneReport:
        """Bring the root within its bound and remove what was not used for long (by default 90 days); what fails is counted.

        ``put`` does so by itself: on a cache's first put when the last prune of the root is over a day off, and whenever an
        eighth of the bound was written since.
        """
        return self._pruner.prune(max_bytes, max_age_s)

    def check(self, *, fix: bool = False, progress: Callable[[int], object] = lambda _done: None) -> list[CacheProblem]:
        """Return everything below the root that is not as it should be, sorted by path; every entry is read and verified.

        ``progress`` gets the number of files looked at.

        Raises
        ------
        OSError
            If the root cannot be read, or with ``fix`` a problem cannot be fixed.
        """
        return [] if self._directory is None else check_directory(self._directory, fix=fix, progress=progress)

    def entries(self) -> Iterator[upkeep.StoredEntry]:
        """Yield what the headers of the entries say, unverified and in no order; those of the base that are not here too.

        Raises
        ------
        OSError
            If a root cannot be read.
        """
        listed: set[str] = set()
        layers = [layer for layer in self._layers if layer.is_usable()]
        names = ChainMap(*[layer.kernel_names() for layer in layers])
        for layer in layers:
            for stored in upkeep.stored_entries(layer.root, names):
                if stored.key not in listed:
                    listed.add(stored.key)
                    yield stored

    def peek(self, key: PipelineCacheKey) -> CacheLookup:
        """Return what ``get`` would; nothing is counted, touched or moved."""
        onlookers = [EntryDirectory(one.root, Tally(), read_only=True, hmac_key=one.hmac_key) for one in self._layers]
        return self._look_up(key.digest, onlookers)

    def explain(self, key: PipelineCacheKey) -> Explanation:
        """Say what ``get`` of a key would return and, on a miss, in which manifest fields the nearest entries differ.

        Nothing is changed or counted. Two entries are equally near when as many fields agree.
        """
        return explain_lookup(self.peek(key), key.manifest, self.entries())

    def clear(self, *, imported: bool = False) -> int:
        """Remove all that it holds, in memory too, or what was imported; not the root. Return how many files went.

        Raises
        ------
        CacheUnusable
            If the root may not be used or written to.
        OSError
            If something cannot be removed.
        """
        self._memory.clear(imported=imported)
        if self._directory is None:
            return 0
        self.require_changeable()
        return clear_imported(self._directory.root) if imported else clear_root(self._directory.root)

    def require_changeable(self) -> None:
        """Refuse a root in which what is put would not stay: it would live in this process's memory only.

        Raises
        ------
        CacheUnusable
            If there is no root, or it may not be used or written to.
        """
        require_changeable(self._directory)

    def usage(self, *, base: bool = False) -> upkeep.CacheUsage:
        """Count the files below the root, or the base, by kind, and the bytes the file system gave them; all are looked at.

        Raises
        ------
        OSError
            If the root cannot be read.
        """
        directory = self._base if base else self._directory
        return upkeep.CacheUsage() if directory is None or not directory.is_usable() else upkeep.usage(directory.root)

    def _look_up(self, digest: bytes, layers: Sequence[EntryDirectory]) -> CacheLookup:
        """Ask one layer after the other; what is more than an entry's absence counts, and memory has what was not written."""
        missed: list[CacheLookup] = []
        for layer in layers:
            lookup = layer.get(digest)
            if lookup is not None:
                if lookup.verdict is Verdict.HIT:
                    return lookup
                missed.append(lookup)
        if (entry := self._memory.get(digest)) is not None:
            return CacheLookup(Verdict.HIT, entry, "entry in memory")
        if missed:
            return next((one for one in missed if one.verdict is not Verdict.MISS), missed[0])
        unused = [f": {one.root.path} is not used, {one.refused}" for one in layers if one.refused]
        return CacheLookup(Verdict.MISS, None, f"{Verdict.MISS.value} (memory only{''.join(unused[:1])})")

    def _note_written(self, directory: EntryDirectory, place: str, size: int) -> None:
        """Remember what flush has to wait for, and prune when that is due."""
        self._pending.add(f"{directory.root.path}/{place}")
        self._pruner.note_written(size)
