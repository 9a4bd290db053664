"""The expressions of a program as Python.

What the text says is translated to the same expression again, but for what the language writes in one way alone: ``a > b`` of
whole numbers becomes ``b < a``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeGuard

from printing.spelled import Spelled, call, literal, signed, truth, unspeakable
from printing.words import (
    ATOM,
    BINARY_CALLS,
    COMPARED,
    COUNTED,
    INFIX,
    LIBRARY,
    PREFIXES,
    TESTED,
    UNARY_CALLS,
)
from vyre_driver.ir import expressions as ex
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.extensions import application
from vyre_driver.ir.operators import COMPARISONS, LOGICAL, BinOp, SubgroupOp, UnOp
from vyre_driver.ir.text import operator_text
from vyre_driver.lang.types import COMPUTED, SCALARS

if TYPE_CHECKING:
    from collections.abc import Callable

    from vyre_driver.ir.expressions import Expr
    from vyre_driver.ir.extensions import ExtensionOperator

_U32, _I32, _F32, _BOOL = DataType.U32, DataType.I32, DataType.F32, DataType.Bool
_HALVES = (DataType.F16, DataType.BF16)
_SIGNED = (_I32, DataType.I64)
_BITS = {one.element: one.bits for one in SCALARS.values()}
_SIGN, _WORD = 0x8000_0000, 0xFFFF_FFFF
HELD = {one.element: one.element if one in COMPUTED or not one.is_whole else _I32 for one in SCALARS.values()}
"""What a number of a type of memory is in a kernel; a float of 16 bits, which is an f32 there, until it is converted."""

_NATURAL = (ex.InvocationId, ex.LocalId, ex.WorkgroupId)  # i32 of the language that are never negative
_AGAIN = (ex.Var, *_NATURAL, ex.BufLen)  # what the front end writes again, and holds in no variable


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
        found = literal(expr) or self._leaf(expr)
        if found is not None:
            return found
        match expr:
            case ex.Unary(UnOp() as op, operand):
                return self._unary(op, self.spelled(operand))
            case ex.Select(ex.Binary(BinOp.EQ, below, ex.LitU32(0)), ex.LitU32(0), ex.Binary(BinOp.DIV, top, by)) if (
                by == below and isinstance(below, _AGAIN)
            ):
                return self._quotient(self.spelled(top), self.spelled(by))
            case ex.Select(ex.Binary(BinOp.EQ, below, ex.LitU32(0)) as test, yes, ex.Binary(BinOp.DIV, top, by)) if by == below:
                quotient = self._quotient(self.spelled(top), self.spelled(by))
                return call("select", _U32, self.condition(test), self.spelled(yes).text, quotient.text)
            case ex.Binary(BinOp.DIV, left, right):
                return self._divided(self.spelled(left), self.spelled(right), right)
            case ex.Binary(BinOp() as op, left, right):
                return self._binary(op, self.spelled(left), self.spelled(right))
            case ex.Select(cond, yes, no):
                chosen, one, other = self.condition(cond), self.spelled(yes), self.spelled(no)
                return call("select", one.type, chosen, one.text, other.beside(one, 0))
            case ex.Cast():
                return self._cast(expr)
            case ex.Fma(a, b, c):
                return call("fma", _F32, *(self.spelled(one).untyped for one in (a, b, c)))
        return self._subgroup(expr)

    def condition(self, expr: Expr) -> str:
        """Return a condition, which in a program may be a u32."""
        return truth(self.spelled(expr)).text

    def place(self, expr: Expr) -> str:
        """Return the index of an element: of whole numbers of both signs the bits count."""
        if isinstance(expr, ex.LitU32) and expr.value < _SIGN:
            return str(expr.value)
        if _is_cast(expr, _U32):
            inner = self.spelled(expr.value)
            return inner.text if inner.type == _I32 else f"u32({inner.text})"
        found = self.spelled(expr).text
        return found.removeprefix("u32(").removesuffix(")") if isinstance(expr, _NATURAL) else found

    def stored(self, element: DataType, expr: Expr) -> str:
        """Return what is stored as an element of a type, which the language converts to it."""
        made = application(expr) if isinstance(expr, ex.Cast) else None
        if made is not None and made.operator.name == f"f32_to_{element}" and element in _HALVES:
            return self.spelled(made.operands[0]).untyped
        if isinstance(expr, ex.Cast) and made is None and HELD[element] != element == expr.target:
            found = self.spelled(expr.value)
            return found.untyped if found.type == HELD[element] else f"{HELD[element]}({found.text})"
        return self.spelled(expr).untyped

    def _binary(self, op: BinOp, left: Spelled, right: Spelled) -> Spelled:
        if op in LOGICAL:
            symbol, level = INFIX[op]
            return Spelled(f"{truth(left).at(level)} {symbol} {truth(right).at(level + 1)}", level, _BOOL)
        if op in INFIX:
            symbol, level = INFIX[op]
            if op in {BinOp.SHL, BinOp.SHR}:
                by = right.bare if right.bare is not None and int(right.bare) < _BITS[left.type] else right.at(level + 1)
                return Spelled(f"{left.at(level)} {symbol} {by}", level, left.type)
            kind = _BOOL if op in COMPARISONS else left.type
            above = level + (op in COMPARISONS)
            return Spelled(f"{left.beside(right, above)} {symbol} {right.beside(left, level + 1)}", level, kind)
        if op in BINARY_CALLS:
            by_bits = op not in {BinOp.MIN, BinOp.MAX}
            one = left.text if by_bits else left.beside(right, 0)
            other = right.text if by_bits else right.beside(left, 0)
            return call(BINARY_CALLS[op], left.type, one, other)
        return _composed(op, left, right)

    def _divided(self, left: Spelled, right: Spelled, divisor: Expr) -> Spelled:
        """Return a quotient; that of a u32 by zero is all ones in a program, and zero in the language."""
        if left.type == _F32:
            return Spelled(f"{left.beside(right, 10)} / {right.beside(left, 11)}", 10, _F32)
        if left.type == _I32:
            return call("trunc_div", _I32, left.text, right.untyped)
        found = self._quotient(left, right)
        if self._is_positive(divisor):
            return found
        return call("select", _U32, f"{right.at(COMPARED + 1)} == 0", f"u32({_WORD})", found.text)

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
        if op in PREFIXES:
            sign, level = PREFIXES[op]
            kind = _BOOL if op is UnOp.LOGICAL_NOT else operand.type
            inner = truth(operand) if op is UnOp.LOGICAL_NOT else operand
            return Spelled(f"{sign}{inner.at(level)}", level, kind)
        if op in COUNTED:
            found = call(COUNTED[op], _I32, operand.text)
            return found if operand.type == _I32 else call(str(operand.type), operand.type, found.text)
        if op in TESTED:
            return call(TESTED[op], _BOOL, operand.text)
        if op in UNARY_CALLS:
            return call(UNARY_CALLS[op], operand.type, operand.text)
        raise unspeakable(operator_text(op))

    def _cast(self, expr: ex.Cast) -> Spelled:
        found = application(expr)
        if found is not None:
            return self._applied(found.operator, [self.spelled(one) for one in found.operands])
        value, target = self.spelled(expr.value), HELD.get(expr.target)
        if target is None:
            raise unspeakable(f"a cast to {expr.target}")
        inner = expr.value
        if value.type == target and expr.target == target:
            return value
        if expr.target == _U32 and isinstance(inner, ex.Unary) and inner.op in COUNTED:
            return call("u32", _U32, f"{COUNTED[inner.op]}({self.spelled(inner.operand).text})")
        if expr.target == _I32 and _is_cast(inner, _U32):
            before = self.spelled(inner.value)
            if before.type == _I32:  # its bits, and back
                return before
        if expr.target == _I32 and isinstance(inner, ex.LitU32):
            return signed(inner.value)
        return call("bool" if expr.target == _BOOL else str(expr.target), target, value.text)

    def _applied(self, operator: ExtensionOperator, given: list[Spelled]) -> Spelled:
        """Return one of the operators that are an extension of the IR."""
        name, _, of = operator.name.partition("<")
        if name == "bitcast":
            return call("bitcast", operator.result, str(operator.result), given[0].text)
        if name == "fma":
            return call("fma", operator.result, *(one.text for one in given))
        if of:
            return self._unary(UnOp[name.upper()], given[0]) if len(given) == 1 else self._wide(BinOp[name.upper()], *given)
        if name in LIBRARY:
            return call(LIBRARY[name], _F32, *(one.text for one in given))
        if name == "floor_divide":
            return Spelled(f"{given[0].at(10)} // {given[1].at(11)}", 10, _F32)
        if "_to_" not in name:
            raise unspeakable(name)
        if given[0].type in _HALVES:  # which is an f32 in a kernel
            return given[0]._replace(type=_F32)
        return call(str(operator.result), operator.result, given[0].text)

    def _wide(self, op: BinOp, left: Spelled, right: Spelled) -> Spelled:
        """Return an operator on numbers of 64 bits, of which a quotient by zero is zero in a program too."""
        if op is not BinOp.DIV:
            return self._binary(op, left, right)
        if left.type == DataType.I64:
            return call("trunc_div", left.type, left.text, right.untyped)
        sign = "//" if left.type == DataType.U64 else "/"
        return Spelled(f"{left.beside(right, 10)} {sign} {right.beside(left, 11)}", 10, left.type)

    def _subgroup(self, expr: Expr) -> Spelled:
        match expr:
            case ex.SubgroupLocalId():
                return Spelled("u32(lane())", ATOM, _U32)
            case ex.SubgroupSize():
                return Spelled("u32(subgroup_size())", ATOM, _U32)
            case ex.SubgroupReduce(SubgroupOp.ADD, value):
                found = self.spelled(value)
                return call("subgroup_sum", found.type, found.text)
            case ex.SubgroupShuffle(value, lane):
                found = self.spelled(value)
                return call("shuffle", found.type, found.text, self.spelled(lane).text)
            case ex.SubgroupBallot(cond):
                return call("ballot", _U32, self.condition(cond))
            case ex.SubgroupReduce(op, _):
                raise unspeakable(f"a subgroup reduction by {op.name}")
        raise unspeakable(type(expr).__name__)


def _is_cast(expr: Expr, target: DataType) -> TypeGuard[ex.Cast]:
    """Whether an expression is a cast to a type, and none that gives an operator of ours its type."""
    return isinstance(expr, ex.Cast) and expr.target == target and application(expr) is None


def _composed(op: BinOp, left: Spelled, right: Spelled) -> Spelled:
    """Return an operator that the language writes with others."""
    one, other = left.at(ATOM), right.at(ATOM)
    is_float = left.type == _F32
    match op:
        case BinOp.MOD if left.type in _SIGNED:
            return call("trunc_rem", left.type, left.text, right.untyped)
        case BinOp.MOD:
            return Spelled(f"{left.beside(right, 10)} % {right.beside(left, 11)}", 10, left.type)
        case BinOp.ABS_DIFF if is_float:
            return call("abs", _F32, f"{one} - {other}")
        case BinOp.ABS_DIFF:
            return Spelled(f"max({left.text}, {right.text}) - min({left.text}, {right.text})", 9, _U32)
        case BinOp.SATURATING_ADD:
            return Spelled(f"{one} + min({right.text}, ~{one})", 9, _U32)
        case BinOp.SATURATING_SUB:
            return Spelled(f"{one} - min({one}, {right.text})", 9, _U32)
    raise unspeakable(operator_text(op))
