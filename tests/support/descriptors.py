"""A process that has more descriptors than select() can wait for."""

from __future__ import annotations

import os
import resource
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def descriptors_over_1024(most: int) -> Iterator[None]:
    """Let the process have so many descriptors, and take 1100 of them; skips where it may not have so many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < most:
        pytest.skip(f"not allowed: {most} open files (the limit is {hard})")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most), hard))
    opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    try:
        assert max(opened) > 1024
        yield
    finally:
        for one in opened:
            os.close(one)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
