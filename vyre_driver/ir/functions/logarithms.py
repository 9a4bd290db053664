"""Logarithms, and the inverse hyperbolic functions that are made of them.

Source: Cephes 2.2 (logf, log10f: reduction and coefficients); fdlibm (log1p, asinh, acosh, atanh: how they are made of others).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_driver.ir.builders import cast, f32, select, sqrt, u32
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.functions.parts import (
    FRACTION,
    HALF,
    INF,
    NAN,
    ONE,
    ZERO,
    bits,
    choose,
    is_infinite,
    is_nan,
    is_zero,
    magnitude,
    of_bits,
    polynomial,
    power_of_two,
    sign,
    with_sign,
)

if TYPE_CHECKING:
    from vyre_driver.ir.arithmetic import Expr

_ROOT_OF_HALF = 0x3F35_04F3
_P = (
    *(7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1),
    *(-1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1),
)
_LN2_HIGH, _LN2_LOW, _LN2 = 0.693359375, -2.12194440e-4, 0.6931471805599453
_LOG10_2_HIGH, _LOG10_2_LOW = 3.0078125e-1, 2.48745663981195213739e-4
_LOG10_E_HIGH, _LOG10_E_LOW = 4.3359375e-1, 7.00731903251827651129e-4
_LARGE = 2.0**28  # from which x and the root of x * x + 1 are equal


def _reduced(x: Expr) -> tuple[Expr, Expr]:
    """Return k and m - 1 of a positive x that is 2^k * m, with m from the root of a half to that of 2."""
    moved = bits(x) + u32(0x3F80_0000 - _ROOT_OF_HALF)
    exponent = cast(DataType.F32, moved >> u32(23)) - f32(127.0)
    fraction = of_bits((moved & u32(FRACTION)) + u32(_ROOT_OF_HALF))
    return exponent, fraction - ONE


def _tail(f: Expr) -> Expr:
    """Return log(1 + f) - f + f * f / 2."""
    return f * (f * f) * polynomial(f, _P)


def _natural(k: Expr, f: Expr, correction: Expr = ZERO) -> Expr:
    """Return k * log(2) + log(1 + f), and a little more."""
    rest = _tail(f) + k * f32(_LN2_LOW) + correction - HALF * (f * f)
    return f + rest + k * f32(_LN2_HIGH)


def _edges(x: Expr, result: Expr) -> Expr:
    """Return the logarithm of x where it has one: of 0 it is -inf, and below a NaN."""
    return choose(
        (is_nan(x), NAN),
        (is_zero(x), with_sign(INF, u32(1 << 31))),
        (sign(x).ne(u32(0)), NAN),
        (is_infinite(x), INF),
        otherwise=result,
    )


def natural_of_large(x: Expr) -> Expr:
    """Return the natural logarithm of a normal positive number."""
    return _natural(*_reduced(x))


def log10(x: Expr) -> Expr:
    """Return the logarithm to base 10."""
    k, f = _reduced(x)
    rest = _tail(f) - HALF * (f * f)
    low = (f + rest) * f32(_LOG10_E_LOW) + rest * f32(_LOG10_E_HIGH) + f * f32(_LOG10_E_HIGH)
    return _edges(x, low + k * f32(_LOG10_2_LOW) + k * f32(_LOG10_2_HIGH))


def log1p(x: Expr) -> Expr:
    """Return log(1 + x).

    Near 0 nothing is added; elsewhere what the sum lost, over the sum, is added to the logarithm, to a tenth of its size.
    """
    total = ONE + x
    k, f = _reduced(total)
    lost = select(x >= ONE, ONE - (total - x), x - (total - ONE))
    near_inverse = ONE - f + f * f
    correction = lost * power_of_two(ZERO - k) * near_inverse
    is_near = k.eq(ZERO)
    small = _natural(ZERO, x)
    result = _edges(total, select(is_near, small, _natural(k, f, correction)))
    return select(is_zero(x), x, result)


def asinh(x: Expr) -> Expr:
    """Return the number whose hyperbolic sine is x."""
    a = magnitude(x)
    square = a * a
    small = log1p(a + square / (ONE + sqrt(square + ONE)))
    result = select(a > f32(_LARGE), natural_of_large(a) + f32(_LN2), small)
    return choose((is_nan(x), NAN), (is_infinite(x), x), otherwise=with_sign(result, sign(x)))


def acosh(x: Expr) -> Expr:
    """Return the positive number whose hyperbolic cosine is x."""
    t = x - ONE
    small = log1p(t + sqrt(f32(2.0) * t + t * t))
    large = choose((is_infinite(x), INF), otherwise=natural_of_large(x) + f32(_LN2))
    return choose((is_nan(x), NAN), (x < ONE, NAN), (x > f32(_LARGE), large), otherwise=small)


def atanh(x: Expr) -> Expr:
    """Return the number whose hyperbolic tangent is x."""
    a = magnitude(x)
    result = HALF * log1p(f32(2.0) * a / (ONE - a))
    return choose(
        (is_nan(x), NAN),
        (a > ONE, NAN),
        (a.eq(ONE), with_sign(INF, sign(x))),
        otherwise=with_sign(result, sign(x)),
    )
