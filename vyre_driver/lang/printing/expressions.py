"""The expressions of a program as Python.

What the text says is translated to the same expression again, but for what the language writes in one way alone: ``a > b`` of
whole numbers becomes ``b < a``.
"""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from vyre_driver.errors import UnsupportedFeature
from vyre_driver.ir import expressions as ex
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.expression_text import operator_text
from vyre_driver.ir.extensions import application
from vyre_driver.ir.operators import COMPARISONS, LOGICAL, BinOp, UnOp
from vyre_driver.lang.types import SCALARS

if TYPE_CHECKING:
    from collections.abc import Callable

    from vyre_driver.ir.expressions import Expr

_U32, _I32, _F32, _BOOL = DataType.U32, DataType.I32, DataType.F32, DataType.Bool
_SIGN, _WORD = 0x8000_0000, 0xFFFF_FFFF
HELD = {
    **{one.element: _I32 for one in SCALARS.values() if one.is_whole},
    _U32: _U32,
    _F32: _F32,
    _BOOL: _BOOL,
    DataType.F16: _F32,
}
"""What a number of a type of memory is in a kernel."""

_ATOM, _PREFIX, _NOT, _COMPARED = 13, 11, 3, 4
_INFIX = {
    BinOp.OR: ("or", 1),
    BinOp.AND: ("and", 2),
    BinOp.EQ: ("==", _COMPARED),
    BinOp.NE: ("!=", _COMPARED),
    BinOp.LT: ("<", _COMPARED),
    BinOp.GT: (">", _COMPARED),
    BinOp.LE: ("<=", _COMPARED),
    BinOp.GE: (">=", _COMPARED),
    BinOp.BIT_OR: ("|", 5),
    BinOp.BIT_XOR: ("^", 6),
    BinOp.BIT_AND: ("&", 7),
    BinOp.SHL: ("<<", 8),
    BinOp.SHR: (">>", 8),
    BinOp.ADD: ("+", 9),
    BinOp.WRAPPING_ADD: ("+", 9),
    BinOp.SUB: ("-", 9),
    BinOp.WRAPPING_SUB: ("-", 9),
    BinOp.MUL: ("*", 10),
}
_BINARY_CALLS = {BinOp.MIN: "min", BinOp.MAX: "max", BinOp.ROTATE_LEFT: "rotl", BinOp.ROTATE_RIGHT: "rotr"}
_PREFIXES = {UnOp.NEGATE: ("-", _PREFIX), UnOp.BIT_NOT: ("~", _PREFIX), UnOp.LOGICAL_NOT: ("not ", _NOT)}
_UNARY_CALLS = {
    **{UnOp[name.upper()]: f"math.{name}" for name in ("cos", "sin", "sqrt", "exp", "log", "log2", "exp2", "tan", "tanh")},
    **{UnOp[name.upper()]: f"math.{name}" for name in ("acos", "asin", "atan", "sinh", "cosh")},
    **{UnOp[name.upper()]: f"np.{name}" for name in ("floor", "ceil", "trunc", "reciprocal")},
    UnOp.INVERSE_SQRT: "rsqrt",
    UnOp.ABS: "abs",
}
_COUNTED = {UnOp.POPCOUNT: "popcount", UnOp.CLZ: "clz", UnOp.CTZ: "ctz"}
_TESTED = {UnOp.IS_NAN: "math.isnan", UnOp.IS_INF: "math.isinf", UnOp.IS_FINITE: "math.isfinite"}
_NATURAL = (ex.InvocationId, ex.LocalId, ex.WorkgroupId)  # i32 of the language that are never negative
_LIBRARY = {
    "power": "pow",
    "atan2": "math.atan2",
    "hypot": "math.hypot",
    "copysign": "math.copysign",
    "fmod": "math.fmod",
    "remainder": "np.remainder",
    "round_half_even": "np.rint",
    **{name: f"math.{name}" for name in ("log10", "log1p", "expm1", "erf", "asinh", "acosh", "atanh")},
    "cbrt": "np.cbrt",
}


