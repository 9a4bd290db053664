"""Where the arguments of a call are: in shared memory, on the device, or in the message itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vyre_driver.isolated.arena import NUMBERS

if TYPE_CHECKING:
    import numpy as np

Encoded = tuple[Any, ...]
ARRAY, BUFFER, VALUE = "array", "buffer", "value"


def dtype_of(dtype: np.dtype[Any]) -> Any:  # noqa: ANN401 -- its name, or the type where that does not say all
    """Return a type as it is sent."""
    return dtype.str if dtype.kind in NUMBERS else dtype


def place_in_arena(offset: int, array: np.ndarray[Any, Any]) -> Encoded:
    """Return an array that lies in the shared memory as it is sent."""
    return (ARRAY, offset, array.shape, dtype_of(array.dtype))


def place_in_buffer(number: int, offset: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Encoded:
    """Return a part of a resident buffer as it is sent; the number is 0 where it has no elements, and no memory."""
    return (BUFFER, number, offset, shape, dtype_of(dtype))
