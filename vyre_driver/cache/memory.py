"""An in-memory cache of bounded size, for a process that may not write to disk."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vyre_driver.cache.entry import PipelineEntry

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
