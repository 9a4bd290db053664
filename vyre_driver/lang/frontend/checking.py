"""What a checked program says of itself while it runs: an index that is out of range, an ``assert`` that fails.

A check is an ``if`` before the statement that it is for. So what an access stands in becomes branches too, and nothing is
checked that Python would not have run: ``x[i + 1] if i + 1 < n else 0.0`` is right for each ``i``.
"""

from __future__ import annotations

import ast
import enum
from typing import TYPE_CHECKING, NamedTuple

from vyre_driver.ir.arithmetic import Binary, LitU32, Unary
from vyre_driver.ir.expressions import Atomic, InvocationId
from vyre_driver.ir.nodes import Trap
from vyre_driver.ir.operators import AtomicOp, BinOp, MemoryOrdering, UnOp
from vyre_driver.lang.frontend.arithmetic import condition
from vyre_driver.lang.frontend.values import Constant, Number
from vyre_driver.lang.types import u32

if TYPE_CHECKING:
    from vyre_driver.ir.expressions import Expr
    from vyre_driver.lang.frontend.draft import Place
    from vyre_driver.lang.frontend.translation import Translation
    from vyre_driver.lang.frontend.values import Array


class FaultWord(enum.IntEnum):
    """The words of the buffer in which a program keeps what its checks found."""

    CHECK = 0
    """The number of the first check that failed, and 1; 0 where none did."""
    COUNT = 1
    VALUE = 2
    INVOCATION = 3
    """Where its three words begin: x, y, z."""


FAULT_WORDS = 6


class Check(NamedTuple):
    """What is checked at a place: an index along an axis of an array, or an assert, of which ``array`` is empty.

    ``shape`` is that of memory that a workgroup shares, empty of a parameter. ``text`` is the index as it is written, or what
    is asserted; ``message`` is the assert's own.
    """

    place: Place
    text: str
    array: str = ""
    axis: int = 0
    shape: tuple[int, ...] = ()
    is_signed: bool = False
    message: str = ""


def check_index(t: Translation, array: Array, axis: int, index: Number, count: Number, node: ast.expr) -> None:  # noqa: PLR0913 -- an index of an array
    """Have the program check that an index is below the elements along its axis."""
    items = node.elts if isinstance(node, ast.Tuple) else [node]
    shape = tuple(int(one.value) for one in array.shape)
    text = ast.unparse(items[axis] if axis < len(items) else node)
    shared = t.shared.get(array.buffer)
    check = Check(t.place(node), text, array.name if shared is None else shared.name, axis, shape, index.type.bounds[0] < 0)
    _add(t, check, Unary(UnOp.LOGICAL_NOT, Binary(BinOp.LT, index.expr, count.expr)), index.expr)


def check_assert(t: Translation, node: ast.Assert) -> None:
    """Have the program check what is asserted."""
    test = condition(t, t.evaluate(node.test), node.test)
    message = node.msg
    said = "" if message is None else str(message.value) if isinstance(message, ast.Constant) else ast.unparse(message)
    check = Check(t.place(node), ast.unparse(node.test), message=said)
    if isinstance(test, Constant):
        if not test.value:
            raise t.unknown(node, f"{check.text} is never true{said and f': {said}'}", "leave the assert out")
        return
    _add(t, check, Unary(UnOp.LOGICAL_NOT, test.expr), LitU32(0))


def _add(t: Translation, check: Check, fails: Expr, value: Expr) -> None:
    number = len(t.checks)
    t.checks.append(check)
    with t.draft.side() as body:
        if t.specialization.mode == "trap":
            t.draft.add(Trap(value, str(number)))
        else:
            _record(t, number, value)
    t.draft.add_if(fails, body, [])


def _record(t: Translation, number: int, value: Expr) -> None:
    """Have the program count a failed check, and keep what there is to say of the first."""
    if not t.faults:
        t.faults = t.draft.fresh("faults")
    _atomic(t, AtomicOp.ADD, FaultWord.COUNT, LitU32(1))
    first = _atomic(t, AtomicOp.COMPARE_EXCHANGE, FaultWord.CHECK, LitU32(number + 1), LitU32(0))
    with t.draft.side() as body:
        said = [(FaultWord.VALUE, value), *((FaultWord.INVOCATION + axis, InvocationId(axis)) for axis in range(3))]
        for word, what in said:
            _atomic(t, AtomicOp.EXCHANGE, word, what)
    t.draft.add_if(Binary(BinOp.EQ, first, LitU32(0)), body, [])


def _atomic(t: Translation, op: AtomicOp, word: int, value: Expr, expected: Expr | None = None) -> Expr:
    made = Atomic(op, MemoryOrdering.RELAXED, t.faults, LitU32(word), expected, value)
    return t.draft.let("fault", Number(u32, made, *u32.bounds)).expr
