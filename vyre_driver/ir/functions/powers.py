"""x to the power of y, as numpy has it.

The logarithm to base 2 is made of a head and a tail, which are multiplied by those of y: a power of two is as exact as its
exponent is in units of 2^-24, and that has seven digits before the point.

Source: fdlibm 5.3, e_powf.c (reduction, splitting and coefficients; Sun Microsystems, which gives everybody the right to use,
copy, modify and distribute it); IEEE 754-2019, 9.2.1 (special cases).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_driver.ir.arithmetic import LitF32
from vyre_driver.ir.builders import cast, f32, maximum, minimum, select, u32
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
    floor,
    head,
    is_infinite,
    is_nan,
    is_zero,
    magnitude,
    of_bits,
    polynomial,
    scaled,
    sign,
    with_sign,
)

if TYPE_CHECKING:
    from vyre_driver.ir.arithmetic import Expr

_L = tuple(map(LitF32, (0x3E53_F142, 0x3E6C_3255, 0x3E8B_A305, 0x3EAA_AAAB, 0x3EDB_6DB7, 0x3F19_999A)))
_P = tuple(map(LitF32, (0x3331_BB4C, 0xB5DD_EA0E, 0x388A_B355, 0xBB36_0B61, 0x3E2A_AAAB)))
_LN2, _LN2_HIGH, _LN2_LOW = LitF32(0x3F31_7218), LitF32(0x3F31_7200), LitF32(0x35BF_BE8C)
_CP, _CP_HIGH, _CP_LOW = LitF32(0x3F76_384F), LitF32(0x3F76_4000), LitF32(0xB8F6_23C6)  # 2 / (3 * log(2))
_THREE_HALVES = f32(1.5)
_LOG2_HIGH, _LOG2_LOW = LitF32(0x3F15_C000), LitF32(0x35D1_CFDC)  # of 1.5
_ROOT_OF_3_HALVES, _ROOT_OF_3 = 0x1C_C472, 0x5D_B3D7  # fractions of these
_LEAST, _MOST = f32(-126.0), f32(128.0)
_HUGE = 2.0**100
_ALL_EVEN = 2.0**24  # from which every f32 is an even number


def _horner(x: Expr, coefficients: tuple[LitF32, ...]) -> Expr:
    return polynomial(x, [one.value for one in coefficients])


def _logarithm(x: Expr) -> tuple[Expr, Expr]:
    """Return the logarithm to base 2 of a normal positive number, as a head and a tail."""
    fraction = bits(x) & u32(FRACTION)
    is_middle = (fraction >= u32(_ROOT_OF_3_HALVES)).and_(fraction < u32(_ROOT_OF_3))
    is_upper = fraction >= u32(_ROOT_OF_3)
    above = select(is_upper, u32(1), u32(0))
    n = cast(DataType.F32, (bits(x) >> u32(23)) + above) - f32(127.0)
    word = (fraction | u32(0x3F80_0000)) - (above << u32(23))
    m = of_bits(word)
    base = select(is_middle, _THREE_HALVES, ONE)
    u, v = m - base, ONE / (m + base)
    s = u * v
    s_head = head(s)
    t_head = of_bits((((word >> u32(1)) & u32(0xFFFF_F000)) | u32(0x2000_0000)) + u32(0x40_0000) + _step(is_middle))
    t_tail = m - (t_head - base)
    s_tail = v * ((u - s_head * t_head) - s_head * t_tail)
    square = s * s
    r = square * square * _horner(square, _L) + s_tail * (s_head + s)
    square = s_head * s_head
    three = f32(3.0)
    t_head = head(three + square + r)
    t_tail = r - ((t_head - three) - square)
    u, v = s_head * t_head, s_tail * t_head + t_tail * s
    p_head = head(u + v)
    p_tail = v - (p_head - u)
    z_head = _CP_HIGH * p_head
    offset, rest = select(is_middle, _LOG2_HIGH, ZERO), select(is_middle, _LOG2_LOW, ZERO)
    z_tail = _CP_LOW * p_head + p_tail * _CP + rest
    first = head(((z_head + z_tail) + offset) + n)
    return first, z_tail - (((first - n) - offset) - z_head)


def _step(is_middle: Expr) -> Expr:
    return select(is_middle, u32(1 << 21), u32(0))


def _power_of_two(high: Expr, low: Expr) -> Expr:
    """Return 2 to the power of a sum; infinite from 128 on, and 0 below the least normal number."""
    z = high + low
    n = floor(minimum(maximum(z, _LEAST), _MOST) + HALF)
    high = high - n
    t = head(low + high, 0xFFFF_8000)
    u, v = t * _LN2_HIGH, (low - (t - high)) * _LN2 + t * _LN2_LOW
    z_near = u + v
    w = v - (z_near - u)
    square = z_near * z_near
    t = z_near - square * _horner(square, _P)
    r = (z_near * t) / (t - f32(2.0)) - (w + z_near * w)
    result = scaled(ONE - (r - z_near), n)
    return choose((z > _MOST, INF), (z < _LEAST, ZERO), otherwise=result)


def power(x: Expr, y: Expr) -> Expr:
    """Return x to the power of y."""
    a = magnitude(x)
    limited = minimum(maximum(y, f32(-_HUGE)), f32(_HUGE))
    first, second = _logarithm(a)
    y_head = head(limited)
    low = (limited - y_head) * first + limited * second
    found = _power_of_two(y_head * first, low)
    rises = sign(y).eq(u32(0))
    vanishes = select(rises, ZERO, INF)
    found = choose((is_zero(x), vanishes), (is_infinite(x), select(rises, INF, ZERO)), otherwise=found)
    is_large = magnitude(y) >= f32(_ALL_EVEN)
    is_whole = is_large.or_(floor(y).eq(y))
    half = y * HALF
    is_odd = is_large.not_().and_(is_whole).and_(floor(half).ne(half))
    found = with_sign(found, select(is_odd, sign(x), u32(0)))
    has_none = sign(x).ne(u32(0)).and_(is_whole.not_()).and_(is_zero(x).not_()).and_(is_infinite(x).not_())
    return choose(
        (is_zero(y).or_(x.eq(ONE)), ONE),
        (is_nan(x).or_(is_nan(y)), NAN),
        (a.eq(ONE).and_(is_infinite(y)), ONE),
        (has_none.and_(is_infinite(y).not_()), NAN),
        otherwise=found,
    )
