"""Plain twin of the compiled tally (vyre_driver/telemetry/_counters.pyx)."""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from vyre_driver.telemetry._counters import Parts


class Counters:
    """Counts and sums by kind, and the last 256 events, under a lock."""

    def __init__(self, kinds: int) -> None:
        self._counts = [0] * kinds
        self._total_ns = [0] * kinds
        self._histograms = [[0] * 44 for _ in range(kinds)]
        self._kept: deque[Parts] = deque(maxlen=256)
        self._lock = threading.Lock()
        self.hear: Callable[[Parts], None] | None = None

    def add(self, kind: int, duration_ns: int | None, key: str | None, count: int, detail: str) -> None:
        parts = (kind, time.time_ns(), duration_ns, key, count, detail)
        with self._lock:
            self._counts[kind] += count
            self._total_ns[kind] += duration_ns or 0
            if duration_ns is not None:
                place = next((place for place in range(43) if duration_ns <= 2**place), 43)
                self._histograms[kind][place] += 1
            self._kept.append(parts)
        if self.hear is not None:
            self.hear(parts)

    def counts(self) -> list[int]:
        return list(self._counts)

    def total_ns(self) -> list[int]:
        return list(self._total_ns)

    def histogram(self, kind: int) -> list[int]:
        return list(self._histograms[kind])

    def recent(self) -> list[Parts]:
        return list(self._kept)
