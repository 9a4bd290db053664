"""``for`` and ``while``.

What a turn hands to the next one lives in variables of the program. A loop that may be left has one statement, an ``if``, whose
condition says whether it goes on: lowering makes a loop of that which ends there (docs/ir.md). Loops of programs count u32
upwards by 1, and the number of each turn of a ``range`` is made of that.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from vyre_driver.checks import U32_MAX
from vyre_driver.ir.arithmetic import Binary, LitI32, LitU32, Var
from vyre_driver.ir.expressions import Select
from vyre_driver.ir.loop_ends import is_steady
from vyre_driver.ir.operators import BinOp
from vyre_driver.lang.frontend import intrinsics
from vyre_driver.lang.frontend.arithmetic import alike_or_typed, condition
from vyre_driver.lang.frontend.branches import give, guarded, is_placed, settled, still_going
from vyre_driver.lang.frontend.conversions import bits_as_i32, typed
from vyre_driver.lang.frontend.draft import FALLS, Exit, Flow, LoopFrame, Plain, has_return
from vyre_driver.lang.frontend.names import is_shadowing, uncallable
from vyre_driver.lang.frontend.values import (
    Array,
    Constant,
    Host,
    Merged,
    Missing,
    Number,
    Tuple,
    check_as_tuple,
    is_like,
    is_literal,
    is_signed,
    variable,
)
from vyre_driver.lang.source.scan import jumps_within, may_read_first, stored_names
from vyre_driver.lang.types import WORDS, u32

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vyre_driver.ir.expressions import Expr
    from vyre_driver.ir.nodes import Node
    from vyre_driver.lang.frontend.draft import Body
    from vyre_driver.lang.frontend.translation import Translation
    from vyre_driver.lang.frontend.values import Value
    from vyre_driver.lang.types import ScalarType

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
    value = Number(start.type, _ordered_word(Var(counter, u32.element)), start.low, max(stop.high - 1, start.low))
    return Counted(counter, _ordered_word(start.expr), _ordered_word(stop.expr), value, is_cheap=False)


def _ordered_word(word: Expr) -> Expr:
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


def for_statement(t: Translation, node: ast.For) -> Flow:
    """Translate a ``for`` over a range, an unrolled range or a tuple."""
    if node.orelse:
        raise t.unknown(node.orelse[0], "for ... else is not part of the kernel language", "set a variable before the break")
    callee = t.evaluate(node.iter.func) if isinstance(node.iter, ast.Call) else None
    if isinstance(node.iter, ast.Call) and callee is not None and is_shadowing(t, node.iter.func):
        raise uncallable(t, callee, node.iter.func)
    if isinstance(callee, Host) and isinstance(node.iter, ast.Call):
        bounds = [t.evaluate(one) for one in node.iter.args]
        if callee.value is range:
            return _range(t, node, bounds)
        if callee.value is intrinsics.static_range:
            return _unrolled(t, node, _constant_range(t, node, bounds))
    over = t.evaluate(node.iter) if callee is None else None
    if isinstance(over, Tuple):
        check_as_tuple(t, over, "__iter__", "the items", node.iter)
        return _unrolled(t, node, list(over.items))
    fix = "write for k in range(...), or static_range(...) for a tuple, and use what stands at k"
    if isinstance(over, Array):
        fix = f"write for k in range(len({over.name})), and use {over.name}[k]"
    raise t.unknown(node.iter, "a for statement goes over range(...), static_range(...) or a tuple", fix)


def _constant_range(t: Translation, node: ast.For, bounds: Sequence[Value]) -> range:
    numbers = [one.value for one in bounds if isinstance(one, Constant) and isinstance(one.value, int)]
    if len(numbers) < len(bounds) or not numbers:
        raise t.mistyped(node.iter, "the bounds of static_range must be constant", "use range, or a Const parameter")
    try:
        return range(*numbers)
    except (TypeError, ValueError) as error:
        raise t.mistyped(node.iter, str(error), "give static_range a stop, or start, stop and step") from error


def _unrolled(t: Translation, node: ast.For, items: Sequence[Value | int]) -> Flow:
    """Translate the body once for each item."""
    for kind in (ast.Break, ast.Continue):
        if jumps_within(node.body, kind):
            word = kind.__name__.lower()
            raise t.unknown(node, f"{word} in a loop that is unrolled", "use range, or put what follows under an if")
    exits: frozenset[Exit] = frozenset()
    before, turns = t.draft.size, len(items)
    t.unrolled.append(t.place(node))
    for turn, item in enumerate(items, 1):
        t.bind(node.target, Constant(item) if isinstance(item, int) else item, node)
        flow = t.run(node.body) if not exits else guarded(t, Flow(leaves=False, exits=exits), node.body, node.lineno)
        exits |= flow.exits
        if flow.leaves:
            break
        t.check_unrolled(node, before, (t.draft.size - before) * turns // turn)
    t.unrolled.pop()
    return Flow(leaves=bool(items) and flow.leaves, exits=exits)


class _Loop:
    """A loop that is being translated: its frame, and where its variables are declared."""

    def __init__(self, t: Translation, node: ast.For | ast.While) -> None:
        """Make variables of what the body changes."""
        self.t = t
        self.node = node
        self.line = node.lineno
        carried = _carried(t, node)
        self.broken = Exit("going", t.draft.room())
        self.before = dict(t.frame.names)
        self.body: Body = []
        first = Plain(None, t.draft.place)
        self.body.append(first)

        def put(declared: Node) -> None:
            first.node = declared

        self.frame = LoopFrame(node, self.broken, Exit("turning", put), carried)

    def turn(self, statements: Sequence[ast.stmt], begin: Callable[[], None]) -> Flow:
        """Translate the body of a turn; ``begin`` does what stands before it."""
        t = self.t
        t.frame.loops.append(self.frame)
        try:
            with t.draft.side(self.body):
                begin()
                flow = t.run(statements)
                if not flow.leaves:
                    self._hand_over(flow)
        finally:
            t.frame.loops.pop()
        return flow

    def _hand_over(self, flow: Flow) -> None:
        """Give the loop's variables what they are at the end of a turn, where no jump has done so."""
        t = self.t
        left = flow.exits & {self.frame.broken, self.frame.continued}
        names = t.frame.names
        if not left or all(
            is_placed(t.draft.body, held, names.get(name, held), left) for name, held in self.frame.carried.items()
        ):
            commit(t, self.frame, self.node)
            return
        body: Body = []
        test = still_going(t, left)
        with t.draft.side(body):
            commit(t, self.frame, self.node)
        t.draft.add_if(test, body, [])

    def end(self, flow: Flow, *, is_endless: bool = False) -> Flow:
        """Set the names that hold behind the loop; returns how it ends."""
        t, frame = self.t, self.frame
        beyond = flow.exits - {frame.broken, frame.continued}
        names = dict(self.before)
        for name in stored_names(self.node.body):
            if name in frame.carried and name not in frame.lost:
                names[name] = frame.carried[name]
            elif name in frame.lost or name not in names or not isinstance(names[name], (Host,)):
                names[name] = Missing(f"the loop in line {self.line} may run no turn")
        t.frame.names = names
        return Flow(leaves=is_endless and not self.broken.is_taken, exits=beyond)

    def conditions(self, flow: Flow) -> list[Expr]:
        """Return what must hold for another turn, besides the loop's own condition."""
        leaving = flow.exits - {self.frame.continued}
        found = sorted((one for one in leaving if one is not self.broken), key=lambda one: one.number)
        if self.broken.is_taken:
            found.insert(0, self.broken)
        return [one.going(self.t.draft).expr for one in found]


