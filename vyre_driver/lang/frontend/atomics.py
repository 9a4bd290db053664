"""Atomics: operations on an element that other invocations may change at the same time; each gives what was there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_driver.ir.arithmetic import LitU32
from vyre_driver.ir.expressions import Atomic
from vyre_driver.ir.operators import AtomicOp, MemoryOrdering
from vyre_driver.lang.frontend import intrinsics
from vyre_driver.lang.frontend.memory import place, stored
from vyre_driver.lang.frontend.values import Array, Number, kind_name
from vyre_driver.lang.types import i32, u32

if TYPE_CHECKING:
    import ast
    from collections.abc import Sequence

    from vyre_driver.lang.frontend.translation import Translation
    from vyre_driver.lang.frontend.values import Value

ATOMICS: dict[object, AtomicOp] = {
    intrinsics.atomic_load: AtomicOp.OR,
    intrinsics.atomic_add: AtomicOp.ADD,
    intrinsics.atomic_min: AtomicOp.MIN,
    intrinsics.atomic_max: AtomicOp.MAX,
    intrinsics.atomic_and: AtomicOp.AND,
    intrinsics.atomic_or: AtomicOp.OR,
    intrinsics.atomic_xor: AtomicOp.XOR,
    intrinsics.atomic_exchange: AtomicOp.EXCHANGE,
    intrinsics.atomic_cas: AtomicOp.COMPARE_EXCHANGE,
}
_WITHOUT_VALUE, _WITH_EXPECTED = 2, 4


def atomic(t: Translation, function: object, given: Sequence[Value], node: ast.Call) -> Value:
    """Return what was there before an operation on an element: ``atomic_add(array, index, value)`` and its like."""
    name = getattr(function, "__name__", "an atomic")
    array = given[0] if given else None
    if not isinstance(array, Array):
        what = kind_name(array) if array is not None else "nothing"
        raise t.mistyped(node, f"{name} works on an element of an array, and got {what}", f"write {name}(counts, k, 1)")
    wanted = _WITHOUT_VALUE if function is intrinsics.atomic_load else 3 + (function is intrinsics.atomic_cas)
    if len(given) != wanted:
        more = ", expected, value" if wanted == _WITH_EXPECTED else ", value" if wanted > _WITHOUT_VALUE else ""
        raise t.mistyped(
            node, f"{name} takes {wanted} arguments, and got {len(given)}", f"write {name}({array.name}, index{more})"
        )
    if not (array.access.reads and array.access.writes):
        raise t.mistyped(
            node,
            f"{array.name!r} is {array.access.value}, and an atomic reads and writes",
            f"declare it InOut[{array.element}]",
        )
    if array.element not in {u32, i32}:
        raise t.mistyped(
            node,
            f"{array.name!r} holds {array.element}, and atomics work on u32 and i32",
            "scale to whole numbers, or reduce in shared memory",
        )
    t.count_apart(array)
    at = place(t, array, given[1], node.args[1])
    values = [stored(t, array, one, argument).expr for one, argument in zip(given[2:], node.args[2:], strict=True)]
    value = values[-1] if values else LitU32(0)
    expected = values[0] if wanted == _WITH_EXPECTED else None
    found = Atomic(ATOMICS[function], MemoryOrdering.RELAXED, array.buffer, at, expected, value)
    return t.draft.let("before", Number(array.element, found, *array.element.bounds))
