"""The lesser and the greater of numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vyre_driver.checks import U32_MAX
from vyre_driver.ir.arithmetic import Binary, LitU32
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.expressions import Cast, Select
from vyre_driver.ir.operators import BinOp, UnOp
from vyre_driver.lang.frontend import integers, wide
from vyre_driver.lang.frontend.conversions import alike, bits_as_i32
from vyre_driver.lang.frontend.records import check_as_tuple
from vyre_driver.lang.frontend.values import Constant, Number, Tuple, is_literal, is_signed, literal
from vyre_driver.lang.types import Kind, bool_, i32, u32

if TYPE_CHECKING:
    import ast
    from collections.abc import Callable, Sequence

    from vyre_driver.lang.frontend.translation import Translation
    from vyre_driver.lang.frontend.values import Value

    Function = Callable[[Translation, Sequence[Value], ast.Call], Value]

_NEAR = -(1 << 16)  # how far below 0 a number may be that is moved up by as much to be compared as a word


def extreme(op: BinOp, fold: Callable[[Any, Any], Any]) -> Function:
    """Return what the least or greatest of several numbers, or of one tuple of them, becomes."""

    def translated(t: Translation, given: Sequence[Value], node: ast.Call) -> Value:
        items = list(given)
        if len(given) == 1 and isinstance(given[0], Tuple):
            check_as_tuple(t, given[0], "__iter__", f"the {fold.__name__}", node)
            items = list(given[0].items)
        found = items[0]
        for item in items[1:]:
            if isinstance(found, Constant) and isinstance(item, Constant):
                found = Constant(fold(found.value, item.value))
                continue
            found = _extreme_of_two(t, op, *alike(t, found, item, node, fold.__name__))
        return found

    return translated


def _extreme_of_two(t: Translation, op: BinOp, left: Number, right: Number) -> Number:
    if left.type is bool_:  # the lesser is True where both are, the greater where one is
        one, other = t.draft.shallow(left), t.draft.shallow(right)
        return Number(bool_, Binary(BinOp.AND if op is BinOp.MIN else BinOp.OR, one.expr, other.expr))
    left, right = t.draft.facts.refined(t.draft.shallow(left)), t.draft.facts.refined(t.draft.shallow(right))
    if left.type.is_wide:
        return wide.of_two(op, left, right)
    if not left.type.is_whole:
        return Number(left.type, Binary(op, left.expr, right.expr))
    fold = min if op is BinOp.MIN else max
    low, high = fold(left.low, right.low), fold(left.high, right.high)
    least = min(left.low, right.low)
    if low == high:
        return literal(left.type, low)
    if _NEAR <= least < 0 and (is_literal(left) or is_literal(right)):  # words, all of them moved up by as much
        moved = (integers.add(Number(u32, one.expr, one.low, one.high), literal(u32, -least)).expr for one in (left, right))
        found = Number(i32, Binary(BinOp.ADD, Binary(op, *moved), LitU32(least & U32_MAX)), low, high)
    elif is_signed(left) or is_signed(right):
        chosen = Binary(op, bits_as_i32(left), bits_as_i32(right))
        found = integers.whole(i32, Cast(DataType.U32, chosen), low, high)
    else:
        found = integers.whole(left.type, Binary(op, left.expr, right.expr), low, high)
    for one in (left, right) if op is BinOp.MIN else ():
        t.draft.facts.know_not_above(found, one)
    return found


def numpys(op: BinOp, fold: Callable[[Any, Any], Any]) -> Function:
    """Return what numpy's lesser or greater of two becomes: NaN where one of them is."""
    of_numbers = extreme(op, fold)

    def translated(t: Translation, given: Sequence[Value], node: ast.Call) -> Value:
        left, right = given
        if isinstance(left, Constant) and isinstance(right, Constant):
            return left if _is_nan(left) else right if _is_nan(right) else of_numbers(t, given, node)
        one, other = alike(t, left, right, node, fold.__name__)
        if one.type.kind is not Kind.FLOAT:
            return _extreme_of_two(t, op, one, other)
        one, other = t.draft.hold(one, "one"), t.draft.hold(other, "other")
        found = _extreme_of_two(t, op, one, other)
        for value, number in ((right, other), (left, one)):
            if not isinstance(value, Constant) or _is_nan(value):
                found = Number(one.type, Select(wide.predicate(UnOp.IS_NAN, number).expr, number.expr, found.expr))
        return found

    return translated


def _is_nan(constant: Constant) -> bool:
    value = constant.value
    return value != value  # noqa: PLR0124 -- NaN


def clip(t: Translation, given: Sequence[Value], node: ast.Call) -> Value:
    """Return a number that is kept between two others, NaN where one of them is."""
    value, low, high = given
    return numpys(BinOp.MIN, min)(t, [numpys(BinOp.MAX, max)(t, [value, low], node), high], node)
