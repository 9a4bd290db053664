"""Comparisons, ``and`` and ``or``, and the choice between two values."""

from __future__ import annotations

import ast
import operator
from typing import TYPE_CHECKING, Any

from vyre_driver.ir.arithmetic import Binary, LitBool, Unary
from vyre_driver.ir.expressions import Select
from vyre_driver.ir.operators import BinOp, UnOp
from vyre_driver.lang.frontend.conversions import alike, bits_as_i32, truth, typed
from vyre_driver.lang.frontend.facts import Both, Comparison, Either
from vyre_driver.lang.frontend.records import check_as_tuple
from vyre_driver.lang.frontend.values import Array, Constant, Host, Number, Tuple, is_signed, kind_name
from vyre_driver.lang.types import bool_, f32

if TYPE_CHECKING:
    from collections.abc import Callable

    from vyre_driver.lang.frontend.translation import Translation
    from vyre_driver.lang.frontend.values import Value

_COMPARED: dict[type[ast.cmpop], tuple[str, BinOp, Callable[[Any, Any], bool]]] = {
    ast.Lt: ("<", BinOp.LT, operator.lt),
    ast.LtE: ("<=", BinOp.LE, operator.le),
    ast.Gt: (">", BinOp.GT, operator.gt),
    ast.GtE: (">=", BinOp.GE, operator.ge),
    ast.Eq: ("==", BinOp.EQ, operator.eq),
    ast.NotEq: ("!=", BinOp.NE, operator.ne),
}
_EQUAL = {BinOp.EQ, BinOp.NE}


def compare(t: Translation, op: ast.cmpop, left: Value, right: Value, node: ast.AST) -> Value:
    """Return one comparison."""
    if isinstance(op, (ast.Is, ast.IsNot)):
        return _identity(t, op, left, right, node)
    if isinstance(op, (ast.In, ast.NotIn)):
        return _membership(t, op, left, right, node)
    sign, binary, fold = _COMPARED[type(op)]
    if isinstance(left, (Constant, Host)) and isinstance(right, (Constant, Host)):
        try:
            return Constant(bool(fold(left.value, right.value)))
        except TypeError as error:
            raise t.mistyped(
                node, f"{sign!r} of {kind_name(left)} and {kind_name(right)}: {error}", "compare numbers"
            ) from error
    if isinstance(left, Tuple) and isinstance(right, Tuple) and binary in _EQUAL:
        for one_side in (left, right):
            check_as_tuple(t, one_side, "__eq__" if binary is BinOp.EQ else "__ne__", f"{sign!r}", node)
        return _tuples(t, op, left, right, node)
    if isinstance(left, Tuple) or isinstance(right, Tuple):
        raise t.mistyped(node, f"{sign!r} of {kind_name(left)} and {kind_name(right)}", "compare numbers that are in it")
    one, other = (t.draft.shallow(operand) for operand in alike(t, left, right, node, sign))
    if one.type is bool_ and binary not in _EQUAL:
        raise t.mistyped(node, f"{sign!r} of bools", "convert them with i32(...)")
    return _compared(t, binary, one, other)


def _compared(t: Translation, op: BinOp, left: Number, right: Number) -> Number:
    facts = t.draft.facts
    if not left.type.is_whole:
        return Number(bool_, Binary(op, left.expr, right.expr))
    left, right = facts.refined(left), facts.refined(right)
    if op in _EQUAL:
        return Number(bool_, Binary(op, left.expr, right.expr))
    if op in {BinOp.GT, BinOp.GE}:
        left, right, op = right, left, BinOp.LT if op is BinOp.GT else BinOp.LE
    signed = is_signed(left) or is_signed(right)
    operands = (bits_as_i32(left), bits_as_i32(right)) if signed else (left.expr, right.expr)
    result = Binary(op, *operands)
    facts.note(result, Comparison(left, right, op is BinOp.LT))
    return Number(bool_, result)


