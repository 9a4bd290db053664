"""Casts between the types of the cast table.

Integers keep their low bits and are extended by their sign; f32 is truncated toward zero and clamped, NaN is 0; anything is
true that is not zero; a scalar fills the low words of a vector, zeros the rest; out of a vector come its low words.

Source: spec items 1.7 (casts) and 1.9.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from vyre_driver.backends.reference import floats
from vyre_driver.backends.reference.values import INTEGERS, VECTORS
from vyre_driver.ir.dtypes import DataType

if TYPE_CHECKING:
    from vyre_driver.backends.reference.values import Values


def cast(values: Values, source: DataType, target: DataType) -> Values:
    """Return values of type ``source`` as ``target``, a pair of the cast table."""
    if source == target:
        return values
    if target == DataType.Bool:
        return _truth(values, source)
    if target in VECTORS:
        return _to_vector(values, VECTORS[target])
    if source in VECTORS:
        words = values[:, : INTEGERS[target].itemsize // 4]
        return np.ascontiguousarray(words).view(INTEGERS[target])[:, 0]
    if target == DataType.F32:
        return values.astype(np.float32)
    if source == DataType.F32:
        return _truncated(values, target)
    return values.astype(INTEGERS[target])


def _truth(values: Values, source: DataType) -> Values:
    if source == DataType.F32:
        values = floats.flushed(values)
    truth = values != 0
    return np.asarray(truth.any(axis=1) if truth.ndim > 1 else truth)


def truth(values: Values) -> Values:
    """Return the truth of a condition, which is u32 or bool."""
    return values if values.dtype == np.bool_ else values != 0


def _to_vector(values: Values, count: int) -> Values:
    words = values if values.ndim == 2 else _words(values)
    result = np.zeros((len(values), count), np.uint32)
    shared = min(count, words.shape[1])
    result[:, :shared] = words[:, :shared]
    return result


def _words(values: Values) -> Values:
    whole = values.astype(np.uint32) if values.dtype == np.bool_ else np.ascontiguousarray(values)
    return whole.view(np.uint32).reshape(len(values), -1)


def _truncated(values: Values, target: DataType) -> Values:
    limits = np.iinfo(INTEGERS[target])
    wide = np.trunc(np.where(np.isnan(values), np.float32(0), values).astype(np.float64))
    return np.clip(wide, limits.min, limits.max).astype(np.int64).astype(INTEGERS[target])
