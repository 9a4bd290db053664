"""The binary and unary operators of kernels, on numbers of every type."""

from __future__ import annotations

import ast
import operator
from typing import TYPE_CHECKING, Any

from vyre_driver.ir import functions
from vyre_driver.ir.arithmetic import LITERALS, Binary, Unary
from vyre_driver.ir.expressions import Cast
from vyre_driver.ir.operators import BinOp, UnOp
from vyre_driver.lang.frontend import integers, wide
from vyre_driver.lang.frontend.comparisons import condition
from vyre_driver.lang.frontend.conversions import alike, cast, typed
from vyre_driver.lang.frontend.facts import Negation
from vyre_driver.lang.frontend.records import check_as_tuple
from vyre_driver.lang.frontend.values import Constant, Number, Tuple, kind_name, literal
from vyre_driver.lang.types import bool_, f32, f64, i32, u32

if TYPE_CHECKING:
    from collections.abc import Callable

    from vyre_driver.lang.frontend.draft import Draft
    from vyre_driver.lang.frontend.translation import Translation
    from vyre_driver.lang.frontend.values import Value
    from vyre_driver.lang.types import ScalarType

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
