"""The numbers of products in numpy: their types, float64 of them, and what becomes of sums."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_driver.errors import InvalidInput
from vyre_driver.ir.dtypes import DataType, numpy_element
from vyre_driver.matrices.elements import BF16, F16, F32, ElementType
from vyre_driver.matrices.epilogue import ERF_COEFFICIENTS, ERF_P

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import DTypeLike, NDArray

    Numbers = NDArray[np.float64]

FLOATS = {one.name: one for one in (F16, BF16, F32)}
_DTYPES = {"float16": np.float16, "float32": np.float32, "sint8": np.int8, "sint32": np.int32}
_BFLOAT16 = "bfloat16"
_BITS = np.dtype(np.uint16)


def dtype_of(element: ElementType) -> np.dtype[Any]:
    """Return numpy's type; of bfloat16 that of ml_dtypes, and unsigned words of 16 bits where that is not installed."""
    if not element.is_bfloat:
        return np.dtype(_DTYPES[element.name])
    found = numpy_element(DataType.BF16)
    return _BITS if found is None else found.dtype


def element_of(dtype: DTypeLike, known: dict[str, ElementType], what: str) -> ElementType:
    """Return the type that a name or a type of numpy or ml_dtypes means; raises InvalidInput if it is none of those known."""
    try:
        name = dtype if isinstance(dtype, str) and dtype in known else str(np.dtype(dtype).name)
    except (TypeError, ValueError):  # no type at all
        name = dtype if isinstance(dtype, str) else repr(dtype)
    if name in known:
        return known[name]
    names = ", ".join(known)
    raise InvalidInput(f"there is no such kernel with {what} of {name}", fix=f"give one of {names}", parameter=what)


def name_of(element: ElementType) -> str:
    """Return what numpy calls a type."""
    return _BFLOAT16 if element.is_bfloat else np.dtype(_DTYPES[element.name]).name


def check_element(kernel: str, name: str, dtype: np.dtype[Any], element: ElementType, others: np.dtype[Any]) -> None:
    """Check that an array of a call holds such numbers, of bfloat16 as the others do; raises InvalidInput otherwise."""
    if not is_of(dtype, element):
        raise InvalidInput(
            f"{name} of {kernel} is of {dtype}, and must be of {name_of(element)}",
            fix="convert it with .astype(), or take the kernel of its type",
            binding=name,
        )
    if dtype != others:  # of one type there are two only of bfloat16
        raise InvalidInput(
            f"{name} of {kernel} is of {dtype}, and must be of {others}: bfloat16 is bits in all arrays of a call, or in none",
            fix=f"give {name}.view({others})",
            binding=name,
        )


def is_of(dtype: np.dtype[Any], element: ElementType) -> bool:
    """Whether arrays of a type hold such numbers; bfloat16 may be bits."""
    return dtype.name == _BFLOAT16 or dtype == _BITS if element.is_bfloat else dtype == _DTYPES[element.name]


def as_float64(array: NDArray[Any], element: ElementType) -> Numbers:
    """Return the numbers of an array."""
    if element.is_bfloat and array.dtype == _BITS:
        array = (array.astype(np.uint32) << 16).view(np.float32)
    with np.errstate(invalid="ignore"):  # at a signalling NaN, which some CPUs raise
        return array.astype(np.float64)


def rounded(given: Numbers, element: ElementType, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return numbers as an array of a type that holds such; they are rounded to float32 before bfloat16."""
    with np.errstate(over="ignore", invalid="ignore"):  # invalid is a signalling NaN
        if not (element.is_bfloat and dtype == _BITS):
            return given.astype(dtype)
        bits = given.astype(np.float32).view(np.uint32)
    near = (bits + (0x7FFF + (bits >> 16 & 1))) >> 16
    return np.where(np.isnan(given), bits >> 16 | 0x40, near).astype(np.uint16)


def _relu(x: Numbers) -> Numbers:
    return np.where(x < 0, 0.0, x)


def _silu(x: Numbers) -> Numbers:
    found: Numbers = x / (1 + np.exp(-x))
    return found


def _gelu(x: Numbers) -> Numbers:
    size = np.abs(x) * math.sqrt(0.5)
    t = 1 / (1 + ERF_P * size)
    rest = np.polyval([*ERF_COEFFICIENTS[::-1], 0.0], t) * np.exp(-size * size)
    found: Numbers = 0.5 * x * np.where(x < 0, rest, 2 - rest)
    return found


ACTIVATION_FUNCTIONS: dict[str | None, Callable[[Numbers], Numbers]] = {
    None: lambda x: x,
    "relu": _relu,
    "silu": _silu,
    "gelu": _gelu,
}
