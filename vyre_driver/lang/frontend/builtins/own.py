"""Functions of numbers that Python, ``math`` and numpy do not have. A kernel translates them; elsewhere they compute."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = [
    "cdiv",
    "clz",
    "ctz",
    "fma",
    "popcount",
    "rotl",
    "rotr",
    "rsqrt",
    "trunc_div",
    "trunc_rem",
]


def fma(a: float, b: float, c: float) -> float:
    """Return ``a * b + c`` in f32, rounded once; in a kernel in f64 where one of them is."""
    return np.float32(np.float64(a) * np.float64(b) + np.float64(c))  # type: ignore[return-value] # a scalar of numpy


def rsqrt(x: float) -> float:
    """Return the reciprocal of the square root."""
    return np.float32(1) / np.sqrt(np.float32(x))  # type: ignore[no-any-return] # a scalar of numpy


def cdiv(a: int, b: int) -> int:
    """Return the quotient of whole numbers, rounded up; 0 where ``b`` is 0."""
    return -(-int(a) // int(b)) if b else 0


def trunc_div(a: int, b: int) -> int:
    """Return the quotient of whole numbers, rounded towards zero, as C has it; 0 where ``b`` is 0."""
    a, b = int(a), int(b)
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1) if b else 0


def trunc_rem(a: int, b: int) -> int:
    """Return what ``trunc_div`` leaves, of the sign of ``a``; 0 where ``b`` is 0."""
    a, b = int(a), int(b)
    return a - trunc_div(a, b) * b if b else 0


def _bits(x: Any) -> tuple[int, int]:  # noqa: ANN401 -- a number
    """Return the bits of a whole number, and how many it has: 64 of an i64 or u64, else 32."""
    count = 64 if isinstance(x, (np.int64, np.uint64)) else 32
    return int(x) & (1 << count) - 1, count


def popcount(x: int) -> int:
    """Return how many bits of a whole number are set."""
    return _bits(x)[0].bit_count()


def clz(x: int) -> int:
    """Return how many bits above the highest one that is set are not; of zero all."""
    word, count = _bits(x)
    return count - word.bit_length()


def ctz(x: int) -> int:
    """Return how many bits below the lowest one that is set are not; of zero all."""
    word, count = _bits(x)
    return (word & -word).bit_length() - 1 if word else count


def rotl(x: int, by: int) -> int:
    """Return the bits of a u32 or u64 moved up by ``by`` modulo their number, those that leave coming in below."""
    word, count = _bits(x)
    by = int(by) % count
    return (np.uint64 if count == 64 else np.uint32)((word << by | word >> (count - by)) & (1 << count) - 1)  # type: ignore[return-value] # the same


def rotr(x: int, by: int) -> int:
    """Return the bits of a u32 or u64 moved down by ``by`` modulo their number, those that leave coming in above."""
    return rotl(x, -int(by))
