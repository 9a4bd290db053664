"""The expressions of a kernel."""

from __future__ import annotations

import ast
import functools
from typing import TYPE_CHECKING, Any

from vyre_driver.lang.frontend.arithmetic import SIGNS, binary, unary
from vyre_driver.lang.frontend.branches import conditional, short_circuit
from vyre_driver.lang.frontend.calls import call, spread
from vyre_driver.lang.frontend.comparisons import both, compare
from vyre_driver.lang.frontend.memory import load
from vyre_driver.lang.frontend.names import attribute, name
from vyre_driver.lang.frontend.order import evaluated
from vyre_driver.lang.frontend.records import check_as_tuple
from vyre_driver.lang.frontend.values import Array, Constant, Host, Number, Tuple, kind_name

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vyre_driver.lang.frontend.translation import Translation
    from vyre_driver.lang.frontend.values import Value

_HINTS = {
    "List": "use a tuple, or g.shared / local for memory",
    "Dict": "use a tuple",
    "Set": "use a tuple",
    "ListComp": "write a loop",
    "SetComp": "write a loop",
    "DictComp": "write a loop",
    "GeneratorExp": "write a loop",
    "JoinedStr": "there are no strings on the device",
    "Lambda": "define a function outside",
    "Yield": "store to an array",
    "YieldFrom": "store to an array",
    "Await": "kernels are not coroutines",
    "Starred": "write the arguments out",
    "NamedExpr": "assign in a statement of its own",
    "Slice": "loop over the indices",
}


_WORDS = {
    "ListComp": "a list comprehension",
    "SetComp": "a set comprehension",
    "DictComp": "a dict comprehension",
    "GeneratorExp": "a generator expression",
    "JoinedStr": "an f-string",
    "NamedExpr": "':='",
    "Starred": "a starred name",
    "Slice": "a slice",
    "YieldFrom": "yield from",
} | {kind: kind.lower() for kind in ("Lambda", "Yield", "Await")}


def evaluate(t: Translation, node: ast.expr) -> Value:
    """Return what an expression stands for."""
    handler = _HANDLERS.get(type(node))
    if handler is None:
        kind = type(node).__name__
        raise t.unknown(
            node, f"{_WORDS.get(kind, kind)} is not part of the kernel language", _HINTS.get(kind, "write it another way")
        )
    return handler(t, node)


def in_order(t: Translation, nodes: Sequence[ast.expr]) -> list[Value]:
    """Return what expressions stand for, with the effects of each behind what those before it load."""
    return evaluated(t, [functools.partial(evaluate, t, node) for node in nodes])


def _constant(_: Translation, node: ast.Constant) -> Value:
    return Constant(node.value) if isinstance(node.value, (bool, int, float)) else Host(node.value)


def _tuple(t: Translation, node: ast.Tuple) -> Value:
    values = in_order(t, [one.value if isinstance(one, ast.Starred) else one for one in node.elts])
    return Tuple(tuple(item for value, one in zip(values, node.elts, strict=True) for item in spread(t, value, one)))


def _formatted(t: Translation, node: ast.JoinedStr) -> Value:
    """Return the text that plain Python prints; what stands in it is translated for its types."""
    if not t.is_plain:
        raise t.unknown(node, "an f-string is not part of the kernel language", _HINTS["JoinedStr"])
    in_order(t, [one.value for one in node.values if isinstance(one, ast.FormattedValue)])
    return Host("")


def _binary(t: Translation, node: ast.BinOp) -> Value:
    sign = SIGNS.get(type(node.op))
    if sign is None:
        raise t.unknown(node, "the operator @ is for matrices of the host", "write the loop, or use vyre_driver.kernels.matmul")
    left, right = in_order(t, (node.left, node.right))
    return binary(t, sign, left, right, node)


def _compare(t: Translation, node: ast.Compare) -> Value:
    left, *others = in_order(t, (node.left, *node.comparators))
    found: Value | None = None
    for op, other in zip(node.ops, others, strict=True):
        is_held = len(others) > 1 and isinstance(other, Number) and other.expr.depth > 2
        right = t.draft.hold(other, "middle") if is_held and isinstance(other, Number) else other
        one = compare(t, op, left, right, node)
        found = one if found is None else both(t, found, one, node)
        left = right
    assert found is not None  # noqa: S101 -- a comparison has an operator
    return found


def _subscript(t: Translation, node: ast.Subscript) -> Value:
    owner = evaluate(t, node.value)
    if isinstance(node.slice, ast.Slice):
        return _part(t, owner, node.slice, node)
    if isinstance(owner, Array):
        return load(t, owner, node)
    if not isinstance(owner, Tuple):
        fix = "subscript an array or a tuple"
        if isinstance(node.value, ast.Subscript):
            indices = f"{ast.unparse(node.value.slice)}, {ast.unparse(node.slice)}"
            fix = f"give all indices of an array at once: {ast.unparse(node.value.value)}[{indices}]"
        raise t.mistyped(node, f"{kind_name(owner)} has no elements", fix)
    check_as_tuple(t, owner, "__getitem__", "an item", node)
    at = evaluate(t, node.slice)
    if not isinstance(at, Constant) or not isinstance(at.value, int):
        raise t.mistyped(
            node,
            "the index of a tuple must be constant",
            "unroll the loop: for k in static_range(...); or pass the values in an array",
        )
    if not -len(owner.items) <= at.value < len(owner.items):
        raise t.mistyped(
            node, f"the index {at.value} is out of range of a tuple of {len(owner.items)}", "use an index that it has"
        )
    return owner.items[at.value]


def _part(t: Translation, owner: Value, bounds: ast.Slice, node: ast.Subscript) -> Value:
    """Return a slice of a tuple."""
    if not isinstance(owner, Tuple):
        raise t.unknown(node, "slices are views of arrays of the host", "loop over the indices")
    check_as_tuple(t, owner, "__getitem__", "a slice", node)
    places: list[int | None] = []
    for one in (bounds.lower, bounds.upper, bounds.step):
        value = Host(None) if one is None else evaluate(t, one)
        if not isinstance(value, (Constant, Host)) or not isinstance(value.value, (int, type(None))):
            raise t.mistyped(node, "the bounds of a slice of a tuple must be constant", "use static_range, or whole numbers")
        places.append(value.value)
    if places[2] == 0:
        raise t.mistyped(node, "the step of a slice is 0", "leave it out")
    return Tuple(owner.items[slice(*places)])


_HANDLERS: dict[type[ast.expr], Callable[[Translation, Any], Value]] = {
    ast.Constant: _constant,
    ast.Name: name,
    ast.Attribute: attribute,
    ast.Tuple: _tuple,
    ast.JoinedStr: _formatted,
    ast.BinOp: _binary,
    ast.UnaryOp: lambda t, node: unary(t, node.op, evaluate(t, node.operand), node),
    ast.Compare: _compare,
    ast.BoolOp: short_circuit,
    ast.IfExp: conditional,
    ast.Subscript: _subscript,
    ast.Call: call,
}
