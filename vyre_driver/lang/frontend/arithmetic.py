"""The operators of kernels: arithmetic, comparisons, ``and``, ``or`` and ``not``, and the choice between two values."""

from __future__ import annotations

import ast
import operator
from typing import TYPE_CHECKING, Any

from vyre_driver.ir import functions
from vyre_driver.ir.arithmetic import LITERALS, Binary, LitBool, Unary
from vyre_driver.ir.expressions import Cast, Select
from vyre_driver.ir.operators import BinOp, UnOp
from vyre_driver.lang.frontend import integers, wide
from vyre_driver.lang.frontend.conversions import alike, bits_as_i32, cast, truth, typed
from vyre_driver.lang.frontend.facts import Both, Comparison, Either, Negation
from vyre_driver.lang.frontend.values import Array, Constant, Host, Number, Tuple, check_as_tuple, is_signed, kind_name, literal
from vyre_driver.lang.types import bool_, f32, f64, i32, u32

if TYPE_CHECKING:
    from collections.abc import Callable

    from vyre_driver.lang.frontend.draft import Draft
    from vyre_driver.lang.frontend.translation import Translation
    from vyre_driver.lang.frontend.values import Value
    from vyre_driver.lang.types import ScalarType

COMPARED: dict[type[ast.cmpop], tuple[str, BinOp, Callable[[Any, Any], bool]]] = {
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
    sign, binary, fold = COMPARED[type(op)]
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


SIGNS: dict[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
    ast.LShift: "<<",
    ast.RShift: ">>",
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.BitXor: "^",
}
_FOLDED: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": operator.pow,
    "<<": operator.lshift,
    ">>": operator.rshift,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
}
_WHOLE: dict[str, Callable[[Draft, Number, Number], Number]] = {
    "+": lambda _, left, right: integers.add(left, right),
    "-": lambda _, left, right: integers.subtract(left, right),
    "*": lambda _, left, right: integers.multiply(left, right),
    "//": integers.floor_divide,
    "%": integers.remainder,
    "&": lambda _, left, right: integers.bit_and(left, right),
    "|": lambda _, left, right: integers.bit_or(left, right),
    "^": lambda _, left, right: integers.bit_xor(left, right),
}
_FLOATS = {"+": BinOp.ADD, "-": BinOp.SUB, "*": BinOp.MUL, "/": BinOp.DIV}
_BOOLS = {"&": BinOp.AND, "|": BinOp.OR, "^": BinOp.NE}
_WITHOUT = {"//": "write math.floor(a / b), or convert with f32(...)", "%": "convert with f32(...)"}  # of f64
_MOST_FACTORS = 64  # of a power that is multiplied out
_MOST_ITEMS = 8192  # of a tuple that is made of others
_MOST_BITS = 4096  # of a constant


def _joined(t: Translation, left: Tuple, right: Tuple, node: ast.AST) -> Tuple:
    """Return two tuples one behind the other."""
    count = len(left.items) + len(right.items)
    if count > _MOST_ITEMS:
        raise t.mistyped(node, f"a tuple gets {count:,} items, and has {_MOST_ITEMS:,} at most", "pass an array")
    return Tuple(left.items + right.items)


def binary(t: Translation, sign: str, left: Value, right: Value, node: ast.AST) -> Value:
    """Return ``left sign right``."""
    if isinstance(left, Constant) and isinstance(right, Constant):
        return _fold(t, sign, left, right, node)
    if isinstance(left, Tuple) and isinstance(right, Tuple) and sign == "+":
        for one in (left, right):
            check_as_tuple(t, one, "__add__", "'+'", node)
            check_as_tuple(t, one, "__radd__", "'+'", node)
        return _joined(t, left, right, node)
    if sign == "**":
        return power(t, left, right, node)
    if sign in {"<<", ">>"}:
        return _shift(t, sign, left, right, node)
    if sign == "/":
        return _quotient(t, left, right, node)
    return _combined(t, sign, *alike(t, left, right, node, sign), node)


