"""The functions of numbers that a kernel may call, a row each: what translates, computes, documents and tests them is there."""

from __future__ import annotations

import ast
import builtins
import math
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from vyre_driver.ir import functions
from vyre_driver.ir.arithmetic import Binary, Unary
from vyre_driver.ir.operators import BinOp, UnOp
from vyre_driver.lang.frontend import integers, wide
from vyre_driver.lang.frontend.arithmetic import choose, compare
from vyre_driver.lang.frontend.builtins import own, written
from vyre_driver.lang.frontend.builtins.written import as_written
from vyre_driver.lang.frontend.conversions import typed
from vyre_driver.lang.frontend.functions import (
    absolute,
    clip,
    counted,
    divided,
    extreme,
    fused,
    numpys,
    of_floats,
    of_numbers,
    predicate,
    rotated,
    rounded,
    to_power,
    to_whole,
)
from vyre_driver.lang.frontend.values import Constant, literal
from vyre_driver.lang.plain import numbers as plain
from vyre_driver.lang.plain.numbers import F32, greatest, least
from vyre_driver.lang.types import SCALARS, ScalarType, bool_, f32, f64, i32, i64, u32, u64

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vyre_driver.ir.expressions import Expr
    from vyre_driver.lang.frontend.translation import Translation
    from vyre_driver.lang.frontend.values import Value
    from vyre_driver.lang.plain.numbers import Plain

FLOATS: tuple[ScalarType, ...] = (f32, f64)
WHOLE = (i32, u32, i64, u64)
NUMBERS = (*FLOATS, *WHOLE)
ALL = (*NUMBERS, bool_)
_MODULES = {"math": math, "np": np, "": builtins}


@dataclass(frozen=True)
class Builtin:
    """One function of numbers: its names, what it becomes, what computes it without a device, and a sentence about it.

    ``names`` are those of Python, ``math`` and numpy, written as a kernel writes them; ``own`` is the function itself where
    only this language has it. It is translated either by ``lower``, or as the function ``written`` in the language, which then
    also computes it; ``compute`` takes and returns scalars of numpy, and constants. ``error`` is in steps of the last place of
    an f32, ``"exact"``, or ``"device"`` where the device decides.

    ``types`` are the types of numbers that it is there for. Where that is no whole number, those of 32 bits and bools become
    f32; what is left is refused. ``result`` is the type of what it gives: ``"same"`` that of the numbers, ``"number"`` the
    same but i32 for bool, ``"whole"`` a whole number that holds it, or always i32 or bool.
    """

    names: str
    about: str
    lower: Callable[[Translation, Sequence[Value], ast.Call], Value] | None = None
    compute: Callable[..., Plain] | None = None
    error: str = "exact"
    types: tuple[ScalarType, ...] = (f32,)
    result: Literal["same", "number", "whole", "i32", "bool"] = "same"
    least: int = 1
    most: int = 1
    own: Callable[..., Any] | None = None
    written: Callable[..., Any] | None = None

    @cached_property
    def functions(self) -> tuple[Any, ...]:
        """The functions by which a kernel may call it, without those that this version of Python or numpy lacks."""
        if self.own is not None:
            return (self.own,)
        parts = (name.rpartition(".") for name in self.names.split())
        return tuple(getattr(_MODULES[module], name) for module, _, name in parts if hasattr(_MODULES[module], name))

    @property
    def converted(self) -> tuple[ScalarType, ...]:
        """The types that become f32."""
        return () if i32 in self.types else (i32, u32, bool_)

    def result_of(self, kind: ScalarType) -> ScalarType:
        """Return the type of what it gives for numbers of a type; of several values, each one's."""
        kind = f32 if kind in self.converted else kind
        if self.result in {"i32", "bool"}:
            return SCALARS[self.result]
        if self.result == "whole" and not kind.is_whole:
            return i64 if kind is f64 else i32
        return i32 if self.result == "number" and kind is bool_ else kind


_two = partial(Builtin, least=2, most=2)
_of_bits = partial(Builtin, types=WHOLE, result="i32")
_two_wholes = partial(_two, types=WHOLE)
_DEVICE = 'device; exact with `floats="exact"`'


