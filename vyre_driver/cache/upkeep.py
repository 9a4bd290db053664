"""Maintenance of a whole cache: prune, check, list, explain, clear, measure."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Protocol

from vyre_driver.cache import evict, walk
from vyre_driver.cache.check import CacheProblem, check_root, clear_root
from vyre_driver.cache.directory import CacheLookup, EntryDirectory, most_specific_miss
from vyre_driver.cache.entry import Verdict
from vyre_driver.cache.explain import Explanation, nearest_entries
from vyre_driver.cache.memory import MemoryEntries
from vyre_driver.cache.tally import Tally
from vyre_driver.errors import CacheUnusable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from vyre_driver.identity.keys import PipelineCacheKey

# A prune is due when puts have come to this part of the bound since the last one.
_PRUNE_PART = 8


class EvictionListener(Protocol):
    """What receives the entries that a cache removed."""

    def evicted(self, entries: int, freed_bytes: int) -> None:
        """Receive the number of entries removed, and the allocated bytes of all that was removed."""


class CacheUpkeep:
    """The root of a cache (None in memory), and what keeps it in order. All of it works while other processes get and put."""

    def __init__(self, directory: EntryDirectory | None, base: EntryDirectory | None, tally: Tally, max_bytes: int) -> None:
        """Made by ``DiskPipelineCache``."""
        self._directory = directory
        self._base_directory = base
        self._layers = tuple(one for one in (directory, base) if one is not None)
        self._tally = tally
        self._memory = MemoryEntries()
        self._max_bytes = max_bytes
        self._bytes_to_prune: int | None = None
        # As in Room: each step is one atomic operation of the set, and the end of a listener runs no bytecode.
        self._listeners: set[weakref.ref[EvictionListener]] = set()

    def tell_evictions(self, listener: EvictionListener) -> None:
        """Report to a listener, as long as it lives, how many entries each prune removed and how many bytes that freed."""
        self._listeners.add(weakref.ref(listener, self._listeners.discard))

    def prune(self, max_bytes: int | None = None, max_age_s: float | None = None) -> evict.PruneReport:
        """Bring the root within its bound and remove what was not used for long (by default 90 days); what fails is counted.

        ``put`` does so by itself: on a cache's first put when the last prune of the root is over a day off, and whenever an
        eighth of the bound was written since.
        """
        directory = self._directory
        if directory is None or directory.read_only or not directory.is_usable():
            return evict.PruneReport()
        bound = self._max_bytes if max_bytes is None else max_bytes
        self._bytes_to_prune = self._max_bytes // _PRUNE_PART
        try:
            evict.mark_pruned(directory.root)
        except OSError as error:
            self._tally.ignore_error("prune", error)
        try:
            age_s = evict.DEFAULT_MAX_AGE_S if max_age_s is None else max_age_s
            report = evict.prune(directory.root, self._tally, bound, age_s)
        except OSError as error:
            self._tally.ignore_error("prune", error)
            return evict.PruneReport(failed=1)
        for reference in list(self._listeners) if report.entries else ():
            listener = reference()
            if listener is not None:
                listener.evicted(report.entries, report.freed_bytes)
        return report

    def check(self, *, fix: bool = False, progress: Callable[[int], object] = lambda _done: None) -> list[CacheProblem]:
        """Return everything below the root that is not as it should be, sorted by path; every entry is read and verified.

        ``progress`` gets the number of files looked at.

        Raises
        ------
        OSError
            If the root cannot be read, or with ``fix`` a problem cannot be fixed.
        """
        directory = self._directory
        if directory is None:
            return []
        if not directory.is_usable():
            return [CacheProblem(directory.root.path, "root", directory.refused)]
        found = check_root(directory.root, fix=fix and not directory.read_only, hmac_key=directory.hmac_key, progress=progress)
        return sorted(found, key=lambda problem: problem.path)

    def entries(self) -> Iterator[walk.StoredEntry]:
        """Yield what the headers of the entries say, unverified and in no order; those of the base that are not here too.

        Raises
        ------
        OSError
            If a root cannot be read.
        """
        listed: set[str] = set()
        for layer in self._layers:
            if layer.is_usable():
                for stored in walk.stored_entries(layer.root):
                    if stored.key not in listed:
                        listed.add(stored.key)
                        yield stored

    def peek(self, key: PipelineCacheKey) -> CacheLookup:
        """Return what ``get`` would; nothing is counted, touched or moved."""
        onlookers = [EntryDirectory(one.root, Tally(), read_only=True, hmac_key=one.hmac_key) for one in self._layers]
        found = [lookup for lookup in (one.get(key.digest) for one in onlookers) if lookup is not None]
        hit = next((lookup for lookup in found if lookup.verdict is Verdict.HIT), None)
        entry = self._memory.get(key.digest) if hit is None else None
        if entry is not None:
            return CacheLookup(Verdict.HIT, entry, "entry in memory")
        refused = next((one.refused for one in onlookers if one.refused), "")
        return hit or most_specific_miss(found) or self._miss_in_memory(refused)

    def _miss_in_memory(self, refused: str) -> CacheLookup:
        where = f"memory only: {self._layers[0].root.path} is not used, {refused}" if refused else "memory only"
        return CacheLookup(Verdict.MISS, None, f"{Verdict.MISS.value} ({where})")

    def explain(self, key: PipelineCacheKey) -> Explanation:
        """Say what ``get`` of a key would return and, on a miss, in which manifest fields the nearest entries differ.

        Nothing is changed or counted. Two entries are equally near when as many fields agree.
        """
        lookup = self.peek(key)
        if lookup.verdict is not Verdict.MISS:
            return Explanation(lookup.verdict, lookup.reason)
        try:
            nearest, compared = nearest_entries(key.manifest, self.entries())
        except OSError as error:
            return Explanation(lookup.verdict, f"{lookup.reason}; the entries cannot be read: {error}")
        return Explanation(lookup.verdict, lookup.reason, nearest, compared)

    def clear(self) -> int:
        """Remove everything the cache holds, in memory too, but not the root; return how many files went.

        Raises
        ------
        CacheUnusable
            If the root may not be used or written to.
        OSError
            If something cannot be removed.
        """
        self._memory.clear()
        if self._directory is None:
            return 0
        self.require_changeable()
        return clear_root(self._directory.root)

    def require_changeable(self) -> None:
        """Refuse a root in which what is put would not stay: it would live in this process's memory only.

        Raises
        ------
        CacheUnusable
            If there is no root, or it may not be used or written to.
        """
        directory = self._directory
        path, reason = None, "it is in memory only"
        if directory is not None:
            is_usable = directory.is_usable()
            path, reason = directory.root.path, directory.refused or "it is read-only"
            if is_usable and not directory.read_only:
                return
        raise CacheUnusable(
            f"the cache{'' if path is None else f' in {path}'} may not be changed: {reason}",
            fix="open a directory of your own, and not read-only",
            root=path,
            reason=reason,
        )

    def usage(self, *, base: bool = False) -> walk.CacheUsage:
        """Count the files below the root, or the base, by kind, and the bytes the file system gave them; all are looked at.

        Raises
        ------
        OSError
            If the root cannot be read.
        """
        directory = self._base_directory if base else self._directory
        return walk.CacheUsage() if directory is None or not directory.is_usable() else walk.usage(directory.root)

    def _prune_when_due(self, directory: EntryDirectory, written_bytes: int) -> None:
        """Prune after a put when enough was put, and after the first one when no process has for a day."""
        try:
            left = self._bytes_to_prune
            if left is None:
                is_due = not directory.has_made_root and evict.is_due(directory.root)
                left = 0 if is_due else self._max_bytes // _PRUNE_PART
            self._bytes_to_prune = left - written_bytes
        except OSError as error:
            self._tally.ignore_error("prune", error)
            return
        if self._bytes_to_prune < 0:
            self.prune()
