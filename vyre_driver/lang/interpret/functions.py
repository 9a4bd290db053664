"""The functions of Python, ``math``, numpy and the language as plain Python computes them: with the types of kernels."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_driver.lang.frontend import intrinsics
from vyre_driver.lang.interpret.arrays import PlainArray
from vyre_driver.lang.interpret.numbers import (
    BOOL,
    F32,
    F64,
    I32,
    TO,
    U32,
    U64,
    WIDE,
    Plain,
    add,
    alike,
    canonical,
    cast,
    flushed,
    greatest,
    is_constant,
    least,
    magnitude,
    power,
    to_bool,
    to_f32,
    to_f64,
    to_i32,
    to_i64,
    typed,
)
from vyre_driver.lang.types import BY_DTYPE, SCALARS, f32

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from vyre_driver.lang.types import ScalarType

_FLOATS = ("sqrt", "exp", "exp2", "log", "log2", "sin", "cos", "tan", "tanh", "sinh", "cosh", "trunc")
_LIBRARY = ("log10", "log1p", "expm1", "cbrt", "arcsinh", "arccosh", "arctanh")
_OF_TWO = {
    **{name: name for name in ("hypot", "fmod", "copysign", "arctan2")},
    "atan2": "arctan2",
}


def _of_float(compute: Callable[[Plain], Plain]) -> Callable[[Plain], Plain]:
    """Return a function of one float, of an f32 rounded once from f64; a square root of an f32 is exact that way."""

    def computed(value: Plain) -> Plain:
        return canonical(compute(value)) if type(value) is F64 else flushed(F32(compute(np.float64(to_f32(value)))))

    return computed


def _of_floats(compute: Callable[[Plain, Plain], Plain]) -> Callable[[Plain, Plain], Plain]:
    """Return a function of two f32, rounded once from f64."""
    return lambda one, other: flushed(F32(compute(np.float64(to_f32(one)), np.float64(to_f32(other)))))


def _predicate(compute: Callable[[Plain], Plain]) -> Callable[[Plain], Plain]:
    return lambda value: compute(value if type(value) is F64 else to_f32(value))


def _to_whole(compute: Callable[[Plain], Plain]) -> Callable[[Plain], Plain]:
    def computed(value: Plain) -> Plain:
        number = typed(value)
        if type(number) in {F32, BOOL}:
            return to_i32(compute(to_f32(number)))
        return to_i64(compute(number)) if type(number) is F64 else number

    return computed


def _fused(a: Plain, b: Plain, c: Plain) -> Plain:
    """Return ``a * b + c``, rounded once."""
    if F64 not in {type(a), type(b), type(c)}:
        return flushed(intrinsics.fma(to_f32(a), to_f32(b), to_f32(c)))
    a, b, c = to_f64(a), to_f64(b), to_f64(c)
    if not all(map(np.isfinite, (a, b, c))):
        return canonical(a * b + c if np.isfinite(c) or not (np.isfinite(a) and np.isfinite(b)) else c)
    exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
    if not exact:
        return a * b + c
    try:
        return F64(exact.numerator / exact.denominator)
    except OverflowError:
        return F64(math.inf if exact > 0 else -math.inf)


def _extreme(of_two: Callable[[Plain, Plain], Plain]) -> Callable[..., Plain]:
    def computed(*given: Plain) -> Plain:
        items = given[0] if len(given) == 1 and isinstance(given[0], tuple) else given
        found = items[0]
        for item in items[1:]:
            found = of_two(found, item)
        return found

    return computed


def _numpys(of_two: Callable[[Plain, Plain], Plain]) -> Callable[[Plain, Plain], Plain]:
    """Return the lesser or greater of two, NaN where one of them is."""

    def computed(left: Plain, right: Plain) -> Plain:
        if not (is_constant(left) and is_constant(right)):
            left, right = alike(left, right)
        if left != left:  # noqa: PLR0124 -- NaN
            return left
        return right if right != right else of_two(left, right)  # noqa: PLR0124 -- the same

    return computed


def _selected(condition: Plain, yes: Plain, no: Plain) -> Plain:
    if is_constant(condition):
        return yes if condition else no
    if is_constant(yes) and is_constant(no):
        floats = isinstance(yes, float) or isinstance(no, float)
        yes, no = (F32(yes), F32(no)) if floats else (typed(yes), typed(no))
    else:
        yes, no = alike(yes, no)
    return yes if condition else no


def _range(*bounds: Plain) -> Iterator[Plain]:
    """Give the turns of a range, whose variable has the type of its bounds."""
    start, stop, step = (0, bounds[0], 1) if len(bounds) == 1 else (*bounds, 1)[:3]
    if is_constant(start) and is_constant(stop):
        start = typed(start)
    else:
        start, stop = alike(start, stop)
    kind = type(start)
    return map(kind, range(int(start), int(stop), step))


def _length(value: Plain) -> Plain:
    return len(value) if isinstance(value, (tuple, dict)) else value.shape[0]


def _number_of(kind: type, convert: Callable[[Plain], Plain], of_wide: Callable[[Plain], Plain]) -> Callable[[Plain], Plain]:
    def computed(value: Plain) -> Plain:
        is_kept = is_constant(value) and not (kind is int and isinstance(value, float) and not math.isfinite(value))
        if is_kept:
            return kind(value)
        return of_wide(value) if type(value) in WIDE else convert(value)

    return computed


def _counted(compute: Callable[[int], int]) -> Callable[[Plain], Plain]:
    return lambda value: I32(compute(typed(value)))


def _divided(compute: Callable[[int, int], int]) -> Callable[[Plain, Plain], Plain]:
    def computed(left: Plain, right: Plain) -> Plain:
        if is_constant(left) and is_constant(right):
            return compute(left, right)
        left, right = alike(typed(left), right)
        return TO[f"{left.dtype.kind}{left.itemsize * 8}"](compute(int(left), int(right)))

    return computed


def _rotated(compute: Callable[[int, int], Plain]) -> Callable[[Plain, Plain], Plain]:
    def computed(word: Plain, by: Plain) -> Plain:
        word = U32(word) if is_constant(word) else word
        return compute(word, int(by)).astype(type(word))

    return computed


def _local(element: ScalarType, *shape: Any) -> PlainArray:  # noqa: ANN401 -- numbers, or one tuple
    return PlainArray("local", intrinsics.local(element, *shape), element, is_shared=True)


def _atomic(function: Callable[..., Plain]) -> Callable[..., Plain]:
    """Return an atomic on an element, which does nothing where it is out of range."""

    def computed(array: PlainArray, at: Plain, *values: Plain) -> Plain:
        if not array.has(at):
            return array[at]
        given = [array.converted(value) for value in values]
        if array.dtype is not f32:
            return function(array, at, *given)
        before = array[at]
        array[at] = _F32_ATOMICS.get(function, _replaced)(before, *given)
        return before

    return computed


def _replaced(before: Plain, *given: Plain) -> Plain:
    """Return what an exchange leaves, or a comparison of bits with one."""
    is_replaced = len(given) == 1 or (len(given) > 1 and before.view(U32) == given[0].view(U32))
    return given[-1] if is_replaced else before


def _lesser(one: Plain, other: Plain) -> Plain:
    """Return the lesser of two f32, of which -0.0 is less than 0.0, and any number than NaN."""
    if one != one or other != other:  # noqa: PLR0124 -- NaN
        return one if other != other else other  # noqa: PLR0124 -- the same
    return one if (one, not np.signbit(one)) <= (other, not np.signbit(other)) else other


_F32_ATOMICS: dict[object, Callable[..., Plain]] = {
    intrinsics.atomic_add: add,
    intrinsics.atomic_min: _lesser,
    intrinsics.atomic_max: lambda one, other: -_lesser(-one, -other),
}


def _casts() -> dict[object, Callable[..., Plain]]:
    found: dict[object, Callable[..., Plain]] = {}
    for scalar in SCALARS.values():

        def convert(value: Plain = 0, scalar: Any = scalar) -> Plain:  # noqa: ANN401 -- a type
            return cast(scalar, value)

        found[scalar] = convert
    found.update({dtype.type: found[scalar] for dtype, scalar in BY_DTYPE.items()})
    return found


_ATOMICS = [getattr(intrinsics, name) for name in intrinsics.__all__ if name.startswith("atomic_")]
TABLE: dict[object, Callable[..., Plain]] = {
    **{
        getattr(module, name): _of_float(getattr(np, name))
        for name in _FLOATS
        for module in (math, np)
        if hasattr(module, name)
    },
    **{getattr(math, name): _of_float(getattr(np, f"arc{name[1:]}")) for name in ("acos", "asin", "atan")},
    **{getattr(np, name): _of_float(getattr(np, name)) for name in ("arccos", "arcsin", "arctan", "floor", "ceil", "rint")},
    **{
        getattr(module, name): _of_float(getattr(np, known))
        for known in _LIBRARY
        for name in (known, known.replace("arc", "a"))
        for module in (math, np)
        if hasattr(module, name)
    },
    **{
        getattr(module, name): _of_floats(getattr(np, known))
        for name, known in _OF_TWO.items()
        for module in (math, np)
        if hasattr(module, name)
    },
    math.erf: _of_float(math.erf),
    round: _to_whole(np.rint),
    **{
        getattr(module, name): _predicate(getattr(np, name)) for name in ("isnan", "isinf", "isfinite") for module in (math, np)
    },
    math.trunc: _to_whole(np.trunc),
    math.floor: _to_whole(np.floor),
    math.ceil: _to_whole(np.ceil),
    np.remainder: _of_floats(np.remainder),
    np.reciprocal: lambda value: flushed(F32(1) / to_f32(value)),
    math.pow: power,
    np.power: power,
    pow: power,
    abs: magnitude,
    math.fabs: magnitude,
    np.abs: magnitude,
    min: _extreme(least),
    max: _extreme(greatest),
    np.fmin: least,
    np.fmax: greatest,
    np.minimum: _numpys(least),
    np.maximum: _numpys(greatest),
    np.clip: lambda value, low, high: _numpys(least)(_numpys(greatest)(value, low), high),
    np.where: _selected,
    len: _length,
    range: _range,
    int: _number_of(int, to_i32, lambda value: value if type(value) is U64 else to_i64(value)),
    float: _number_of(float, to_f32, to_f64),
    bool: _number_of(bool, to_bool, to_bool),
    **_casts(),
    intrinsics.fma: _fused,
    intrinsics.select: _selected,
    intrinsics.rsqrt: lambda value: flushed(F32(1) / np.sqrt(to_f32(value))),
    intrinsics.popcount: _counted(intrinsics.popcount),
    intrinsics.clz: _counted(intrinsics.clz),
    intrinsics.ctz: _counted(intrinsics.ctz),
    intrinsics.rotl: _rotated(intrinsics.rotl),
    intrinsics.rotr: _rotated(intrinsics.rotr),
    **{one: _divided(one) for one in (intrinsics.cdiv, intrinsics.trunc_div, intrinsics.trunc_rem)},
    intrinsics.bitcast: intrinsics.bitcast,
    intrinsics.local: _local,
    **{one: _atomic(one) for one in _ATOMICS},
}
"""What is called instead of a function, by that function; those of subgroups are not among them."""