def _carried(t: Translation, node: ast.For | ast.While) -> dict[str, Value]:
    """Declare a variable of the program for each of the function's that the body assigns and that has a value before."""
    carried: dict[str, Value] = {}
    for name in sorted(stored_names(node.body)):
        value = t.frame.names.get(name)
        if value is not None and not isinstance(value, Missing):
            known = t.frame.types.get(name)
            found = carried[name] = t.frame.names[name] = _declared(t, name, value, node, known[0] if known else None)
            if isinstance(found, Number):
                t.frame.types.setdefault(name, (found.type, node.lineno))
            t.joined((node.lineno,), f"loop {name}", carried[name])
    return carried


def _declared(t: Translation, name: str, value: Value, node: ast.AST, known: ScalarType | None) -> Value:
    """Return the variable of a value; ``known`` is the type that its name has already."""
    value = settled(t, value, node)
    if isinstance(value, Tuple):
        return value.of(_declared(t, name, item, node, None) for item in value.items)
    if not isinstance(value, (Number, Constant)):
        return value
    number = typed(t, value, node, known)
    return t.draft.declare(name, number.type, number.expr)


def commit(t: Translation, loop: LoopFrame, node: ast.AST) -> None:
    """Hand what the loop's variables are now to the next turn."""
    for name, held in loop.carried.items():
        value = t.frame.names.get(name, held)
        if isinstance(value, Missing) and not _may_read_first(loop.node, name):
            loop.lost.add(name)
            t.joined((loop.node.lineno,), f"loop {name}", value)
        else:
            _give(t, name, held, value, node)


def _may_read_first(node: ast.For | ast.While, name: str) -> bool:
    """Whether a turn may read what the last one left of a variable."""
    return may_read_first([node] if isinstance(node, ast.While) else node.body, name)


