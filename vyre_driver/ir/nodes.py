"""The nodes of a program, one class for each statement.

Source: spec item 1.5, one class a variant, fields in wire order. Here are indirect dispatch, copies, traps, collectives and
what extensions define; the others are in :mod:`vyre_driver.ir.statements`. All can be imported from here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vyre_driver.ir.layout import BUFFER, EXPRESSION, TRANSFER, TRAP, U32, Step, member, number, payload, text
from vyre_driver.ir.operators import WORLD, CollectiveOp
from vyre_driver.ir.statements import (
    Assign,
    Barrier,
    Block,
    If,
    Let,
    Loop,
    Node,
    Region,
    Return,
    Store,
)

if TYPE_CHECKING:
    from vyre_driver.ir.expressions import Expr

__all__ = [
    "AllGather",
    "AllReduce",
    "Assign",
    "AsyncLoad",
    "AsyncStore",
    "AsyncWait",
    "Barrier",
    "Block",
    "Broadcast",
    "If",
    "IndirectDispatch",
    "Let",
    "Loop",
    "Node",
    "OpaqueNode",
    "ReduceScatter",
    "Region",
    "Resume",
    "Return",
    "Store",
    "Trap",
    "op_id",
]

_COLLECTIVE = member(CollectiveOp, "a collective operator")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class IndirectDispatch(Node):
    """Dispatch as many workgroups as stand at byte ``count_offset`` (u64) of a buffer."""

    wire_tag = 8
    op_id = "vyre.node.indirect_dispatch"
    _layout = (BUFFER, number(Step.U64))
    count_buffer: str
    count_offset: int


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class _AsyncCopy(Node):
    """A copy, done when the wait for ``tag`` returns; ``offset`` and ``size`` are u32 bytes."""

    _layout = (BUFFER, BUFFER, EXPRESSION, EXPRESSION, TRANSFER)
    source: str
    destination: str
    offset: Expr
    size: Expr
    tag: str


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class AsyncLoad(_AsyncCopy):
    """Start a copy towards the invocations."""

    wire_tag = 9
    op_id = "vyre.node.async_load"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class AsyncStore(_AsyncCopy):
    """Start a copy away from the invocations."""

    wire_tag = 12
    op_id = "vyre.node.async_store"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class AsyncWait(Node):
    """Wait for the copies with this tag."""

    wire_tag = 10
    op_id = "vyre.node.async_wait"
    _layout = (TRANSFER,)
    tag: str


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Trap(Node):
    """Stop with an error that reports ``address`` and ``tag``."""

    wire_tag = 13
    op_id = "vyre.node.trap"
    _layout = (EXPRESSION, TRAP)
    address: Expr
    tag: str


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Resume(Node):
    """Go on after the trap with this tag."""

    wire_tag = 14
    op_id = "vyre.node.resume"
    _layout = (TRAP,)
    tag: str


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class AllReduce(Node):
    """Combine a buffer over the devices of ``group`` (u32), in place."""

    wire_tag = 15
    op_id = "vyre.node.all_reduce"
    _layout = (BUFFER, _COLLECTIVE, U32)
    buffer: str
    op: CollectiveOp
    group: int = WORLD


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class AllGather(Node):
    """Give every device of ``group`` the ``input`` of all of them in ``output``."""

    wire_tag = 16
    op_id = "vyre.node.all_gather"
    _layout = (BUFFER, BUFFER, U32)
    input: str
    output: str
    group: int = WORLD


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ReduceScatter(Node):
    """Combine ``input`` over the devices of ``group``, and leave each its share in ``output``."""

    wire_tag = 17
    op_id = "vyre.node.reduce_scatter"
    _layout = (BUFFER, BUFFER, _COLLECTIVE, U32)
    input: str
    output: str
    op: CollectiveOp
    group: int = WORLD


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Broadcast(Node):
    """Give every device of ``group`` the buffer of device ``root`` (u32)."""

    wire_tag = 18
    op_id = "vyre.node.broadcast"
    _layout = (BUFFER, U32, U32)
    buffer: str
    root: int
    group: int = WORLD


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class OpaqueNode(Node):
    """A node that an extension defines; its op id is its ``kind``."""

    wire_tag = 0x80
    op_id = ""
    _layout = (text("a node's kind"), payload("the payload of an opaque node"))
    kind: str
    payload: bytes


def op_id(node: Node) -> str:
    """Return the id of the operation a node is."""
    return node.kind if isinstance(node, OpaqueNode) else node.op_id
