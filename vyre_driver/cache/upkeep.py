"""What is done to a cache as a whole: pruned, checked, listed, explained, cleared, measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_driver.cache import evict, walk
from vyre_driver.cache.check import CacheProblem, check_root, clear_root
from vyre_driver.cache.directory import EntryDirectory
from vyre_driver.cache.entry import Verdict
from vyre_driver.cache.explain import Explanation, nearest_entries
from vyre_driver.cache.memory import MemoryEntries
from vyre_driver.cache.tally import Tally
from vyre_driver.errors import CacheUnusable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from vyre_driver.identity import PipelineCacheKey

# A prune is due when puts have come to this part of the bound since the last one.
_PRUNE_PART = 8


class CacheUpkeep:
    """The root of a cache (None in memory), and what keeps it in order. All of it works while other processes get and put."""

    def __init__(self, directory: EntryDirectory | None, tally: Tally, max_bytes: int) -> None:
        """Made by ``DiskPipelineCache``."""
        self._directory = directory
        self._tally = tally
        self._memory = MemoryEntries()
        self._max_bytes = max_bytes
        self._bytes_to_prune: int | None = None

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
            self._tally.forgive("prune", error)
        try:
            return evict.prune(directory.root, self._tally, bound, evict.DEFAULT_MAX_AGE_S if max_age_s is None else max_age_s)
        except OSError as error:
            self._tally.forgive("prune", error)
            return evict.PruneReport(failed=1)

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
        """Yield what the headers of the entries below the root tell, unverified and in no order.

        Raises
        ------
        OSError
            If the root cannot be read.
        """
        if self._directory is not None and self._directory.is_usable():
            yield from walk.stored_entries(self._directory.root)

    def explain(self, key: PipelineCacheKey) -> Explanation:
        """Say what ``get`` of a key would come to and, on a miss, in which manifest fields the nearest entries differ.

        Nothing is changed or counted. Two entries are equally near when as many fields agree.
        """
        reason = Verdict.MISS.value
        if self._memory.get(key.digest) is not None:
            return Explanation(Verdict.HIT, "entry in memory")
        if self._directory is None:
            return Explanation(Verdict.MISS, f"{reason} (memory only)")
        onlooker = EntryDirectory(self._directory.root, Tally(), read_only=True, hmac_key=self._directory.hmac_key)
        lookup = onlooker.get(key.digest)
        if lookup is None:
            return Explanation(Verdict.MISS, f"{reason} (memory only: {onlooker.root.path} is not used, {onlooker.refused})")
        if lookup.verdict is not Verdict.MISS:
            return Explanation(lookup.verdict, lookup.reason)
        try:
            nearest, compared = nearest_entries(key.manifest, self.entries())
        except OSError as error:
            return Explanation(lookup.verdict, f"{reason}; the entries cannot be read: {error}")
        return Explanation(Verdict.MISS, reason, nearest, compared)

    def clear(self) -> int:
        """Remove everything the cache holds, in memory too, but not the root; return how many files went.

        Raises
        ------
        CacheUnusable
            2205 if the root may not be used or written to.
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
            2205 if there is no root, or it may not be used or written to.
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

    def usage(self) -> walk.CacheUsage:
        """Count the files below the root by kind, and the bytes the file system gave them; all are looked at.

        Raises
        ------
        OSError
            If the root cannot be read.
        """
        if self._directory is None or not self._directory.is_usable():
            return walk.CacheUsage()
        return walk.usage(self._directory.root)

    def _prune_when_due(self, directory: EntryDirectory, written_bytes: int) -> None:
        """Prune after a put when enough was put, and after the first one when nobody has for a day."""
        try:
            left = self._bytes_to_prune
            if left is None:
                is_due = not directory.has_made_root and evict.is_due(directory.root)
                left = 0 if is_due else self._max_bytes // _PRUNE_PART
            self._bytes_to_prune = left - written_bytes
        except OSError as error:
            self._tally.forgive("prune", error)
            return
        if self._bytes_to_prune < 0:
            self.prune()