def _of_device(names: str, op: UnOp, about: str) -> Builtin:
    """Return a function of one f32 that the device has."""
    *_, of_numpy = names.split()
    return Builtin(names, about, of_floats(op), plain.of_float(getattr(np, of_numpy.removeprefix("np."))), "device")


def _log(x: Expr, *base: Expr) -> Expr:
    logarithm = Unary(UnOp.LOG, x)
    return Binary(BinOp.DIV, logarithm, Unary(UnOp.LOG, *base)) if base else logarithm


def _sign(t: Translation, given: Sequence[Value], node: ast.Call) -> Value:
    """Return 1, 0 or -1 of the number's type; NaN of NaN."""
    number = t.draft.hold(typed(t, given[0], node), "x")
    if number.type is bool_:
        raise t.mistyped(node, f"{ast.unparse(node.func)} of bool", "convert: i32(...)")
    zero, sign = Constant(0), literal(number.type, 0)
    if not number.type.is_whole:
        sign = choose(t, typed(t, compare(t, ast.Eq(), number, zero, node), node), sign, number, node)
    if number.type.bounds[0] < 0 or not number.type.is_whole:
        sign = choose(t, typed(t, compare(t, ast.Lt(), number, zero, node), node), Constant(-1), sign, node)
    return choose(t, typed(t, compare(t, ast.Gt(), number, zero, node), node), Constant(1), sign, node)