class Spelled(NamedTuple):
    """An expression as text, how tightly its last operator binds, and the type that the language gives it.

    ``bare`` is the text of a literal without its type, which it takes from what it stands beside.
    """

    text: str
    level: int
    type: DataType
    bare: str | None = None

    def at(self, level: int) -> str:
        """Return the text for a place that wants what binds at least so tightly."""
        return self.text if self.level >= level else f"({self.text})"

    def beside(self, other: Spelled, level: int) -> str:
        """Return the text of an operand, whose type may be seen from the other one."""
        return self.bare if self.bare is not None and other.bare is None else self.at(level)

    @property
    def untyped(self) -> str:
        """The text where its type is known."""
        return self.text if self.bare is None else self.bare


class Spelling:
    """Spells expressions; ``leaf`` spells what depends on the kernel: variables, indices, lengths and elements."""

    def __init__(self, leaf: Callable[[Expr], Spelled | None]) -> None:
        """Take the spelling of leaves."""
        self._leaf = leaf
        self.positive: set[str] = set()

    def spelled(self, expr: Expr) -> Spelled:
        """Return an expression as text.

        Raises
        ------
        UnsupportedFeature
            If the language has no word for it.
        """
        found = _literal(expr) or self._leaf(expr)
        if found is not None:
            return found
        match expr:
            case ex.Unary(UnOp() as op, operand):
                return self._unary(op, self.spelled(operand))
            case ex.Select(
                ex.Binary(BinOp.EQ, ex.Var() as below, ex.LitU32(0)), ex.LitU32(0), ex.Binary(BinOp.DIV, top, by)
            ) if by == below:
                return self._quotient(self.spelled(top), self.spelled(by))
            case ex.Select(ex.Binary(BinOp.EQ, below, ex.LitU32(0)) as test, yes, ex.Binary(BinOp.DIV, top, by)) if by == below:
                quotient = self._quotient(self.spelled(top), self.spelled(by))
                return _call("select", _U32, self.condition(test), self.spelled(yes).text, quotient.text)
            case ex.Binary(BinOp.DIV, left, right):
                return self._divided(self.spelled(left), self.spelled(right), right)
            case ex.Binary(BinOp() as op, left, right):
                return self._binary(op, self.spelled(left), self.spelled(right))
            case ex.Select(cond, yes, no):
                chosen, one, other = self.condition(cond), self.spelled(yes), self.spelled(no)
                return _call("select", one.type, chosen, one.text, other.beside(one, 0))
            case ex.Cast():
                return self._cast(expr)
            case ex.Fma(a, b, c):
                return _call("fma", _F32, *(self.spelled(one).untyped for one in (a, b, c)))
        return self._subgroup(expr)

    def condition(self, expr: Expr) -> str:
        """Return a condition, which in a program may be a u32."""
        return _truth(self.spelled(expr)).text

    def place(self, expr: Expr) -> str:
        """Return the index of an element: of whole numbers of both signs the bits count."""
        if isinstance(expr, ex.LitU32) and expr.value < _SIGN:
            return str(expr.value)
        if isinstance(expr, ex.Cast) and expr.target == _U32:
            inner = self.spelled(expr.value)
            return inner.text if inner.type == _I32 else f"u32({inner.text})"
        found = self.spelled(expr).text
        return found.removeprefix("u32(").removesuffix(")") if isinstance(expr, _NATURAL) else found

    def stored(self, element: DataType, expr: Expr) -> str:
        """Return what is stored as an element of a type, which the language converts to it."""
        if isinstance(expr, ex.Cast) and element not in {_U32, _I32, _F32, _BOOL} and expr.target == element:
            found = self.spelled(expr.value)
            return found.untyped if found.type == HELD[element] else f"{HELD[element]}({found.text})"
        return self.spelled(expr).untyped

    def _binary(self, op: BinOp, left: Spelled, right: Spelled) -> Spelled:
        if op in LOGICAL:
            symbol, level = _INFIX[op]
            return Spelled(f"{_truth(left).at(level)} {symbol} {_truth(right).at(level + 1)}", level, _BOOL)
        if op in _INFIX:
            symbol, level = _INFIX[op]
            if op in {BinOp.SHL, BinOp.SHR}:
                by = right.bare if right.bare is not None and int(right.bare) < 32 else right.at(level + 1)
                return Spelled(f"{left.at(level)} {symbol} {by}", level, left.type)
            kind = _BOOL if op in COMPARISONS else left.type
            above = level + (op in COMPARISONS)
            return Spelled(f"{left.beside(right, above)} {symbol} {right.beside(left, level + 1)}", level, kind)
        if op in _BINARY_CALLS:
            by_bits = op not in {BinOp.MIN, BinOp.MAX}
            one = left.text if by_bits else left.beside(right, 0)
            other = right.text if by_bits else right.beside(left, 0)
            return _call(_BINARY_CALLS[op], left.type, one, other)
        return _composed(op, left, right)

    def _divided(self, left: Spelled, right: Spelled, divisor: Expr) -> Spelled:
        """Return a quotient; that of a u32 by zero is all ones in a program, and zero in the language."""
        if left.type == _F32:
            return Spelled(f"{left.beside(right, 10)} / {right.beside(left, 11)}", 10, _F32)
        if left.type == _I32:
            return _call("trunc_div", _I32, left.text, right.untyped)
        found = self._quotient(left, right)
        if self._is_positive(divisor):
            return found
        return _call("select", _U32, f"{right.at(_COMPARED + 1)} == 0", f"u32({_WORD})", found.text)

    def _quotient(self, left: Spelled, right: Spelled) -> Spelled:
        return Spelled(f"{left.beside(right, 10)} // {right.beside(left, 11)}", 10, _U32)

    def _is_positive(self, expr: Expr) -> bool:
        """Whether a u32 is certainly not zero."""
        match expr:
            case ex.LitU32(value):
                return value > 0
            case ex.Var(name):
                return name in self.positive
            case ex.Binary(BinOp.MAX | BinOp.BIT_OR, left, right):
                return self._is_positive(left) or self._is_positive(right)
            case ex.Binary(BinOp.MIN, left, right):
                return self._is_positive(left) and self._is_positive(right)
            case ex.Binary(BinOp.ADD, ex.Binary(BinOp.MOD, _, ex.LitU32(most)), ex.LitU32(more)):
                return 0 < more <= _WORD - most
        return False

    def note(self, name: str, value: Expr) -> None:
        """Keep that a variable that never gets another value, or begins to count at one, is not zero."""
        if self._is_positive(value):
            self.positive.add(name)

    def _unary(self, op: UnOp, operand: Spelled) -> Spelled:
        if op in _PREFIXES:
            sign, level = _PREFIXES[op]
            kind = _BOOL if op is UnOp.LOGICAL_NOT else operand.type
            inner = _truth(operand) if op is UnOp.LOGICAL_NOT else operand
            return Spelled(f"{sign}{inner.at(level)}", level, kind)
        if op in _COUNTED:
            found = _call(_COUNTED[op], _I32, operand.text)
            return _call("u32", _U32, found.text) if operand.type == _U32 else found
        if op in _TESTED:
            return _call(_TESTED[op], _BOOL, operand.text)
        if op in _UNARY_CALLS:
            return _call(_UNARY_CALLS[op], _F32, operand.text)
        raise _unspeakable(operator_text(op))

    def _cast(self, expr: ex.Cast) -> Spelled:
        found = application(expr)
        if found is not None:
            operands = [self.spelled(one) for one in found.operands]
            if found.operator.name == "floor_divide":
                return Spelled(f"{operands[0].at(10)} // {operands[1].at(11)}", 10, _F32)
            if found.operator.name not in _LIBRARY:
                raise _unspeakable(found.operator.name)
            return _call(_LIBRARY[found.operator.name], _F32, *(one.text for one in operands))
        value, target = self.spelled(expr.value), HELD.get(expr.target)
        if target is None:
            raise _unspeakable(f"a cast to {expr.target}")
        inner = expr.value
        if value.type == target and expr.target == target:
            return value
        if expr.target == _I32 and isinstance(inner, ex.Cast) and inner.target == _U32:
            before = self.spelled(inner.value)
            if before.type == _I32:  # its bits, and back
                return before
        if expr.target == _I32 and isinstance(inner, ex.LitU32):
            return _signed(inner.value)
        return _call("bool" if expr.target == _BOOL else str(expr.target), target, value.text)

    def _subgroup(self, expr: Expr) -> Spelled:
        match expr:
            case ex.SubgroupLocalId():
                return Spelled("u32(lane())", _ATOM, _U32)
            case ex.SubgroupSize():
                return Spelled("u32(subgroup_size())", _ATOM, _U32)
            case ex.SubgroupAdd(value):
                found = self.spelled(value)
                return _call("subgroup_sum", found.type, found.text)
            case ex.SubgroupShuffle(value, lane):
                found = self.spelled(value)
                return _call("shuffle", found.type, found.text, self.spelled(lane).text)
            case ex.SubgroupBallot(cond):
                return _call("ballot", _U32, self.condition(cond))
        raise _unspeakable(type(expr).__name__)


