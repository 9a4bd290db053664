"""Counts of what a cache did, and the only place that swallows a cache failure."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter

_LOG = logging.getLogger("vyre_driver.cache")
_SECONDS_BETWEEN_WARNINGS = 60.0


class Tally:
    """Counts by name and the last ignored error, of one cache. May be used from several threads."""

    def __init__(self) -> None:
        """Start with nothing counted."""
        self._counts: Counter[str] = Counter()
        self._last_error: str | None = None
        self._warned_at: dict[str, float] = {}
        self._lock = threading.Lock()

    def count(self, what: str) -> None:
        """Count one more of something."""
        with self._lock:
            self._counts[what] = self._counts.get(what, 0) + 1  # Counter's own += takes twice as long

    def ignore_error(self, what: str, error: OSError) -> str:
        """Count an error and let the work go on; returns it in words.

        It is logged (logger ``vyre_driver.cache``), each kind at most once a minute.
        """
        now = time.monotonic()
        with self._lock:
            self._counts[f"{what}_failed"] += 1
            self._last_error = f"{what}: {error}"
            warned_at = self._warned_at.get(what)
            is_due = warned_at is None or now - warned_at >= _SECONDS_BETWEEN_WARNINGS
            if is_due:
                self._warned_at[what] = now
        if is_due:
            _LOG.warning("the pipeline cache goes on without this: %s: %s", what, error)
        return error.strerror or str(error)

    def counts(self) -> dict[str, int]:
        """Return the counts by name, in the order of the names."""
        with self._lock:
            return dict(sorted(self._counts.items()))

    @property
    def last_error(self) -> str | None:
        """The last ignored error, with what it happened to."""
        return self._last_error