BUILTINS = (
    Builtin("math.sqrt np.sqrt", "the square root", of_floats(UnOp.SQRT), plain.of_float(np.sqrt), _DEVICE, FLOATS),
    Builtin(
        "rsqrt",
        "the reciprocal of the square root",
        of_floats(UnOp.INVERSE_SQRT),
        plain.of_f32(lambda x: F32(1) / np.sqrt(x)),
        'device; with `floats="exact"` 1 / sqrt, each rounded',
        own=own.rsqrt,
    ),
    Builtin("np.reciprocal", "1 / x", of_floats(UnOp.RECIPROCAL), plain.of_f32(lambda x: F32(1) / x), _DEVICE),
    _of_device("math.exp np.exp", UnOp.EXP, "e to the power of x"),
    _of_device("math.exp2 np.exp2", UnOp.EXP2, "2 to the power of x"),
    Builtin(
        "math.log",
        "the natural logarithm, or log(x) / log(base)",
        of_numbers(_log),
        plain.of_floats(lambda x, *base: np.log(x) / np.log(*base) if base else np.log(x)),
        "device",
        most=2,
    ),
    _of_device("np.log", UnOp.LOG, "the natural logarithm"),
    _of_device("math.log2 np.log2", UnOp.LOG2, "the logarithm to base 2"),
    _of_device("math.sin np.sin", UnOp.SIN, "the sine"),
    _of_device("math.cos np.cos", UnOp.COS, "the cosine"),
    _of_device("math.tan np.tan", UnOp.TAN, "the tangent"),
    _of_device("math.sinh np.sinh", UnOp.SINH, "the hyperbolic sine"),
    _of_device("math.cosh np.cosh", UnOp.COSH, "the hyperbolic cosine"),
    _of_device("math.tanh np.tanh", UnOp.TANH, "the hyperbolic tangent"),
    _of_device("math.asin np.arcsin", UnOp.ASIN, "the arc sine"),
    _of_device("math.acos np.arccos", UnOp.ACOS, "the arc cosine"),
    _of_device("math.atan np.arctan", UnOp.ATAN, "the arc tangent"),
    Builtin("np.floor", "x rounded down", of_floats(UnOp.FLOOR), plain.of_float(np.floor), types=FLOATS),
    Builtin("np.ceil", "x rounded up", of_floats(UnOp.CEIL), plain.of_float(np.ceil), types=FLOATS),
    Builtin("np.trunc", "x rounded towards 0", of_floats(UnOp.TRUNC), plain.of_float(np.trunc), types=FLOATS),
    Builtin("np.rint", "x rounded, ties to even", of_numbers(functions.round_half_even), plain.of_float(np.rint)),
    Builtin("math.floor", "x rounded down", to_whole(UnOp.FLOOR), plain.to_whole(np.floor), types=ALL, result="whole"),
    Builtin("math.ceil", "x rounded up", to_whole(UnOp.CEIL), plain.to_whole(np.ceil), types=ALL, result="whole"),
    Builtin(
        "math.trunc",
        "x rounded towards 0",
        to_whole(UnOp.TRUNC),
        plain.to_whole(np.trunc),
        types=ALL,
        result="whole",
    ),
    Builtin(
        "round",
        "x rounded, ties to even",
        rounded,
        plain.to_whole(np.rint),
        types=tuple(one for one in ALL if one is not f64),
        result="whole",
    ),
    Builtin(
        "math.isnan np.isnan", "whether x is NaN", predicate(UnOp.IS_NAN), plain.predicate(np.isnan), types=ALL, result="bool"
    ),
    Builtin(
        "math.isinf np.isinf",
        "whether x is infinite",
        predicate(UnOp.IS_INF),
        plain.predicate(np.isinf),
        types=ALL,
        result="bool",
    ),
    Builtin(
        "math.isfinite np.isfinite",
        "whether x is neither infinite nor NaN",
        predicate(UnOp.IS_FINITE),
        plain.predicate(np.isfinite),
        types=ALL,
        result="bool",
    ),
    Builtin("math.log10 np.log10", "the logarithm to base 10", of_numbers(functions.log10), plain.of_float(np.log10), "1.9"),
    Builtin("math.log1p np.log1p", "log(1 + x)", of_numbers(functions.log1p), plain.of_float(np.log1p), "0.9"),
    Builtin("math.expm1 np.expm1", "exp(x) - 1", of_numbers(functions.expm1), plain.of_float(np.expm1), "1.6"),
    Builtin("math.cbrt np.cbrt", "the cube root", of_numbers(functions.cbrt), plain.of_float(np.cbrt), "1.0"),
    Builtin("math.erf", "the error function", of_numbers(functions.erf), plain.of_float(math.erf), "1.4"),
    Builtin("math.asinh np.arcsinh", "the inverse of sinh", of_numbers(functions.asinh), plain.of_float(np.arcsinh), "1.7"),
    Builtin("math.acosh np.arccosh", "the inverse of cosh", of_numbers(functions.acosh), plain.of_float(np.arccosh), "2.0"),
    Builtin("math.atanh np.arctanh", "the inverse of tanh", of_numbers(functions.atanh), plain.of_float(np.arctanh), "2.0"),
    _two("math.atan2 np.arctan2", "the angle of (x, y)", of_numbers(functions.atan2), plain.of_floats(np.arctan2), "1.8"),
    _two("math.hypot np.hypot", "the length of (x, y)", of_numbers(functions.hypot), plain.of_floats(np.hypot), "1.2"),
    _two("math.fmod np.fmod", "the remainder, of the sign of x", of_numbers(functions.fmod), plain.of_floats(np.fmod)),
    _two(
        "np.remainder", "the remainder, of the sign of y", of_numbers(functions.remainder), plain.of_floats(np.remainder), "0.5"
    ),
    _two("math.copysign np.copysign", "x with the sign of y", of_numbers(functions.copysign), plain.of_floats(np.copysign)),
    _two("pow math.pow np.power", "x to the power of y, as `**`", to_power, plain.power, "0.9"),
    Builtin("math.erfc", "1 - erf(x), of which nothing is lost where it is small", error="2.1", written=written.erfc),
    Builtin(
        "np.fabs",
        "x without its sign",
        of_floats(UnOp.ABS),
        lambda x: plain.canonical(np.fabs(x if type(x) is plain.F64 else plain.to_f32(x))),
        types=FLOATS,
    ),
    Builtin("math.radians np.radians np.deg2rad", "x degrees in radians", error="0.7", written=written.radians),
    Builtin("math.degrees np.degrees np.rad2deg", "x radians in degrees", error="0.7", written=written.degrees),
    Builtin("np.signbit", "whether the sign bit is set; of NaN either", result="bool", written=written.signbit),
    _two("np.heaviside", "0 below 0, 1 above, y at 0; NaN of NaN", written=written.heaviside),
    _two(
        "np.logaddexp",
        "log(exp(x) + exp(y)), which does not overflow",
        error="1.2; below 1 an absolute 2^-23",
        written=written.logaddexp,
    ),
    Builtin("fma", "a * b + c, rounded once", fused, plain.fused, types=FLOATS, least=3, most=3, own=own.fma),
    Builtin(
        "abs math.fabs np.abs",
        "x without its sign; the least whole number stays",
        absolute,
        plain.magnitude,
        types=ALL,
        result="number",
    ),
    _two("np.fmin", "the lesser; beside a NaN the number", extreme(BinOp.MIN, min), least, types=ALL),
    _two("np.fmax", "the greater; beside a NaN the number", extreme(BinOp.MAX, max), greatest, types=ALL),
    _two("np.minimum", "the lesser; beside a NaN the NaN", numpys(BinOp.MIN, min), plain.nan_or(least), types=ALL),
    _two("np.maximum", "the greater; beside a NaN the NaN", numpys(BinOp.MAX, max), plain.nan_or(greatest), types=ALL),
    Builtin(
        "np.clip",
        "x kept between two others; beside a NaN the NaN",
        clip,
        lambda x, low, high: plain.nan_or(least)(plain.nan_or(greatest)(x, low), high),
        types=ALL,
        least=3,
        most=3,
    ),
    Builtin("np.sign", "1, 0 or -1; NaN of NaN", _sign, lambda x: np.sign(plain.typed(x)), types=NUMBERS),
    _of_bits("popcount", "how many bits are set", counted(UnOp.POPCOUNT), plain.of_whole(own.popcount), own=own.popcount),
    _of_bits("clz", "how many bits above the highest set one", counted(UnOp.CLZ), plain.of_whole(own.clz), own=own.clz),
    _of_bits("ctz", "how many bits below the lowest set one", counted(UnOp.CTZ), plain.of_whole(own.ctz), own=own.ctz),
    _two_wholes(
        "rotl", "the bits of x moved up, round the end", rotated(BinOp.ROTATE_LEFT), plain.rotated(own.rotl), own=own.rotl
    ),
    _two_wholes(
        "rotr", "the bits of x moved down, round the end", rotated(BinOp.ROTATE_RIGHT), plain.rotated(own.rotr), own=own.rotr
    ),
    _two_wholes(
        "cdiv",
        "the quotient rounded up, `-(-a // b)`; 0 where b is 0",
        divided(own.cdiv, integers.ceiling_divide, wide.ceiling_divide),
        plain.of_wholes(own.cdiv),
        own=own.cdiv,
    ),
    _two_wholes(
        "trunc_div",
        "the quotient rounded towards 0, as C's; 0 where b is 0",
        divided(own.trunc_div, integers.truncate_divide, wide.truncate_divide),
        plain.of_wholes(own.trunc_div),
        own=own.trunc_div,
    ),
    _two_wholes(
        "trunc_rem",
        "the remainder of `trunc_div`, of the sign of a; 0 where b is 0",
        divided(own.trunc_rem, integers.truncate_remainder, wide.truncate_remainder),
        plain.of_wholes(own.trunc_rem),
        own=own.trunc_rem,
    ),
    _two("divmod np.divmod", "`(a // b, a % b)`", types=(f32, *WHOLE), written=written.quotient_and_remainder),
    _two_wholes("math.gcd np.gcd", "the greatest common divisor; of 0 the other", written=written.gcd),
    Builtin(
        "math.isqrt",
        "the square root rounded down; 0 of a negative number",
        types=(i32, u32),
        result="i32",
        written=written.isqrt,
    ),
)
"""The table."""

TABLE = {function: builtin for builtin in BUILTINS for function in builtin.functions}


def in_python(function: Any) -> Any:  # noqa: ANN401 -- whatever is called
    """Return a function, which for an operator and for some builtins is one that is written in the language."""
    try:
        builtin = TABLE.get(function)
    except TypeError:  # nothing without a hash is in it
        return function
    return as_written(function) if builtin is None or builtin.written is None else builtin.written
