"""What the bodies of functions are made of: the bits of an f32, powers of two, polynomials.

A body is an expression of f32 operators that the IR rounds by themselves, so that it gives the same on every device; where a
program leaves floats to the device, and the body divides or takes a root, that may be some steps of the last place off. A part
of a body stands in several places and is evaluated once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_driver.ir.arithmetic import LitF32
from vyre_driver.ir.builders import cast, f32, select, u32, unop
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.extension_builders import bitcast
from vyre_driver.ir.operators import UnOp

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vyre_driver.ir.arithmetic import Expr

MAGNITUDE, SIGN, INFINITY, LEAST_NORMAL, FRACTION = 0x7FFF_FFFF, 0x8000_0000, 0x7F80_0000, 0x0080_0000, 0x007F_FFFF
_LARGE = 0x7E80_0000  # 2^126
NAN, INF, ZERO, ONE, HALF = LitF32(0x7FC0_0000), LitF32(INFINITY), f32(0.0), f32(1.0), f32(0.5)


def bits(value: Expr) -> Expr:
    """Return the bits of an f32 as a u32."""
    return bitcast(DataType.U32, value)


def of_bits(word: Expr) -> Expr:
    """Return the f32 of these bits."""
    return bitcast(DataType.F32, word)


def size(value: Expr) -> Expr:
    """Return the bits of a magnitude."""
    return bits(value) & u32(MAGNITUDE)


def magnitude(value: Expr) -> Expr:
    """Return an f32 without its sign."""
    return of_bits(size(value))


def sign(value: Expr) -> Expr:
    """Return the sign bit of an f32 as a u32."""
    return bits(value) & u32(SIGN)


def with_sign(value: Expr, sign_bit: Expr) -> Expr:
    """Return a magnitude with a sign bit."""
    return of_bits(size(value) | sign_bit)


def head(value: Expr, mask: int = 0xFFFF_F000) -> Expr:
    """Return an f32 with the first bits of its fraction alone, so that a product of two such is exact."""
    return of_bits(bits(value) & u32(mask))


def is_nan(value: Expr) -> Expr:
    """Return whether an f32 is a NaN."""
    return size(value) > u32(INFINITY)


def is_infinite(value: Expr) -> Expr:
    """Return whether an f32 is an infinity."""
    return size(value).eq(u32(INFINITY))


def is_zero(value: Expr) -> Expr:
    """Return whether an f32 is a zero, as subnormals are."""
    return size(value) < u32(LEAST_NORMAL)


def floor(value: Expr) -> Expr:
    """Return the greatest whole number that is not greater."""
    return unop(UnOp.FLOOR, value)


def polynomial(x: Expr, coefficients: Sequence[float]) -> Expr:
    """Return a polynomial, its highest coefficient first."""
    result: Expr = f32(coefficients[0])
    for one in coefficients[1:]:
        result = result * x + f32(one)
    return result


def power_of_two(exponent: Expr) -> Expr:
    """Return 2 to a whole number (f32) from -126 to 127."""
    return of_bits(cast(DataType.U32, exponent + f32(127.0)) << u32(23))


def scaled(value: Expr, exponent: Expr) -> Expr:
    """Return a value times 2 to a whole number (f32) from -252 to 254, in two steps that neither overflow nor vanish."""
    half = floor(exponent * HALF)
    return value * power_of_two(half) * power_of_two(exponent - half)


def quotient(x: Expr, y: Expr) -> Expr:
    """Return x / y, also for divisors from 2^126 on, whose reciprocals are no normal numbers: devices divide by these.

    Source: Vulkan 1.3, "Precision and Operation of SPIR-V Instructions" (OpFDiv: 2.5 ulp for divisors up to 2^126).
    """
    scale = select(size(y) >= u32(_LARGE), f32(0.25), ONE)
    return (x * scale) / (y * scale)


def choose(*cases: tuple[Expr, Expr], otherwise: Expr) -> Expr:
    """Return the value of the first case whose condition holds."""
    result = otherwise
    for condition, value in reversed(cases):
        result = select(condition, value, result)
    return result
