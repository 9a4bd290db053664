"""The functions of Python, ``math``, numpy and the language as plain Python computes them: with the types of kernels."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_driver.lang.frontend import intrinsics
from vyre_driver.lang.frontend.builtins.table import TABLE as BUILTINS
from vyre_driver.lang.interpret.arrays import PlainArray
from vyre_driver.lang.plain.numbers import (
    F32,
    U32,
    U64,
    WIDE,
    Plain,
    add,
    alike,
    cast,
    greatest,
    is_constant,
    least,
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


def _extreme(of_two: Callable[[Plain, Plain], Plain]) -> Callable[..., Plain]:
    def computed(*given: Plain) -> Plain:
        items = given[0] if len(given) == 1 and isinstance(given[0], tuple) else given
        found = items[0]
        for item in items[1:]:
            found = of_two(found, item)
        return found

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
    **{function: builtin.compute for function, builtin in BUILTINS.items() if builtin.compute is not None},
    min: _extreme(least),
    max: _extreme(greatest),
    np.where: _selected,
    len: _length,
    range: _range,
    int: _number_of(int, to_i32, lambda value: value if type(value) is U64 else to_i64(value)),
    float: _number_of(float, to_f32, to_f64),
    bool: _number_of(bool, to_bool, to_bool),
    **_casts(),
    intrinsics.select: _selected,
    intrinsics.bitcast: intrinsics.bitcast,
    intrinsics.local: _local,
    **{one: _atomic(one) for one in _ATOMICS},
}
"""What is called instead of a function, by that function; those of subgroups are not among them."""
