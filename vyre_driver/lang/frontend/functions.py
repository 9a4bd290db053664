"""The functions of Python, ``math``, numpy and the language that a kernel may call on numbers, and what each becomes."""

from __future__ import annotations

import ast
import math
from typing import TYPE_CHECKING

import numpy as np

from vyre_driver.ir import functions as of_f32
from vyre_driver.ir.arithmetic import Unary
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.expressions import (
    Fma,
)
from vyre_driver.ir.extension_builders import operation
from vyre_driver.ir.operators import BinOp, TernaryOp, UnOp
from vyre_driver.lang.frontend import integers, intrinsics, subgroups, wide
from vyre_driver.lang.frontend.arithmetic import power
from vyre_driver.lang.frontend.comparisons import choose, condition
from vyre_driver.lang.frontend.conversions import bits_as, cast, truth, typed
from vyre_driver.lang.frontend.extremes import clip, extreme, numpys
from vyre_driver.lang.frontend.memory import local
from vyre_driver.lang.frontend.records import check_as_tuple
from vyre_driver.lang.frontend.values import Array, Constant, Host, Number, Tuple, kind_name
from vyre_driver.lang.frontend.whole_functions import counted, divided, rotated
from vyre_driver.lang.types import BY_DTYPE, COMPUTED, SCALARS, ScalarType, bool_, f32, f64, i32, i64, u64

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vyre_driver.ir.expressions import Expr
    from vyre_driver.lang.frontend.translation import Translation
    from vyre_driver.lang.frontend.values import Value

    Function = Callable[[Translation, Sequence[Value], ast.Call], Value]

_FLOATS = {
    "sqrt": UnOp.SQRT,
    "exp": UnOp.EXP,
    "exp2": UnOp.EXP2,
    "log": UnOp.LOG,
    "log2": UnOp.LOG2,
    "sin": UnOp.SIN,
    "cos": UnOp.COS,
    "tan": UnOp.TAN,
    "tanh": UnOp.TANH,
    "sinh": UnOp.SINH,
    "cosh": UnOp.COSH,
    "trunc": UnOp.TRUNC,
}
_OF_F64 = frozenset({UnOp.SQRT, UnOp.FLOOR, UnOp.CEIL, UnOp.TRUNC})
_INVERSES = {"acos": UnOp.ACOS, "asin": UnOp.ASIN, "atan": UnOp.ATAN}
_LIBRARY = {
    "log10": of_f32.log10,
    "log1p": of_f32.log1p,
    "expm1": of_f32.expm1,
    "cbrt": of_f32.cbrt,
    "erf": of_f32.erf,
    "asinh": of_f32.asinh,
    "acosh": of_f32.acosh,
    "atanh": of_f32.atanh,
    "arcsinh": of_f32.asinh,
    "arccosh": of_f32.acosh,
    "arctanh": of_f32.atanh,
}
_PREDICATES = {"isnan": UnOp.IS_NAN, "isinf": UnOp.IS_INF, "isfinite": UnOp.IS_FINITE}


def floats_of(t: Translation, given: Sequence[Value], node: ast.Call, *, has_f64: bool = False) -> list[Number]:
    """Return what a function of floats is given: f64 where one of them is and the function is there for it, else f32."""
    wide_types = {one.type for one in given if isinstance(one, Number) and one.type.is_wide}
    refused = next(iter(wide_types - {f64} if has_f64 else wide_types), None)
    if refused is not None:
        name = ast.unparse(node.func)
        fix = f"convert: {name}(f32(...))" + (f" or {name}(f64(...))" if has_f64 else "")
        raise t.mistyped(node, f"{name} of {refused}", fix)
    scalar = f64 if wide_types else f32
    return [t.draft.shallow(cast(t, one, scalar, node)) for one in given]


def of_floats(op: UnOp) -> Function:
    """Return a function of one float."""

    def translated(t: Translation, given: Sequence[Value], node: ast.Call) -> Value:
        (number,) = floats_of(t, given, node, has_f64=op in _OF_F64)
        return wide.of_one(op, number) if number.type is f64 else Number(f32, Unary(op, number.expr))

    return translated