def _composed(op: BinOp, left: Spelled, right: Spelled) -> Spelled:
    """Return an operator that the language writes with others."""
    one, other = left.at(_ATOM), right.at(_ATOM)
    is_float = left.type == _F32
    match op:
        case BinOp.MOD if left.type == _I32:
            return _call("trunc_rem", _I32, left.text, right.untyped)
        case BinOp.MOD:
            return Spelled(f"{left.beside(right, 10)} % {right.beside(left, 11)}", 10, _U32)
        case BinOp.ABS_DIFF if is_float:
            return _call("abs", _F32, f"{one} - {other}")
        case BinOp.ABS_DIFF:
            return Spelled(f"max({left.text}, {right.text}) - min({left.text}, {right.text})", 9, _U32)
        case BinOp.SATURATING_ADD:
            return Spelled(f"{one} + min({right.text}, ~{one})", 9, _U32)
        case BinOp.SATURATING_SUB:
            return Spelled(f"{one} - min({one}, {right.text})", 9, _U32)
    raise _unspeakable(operator_text(op))


def _truth(found: Spelled) -> Spelled:
    if found.type == _BOOL:
        return found
    return Spelled(f"{found.at(_COMPARED + 1)} != 0", _COMPARED, _BOOL)


def _call(name: str, kind: DataType, *arguments: str) -> Spelled:
    return Spelled(f"{name}({', '.join(arguments)})", _ATOM, kind)


