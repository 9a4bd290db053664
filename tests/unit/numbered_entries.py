"""Caches whose entries are known by a number."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from literals import key

from vyre_driver.cache import DiskPipelineCache, PipelineEntry

if TYPE_CHECKING:
    from pathlib import Path


DAY = 86400
PAGE = 4096


def path_of(root: Path, number: int) -> Path:
    name = bytes([number]).hex()
    return root / name / (name * 32 + ".bin")


def fill(root: Path, ages_s: dict[int, float], size: int = 3 * PAGE - 300) -> DiskPipelineCache:
    """A cache with entries that were used so many seconds ago; each takes three pages of the disk."""
    cache = DiskPipelineCache(root)
    now = time.time()
    for number, age in ages_s.items():
        assert cache.put(key(number), PipelineEntry(b"", bytes(size))) is True
        os.utime(path_of(root, number), (now - age, now - age))
    return cache
