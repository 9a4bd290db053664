"""Basic indexing of a resident array: which elements an index selects, as one contiguous piece.

Source: numpy's basic indexing, without steps and new axes.
"""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING

import numpy as np

from vyre_driver.checks import integer
from vyre_driver.errors import IndexOutOfRange, InvalidInput

if TYPE_CHECKING:
    from collections.abc import Sequence


def select(shape: tuple[int, ...], key: object) -> tuple[int, tuple[int, ...]]:
    """Return the first element that an index selects of an array of this shape, and the shape of all that it selects.

    Raises
    ------
    IndexOutOfRange
        If a number is out of range, or there are more of them than axes.
    InvalidInput
        If it is no basic index, or selects elements that are not next to each other.
    """
    keys = _full(shape, key if isinstance(key, tuple) else (key,))
    first, stride, selected = 0, math.prod(shape), []
    counts = []
    for axis, (one, length) in enumerate(zip(keys, shape, strict=True)):
        stride = stride // length if length else 0
        start, count = _range(one, length, axis)
        first += start * stride
        counts.append(count)
        if isinstance(one, slice):
            selected.append(count)
    if 0 in selected:
        return 0, tuple(selected)
    cut = [axis for axis, length in enumerate(shape) if counts[axis] != length]
    if cut and any(count != 1 for count in counts[: cut[-1]]):
        raise InvalidInput(
            f"the index {_shown(key)} selects elements of a buffer of shape {shape} that are not next to each other",
            fix="select along the first axis, or read() the buffer and index the array",
        )
    return first, tuple(selected)


def _full(shape: tuple[int, ...], keys: Sequence[object]) -> list[object]:
    """Return one item an axis, with the ellipsis and what is left out as whole axes."""
    given = sum(one is not Ellipsis for one in keys)
    if given > len(shape):
        raise IndexOutOfRange(
            f"the index has {given} items, and a buffer of shape {shape} has {len(shape)} axes", fix="give one an axis at most"
        )
    whole: list[object] = [slice(None)] * (len(shape) - given)
    places = [place for place, one in enumerate(keys) if one is Ellipsis]
    if len(places) > 1:
        raise InvalidInput("the index has more than one ellipsis", fix="give one")
    at = places[0] if places else len(keys)
    return [*keys[:at], *whole, *keys[at + 1 :]]


def _range(one: object, length: int, axis: int) -> tuple[int, int]:
    """Return where an item of an index begins on its axis, and how many it selects."""
    if isinstance(one, slice):
        try:
            start, stop, step = one.indices(length)
        except (TypeError, ValueError) as error:
            raise InvalidInput(f"the slice {_shown(one)} cannot be used ({error})", fix="give integers, and no step") from error
        count = len(range(start, stop, step))
        if step != 1 and count > 1:
            raise InvalidInput(
                f"the slice {_shown(one)} has a step of {step}, and a buffer's views are contiguous",
                fix="leave the step out, or read() the buffer and slice the array",
            )
        return start if count else 0, count
    found = None if isinstance(one, np.bool_) else integer(one)
    if found is None:
        raise InvalidInput(
            f"the index of a buffer holds {_shown(one)}, and takes integers, slices and one ellipsis",
            fix="read() the buffer and index the array",
        )
    if not -length <= found < length:
        raise IndexOutOfRange(
            f"index {found} is out of range for axis {axis}, which has {length} elements",
            fix=f"give {-length} to {length - 1}" if length else "select nothing of it",
            index=found,
            axis=axis,
            length=length,
        )
    return operator.index(found) % length, 1


def _shown(key: object) -> str:
    """Return an index as it is typed, and nothing long."""
    if isinstance(key, tuple):
        return ", ".join(map(_shown, key))
    if isinstance(key, slice):
        ends = ":".join("" if one is None else repr(one) for one in (key.start, key.stop))
        return ends if key.step is None else f"{ends}:{key.step!r}"
    if key is Ellipsis:
        return "..."
    text = repr(key)
    return text if len(text) < 40 else f"something of type {type(key).__name__}"
