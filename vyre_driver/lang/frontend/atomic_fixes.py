"""What to write instead of a load and a store of one element by many invocations: an atomic where there is one."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from vyre_driver.lang.types import f32, i32, u32

if TYPE_CHECKING:
    from vyre_driver.lang.frontend.values import Array
    from vyre_driver.lang.types import ScalarType

_BY_SIGN: dict[type[ast.operator], str] = {
    ast.Add: "atomic_add",
    ast.Sub: "atomic_add",
    ast.BitAnd: "atomic_and",
    ast.BitOr: "atomic_or",
    ast.BitXor: "atomic_xor",
}
_BY_CALL = {
    **dict.fromkeys(("min", "minimum", "fmin"), "atomic_min"),
    **dict.fromkeys(("max", "maximum", "fmax"), "atomic_max"),
}
_OF_FLOATS = frozenset({"atomic_add", "atomic_min", "atomic_max"})


def atomic_fix(node: ast.AST, array: Array) -> str:
    """Return how the update of an element is written so that no invocation loses what another one stores."""
    written = _written(node)
    if written is None or _reads(written[2], written[1].value):
        others = "an atomic, as atomic_add, " if _has(array.element, "atomic_add") else ""
        return f"use {others}a reduction, or let one invocation do it"
    name, target, value, is_negated = written
    if not _has(array.element, name):
        return f"use a reduction, or an array of u32, i32{' or f32' * (name in _OF_FLOATS)} and {name}"
    text = _shown(value, array.element, is_negated=is_negated)
    return f"use {name}({ast.unparse(target.value)}, {ast.unparse(target.slice)}, {text}), or a reduction"


def updated_element(node: ast.AST, array: Array) -> str:
    """Return the element that a statement stores to, as it is written."""
    targets = [node.target] if isinstance(node, ast.AugAssign) else node.targets if isinstance(node, ast.Assign) else []
    found = next((one for one in targets if isinstance(one, ast.Subscript)), None)
    return f"an element of {array.name!r}" if found is None else ast.unparse(found)


def _has(element: ScalarType, name: str) -> bool:
    return element in {u32, i32} or (element is f32 and name in _OF_FLOATS)


def _reads(value: ast.expr, array: ast.expr) -> bool:
    """Whether a value is made of elements of an array, which no atomic of the array may be."""
    return any(isinstance(one, ast.Subscript) and ast.dump(one.value) == ast.dump(array) for one in ast.walk(value))


def _shown(value: ast.expr, element: ScalarType, *, is_negated: bool) -> str:
    """Return a value as an atomic on elements of a type takes it: comparisons are cast, and constants that a u32 loses."""
    is_truth = isinstance(value, (ast.Compare, ast.BoolOp)) or (
        isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.Not)
    )
    is_negative = is_negated and element is u32 and isinstance(value, ast.Constant)
    shown = ast.Call(ast.Name(str(element)), [value], []) if is_truth or is_negative else value
    return ast.unparse(ast.UnaryOp(ast.USub(), shown) if is_negated else shown)


def _written(node: ast.AST) -> tuple[str, ast.Subscript, ast.expr, bool] | None:
    """Return the atomic that does what a statement does, the element, the value that it takes, and whether that is negated.

    None if there is none.
    """
    if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Subscript):
        return _operated(type(node.op), node.target, node.value)
    target = node.targets[0] if isinstance(node, ast.Assign) else None
    if not isinstance(node, ast.Assign) or not isinstance(target, ast.Subscript):
        return None
    value, element = node.value, ast.unparse(target)
    if isinstance(value, ast.BinOp):
        if ast.unparse(value.left) == element:
            return _operated(type(value.op), target, value.right)
        if ast.unparse(value.right) == element and not isinstance(value.op, ast.Sub):
            return _operated(type(value.op), target, value.left)
    if isinstance(value, ast.Call) and len(value.args) == 2:
        name = _BY_CALL.get(ast.unparse(value.func).rpartition(".")[2])
        others = [one for one in value.args if ast.unparse(one) != element]
        return (name, target, others[0], False) if name is not None and len(others) == 1 else None
    return None


def _operated(
    sign: type[ast.operator], target: ast.Subscript, value: ast.expr
) -> tuple[str, ast.Subscript, ast.expr, bool] | None:
    name = _BY_SIGN.get(sign)
    return None if name is None else (name, target, value, sign is ast.Sub)
