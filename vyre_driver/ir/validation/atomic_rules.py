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

_U32 = DataType.U32.wire_tag
_EXPECTING = frozenset({AtomicOp.COMPARE_EXCHANGE, AtomicOp.COMPARE_EXCHANGE_WEAK})


class AtomicProblem(NamedTuple):
    """What a rule refuses about an atomic."""

    rule: Rule
    message: str
    fix: str


def atomic_problems(term: Atomic, buffer: BufferDecl | None) -> Iterator[AtomicProblem]:
    """Yield what is wrong with an atomic on a buffer, None where that is not known, apart from the types of its operands."""
    if isinstance(term.op, AtomicOp) and (term.op in _EXPECTING) != (term.expected is not None):
        text = f"{term.op.name} {'has no' if term.expected is None else 'has an'} expected value"
        yield AtomicProblem(Rule.ATOMIC_OPERAND, text, "give one to the compare-exchanges, and to no other")
    if term.ordering is MemoryOrdering.GRID_SYNC:
        text = "an atomic cannot be ordered GRID_SYNC"
        yield AtomicProblem(Rule.ATOMIC_ORDERING, text, "use RELAXED, ACQUIRE, RELEASE, ACQ_REL or SEQ_CST")
    if buffer is not None:
        yield from _buffer_problems(buffer)


def _buffer_problems(buffer: BufferDecl) -> Iterator[AtomicProblem]:
    name = quoted(buffer.name)
    if buffer.access is BufferAccess.WORKGROUP:
        yield AtomicProblem(Rule.ATOMIC_WORKGROUP, f"{name} is workgroup memory", "use a read-write buffer")
    elif buffer.access is not BufferAccess.READ_WRITE:
        text = f"{name} is {buffer.access.name}, and an atomic wants READ_WRITE"
        yield AtomicProblem(Rule.ATOMIC_ACCESS, text, "declare it read-write")
    if buffer.element.wire_tag == BYTES:
        text = f"{name} holds bytes, which have no atomics"
        yield AtomicProblem(Rule.BYTES_ELEMENT, text, "use a buffer of u32")
    elif buffer.element.wire_tag != _U32:
        text = f"{name} holds {spelled(buffer.element)}, and atomics work on u32"
        yield AtomicProblem(Rule.ATOMIC_ELEMENT, text, "use a buffer of u32")