def _identity(t: Translation, op: ast.cmpop, left: Value, right: Value, node: ast.AST) -> Constant:
    if isinstance(left, (Constant, Host)) and isinstance(right, (Constant, Host)):
        return Constant((left.value is right.value) == isinstance(op, ast.Is))
    if _is_none(left) != _is_none(right) and isinstance(left if _is_none(right) else right, (Number, Tuple, Array)):
        return Constant(not isinstance(op, ast.Is))
    raise t.mistyped(node, "'is' compares objects, which numbers of the device are not", "use ==")


def _is_none(value: Value) -> bool:
    return isinstance(value, Host) and value.value is None


def _membership(t: Translation, op: ast.cmpop, left: Value, right: Value, node: ast.AST) -> Value:
    if not isinstance(right, Tuple):
        raise t.mistyped(node, f"'in' looks into tuples, and this is {kind_name(right)}", "write x == a or x == b")
    check_as_tuple(t, right, "__contains__", "'in'", node)
    found: Value = Constant(False)
    for item in right.items:
        found = either(t, found, compare(t, ast.Eq(), left, item, node), node)
    if isinstance(op, ast.In):
        return found
    return Constant(not found.value) if isinstance(found, Constant) else _not(typed(t, found, node))


def _tuples(t: Translation, op: ast.cmpop, left: Tuple, right: Tuple, node: ast.AST) -> Value:
    same: Value = Constant(len(left.items) == len(right.items))
    for one, other in zip(left.items, right.items, strict=False):
        same = both(t, same, compare(t, ast.Eq(), one, other, node), node)
    if isinstance(op, ast.Eq):
        return same
    return Constant(not same.value) if isinstance(same, Constant) else _not(typed(t, same, node))


def _not(condition: Number) -> Number:
    return Number(bool_, Unary(UnOp.LOGICAL_NOT, condition.expr))


def condition(t: Translation, value: Value, node: ast.AST) -> Number | Constant:
    """Return whether a value counts as true: a bool, or a constant."""
    if isinstance(value, Constant):
        return Constant(bool(value.value))
    if isinstance(value, Host):
        return Constant(bool(value.value))
    if isinstance(value, Tuple):
        check_as_tuple(t, value, "__bool__", "the truth", node)
        check_as_tuple(t, value, "__len__", "the truth", node)
        return Constant(bool(value.items))
    return truth(typed(t, value, node))


def both(t: Translation, left: Value, right: Value, node: ast.AST) -> Value:
    """Return whether two conditions hold, both of which are computed."""
    for one, other in ((left, right), (right, left)):
        if isinstance(one, Constant):
            return other if one.value else one
    first, second = (t.draft.shallow(truth(typed(t, one, node))) for one in (left, right))
    result = Number(bool_, Binary(BinOp.AND, first.expr, second.expr))
    t.draft.facts.note(result.expr, Both(first.expr, second.expr))
    return result


def either(t: Translation, left: Value, right: Value, node: ast.AST) -> Value:
    """Return whether one of two conditions holds, both of which are computed."""
    for one, other in ((left, right), (right, left)):
        if isinstance(one, Constant):
            return one if one.value else other
    first, second = (t.draft.shallow(truth(typed(t, one, node))) for one in (left, right))
    result = Number(bool_, Binary(BinOp.OR, first.expr, second.expr))
    t.draft.facts.note(result.expr, Either(first.expr, second.expr))
    return result


def choose(t: Translation, test: Number, yes: Value, no: Value, node: ast.AST) -> Number:
    """Return one of two values, both of which are computed."""
    one, other = alike_or_typed(t, yes, no, node, "if else")
    one, other = t.draft.shallow(one), t.draft.shallow(other)
    if isinstance(test.expr, LitBool):
        return one if test.expr.value else other
    low, high = min(one.low, other.low), max(one.high, other.high)
    return Number(one.type, Select(t.draft.shallow(test).expr, one.expr, other.expr), low, high)


def alike_or_typed(t: Translation, left: Value, right: Value, node: ast.AST, sign: str) -> tuple[Number, Number]:
    """Return two values as numbers of one type, also where both are constants."""
    if isinstance(left, Constant) and isinstance(right, Constant):
        floats = isinstance(left.value, float) or isinstance(right.value, float)
        like = f32 if floats else None
        return typed(t, left, node, like), typed(t, right, node, like)
    return alike(t, left, right, node, sign)
