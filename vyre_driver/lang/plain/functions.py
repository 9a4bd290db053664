"""Functions of numbers as plain Python computes them: an f32 is rounded once, from f64."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from vyre_driver.lang.plain.numbers import (
    BOOL,
    F32,
    F64,
    I32,
    TO,
    U32,
    Plain,
    alike,
    canonical,
    flushed,
    is_constant,
    to_f32,
    to_f64,
    to_i32,
    to_i64,
    typed,
)

if TYPE_CHECKING:
    from collections.abc import Callable


def of_float(compute: Callable[[Plain], Plain]) -> Callable[[Plain], Plain]:
    """Return a function of one float, of an f32 rounded once from f64; a square root of an f32 is exact that way."""

    def computed(value: Plain) -> Plain:
        return canonical(compute(value)) if type(value) is F64 else flushed(F32(compute(np.float64(to_f32(value)))))

    return computed


def of_floats(compute: Callable[..., Plain]) -> Callable[..., Plain]:
    """Return a function of several f32, rounded once from f64."""
    return lambda *values: flushed(F32(compute(*(np.float64(to_f32(value)) for value in values))))


def of_f32(compute: Callable[[Plain], Plain]) -> Callable[[Plain], Plain]:
    """Return a function of one f32, each step of which is rounded to f32."""
    return lambda value: flushed(compute(to_f32(value)))


def predicate(compute: Callable[[Plain], Plain]) -> Callable[[Plain], Plain]:
    """Return a function that tests a float."""
    return lambda value: compute(value if type(value) is F64 else to_f32(value))


def to_whole(compute: Callable[[Plain], Plain]) -> Callable[[Plain], Plain]:
    """Return a function that rounds an f32 to an i32, and an f64 to an i64."""

    def computed(value: Plain) -> Plain:
        number = typed(value)
        if type(number) in {F32, BOOL}:
            return to_i32(compute(to_f32(number)))
        return to_i64(compute(number)) if type(number) is F64 else number

    return computed


def fused(a: Plain, b: Plain, c: Plain) -> Plain:
    """Return ``a * b + c``, rounded once."""
    if F64 not in {type(a), type(b), type(c)}:
        a, b, c = (np.float64(to_f32(value)) for value in (a, b, c))
        return flushed(F32(a * b + c))
    a, b, c = to_f64(a), to_f64(b), to_f64(c)
    if not all(map(np.isfinite, (a, b, c))):
        return canonical(a * b + c if np.isfinite(c) or not (np.isfinite(a) and np.isfinite(b)) else c)
    (top, below), (by, under), (more, over) = (float(value).as_integer_ratio() for value in (a, b, c))
    exact = top * by * over + more * below * under
    if not exact:
        return a * b + c
    try:
        return F64(exact / (below * under * over))
    except OverflowError:
        return F64(math.inf if exact > 0 else -math.inf)


def nan_or(of_two: Callable[[Plain, Plain], Plain]) -> Callable[[Plain, Plain], Plain]:
    """Return the lesser or greater of two, NaN where one of them is."""

    def computed(left: Plain, right: Plain) -> Plain:
        if not (is_constant(left) and is_constant(right)):
            left, right = alike(left, right)
        if left != left:  # noqa: PLR0124 -- NaN
            return left
        return right if right != right else of_two(left, right)  # noqa: PLR0124 -- the same

    return computed


def of_whole(compute: Callable[[int], int]) -> Callable[[Plain], Plain]:
    """Return a function of a whole number that gives an i32."""
    return lambda value: I32(compute(typed(value)))


def of_wholes(compute: Callable[[int, int], int]) -> Callable[[Plain, Plain], Plain]:
    """Return a function of two whole numbers that gives one of their type."""

    def computed(left: Plain, right: Plain) -> Plain:
        if is_constant(left) and is_constant(right):
            return compute(left, right)
        left, right = alike(typed(left), right)
        return TO[f"{left.dtype.kind}{left.itemsize * 8}"](compute(int(left), int(right)))

    return computed


def rotated(compute: Callable[[int, int], Plain]) -> Callable[[Plain, Plain], Plain]:
    """Return a function that moves the bits of a word."""

    def computed(word: Plain, by: Plain) -> Plain:
        word = U32(word) if is_constant(word) else word
        return compute(word, int(by)).astype(type(word))

    return computed
