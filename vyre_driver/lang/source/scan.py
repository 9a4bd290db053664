"""What is known of a function before it is translated: what a call binds, the names that it assigns, how it uses its arrays."""

from __future__ import annotations

import ast
import inspect
import types
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from vyre_driver.lang.source.text import FunctionSource


def assigned_names(source: FunctionSource) -> frozenset[str]:
    """Return the variables of a function: its parameters, and all that it assigns."""
    arguments = source.arguments
    names = {one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
    return frozenset(names | stored_names(source.body))


def stored_names(statements: Iterable[ast.stmt]) -> frozenset[str]:
    """Return the names that statements assign, without those of functions inside."""
    return frozenset(_stored(statements))


def _stored(statements: Iterable[ast.AST]) -> Iterator[str]:
    waiting: list[ast.AST] = list(statements)
    while waiting:
        node = waiting.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Store):
                yield node.id
        elif not isinstance(node, ast.Lambda):
            waiting.extend(ast.iter_child_nodes(node))


def may_read_first(statements: Iterable[ast.stmt], name: str) -> bool:
    """Whether statements may read a variable before they give it a value: not in a loop over it, nor behind an assignment."""
    for statement in statements:
        if isinstance(statement, ast.For) and isinstance(statement.target, ast.Name) and statement.target.id == name:
            if _reads(statement.iter, name):
                return True
        elif isinstance(statement, ast.Assign) and any(_is_name(one, name) for one in statement.targets):
            return _reads(statement, name)
        elif isinstance(statement, (ast.For, ast.While, ast.If)):
            head = statement.iter if isinstance(statement, ast.For) else statement.test
            if _reads(head, name) or may_read_first(statement.body, name) or may_read_first(statement.orelse, name):
                return True
        elif _reads(statement, name):
            return True
    return False


def _is_name(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _reads(node: ast.AST, name: str) -> bool:
    """Whether a name is read anywhere in a statement or an expression."""
    if isinstance(node, ast.AugAssign) and _is_name(node.target, name):
        return True
    return any(isinstance(one, ast.Name) and one.id == name and isinstance(one.ctx, ast.Load) for one in ast.walk(node))


def jumps_within(statements: Iterable[ast.stmt], kind: type[ast.stmt]) -> bool:
    """Whether a jump of this kind stands in statements, not in a loop of their own."""
    for statement in statements:
        if isinstance(statement, kind):
            return True
        if isinstance(statement, ast.If) and (jumps_within(statement.body, kind) or jumps_within(statement.orelse, kind)):
            return True
    return False


def ranks_within(statements: Iterable[ast.stmt], arrays: frozenset[str]) -> dict[str, int]:
    """Return how many axes arrays have by how they are used: in subscripts, and where their shape is unpacked."""
    ranks: dict[str, int] = {}
    for statement in statements:
        for node in ast.walk(statement):
            if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id in arrays:
                ranks.setdefault(node.value.id, len(node.slice.elts) if isinstance(node.slice, ast.Tuple) else 1)
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple):
                name = _shape_of(node.value)
                if name in arrays:
                    ranks.setdefault(str(name), len(node.targets[0].elts))
    return ranks


def _shape_of(node: ast.expr) -> str | None:
    """Return the name of the array whose shape an expression is."""
    if isinstance(node, ast.Attribute) and node.attr == "shape" and isinstance(node.value, ast.Name):
        return node.value.id
    return None


def call_signature(function: types.FunctionType) -> inspect.Signature:
    """Return the parameters that a call of a function binds, with their defaults.

    ``inspect.signature`` follows ``__wrapped__`` and ``__signature__`` to a function that is not the one that is called:
    ``functools.wraps`` sets the first on each wrapper.
    """
    bare = types.FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    bare.__kwdefaults__ = function.__kwdefaults__
    return inspect.signature(bare)


def parameter_names(function: types.FunctionType) -> tuple[str, ...]:
    """Return the names of all parameters of a function, those of ``*args`` and ``**kwargs`` last."""
    code = function.__code__
    count = code.co_argcount + code.co_kwonlyargcount
    return code.co_varnames[: count + bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)]


def variadic_names(function: types.FunctionType) -> tuple[str, ...]:
    """Return the names of ``*args`` and ``**kwargs``, of those that a function has."""
    code = function.__code__
    return parameter_names(function)[code.co_argcount + code.co_kwonlyargcount :]


def accepts(function: types.FunctionType, count: int) -> bool:
    """Whether a function can be called with so many arguments by position."""
    try:
        call_signature(function).bind(*[None] * count)
    except TypeError:
        return False
    return True
