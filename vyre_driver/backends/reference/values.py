"""A program's values in numpy arrays, one element an invocation: their layout, and casts between their types.

An array is as long as there are active invocations, or has the one element that all of them share; none is ever changed in
place. A vector has an axis more. A bool is a numpy bool here and a u32 word in memory. Types that no arithmetic is defined on
(f16, f64, handles, ...) are carried as the unsigned words of their bits. Bytes are Python's, in an array of objects.

In a cast, integers keep their low bits and are extended by their sign; f32 is truncated toward zero and clamped, NaN is 0;
anything is true that is not zero; a scalar fills the low words of a vector, zeros the rest; out of a vector come its low words.

Source: spec items 1.1, 1.7 (which scalars are computed with, casts) and 1.9.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from vyre_driver.backends.reference import arithmetic
from vyre_driver.errors import UnsupportedFeature
from vyre_driver.ir.dtypes import DataType, ElementForm, numpy_element

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Values = NDArray[Any]

VECTORS = {DataType.Vec2U32: 2, DataType.Vec4U32: 4}


class Layout(NamedTuple):
    """An element in memory: the numpy type of its words, little-endian, and how many there are along which axes."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]


def layout_of(dtype: DataType) -> Layout:
    """Return how elements of a type lie in memory; a bytes buffer is one of u8.

    Raises
    ------
    UnsupportedFeature
        If the elements have no bytes of their own: 4-bit numbers, and types without a size.
    """
    found = numpy_element(dtype)
    if found is None or found.packed:
        raise UnsupportedFeature(
            f"the reference interpreter has no elements of type {dtype}",
            fix="use elements that are whole bytes and of one size",
            dtype=str(dtype),
        )
    base = found.dtype.base
    if found.form is ElementForm.ML_DTYPES or (base.kind == "f" and dtype != DataType.F32):
        base = np.dtype(f"<u{base.itemsize}")
    return Layout(base, found.dtype.shape)


def word_of(dtype: DataType) -> np.dtype[Any]:
    """Return the numpy type of values of a type."""
    if dtype == DataType.Bool:
        return np.dtype(np.bool_)
    return np.dtype(object) if dtype == DataType.Bytes else layout_of(dtype).dtype


def spread(values: Values, count: int) -> Values:
    """Return one value for each of ``count`` invocations."""
    return values if len(values) == count else np.broadcast_to(values, (count, *values.shape[1:]))


_WHOLE = (DataType.U8, DataType.U16, DataType.U32, DataType.U64, DataType.I8, DataType.I16, DataType.I32, DataType.I64)
INTEGERS = {one: layout_of(one).dtype for one in _WHOLE}


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
        values = arithmetic.flushed(values)
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
