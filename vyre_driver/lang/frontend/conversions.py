"""Values as numbers of a type: constants that take the type of what they meet, casts, and two operands made alike."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from vyre_driver.ir.arithmetic import Binary, LitU32
from vyre_driver.ir.arithmetic import f32 as f32_literal
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.expressions import Cast
from vyre_driver.ir.operators import BinOp
from vyre_driver.lang.frontend.values import Array, Constant, Number, kind_name, literal, shown
from vyre_driver.lang.types import COMPUTED, Kind, ScalarType, bool_, f32, i32, u32

if TYPE_CHECKING:
    import ast

    from vyre_driver.ir.expressions import Expr
    from vyre_driver.lang.frontend.translation import Translation
    from vyre_driver.lang.frontend.values import Value

_BEYOND_F32 = 2.0**128 - 2.0**103  # what is not below it becomes infinite


def typed(t: Translation, value: Value, node: ast.AST, like: ScalarType | None = None) -> Number:
    """Return a number of a type of the device; a constant is of the type ``like``, else i32, f32 or bool."""
    if isinstance(value, Number):
        return value
    if not isinstance(value, Constant):
        fix = "use a number"
        if isinstance(value, Array):
            fix = f"use an element of it: {value.name}[...]"
        raise t.mistyped(node, f"a number is wanted here, and this is {kind_name(value)}", fix)
    if like is not None:
        return constant_as(t, value, like, node)
    if isinstance(value.value, bool):
        return literal(bool_, value.value)
    return constant_as(t, value, i32 if isinstance(value.value, int) else f32, node)


def constant_as(t: Translation, constant: Constant, scalar: ScalarType, node: ast.AST) -> Number:
    """Return a constant as a type that it stands beside, without a cast: only what is exact, or a float."""
    value = constant.value
    if scalar is bool_:
        if not isinstance(value, bool):
            raise t.mistyped(node, f"{value!r} stands where a bool is wanted", f"write {bool(value)}")
        return literal(bool_, value)
    if scalar is f32:
        return literal(f32, _as_float(t, value, node))
    if isinstance(value, float):
        raise t.mistyped(
            node,
            f"the float {value!r} stands beside {scalar}",
            f"convert the other side with f32(...), or write {_whole(value)}",
        )
    low, high = scalar.bounds
    if not low <= int(value) <= high:
        raise t.mistyped(
            node, f"{shown(value)} does not fit {scalar}, which goes from {low} to {high}", "use a number in that range"
        )
    return literal(scalar, int(value))


def _whole(value: float) -> str:
    return str(int(value)) if math.isfinite(value) else "a whole number"


def _as_float(t: Translation, value: float, node: ast.AST) -> float:
    try:
        found = float(value)
        is_beyond = math.isfinite(found) and abs(found) >= _BEYOND_F32
    except OverflowError:
        found, is_beyond = math.inf, True
    if is_beyond:
        raise t.mistyped(
            node, f"{shown(value)} does not fit f32, whose greatest number is 3.4028235e+38", "use a number in its range"
        )
    return found


def bits_as_i32(number: Number) -> Expr:
    """Return an i32 as the program's own type for it, which compares with signs."""
    return Cast(DataType.I32, number.expr)


def by_value(number: Number) -> Expr:
    """Return a number as an expression that casts by its value."""
    return bits_as_i32(number) if number.type is i32 and not number.is_natural else number.expr


def cast(t: Translation, value: Value, scalar: ScalarType, node: ast.AST) -> Number:
    """Return a value as another type, as numpy's ``astype`` does; a float out of range gives the nearest whole number."""
    if isinstance(value, Constant):
        return _cast_constant(t, value.value, scalar, node)
    number = typed(t, value, node)
    if number.type is scalar:
        return number
    if scalar not in COMPUTED:
        return _narrowed(cast(t, number, i32 if scalar.is_whole else f32, node), scalar)
    if scalar is bool_:
        return truth(number)
    if scalar is f32:
        return Number(f32, Cast(DataType.F32, by_value(number)))
    if number.type is f32:
        whole = Cast(DataType.I32 if scalar is i32 else DataType.U32, number.expr)
        return Number(scalar, Cast(DataType.U32, whole) if scalar is i32 else whole, *scalar.bounds)
    if number.type is bool_:
        return Number(scalar, Cast(DataType.U32, number.expr), 0, 1)
    low, high = scalar.bounds
    fits = low <= number.low and number.high <= high
    return Number(scalar, number.expr, *((number.low, number.high) if fits else (low, high)))


