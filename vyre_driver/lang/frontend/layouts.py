"""Arrays of several axes against their buffers: what lets lowering leave out the check of each element."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_driver.checks import U32_MAX
from vyre_driver.ir.arithmetic import Binary, LitU32
from vyre_driver.ir.expressions import BufLen
from vyre_driver.ir.operators import BinOp
from vyre_driver.lang.frontend.conversions import typed
from vyre_driver.lang.frontend.memory import WORTH_IT

if TYPE_CHECKING:
    from vyre_driver.ir.expressions import Expr
    from vyre_driver.lang.frontend.translation import Translation
    from vyre_driver.lang.frontend.values import Array


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
