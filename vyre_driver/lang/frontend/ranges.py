"""What a loop over ``range`` counts: words from one to another, of which each turn's number is made.

Loops of programs count u32 upwards by 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from vyre_driver.checks import U32_MAX
from vyre_driver.ir.arithmetic import Binary, LitI32, LitU32, Var
from vyre_driver.ir.expressions import Select
from vyre_driver.ir.operators import BinOp
from vyre_driver.lang.frontend.comparisons import alike_or_typed
from vyre_driver.lang.frontend.conversions import bits_as_i32
from vyre_driver.lang.frontend.values import Constant, Number, is_literal, is_signed, variable
from vyre_driver.lang.types import WORDS, u32

if TYPE_CHECKING:
    import ast
    from collections.abc import Sequence

    from vyre_driver.ir.expressions import Expr
    from vyre_driver.lang.frontend.translation import Translation
    from vyre_driver.lang.frontend.values import Value

_SIGN = 0x8000_0000


class Counted(NamedTuple):
    """A variable that counts from one word to another, and the number that each turn has; a cheap one is not kept."""

    variable: str
    first: Expr
    last: Expr
    value: Number
    is_cheap: bool


def bounds_of(t: Translation, node: ast.For, bounds: Sequence[Value]) -> tuple[Number, Number, int]:
    """Return start, stop and step of a range."""
    values = list(bounds)
    if len(values) == 1:
        values.insert(0, Constant(0))
    if not 2 <= len(values) <= 3:
        raise t.mistyped(
            node.iter, f"range takes 1 to 3 arguments, and got {len(bounds)}", "give a stop, or start, stop and step"
        )
    step = values[2] if len(values) == 3 else Constant(1)
    if not isinstance(step, Constant) or not isinstance(step.value, int):
        raise t.mistyped(node.iter, "the step of range must be constant", "use a while statement")
    if step.value == 0:
        raise t.mistyped(node.iter, "range with a step of 0", "use another step")
    start, stop = alike_or_typed(t, values[0], values[1], node.iter, "range")
    if start.type not in WORDS:
        raise t.mistyped(node.iter, f"a bound of range is {start.type}", "convert it with i32(...)")
    facts = t.draft.facts
    return facts.refined(start), facts.refined(stop), step.value


def is_counted_as_it_is(start: Number, step: int) -> bool:
    """Whether what is counted is the number of each turn."""
    return step == 1 and not is_signed(start)


def count(start: Number, stop: Number, step: int, counter: str) -> Counted:
    """Return what a loop counts in a variable for a range."""
    if is_counted_as_it_is(start, step):
        last = stop.expr
        if is_signed(stop):  # below any start it is as good as 0
            last = LitU32(0) if stop.high < 0 else Select(Binary(BinOp.LT, bits_as_i32(stop), LitI32(0)), LitU32(0), last)
        value = variable(counter, stop.type, (start.low, max(stop.high - 1, start.low)))
        return Counted(counter, start.expr, last, value, is_cheap=True)
    is_constant = is_literal(start) and is_literal(stop)
    if step != 1 or is_constant:  # sums with constants take up that of a constant start
        value = _stepped(counter, start, stop, step)
        return Counted(counter, LitU32(0), _turns(start, stop, step), value, is_cheap=step == 1)
    value = Number(start.type, _turned(Var(counter, u32.element)), start.low, max(stop.high - 1, start.low))
    return Counted(counter, _turned(start.expr), _turned(stop.expr), value, is_cheap=False)


def _turned(word: Expr) -> Expr:
    """Return a word so that the order of all as words is that of what they are as i32, and the other way round."""
    return LitU32(word.value + _SIGN & U32_MAX) if isinstance(word, LitU32) else Binary(BinOp.ADD, word, LitU32(_SIGN))


def _turns(start: Number, stop: Number, step: int) -> Expr:
    """Return how many turns a range has that is not counted as it is."""
    low, high = (start, stop) if step > 0 else (stop, start)
    if is_literal(low) and is_literal(high):
        return LitU32(len(range(start.low, stop.low, step)))
    distance = Binary(BinOp.SUB, high.expr, low.expr)
    by = abs(step)
    turns = (
        distance
        if by == 1
        else Binary(BinOp.ADD, Binary(BinOp.DIV, Binary(BinOp.SUB, distance, LitU32(1)), LitU32(by)), LitU32(1))
    )
    if low.high < high.low:
        return turns
    signed = is_signed(low) or is_signed(high)
    operands = (bits_as_i32(low), bits_as_i32(high)) if signed else (low.expr, high.expr)
    return Select(Binary(BinOp.LT, *operands), turns, LitU32(0))


def _stepped(counter: str, start: Number, stop: Number, step: int) -> Number:
    """Return the value of a turn of a range that is not counted as it is."""
    scalar = start.type
    turn = Var(counter, u32.element)
    way = turn if abs(step) == 1 else Binary(BinOp.MUL, turn, LitU32(abs(step)))
    value = Binary(BinOp.ADD if step > 0 else BinOp.SUB, start.expr, way)
    if step > 0:
        return Number(scalar, value, start.low, max(stop.high - 1, start.low))
    return Number(scalar, value, min(stop.low + 1, start.high), start.high)
