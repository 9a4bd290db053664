"""Roots and angles: the hypotenuse, the cube root, and the angle of a point.

Source: N. Juffa's atan2f (public domain: the minimax polynomial); IEEE 754-2019, 9.2.1 (special cases).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_driver.ir.builders import f32, maximum, minimum, select, sqrt, u32
from vyre_driver.ir.functions.parts import (
    FRACTION,
    INF,
    INFINITY,
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
    quotient,
    sign,
    size,
    with_sign,
)

if TYPE_CHECKING:
    from vyre_driver.ir.arithmetic import Expr

_ATAN = (
    *(2.78569828e-3, -1.58660226e-2, 4.24722321e-2, -7.49753043e-2, 1.06448799e-1),
    *(-1.42070308e-1, 1.99934542e-1, -3.33331466e-1),
)
_PI, _PI_LOW, _HALF_PI = 3.14159274101257324, -8.74227766e-8, 1.57079637050628662
_INVERSE_ROOT = 0x54A2_FA8C  # less a third of the bits of x: about one over the cube root of x
_THIRD = 1.0 / 3.0


def copysign(x: Expr, y: Expr) -> Expr:
    """Return the magnitude of x with the sign of y."""
    return with_sign(x, sign(y))


def hypot(x: Expr, y: Expr) -> Expr:
    """Return the root of x * x + y * y, of numbers that are scaled by the greater one's power of two."""
    most = of_bits(maximum(size(x), size(y)))
    least = of_bits(minimum(size(x), size(y)))
    exponent = minimum(maximum(size(most) >> u32(23), u32(2)), u32(252))
    inverse = of_bits((u32(254) - exponent) << u32(23))
    a, b = most * inverse, least * inverse
    result = sqrt(a * a + b * b) * of_bits(exponent << u32(23))
    infinite = is_infinite(x).or_(is_infinite(y))
    return choose((infinite, INF), (size(most) > u32(INFINITY), NAN), otherwise=result)


def cbrt(x: Expr) -> Expr:
    """Return the cube root: of a number from 1 to 8, by Newton's method for its inverse, and a last step for the root."""
    exponent = (size(x) >> u32(23)) + u32(2)
    third = exponent / u32(3)
    rest = exponent - third * u32(3)
    m = of_bits((bits(x) & u32(FRACTION)) | ((rest + u32(127)) << u32(23)))
    y = of_bits(u32(_INVERSE_ROOT) - bits(m) / u32(3))
    for _ in range(4):
        y = y + y * ((ONE - m * y * (y * y)) * f32(_THIRD))
    square = y * y
    t = m * square
    t = t - (t * t * t - m) * square * f32(_THIRD)
    result = with_sign(t * of_bits((third + u32(127 - 43)) << u32(23)), sign(x))
    return choose((is_nan(x), NAN), (is_infinite(x).or_(is_zero(x)), x), otherwise=result)


def atan2(y: Expr, x: Expr) -> Expr:
    """Return the angle of the point (x, y), from -pi to pi."""
    a, b = magnitude(y), magnitude(x)
    is_steep = a > b
    most, least = select(is_steep, a, b), select(is_steep, b, a)
    ratio = choose((is_zero(most), ZERO), (is_infinite(least), ONE), otherwise=quotient(least, most))
    s = ratio * ratio
    angle = polynomial(s, _ATAN) * s * ratio + ratio
    angle = select(is_steep, f32(_HALF_PI) - (angle - f32(_PI_LOW / 2.0)), angle)
    is_left = sign(x).ne(u32(0))
    angle = select(is_left, f32(_PI) - (angle - f32(_PI_LOW)), angle)
    return choose((is_nan(x).or_(is_nan(y)), NAN), otherwise=with_sign(angle, sign(y)))
