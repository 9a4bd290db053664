"""What a function that is inlined returns: one value, or one of several by the way that was taken."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_driver.ir.arithmetic import Var
from vyre_driver.ir.nodes import Assign, Let
from vyre_driver.lang.frontend.conversions import typed
from vyre_driver.lang.frontend.draft import Plain
from vyre_driver.lang.frontend.values import Constant, Host, Number, Tuple, is_like, variable, zero

if TYPE_CHECKING:
    import ast

    from vyre_driver.errors import KernelSourceError
    from vyre_driver.ir.nodes import Node
    from vyre_driver.lang.frontend.draft import Body, Draft
    from vyre_driver.lang.frontend.frames import Frame
    from vyre_driver.lang.frontend.translation import Translation
    from vyre_driver.lang.frontend.values import Value
    from vyre_driver.lang.types import ScalarType

    Result = tuple[Body, Value, ast.AST]


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
    return _joined(t, results, rooms)


def _joined(t: Translation, results: list[Result], rooms: Rooms) -> Value:
    """Return the one of several values that was returned."""
    values = [value for _, value, _ in results]
    first = values[0]
    if isinstance(first, Tuple):
        tuples = [value for value in values if isinstance(value, Tuple) and is_like(first, value)]
        if len(tuples) < len(values):
            raise _refuse(t, results, f"a tuple of {len(first.items)}")
        parts = [
            _joined(t, [(body, one.items[at], node) for (body, _, node), one in zip(results, tuples, strict=True)], rooms)
            for at in range(len(first.items))
        ]
        return Tuple(tuple(parts), first.fields, first.made_by)
    if all(isinstance(value, Host) for value in values):
        if all(value.value is first.value for value in values):  # type: ignore[union-attr] # all are Hosts
            return first
        raise _refuse(t, results, "one thing")
    if not all(isinstance(value, (Number, Constant)) for value in values):
        raise _refuse(t, results, "a number")
    return _numbers(t, results, rooms)


def _numbers(t: Translation, results: list[Result], rooms: Rooms) -> Value:
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
    assert isinstance(held.expr, Var)  # noqa: S101 -- ``variable`` makes one
    rooms.take(Let(held.expr.name, zero(scalar)))
    for body, number, _ in numbers:
        body.append(Plain(Assign(held.expr.name, number.expr), t.draft.place))
    return held


def _refuse(t: Translation, results: list[Result], what: str) -> KernelSourceError:
    node = results[-1][2]
    return t.mistyped(
        node, f"{t.frame.source.name!r} returns {what} on one way and something else here", "return the same kind of value"
    )
