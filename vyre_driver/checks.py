"""Check the values that callers give: an integer in a range, a sequence of values, or text."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet

from vyre_driver.errors import InvalidInput

U8_MAX = 0xFF
I32_MAX = 0x7FFF_FFFF
U32_MAX = 0xFFFF_FFFF
I64_MAX = 0x7FFF_FFFF_FFFF_FFFF
U64_MAX = 0xFFFF_FFFF_FFFF_FFFF


def is_whole(value: object) -> bool:
    """Whether Python takes the value as an index: an int, a numpy integer, but no float, text or array of several."""
    try:
        operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        return False
    return True


def integer(value: object) -> int | None:
    """Return an integer, such as numpy's, as an int; None for a bool and for what is no integer."""
    if type(value) is int:
        return value
    return None if isinstance(value, bool) or not is_whole(value) else operator.index(value)  # type: ignore[arg-type]


def integer_within(value: object, lowest: int, highest: int) -> int | None:
    """Return an integer from ``lowest`` to ``highest`` as an int; None for a bool and for everything else."""
    found = integer(value)
    return found if found is not None and lowest <= found <= highest else None


def items_of(value: object) -> list[object] | None:
    """Return the items of what holds some in order; None for text, bytes, sets, mappings, and whatever else holds none."""
    if not isinstance(value, Iterable) or isinstance(value, (str, bytes, bytearray, Mapping, AbstractSet)):
        return None
    try:
        return list(value)
    except TypeError:  # an array without axes
        return None


def check_text(name: str, given: object) -> None:
    """Check that what is to be a name is text; raises InvalidInput."""
    if not isinstance(given, str):
        raise InvalidInput(f"{name} is of type {type(given).__name__}, and must be text", fix=f"give {name} as text")
