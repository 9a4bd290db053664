"""What a variable is behind an ``if``: one value or the other.

Nothing is emitted until it is read: then the program gets a variable, declared before the ``if`` and assigned at the end of
each side. What a loop hands to its next turn is assigned in the sides directly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_driver.ir.arithmetic import Var
from vyre_driver.ir.nodes import Assign, Let
from vyre_driver.lang.frontend.comparisons import alike_or_typed
from vyre_driver.lang.frontend.conversions import typed
from vyre_driver.lang.frontend.draft import Plain
from vyre_driver.lang.frontend.values import Constant, Merged, Missing, Number, Tuple, is_like, variable, zero

if TYPE_CHECKING:
    import ast

    from vyre_driver.lang.frontend.draft import Body, Branch
    from vyre_driver.lang.frontend.frames import Exit
    from vyre_driver.lang.frontend.translation import Translation
    from vyre_driver.lang.frontend.values import Value
    from vyre_driver.lang.types import ScalarType


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
        return Tuple(merged, one.fields, one.made_by)
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
    assert isinstance(held.expr, Var)  # noqa: S101 -- ``variable`` makes one
    at = next(place for place in range(len(merged.parent) - 1, -1, -1) if merged.parent[place] is branch)
    merged.parent.insert(at, Plain(Let(held.expr.name, zero(held.type)), branch.place))
    for body, number in sides:
        body.append(Plain(Assign(held.expr.name, number.expr), branch.place))
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
        assert isinstance(held.expr, Var)  # noqa: S101 -- a variable
        body.append(Plain(Assign(held.expr.name, number.expr), t.draft.place))


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
