"""What random programs are made of: options, and choices that are the same for one seed everywhere and for ever.

Source: Python's documentation of ``random``: the generator and ``getrandbits`` are kept; what is made of it may change.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Options:
    """What a generated program may use beyond u32, i32, f32 and bool, and how large it gets.

    ``u64``: 64-bit integers of either sign. ``narrow``: integers of 8 and 16 bits, and f16, of which the bits are moved.
    ``constants``: hardly anything but what is about constants. ``unordered``: programs whose result depends on the order of
    invocations, which only interpreters agree on. ``subgroups``: some with what the lanes of a subgroup tell each other,
    ``subgroup_lanes`` of them, in workgroups along x, for how others are cut into subgroups is the device's. ``fma``: for
    backends whose fma rounds once.
    """

    u64: bool = True
    narrow: bool = True
    atomics: bool = True
    shared: bool = True
    subgroups: bool = False
    inexact: bool = True
    fma: bool = True
    constants: bool = False
    subgroup_lanes: int = 32
    unordered: bool = False
    statements: int = 10
    depth: int = 4


_T = TypeVar("_T")


class RandomSource:
    """A stream of choices; nothing but ``getrandbits`` of 32 bits is asked of Python's generator."""

    def __init__(self, seed: int) -> None:
        """Begin the stream of a seed."""
        self._source = random.Random(seed)  # noqa: S311 -- to be repeated, not to be secret

    def filler(self) -> RandomSource:
        """Return the source for the elements of buffers: there are many of them, and few matter."""
        return self

    def word(self) -> int:
        """Return any u32."""
        return self._source.getrandbits(32)

    def below(self, limit: int) -> int:
        """Return a number from 0 to ``limit`` - 1; a limit is small, so that the remainder does no harm."""
        return self.word() % limit

    def between(self, lowest: int, highest: int) -> int:
        """Return a number from ``lowest`` to ``highest``."""
        return lowest + self.below(highest - lowest + 1)

    def chance(self, percent: int) -> bool:
        """Return True in so many of 100 cases."""
        return self.below(100) < percent

    def pick(self, choices: Sequence[_T]) -> _T:
        """Return one of several."""
        return choices[self.below(len(choices))]
