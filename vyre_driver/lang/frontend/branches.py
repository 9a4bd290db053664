"""``if`` statements and conditional expressions.

What follows an ``if`` of which one side is left goes into the other side, so that most jumps need no variable.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from vyre_driver.ir.arithmetic import Binary
from vyre_driver.ir.operators import BinOp
from vyre_driver.lang.frontend.comparisons import both, choose, condition, either
from vyre_driver.lang.frontend.elifs import shortened
from vyre_driver.lang.frontend.frames import Flow
from vyre_driver.lang.frontend.merging import merge, settled
from vyre_driver.lang.frontend.typings import spot_of
from vyre_driver.lang.frontend.values import Constant, Host, Merged, Number
from vyre_driver.lang.types import bool_

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vyre_driver.ir.expressions import Expr
    from vyre_driver.lang.frontend.draft import Body, Branch
    from vyre_driver.lang.frontend.frames import Exit
    from vyre_driver.lang.frontend.translation import Translation
    from vyre_driver.lang.frontend.values import Value

    Side = tuple[Flow, dict[str, Value]]


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