def _combined(t: Translation, sign: str, left: Number, right: Number, node: ast.AST) -> Number:
    """Return an operator on numbers of one type."""
    one, other = t.draft.shallow(left), t.draft.shallow(right)
    if one.type is bool_:
        if sign in _BOOLS:
            return Number(bool_, Binary(_BOOLS[sign], one.expr, other.expr))
        one, other = cast(t, one, i32, node), cast(t, other, i32, node)
    if one.type.is_wide:
        found = wide.combined(t.draft, sign, one, other)
        if found is None:
            raise t.mistyped(node, f"{sign!r} of {one.type}", _WITHOUT.get(sign, "convert to i64 or u64 first"))
        return found
    if one.type.is_whole:
        return _WHOLE[sign](t.draft, t.draft.facts.refined(one), t.draft.facts.refined(other))
    if sign in _FLOATS:  # but for quotients, which have been dealt with
        return Number(f32, Binary(_FLOATS[sign], one.expr, other.expr))
    if sign in {"//", "%"}:
        return _float_division(t, sign, one, other)
    raise t.mistyped(node, f"{sign!r} of {one.type} and {other.type}", "convert both to i32 or u32 first")


def _fold(t: Translation, sign: str, left: Constant, right: Constant, node: ast.AST) -> Constant:
    """Return what Python gives for constants."""
    if sign in {"<<", "**"} and _is_huge(sign, left.value, right.value):
        raise t.mistyped(node, f"{left.value!r} {sign} {right.value!r} has over {_MOST_BITS} bits", "use a smaller constant")
    try:
        found = _FOLDED[sign](left.value, right.value)
    except (ArithmeticError, TypeError, ValueError) as error:
        raise t.mistyped(node, f"{left.value!r} {sign} {right.value!r}: {error}", "change the constants") from error
    if not isinstance(found, (bool, int, float)):
        raise t.mistyped(
            node, f"{left.value!r} {sign} {right.value!r} is {found!r}, which is no real number", "change the constants"
        )
    return Constant(found)


def _is_huge(sign: str, left: float, right: float) -> bool:
    if not (isinstance(left, int) and isinstance(right, int)) or right < 0:
        return False
    return (left.bit_length() + right if sign == "<<" else left.bit_length() * right) > _MOST_BITS


def _quotient(t: Translation, left: Value, right: Value, node: ast.AST) -> Number:
    """Return the quotient of two numbers as an f32, or as an f64 where one of them has 64 bits."""
    if any(isinstance(one, Number) and one.type.is_wide for one in (left, right)):
        top, below = (cast(t, one, f64, node) for one in alike(t, left, right, node, "/"))
        return wide.of_two(BinOp.DIV, t.draft.shallow(top), t.draft.shallow(below))
    one, other = cast(t, left, f32, node), cast(t, right, f32, node)
    return Number(f32, Binary(BinOp.DIV, t.draft.shallow(one).expr, _divisor(t, other).expr))


def _divisor(t: Translation, number: Number) -> Number:
    """Return what an f32 is divided by: a variable of a literal 0, by which the validator refuses to divide."""
    inner = number.expr
    while isinstance(inner, Cast):
        inner = inner.value
    is_nothing = isinstance(inner, LITERALS) and not inner.value
    return t.draft.let("divisor", number) if is_nothing else t.draft.shallow(number)


def _float_division(t: Translation, sign: str, left: Number, right: Number) -> Number:
    """Return the quotient of f32 rounded down, or what it leaves, as numpy has both."""
    function = functions.floor_divide if sign == "//" else functions.remainder
    return Number(f32, function(t.draft.shallow(left).expr, _divisor(t, t.draft.shallow(right)).expr))


def _shift(t: Translation, sign: str, left: Value, right: Value, node: ast.AST) -> Number:
    like = right.type if isinstance(right, Number) and right.type.is_wide and right.type.is_whole else None
    one = t.draft.facts.refined(t.draft.shallow(typed(t, left, node, like)))
    if isinstance(right, Constant) and not 0 <= right.value < one.type.bits:
        raise t.mistyped(node, f"{sign!r} by {right.value}", f"shift by 0 to {one.type.bits - 1}")
    by = t.draft.facts.refined(t.draft.shallow(typed(t, right, node)))
    if not (one.type.is_whole and by.type.is_whole):
        raise t.mistyped(node, f"{sign!r} of {one.type} by {by.type}", "shift whole numbers")
    if one.type.is_wide:
        return wide.shifted(BinOp.SHL if sign == "<<" else BinOp.SHR, one, by)
    by = by if not by.type.is_wide else Number(u32, wide.word(by), *u32.bounds)
    return integers.shift_left(one, by) if sign == "<<" else integers.shift_right(t.draft, one, by)


