"""f32 arithmetic: one NaN, no subnormals, every result rounded once to the nearest f32.

Operands and results are canonical: any NaN is 7FC00000 hex, and a subnormal is the zero of its sign. Values that are only moved
keep their bits. The functions that IEEE 754 does not require to be exact (sine, exponential, ...) are those of f64, rounded to
f32: the nearest f32 but for cases closer to a tie than f64 can tell.

Source: spec item 1.7, floats.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_driver.ir.operators import BinOp, UnOp

if TYPE_CHECKING:
    from collections.abc import Callable

    from vyre_driver.backends.reference.values import Values

NAN = np.array(0x7FC0_0000, np.uint32).view(np.float32)[()]
LEAST_NORMAL = np.float32(2.0**-126)
_ONE, _ZERO, _HALF = np.float32(1), np.float32(0), np.float32(0.5)


def flushed(values: Values) -> Values:
    """Return f32 values with zeros of their sign for subnormals."""
    small = np.abs(values) < LEAST_NORMAL
    return np.where(small, np.copysign(_ZERO, values), values) if small.any() else values


def canonical(values: Values) -> Values:
    """Return f32 values without subnormals and with one NaN."""
    values = flushed(values)
    nans = np.isnan(values)
    return np.where(nans, NAN, values) if nans.any() else values


def fma(a: Values, b: Values, c: Values) -> Values:
    """Return a * b + c of canonical f32 values, rounded once.

    The product of two f32 is exact in f64. The sum is rounded to odd there, that is to the neighbour with the odd last bit
    where it is not exact, and so the rounding to f32 sees on which side of a tie it lies.
    """
    product = a.astype(np.float64) * b.astype(np.float64)
    addend = c.astype(np.float64)
    total = np.asarray(product + addend)
    back = total - product
    error = (product - (total - back)) + (addend - back)
    bits = total.view(np.int64)
    inexact = (error != 0) & np.isfinite(error) & np.isfinite(total) & (bits & 1 == 0)
    step = np.where((error > 0) == (total > 0), 1, -1)
    odd = np.where(inexact, bits + step, bits).view(np.float64)
    return canonical(odd.astype(np.float32))


def _minimum(left: Values, right: Values) -> Values:
    return np.where(np.isnan(left) | (right < left), right, left)


def _maximum(left: Values, right: Values) -> Values:
    return np.where(np.isnan(left) | (right > left), right, left)


def _distance(left: Values, right: Values) -> Values:
    return np.asarray(np.abs(left - right))


def _rounded(values: Values) -> Values:
    """Return the nearest integers, of two the one farther from zero; adding a half first would round twice."""
    whole = np.trunc(values)
    away = np.abs(values - whole) >= _HALF
    return np.asarray(np.copysign(np.where(away, whole + np.copysign(_ONE, values), whole), values))


def _sign(values: Values) -> Values:
    return np.where(np.isnan(values), NAN, np.where(values == 0, _ZERO, np.copysign(_ONE, values)))


def _wide(function: Callable[[Any], Any]) -> Callable[[Values], Values]:
    def narrowed(values: Values) -> Values:
        return np.asarray(function(values.astype(np.float64)).astype(np.float32))

    return narrowed


BINARY: dict[BinOp, Callable[[Values, Values], Values]] = {
    BinOp.ADD: np.add,
    BinOp.SUB: np.subtract,
    BinOp.MUL: np.multiply,
    BinOp.DIV: np.divide,
    BinOp.MIN: _minimum,
    BinOp.MAX: _maximum,
    BinOp.ABS_DIFF: _distance,
}
UNARY: dict[UnOp, Callable[[Values], Values]] = {
    UnOp.NEGATE: np.negative,
    UnOp.ABS: np.abs,
    UnOp.SQRT: np.sqrt,
    UnOp.FLOOR: np.floor,
    UnOp.CEIL: np.ceil,
    UnOp.TRUNC: np.trunc,
    UnOp.ROUND: _rounded,
    UnOp.SIGN: _sign,
    UnOp.RECIPROCAL: lambda values: _ONE / values,
    UnOp.INVERSE_SQRT: lambda values: _ONE / np.sqrt(values),
    UnOp.COS: _wide(np.cos),
    UnOp.SIN: _wide(np.sin),
    UnOp.TAN: _wide(np.tan),
    UnOp.ACOS: _wide(np.arccos),
    UnOp.ASIN: _wide(np.arcsin),
    UnOp.ATAN: _wide(np.arctan),
    UnOp.EXP: _wide(np.exp),
    UnOp.EXP2: _wide(np.exp2),
    UnOp.LOG: _wide(np.log),
    UnOp.LOG2: _wide(np.log2),
    UnOp.SINH: _wide(np.sinh),
    UnOp.COSH: _wide(np.cosh),
    UnOp.TANH: _wide(np.tanh),
}
PREDICATES: dict[UnOp, Callable[[Values], Values]] = {
    UnOp.IS_NAN: np.isnan,
    UnOp.IS_INF: np.isinf,
    UnOp.IS_FINITE: np.isfinite,
}
