"""Statements and expressions of which one of several sides is taken, and what names and results are behind them.

What follows an ``if`` of which one side is left goes into the other side, so that most jumps need no variable. A variable is
one value or the other behind an ``if``: nothing is emitted until it is read; then the program gets a variable, declared before
the ``if`` and assigned at the end of each side. What a loop hands to its next turn is assigned in the sides directly. So is
what a function that is inlined returns on several ways.

As they stand each ``elif`` is one level more, and a program has 64 at most. A long chain is translated as the number of the
side that is taken first, then the sides, which halve until one is left.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from vyre_driver.ir.arithmetic import Binary
from vyre_driver.ir.nodes import Assign, Let
from vyre_driver.ir.operators import BinOp
from vyre_driver.lang.frontend.arithmetic import alike_or_typed, both, choose, condition, either
from vyre_driver.lang.frontend.conversions import typed
from vyre_driver.lang.frontend.draft import Flow, Plain
from vyre_driver.lang.frontend.translation import spot_of
from vyre_driver.lang.frontend.values import Constant, Host, Merged, Missing, Number, Tuple, is_like, variable, zero
from vyre_driver.lang.types import bool_

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vyre_driver.errors import KernelSourceError
    from vyre_driver.ir.expressions import Expr
    from vyre_driver.ir.nodes import Node
    from vyre_driver.lang.frontend.draft import Body, Branch, Draft, Exit, Frame
    from vyre_driver.lang.frontend.translation import Translation
    from vyre_driver.lang.frontend.values import Value
    from vyre_driver.lang.types import ScalarType

    Result = tuple[Body, Value, ast.AST]

    Side = tuple[Flow, dict[str, Value]]

_LONGEST = 48  # ifs within each other, which leaves room for others


def if_statement(t: Translation, node: ast.If, rest: Sequence[ast.stmt]) -> tuple[Flow, bool]:
    """Translate an ``if``; returns how it ends, and whether it took the statements behind it along."""
    statements = shortened(node)
    if statements is not None:
        return t.run([*statements, *rest]), True
    test = condition(t, t.evaluate(node.test), node.test)
    if isinstance(test, Constant):
        return t.run(node.body if test.value else node.orelse), False
    then: Body = []
    otherwise: Body = []
    yes = _side(t, test.expr, then, node.body, holds=True)
    moved = False
    following: Sequence[ast.stmt] = node.orelse
    if yes[0].leaves and rest:
        following, moved = [*node.orelse, *rest], True
    no = _side(t, test.expr, otherwise, following, holds=False)
    if no[0].leaves and not yes[0].leaves and rest and not moved:
        yes, moved = _continued(t, test.expr, then, yes, rest), True
    branch = t.draft.add_if(test.expr, then, otherwise)
    return _joined(t, branch, yes, no, node.lineno), moved


def _side(t: Translation, test: Expr, body: Body, statements: Sequence[ast.stmt], *, holds: bool) -> Side:
    """Translate one side of an ``if`` to a body; returns how it ends, and what the names are there."""
    before = t.frame.names
    t.frame.names = dict(before)
    try:
        with t.draft.side(body):
            t.draft.facts.assume(test, holds=holds)
            flow = t.run(statements)
        return flow, t.frame.names
    finally:
        t.frame.names = before


def _continued(t: Translation, test: Expr, body: Body, side: Side, rest: Sequence[ast.stmt]) -> Side:
    """Translate what follows an ``if`` to the end of its first side."""
    flow, names = side
    before, t.frame.names = t.frame.names, names
    try:
        with t.draft.side(body):
            t.draft.facts.assume(test, holds=True)
            further = guarded(t, flow, rest, 0) if flow.exits else t.run(rest)
        return Flow(further.leaves, flow.exits | further.exits), t.frame.names
    finally:
        t.frame.names = before


def _joined(t: Translation, branch: Branch, yes: Side, no: Side, line: int) -> Flow:
    """Bring the sides together; returns how the ``if`` ends."""
    branch.exits = (yes[0].exits, no[0].exits)
    exits = yes[0].exits | no[0].exits
    if yes[0].leaves and no[0].leaves:
        return Flow(leaves=True, exits=exits)
    ends = [None if flow.leaves else names for flow, names in (yes, no)]
    t.frame.names = merge(t, branch, ends[0], ends[1], line)
    if yes[0].leaves:
        t.draft.facts.assume(branch.condition, holds=False)
    elif no[0].leaves:
        t.draft.facts.assume(branch.condition, holds=True)
    return Flow(leaves=False, exits=exits)


def guarded(t: Translation, flow: Flow, rest: Sequence[ast.stmt], line: int) -> Flow:
    """Translate statements that only those invocations run which have not left by an exit of ``flow``."""
    if not rest:
        return flow
    test = still_going(t, flow.exits)
    body: Body = []
    side = _side(t, test, body, rest, holds=True)
    branch = t.draft.add_if(test, body, [])
    branch.exits = (side[0].exits, frozenset())
    if not side[0].leaves:
        t.frame.names = merge(t, branch, side[1], None, line)
    return Flow(side[0].leaves, flow.exits | side[0].exits)


def still_going(t: Translation, exits: frozenset[Exit]) -> Expr:
    """Return the condition that an invocation has left by none of these."""
    test: Expr | None = None
    for one in sorted(exits, key=lambda one: one.number):
        going = one.going(t.draft).expr
        test = going if test is None else Binary(BinOp.AND, test, going)
    assert test is not None  # noqa: S101 -- there is an exit
    return test


def conditional(t: Translation, node: ast.IfExp) -> Value:
    """Return ``a if c else b``: a select, or an ``if`` where a side has statements of its own."""
    test = condition(t, t.evaluate(node.test), node.test)
    if isinstance(test, Constant):
        return t.evaluate(node.body if test.value else node.orelse)
    test = t.draft.hold(test, "test") if test.expr.depth > 1 else test
    sides: list[tuple[Body, Value]] = []
    for one, holds in ((node.body, True), (node.orelse, False)):
        with t.draft.side() as body:
            t.draft.facts.assume(test.expr, holds=holds)
            sides.append((body, t.evaluate(one)))
    (then, yes), (otherwise, no) = sides
    if not then and not otherwise:
        chosen: Value = choose(t, test, yes, no, node)
        t.joined(spot_of(node), "chosen", chosen)
        return chosen
    branch = t.draft.add_if(test.expr, then, otherwise)
    chosen = settled(t, Merged("chosen", branch, t.draft.body, yes, no), node)
    t.joined(spot_of(node), "chosen", chosen)
    return chosen


def short_circuit(t: Translation, node: ast.BoolOp) -> Value:
    """Return ``a and b`` or ``a or b``; what stands behind is evaluated only where Python would, if that can be told."""
    is_and = isinstance(node.op, ast.And)
    values = list(node.values)
    found = t.evaluate(values.pop(0))
    while values and isinstance(found, (Constant, Host)):  # which decides, or is left out: as Python does
        if bool(found.value) is not is_and:
            return found
        found = t.evaluate(values.pop(0))
    if not values:
        return found
    found = _tested(t, found, node)
    for one in values:
        if isinstance(found, Constant):  # two conditions that exclude each other
            return found
        found = _second(t, found, one, node, is_and=is_and)
    return found


def _tested(t: Translation, value: Value, node: ast.BoolOp) -> Number | Constant:
    """Return a part of an ``and`` or ``or``, which must be a bool: of numbers Python would give one of them."""
    is_bool = (
        value.type is bool_ if isinstance(value, Number) else isinstance(value, Constant) and isinstance(value.value, bool)
    )
    if not is_bool:
        sign = "and" if isinstance(node.op, ast.And) else "or"
        raise t.mistyped(
            node,
            f"{sign!r} of numbers gives one of them in Python, and a bool here",
            "write x != 0 or ..., or x if x != 0 else 1",
        )
    assert isinstance(value, (Number, Constant))  # noqa: S101 -- a bool
    return value


def _second(t: Translation, first: Value, one: ast.expr, node: ast.BoolOp, *, is_and: bool) -> Value:
    assert isinstance(first, Number)  # noqa: S101 -- constants are dealt with before
    with t.draft.side() as body:
        t.draft.facts.assume(first.expr, holds=is_and)
        second = _tested(t, t.evaluate(one), node)
    if not body:
        return both(t, first, second, node) if is_and else either(t, first, second, node)
    held = t.draft.hold(first, "test")
    other: Value = Constant(not is_and)
    branch = t.draft.add_if(held.expr, *((body, []) if is_and else ([], body)))
    sides = (second, other) if is_and else (other, second)
    return settled(t, Merged("test", branch, t.draft.body, *sides), node)


def merge(
    t: Translation, branch: Branch, yes: dict[str, Value] | None, no: dict[str, Value] | None, line: int
) -> dict[str, Value]:
    """Return what the names stand for behind an ``if``, from those at the ends of its sides; None of one that is left."""
    before = t.frame.names
    names: dict[str, Value] = {}
    for name in {**(yes or {}), **(no or {})}:
        one = None if yes is None else yes.get(name)
        other = None if no is None else no.get(name)
        if yes is not None and no is not None and (one is None or other is None):
            names[name] = Missing(f"only one side of the if in line {line} gives it one")
        else:
            names[name] = _merged(t, branch, name, one, other, before.get(name), line)
            if yes is not None and no is not None and isinstance(names[name], (Merged, Tuple)):
                t.joined((line,), f"if {name}", names[name])
    return names


def _merged(  # noqa: PLR0913 -- both sides, and what was before
    t: Translation, branch: Branch, name: str, yes: Value | None, no: Value | None, before: Value | None, line: int
) -> Value:
    if yes is no or (yes is before and no is None) or (no is before and yes is None):
        return yes or no or Missing("it has none")
    one, other = yes or no, no or yes
    assert one is not None  # noqa: S101 -- a name of at least one side
    assert other is not None  # noqa: S101 -- the same
    if isinstance(one, Missing) or isinstance(other, Missing):
        return one if isinstance(one, Missing) else other
    if isinstance(one, Tuple) and isinstance(other, Tuple) and is_like(one, other):
        was = before.items if isinstance(before, Tuple) and len(before.items) == len(one.items) else (None,) * len(one.items)
        items = zip(one.items, other.items, was, strict=True)
        left = (yes is None, no is None)
        merged = tuple(_merged(t, branch, name, None if left[0] else a, None if left[1] else b, c, line) for a, b, c in items)
        return one.of(merged)
    if not isinstance(one, (Number, Constant, Merged)) or not isinstance(other, (Number, Constant, Merged)):
        same = yes is None or no is None or one is other
        return one if same else Missing(f"the sides of the if in line {line} make different things of it")
    is_both = yes is not None and no is not None
    if is_both and isinstance(one, Constant) and isinstance(other, Constant) and repr(one.value) == repr(other.value):
        return one
    return Merged(name, branch, t.draft.body, yes, no)


def settled(t: Translation, value: Value, node: ast.AST) -> Value:
    """Return a value that may be used here: what was merged as a variable of the program."""
    if isinstance(value, Tuple):
        if value.is_settled:
            return value
        return Tuple(tuple(settled(t, item, node) for item in value.items), value.fields, value.made_by, is_settled=True)
    if not isinstance(value, Merged):
        return value
    if value.number is None:
        value.number = _settle(t, value, node)
    return value.number


def _settle(t: Translation, merged: Merged, node: ast.AST) -> Number:
    """Declare the variable of a merged value before its ``if``, and assign it in the sides."""
    branch = merged.branch
    one, other = (None if side is None else settled(t, side, node) for side in (merged.yes, merged.no))
    known = t.frame.types.get(merged.name)
    sides: list[tuple[Body, Number]] = []
    if one is not None and other is not None:
        first, second = alike_or_typed(t, _typed_as(t, one, known, node), _typed_as(t, other, known, node), node, "if")
        sides = [(branch.then, first), (branch.otherwise, second)]
    else:
        value = typed(t, one or other or Constant(0), node, known[0] if known else None)
        sides = [(branch.then if one is not None else branch.otherwise, value)]
    low, high = min(number.low for _, number in sides), max(number.high for _, number in sides)
    held = variable(t.draft.fresh(merged.name), sides[0][1].type, (low, high))
    at = next(place for place in range(len(merged.parent) - 1, -1, -1) if merged.parent[place] is branch)
    merged.parent.insert(at, Plain(Let(held.name, zero(held.type)), branch.place))
    for body, number in sides:
        body.append(Plain(Assign(held.name, number.expr), branch.place))
    return held


def _typed_as(t: Translation, value: Value, known: tuple[ScalarType, int] | None, node: ast.AST) -> Value:
    return typed(t, value, node, known[0]) if isinstance(value, Constant) and known else value


def give(t: Translation, held: Number, value: Value, node: ast.AST, body: Body | None = None) -> None:
    """Assign a value to a variable of the program at the end of a body; a merged one at the ends of the sides of its ``if``."""
    body = t.draft.body if body is None else body
    if isinstance(value, Merged) and value.number is None and _is_last(body, value.branch):
        for side, one in ((value.branch.then, value.yes), (value.branch.otherwise, value.no)):
            if one is not None:
                give(t, held, one, node, side)
        return
    number = typed(t, settled(t, value, node), node, held.type)
    if number.expr != held.expr:
        body.append(Plain(Assign(held.name, number.expr), t.draft.place))


def is_placed(body: Body, held: Value, value: Value, left: frozenset[Exit]) -> bool:
    """Whether :func:`give` assigns a value at the end of a body only where no jump left it; ``left`` are those taken."""
    if isinstance(held, Tuple):
        if not isinstance(value, Tuple) or len(value.items) != len(held.items):
            return not left
        return all(is_placed(body, one, item, left) for one, item in zip(held.items, value.items, strict=True))
    if not isinstance(held, Number) or (isinstance(value, Number) and value.expr == held.expr):
        return True
    if isinstance(value, Merged) and value.number is None and _is_last(body, value.branch):
        branch = value.branch
        sides = zip((branch.then, branch.otherwise), (value.yes, value.no), branch.exits, strict=True)
        return all(one is None or is_placed(side, held, one, left & exits) for side, one, exits in sides)
    return not left


def _is_last(body: Body, branch: Branch) -> bool:
    """Whether nothing but assignments of what was merged stands behind an ``if`` in a body."""
    for statement in reversed(body):
        if statement is branch:
            return True
        if not (isinstance(statement, Plain) and isinstance(statement.node, Assign)):
            return False
    return False


def links_of(node: ast.If) -> list[ast.If]:
    """Return an ``if`` and each ``elif`` of it."""
    links = [node]
    while len(links[-1].orelse) == 1 and isinstance(links[-1].orelse[0], ast.If):
        links.append(links[-1].orelse[0])
    return links


def shortened(node: ast.If) -> list[ast.stmt] | None:
    """Return the statements that do what a long chain does, None for one that may stay as it is."""
    links = links_of(node)
    if len(links) <= _LONGEST:
        return None
    name = f"the side of the if in line {node.lineno}"  # which no name of Python is
    found = _number_assigned(name, 0, node)
    parts = [links[first : first + _LONGEST] for first in range(0, len(links), _LONGEST)]
    statements: list[ast.stmt] = [found]
    for number, part in enumerate(parts):
        tests = _tests(name, part, number * _LONGEST + 1)
        statements.append(_if(_number_compared(name, ast.Eq(), 0, part[0]), [tests], [], part[0]) if number else tests)
    sides = [(links[-1].orelse, links[-1]), *((one.body, one) for one in links)]
    return [*statements, *_halved(name, sides, 0, node)]


def _tests(name: str, links: Sequence[ast.If], first: int) -> ast.stmt:
    """Return an ``if`` that gives the name the number of the first test that holds."""
    rest: list[ast.stmt] = []
    for number, link in reversed(list(enumerate(links, first))):
        rest = [_if(link.test, [_number_assigned(name, number, link)], rest, link)]
    return rest[0]


def _halved(name: str, sides: Sequence[tuple[list[ast.stmt], ast.If]], first: int, node: ast.If) -> list[ast.stmt]:
    """Return what runs the side of the number that the name has; the sides are numbered from ``first`` on."""
    if len(sides) == 1:
        return sides[0][0]
    half = len(sides) // 2
    test = _number_compared(name, ast.Lt(), first + half, node)
    lower, upper = _halved(name, sides[:half], first, node), _halved(name, sides[half:], first + half, node)
    return [_if(test, lower or [ast.copy_location(ast.Pass(), node)], upper, node)]


def _if(test: ast.expr, body: list[ast.stmt], orelse: list[ast.stmt], at: ast.If) -> ast.stmt:
    return ast.copy_location(ast.If(test, body, orelse), at)


def _number_assigned(name: str, number: int, at: ast.If) -> ast.stmt:
    made = ast.Assign([ast.Name(name, ast.Store())], ast.Constant(number))
    return ast.fix_missing_locations(ast.copy_location(made, at.test))


def _number_compared(name: str, op: ast.cmpop, number: int, at: ast.If) -> ast.expr:
    made = ast.Compare(ast.Name(name, ast.Load()), [op], [ast.Constant(number)])
    return ast.fix_missing_locations(ast.copy_location(made, at.test))


class Rooms:
    """The place before the statements of a call, for what has to be declared there."""

    def __init__(self, draft: Draft) -> None:
        """Keep the place that the draft is at."""
        self._body = draft.body
        self._mark = Plain(None, draft.place)
        draft.body.append(self._mark)

    def take(self, node: Node) -> None:
        """Put a statement there."""
        at = next(place for place, one in enumerate(self._body) if one is self._mark)
        self._body.insert(at, Plain(node, self._mark.place))


def returned(t: Translation, frame: Frame, body: Body, rooms: Rooms) -> Value:
    """Return what a function gives."""
    results = frame.results
    if not results:
        return Host(None)
    if len(results) == 1 and results[0][0] is body:
        return results[0][1]
    return _one_of(t, results, rooms)


def _one_of(t: Translation, results: list[Result], rooms: Rooms) -> Value:
    """Return the one of several values that was returned."""
    values = [value for _, value, _ in results]
    first = values[0]
    if isinstance(first, Tuple):
        tuples = [value for value in values if isinstance(value, Tuple) and is_like(first, value)]
        if len(tuples) < len(values):
            raise _refuse_results(t, results, f"a tuple of {len(first.items)}")
        parts = [
            _one_of(t, [(body, one.items[at], node) for (body, _, node), one in zip(results, tuples, strict=True)], rooms)
            for at in range(len(first.items))
        ]
        return Tuple(tuple(parts), first.fields, first.made_by)
    if all(isinstance(value, Host) for value in values):
        if all(value.value is first.value for value in values):  # type: ignore[union-attr] # all are Hosts
            return first
        raise _refuse_results(t, results, "one thing")
    if not all(isinstance(value, (Number, Constant)) for value in values):
        raise _refuse_results(t, results, "a number")
    return _one_of_numbers(t, results, rooms)


def _one_of_numbers(t: Translation, results: list[Result], rooms: Rooms) -> Value:
    known: ScalarType | None = next((value.type for _, value, _ in results if isinstance(value, Number)), None)
    numbers = [(body, typed(t, value, node, known), node) for body, value, node in results]
    scalar = numbers[0][1].type
    for _, number, node in numbers:
        if number.type is not scalar:
            raise t.mistyped(
                node, f"{t.frame.source.name!r} returns {number.type} here and {scalar} elsewhere", f"convert: {scalar}(...)"
            )
    low, high = min(one.low for _, one, _ in numbers), max(one.high for _, one, _ in numbers)
    held = variable(t.draft.fresh("result"), scalar, (low, high))
    rooms.take(Let(held.name, zero(scalar)))
    for body, number, _ in numbers:
        body.append(Plain(Assign(held.name, number.expr), t.draft.place))
    return held


def _refuse_results(t: Translation, results: list[Result], what: str) -> KernelSourceError:
    node = results[-1][2]
    return t.mistyped(
        node, f"{t.frame.source.name!r} returns {what} on one way and something else here", "return the same kind of value"
    )
