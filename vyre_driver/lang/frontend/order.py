"""The order of effects: what an operand loads is what is there before the operands behind it store, as in Python.

A load is part of the expression that uses it. So where an operand behind it has effects of its own (an atomic, a function that
stores), it becomes a variable before these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_driver.ir.nodes import Let
from vyre_driver.ir.terms import Traits
from vyre_driver.lang.frontend.draft import Plain
from vyre_driver.lang.frontend.values import Number, Tuple, variable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from vyre_driver.lang.frontend.draft import Body, Statement
    from vyre_driver.lang.frontend.translation import Translation
    from vyre_driver.lang.frontend.values import Value


def evaluated(t: Translation, makers: Iterable[Callable[[], Value]]) -> list[Value]:
    """Return what expressions give that are evaluated one after the other."""
    values: list[Value] = []
    for make in makers:
        last = t.draft.body[-1] if t.draft.body else None
        value = make()
        at = _behind(t.draft.body, last)
        if any(map(_has_effects, t.draft.body[at:])):
            for place, one in enumerate(values):
                values[place], at = _kept(t, one, at)
        values.append(value)
    return values


def _behind(body: Body, last: Statement | None) -> int:
    """Return the place behind a statement, before which others may have been declared meanwhile."""
    return next((place + 1 for place in range(len(body) - 1, -1, -1) if body[place] is last), 0)


def _has_effects(statement: Statement) -> bool:
    if not isinstance(statement, Plain):
        return True
    if isinstance(statement.node, Let):
        return not statement.node.value.traits & Traits.NO_WRITES
    return statement.node is not None


def _kept(t: Translation, value: Value, at: int) -> tuple[Value, int]:
    """Return a value that reads memory as a variable that is declared at a place in the body, and the place behind that."""
    if isinstance(value, Tuple):
        items: list[Value] = []
        for item in value.items:
            kept, at = _kept(t, item, at)
            items.append(kept)
        return Tuple(tuple(items), value.fields, value.made_by), at
    if not isinstance(value, Number) or value.expr.traits & Traits.NO_READS:
        return value, at
    held = variable(t.draft.fresh("before"), value.type, (value.low, value.high))
    t.draft.body.insert(at, Plain(Let(held.expr.name, value.expr), t.draft.place))  # type: ignore[attr-defined] # a Var
    return held, at + 1
