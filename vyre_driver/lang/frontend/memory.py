"""Arrays and workgroups in kernels: shapes, elements that are loaded and stored, memory of a workgroup or an invocation.

Each index is held against its own axis: one that is out of range gives zero, or stores nothing, also where the flat place would
be inside of the array. No check is made where the index is certainly in range.
"""

from __future__ import annotations

import ast
import math
from typing import TYPE_CHECKING

from vyre_driver.checks import U32_MAX
from vyre_driver.ir.arithmetic import Binary, LitU32, Var
from vyre_driver.ir.buffers import MAX_LOCAL_BYTES, BufferDecl
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.expressions import BufLen, Cast, InvocationId, Load, LocalId, Select, WorkgroupId
from vyre_driver.ir.nodes import Barrier, Store
from vyre_driver.ir.operators import BinOp
from vyre_driver.lang.frontend.arithmetic import binary
from vyre_driver.lang.frontend.checking import check_index
from vyre_driver.lang.frontend.conversions import cast, constant_as, from_memory, keeps, to_memory, typed
from vyre_driver.lang.frontend.translation import MAX_EXTENT
from vyre_driver.lang.frontend.values import (
    Array,
    Constant,
    GroupValue,
    Host,
    Method,
    Number,
    Tuple,
    check_as_tuple,
    computed_type,
    kind_name,
    zero,
)
from vyre_driver.lang.frontend.wide import as_index
from vyre_driver.lang.types import COMPUTED, Kind, ScalarType, f32, i32, u32

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vyre_driver.ir.expressions import Expr
    from vyre_driver.lang.frontend.translation import Translation
    from vyre_driver.lang.frontend.values import Value

_AXES = "ijkl"
WORTH_IT = 3
"""As many accesses of arrays of one shape, or one in a loop, are worth a test of the shape."""


def shape_of(t: Translation, array: Array, node: ast.AST) -> Tuple:
    """Return the elements along each axis."""
    return Tuple(tuple(t.axis(array, axis) for axis in range(t.rank(array, node))))


def size_of(t: Translation, array: Array, node: ast.AST) -> Value:
    """Return the number of elements."""
    total: Value = Constant(1)
    for count in shape_of(t, array, node).items:
        total = binary(t, "*", total, count, node)
    return total


def place(t: Translation, array: Array, given: Value, node: ast.expr) -> Expr:
    """Return the flat place of an element in its buffer: beyond every buffer where an index is out of range."""
    check_as_tuple(t, given, "__iter__", f"an index of {array.name!r}", node)
    items = given.items if isinstance(given, Tuple) else (given,)
    rank = t.rank(array, node, used=len(items))
    if len(items) != rank:
        axes = f"{rank} dimension{'s' * (rank > 1)}"
        raise t.mistyped(
            node,
            f"{array.name!r} has {axes}, and is given {len(items)} {'index' if len(items) == 1 else 'indices'}",
            f"write {array.name}[{', '.join(_AXES[:rank])}]",
        )
    if array.is_parameter and rank > 1:
        t.laid_out.setdefault(array.name, []).append(array)
        if any(frame.loops for frame in t.frames):
            t.laid_out[array.name] += [array] * WORTH_IT
    flat: Number | None = None
    outside: Expr | None = None
    for axis, item in enumerate(items):
        index, is_inside = _index(t, array, axis, item, node.slice if isinstance(node, ast.Subscript) else node)
        count = typed(t, t.axis(array, axis), node)
        flat = index if flat is None else _next(flat, count, index)
        if is_inside is not None:
            outside = is_inside if outside is None else Binary(BinOp.AND, outside, is_inside)
    assert flat is not None  # noqa: S101 -- an array has an axis
    return flat.expr if outside is None else Select(outside, flat.expr, LitU32(U32_MAX))


def _next(flat: Number, count: Number, index: Number) -> Number:
    """Return the place of an element by its last index and the place of its row; as u32, which any buffer fits."""
    row = Binary(BinOp.MUL, flat.expr, count.expr)
    return Number(u32, row if index.low == index.high == 0 else Binary(BinOp.ADD, row, index.expr), *u32.bounds)


