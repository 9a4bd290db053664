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
    if written is None:
        others = "an atomic, as atomic_add, " if _has(array.element, "atomic_add") else ""
        return f"use {others}a reduction, or let one invocation do it"
    name, target, value = written
    if not _has(array.element, name):
        return f"use a reduction, or an array of u32, i32{' or f32' * (name in _OF_FLOATS)} and {name}"
    return f"use {name}({ast.unparse(target.value)}, {ast.unparse(target.slice)}, {value}), or a reduction"


def updated_element(node: ast.AST, array: Array) -> str:
    """Return the element that a statement stores to, as it is written."""
    targets = [node.target] if isinstance(node, ast.AugAssign) else node.targets if isinstance(node, ast.Assign) else []
    found = next((one for one in targets if isinstance(one, ast.Subscript)), None)
    return f"an element of {array.name!r}" if found is None else ast.unparse(found)


def _has(element: ScalarType, name: str) -> bool:
    return element in {u32, i32} or (element is f32 and name in _OF_FLOATS)


def _written(node: ast.AST) -> tuple[str, ast.Subscript, str] | None:
    """Return the atomic that does what a statement does, the element, and the value that it takes; None if there is none."""
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
        others = [ast.unparse(one) for one in value.args if ast.unparse(one) != element]
        return (name, target, others[0]) if name is not None and len(others) == 1 else None
    return None


def _operated(sign: type[ast.operator], target: ast.Subscript, value: ast.expr) -> tuple[str, ast.Subscript, str] | None:
    name = _BY_SIGN.get(sign)
    if name is None:
        return None
    return name, target, ast.unparse(ast.UnaryOp(ast.USub(), value) if sign is ast.Sub else value)
