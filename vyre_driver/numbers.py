"""Whether a value may stand for a whole number."""

from __future__ import annotations

import operator


def is_whole(value: object) -> bool:
    """Whether Python takes the value as an index: an int, a numpy integer, but no float, text or array of several."""
    try:
        operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        return False
    return True