def _index(t: Translation, array: Array, axis: int, item: Value, node: ast.expr) -> tuple[Number, Expr | None]:
    """Return an index, and the condition that it is in range; None where it certainly is, or where one axis is all."""
    if isinstance(item, Constant) and isinstance(item.value, int) and item.value < 0:
        raise t.mistyped(
            node,
            f"the index {item.value} counts from the end in Python, and is out of range here",
            f"write {array.name}[len({array.name}) - {-item.value}]",
        )
    index = typed(t, item, node)
    if not index.type.is_whole:
        raise t.mistyped(node, f"an index of {array.name!r} is {index.type}", "convert it with i32(...)")
    index = t.draft.facts.refined(t.draft.shallow(index))
    if index.type.is_wide:
        index = as_index(t.draft.hold(index, "at"))
    count = typed(t, t.axis(array, axis), node)
    if _is_extent(t, array, axis, index) or (t.rank(array, node) == 1 and not t.is_checked):
        return index, None  # a program checks flat places itself
    if index.low >= 0 and t.draft.facts.is_below(index, _as(count, index.type)):
        return index, None
    if array.is_parameter:
        t.last_places[array.name, axis] = max(index.high, t.last_places.get((array.name, axis), 0))
    held = t.draft.hold(index, "at")
    t.open_axes.setdefault(node, set()).add(axis)
    if t.is_checked:
        check_index(t, array, axis, held, count, node)
        if t.rank(array, node) == 1:
            return held, None
    return held, Binary(BinOp.LT, held.expr, count.expr)  # the bits of a negative index are beyond every axis


def _as(count: Number, scalar: ScalarType) -> Number:
    return Number(scalar, count.expr, count.low, count.high)


def _is_extent(t: Translation, array: Array, axis: int, index: Number) -> bool:
    """Whether an index is one of the kernel's own: its extent is that of the axis then, which each call checks."""
    expr = index.expr
    if not isinstance(expr, InvocationId) or not array.is_parameter:
        return False
    uses = (t.extents or t.covered)[expr.axis]
    if (array.name, axis) not in uses:
        t.share_extent(array.name, axis, uses)
        uses.append((array.name, axis))
    return bool(t.extents)


def load(t: Translation, array: Array, node: ast.Subscript, at: Value | None = None) -> Number:
    """Return an element; ``at`` is the index where that has been evaluated."""
    if not array.access.reads:
        raise t.mistyped(node, f"{array.name!r} is Out: nothing may be read from it", f"declare it InOut[{array.element}]")
    element = array.element
    index = t.evaluate(node.slice) if at is None else at
    found = Load(array.buffer, place(t, array, index, node), element.element)
    t.accessed(found, array, node)
    if element is i32:
        return Number(i32, Cast(DataType.U32, found), *i32.bounds)
    if element in COMPUTED:
        return Number(element, found, *(element.bounds if element.is_whole else (0, 0)))
    if element.kind is Kind.FLOAT:
        return Number(f32, from_memory(element, found))
    return Number(i32, Cast(DataType.U32, found), *element.bounds)


def store(  # noqa: PLR0913 -- an element, and what is written to it
    t: Translation, array: Array, node: ast.Subscript, value: Value, statement: ast.AST, at: Value | None = None
) -> None:
    """Write an element; ``at`` is the index where that has been evaluated."""
    if not array.access.writes:
        raise t.mistyped(node, f"{array.name!r} is In: it is only read", f"declare it InOut[{array.element}]")
    number = stored(t, array, value, statement)
    index = t.evaluate(node.slice) if at is None else at
    made = Store(array.buffer, place(t, array, index, node), _as_element(array.element, number))
    t.accessed(made, array, node)
    t.draft.add(made)