def of_numbers(function: Callable[..., Expr]) -> Function:
    """Return a function of one f32 or more that the IR's library has."""

    def translated(t: Translation, given: Sequence[Value], node: ast.Call) -> Value:
        return Number(f32, function(*(one.expr for one in floats_of(t, given, node))))

    return translated


def _rounded(t: Translation, given: Sequence[Value], node: ast.Call) -> Value:
    """Return an f32 rounded to an i32, of two equally near ones to the even one, as Python's ``round`` does."""
    number = typed(t, given[0], node)
    if number.type.is_whole:
        return number
    floats_of(t, (number,), node)
    return cast(t, Number(f32, of_f32.round_half_even(t.draft.shallow(cast(t, number, f32, node)).expr)), i32, node)


def _predicate(op: UnOp) -> Function:
    def translated(t: Translation, given: Sequence[Value], node: ast.Call) -> Value:
        number = t.draft.shallow(typed(t, given[0], node, f32))
        return wide.predicate(op, t.draft.hold(number, "tested") if number.type is f64 else cast(t, number, f32, node))

    return translated


def to_whole(op: UnOp) -> Function:
    """Return a function that rounds an f32 to an i32, and an f64 to an i64, as those of ``math`` do."""

    def translated(t: Translation, given: Sequence[Value], node: ast.Call) -> Value:
        number = typed(t, given[0], node)
        if number.type.is_whole:
            return number
        if number.type is f64:
            return cast(t, wide.of_one(op, t.draft.shallow(number)), i64, node)
        return cast(t, Number(f32, Unary(op, t.draft.shallow(cast(t, number, f32, node)).expr)), i32, node)

    return translated


def _absolute(t: Translation, given: Sequence[Value], node: ast.Call) -> Value:
    if isinstance(given[0], Constant):
        return Constant(abs(given[0].value))
    number = t.draft.shallow(typed(t, given[0], node))
    if number.type is f32:
        return Number(f32, Unary(UnOp.ABS, number.expr))
    if number.type.is_wide:
        return number if number.type is u64 else wide.of_one(UnOp.ABS, t.draft.hold(number, "abs"))
    return integers.magnitude(t.draft, t.draft.facts.refined(cast(t, number, i32, node) if number.type is bool_ else number))


def _power(t: Translation, given: Sequence[Value], node: ast.Call) -> Value:
    return power(t, given[0], given[1], node)


def _fused(t: Translation, given: Sequence[Value], node: ast.Call) -> Value:
    numbers = floats_of(t, given, node, has_f64=True)
    a, b, c = (one.expr for one in numbers)
    return Number(f32, Fma(a, b, c)) if numbers[0].type is f32 else Number(f64, operation(TernaryOp.FMA, DataType.F64, a, b, c))


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


