"""Arrays of several shapes gone through together, as numpy broadcasts them: without copies of what is repeated.

The axes of the result are joined as far as all arrays allow. What is left is gone through by one index. In an array that is not
as large as the result, a step along a joined axis is so many elements; none where it is repeated.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from vyre_driver.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Shape = tuple[int, ...]


class Broadcast(NamedTuple):
    """How arrays are gone through: the result's shape, its joined axes, and each array's steps along these; slowest first.

    ``steps`` are None of an array that has an element for each of the result, in the same order.
    """

    shape: Shape
    sizes: Shape
    steps: tuple[Shape | None, ...]


def broadcast(name: str, shapes: Mapping[str, Shape], held: Sequence[Shape]) -> Broadcast:
    """Return how arrays of these shapes are gone through together.

    Parameters
    ----------
    name
        The function that they are given to.
    shapes
        Their shapes, by name.
    held
        The shape of each as it lies in memory: axes along which one element is repeated have a length of 1.

    Raises
    ------
    InvalidInput
        If they do not broadcast.
    """
    try:
        shape = np.broadcast_shapes(*shapes.values())
    except ValueError:
        raise _refuse(name, shapes) from None
    steps = [_steps(one, len(shape)) for one in held]
    axes = [axis for axis, size in enumerate(shape) if size != 1]
    joined: list[list[int]] = []  # the innermost axis of each, and its size
    for axis in axes:
        size = shape[axis]
        if joined and all(one[joined[-1][0]] == one[axis] * size for one in steps):
            joined[-1] = [axis, joined[-1][1] * size]
        else:
            joined.append([axis, size])
    sizes = tuple(size for _, size in joined) or (1,)
    own = [tuple(one[axis] for axis, _ in joined) or (1,) for one in steps]
    count = math.prod(shape)
    full = _steps(sizes, len(sizes))
    return Broadcast(shape, sizes, tuple(None if count == 0 or one == full else one for one in own))


def _steps(held: Shape, rank: int) -> Shape:
    """Return how many elements a step along each of so many axes is, in an array of this shape; none where it is repeated."""
    found = []
    step = 1
    for size in reversed(held):
        found.append(0 if size == 1 else step)
        step *= size
    return (0,) * (rank - len(held)) + tuple(reversed(found))


def _refuse(name: str, shapes: Mapping[str, Shape]) -> InvalidInput:
    """Return the error of shapes that do not broadcast; it names the first two that do not."""
    given = list(shapes.items())
    for place, (one, first) in enumerate(given):
        for other, second in given[:place]:
            for a, b in zip(reversed(second), reversed(first), strict=False):
                if a != b and 1 not in {a, b}:
                    shown = f"{other} of {name} has the shape {second} and {one} has {first}"
                    return InvalidInput(
                        f"{shown}, which do not broadcast: {a} is not {b}",
                        fix="pass arrays whose axes, from the last on, have one length or the length 1",
                        parameters=(other, one),
                        shapes=(second, first),
                    )
    raise AssertionError  # numpy has found two
