"""What a value may stand for: a whole number, or several values in order."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet


def is_whole(value: object) -> bool:
    """Whether Python takes the value as an index: an int, a numpy integer, but no float, text or array of several."""
    try:
        operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        return False
    return True


def items_of(value: object) -> list[object] | None:
    """Return the items of what holds some in order; None for text, bytes, sets, mappings, and whatever else holds none."""
    if not isinstance(value, Iterable) or isinstance(value, (str, bytes, bytearray, Mapping, AbstractSet)):
        return None
    try:
        return list(value)
    except TypeError:  # an array without axes
        return None
