"""Choices that are the same for one seed everywhere and for ever.

Source: Python's documentation of ``random``: the generator and ``getrandbits`` are kept; what is made of it may change.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

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
