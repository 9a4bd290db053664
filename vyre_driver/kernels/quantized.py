"""Weights as integers of 4 or 8 bits, with a float16 scale for each group of them in a row: made of floats, and read again.

Of two weights of 4 bits in a byte the first is in the lower half, each as its number plus 8. Weights of 8 bits are int8.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_driver.binding.arguments import as_array
from vyre_driver.binding.tensors import is_tensor
from vyre_driver.checks import integer
from vyre_driver.errors import InvalidInput

if TYPE_CHECKING:
    from numpy.typing import NDArray

GROUP_MULTIPLE = 32
"""A group has a multiple of so many weights: as many of 4 bits as 16 bytes hold."""

_FLOATS = tuple(np.dtype(one) for one in (np.float32, np.float16, np.float64))
_USUAL_GROUPS = (32, 64, 128)
_SHIFT, _LOWER, _MIDDLE = 4, 0xF, 8


@dataclass(frozen=True, slots=True)
class WeightFormat:
    """How weights are stored: from ``-most - 1`` to ``most``, ``per_byte`` of them in a byte; ``function`` makes them."""

    function: str
    dtype: np.dtype[Any]
    per_byte: int
    most: int

    def packed(self, numbers: NDArray[np.int8]) -> NDArray[Any]:
        """Return (n, k) numbers as they are stored."""
        if self.per_byte == 1:
            return numbers
        raised = (numbers + np.int8(_MIDDLE)).view(np.uint8)
        return raised[:, 0::2] | raised[:, 1::2] << _SHIFT

    def unpacked(self, stored: NDArray[Any]) -> NDArray[np.int8]:
        """Return the (n, k) numbers of what is stored."""
        if self.per_byte == 1:
            return stored
        pairs = np.stack([stored & _LOWER, stored >> _SHIFT], axis=2)
        return pairs.reshape(len(stored), -1).view(np.int8) - np.int8(_MIDDLE)

    def numbers(self, stored: NDArray[Any], scales: NDArray[np.float16]) -> NDArray[np.float64]:
        """Return the (n, k) weights times their scales; some rows are one or more."""
        found, groups = self.unpacked(stored).astype(np.float64), scales.shape[1]
        grouped = found.reshape(len(found), groups, found.shape[1] // groups)
        grouped *= scales.astype(np.float64)[:, :, np.newaxis]
        return found

    def quantized(self, weight: NDArray[Any], group: int) -> tuple[NDArray[Any], NDArray[np.float16]]:
        """Return weights as they are stored and their scales; as ``quantized_int4``."""
        if is_tensor(weight):
            weight = as_array(weight, f"the weight of {self.function}")
            weight = weight.astype(np.float32) if weight.dtype.name == "bfloat16" else weight  # exact
        self._check(weight, group)
        grouped = weight.reshape(len(weight), weight.shape[1] // group, group).astype(np.float64)
        largest = np.abs(grouped).max(axis=2, initial=0, keepdims=True)
        with np.errstate(over="ignore", under="ignore"):
            scales = (largest / self.most).astype(np.float16)
        if not np.isfinite(scales).all():
            at = np.unravel_index(int(np.argmax(np.abs(weight))), weight.shape)
            raise self._refused(
                f"has {weight[at]} at {tuple(map(int, at))}, and a scale of float16 reaches to {self.most * 65504}",
                "scale the weights down, and what is computed with them up",
            )
        grouped /= np.where(scales == 0, 1, scales).astype(np.float64)
        numbers = np.where(scales == 0, 0, np.rint(grouped).clip(-self.most, self.most)).astype(np.int8)
        return self.packed(numbers.reshape(weight.shape)), scales[:, :, 0]

    def _check(self, weight: NDArray[Any], group: int) -> None:
        if not isinstance(weight, np.ndarray) or weight.ndim != 2 or weight.dtype not in _FLOATS:
            is_array = isinstance(weight, np.ndarray)
            told = (
                f"has the shape {weight.shape} and the type {weight.dtype}"
                if is_array
                else f"is of type {type(weight).__name__}"
            )
            raise self._refused(
                f"{told}, and must be a matrix of float32, float16 or float64",
                "pass an array of two dimensions, converted with .astype(numpy.float32)",
            )
        size, columns = integer(group), weight.shape[1]
        if size is None or size <= 0 or size % GROUP_MULTIPLE or columns % size or not columns:
            raise InvalidInput(
                f"the group of {self.function} is {group!r}, and must be a multiple of {GROUP_MULTIPLE} that divides the "
                f"{columns} columns of the weights",
                fix=_group_fix(columns),
                group=group,
            )
        if not np.isfinite(weight).all():
            at = np.argwhere(~np.isfinite(weight))[0]
            raise self._refused(
                f"has {weight[tuple(at)]} at {tuple(map(int, at))}, and a scale makes only finite numbers",
                "pass finite weights",
            )

    def _refused(self, problem: str, fix: str) -> InvalidInput:
        return InvalidInput(f"the weight of {self.function} {problem}", fix=fix)


def _group_fix(columns: int) -> str:
    """Return what helps where a group does not divide so many columns."""
    fits = [str(one) for one in _USUAL_GROUPS if columns and columns % one == 0]
    if fits:
        return f"give {' or '.join(fits)}"
    return f"append columns of zeros to the weights, to {max(-(-columns // GROUP_MULTIPLE), 1) * GROUP_MULTIPLE} of them"


INT4 = WeightFormat("quantized_int4", np.dtype(np.uint8), 2, 7)
INT8 = WeightFormat("quantized_int8", np.dtype(np.int8), 1, 127)


def quantized_int4(weight: NDArray[Any], group: int = GROUP_MULTIPLE) -> tuple[NDArray[np.uint8], NDArray[np.float16]]:
    """Return weights (n, k) as bytes of two (n, k / 2) and their scales (n, k / group), as ``linear_int4`` takes them.

    A scale is the largest magnitude of its group divided by 7, rounded to float16, and each weight the nearest multiple of it
    from -7 to 7; ties go to the even one. A group whose scale rounds to 0 becomes zeros.

    Parameters
    ----------
    weight
        A matrix of float16, float32 or float64, all of its numbers finite: an array, or a tensor of PyTorch on the CPU, which
        may be of bfloat16 too where ml_dtypes is installed.
    group
        How many weights of a row have a scale in common: a multiple of 32 that divides k; k is one scale a row.

    Raises
    ------
    InvalidInput
        If the weights or the group are not so, or a scale is above 65504.
    """
    return INT4.quantized(weight, group)


def quantized_int8(weight: NDArray[Any], group: int = GROUP_MULTIPLE) -> tuple[NDArray[np.int8], NDArray[np.float16]]:
    """Return weights (n, k) as int8 and their scales (n, k / group), as ``linear_int8`` takes them.

    As ``quantized_int4``, with 127 in the place of 7.

    Raises
    ------
    InvalidInput
        As ``quantized_int4``.
    """
    return INT8.quantized(weight, group)