def stored(t: Translation, array: Array, value: Value, node: ast.AST) -> Number:
    """Return a value as what an array is given: constants take its type, and numbers where it holds their value."""
    element = array.element
    if isinstance(value, Constant):
        if element.is_whole and isinstance(value.value, float):
            given = f"the float {value.value!r}"
            raise t.mistyped(node, f"{array.name!r} holds {element}, and is given {given}", f"convert: {element}(...)")
        if element not in COMPUTED and element.is_whole:
            return cast(t, value, element, node)
        return constant_as(t, value, computed_type(element), node)
    if not isinstance(value, Number):
        raise t.mistyped(node, f"{array.name!r} holds {element}, and is given {kind_name(value)}", "give a number")
    number = t.draft.shallow(value)
    if keeps(number, computed_type(element)):
        return cast(t, number, computed_type(element), node)
    raise t.mistyped(node, f"{array.name!r} holds {element}, and is given {number.type}", f"convert: {element}(...)")


def _as_element(element: ScalarType, number: Number) -> Expr:
    if element is i32:
        return Cast(DataType.I32, number.expr)
    if element in COMPUTED:
        return number.expr
    return Cast(element.element, number.expr) if element.is_whole else to_memory(element, number.expr)


def shared(t: Translation, node: ast.Call, element: ScalarType, counts: tuple[int, ...]) -> Array:
    """Return memory of this shape that a workgroup shares; it starts as zeros."""
    name = _assigned_name(t, node) or "shared"
    buffer = t.draft.fresh(name)
    t.draft.buffers.append(BufferDecl.workgroup(buffer, math.prod(counts), element.element))
    shape = tuple(Constant(count) for count in counts)
    return Array(name, buffer, element, shape, is_parameter=False)


def _assigned_name(t: Translation, call: ast.Call) -> str | None:
    """Return the variable that what is called for is assigned to; None if it is used in another way."""
    statement = t.draft.place.node if t.draft.place is not None else None
    if isinstance(statement, ast.Assign):
        value = statement.value
        for target in statement.targets:
            are_tuples = isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple)
            pairs = zip(target.elts, value.elts, strict=False) if are_tuples else ((target, value),)  # type: ignore[attr-defined] # tuples
            for one, given in pairs:
                if given is call and isinstance(one, ast.Name):
                    return one.id
    return None


def local(t: Translation, given: Sequence[Value], node: ast.Call) -> Array:
    """Return memory of an invocation's own; it has zeros whenever this is reached."""
    element = _element_of(t, given, node, "a local array", "write local(f32, 8)")
    counts = constant_shape(t, tuple(given[1:]), node, "a local array")
    name = _assigned_name(t, node) or "local"
    declared = BufferDecl.local(t.draft.fresh(name), math.prod(counts), element.element)
    sizes = [one.count * max(one.element.min_bytes, 4) for one in (*t.draft.buffers, declared) if one.is_local]
    if sum(sizes) > MAX_LOCAL_BYTES:
        raise t.mistyped(
            node,
            f"the local arrays of an invocation take {sum(sizes)} bytes, and {MAX_LOCAL_BYTES} are the most",
            "use smaller ones, or an array that is a parameter",
        )
    t.draft.buffers.append(declared)
    if any(frame.loops for frame in t.frames):  # where it is reached again
        _clear(t, declared, element)
    return Array(name, declared.name, element, tuple(map(Constant, counts)), is_parameter=False, is_local=True)


def _clear(t: Translation, declared: BufferDecl, element: ScalarType) -> None:
    counter = t.draft.fresh("cleared")
    nothing = Number(computed_type(element), zero(computed_type(element)))
    with t.draft.side() as body:
        t.draft.add(Store(declared.name, Var(counter, DataType.U32), _as_element(element, nothing)))
    t.draft.add_loop(counter, LitU32(0), LitU32(declared.count), body)


def _element_of(t: Translation, given: Sequence[Value], node: ast.AST, what: str, fix: str) -> ScalarType:
    """Return the type that memory is asked for with, in front of its shape."""
    element = given[0].value if given and isinstance(given[0], Host) else None
    if not isinstance(element, ScalarType):
        got = kind_name(given[0]) if given else "nothing"
        raise t.mistyped(node, f"{what} has a type and a shape, and got {got}", fix)
    return element


