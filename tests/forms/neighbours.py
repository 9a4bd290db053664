"""Programs near those that a driver gets wrong: with other operators of the same types, other literals, other ids.

A rule of a compiler that is wrong for one program is wrong for some of them too, and a way round it that is right for that
program alone is wrong for some. Many mean nothing, or fault: the reference sorts these out.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from vyre_driver.conformance import words
from vyre_driver.conformance.dice import Dice
from vyre_driver.ir import builders as ir
from vyre_driver.ir.arithmetic import Binary, LitF32, LitI32, LitU32, OpaqueExpr, Unary
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.expressions import Atomic, InvocationId, Load, LocalId, Select, WorkgroupId
from vyre_driver.ir.operators import AtomicOp, BinOp, UnOp
from vyre_driver.ir.statements import Loop
from vyre_driver.ir.walks import BODY_FIELDS, EXPRESSION_FIELDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from forms.questions import Question

U32, I32, U64, F32, BOOL = DataType.U32, DataType.I32, DataType.U64, DataType.F32, DataType.Bool
CHANCE = 12  # of each place to be another, in a hundred
_ORDERS = (BinOp.EQ, BinOp.NE, BinOp.LT, BinOp.GT, BinOp.LE, BinOp.GE)
_WORDS = (BinOp.ADD, BinOp.SUB, BinOp.MUL, BinOp.BIT_AND, BinOp.BIT_OR, BinOp.BIT_XOR, BinOp.MIN, BinOp.MAX)
_UNSIGNED = (BinOp.MUL_HIGH, BinOp.SHL, BinOp.SHR, BinOp.ROTATE_LEFT, BinOp.ROTATE_RIGHT, BinOp.ABS_DIFF, BinOp.SATURATING_SUB)
OF_TWO: dict[DataType, tuple[BinOp, ...]] = {
    U32: (*_WORDS, *_UNSIGNED),
    I32: _WORDS,
    U64: (BinOp.WRAPPING_ADD, BinOp.WRAPPING_SUB, BinOp.MUL_HIGH),
    F32: (BinOp.ADD, BinOp.SUB, BinOp.MUL, BinOp.MIN, BinOp.MAX, BinOp.ABS_DIFF),
}
OF_ONE: dict[DataType, tuple[UnOp, ...]] = {
    U32: (UnOp.BIT_NOT, UnOp.NEGATE, UnOp.POPCOUNT, UnOp.CLZ, UnOp.CTZ, UnOp.REVERSE_BITS),
    U64: (UnOp.BIT_NOT, UnOp.POPCOUNT, UnOp.CLZ, UnOp.CTZ, UnOp.REVERSE_BITS),
}
ATOMICS = (AtomicOp.ADD, AtomicOp.MIN, AtomicOp.MAX, AtomicOp.AND, AtomicOp.OR, AtomicOp.XOR)


def changed(question: Question, number: int) -> Question:
    """Return another question of the kind, the same for one number; 0 is the question itself."""
    if not number:
        return question
    case, dice = question.case, Dice(number)
    program = case.program.with_rewritten_entry([_node(one, dice) for one in case.program.entry])
    return question._replace(case=replace(case, name=f"{case.name}, changed {number}", program=program))


def _node(node: Any, dice: Dice) -> Any:  # noqa: ANN401 -- any statement
    fields = () if isinstance(node, Loop) else EXPRESSION_FIELDS.get(type(node), ())  # a loop may have no end otherwise
    parts = {field: _expression(getattr(node, field), dice) for field in fields}
    bodies = {field: tuple(_node(one, dice) for one in getattr(node, field)) for field in BODY_FIELDS.get(type(node), ())}
    return replace(node, **parts, **bodies)


def _expression(expr: Any, dice: Dice) -> Any:  # noqa: ANN401 -- any expression
    parts = {
        field: _expression(getattr(expr, field), dice)
        for field in EXPRESSION_FIELDS.get(type(expr), ())
        if getattr(expr, field) is not None
    }
    if isinstance(expr, Load):
        expr = Load(expr.buffer, parts["index"], expr.dtype)
    elif parts:
        expr = replace(expr, **parts)
    change = _CHANGES.get(type(expr))
    return change(expr, dice) if change is not None and dice.chance(CHANCE) else expr


def _picked(dice: Dice, dtype: DataType) -> Any:  # noqa: ANN401 -- a number of the type
    return dice.pick(words.edges(dtype).tolist())


def _wide(expr: OpaqueExpr, dice: Dice) -> Any:  # noqa: ANN401 -- a literal
    return ir.u64(_picked(dice, U64)) if expr.dtype == U64 else expr


def _binary(expr: Binary, dice: Dice) -> Binary:
    if expr.op in _ORDERS:
        return replace(expr, op=dice.pick(_ORDERS if expr.left.dtype != BOOL else _ORDERS[:2]))
    if expr.op in {BinOp.AND, BinOp.OR}:
        return replace(expr, op=dice.pick((BinOp.AND, BinOp.OR)))
    operators = OF_TWO.get(expr.dtype, ()) if expr.dtype is not None else ()
    return replace(expr, op=dice.pick(operators)) if expr.op in operators else expr


def _unary(expr: Unary, dice: Dice) -> Unary:
    operators = OF_ONE.get(expr.dtype, ()) if expr.dtype is not None else ()
    return replace(expr, op=dice.pick(operators)) if expr.op in operators else expr


def _id(expr: InvocationId | WorkgroupId | LocalId, dice: Dice) -> Any:  # noqa: ANN401 -- a word
    axis = dice.below(3)
    return dice.pick((InvocationId(axis), WorkgroupId(axis), LocalId(axis), ir.u32(0), ir.unop(UnOp.BIT_NOT, expr)))


_CHANGES: dict[type, Callable[[Any, Dice], Any]] = {
    LitU32: lambda _, dice: ir.u32(_picked(dice, U32)),
    LitI32: lambda _, dice: ir.i32(_picked(dice, I32)),
    LitF32: lambda _, dice: ir.f32(dice.pick(words.F32_EDGES)),
    OpaqueExpr: _wide,
    Binary: _binary,
    Unary: _unary,
    Select: lambda expr, _: replace(expr, true_value=expr.false_value, false_value=expr.true_value),
    Atomic: lambda expr, dice: replace(expr, op=dice.pick(ATOMICS)) if expr.op in ATOMICS else expr,
    InvocationId: _id,
    WorkgroupId: _id,
    LocalId: _id,
}
