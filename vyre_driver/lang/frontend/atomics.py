"""Atomics: operations on an element that other invocations may change at the same time; each gives what was there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_driver.ir.arithmetic import LitU32
from vyre_driver.ir.expressions import Atomic
from vyre_driver.ir.operators import AtomicOp, MemoryOrdering
from vyre_driver.lang.frontend import intrinsics
from vyre_driver.lang.frontend.conversions import bit_cast
from vyre_driver.lang.frontend.memory import place, stored
from vyre_driver.lang.frontend.values import Array, Number, kind_name
from vyre_driver.lang.types import f32, i32, u32

if TYPE_CHECKING:
    import ast
    from collections.abc import Sequence

    from vyre_driver.ir.arithmetic import Expr
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
_ELEMENTS = frozenset({u32, i32, f32})
_OF_BITS = frozenset({AtomicOp.AND, AtomicOp.OR, AtomicOp.XOR})


def atomic(t: Translation, function: object, given: Sequence[Value], node: ast.Call) -> Value:
    """Return what was there before an operation on an element: ``atomic_add(array, index, value)`` and its like."""
    array = _array(t, function, given, node)
    op = ATOMICS[function]
    t.count_apart(array)
    at = place(t, array, given[1], node.args[1])
    values = [_bits(stored(t, array, one, argument)) for one, argument in zip(given[2:], node.args[2:], strict=True)]
    if not values and array.element is f32:  # which has no OR: nothing is put in the place of nothing
        op, values = AtomicOp.COMPARE_EXCHANGE, [LitU32(0), LitU32(0)]
    value = values[-1] if values else LitU32(0)
    expected = values[0] if op is AtomicOp.COMPARE_EXCHANGE else None
    made = Atomic(op, MemoryOrdering.RELAXED, array.buffer, at, expected, value)
    t.accessed(made, array, node)
    found = t.draft.let("before", Number(u32, made, *u32.bounds))
    if array.element is f32:
        return Number(f32, bit_cast(found.expr, "f32"))
    return Number(array.element, found.expr, *array.element.bounds)


def _bits(number: Number) -> Expr:
    return bit_cast(number.expr, "u32") if number.type is f32 else number.expr


def _array(t: Translation, function: object, given: Sequence[Value], node: ast.Call) -> Array:
    """Return the array of an atomic, which was given what it takes and has elements that it changes."""
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
    if array.is_local:
        raise t.mistyped(
            node,
            f"{array.name!r} is an array of the invocation's own, which no other one changes",
            f"load and store it: {array.name}[k] += 1",
        )
    if not (array.access.reads and array.access.writes):
        raise t.mistyped(
            node,
            f"{array.name!r} is {array.access.value}, and an atomic reads and writes",
            f"declare it InOut[{array.element}]",
        )
    if array.element not in _ELEMENTS or (array.element is f32 and ATOMICS[function] in _OF_BITS and wanted > _WITHOUT_VALUE):
        takes = "u32 and i32" if array.element is f32 else "u32, i32 and f32"
        who = name if array.element is f32 else "atomics"
        raise t.mistyped(
            node,
            f"{array.name!r} holds {array.element}, and {who} work{'s' * (who == name)} on {takes}",
            f"use an array of {'u32' if array.element.is_whole or array.element is f32 else 'f32'}, or reduce in shared memory",
        )
    return array