def constant_shape(t: Translation, values: tuple[Value, ...], node: ast.AST, what: str) -> tuple[int, ...]:
    """Return a shape that is given as constants, one by one or as a tuple."""
    for value in values:
        check_as_tuple(t, value, "__iter__", f"the shape of {what}", node)
    items = [item for value in values for item in (value.items if isinstance(value, Tuple) else (value,))]
    counts = [item.value for item in items if isinstance(item, Constant) and isinstance(item.value, int)]
    if len(counts) < len(items) or not counts:
        raise t.mistyped(node, f"the shape of {what} must be constant", "use a Const parameter")
    if min(counts) < 1:
        raise t.mistyped(node, f"the shape of {what} is {tuple(counts)}", "use numbers above 0")
    return tuple(counts)


def layout_tests(t: Translation) -> list[Expr]:
    """Return the conditions that arrays of several axes have no more elements than their buffers.

    Each call proves them. They stand in the program all the same, once: it may be run with other numbers. Those that are not
    worth it are left out, and of an array that atomics are used on nothing is said, since a program may not ask for the length
    of its buffer. Where the device keeps accesses inside, nothing has to be proven.
    """
    if t.specialization.robust:
        return []
    shapes: dict[tuple[Expr, ...], list[Array]] = {}
    node = t.frame.source.node
    for uses in t.laid_out.values():
        array = uses[0]
        if array.name not in t.counted:
            counts = [typed(t, t.axis(array, axis), node).expr for axis in range(t.ranks[array.name])]
            shapes.setdefault(tuple(counts), []).extend(uses)
    tests: list[Expr] = []
    for shape, uses in shapes.items():
        if len(uses) < WORTH_IT:
            continue
        total = shape[0]
        for count in shape[1:]:
            if isinstance(total, LitU32) and isinstance(count, LitU32) and total.value * count.value <= U32_MAX:
                total = LitU32(total.value * count.value)
                continue
            tests.append(Binary(BinOp.EQ, Binary(BinOp.MUL_HIGH, total, count), LitU32(0)))
            total = Binary(BinOp.MUL, total, count)
        tests += [Binary(BinOp.LE, total, BufLen(array.buffer)) for array in uses]
    return list(dict.fromkeys(tests))


_IDS = {"local": LocalId, "id": WorkgroupId, "index": InvocationId}


def group_attribute(t: Translation, group: GroupValue, name: str, node: ast.Attribute) -> Value:
    """Return an attribute of a workgroup; of several axes a tuple, the slowest first."""
    axes = len(group.sizes)
    if name in _IDS:
        return _each(tuple(_id(name, axes - 1 - at, group.sizes[at]) for at in range(axes)))
    if name == "size":
        return _each(tuple(Constant(size) for size in group.sizes))
    if name == "groups":
        return _each(tuple(t.scalar(f"{group.name}.groups[{at}]", i32, (1, MAX_EXTENT)) for at in range(axes)))
    if name == "barrier":
        return Method(group, name, _barrier)
    if name == "shared":
        return Method(group, name, _shared)
    raise t.misspelt(
        node, f"the workgroup has no {name!r}", f"use {', '.join(f'{group.name}.{one}' for one in (*_IDS, 'size'))}"
    )


def _id(name: str, axis: int, size: int) -> Number:
    most = size - 1 if name == "local" else MAX_EXTENT
    return Number(i32, _IDS[name](axis), 0, most)


def _each(values: tuple[Value, ...]) -> Value:
    return values[0] if len(values) == 1 else Tuple(values)


def _barrier(t: Translation, given: Sequence[Value], node: ast.Call) -> Value:
    if given:
        raise t.mistyped(node, f"barrier takes no arguments, and got {len(given)}", "leave them out")
    t.draft.add(Barrier())
    return Host(None)


def _shared(t: Translation, given: Sequence[Value], node: ast.Call) -> Value:
    element = _element_of(t, given, node, "shared memory", "write g.shared(f32, 256)")
    return shared(t, node, element, constant_shape(t, tuple(given[1:]), node, "shared memory"))