def power(t: Translation, left: Value, right: Value, node: ast.AST) -> Number:
    """Return ``left ** right``: products for a whole constant, a square root for 0.5, else the function of f32."""
    exponent = right.value if isinstance(right, Constant) else None
    if isinstance(exponent, int) and not isinstance(exponent, bool) and abs(exponent) <= _MOST_FACTORS:
        return _whole_power(t, typed(t, left, node), exponent, node)
    bases = [one.type for one in (left, right) if isinstance(one, Number) and one.type.is_wide]
    if bases:
        return _wide_power(t, left, exponent, bases[0], node)
    if exponent in {0.5, -0.5}:
        base = t.draft.shallow(cast(t, left, f32, node))
        return Number(f32, Unary(UnOp.SQRT if exponent == 0.5 else UnOp.INVERSE_SQRT, base.expr))
    base, times = t.draft.shallow(cast(t, left, f32, node)), t.draft.shallow(cast(t, right, f32, node))
    return Number(f32, functions.power(base.expr, times.expr))


def _wide_power(t: Translation, left: Value, exponent: object, scalar: ScalarType, node: ast.AST) -> Number:
    """Return a power of 64 bits that is no product: a root of an f64."""
    if scalar is not f64 or exponent not in {0.5, -0.5}:
        fix = "convert with f32(...)" if scalar is f64 else "use a constant exponent up to 64, or convert with f32(...)"
        raise t.mistyped(node, f"'**' of {scalar}, but by a constant whole number or 0.5", fix)
    root = wide.of_one(UnOp.SQRT, t.draft.shallow(cast(t, left, f64, node)))
    return root if exponent == 0.5 else wide.of_two(BinOp.DIV, literal(f64, 1), root)


def _whole_power(t: Translation, base: Number, exponent: int, node: ast.AST) -> Number:
    if exponent < 0:
        whole = cast(t, base, f64 if base.type.is_wide else f32, node)
        below = _whole_power(t, whole, -exponent, node)
        return _quotient(t, literal(whole.type, 1), below, node)
    base = cast(t, base, i32, node) if base.type is bool_ else base
    result: Number | None = None
    while exponent:
        base = t.draft.hold(base, "power")
        if exponent & 1:
            result = base if result is None else _product(t, result, base, node)
        exponent >>= 1
        if exponent:
            base = _product(t, base, base, node)
    return literal(base.type, 1) if result is None else result


def _product(t: Translation, left: Number, right: Number, node: ast.AST) -> Number:
    found = binary(t, "*", left, right, node)
    assert isinstance(found, Number)  # noqa: S101 -- of two numbers
    return found


def unary(t: Translation, op: ast.unaryop, value: Value, node: ast.AST) -> Value:
    """Return ``op value``."""
    if isinstance(op, ast.Not):
        return negated(t, value, node)
    if isinstance(value, Constant):
        if isinstance(op, ast.Invert) and type(value.value) is not int:
            raise t.mistyped(node, f"'~' of {kind_name(value)}", "use a whole number")
        return Constant(_UNARY[type(op)](value.value))
    number = t.draft.shallow(typed(t, value, node))
    if number.type is bool_ and isinstance(op, ast.Invert):
        raise t.mistyped(node, "'~' of a bool is not its negation in Python", "write not")
    number = cast(t, number, i32, node) if number.type is bool_ else t.draft.facts.refined(number)
    if isinstance(op, ast.UAdd):
        return number
    if number.type.is_wide:
        return _wide_unary(t, op, number, node)
    if isinstance(op, ast.USub):
        return Number(f32, Unary(UnOp.NEGATE, number.expr)) if number.type is f32 else _negative(number)
    if number.type is f32:
        raise t.mistyped(node, "'~' of f32", "convert to i32 or u32 first")
    return integers.invert(number)


def _wide_unary(t: Translation, op: ast.unaryop, number: Number, node: ast.AST) -> Number:
    if isinstance(op, ast.USub):
        return wide.negative(number)
    if number.type is f64:
        raise t.mistyped(node, "'~' of f64", "convert to i64 or u64 first")
    return wide.of_one(UnOp.BIT_NOT, number)


_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Invert: operator.invert,
}


def _negative(number: Number) -> Number:
    """Return the number of the other sign; of a u32 modulo 2**32, as numpy does."""
    found = integers.negative(number)
    return Number(u32, found.expr, *u32.bounds) if number.type is u32 and found.low < 0 else found


def negated(t: Translation, value: Value, node: ast.AST) -> Value:
    """Return ``not value``."""
    number = condition(t, value, node)
    if isinstance(number, Constant):
        return Constant(not number.value)
    result = Number(bool_, Unary(UnOp.LOGICAL_NOT, number.expr))
    t.draft.facts.note(result.expr, Negation(number.expr))
    return result
