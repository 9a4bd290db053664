"""The nodes of a program, one class for each statement.

Source: spec item 1.5, one class a variant, fields in wire order. Here are indirect dispatch, copies, traps, collectives and
what extensions define; the others are in :mod:`vyre_driver.ir.statements`. All can be imported from here.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from vyre_driver.checks import U64_MAX
from vyre_driver.ir.fields import encoded_text, instance
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
    name_bytes,
)

if TYPE_CHECKING:
    from vyre_driver.ir.expressions import Expr
    from vyre_driver.ir.terms import Parts

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

_U32, _U64, _TWO_U32 = struct.Struct("<I"), struct.Struct("<Q"), struct.Struct("<II")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class IndirectDispatch(Node):
    """Dispatch as many workgroups as stand at byte ``count_offset`` (u64) of a buffer."""

    wire_tag: ClassVar[int] = 8
    op_id: ClassVar[str] = "vyre.node.indirect_dispatch"
    count_buffer: str
    count_offset: int

    def __post_init__(self) -> None:
        """Refuse an offset without encoding."""
        self.take_number("count_offset", U64_MAX)
        self.seal()

    def parts(self) -> Parts:
        """Return tag, buffer and offset."""
        return (b"\x08" + name_bytes(self.count_buffer, "buffer") + _U64.pack(self.count_offset),)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class _AsyncCopy(Node):
    """A copy, done when the wait for ``tag`` returns; ``offset`` and ``size`` are u32 bytes."""

    source: str
    destination: str
    offset: Expr
    size: Expr
    tag: str

    def __post_init__(self) -> None:
        """Complete the node."""
        self.seal()

    def parts(self) -> Parts:
        """Return tag, both names, offset, size and the transfer's tag."""
        head = bytes((self.wire_tag,)) + name_bytes(self.source, "buffer") + name_bytes(self.destination, "buffer")
        return head, self.offset, self.size, name_bytes(self.tag, "transfer")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class AsyncLoad(_AsyncCopy):
    """Start a copy towards the invocations."""

    wire_tag: ClassVar[int] = 9
    op_id: ClassVar[str] = "vyre.node.async_load"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class AsyncStore(_AsyncCopy):
    """Start a copy away from the invocations."""

    wire_tag: ClassVar[int] = 12
    op_id: ClassVar[str] = "vyre.node.async_store"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class AsyncWait(Node):
    """Wait for the copies with this tag."""

    wire_tag: ClassVar[int] = 10
    op_id: ClassVar[str] = "vyre.node.async_wait"
    tag: str

    def __post_init__(self) -> None:
        """Complete the node."""
        self.seal()

    def parts(self) -> Parts:
        """Return the tags."""
        return (b"\x0a" + name_bytes(self.tag, "transfer"),)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Trap(Node):
    """Stop with an error that reports ``address`` and ``tag``."""

    wire_tag: ClassVar[int] = 13
    op_id: ClassVar[str] = "vyre.node.trap"
    address: Expr
    tag: str

    def __post_init__(self) -> None:
        """Complete the node."""
        self.seal()

    def parts(self) -> Parts:
        """Return tag, address and the trap's tag."""
        return b"\x0d", self.address, name_bytes(self.tag, "trap")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Resume(Node):
    """Go on after the trap with this tag."""

    wire_tag: ClassVar[int] = 14
    op_id: ClassVar[str] = "vyre.node.resume"
    tag: str

    def __post_init__(self) -> None:
        """Complete the node."""
        self.seal()

    def parts(self) -> Parts:
        """Return the tags."""
        return (b"\x0e" + name_bytes(self.tag, "trap"),)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class AllReduce(Node):
    """Combine a buffer over the devices of ``group`` (u32), in place."""

    wire_tag: ClassVar[int] = 15
    op_id: ClassVar[str] = "vyre.node.all_reduce"
    buffer: str
    op: CollectiveOp
    group: int = WORLD

    def __post_init__(self) -> None:
        """Refuse another operator, and a group without encoding."""
        instance(self.op, CollectiveOp, "a collective operator")
        self.take_number("group")
        self.seal()

    def parts(self) -> Parts:
        """Return tag, buffer, operator and group."""
        return (b"\x0f" + name_bytes(self.buffer, "buffer") + self.op.encoded + _U32.pack(self.group),)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class AllGather(Node):
    """Give every device of ``group`` the ``input`` of all of them in ``output``."""

    wire_tag: ClassVar[int] = 16
    op_id: ClassVar[str] = "vyre.node.all_gather"
    input: str
    output: str
    group: int = WORLD

    def __post_init__(self) -> None:
        """Refuse a group without encoding."""
        self.take_number("group")
        self.seal()

    def parts(self) -> Parts:
        """Return tag, both buffers and group."""
        return (b"\x10" + name_bytes(self.input, "buffer") + name_bytes(self.output, "buffer") + _U32.pack(self.group),)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ReduceScatter(Node):
    """Combine ``input`` over the devices of ``group``, and leave each its share in ``output``."""

    wire_tag: ClassVar[int] = 17
    op_id: ClassVar[str] = "vyre.node.reduce_scatter"
    input: str
    output: str
    op: CollectiveOp
    group: int = WORLD

    def __post_init__(self) -> None:
        """Refuse another operator, and a group without encoding."""
        instance(self.op, CollectiveOp, "a collective operator")
        self.take_number("group")
        self.seal()

    def parts(self) -> Parts:
        """Return tag, both buffers, operator and group."""
        buffers = name_bytes(self.input, "buffer") + name_bytes(self.output, "buffer")
        return (b"\x11" + buffers + self.op.encoded + _U32.pack(self.group),)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Broadcast(Node):
    """Give every device of ``group`` the buffer of device ``root`` (u32)."""

    wire_tag: ClassVar[int] = 18
    op_id: ClassVar[str] = "vyre.node.broadcast"
    buffer: str
    root: int
    group: int = WORLD

    def __post_init__(self) -> None:
        """Refuse numbers without encoding."""
        self.take_number("root")
        self.take_number("group")
        self.seal()

    def parts(self) -> Parts:
        """Return tag, buffer, root and group."""
        return (b"\x12" + name_bytes(self.buffer, "buffer") + _TWO_U32.pack(self.root, self.group),)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class OpaqueNode(Node):
    """A node that an extension defines; its op id is its ``kind``."""

    wire_tag: ClassVar[int] = 0x80
    op_id: ClassVar[str] = ""
    kind: str
    payload: bytes

    def __post_init__(self) -> None:
        """Refuse fields without encoding."""
        instance(self.payload, bytes, "the payload of an opaque node")
        self.seal()

    def parts(self) -> Parts:
        """Return tag, kind and payload."""
        return (b"\x80" + encoded_text(self.kind, "a node's kind") + _U32.pack(len(self.payload)) + self.payload,)


def op_id(node: Node) -> str:
    """Return the id of the operation a node is."""
    return node.kind if isinstance(node, OpaqueNode) else node.op_id
