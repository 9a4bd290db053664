"""The statements of a kernel."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from vyre_driver.ir.arithmetic import Var
from vyre_driver.ir.nodes import Return
from vyre_driver.lang.frontend.annotations import annotated_as
from vyre_driver.lang.frontend.arithmetic import SIGNS, binary
from vyre_driver.lang.frontend.branches import guarded, if_statement
from vyre_driver.lang.frontend.checking import check_assert
from vyre_driver.lang.frontend.conversions import cast, constant_as, keeps
from vyre_driver.lang.frontend.frames import FALLS, Flow
from vyre_driver.lang.frontend.loops import break_statement, continue_statement, for_statement, while_statement
from vyre_driver.lang.frontend.memory import load, store
from vyre_driver.lang.frontend.merging import settled
from vyre_driver.lang.frontend.order import evaluated
from vyre_driver.lang.frontend.records import check_as_tuple
from vyre_driver.lang.frontend.translation import Shared
from vyre_driver.lang.frontend.values import Array, Constant, GroupValue, Host, Number, Tuple, is_literal, kind_name
from vyre_driver.lang.types import COMPUTED, WORDS, Kind, ScalarType

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vyre_driver.lang.frontend.translation import Translation
    from vyre_driver.lang.frontend.values import Value

    Handler = Callable[[Translation, Any], Flow]

_HINTS = {
    "Try": "check before instead of catching",
    "TryStar": "check before instead of catching",
    "With": "kernels have no context managers",
    "AsyncWith": "kernels have no context managers",
    "AsyncFor": "kernels are not coroutines",
    "Raise": "use assert, which is tested with VYRE_INTERPRET=1",
    "Import": "import at the top of the module",
    "ImportFrom": "import at the top of the module",
    "FunctionDef": "define the function outside of the kernel",
    "AsyncFunctionDef": "define the function outside of the kernel",
    "ClassDef": "define the class outside of the kernel",
    "Delete": "leave it out",
    "Global": "pass it as a parameter, or store to an array",
    "Nonlocal": "pass it as a parameter, or store to an array",
    "Match": "use if and elif",
}


_WORDS = {
    "AsyncFunctionDef": "async def",
    "AsyncFor": "async for",
    "AsyncWith": "async with",
    "ImportFrom": "import",
    "Delete": "del",
    "TypeAlias": "type",
}


def run(t: Translation, statements: Sequence[ast.stmt]) -> Flow:
    """Translate statements one after the other; returns how they end."""
    for at, statement in enumerate(statements):
        rest = statements[at + 1 :]
        t.count(statement)
        t.draft.place = t.place(statement)
        if isinstance(statement, ast.If):
            flow, moved = if_statement(t, statement, rest)
            if moved:
                return flow
        else:
            flow = _translated(t, statement)
        if flow.leaves:
            return flow
        if flow.exits:
            return guarded(t, flow, rest, statement.lineno)
    return FALLS


def _translated(t: Translation, statement: ast.stmt) -> Flow:
    handler = _HANDLERS.get(type(statement))
    if handler is None:
        kind = type(statement).__name__
        word = {"FunctionDef": "def", "ClassDef": "class", "TryStar": "try", **_WORDS}.get(kind, kind.lower())
        raise t.unknown(statement, f"{word} is not part of the kernel language", _HINTS.get(kind, "write it another way"))
    return handler(t, statement)


def _expression(t: Translation, node: ast.Expr) -> Flow:
    if isinstance(node.value, ast.Constant):
        return FALLS  # a docstring
    t.evaluate(node.value)
    if isinstance(node.value, (ast.Compare, ast.BinOp, ast.Name, ast.Subscript)):
        raise t.unknown(node, "this computes a value that nobody uses", "did you mean '='?")
    return FALLS


def _assign(t: Translation, node: ast.Assign) -> Flow:
    value = t.evaluate(node.value)
    if len(node.targets) > 1:  # of which one may change what the value is made of
        value = _snapshot(t, _held(t, "value", value) if isinstance(value, Tuple) else value)
        value = t.draft.hold(value, "value") if isinstance(value, Number) else value
    for target in node.targets:
        bind(t, target, value, node)
    return FALLS


def _annotated(t: Translation, node: ast.AnnAssign) -> Flow:
    annotation = t.evaluate(node.annotation)
    scalar = annotation.value if isinstance(annotation, Host) else None
    if not isinstance(scalar, ScalarType) or scalar not in COMPUTED:
        raise t.mistyped(
            node.annotation,
            f"a variable is annotated {ast.unparse(node.annotation)}",
            "use f32, i32, u32, f64, i64, u64 or bool_",
        )
    if node.value is None:
        raise t.unknown(node, "a declaration without a value", "give it one")
    value = t.evaluate(node.value)
    if isinstance(value, (Number, Constant)):
        value = annotated_as(t, value, scalar, f"{ast.unparse(node.target)} is annotated {scalar}, and is given", node)
    bind(t, node.target, cast(t, value, scalar, node), node)
    return FALLS


def _augmented(t: Translation, node: ast.AugAssign) -> Flow:
    sign = SIGNS.get(type(node.op))
    if sign is None:
        raise t.unknown(node, "the operator @ is for matrices of the host", "write the loop, or use vyre_driver.kernels.matmul")
    target = node.target
    if isinstance(target, ast.Subscript):
        array = t.evaluate(target.value)
        if isinstance(array, Array):
            at = t.evaluate(target.slice)  # once, as in Python
            before, given = evaluated(t, (lambda: load(t, array, target, at), lambda: t.evaluate(node.value)))
            store(t, array, target, binary(t, sign, before, given, node), node, at)
            return FALLS
    current = (
        t.evaluate(ast.copy_location(ast.Name(node.target.id, ast.Load()), node.target))
        if isinstance(node.target, ast.Name)
        else None
    )
    if current is None:
        raise t.unknown(node.target, "this cannot be assigned to", "assign to a variable or an element")
    bind(t, node.target, binary(t, sign, current, t.evaluate(node.value), node), node)
    return FALLS


def bind(t: Translation, target: ast.expr, value: Value, node: ast.AST) -> None:
    """Assign a value to a name, an element, or names in a tuple."""
    if isinstance(target, (ast.Tuple, ast.List)):
        _unpack(t, target, value, node)
    elif isinstance(target, ast.Subscript):
        array = t.evaluate(target.value)
        if not isinstance(array, Array):
            raise t.mistyped(target, f"{kind_name(array)} cannot be stored to", "make a new one: tuples do not change")
        value, at = evaluated(t, (lambda: value, lambda: t.evaluate(target.slice)))
        store(t, array, target, value, node, at)
    elif isinstance(target, ast.Name):
        _name(t, target, value, node)
    else:
        raise t.unknown(target, "this cannot be assigned to", "assign to a variable or an element")


def _unpack(t: Translation, target: ast.Tuple | ast.List, value: Value, node: ast.AST) -> None:
    if any(isinstance(one, ast.Starred) for one in target.elts):
        raise t.unknown(target, "a starred name takes a part of a tuple", "name each item")
    if not isinstance(value, Tuple) or len(value.items) != len(target.elts):
        raise t.mistyped(node, f"{len(target.elts)} names for {kind_name(value)}", "give as many values as names")
    check_as_tuple(t, value, "__iter__", "the items", node)
    items = [t.draft.hold(item, "item") if isinstance(item, Number) else item for item in value.items]
    items = [_snapshot(t, item) for item in items]
    for one, item in zip(target.elts, items, strict=True):
        bind(t, one, item, node)


def _snapshot(t: Translation, value: Value) -> Value:
    """Return a value that stays what it is when the variable that it comes from gets another one."""
    if isinstance(value, Tuple):
        return Tuple(tuple(_snapshot(t, item) for item in value.items), value.fields, value.made_by)
    return t.draft.let("item", value) if isinstance(value, Number) and t.draft.is_changing(value) else value


def _name(t: Translation, target: ast.Name, value: Value, node: ast.AST) -> None:
    frame, name = t.frame, target.id
    old = frame.names.get(name)
    is_renewed = isinstance(old, Array) and isinstance(value, Array) and not old.is_parameter
    if isinstance(old, (Array, GroupValue)) and frame.is_kernel and not is_renewed:
        what = "a parameter that is an array" if isinstance(old, Array) and old.is_parameter else "an array or the workgroup"
        raise t.mistyped(node, f"{name!r} is {what}", "use another name")
    value = _of_its_type(t, name, settled(t, value, node), node)
    if isinstance(value, Array):
        t.shared.setdefault(value.buffer, Shared(name, tuple(int(one.value) for one in value.shape)))
    if isinstance(value, Number):
        frame.types.setdefault(name, (value.type, getattr(node, "lineno", 0)))
        value = value if is_literal(value) or t.draft.is_fixed(value) else t.draft.let(name, value)
    elif isinstance(value, Tuple):
        value = _held(t, name, value)
    frame.names[name] = value


def _held(t: Translation, name: str, value: Tuple) -> Tuple:
    """Return a tuple whose numbers are computed once, here."""
    items: list[Value] = []
    for item in value.items:
        if isinstance(item, Tuple):
            items.append(_held(t, name, item))
        elif (
            isinstance(item, Number) and not is_literal(item) and (t.draft.is_changing(item) or not isinstance(item.expr, Var))
        ):
            items.append(t.draft.let(name, item))
        else:
            items.append(item)
    return Tuple(tuple(items), value.fields, value.made_by)


def _of_its_type(t: Translation, name: str, value: Value, node: ast.AST) -> Value:
    """Return a value as the type that a variable has had since its first assignment."""
    known = t.frame.types.get(name)
    if known is None or not isinstance(value, (Number, Constant)):
        return value
    scalar, line = known
    if isinstance(value, Constant):
        if isinstance(value.value, float) and scalar.kind is not Kind.FLOAT:
            raise t.mistyped(node, f"{name!r} is {scalar} since line {line}, and is given {value.value!r}", _retyped(scalar))
        number = constant_as(t, value, scalar, node)
        if not scalar.is_wide:
            return value
        t.joined((), f"assigned {name}", number)  # alone it would count as 32 bits from here on
        return number
    if value.type is scalar:
        return value
    if keeps(value, scalar) or (value.is_natural and scalar in WORDS and value.type in WORDS):
        found = cast(t, value, scalar, node)
        t.joined((), f"assigned {name}", found)
        return found
    fix = _retyped(scalar)
    if value.type.kind is Kind.FLOAT and scalar.is_whole:  # most often a sum that begins with 0
        fix = f"let it begin as a float, as 0.0 and {value.type}(...) do, {fix}"
    raise t.mistyped(node, f"{name!r} is {scalar} since line {line}, and is given {value.type}", fix)


def _retyped(scalar: ScalarType) -> str:
    return f"use another name, or convert: {scalar}(...)"


def _return(t: Translation, node: ast.Return) -> Flow:
    frame = t.frame
    if frame.is_kernel:
        if node.value is not None and not (isinstance(node.value, ast.Constant) and node.value.value is None):
            raise t.mistyped(node, "a kernel returns nothing", "store to an Out parameter")
        if not t.specialization.strides:
            t.draft.add(Return())
            return Flow(leaves=True, exits=frozenset())
        frame.returned.jump(t.draft.body)  # of this index: the invocation goes on with another
        return Flow(leaves=True, exits=frozenset({frame.returned}))
    value: Value = Host(None) if node.value is None else settled(t, t.evaluate(node.value), node)
    frame.results.append((t.draft.body, value, node))
    frame.returned.jump(t.draft.body)
    return Flow(leaves=True, exits=frozenset({frame.returned}))


def _assert(t: Translation, node: ast.Assert) -> Flow:
    if t.is_checked:
        check_assert(t, node)
    return FALLS


def _nothing(t: Translation, node: ast.stmt) -> Flow:
    del t, node
    return FALLS


_HANDLERS: dict[type[ast.stmt], Handler] = {
    ast.Pass: _nothing,
    ast.Expr: _expression,
    ast.Assign: _assign,
    ast.AnnAssign: _annotated,
    ast.AugAssign: _augmented,
    ast.Return: _return,
    ast.Assert: _assert,
    ast.For: for_statement,
    ast.While: while_statement,
    ast.Break: break_statement,
    ast.Continue: continue_statement,
}
