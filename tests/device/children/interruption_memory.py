"""Every allocation of our compiled code that can fail, failed once; the stress tests run this in processes of its own.

Usage: LD_PRELOAD=failing_malloc.so PYTHONMALLOC=malloc interruption_memory.py points | strike < POINTS

Points are sites: [scene, module, three offsets in it]. An act may end with MemoryError, or with an
error of ours that says what there was too little memory for, or go on where it can do without.
"""

from __future__ import annotations

import ctypes
import sys
from typing import TYPE_CHECKING, NamedTuple

from interruption_play import Harness, ending
from interruption_scenes import SCENES

from vyre_driver.errors import BackendError, VulkanUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable

ALLOCATOR = ctypes.CDLL(None)
DEPTH = 3
EXPECTED = (MemoryError, BackendError, VulkanUnavailable)


class Site(ctypes.Structure):
    """As in failing_malloc.c."""

    _fields_ = (("module", ctypes.c_uint32), ("offsets", ctypes.c_uint32 * DEPTH))


class Point(NamedTuple):
    """An allocation, by names that are the same in every process."""

    scene: str
    module: str
    offsets: tuple[int, ...]


def modules() -> list[str]:
    ALLOCATOR.allocations_module.restype = ctypes.c_char_p
    return [ALLOCATOR.allocations_module(index).decode() for index in range(ALLOCATOR.allocations_modules())]


def points_of(scene: str, act: Callable[[], None]) -> list[Point]:
    ALLOCATOR.allocations_record()
    try:
        act()
    finally:
        ALLOCATOR.allocations_stop()
    seen = ctypes.POINTER(Site)()
    count = ALLOCATOR.allocations_seen(ctypes.byref(seen))
    names = modules()
    return [Point(scene, names[one.module], tuple(one.offsets)) for one in seen[:count]]


def starve(act: Callable[[], None], point: Point) -> tuple[bool, list[str]]:
    """Run the act and fail its first allocation at the point; returns whether there was one, and what is wrong with the end."""
    ALLOCATOR.allocations_fail_at(modules().index(point.module), *point.offsets)
    try:
        _, wrong = ending(act, EXPECTED)
    finally:
        reached = bool(ALLOCATOR.allocations_stop())
    return reached, wrong


if __name__ == "__main__":
    Harness(SCENES, points_of, Point, starve, ready=ALLOCATOR.allocations_prepare).main(sys.argv[1])
