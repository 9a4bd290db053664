"""The workgroup of a ``Group`` kernel: who an invocation is, memory that is shared, and barriers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_driver.ir.expressions import InvocationId, LocalId, WorkgroupId
from vyre_driver.ir.nodes import Barrier
from vyre_driver.lang.frontend.memory import constant_shape, shared
from vyre_driver.lang.frontend.translation import MAX_EXTENT
from vyre_driver.lang.frontend.values import Constant, GroupValue, Host, Method, Number, Tuple, kind_name
from vyre_driver.lang.types import ScalarType, i32

if TYPE_CHECKING:
    import ast
    from collections.abc import Sequence

    from vyre_driver.lang.frontend.translation import Translation
    from vyre_driver.lang.frontend.values import Value

_MOST_GROUPS = 65_535  # along y and z at least; x has more on some devices
_IDS = {"local": LocalId, "id": WorkgroupId, "index": InvocationId}


def attribute(t: Translation, group: GroupValue, name: str, node: ast.Attribute) -> Value:
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
    element = given[0].value if given and isinstance(given[0], Host) else None
    if not isinstance(element, ScalarType):
        got = kind_name(given[0]) if given else "nothing"
        raise t.mistyped(node, f"shared memory has a type and a shape, and got {got}", "write g.shared(f32, 256)")
    return shared(t, node, element, constant_shape(t, tuple(given[1:]), node, "shared memory"))
