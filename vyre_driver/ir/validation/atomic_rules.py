"""The rules about an atomic by itself: its operator, its order, and the buffer that it changes.

Source: spec item 1.8 (V009 to V042).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from vyre_driver.ir.buffers import BufferAccess
from vyre_driver.ir.dtypes import BYTES, DataType
from vyre_driver.ir.operators import AtomicOp, MemoryOrdering
from vyre_driver.ir.validation.rules import Rule, quoted, spelled

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vyre_driver.ir.buffers import BufferDecl
    from vyre_driver.ir.expressions import Atomic

_ANYWHERE = frozenset({*AtomicOp})
_OF_FLOATS = frozenset(
    {AtomicOp.ADD, AtomicOp.MIN, AtomicOp.MAX, AtomicOp.EXCHANGE, AtomicOp.COMPARE_EXCHANGE, AtomicOp.COMPARE_EXCHANGE_WEAK}
)
ATOMICS_OF = {
    DataType.U32.wire_tag: _ANYWHERE,
    DataType.I32.wire_tag: _ANYWHERE - {AtomicOp.LRU_UPDATE},
    DataType.F32.wire_tag: _OF_FLOATS,
}
"""The operators that elements of a type have, by its wire tag."""

_UPSTREAM = "upstream's validator refuses"
_EXPECTING = frozenset({AtomicOp.COMPARE_EXCHANGE, AtomicOp.COMPARE_EXCHANGE_WEAK})


class AtomicProblem(NamedTuple):
    """What a rule refuses about an atomic, or warns of."""

    rule: Rule
    message: str
    fix: str
    is_warning: bool = False


def atomic_problems(term: Atomic, buffer: BufferDecl | None) -> Iterator[AtomicProblem]:
    """Yield what is wrong with an atomic on a buffer, None where that is not known, apart from the types of its operands."""
    if isinstance(term.op, AtomicOp) and (term.op in _EXPECTING) != (term.expected is not None):
        text = f"{term.op.name} {'has no' if term.expected is None else 'has an'} expected value"
        yield AtomicProblem(Rule.ATOMIC_OPERAND, text, "give one to the compare-exchanges, and to no other")
    if term.ordering is MemoryOrdering.GRID_SYNC:
        text = "an atomic cannot be ordered GRID_SYNC"
        yield AtomicProblem(Rule.ATOMIC_ORDERING, text, "use RELAXED, ACQUIRE, RELEASE, ACQ_REL or SEQ_CST")
    if buffer is not None:
        yield from _buffer_problems(term, buffer)


def _buffer_problems(term: Atomic, buffer: BufferDecl) -> Iterator[AtomicProblem]:
    name = quoted(buffer.name)
    if buffer.is_local:
        text = f"{name} is memory of an invocation's own, which no other one changes"
        yield AtomicProblem(Rule.LOCAL, text, "load and store it, or use workgroup memory")
    elif buffer.access is BufferAccess.WORKGROUP:
        text = f"{name} is workgroup memory, on which {_UPSTREAM} atomics"
        yield AtomicProblem(
            Rule.ATOMIC_WORKGROUP, text, "use a read-write buffer, if the program is for others too", is_warning=True
        )
    elif buffer.access is not BufferAccess.READ_WRITE:
        text = f"{name} is {buffer.access.name}, and an atomic wants READ_WRITE"
        yield AtomicProblem(Rule.ATOMIC_ACCESS, text, "declare it read-write")
    element = buffer.element
    if element.wire_tag == BYTES:
        text = f"{name} holds bytes, which have no atomics"
        yield AtomicProblem(Rule.BYTES_ELEMENT, text, "use a buffer of u32")
    elif element.wire_tag not in ATOMICS_OF:
        text = f"{name} holds {spelled(element)}, and atomics work on u32, i32 and f32"
        yield AtomicProblem(Rule.ATOMIC_ELEMENT, text, "use a buffer of one of them")
    elif isinstance(term.op, AtomicOp) and term.op not in ATOMICS_OF[element.wire_tag]:
        takers = [str(one) for one in (DataType.U32, DataType.I32) if term.op in ATOMICS_OF[one.wire_tag]]
        text = f"{name} holds {element}, and {term.op.name} works on {' and '.join(takers)}"
        yield AtomicProblem(Rule.ATOMIC_ELEMENT, text, f"use a buffer of {takers[0]}")
    elif element != DataType.U32:
        text = f"{name} holds {element}, on which {_UPSTREAM} atomics"
        yield AtomicProblem(Rule.ATOMIC_ELEMENT, text, "use a buffer of u32, if the program is for others too", is_warning=True)
