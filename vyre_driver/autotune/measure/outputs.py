"""Whether a candidate's outputs are the right ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Outputs = Sequence[NDArray[Any]]

POISON = 0xA5
"""Each byte of an output before the run that is checked."""


def difference(right: Outputs, given: Outputs, tolerance: float) -> str | None:
    """Return where outputs differ from the right ones, None if they agree.

    They may be apart by ``tolerance`` of the largest finite magnitude in the right ones; 0 is bit for bit. NaN agrees with NaN,
    an infinity with itself.
    """
    if len(right) != len(given):
        return f"there are {len(given)} outputs, and {len(right)} are right"
    for number, (one, other) in enumerate(zip(right, given, strict=True), start=1):
        why = _difference(one, other, tolerance)
        if why is not None:
            return f"output {number}: {why}"
    return None


def unwritten(outputs: Outputs) -> str | None:
    """Return that nothing was written, where every byte is still the poison."""
    if all((_bytes(one) == POISON).all() for one in outputs):
        return "nothing was written to the outputs"
    return None


def _difference(right: NDArray[Any], given: NDArray[Any], tolerance: float) -> str | None:
    if (right.shape, right.dtype) != (given.shape, given.dtype):
        return f"{given.dtype} of shape {given.shape}, and {right.dtype} of shape {right.shape} is right"
    if right.size == 0:
        return None
    wrong = _unequal(right, given) if tolerance == 0 else _apart(right, given, tolerance)
    count = int(np.count_nonzero(wrong))
    if count == 0:
        return None
    first = int(np.argmax(wrong))
    should, found = right.reshape(-1)[first], given.reshape(-1)[first]
    return f"{count} of {right.size} elements are wrong, the first at index {first}: {found!s}, and {should!s} is right"


def _unequal(right: NDArray[Any], given: NDArray[Any]) -> NDArray[np.bool_]:
    width = right.dtype.itemsize
    wrong: NDArray[np.bool_] = (_bytes(right).reshape(-1, width) != _bytes(given).reshape(-1, width)).any(axis=1)
    return wrong


def _apart(right: NDArray[Any], given: NDArray[Any], tolerance: float) -> NDArray[np.bool_]:
    with np.errstate(all="ignore"):  # some CPUs raise at a signalling NaN, which a device may give, when it is converted
        one, other = (array.reshape(-1).astype(np.float64) for array in (right, given))
        finite = np.isfinite(one)
        largest = float(np.abs(one[finite]).max(initial=0.0))
        near = np.abs(one - other) <= tolerance * largest
    same = (one == other) | (np.isnan(one) & np.isnan(other))
    return ~np.where(finite, near, same)


def _bytes(array: NDArray[Any]) -> NDArray[np.uint8]:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)
