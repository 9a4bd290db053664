"""Hypothesis strategies: random valid programs, each choice of which hypothesis draws and can make smaller.

The only module here that needs hypothesis, which is not a dependency of the package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import strategies as st

from vyre_driver.conformance.generate import made_with
from vyre_driver.conformance.options import Options, RandomSource

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn

    from vyre_driver.conformance.case import Case

SMALL = Options(statements=5, depth=3)


class _DrawnDice(RandomSource):
    """Choices that hypothesis makes, and makes smaller: the first of several is the simplest."""

    def __init__(self, draw: DrawFn) -> None:
        super().__init__(0)
        self._draw = draw

    def filler(self) -> RandomSource:
        """Return a source of a seed that is drawn: one choice for all elements of a buffer."""
        return RandomSource(self._draw(st.integers(0, 255)))

    def word(self) -> int:
        """Return any u32."""
        return self._draw(st.integers(0, 2**32 - 1))

    def below(self, limit: int) -> int:
        """Return a number from 0 to ``limit`` - 1."""
        return self._draw(st.integers(0, limit - 1))


@st.composite
def cases(draw: DrawFn, options: Options = SMALL) -> Case:
    """Return valid programs with inputs and grid, of which no invocation faults."""
    return made_with(_DrawnDice(draw), options, "a drawn program")
