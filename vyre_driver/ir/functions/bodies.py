"""The bodies of functions: each an expression of f32 operators that the IR rounds by themselves, the same on every device.

Where a program leaves floats to the device, and the body divides or takes a root, that may be some steps of the last place off.
A part of a body stands in several places and is evaluated once.

Sources: Cephes 2.2 (expf, exp10f, logf, log10f: reduction and coefficients); fdlibm (log1p, asinh, acosh, atanh: how they are
made of others); fdlibm 5.3, e_powf.c (reduction, splitting and coefficients; Sun Microsystems, which gives everybody the right
to use, copy, modify and distribute it); N. Juffa's atan2f and erff (public domain); numpy's npy_divmod (BSD-3-Clause), whose
steps the floor division has; IEEE 754-2019, 9.2.1 (special cases).
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from vyre_driver.ir.arithmetic import Expr, LitF32, Var
from vyre_driver.ir.builders import bitcast, cast, f32, maximum, minimum, select, sqrt, u32, unop
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.expressions import Cast
from vyre_driver.ir.extensions import EXTENSIONS, application, extension
from vyre_driver.ir.operators import UnOp
from vyre_driver.ir.walks import OPERANDS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vyre_driver.ir.terms import Term


MAGNITUDE, SIGN, INFINITY, LEAST_NORMAL, FRACTION = 0x7FFF_FFFF, 0x8000_0000, 0x7F80_0000, 0x0080_0000, 0x007F_FFFF
_LARGE_DIVISOR = 0x7E80_0000  # 2^126
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
    scale = select(size(y) >= u32(_LARGE_DIVISOR), f32(0.25), ONE)
    return (x * scale) / (y * scale)


def choose(*cases: tuple[Expr, Expr], otherwise: Expr) -> Expr:
    """Return the value of the first case whose condition holds."""
    result = otherwise
    for condition, value in reversed(cases):
        result = select(condition, value, result)
    return result


def _turns(rest: Expr, y: Expr) -> Expr:
    """Return whether there is a rest, of another sign than the divisor."""
    return is_zero(rest).not_().and_(sign(rest).ne(sign(y)))


def remainder(x: Expr, y: Expr) -> Expr:
    """Return the remainder with the sign of the divisor; NaN by 0."""
    rest = extension("fmod", x, y)
    return choose((is_zero(rest), with_sign(ZERO, sign(y))), (_turns(rest, y), rest + y), otherwise=rest)


def floor_divide(x: Expr, y: Expr) -> Expr:
    """Return the quotient rounded down; by 0 the quotient itself."""
    rest = extension("fmod", x, y)
    near = quotient(x - rest, y)
    near = select(_turns(rest, y), near - ONE, near)
    whole = floor(near)
    found = select((near - whole) > HALF, whole + ONE, whole)
    signs = sign(x) ^ sign(y)
    return choose((is_zero(y), x / y), (near.eq(f32(0.0)), with_sign(ZERO, signs)), otherwise=found)


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


_EXP = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)
_EXP10 = (
    *(2.063216740311022e-1, 5.420251702225484e-1, 1.171292686296281, 2.034649854009453, 2.650948748208892),
    *(2.302585167056758, 1.0),
)
_LOG2_E, _LN2_HIGH, _LN2_LOW = 1.44269504088896341, 0.693359375, -2.12194440e-4
_LOG2_10, _LOG10_2_HIGH, _LOG10_2_LOW = 3.32192809488736234787, 3.0078125e-1, 2.48745663981195213739e-4
_MOST_EXP, _MOST_EXP10, _LEAST_EXP10 = 88.72283935546875, 38.53183937072754, -37.92977945366162
_TWO_OVER_ROOT_PI = 1.1283791670955126
_NEAR_ERF = (-5.96761703e-4, 4.99119423e-3, -2.67681349e-2, 1.12819925e-1, -3.76125336e-1, 1.28379166e-1)


def _reduced_to_base_e(x: Expr) -> tuple[Expr, Expr]:
    """Return k and r of x = k * log(2) + r, with r no greater than half of log(2)."""
    k = floor(f32(_LOG2_E) * x + HALF)
    return k, x - k * f32(_LN2_HIGH) - k * f32(_LN2_LOW)


def _less_one(r: Expr) -> Expr:
    """Return exp(r) - 1 of a small number."""
    return polynomial(r, _EXP) * (r * r) + r


def _exp(x: Expr) -> Expr:
    """Return the exponential of a number from -80 to 88."""
    k, r = _reduced_to_base_e(x)
    return scaled(_less_one(r) + ONE, k)


def expm1(x: Expr) -> Expr:
    """Return exp(x) - 1."""
    within = minimum(maximum(x, f32(-18.0)), f32(_MOST_EXP))
    k, r = _reduced_to_base_e(within)
    part = _less_one(r)
    inverse = power_of_two(minimum(ZERO - k, f32(127.0)))
    inverse = select(k > f32(126.0), ZERO, inverse)  # 2^-127 is a subnormal, and too small to count
    large = scaled(part + (ONE - inverse), k)
    result = select(k.eq(ZERO), part, large)
    return choose((is_nan(x), NAN), (x > f32(_MOST_EXP), INF), (is_small(x), x), otherwise=result)


def is_small(x: Expr) -> Expr:
    """Return whether a number is so small that exp(x) - 1 and the like are the number itself."""
    return magnitude(x) < f32(2.0**-25)


def exp10(x: Expr) -> Expr:
    """Return 10 to this power."""
    within = minimum(maximum(x, f32(_LEAST_EXP10)), f32(_MOST_EXP10))
    k = floor(f32(_LOG2_10) * within + HALF)
    r = within - k * f32(_LOG10_2_HIGH) - k * f32(_LOG10_2_LOW)
    result = scaled(polynomial(r, _EXP10), k)
    return choose((is_nan(x), NAN), (x > f32(_MOST_EXP10), INF), (x < f32(_LEAST_EXP10), ZERO), otherwise=result)


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


_ROOT_OF_HALF = 0x3F35_04F3
_LOG = (
    *(7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1),
    *(-1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1),
)
_LN2 = 0.6931471805599453
_LOG10_E_HIGH, _LOG10_E_LOW = 4.3359375e-1, 7.00731903251827651129e-4
_LARGE = 2.0**28  # from which x and the root of x * x + 1 are equal


def _reduced_to_fraction(x: Expr) -> tuple[Expr, Expr]:
    """Return k and m - 1 of a positive x that is 2^k * m, with m from the root of a half to that of 2."""
    moved = bits(x) + u32(0x3F80_0000 - _ROOT_OF_HALF)
    exponent = cast(DataType.F32, moved >> u32(23)) - f32(127.0)
    fraction = of_bits((moved & u32(FRACTION)) + u32(_ROOT_OF_HALF))
    return exponent, fraction - ONE


def _tail(f: Expr) -> Expr:
    """Return log(1 + f) - f + f * f / 2."""
    return f * (f * f) * polynomial(f, _LOG)


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
    return _natural(*_reduced_to_fraction(x))


def log10(x: Expr) -> Expr:
    """Return the logarithm to base 10."""
    k, f = _reduced_to_fraction(x)
    rest = _tail(f) - HALF * (f * f)
    low = (f + rest) * f32(_LOG10_E_LOW) + rest * f32(_LOG10_E_HIGH) + f * f32(_LOG10_E_HIGH)
    return _edges(x, low + k * f32(_LOG10_2_LOW) + k * f32(_LOG10_2_HIGH))


def log1p(x: Expr) -> Expr:
    """Return log(1 + x).

    Near 0 nothing is added; elsewhere what the sum lost, over the sum, is added to the logarithm, to a tenth of its size.
    """
    total = ONE + x
    k, f = _reduced_to_fraction(total)
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


_POWER_LOG = tuple(map(LitF32, (0x3E53_F142, 0x3E6C_3255, 0x3E8B_A305, 0x3EAA_AAAB, 0x3EDB_6DB7, 0x3F19_999A)))
_POWER_EXP = tuple(map(LitF32, (0x3331_BB4C, 0xB5DD_EA0E, 0x388A_B355, 0xBB36_0B61, 0x3E2A_AAAB)))
_POWER_LN2, _POWER_LN2_HIGH, _POWER_LN2_LOW = LitF32(0x3F31_7218), LitF32(0x3F31_7200), LitF32(0x35BF_BE8C)
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
    r = square * square * _horner(square, _POWER_LOG) + s_tail * (s_head + s)
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
    u, v = t * _POWER_LN2_HIGH, (low - (t - high)) * _POWER_LN2 + t * _POWER_LN2_LOW
    z_near = u + v
    w = v - (z_near - u)
    square = z_near * z_near
    t = z_near - square * _horner(square, _POWER_EXP)
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


_BODIES: dict[str, Callable[..., Expr]] = {
    "power": power,
    "atan2": atan2,
    "hypot": hypot,
    "copysign": copysign,
    "remainder": remainder,
    "floor_divide": floor_divide,
    "cbrt": cbrt,
    "log10": log10,
    "log1p": log1p,
    "asinh": asinh,
    "acosh": acosh,
    "atanh": atanh,
    "expm1": expm1,
    "exp10": exp10,
    "erf": erf,
}


class Body(NamedTuple):
    """What a function is of its parameters; ``parts`` hold each part once, after all that it is made of, itself last."""

    parameters: tuple[Var, ...]
    parts: tuple[Expr, ...]


@cache
def body_of(name: str) -> Body | None:
    """Return the body of an operator of ours, None where it has none."""
    if name not in _BODIES:
        return None
    parameters = tuple(Var(f"operand {place}", DataType.F32) for place in range(len(EXTENSIONS[name].operands)))
    return Body(parameters, _ordered(_BODIES[name](*parameters), parameters))


def _ordered(root: Expr, parameters: tuple[Var, ...]) -> tuple[Expr, ...]:
    done = {id(one) for one in parameters}
    order: list[Expr] = []
    waiting: list[Expr] = [root]
    while waiting:
        term = waiting[-1]
        missing = [] if id(term) in done else [one for one in _inside(term) if id(one) not in done]
        waiting.extend(missing)
        if not missing:
            waiting.pop()
            if id(term) not in done:
                done.add(id(term))
                order.append(term)
    return tuple(order)


def _inside(term: Expr) -> tuple[Expr, ...]:
    found = application(term) if isinstance(term, Cast) else None
    if found is not None:
        return found.operands
    operands: Callable[[Term], tuple[Expr, ...]] | None = OPERANDS.get(type(term))
    return () if operands is None else operands(term)
