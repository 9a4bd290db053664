"""The statements that make up most programs, and what all nodes have in common.

Source: spec item 1.5, one class a variant, fields in wire order, ``op_id`` as upstream names it. The other nodes
are in :mod:`vyre_driver.ir.nodes`.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from vyre_driver.checks import U32_MAX
from vyre_driver.ir._seal import seal_node
from vyre_driver.ir.expressions import Expr
from vyre_driver.ir.fields import brief, encoded_text, instance, refuse, whole
from vyre_driver.ir.operators import MemoryOrdering
from vyre_driver.ir.terms import Term, Traits, complete

if TYPE_CHECKING:
    from vyre_driver.ir.terms import Parts

_U32 = struct.Struct("<I")
_NOT_CANONICAL = Traits.ALL & ~Traits.CANONICAL


class Node(Term):
    """A statement.

    ``node_count`` counts the statements of the whole tree, ``nesting`` is the longest way down among them (1 for a leaf), and
    ``expression_depth`` the depth of the deepest expression anywhere inside, 0 without one. ``body_fields`` are its bodies.
    """

    __slots__ = ("expression_depth", "nesting", "node_count")

    op_id: ClassVar[str]
    body_fields: ClassVar[tuple[str, ...]] = ()
    node_count: int
    nesting: int
    expression_depth: int

    def seal(self, traits: int = Traits.ALL) -> None:
        """Complete a new node from its parts; ``traits`` are its own."""
        parts = self.parts()
        bodies = sum([len(getattr(self, field)) for field in self.body_fields])
        wrong = seal_node(self, parts, bodies, traits, Expr, Node, complete)
        if wrong >= 0:
            what = "a node" if isinstance(parts[wrong], Node) else brief(parts[wrong])
            refuse(f"{type(self).__name__} got {what} for an expression", "give an expression, such as u32(1)")

    def take_body(self, field: str) -> None:
        """Keep the statements of a field as a tuple, and refuse anything else among them."""
        object.__setattr__(self, field, node_tuple(getattr(self, field), f"{field} of {type(self).__name__}"))

    def take_number(self, field: str, highest: int = U32_MAX) -> None:
        """Keep the whole number of a field as an int, and refuse one that has no encoding."""
        object.__setattr__(self, field, whole(getattr(self, field), highest, f"{field} of {type(self).__name__}"))


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


def encoded_body(body: tuple[Node, ...]) -> Parts:
    """Return the number of nodes and the nodes."""
    return _U32.pack(len(body)), *body


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


def name_bytes(value: str, what: str) -> bytes:
    """Return a name as the encoding has it."""
    return encoded_text(value, f"the name of a {what}")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Let(Node):
    """Declare the variable ``name``."""

    wire_tag: ClassVar[int] = 0
    op_id: ClassVar[str] = "vyre.node.let"
    name: str
    value: Expr

    def __post_init__(self) -> None:
        """Complete the node."""
        self.seal()

    def parts(self) -> Parts:
        """Return tag, name and value."""
        return b"\0" + name_bytes(self.name, "variable"), self.value


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Assign(Node):
    """Give the declared variable ``name`` another value."""

    wire_tag: ClassVar[int] = 1
    op_id: ClassVar[str] = "vyre.node.assign"
    name: str
    value: Expr

    def __post_init__(self) -> None:
        """Complete the node."""
        self.seal()

    def parts(self) -> Parts:
        """Return tag, name and value."""
        return b"\1" + name_bytes(self.name, "variable"), self.value


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Store(Node):
    """Write element ``index`` (u32) of a buffer; nothing happens when it is out of range."""

    wire_tag: ClassVar[int] = 2
    op_id: ClassVar[str] = "vyre.node.store"
    buffer: str
    index: Expr
    value: Expr

    def __post_init__(self) -> None:
        """Complete the node."""
        self.seal()

    def parts(self) -> Parts:
        """Return tag, buffer, index and value."""
        return b"\2" + name_bytes(self.buffer, "buffer"), self.index, self.value


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class If(Node):
    """Run ``then`` where ``cond`` (u32 or bool) holds, else ``otherwise``."""

    wire_tag: ClassVar[int] = 3
    op_id: ClassVar[str] = "vyre.node.if"
    body_fields: ClassVar[tuple[str, ...]] = ("then", "otherwise")
    cond: Expr
    then: tuple[Node, ...]
    otherwise: tuple[Node, ...] = ()

    def __post_init__(self) -> None:
        """Take both branches."""
        self.take_body("then")
        self.take_body("otherwise")
        self.seal()

    def parts(self) -> Parts:
        """Return tag, condition and branches."""
        return b"\3", self.cond, *encoded_body(self.then), *encoded_body(self.otherwise)

    def canonical_parts(self) -> Parts:
        """Return the same with what is left of the body in canonical form."""
        return b"\3", self.cond, *encoded_body(spliced(self.then)), *encoded_body(spliced(self.otherwise))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Loop(Node):
    """Run ``body`` with ``var`` from ``start`` up to, not including, ``stop`` (u32); both are evaluated once."""

    wire_tag: ClassVar[int] = 4
    op_id: ClassVar[str] = "vyre.node.loop"
    body_fields: ClassVar[tuple[str, ...]] = ("body",)
    var: str
    start: Expr
    stop: Expr
    body: tuple[Node, ...]

    def __post_init__(self) -> None:
        """Take the body."""
        self.take_body("body")
        self.seal()

    def parts(self) -> Parts:
        """Return tag, variable, bounds and body."""
        return b"\4" + name_bytes(self.var, "variable"), self.start, self.stop, *encoded_body(self.body)

    def canonical_parts(self) -> Parts:
        """Return the same with what is left of the body in canonical form."""
        return b"\4" + name_bytes(self.var, "variable"), self.start, self.stop, *encoded_body(spliced(self.body))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Return(Node):
    """End the invocation."""

    wire_tag: ClassVar[int] = 5
    op_id: ClassVar[str] = "vyre.node.return"

    def __post_init__(self) -> None:
        """Complete the node."""
        self.seal()

    def parts(self) -> Parts:
        """Return the tag."""
        return (b"\5",)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Block(Node):
    """Run ``body`` in a scope of its own."""

    wire_tag: ClassVar[int] = 6
    op_id: ClassVar[str] = "vyre.node.block"
    body_fields: ClassVar[tuple[str, ...]] = ("body",)
    body: tuple[Node, ...]

    def __post_init__(self) -> None:
        """Take the body; a block without a let of its own is spliced into its parent in canonical form."""
        self.take_body("body")
        self.seal(_NOT_CANONICAL if is_spliced(self) else Traits.ALL)

    def parts(self) -> Parts:
        """Return tag and body."""
        return b"\6", *encoded_body(self.body)

    def canonical_parts(self) -> Parts:
        """Return the same with what is left of the body in canonical form."""
        return b"\6", *encoded_body(spliced(self.body))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Barrier(Node):
    """Wait for every invocation of the workgroup, and make what ``ordering`` says visible."""

    wire_tag: ClassVar[int] = 7
    op_id: ClassVar[str] = "vyre.node.barrier"
    ordering: MemoryOrdering = MemoryOrdering.SEQ_CST

    def __post_init__(self) -> None:
        """Refuse another ordering."""
        instance(self.ordering, MemoryOrdering, "the ordering of a barrier")
        self.seal()

    def parts(self) -> Parts:
        """Return tag and ordering."""
        return (b"\7" + self.ordering.encoded,)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Region(Node):
    """Statements that one generator made, in a scope of their own; ``source`` names the region it was made from."""

    wire_tag: ClassVar[int] = 11
    op_id: ClassVar[str] = "vyre.node.region"
    body_fields: ClassVar[tuple[str, ...]] = ("body",)
    generator: str
    source: str | None
    body: tuple[Node, ...]

    def __post_init__(self) -> None:
        """Take the body."""
        self.take_body("body")
        self.seal()

    def parts(self) -> Parts:
        """Return tag, generator, whether there is a source, its name, and the body."""
        source = b"\0" if self.source is None else b"\1" + name_bytes(self.source, "source region")
        return b"\x0b" + name_bytes(self.generator, "generator") + source, *encoded_body(self.body)

    def canonical_parts(self) -> Parts:
        """Return the same with what is left of the body in canonical form."""
        return self.parts()[0], *encoded_body(spliced(self.body))
