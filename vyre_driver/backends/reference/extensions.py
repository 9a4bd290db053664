"""The operators that this package adds to the IR, on values of many invocations.

Source: docs/ir.md, "Operators of this package".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from vyre_driver.backends.reference.values import Values


def _bits_as(dtype: str) -> Callable[[Values], Values]:
    return lambda values: np.ascontiguousarray(values).view(dtype)


FUNCTIONS: dict[str, Callable[..., Values]] = {
    "bitcast<u32>": _bits_as("<u4"),
    "bitcast<i32>": _bits_as("<i4"),
    "bitcast<f32>": _bits_as("<f4"),
}
"""What computes each, by its name."""
