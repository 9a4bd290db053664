"""The size of a program, and the capabilities that it uses.

Source: spec item 1.4 (stats); the list of capabilities is ours.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.expressions import (
    SUBGROUP_EXPRESSIONS,
    Atomic,
    Call,
    Cast,
    InvocationId,
    LocalId,
    OpaqueExpr,
    WorkgroupId,
)
from vyre_driver.ir.nodes import (
    COLLECTIVES,
    AsyncLoad,
    AsyncStore,
    AsyncWait,
    Barrier,
    IndirectDispatch,
    OpaqueNode,
    Resume,
    Trap,
)
from vyre_driver.ir.operators import MemoryOrdering
from vyre_driver.ir.terms import terms_within

if TYPE_CHECKING:
    from vyre_driver.ir.buffers import BufferDecl
    from vyre_driver.ir.nodes import Node
    from vyre_driver.ir.terms import Term


class ProgramCapability(enum.Flag):
    """The capabilities that a program uses beyond loads, stores and arithmetic."""

    NONE = 0
    SUBGROUP = enum.auto()
    F16 = enum.auto()
    BF16 = enum.auto()
    F64 = enum.auto()
    INT64 = enum.auto()
    ATOMICS = enum.auto()
    BARRIER = enum.auto()
    GRID_SYNC = enum.auto()
    WORKGROUP_MEMORY = enum.auto()
    INDIRECT_DISPATCH = enum.auto()
    ASYNC_COPY = enum.auto()
    TRAP = enum.auto()
    COLLECTIVES = enum.auto()
    CALLS = enum.auto()
    EXTENSIONS = enum.auto()
    GRID_AXES = enum.auto()
    """Looks at y or z of an index in the grid or in a workgroup."""


_OF_TERM: dict[type[Term], ProgramCapability] = {
    **dict.fromkeys(SUBGROUP_EXPRESSIONS, ProgramCapability.SUBGROUP),
    **dict.fromkeys(COLLECTIVES, ProgramCapability.COLLECTIVES),
    **dict.fromkeys((AsyncLoad, AsyncStore, AsyncWait), ProgramCapability.ASYNC_COPY),
    **dict.fromkeys((Trap, Resume), ProgramCapability.TRAP),
    Atomic: ProgramCapability.ATOMICS,
    Barrier: ProgramCapability.BARRIER,
    IndirectDispatch: ProgramCapability.INDIRECT_DISPATCH,
    Call: ProgramCapability.CALLS,
    OpaqueNode: ProgramCapability.EXTENSIONS,
}
_INDICES = (InvocationId, WorkgroupId, LocalId)
_OF_TYPE = {
    DataType.F16: ProgramCapability.F16,
    DataType.BF16: ProgramCapability.BF16,
    DataType.F64: ProgramCapability.F64,
    DataType.U64: ProgramCapability.INT64,
    DataType.I64: ProgramCapability.INT64,
}


@dataclass(frozen=True, slots=True)
class ProgramStats:
    """The size of a program, shared parts counted as often as they stand in it, and what it makes use of."""

    node_count: int
    expression_count: int
    nesting: int
    expression_depth: int
    buffer_count: int
    capabilities: ProgramCapability


def measure(buffers: tuple[BufferDecl, ...], entry: tuple[Node, ...]) -> ProgramStats:
    """Return the stats of a program of these buffers and nodes."""
    nodes = sum(node.node_count for node in entry)
    return ProgramStats(
        node_count=nodes,
        expression_count=sum(node.term_count for node in entry) - nodes,
        nesting=max((node.nesting for node in entry), default=0),
        expression_depth=max((node.expression_depth for node in entry), default=0),
        buffer_count=len(buffers),
        capabilities=_capabilities(buffers, entry),
    )


def _capabilities(buffers: tuple[BufferDecl, ...], entry: tuple[Node, ...]) -> ProgramCapability:
    found = ProgramCapability.NONE
    for buffer in buffers:
        found |= _OF_TYPE.get(buffer.element, ProgramCapability.NONE)
        if buffer.is_shared:
            found |= ProgramCapability.WORKGROUP_MEMORY
    for term in terms_within(*entry):
        found |= _OF_TERM.get(type(term), ProgramCapability.NONE)
        if isinstance(term, Cast):
            found |= _OF_TYPE.get(term.target, ProgramCapability.NONE)
        elif isinstance(term, Barrier) and term.ordering is MemoryOrdering.GRID_SYNC:
            found |= ProgramCapability.GRID_SYNC
        elif isinstance(term, _INDICES) and term.axis:
            found |= ProgramCapability.GRID_AXES
        elif isinstance(term, OpaqueExpr):
            found |= ProgramCapability.EXTENSIONS if term.dtype is None else _OF_TYPE[term.dtype]
    return found
