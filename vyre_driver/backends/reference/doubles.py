"""Operators on f64, which are carried as words of their bits: IEEE 754's, with subnormals and one NaN, each rounded once.

Source: docs/ir.md, "Operators of this package".
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from vyre_driver.backends.reference import floats
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
    "min<f64>": _on_numbers(floats.BINARY[BinOp.MIN]),
    "max<f64>": _on_numbers(floats.BINARY[BinOp.MAX]),
    "negate<f64>": _on_numbers(np.negative),
    "abs<f64>": _on_numbers(np.abs),
    "sqrt<f64>": _on_numbers(np.sqrt),
    "floor<f64>": _on_numbers(np.floor),
    "ceil<f64>": _on_numbers(np.ceil),
    "trunc<f64>": _on_numbers(np.trunc),
    "fma<f64>": _on_numbers(_fma),
    "f32_to_f64": lambda values: _from(floats.flushed(values)),
    "f64_to_f32": lambda bits: floats.canonical(numbers(bits).astype(np.float32)),
    **{f"{name}_to_f64": _from for name in ("u32", "i32", "u64", "i64")},
    "f64_to_u32": _cut_bits(np.uint32),
    "f64_to_i32": _cut_bits(np.int32),
    "f64_to_u64": _cut_bits(np.uint64),
    "f64_to_i64": _cut_bits(np.int64),
}
"""What computes each, by its name."""
