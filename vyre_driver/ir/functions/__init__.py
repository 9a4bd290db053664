"""Functions of f32 that the IR has no operator for, by numpy's names.

Each is one operator of ours (:mod:`vyre_driver.ir.extensions`), and most have a *body*: an expression that is put in its place
where it is computed, the same by the reference and by lowering. How exact each is: docs/ir.md, "Functions".
"""

from __future__ import annotations

from vyre_driver.ir.arithmetic import Expr, literal
from vyre_driver.ir.dtypes import DataType, Number
from vyre_driver.ir.extensions import extension

__all__ = [
    "acosh",
    "asinh",
    "atan2",
    "atanh",
    "cbrt",
    "copysign",
    "erf",
    "exp10",
    "expm1",
    "floor_divide",
    "fmod",
    "hypot",
    "log1p",
    "log10",
    "power",
    "remainder",
    "round_half_even",
]


def _of_f32(name: str, *operands: Expr | Number) -> Expr:
    return extension(name, *(literal(one, DataType.F32) for one in operands))


def power(x: Expr | Number, y: Expr | Number) -> Expr:
    """Return x to the power of y, with numpy's special cases."""
    return _of_f32("power", x, y)


def atan2(y: Expr | Number, x: Expr | Number) -> Expr:
    """Return the angle of the point (x, y), from -pi to pi."""
    return _of_f32("atan2", y, x)


def hypot(x: Expr | Number, y: Expr | Number) -> Expr:
    """Return the length of (x, y), which does not overflow before it has to."""
    return _of_f32("hypot", x, y)


def fmod(x: Expr | Number, y: Expr | Number) -> Expr:
    """Return the remainder of x by y with the sign of x; exact, NaN by 0."""
    return _of_f32("fmod", x, y)


def remainder(x: Expr | Number, y: Expr | Number) -> Expr:
    """Return the remainder of x by y with the sign of y, as Python's ``%``; NaN by 0."""
    return _of_f32("remainder", x, y)


def floor_divide(x: Expr | Number, y: Expr | Number) -> Expr:
    """Return the quotient rounded down, as Python's ``//``; by 0 an infinity, or NaN."""
    return _of_f32("floor_divide", x, y)


def copysign(x: Expr | Number, y: Expr | Number) -> Expr:
    """Return the magnitude of x with the sign of y."""
    return _of_f32("copysign", x, y)


def round_half_even(x: Expr | Number) -> Expr:
    """Return the nearest whole number, of two equally near ones the even one."""
    return _of_f32("round_half_even", x)


def log10(x: Expr | Number) -> Expr:
    """Return the logarithm to base 10."""
    return _of_f32("log10", x)


def log1p(x: Expr | Number) -> Expr:
    """Return log(1 + x)."""
    return _of_f32("log1p", x)


def expm1(x: Expr | Number) -> Expr:
    """Return exp(x) - 1."""
    return _of_f32("expm1", x)


def exp10(x: Expr | Number) -> Expr:
    """Return 10 to the power of x."""
    return _of_f32("exp10", x)


def cbrt(x: Expr | Number) -> Expr:
    """Return the cube root."""
    return _of_f32("cbrt", x)


def erf(x: Expr | Number) -> Expr:
    """Return the error function."""
    return _of_f32("erf", x)


def asinh(x: Expr | Number) -> Expr:
    """Return the number whose hyperbolic sine is x."""
    return _of_f32("asinh", x)


def acosh(x: Expr | Number) -> Expr:
    """Return the positive number whose hyperbolic cosine is x."""
    return _of_f32("acosh", x)


def atanh(x: Expr | Number) -> Expr:
    """Return the number whose hyperbolic tangent is x."""
    return _of_f32("atanh", x)