def _cast_constant(t: Translation, value: float, scalar: ScalarType, node: ast.AST) -> Number:
    target = scalar if scalar in COMPUTED else i32
    if scalar is bool_:
        return literal(bool_, bool(value))
    if scalar is f32:
        return literal(f32, _as_float(t, value, node))
    if isinstance(value, float) and not math.isfinite(value):
        raise t.mistyped(node, f"{value!r} is no whole number", "test for it before")
    low, high = scalar.bounds
    if not low <= int(value) <= high:
        raise t.mistyped(
            node, f"{shown(value)} does not fit {scalar}, which goes from {low} to {high}", "use a number in that range"
        )
    return literal(target, int(value))


def _narrowed(number: Number, scalar: ScalarType) -> Number:
    """Return a whole number as one that a narrower type holds: its lowest bits, with the sign that they give."""
    low, high = scalar.bounds
    if low <= number.low and number.high <= high:
        return number
    mask = LitU32((1 << scalar.bits) - 1)
    part = Binary(BinOp.BIT_AND, number.expr, mask)
    if scalar.kind is Kind.UNSIGNED:
        return Number(i32, part, low, high)
    sign = LitU32(1 << scalar.bits - 1)
    turned = Binary(BinOp.BIT_XOR, part, sign)
    return Number(i32, Binary(BinOp.SUB, turned, sign), low, high)


def truth(number: Number) -> Number:
    """Return whether a number is not zero."""
    if number.type is bool_:
        return number
    nothing = f32_literal(0.0) if number.type is f32 else LitU32(0)
    return Number(bool_, Binary(BinOp.NE, number.expr, nothing))


def alike(t: Translation, left: Value, right: Value, node: ast.AST, sign: str) -> tuple[Number, Number]:
    """Return two operands as numbers of one type; ``sign`` is the operator, for a message.

    A constant takes the other's type, a whole number beside an f32 becomes one, and a bool a number. An i32 beside a u32 is
    refused unless it is certainly not negative.
    """
    if isinstance(left, Constant) and not isinstance(right, Constant):
        other = typed(t, right, node)
        return alike(t, _beside(t, left, other, node), other, node, sign)
    if isinstance(right, Constant):
        one = typed(t, left, node)
        return alike(t, one, _beside(t, right, one, node), node, sign)
    one, other = typed(t, left, node), typed(t, right, node)
    kinds = {one.type, other.type}
    if len(kinds) == 1:
        return one, other
    if bool_ in kinds:
        scalar = other.type if one.type is bool_ else one.type
        return cast(t, one, scalar, node), cast(t, other, scalar, node)
    if f32 in kinds:
        return cast(t, one, f32, node), cast(t, other, f32, node)
    if (one if one.type is i32 else other).is_natural:
        return cast(t, one, u32, node), cast(t, other, u32, node)
    fix = "convert one side: u32(...) keeps the bits of a negative number, i32(...) those of a large one"
    raise t.mistyped(node, f"{sign!r} between {one.type} and {other.type}", fix)


def _beside(t: Translation, constant: Constant, other: Number, node: ast.AST) -> Number:
    """Return a constant as it counts beside a number: a float beside a whole number makes an f32 of both."""
    if other.type is bool_ and not isinstance(constant.value, bool):
        return typed(t, constant, node)
    if isinstance(constant.value, float) and other.type.is_whole:
        return constant_as(t, constant, f32, node)
    return constant_as(t, constant, other.type, node)
