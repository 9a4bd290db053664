"""Whether a backend's outputs are those of the reference.

Everything but floats is equal bit for bit, f64 but for the sign of zeros and the bits of NaNs. f32 are within the tolerance of
the case; NaN is NaN, whatever its bits, unless strict; the sign of a zero does not count; where a backend says that it keeps
subnormals, they count as zeros.

Source: spec item 8; one of upstream's harnesses counts -0 and +0 one step apart, the other none: none here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from vyre_driver.binding.plan import BindingPlan
from vyre_driver.ir.dtypes import DataType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from vyre_driver.conformance.case import Case, Tolerance

_MAGNITUDE = np.uint32(0x7FFF_FFFF)
_LEAST_NORMAL = np.uint32(0x0080_0000)
_INFINITY = np.uint32(0x7F80_0000)


class Rules(NamedTuple):
    """How a backend asks to be judged: ``strict_nans`` compares the bits of NaNs, ``ignore_subnormals`` takes these for 0."""

    strict_nans: bool = False
    ignore_subnormals: bool = False


DEFAULT_RULES = Rules()


class Difference(NamedTuple):
    """The first element that differs: the output's name, the element, both values as text, and how many differ."""

    output: str
    element: int
    expected: str
    received: str
    differing: int

    def __str__(self) -> str:
        """Return one line."""
        others = f" ({self.differing} elements differ)" if self.differing > 1 else ""
        return f"{self.output}[{self.element}] is {self.received}, and should be {self.expected}{others}"


def difference(
    case: Case, expected: Sequence[NDArray[Any]], received: Sequence[NDArray[Any]], rules: Rules = DEFAULT_RULES
) -> Difference | None:
    """Return the first difference between two lists of outputs in the order of their bindings, None when they agree."""
    bindings = [one for one in BindingPlan.build(case.program).bindings if one.output_index is not None]
    if len(received) != len(expected):
        return Difference("outputs", 0, f"{len(expected)} arrays", f"{len(received)} arrays", 1)
    for binding, wanted, got in zip(bindings, expected, received, strict=True):
        if np.asarray(got).nbytes != wanted.nbytes:
            return Difference(binding.name, 0, f"{wanted.nbytes} bytes", f"{np.asarray(got).nbytes} bytes", 1)
        is_float = binding.data_type == DataType.F32 and wanted.nbytes % 4 == 0
        width = 8 if binding.data_type == DataType.F64 else 4 if is_float or wanted.nbytes % 4 == 0 else 1
        one, other = _words(wanted, width), _words(got, width)
        tolerance = case.tolerances.get(binding.name, case.tolerance)
        wrong = float_differences(one, other, tolerance, rules) if is_float else one != other
        if width == 8:
            wrong &= _are_numbers_that_differ(one.view(np.float64), other.view(np.float64))
        if wrong.any():
            place = int(np.argmax(wrong))
            element = place * width // max(1, binding.stride)
            should, found = (_spelled(words[place], is_float=is_float) for words in (one, other))
            return Difference(binding.name, element, should, found, int(wrong.sum()))
    return None


def _are_numbers_that_differ(one: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.bool_]:
    return np.asarray((one != other) & ~(np.isnan(one) & np.isnan(other)))


def _words(array: NDArray[Any], width: int) -> NDArray[Any]:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).view(f"<u{width}")


def _spelled(word: Any, *, is_float: bool) -> str:  # noqa: ANN401 -- a numpy scalar
    text = f"{int(word):#010x}"
    return f"{np.asarray(word).view(np.float32)[()]!s} ({text})" if is_float else f"{int(word)} ({text})"


def float_differences(
    expected: NDArray[np.uint32], received: NDArray[np.uint32], tolerance: Tolerance, rules: Rules = DEFAULT_RULES
) -> NDArray[np.bool_]:
    """Return where f32, given by their bits, are too far apart."""
    if rules.ignore_subnormals:
        expected, received = (np.where(one & _MAGNITUDE < _LEAST_NORMAL, np.uint32(0), one) for one in (expected, received))
    nans = [one & _MAGNITUDE > _INFINITY for one in (expected, received)]
    near = np.abs(ordered(expected) - ordered(received)) <= tolerance.ulps
    if tolerance.absolute:
        with np.errstate(all="ignore"):
            wide = [one.view(np.float32).astype(np.float64) for one in (expected, received)]
            near |= np.abs(wide[0] - wide[1]) <= tolerance.absolute
    same_nans = nans[0] & nans[1] & (expected == received if rules.strict_nans else True)
    return ~np.where(nans[0] | nans[1], same_nans, near)


def ordered(bits: NDArray[np.uint32]) -> NDArray[np.int64]:
    """Return f32 as integers in their order, neighbours one apart and both zeros 0."""
    magnitude = (bits & _MAGNITUDE).astype(np.int64)
    return np.where(bits > _MAGNITUDE, -magnitude, magnitude)