def _literal(expr: Expr) -> Spelled | None:
    match expr:
        case ex.LitU32(value):
            return Spelled(f"u32({value})", _ATOM, _U32, str(value))
        case ex.LitI32(value):
            return _signed(value)
        case ex.LitBool(value):
            return Spelled(f"bool_({value})", _ATOM, _BOOL, str(value))
        case ex.LitF32():
            return _float(expr.value)
    return None


def _signed(value: int) -> Spelled:
    number = (value ^ _SIGN) - _SIGN if value >= 0 else value
    return Spelled(f"i32({number})", _ATOM, _I32, str(number) if number >= 0 else f"({number})")


def _float(value: float) -> Spelled:
    if math.isnan(value):
        text = "math.nan"
    elif math.isinf(value):
        text = "math.inf" if value > 0 else "(-math.inf)"
    else:
        short = str(np.float32(value))
        exact = struct.pack("<f", float(short)) == struct.pack("<f", value)
        text = short if exact else repr(value)
        text = f"({text})" if text.startswith("-") else text
    return Spelled(f"f32({text})", _ATOM, _F32, text)


def _unspeakable(what: str) -> UnsupportedFeature:
    return UnsupportedFeature(
        f"kernels written as Python have no word for {what}", fix="look at the program itself: print(program)", feature=what
    )
