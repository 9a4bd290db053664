"""Exponentials, and the error function, which is made of one.

Source: Cephes 2.2 (expf, exp10f: reduction and coefficients); N. Juffa's erff (public domain) for the error function.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_driver.ir.builders import f32, maximum, minimum, select
from vyre_driver.ir.functions.parts import (
    HALF,
    INF,
    NAN,
    ONE,
    ZERO,
    choose,
    floor,
    is_nan,
    magnitude,
    polynomial,
    power_of_two,
    scaled,
    sign,
    with_sign,
)

if TYPE_CHECKING:
    from vyre_driver.ir.arithmetic import Expr

_P = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)
_P10 = (
    *(2.063216740311022e-1, 5.420251702225484e-1, 1.171292686296281, 2.034649854009453, 2.650948748208892),
    *(2.302585167056758, 1.0),
)
_LOG2_E, _LN2_HIGH, _LN2_LOW = 1.44269504088896341, 0.693359375, -2.12194440e-4
_LOG2_10, _LOG10_2_HIGH, _LOG10_2_LOW = 3.32192809488736234787, 3.0078125e-1, 2.48745663981195213739e-4
_MOST, _MOST10, _LEAST10 = 88.72283935546875, 38.53183937072754, -37.92977945366162
_TWO_OVER_ROOT_PI = 1.1283791670955126
_NEAR_ERF = (-5.96761703e-4, 4.99119423e-3, -2.67681349e-2, 1.12819925e-1, -3.76125336e-1, 1.28379166e-1)


def _reduced(x: Expr) -> tuple[Expr, Expr]:
    """Return k and r of x = k * log(2) + r, with r no greater than half of log(2)."""
    k = floor(f32(_LOG2_E) * x + HALF)
    return k, x - k * f32(_LN2_HIGH) - k * f32(_LN2_LOW)


def _less_one(r: Expr) -> Expr:
    """Return exp(r) - 1 of a small number."""
    return polynomial(r, _P) * (r * r) + r


def _exp(x: Expr) -> Expr:
    """Return the exponential of a number from -80 to 88."""
    k, r = _reduced(x)
    return scaled(_less_one(r) + ONE, k)


def expm1(x: Expr) -> Expr:
    """Return exp(x) - 1."""
    within = minimum(maximum(x, f32(-18.0)), f32(_MOST))
    k, r = _reduced(within)
    part = _less_one(r)
    inverse = power_of_two(minimum(ZERO - k, f32(127.0)))
    inverse = select(k > f32(126.0), ZERO, inverse)  # 2^-127 is a subnormal, and too small to count
    large = scaled(part + (ONE - inverse), k)
    result = select(k.eq(ZERO), part, large)
    return choose((is_nan(x), NAN), (x > f32(_MOST), INF), (is_small(x), x), otherwise=result)


def is_small(x: Expr) -> Expr:
    """Return whether a number is so small that exp(x) - 1 and the like are the number itself."""
    return magnitude(x) < f32(2.0**-25)


def exp10(x: Expr) -> Expr:
    """Return 10 to this power."""
    within = minimum(maximum(x, f32(_LEAST10)), f32(_MOST10))
    k = floor(f32(_LOG2_10) * within + HALF)
    r = within - k * f32(_LOG10_2_HIGH) - k * f32(_LOG10_2_LOW)
    result = scaled(polynomial(r, _P10), k)
    return choose((is_nan(x), NAN), (x > f32(_MOST10), INF), (x < f32(_LEAST10), ZERO), otherwise=result)


def erf(x: Expr) -> Expr:
    """Return the error function."""
    t, s = magnitude(x), x * x
    near = polynomial(s, _NEAR_ERF) * x + x
    upper = f32(-1.72853470e-5) * t + f32(3.83197126e-4)
    lower = f32(-3.88396438e-3) * t + f32(2.42546219e-2)
    r = upper * s + lower
    for one in (-1.06777877e-1, -6.34846687e-1, -1.28717512e-1):
        r = r * t + f32(one)
    far = with_sign(ONE - _exp(maximum(r * t - t, f32(-80.0))), sign(x))
    saturated = with_sign(ONE, sign(x))
    tiny = x * f32(_TWO_OVER_ROOT_PI)  # of which the polynomial's part may be a subnormal
    return choose(
        (is_nan(x), NAN),
        (t > f32(4.0), saturated),
        (t > f32(0.921875), far),
        (t < f32(2.0**-60), tiny),
        otherwise=near,
    )
