"""The expressions and the statements of a kernel: what handles each kind of node, and what is refused."""

from __future__ import annotations

import ast
import functools
from typing import TYPE_CHECKING, Any

from vyre_driver.ir.arithmetic import Var
from vyre_driver.ir.nodes import Return
from vyre_driver.lang.frontend.arithmetic import SIGNS, binary, both, compare, unary
from vyre_driver.lang.frontend.branches import conditional, guarded, if_statement, settled, short_circuit
from vyre_driver.lang.frontend.calls import call, spread
from vyre_driver.lang.frontend.checking import check_assert
from vyre_driver.lang.frontend.conversions import annotated_as, cast, constant_as, keeps
from vyre_driver.lang.frontend.draft import FALLS, Flow, evaluated
from vyre_driver.lang.frontend.loops import break_statement, continue_statement, for_statement, while_statement
from vyre_driver.lang.frontend.memory import load, store
from vyre_driver.lang.frontend.names import attribute, name
from vyre_driver.lang.frontend.translation import Shared
from vyre_driver.lang.frontend.values import (
    Array,
    Constant,
    GroupValue,
    Host,
    Number,
    Tuple,
    check_as_tuple,
    is_literal,
    kind_name,
)
from vyre_driver.lang.types import COMPUTED, WORDS, Kind, ScalarType

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vyre_driver.errors import KernelSyntaxError
    from vyre_driver.lang.frontend.translation import Translation
    from vyre_driver.lang.frontend.values import Value

    Handler = Callable[[Translation, Any], Flow]

_REFUSED = {
    "List": ("List", "use a tuple, or g.shared / local for memory"),
    "Dict": ("Dict", "use a tuple"),
    "Set": ("Set", "use a tuple"),
    "ListComp": ("a list comprehension", "write a loop"),
    "SetComp": ("a set comprehension", "write a loop"),
    "DictComp": ("a dict comprehension", "write a loop"),
    "GeneratorExp": ("a generator expression", "write a loop"),
    "JoinedStr": ("an f-string", "there are no strings on the device"),
    "Lambda": ("lambda", "define a function outside"),
    "Yield": ("yield", "store to an array"),
    "YieldFrom": ("yield from", "store to an array"),
    "Await": ("await", "kernels are not coroutines"),
    "Starred": ("a starred name", "write the arguments out"),
    "NamedExpr": ("':='", "assign in a statement of its own"),
    "Slice": ("a slice", "loop over the indices"),
    "Try": ("try", "check before instead of catching"),
    "TryStar": ("try", "check before instead of catching"),
    "With": ("with", "kernels have no context managers"),
    "AsyncWith": ("async with", "kernels have no context managers"),
    "AsyncFor": ("async for", "kernels are not coroutines"),
    "Raise": ("raise", "use assert, which is tested with VYRE_INTERPRET=1"),
    "Import": ("import", "import at the top of the module"),
    "ImportFrom": ("import", "import at the top of the module"),
    "FunctionDef": ("def", "define the function outside of the kernel"),
    "AsyncFunctionDef": ("async def", "define the function outside of the kernel"),
    "ClassDef": ("class", "define the class outside of the kernel"),
    "Delete": ("del", "leave it out"),
    "Global": ("global", "pass it as a parameter, or store to an array"),
    "Nonlocal": ("nonlocal", "pass it as a parameter, or store to an array"),
    "Match": ("match", "use if and elif"),
    "TypeAlias": ("type", "write it another way"),
}


def _refuse(t: Translation, node: ast.expr | ast.stmt) -> KernelSyntaxError:
    """Return the error of an expression or a statement that is not part of the language."""
    kind = type(node).__name__
    word, fix = _REFUSED.get(kind, (kind, "write it another way"))
    return t.unknown(node, f"{word} is not part of the kernel language", fix)


def _sign_of(t: Translation, node: ast.BinOp | ast.AugAssign) -> str:
    """Return the sign of an operator."""
    sign = SIGNS.get(type(node.op))
    if sign is None:
        raise t.unknown(node, "the operator @ is for matrices of the host", "write the loop, or use vyre_driver.kernels.matmul")
    return sign


def evaluate(t: Translation, node: ast.expr) -> Value:
    """Return what an expression stands for."""
    handler = _EXPRESSIONS.get(type(node))
    if handler is None:
        raise _refuse(t, node)
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
        raise _refuse(t, node)
    in_order(t, [one.value for one in node.values if isinstance(one, ast.FormattedValue)])
    return Host("")


def _binary(t: Translation, node: ast.BinOp) -> Value:
    sign = _sign_of(t, node)
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


_EXPRESSIONS: dict[type[ast.expr], Callable[[Translation, Any], Value]] = {
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
    handler = _STATEMENTS.get(type(statement))
    if handler is None:
        raise _refuse(t, statement)
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


def _annotated_assignment(t: Translation, node: ast.AnnAssign) -> Flow:
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
    sign = _sign_of(t, node)
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
        _assign_name(t, target, value, node)
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
        return value.of(_snapshot(t, item) for item in value.items)
    return t.draft.let("item", value) if isinstance(value, Number) and t.draft.is_changing(value) else value


def _assign_name(t: Translation, target: ast.Name, value: Value, node: ast.AST) -> None:
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

    def held(item: Value) -> Value:
        if isinstance(item, Tuple):
            return _held(t, name, item)
        if not isinstance(item, Number) or is_literal(item):
            return item
        return t.draft.let(name, item) if t.draft.is_changing(item) or not isinstance(item.expr, Var) else item

    return value.of(map(held, value.items))


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


_STATEMENTS: dict[type[ast.stmt], Handler] = {
    ast.Pass: _nothing,
    ast.Expr: _expression,
    ast.Assign: _assign,
    ast.AnnAssign: _annotated_assignment,
    ast.AugAssign: _augmented,
    ast.Return: _return,
    ast.Assert: _assert,
    ast.For: for_statement,
    ast.While: while_statement,
    ast.Break: break_statement,
    ast.Continue: continue_statement,
}