def _give(t: Translation, name: str, held: Value, value: Value, node: ast.AST) -> None:
    if isinstance(held, Tuple):
        if not isinstance(value, Tuple) or not is_like(held, value):
            raise t.mistyped(
                node, f"{name!r} is a tuple of {len(held.items)} before the loop, and another thing behind it", "keep it one"
            )
        for one, item in zip(held.items, value.items, strict=True):
            _give(t, name, one, item, node)
    elif isinstance(value, Missing):
        raise t.misspelt(node, f"{name!r} may have no value here: {value.why}", f"give {name!r} a value before")
    elif isinstance(held, Number):
        if isinstance(value, (Number, Constant, Merged)):
            give(t, held, value, node)
        else:
            raise t.mistyped(node, f"{name!r} is {held.type} before the loop, and no number behind it", "use another name")
    elif held is not value:
        raise t.mistyped(node, f"{name!r} is no number, and changes in the loop", "use another name")


def break_statement(t: Translation, node: ast.Break) -> Flow:
    """Translate ``break``."""
    loop = t.frame.loops[-1]
    commit(t, loop, node)
    loop.broken.jump(t.draft.body)
    return Flow(leaves=True, exits=frozenset({loop.broken}))


def continue_statement(t: Translation, node: ast.Continue) -> Flow:
    """Translate ``continue``."""
    loop = t.frame.loops[-1]
    commit(t, loop, node)
    loop.continued.jump(t.draft.body)
    return Flow(leaves=True, exits=frozenset({loop.continued}))


def while_statement(t: Translation, node: ast.While) -> Flow:
    """Translate a ``while``."""
    if node.orelse:
        raise t.unknown(node.orelse[0], "while ... else is not part of the kernel language", "set a variable before the break")
    loop = _Loop(t, node)
    with t.draft.side() as prepared:
        test = condition(t, t.evaluate(node.test), node.test)
    if isinstance(test, Constant) and not test.value:
        return loop.end(FALLS)
    is_simple = not prepared and (isinstance(test, Constant) or is_steady(test.expr, ""))
    inner: Body = []
    outer, loop.body = loop.body, inner if not is_simple else loop.body
    flow = loop.turn(node.body, lambda: None if isinstance(test, Constant) else t.draft.facts.assume(test.expr, holds=True))
    tests = loop.conditions(flow)
    if isinstance(test, Constant):
        if not tests and not has_return(loop.body):
            raise t.unknown(node, "this loop never ends: nothing in it breaks out of it or returns", "add a break")
    elif is_simple:
        tests.insert(0, test.expr)
    else:
        return _checked_while(t, loop, flow, (outer, prepared, test.expr, inner))
    t.draft.add_loop(t.draft.fresh("turn"), LitU32(0), LitU32(U32_MAX), _under(t, tests, loop.body))
    return loop.end(flow, is_endless=isinstance(test, Constant))


def _checked_while(t: Translation, loop: _Loop, flow: Flow, parts: tuple[Body, Body, Expr, Body]) -> Flow:
    """Emit a ``while`` whose condition reads memory or takes statements: it is computed in the turn, and ends it."""
    outer, prepared, test, inner = parts
    stop: Body = []
    with t.draft.side([*outer, *prepared]) as body:
        t.draft.add_if(test, inner, stop)
    loop.broken.jump(stop)
    t.draft.add_loop(t.draft.fresh("turn"), LitU32(0), LitU32(U32_MAX), _under(t, loop.conditions(flow), body))
    return loop.end(flow)


def _under(t: Translation, tests: list[Expr], body: Body) -> Body:
    """Return a body of one ``if``, where there is something to test."""
    if not tests:
        return body
    test = tests[0]
    for one in tests[1:]:
        test = Binary(BinOp.AND, test, one)
    with t.draft.side() as outer:
        t.draft.add_if(test, body, [])
    return outer


def _range(t: Translation, node: ast.For, bounds: Sequence[Value]) -> Flow:
    """Translate ``for k in range(...)``: bounds and step are taken once, and the variable may be assigned without effect."""
    start, stop, step = bounds_of(t, node, bounds)
    if not isinstance(node.target, ast.Name):
        raise t.unknown(node.target, "the variable of a range is one name", "unpack it in the loop")
    name = node.target.id
    start, stop = (t.draft.hold(t.draft.shallow(one), "bound") for one in (start, stop))
    loop = _Loop(t, node)
    counted = count(start, stop, step, t.draft.fresh(name if is_counted_as_it_is(start, step) else "turn"))

    def begin() -> None:
        held = counted.value if counted.is_cheap else t.draft.let(name, counted.value)
        if step == 1:
            t.draft.facts.know_below(held, stop)
        t.frame.names[name] = held

    flow = loop.turn(node.body, begin)
    t.draft.add_loop(counted.variable, counted.first, counted.last, _under(t, loop.conditions(flow), loop.body))
    end = loop.end(flow)
    t.frame.names[name] = Missing(f"the loop in line {node.lineno} may run no turn")
    return end
