"""The operators that this package adds to the IR, on values of many invocations.

Source: docs/ir.md, "Operators of this package".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from vyre_driver.backends.reference.doubles import DOUBLES, cut
from vyre_driver.backends.reference.floats import NAN, canonical, flushed

if TYPE_CHECKING:
    from collections.abc import Callable

    from vyre_driver.backends.reference.values import Values


def _bits_as(dtype: str) -> Callable[[Values], Values]:
    return lambda values: np.ascontiguousarray(values).view(dtype)


def _from_f16(bits: Values) -> Values:
    values = bits.astype(np.uint16).view(np.float16).astype(np.float32)
    return np.where(np.isnan(values), NAN, values)


def _to_f16(values: Values) -> Values:
    return np.where(np.isnan(values), np.uint16(0x7E00), values.astype(np.float16).view(np.uint16))


def _from_bf16(bits: Values) -> Values:
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def _to_bf16(values: Values) -> Values:
    """Return the upper halves; half of the lower one is added, less one where the upper is even, which carries over a half."""
    bits = np.ascontiguousarray(values).view(np.uint32)
    sixteen, one = np.uint32(16), np.uint32(1)
    rounded = (bits + np.uint32(0x7FFF) + (bits >> sixteen & one)) >> sixteen
    return np.where(np.isnan(values), np.uint16(0x7FC0), rounded.astype(np.uint16))


def _as_words(function: Callable[[Values], Values]) -> Callable[[Values], Values]:
    return lambda values: function(values).astype(np.uint32)


def _quotient(left: Values, right: Values) -> Values:
    """Return quotients rounded to zero, 0 where the divisor is zero; the least number by -1 wraps."""
    rest = _remainder(left, right)
    return np.where(right == 0, np.zeros(1, left.dtype), (left - rest) // _safe(left, right))


def _remainder(left: Values, right: Values) -> Values:
    """Return remainders with the sign of the dividend, 0 where the divisor is zero."""
    return np.where(right == 0, np.zeros(1, left.dtype), np.fmod(left, _safe(left, right)))


def _safe(left: Values, right: Values) -> Values:
    """Return divisors that every dividend has a quotient by: 1 for 0, and for -1 under the least number, which it is itself."""
    least = np.iinfo(left.dtype).min
    wraps = (left == least) & (right == -1) if least else np.zeros(1, np.bool_)
    return np.where((right == 0) | wraps, np.ones(1, left.dtype), right)


def _shifted_left(left: Values, right: Values) -> Values:
    count = right.astype(np.uint64) & np.uint64(63)
    return (left.view(np.uint64) << count).view(left.dtype)


def _shifted_right(left: Values, right: Values) -> Values:
    return np.asarray(left >> (right & np.uint32(63)).astype(left.dtype))


def _nearest_f32(values: Values) -> Values:
    return values.astype(np.float32)


def _to_whole(dtype: type[np.uint64 | np.int64]) -> Callable[[Values], Values]:
    whole = cut(dtype)
    return lambda values: whole(values.astype(np.float64))


_OF_WIDE: dict[str, Callable[..., Values]] = {
    "mul": np.multiply,
    "div": _quotient,
    "mod": _remainder,
    "bit_and": np.bitwise_and,
    "bit_or": np.bitwise_or,
    "bit_xor": np.bitwise_xor,
    "min": np.minimum,
    "max": np.maximum,
    "shl": _shifted_left,
    "shr": _shifted_right,
}
FUNCTIONS: dict[str, Callable[..., Values]] = {
    "bitcast<u32>": _bits_as("<u4"),
    "bitcast<i32>": _bits_as("<i4"),
    "bitcast<f32>": _bits_as("<f4"),
    "bitcast<u64>": _bits_as("<u8"),
    "bitcast<i64>": _bits_as("<i8"),
    "bitcast<f64>": _bits_as("<u8"),  # which is carried as its words
    "f16_to_f32": _from_f16,
    "bf16_to_f32": _from_bf16,
    "f32_to_f16": _to_f16,
    "f32_to_bf16": _to_bf16,
    "unpack_f16": _from_f16,
    "unpack_bf16": _from_bf16,
    "pack_f16": _as_words(_to_f16),
    "pack_bf16": _as_words(_to_bf16),
    **{f"{name}<{wide}>": function for wide in ("u64", "i64") for name, function in _OF_WIDE.items()},
    "add<i64>": np.add,
    "sub<i64>": np.subtract,
    "u64_to_f32": _nearest_f32,
    "i64_to_f32": _nearest_f32,
    "f32_to_u64": _to_whole(np.uint64),
    "f32_to_i64": _to_whole(np.int64),
    "round_half_even": lambda values: canonical(np.rint(flushed(values))),
    "fmod": lambda left, right: canonical(np.fmod(flushed(left), flushed(right))),
    **DOUBLES,
}
"""What computes each but for those that have a body, by its name."""