# How many arguments each takes at least and at most, and what it becomes.
_Entry = tuple[int, int, "Function"]
_MANY = 64
TABLE: dict[object, _Entry] = {
    **{
        getattr(module, name): (1, 1, of_floats(op))
        for name, op in _FLOATS.items()
        for module in (math, np)
        if hasattr(module, name)
    },
    **{getattr(math, name): (1, 1, of_floats(op)) for name, op in _INVERSES.items()},
    **{getattr(np, f"arc{name[1:]}"): (1, 1, of_floats(op)) for name, op in _INVERSES.items()},
    **{getattr(module, name): (1, 1, _predicate(op)) for name, op in _PREDICATES.items() for module in (math, np)},
    math.trunc: (1, 1, to_whole(UnOp.TRUNC)),
    math.floor: (1, 1, to_whole(UnOp.FLOOR)),
    math.ceil: (1, 1, to_whole(UnOp.CEIL)),
    np.floor: (1, 1, of_floats(UnOp.FLOOR)),
    np.ceil: (1, 1, of_floats(UnOp.CEIL)),
    np.reciprocal: (1, 1, of_floats(UnOp.RECIPROCAL)),
    round: (1, 1, _rounded),
    np.rint: (1, 1, of_numbers(of_f32.round_half_even)),
    **{
        getattr(module, name): (1, 1, of_numbers(function))
        for name, function in _LIBRARY.items()
        for module in (math, np)
        if hasattr(module, name)
    },
    math.atan2: (2, 2, of_numbers(of_f32.atan2)),
    np.arctan2: (2, 2, of_numbers(of_f32.atan2)),
    math.hypot: (2, 2, of_numbers(of_f32.hypot)),
    np.hypot: (2, 2, of_numbers(of_f32.hypot)),
    math.fmod: (2, 2, of_numbers(of_f32.fmod)),
    np.fmod: (2, 2, of_numbers(of_f32.fmod)),
    np.remainder: (2, 2, of_numbers(of_f32.remainder)),
    math.copysign: (2, 2, of_numbers(of_f32.copysign)),
    np.copysign: (2, 2, of_numbers(of_f32.copysign)),
    math.pow: (2, 2, _power),
    np.power: (2, 2, _power),
    pow: (2, 2, _power),
    abs: (1, 1, _absolute),
    math.fabs: (1, 1, _absolute),
    np.abs: (1, 1, _absolute),
    min: (1, _MANY, extreme(BinOp.MIN, min)),
    max: (1, _MANY, extreme(BinOp.MAX, max)),
    np.fmin: (2, 2, extreme(BinOp.MIN, min)),
    np.fmax: (2, 2, extreme(BinOp.MAX, max)),
    np.minimum: (2, 2, numpys(BinOp.MIN, min)),
    np.maximum: (2, 2, numpys(BinOp.MAX, max)),
    np.clip: (3, 3, clip),
    np.where: (3, 3, _selected),
    len: (1, 1, _length),
    int: (1, 1, _number_of(int, "i32")),
    float: (1, 1, _number_of(float, "f32")),
    bool: (1, 1, _number_of(bool, "bool")),
    **{scalar: (0, 1, _cast_to(name)) for name, scalar in SCALARS.items()},
    **{dtype.type: (0, 1, _cast_to(scalar.name)) for dtype, scalar in BY_DTYPE.items()},
    intrinsics.fma: (3, 3, _fused),
    intrinsics.bitcast: (2, 2, _bits_as),
    intrinsics.select: (3, 3, _selected),
    intrinsics.rsqrt: (1, 1, of_floats(UnOp.INVERSE_SQRT)),
    intrinsics.popcount: (1, 1, counted(UnOp.POPCOUNT)),
    intrinsics.clz: (1, 1, counted(UnOp.CLZ)),
    intrinsics.ctz: (1, 1, counted(UnOp.CTZ)),
    intrinsics.rotl: (2, 2, rotated(BinOp.ROTATE_LEFT)),
    intrinsics.rotr: (2, 2, rotated(BinOp.ROTATE_RIGHT)),
    intrinsics.cdiv: (2, 2, divided("cdiv", integers.ceiling_divide, wide.ceiling_divide)),
    intrinsics.trunc_div: (2, 2, divided("trunc_div", integers.truncate_divide, wide.truncate_divide)),
    intrinsics.trunc_rem: (2, 2, divided("trunc_rem", integers.truncate_remainder, wide.truncate_remainder)),
    intrinsics.local: (2, _MANY, local),
    intrinsics.lane: (0, 0, subgroups.lane),
    intrinsics.subgroup_size: (0, 0, subgroups.subgroup_size),
    intrinsics.subgroup_sum: (1, 1, subgroups.subgroup_sum),
    intrinsics.shuffle: (2, 2, subgroups.shuffle),
    intrinsics.shuffle_xor: (2, 2, subgroups.shuffle_xor),
    intrinsics.ballot: (1, 1, subgroups.ballot),
}


def translator_of(function: object) -> _Entry | None:
    """Return how a function of Python's or of the language is translated, None if it is not one that is known."""
    try:
        return TABLE.get(function)
    except TypeError:  # nothing without a hash is in it
        return None
