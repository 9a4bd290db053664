"""The functions that a kernel may call and that are no rows of the table of builtins, because they take more than numbers.

Casts, ``len``, ``min`` and ``max`` of any number of arguments or of a tuple, choices of which one side may not be translated,
``bitcast``, memory of the invocation, and what subgroups compute.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from vyre_driver.ir.operators import BinOp
from vyre_driver.lang.frontend import intrinsics, subgroups
from vyre_driver.lang.frontend.comparisons import choose, condition
from vyre_driver.lang.frontend.conversions import bits_as, cast, truth, typed
from vyre_driver.lang.frontend.extremes import extreme
from vyre_driver.lang.frontend.memory import local
from vyre_driver.lang.frontend.records import check_as_tuple
from vyre_driver.lang.frontend.values import Array, Constant, Host, Number, Tuple, kind_name
from vyre_driver.lang.types import BY_DTYPE, COMPUTED, SCALARS, ScalarType, bool_, u64

if TYPE_CHECKING:
    import ast
    from collections.abc import Callable, Sequence

    from vyre_driver.lang.frontend.translation import Translation
    from vyre_driver.lang.frontend.values import Value

    Function = Callable[[Translation, Sequence[Value], ast.Call], Value]


def _selected(t: Translation, given: Sequence[Value], node: ast.Call) -> Value:
    test = condition(t, given[0], node)
    if isinstance(test, Constant):
        return given[1] if test.value else given[2]
    return choose(t, test, given[1], given[2], node)


def _length(t: Translation, given: Sequence[Value], node: ast.Call) -> Value:
    (one,) = given
    if isinstance(one, Tuple):
        check_as_tuple(t, one, "__len__", "the length", node)
        return Constant(len(one.items))
    if not isinstance(one, Array):
        raise t.mistyped(node, f"{kind_name(one)} has no length", "take that of an array")
    return t.axis(one, 0)


def _bits_as(t: Translation, given: Sequence[Value], node: ast.Call) -> Value:
    target, value = given[0].value if isinstance(given[0], Host) else None, given[1]
    if not isinstance(target, ScalarType) or target not in COMPUTED or target is bool_:
        raise t.mistyped(node, f"bitcast gives a number, and got {kind_name(given[0])}", "write bitcast(u32, x)")
    return bits_as(t, value, target, node)


def _cast_to(name: str) -> Function:
    def translated(t: Translation, given: Sequence[Value], node: ast.Call) -> Value:
        return cast(t, given[0] if given else Constant(0), SCALARS[name], node)

    return translated


def _number_of(kind: type, name: str) -> Function:
    """Return one of Python's own types: of 32 bits, and of 64 for a number that has them."""

    def translated(t: Translation, given: Sequence[Value], node: ast.Call) -> Value:
        (one,) = given
        if isinstance(one, Constant) and not (kind is int and isinstance(one.value, float) and not math.isfinite(one.value)):
            return Constant(kind(one.value))
        if kind is bool:
            return truth(typed(t, one, node))
        scalar = SCALARS[name]
        if isinstance(one, Number) and one.type.is_wide:
            scalar = u64 if one.type is u64 and kind is int else SCALARS[f"{name[0]}64"]
        return cast(t, one, scalar, node)

    return translated


_MANY = 64
FORMS: dict[object, tuple[int, int, Function]] = {
    min: (1, _MANY, extreme(BinOp.MIN, min)),
    max: (1, _MANY, extreme(BinOp.MAX, max)),
    np.where: (3, 3, _selected),
    len: (1, 1, _length),
    int: (1, 1, _number_of(int, "i32")),
    float: (1, 1, _number_of(float, "f32")),
    bool: (1, 1, _number_of(bool, "bool")),
    **{scalar: (0, 1, _cast_to(name)) for name, scalar in SCALARS.items()},
    **{dtype.type: (0, 1, _cast_to(scalar.name)) for dtype, scalar in BY_DTYPE.items()},
    intrinsics.bitcast: (2, 2, _bits_as),
    intrinsics.select: (3, 3, _selected),
    intrinsics.local: (2, _MANY, local),
    intrinsics.lane: (0, 0, subgroups.lane),
    intrinsics.subgroup_size: (0, 0, subgroups.subgroup_size),
    intrinsics.subgroup_sum: (1, 1, subgroups.subgroup_sum),
    intrinsics.shuffle: (2, 2, subgroups.shuffle),
    intrinsics.shuffle_xor: (2, 2, subgroups.shuffle_xor),
    intrinsics.ballot: (1, 1, subgroups.ballot),
}
"""How many arguments each takes at least and at most, and how it is translated."""
