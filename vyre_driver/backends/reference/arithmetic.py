"""Arithmetic on integers and f32, on values of many invocations.

Integers wrap, and counts of shifts and rotations are taken modulo the width.

f32 has one NaN and no subnormals, and every result is rounded once to the nearest f32. Operands and results are canonical: any
NaN is 7FC00000 hex, and a subnormal is the zero of its sign. Values that are only moved keep their bits. The functions that
IEEE 754 does not require to be exact (sine, exponential, ...) are those of f64, rounded to f32: the nearest f32 but for cases
closer to a tie than f64 can tell.

Source: spec item 1.7, integers and floats.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_driver.ir.operators import BinOp, UnOp

if TYPE_CHECKING:
    from collections.abc import Callable

    from vyre_driver.backends.reference.values import Values


_LOW_WORD = np.uint64(0xFFFF_FFFF)
_THIRTY_TWO = np.uint64(32)


def _divide_unsigned(left: Values, right: Values) -> Values:
    """Return quotients; all ones where the divisor is zero."""
    zero = right == 0
    return np.where(zero, ~np.zeros(1, left.dtype), left // np.where(zero, 1, right).astype(left.dtype))


def _modulo_unsigned(left: Values, right: Values) -> Values:
    """Return remainders; zero where the divisor is zero."""
    zero = right == 0
    return np.where(zero, np.zeros(1, left.dtype), left % np.where(zero, 1, right).astype(left.dtype))


def has_no_quotient(left: Values, right: Values) -> Values:
    """Return where a signed division has no result: by zero, and of the least number by -1."""
    return np.asarray((right == 0) | ((left == np.iinfo(left.dtype).min) & (right == -1)))


def _modulo_signed(left: Values, right: Values) -> Values:
    """Return remainders with the sign of the dividend."""
    return np.asarray(np.fmod(left, right))


def _divide_signed(left: Values, right: Values) -> Values:
    """Return quotients rounded toward zero."""
    return np.asarray((left - _modulo_signed(left, right)) // right)


def _count(right: Values) -> Values:
    return np.asarray(right & right.dtype.type(right.dtype.itemsize * 8 - 1))


def _rotate_left(left: Values, right: Values) -> Values:
    count = _count(right)
    return np.asarray((left << count) | (left >> _count(np.zeros(1, left.dtype) - count)))


def _rotate_right(left: Values, right: Values) -> Values:
    return _rotate_left(left, np.asarray(np.zeros(1, left.dtype) - right))


def _integer_distance(left: Values, right: Values) -> Values:
    return np.where(left > right, left - right, right - left)


def _saturating_add(left: Values, right: Values) -> Values:
    total = left + right
    return np.where(total < left, ~np.zeros(1, left.dtype), total)


def _saturating_sub(left: Values, right: Values) -> Values:
    return np.where(left < right, np.zeros(1, left.dtype), left - right)


def _saturating_mul(left: Values, right: Values) -> Values:
    product = left.astype(np.uint64) * right.astype(np.uint64)
    return np.minimum(product, _LOW_WORD).astype(np.uint32)


def _mul_high(left: Values, right: Values) -> Values:
    """Return the upper half of the unsigned product."""
    if left.dtype == np.uint32:
        return ((left.astype(np.uint64) * right.astype(np.uint64)) >> _THIRTY_TWO).astype(np.uint32)
    low, high = left & _LOW_WORD, left >> _THIRTY_TWO
    other_low, other_high = right & _LOW_WORD, right >> _THIRTY_TWO
    middle = high * other_low + ((low * other_low) >> _THIRTY_TWO)
    other_middle = low * other_high + (middle & _LOW_WORD)
    return np.asarray(high * other_high + (middle >> _THIRTY_TWO) + (other_middle >> _THIRTY_TWO))


def _unsigned(function: Callable[[Values], Values]) -> Callable[[Values], Values]:
    """Return a function of bits that keeps the type of what it is given."""

    def same_type(values: Values) -> Values:
        words = values.view(np.dtype(f"u{values.dtype.itemsize}"))
        return np.asarray(function(words)).view(values.dtype)

    return same_type


def _pattern(dtype: np.dtype[Any], byte: int) -> Any:  # noqa: ANN401 -- a numpy scalar of the type
    return dtype.type(int.from_bytes(bytes([byte]) * dtype.itemsize, "little"))


def _popcount(words: Values) -> Values:
    """Return the number of ones, by adding neighbours: pairs, then nibbles, then bytes."""
    kind = words.dtype
    one, two, four = (kind.type(shift) for shift in (1, 2, 4))
    words = words - ((words >> one) & _pattern(kind, 0x55))
    words = (words & _pattern(kind, 0x33)) + ((words >> two) & _pattern(kind, 0x33))
    words = (words + (words >> four)) & _pattern(kind, 0x0F)
    return np.asarray((words * _pattern(kind, 0x01)) >> kind.type(kind.itemsize * 8 - 8))


def _leading_zeros(words: Values) -> Values:
    kind = words.dtype
    width = kind.itemsize * 8
    shift = 1
    while shift < width:
        words = words | (words >> kind.type(shift))
        shift *= 2
    return np.asarray(kind.type(width) - _popcount(words))


def _trailing_zeros(words: Values) -> Values:
    return _popcount(~words & (words - words.dtype.type(1)))


def _reversed_bits(words: Values) -> Values:
    kind = words.dtype
    for shift, mask in ((1, 0x55), (2, 0x33), (4, 0x0F)):
        low = _pattern(kind, mask)
        words = ((words >> kind.type(shift)) & low) | ((words & low) << kind.type(shift))
    return words.byteswap()


INTEGER_BINARY: dict[BinOp, Callable[[Values, Values], Values]] = {
    BinOp.ADD: np.add,
    BinOp.SUB: np.subtract,
    BinOp.MUL: np.multiply,
    BinOp.WRAPPING_ADD: np.add,
    BinOp.WRAPPING_SUB: np.subtract,
    BinOp.BIT_AND: np.bitwise_and,
    BinOp.BIT_OR: np.bitwise_or,
    BinOp.BIT_XOR: np.bitwise_xor,
    BinOp.MIN: np.minimum,
    BinOp.MAX: np.maximum,
    BinOp.SHL: lambda left, right: left << _count(right),
    BinOp.SHR: lambda left, right: left >> _count(right),
    BinOp.ROTATE_LEFT: _rotate_left,
    BinOp.ROTATE_RIGHT: _rotate_right,
    BinOp.ABS_DIFF: _integer_distance,
    BinOp.SATURATING_ADD: _saturating_add,
    BinOp.SATURATING_SUB: _saturating_sub,
    BinOp.SATURATING_MUL: _saturating_mul,
    BinOp.MUL_HIGH: _mul_high,
}
INTEGER_DIVISION: dict[tuple[BinOp, bool], Callable[[Values, Values], Values]] = {
    (BinOp.DIV, False): _divide_unsigned,
    (BinOp.MOD, False): _modulo_unsigned,
    (BinOp.DIV, True): _divide_signed,
    (BinOp.MOD, True): _modulo_signed,
}
INTEGER_UNARY: dict[UnOp, Callable[[Values], Values]] = {
    UnOp.NEGATE: lambda values: np.zeros(1, values.dtype) - values,
    UnOp.BIT_NOT: np.invert,
    UnOp.POPCOUNT: _unsigned(_popcount),
    UnOp.CLZ: _unsigned(_leading_zeros),
    UnOp.CTZ: _unsigned(_trailing_zeros),
    UnOp.REVERSE_BITS: _unsigned(_reversed_bits),
}


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


def _float_distance(left: Values, right: Values) -> Values:
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


FLOAT_BINARY: dict[BinOp, Callable[[Values, Values], Values]] = {
    BinOp.ADD: np.add,
    BinOp.SUB: np.subtract,
    BinOp.MUL: np.multiply,
    BinOp.DIV: np.divide,
    BinOp.MIN: _minimum,
    BinOp.MAX: _maximum,
    BinOp.ABS_DIFF: _float_distance,
}
FLOAT_UNARY: dict[UnOp, Callable[[Values], Values]] = {
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
FLOAT_PREDICATES: dict[UnOp, Callable[[Values], Values]] = {
    UnOp.IS_NAN: np.isnan,
    UnOp.IS_INF: np.isinf,
    UnOp.IS_FINITE: np.isfinite,
}
