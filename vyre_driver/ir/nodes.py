"""The nodes of a program, one class for each statement.

Source: spec item 1.5, one class a variant, fields in wire order, ``op_id`` as upstream names it.

``measure`` gives the size of a program, and the capabilities that it uses: spec item 1.4 (stats); the list of these is ours.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from vyre_driver.ir import expressions as ex
from vyre_driver.ir._seal import parts_of, seal_node, take_fields
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.expressions import Expr
from vyre_driver.ir.fields import brief, refuse
from vyre_driver.ir.layout import (
    BUFFER,
    EXPRESSION,
    SOURCE,
    TRANSFER,
    TRAP,
    U32,
    VARIABLE,
    Kind,
    Step,
    member,
    number,
    payload,
    text,
)
from vyre_driver.ir.operators import WORLD, CollectiveOp, MemoryOrdering
from vyre_driver.ir.terms import Parts, Term, Traits, complete, terms_within

if TYPE_CHECKING:
    from vyre_driver.ir.buffers import BufferDecl

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
_NOT_CANONICAL = Traits.ALL & ~Traits.CANONICAL


class Node(Term):
    """A statement.

    ``node_count`` counts the statements of the whole tree, ``nesting`` is the longest way down among them (1 for a leaf), and
    ``expression_depth`` the depth of the deepest expression anywhere inside, 0 without one.
    """

    __slots__ = ("expression_depth", "nesting", "node_count")

    op_id: ClassVar[str]
    node_count: int
    nesting: int
    expression_depth: int

    def __post_init__(self) -> None:
        """Check the fields, and complete the node."""
        take_fields(self)
        self._seal()

    def _seal(self, traits: int = Traits.ALL) -> None:
        """Complete a new node from its parts; ``traits`` are its own."""
        wrong = seal_node(self, traits, Expr, Node, complete)
        if wrong is not None:
            what = "a node" if isinstance(wrong[0], Node) else brief(*wrong)
            refuse(f"{type(self).__name__} got {what} for an expression", "give an expression, such as u32(1)")

    def canonical_parts(self) -> Parts:
        """Return :meth:`parts` with what is left of the bodies in canonical form."""
        return parts_of(self, spliced)


def node_tuple(given: object, what: str) -> tuple[Node, ...]:
    """Return a sequence of nodes as a tuple.

    Raises
    ------
    InvalidProgram
        If it is not a list or tuple, or something in it is not a node.
    """
    if not isinstance(given, list | tuple):
        refuse(f"{what} is {brief(given)}", "give a list of nodes")
    for node in given:
        if not isinstance(node, Node):
            refuse(f"{what} holds {brief(node)}, which is not a node", "give a list of nodes, such as [store(...)]")
    return tuple(given)


def is_spliced(node: Node) -> bool:
    """Return whether canonical form puts the body of a node in its place: that of a block without a let of its own."""
    return isinstance(node, Block) and not any(isinstance(inner, Let) for inner in node.body)


def spliced(body: tuple[Node, ...]) -> tuple[Node, ...]:
    """Return a body with the blocks that canonical form dissolves replaced by what they hold, at any depth."""
    result: list[Node] = []
    waiting = list(reversed(body))
    while waiting:
        node = waiting.pop()
        if isinstance(node, Block) and is_spliced(node):
            waiting.extend(reversed(node.body))
        else:
            result.append(node)
    return tuple(result)


def _taken_body(term: Term, name: str, value: object) -> tuple[Node, ...]:
    return node_tuple(value, f"{name} of {type(term).__name__}")


BODY = Kind(Step.BODY, _taken_body)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Let(Node):
    """Declare the variable ``name``."""

    wire_tag = 0
    op_id = "vyre.node.let"
    _layout = (VARIABLE, EXPRESSION)
    name: str
    value: Expr


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Assign(Node):
    """Give the declared variable ``name`` another value."""

    wire_tag = 1
    op_id = "vyre.node.assign"
    _layout = (VARIABLE, EXPRESSION)
    name: str
    value: Expr


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Store(Node):
    """Write element ``index`` (u32) of a buffer; nothing happens when it is out of range."""

    wire_tag = 2
    op_id = "vyre.node.store"
    _layout = (BUFFER, EXPRESSION, EXPRESSION)
    buffer: str
    index: Expr
    value: Expr


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class If(Node):
    """Run ``then`` where ``cond`` (u32 or bool) holds, else ``otherwise``."""

    wire_tag = 3
    op_id = "vyre.node.if"
    _layout = (EXPRESSION, BODY, BODY)
    cond: Expr
    then: tuple[Node, ...]
    otherwise: tuple[Node, ...] = ()


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Loop(Node):
    """Run ``body`` with ``var`` from ``start`` up to, not including, ``stop`` (u32); both are evaluated once."""

    wire_tag = 4
    op_id = "vyre.node.loop"
    _layout = (VARIABLE, EXPRESSION, EXPRESSION, BODY)
    var: str
    start: Expr
    stop: Expr
    body: tuple[Node, ...]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Return(Node):
    """End the invocation."""

    wire_tag = 5
    op_id = "vyre.node.return"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Block(Node):
    """Run ``body`` in a scope of its own."""

    wire_tag = 6
    op_id = "vyre.node.block"
    _layout = (BODY,)
    body: tuple[Node, ...]

    def __post_init__(self) -> None:
        """Take the body; a block without a let of its own is spliced into its parent in canonical form."""
        take_fields(self)
        self._seal(_NOT_CANONICAL if is_spliced(self) else Traits.ALL)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Barrier(Node):
    """Wait for every invocation of the workgroup, and make what ``ordering`` says visible."""

    wire_tag = 7
    op_id = "vyre.node.barrier"
    _layout = (member(MemoryOrdering, "the ordering of a barrier"),)
    ordering: MemoryOrdering = MemoryOrdering.SEQ_CST


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Region(Node):
    """Statements that one generator made, in a scope of their own; ``source`` names the region it was made from."""

    wire_tag = 11
    op_id = "vyre.node.region"
    _layout = (text("the name of a generator"), SOURCE, BODY)
    generator: str
    source: str | None
    body: tuple[Node, ...]


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


COLLECTIVES = (AllReduce, AllGather, ReduceScatter, Broadcast)


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
    **dict.fromkeys(ex.SUBGROUP_EXPRESSIONS, ProgramCapability.SUBGROUP),
    **dict.fromkeys(COLLECTIVES, ProgramCapability.COLLECTIVES),
    **dict.fromkeys((AsyncLoad, AsyncStore, AsyncWait), ProgramCapability.ASYNC_COPY),
    **dict.fromkeys((Trap, Resume), ProgramCapability.TRAP),
    ex.Atomic: ProgramCapability.ATOMICS,
    Barrier: ProgramCapability.BARRIER,
    IndirectDispatch: ProgramCapability.INDIRECT_DISPATCH,
    ex.Call: ProgramCapability.CALLS,
    OpaqueNode: ProgramCapability.EXTENSIONS,
}
_INDICES = (ex.InvocationId, ex.WorkgroupId, ex.LocalId)
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
        if isinstance(term, ex.Cast):
            found |= _OF_TYPE.get(term.target, ProgramCapability.NONE)
        elif isinstance(term, Barrier) and term.ordering is MemoryOrdering.GRID_SYNC:
            found |= ProgramCapability.GRID_SYNC
        elif isinstance(term, _INDICES) and term.axis:
            found |= ProgramCapability.GRID_AXES
        elif isinstance(term, ex.OpaqueExpr):
            found |= ProgramCapability.EXTENSIONS if term.dtype is None else _OF_TYPE[term.dtype]
    return found
