"""The operators that this package adds to the IR, on values of many invocations.

f64 are carried as words of their bits: IEEE 754's, with subnormals and one NaN, each rounded once.

Source: docs/ir.md, "Operators of this package".
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from vyre_driver.backends.reference import arithmetic
from vyre_driver.backends.reference.arithmetic import NAN, canonical, flushed
from vyre_driver.ir.operators import BinOp

if TYPE_CHECKING:
    from collections.abc import Callable

    from vyre_driver.backends.reference.values import Values


_NAN = np.uint64(0x7FF8 << 48)


def numbers(bits: Values) -> Values:
    """Return words as the f64 that they are."""
    return np.ascontiguousarray(bits).view(np.float64)


def _on_numbers(function: Callable[..., Values]) -> Callable[..., Values]:
    return lambda *bits: _held(function(*map(numbers, bits)))


def _held(values: Values) -> Values:
    """Return the words of f64, of NaNs those of the one NaN."""
    return np.where(np.isnan(values), _NAN, np.ascontiguousarray(values).view(np.uint64))


def _fma(a: Values, b: Values, c: Values) -> Values:
    every = np.broadcast_arrays(a, b, c)
    return np.array([_fused(*one) for one in zip(*(one.tolist() for one in every), strict=True)], np.float64)


def _fused(a: float, b: float, c: float) -> float:
    """Return a * b + c, rounded once: in whole numbers, where all are finite and the sum is not 0."""
    if not (math.isfinite(a) and math.isfinite(b)):
        return float(np.float64(a) * np.float64(b) + np.float64(c))
    if not math.isfinite(c):
        return c
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if not exact:
        return a * b + c
    try:
        return exact.numerator / exact.denominator
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def cut(dtype: type[np.uint32 | np.int32 | np.uint64 | np.int64]) -> Callable[[Values], Values]:
    """Return what cuts f64 to whole numbers of a type: clamped, 0 for a NaN."""
    limits = np.iinfo(dtype)
    above = limits.max + 1  # a power of two, which f64 has

    def cut_all(values: Values) -> Values:
        whole = np.trunc(np.where(np.isnan(values), 0.0, values))
        inside = (whole >= limits.min) & (whole < above)
        found = np.where(inside, whole, 0.0).astype(dtype)
        return np.where(inside, found, np.where(whole < 0, dtype(limits.min), dtype(limits.max)))

    return cut_all


def _cut_bits(dtype: type[np.uint32 | np.int32 | np.uint64 | np.int64]) -> Callable[[Values], Values]:
    whole = cut(dtype)
    return lambda bits: whole(numbers(bits))


def _from(values: Values) -> Values:
    return _held(values.astype(np.float64))


DOUBLES: dict[str, Callable[..., Values]] = {
    "add<f64>": _on_numbers(np.add),
    "sub<f64>": _on_numbers(np.subtract),
    "mul<f64>": _on_numbers(np.multiply),
    "div<f64>": _on_numbers(np.divide),
    "min<f64>": _on_numbers(arithmetic.FLOAT_BINARY[BinOp.MIN]),
    "max<f64>": _on_numbers(arithmetic.FLOAT_BINARY[BinOp.MAX]),
    "negate<f64>": _on_numbers(np.negative),
    "abs<f64>": _on_numbers(np.abs),
    "sqrt<f64>": _on_numbers(np.sqrt),
    "floor<f64>": _on_numbers(np.floor),
    "ceil<f64>": _on_numbers(np.ceil),
    "trunc<f64>": _on_numbers(np.trunc),
    "fma<f64>": _on_numbers(_fma),
    "f32_to_f64": lambda values: _from(arithmetic.flushed(values)),
    "f64_to_f32": lambda bits: arithmetic.canonical(numbers(bits).astype(np.float32)),
    **{f"{name}_to_f64": _from for name in ("u32", "i32", "u64", "i64")},
    "f64_to_u32": _cut_bits(np.uint32),
    "f64_to_i32": _cut_bits(np.int32),
    "f64_to_u64": _cut_bits(np.uint64),
    "f64_to_i64": _cut_bits(np.int64),
}
"""What computes each, by its name."""


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
