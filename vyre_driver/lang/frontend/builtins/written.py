"""Functions of numbers that are written in the language itself: a kernel that calls one has these lines.

They are operators that stand as functions, of ``operator`` and numpy, and builtins.
"""

# ruff: noqa: ANN001, ANN201, ANN202, D103 -- of numbers of several types; operators do what their names say
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from vyre_driver.lang.frontend.builtins.own import fma
from vyre_driver.lang.frontend.intrinsics import bitcast, select
from vyre_driver.lang.types import f32, i32, u32


def add(a, b):
    return a + b


def subtract(a, b):
    return a - b


def multiply(a, b):
    return a * b


def divide(a, b):
    return a / b


def floor_divide(a, b):
    return a // b


def remainder(a, b):
    return a % b


def power(a, b):
    return a**b


def bitwise_and(a, b):
    return a & b


def bitwise_or(a, b):
    return a | b


def bitwise_xor(a, b):
    return a ^ b


def left_shift(a, b):
    return a << b


def right_shift(a, b):
    return a >> b


def logical_and(a, b):
    return bool(a) and bool(b)


def logical_or(a, b):
    return bool(a) or bool(b)


def logical_xor(a, b):
    return bool(a) != bool(b)


def logical_not(a):
    return not bool(a)


def equal(a, b):
    return a == b


def not_equal(a, b):
    return a != b


def less(a, b):
    return a < b


def less_equal(a, b):
    return a <= b


def greater(a, b):
    return a > b


def greater_equal(a, b):
    return a >= b


def negative(a):
    return -a


def positive(a):
    return +a


def invert(a):
    return ~a


def square(a):
    return a * a


def minimum(a, b):
    return np.minimum(a, b)


def maximum(a, b):
    return np.maximum(a, b)


def least(a, b):
    return min(a, b)


def greatest(a, b):
    return max(a, b)


_OF_NUMPY = (
    *(add, subtract, multiply, divide, floor_divide, remainder, power, square, negative, positive, invert),
    *(bitwise_and, bitwise_or, bitwise_xor, left_shift, right_shift, logical_and, logical_or, logical_xor, logical_not),
    *(equal, not_equal, less, less_equal, greater, greater_equal, minimum, maximum),
)
_WRITTEN: dict[object, Any] = {
    **{getattr(np, one.__name__): one for one in _OF_NUMPY},
    **dict.fromkeys((min, np.fmin), least),
    **dict.fromkeys((max, np.fmax), greatest),
    operator.add: add,
    operator.sub: subtract,
    operator.mul: multiply,
    operator.truediv: divide,
    operator.floordiv: floor_divide,
    operator.mod: remainder,
    operator.pow: power,
    operator.and_: bitwise_and,
    operator.or_: bitwise_or,
    operator.xor: bitwise_xor,
    operator.lshift: left_shift,
    operator.rshift: right_shift,
    operator.not_: logical_not,
    operator.eq: equal,
    operator.ne: not_equal,
    operator.lt: less,
    operator.le: less_equal,
    operator.gt: greater,
    operator.ge: greater_equal,
    operator.neg: negative,
    operator.pos: positive,
    operator.invert: invert,
}


def as_written(function: Any) -> Any:  # noqa: ANN401 -- whatever is called
    """Return a function, which for an operator is one that is written in Python."""
    try:
        return _WRITTEN.get(function, function)
    except TypeError:  # nothing without a hash is an operator
        return function


def radians(x):
    """Return an angle in degrees in radians."""
    return x * (math.pi / 180)


def degrees(x):
    """Return an angle in radians in degrees."""
    return x * (180 / math.pi)


def signbit(x):
    """Return whether the sign bit is set."""
    return bitcast(u32, f32(x)) >> 31 != 0


def heaviside(x, at_zero):
    """Return 0 below 0, 1 above, and a value of the caller's at 0."""
    return select(x > 0, 1.0, select(x < 0, 0.0, select(x == 0, at_zero, x)))


def logaddexp(x, y):
    """Return log(exp(x) + exp(y)), as the greater and what the lesser adds to it."""
    x, y = f32(x), f32(y)  # as plain Python calls it they may be whole, and a difference would wrap
    distance = select(x == y, 0.0, abs(x - y))  # the difference of equal infinities is NaN
    lesser = 1.0 / (1.0 + np.expm1(distance))  # exp(-distance); np.exp is as exact as the device makes it
    return max(x, y) + np.log1p(lesser)


def isqrt(n):
    """Return the root rounded down: the root of an f32 is at most one off."""
    word = u32(max(n, 0))
    root = min(u32(math.sqrt(f32(word))), 65535)
    square = root * root
    return i32(select(square > word, root - 1, select(word - square > 2 * root, root + 1, root)))


def gcd(a, b):
    """Return the greatest common divisor, by Euclid."""
    a, b = max(abs(a), abs(b)), min(abs(a), abs(b))
    while b != 0:
        a, b = b, a % b
    return abs(a)


def quotient_and_remainder(a, b):
    """Return both."""
    return a // b, a % b


# Source: N. Juffa's erfcf (public domain), after M. M. Shepherd and J. G. Laframboise, "Chebyshev Approximation of
# (1 + 2x) exp(x^2) erfc x in 0 <= x < inf", Mathematics of Computation 36 (1981); the exponential is Cephes 2.2's expf.
_TAIL = (
    *(-4.01139259e-4, -1.23075210e-3, 1.31355342e-3, 8.63227434e-3, -8.05991981e-3),
    *(-5.42046614e-2, 1.64055392e-1, -1.66031361e-1, -9.27639827e-2, 2.76978403e-1),
)
_EXP = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)


def erfc(x):
    """Return 1 - erf(x), of which nothing is lost where it is small."""
    return select(
        x < 0.4, 1.0 - math.erf(x), select(x < 9.2, _erfc_tail(min(max(x, 0.25), 9.25)), select(math.isnan(x), x, 0.0))
    )


def _erfc_tail(a):
    over = 1.0 / (a + 2.0)
    q = (a - 2.0) * over
    q = fma(over, fma(q, -a, fma(q + 1.0, -2.0, a)), q)  # (a - 2) / (a + 2), with what its rounding loses
    p = f32(_TAIL[0])
    for coefficient in _TAIL[1:]:
        p = fma(p, q, coefficient)
    over = 1.0 / (2.0 * a + 1.0)
    r = fma(p, over, over)
    r = fma(fma(fma(r, -a, 0.5), 2.0, p - r), over, r)  # exp(a * a) * erfc(a)
    square = a * a
    k = np.floor(0.5 - 1.44269504088896341 * square)
    rest = -square - k * 0.693359375 - k * -2.12194440e-4
    part = f32(_EXP[0])
    for coefficient in _EXP[1:]:
        part = part * rest + coefficient
    part = part * (rest * rest) + rest
    power = part + 1.0  # exp(-square) is power + lost, times 2 to the k
    lost = part - (power - 1.0)
    r = fma(r, power, r * (lost + power * fma(-a, a, square)))
    half = np.floor(k * 0.5)
    return r * bitcast(f32, u32(half + 127.0) << 23) * bitcast(f32, u32(k - half + 127.0) << 23)
