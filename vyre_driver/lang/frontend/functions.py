"""How calls of functions of numbers are translated, by the kind of function: those of the table of builtins."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from vyre_driver.ir.arithmetic import Binary, Unary
from vyre_driver.ir.builders import operation
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.expressions import Fma
from vyre_driver.ir.functions import round_half_even
from vyre_driver.ir.operators import BinOp, TernaryOp, UnOp
from vyre_driver.lang.frontend import integers, wide
from vyre_driver.lang.frontend.arithmetic import power
from vyre_driver.lang.frontend.conversions import alike, cast, typed
from vyre_driver.lang.frontend.values import Constant, Number
from vyre_driver.lang.types import ScalarType, bool_, f32, f64, i32, i64, u32, u64

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vyre_driver.ir.expressions import Expr
    from vyre_driver.lang.frontend.draft import Draft
    from vyre_driver.lang.frontend.translation import Translation
    from vyre_driver.lang.frontend.values import Value

    Function = Callable[[Translation, Sequence[Value], ast.Call], Value]
    Division = Callable[[Draft, Number, Number], Number]

_OF_F64 = frozenset({UnOp.SQRT, UnOp.FLOOR, UnOp.CEIL, UnOp.TRUNC, UnOp.ABS})


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


def rounded(t: Translation, given: Sequence[Value], node: ast.Call) -> Value:
    """Return an f32 rounded to an i32, of two equally near ones to the even one, as Python's ``round`` does."""
    number = typed(t, given[0], node)
    if number.type.is_whole:
        return number
    floats_of(t, (number,), node)
    return cast(t, Number(f32, round_half_even(t.draft.shallow(cast(t, number, f32, node)).expr)), i32, node)


def predicate(op: UnOp) -> Function:
    """Return a function that tests a float."""

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


def absolute(t: Translation, given: Sequence[Value], node: ast.Call) -> Value:
    """Return a number without its sign."""
    if isinstance(given[0], Constant):
        return Constant(abs(given[0].value))
    number = t.draft.shallow(typed(t, given[0], node))
    if number.type is f32:
        return Number(f32, Unary(UnOp.ABS, number.expr))
    if number.type.is_wide:
        return number if number.type is u64 else wide.of_one(UnOp.ABS, t.draft.hold(number, "abs"))
    return integers.magnitude(t.draft, t.draft.facts.refined(cast(t, number, i32, node) if number.type is bool_ else number))


def to_power(t: Translation, given: Sequence[Value], node: ast.Call) -> Value:
    """Return a number to a power."""
    return power(t, given[0], given[1], node)


def fused(t: Translation, given: Sequence[Value], node: ast.Call) -> Value:
    """Return ``a * b + c``, rounded once."""
    numbers = floats_of(t, given, node, has_f64=True)
    a, b, c = (one.expr for one in numbers)
    return Number(f32, Fma(a, b, c)) if numbers[0].type is f32 else Number(f64, operation(TernaryOp.FMA, DataType.F64, a, b, c))


def counted(op: UnOp) -> Function:
    """Return a function that counts bits."""

    def translated(t: Translation, given: Sequence[Value], node: ast.Call) -> Value:
        number = typed(t, given[0], node)
        if not number.type.is_whole:
            raise t.mistyped(node, f"{op.name.lower()} of {number.type}", "give a whole number")
        if number.type.is_wide:
            return wide.counted(op, t.draft.shallow(number))
        return Number(i32, Unary(op, t.draft.shallow(number).expr), 0, 32)

    return translated


def rotated(op: BinOp) -> Function:
    """Return a function that moves bits round."""

    def translated(t: Translation, given: Sequence[Value], node: ast.Call) -> Value:
        word, by = typed(t, given[0], node, u32), typed(t, given[1], node)
        if not (word.type.is_whole and by.type.is_whole):
            raise t.mistyped(node, f"a rotation of {word.type} by {by.type}", "give a u32 and a whole number")
        if word.type.is_wide:
            return wide.rotated(op, word, by, t.draft)
        by = Number(u32, wide.word(by), *u32.bounds) if by.type.is_wide else by
        return Number(word.type, Binary(op, t.draft.shallow(word).expr, t.draft.shallow(by).expr), *word.type.bounds)

    return translated


def divided(function: Callable[[int, int], int], of_words: Division, of_wide: Division) -> Function:
    """Return a division, which of two constants is what ``function`` gives."""
    name = function.__name__

    def translated(t: Translation, given: Sequence[Value], node: ast.Call) -> Value:
        constants = [one.value for one in given if isinstance(one, Constant) and isinstance(one.value, int)]
        if len(constants) == len(given):
            return Constant(function(*constants))
        left, right = (t.draft.facts.refined(one) for one in alike(t, typed(t, given[0], node), given[1], node, name))
        if not left.type.is_whole:
            raise t.mistyped(node, f"{name} is of whole numbers, and these are {left.type}", "use /")
        return (of_wide if left.type.is_wide else of_words)(t.draft, left, right)

    return translated


def checked(t: Translation, types: Sequence[ScalarType], given: Sequence[Value], node: ast.Call) -> Sequence[Value]:
    """Return the arguments of a function of numbers of these types: as f32 where that is all of them, two as one type.

    Raises
    ------
    KernelTypeError
        If one is of another type, or two have none in common.
    """
    if types == (f32,):
        return floats_of(t, given, node)
    name = ast.unparse(node.func)
    for value in given:
        kind = typed(t, value, node).type
        if kind not in types:
            raise t.mistyped(node, f"{name} of {kind}", f"convert: {name}({types[0]}(...))")
    if len(given) == 2 and any(isinstance(value, Number) for value in given):
        left, right = given
        return alike(t, left, right, node, name)
    return given
