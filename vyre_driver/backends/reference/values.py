"""The layout of a program's values in numpy arrays, one element an invocation.

An array is as long as there are active invocations, or has the one element that all of them share; none is ever changed in
place. A vector has an axis more. A bool is a numpy bool here and a u32 word in memory. Types that no arithmetic is defined on
(f16, f64, handles, ...) are carried as the unsigned words of their bits. Bytes are Python's, in an array of objects.

Source: spec items 1.1, 1.7 (which scalars are computed with).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from vyre_driver.errors import UnsupportedFeature
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.numpy_types import ElementForm, numpy_element

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
