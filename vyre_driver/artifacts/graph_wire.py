"""Graphs of programs as bytes: upstream's "VGR0", version 2.

    "VGR0", u16 2
    u32 values from outside: each its name and its contract
    u32 nodes: each its name, u32 length and the program's wire container,
        u32 inputs: each the buffer, the u32 number of the value, and the contract
        u32 outputs: each the buffer, the value's name, the contract, and u8 0, or 1 and the u32 number of the value it replaces

    text      u32 length from 1 to 4096, UTF-8
    contract  u32 length and the data type in JSON; u32 rank; per dimension u8 0 and u64, or u8 1 and a text; u8 access;
              u8 lifetime

Values are numbered in the order in which they stand, those from outside first.
Source: upstream 0.7, section 2.
"""

from __future__ import annotations

import json
import struct
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn, TypeVar

from vyre_driver.artifacts.data_types import as_json, data_type
from vyre_driver.artifacts.documents import MAX_NAME_BYTES, Document
from vyre_driver.artifacts.faults import program_of, refuse, whole_bytes
from vyre_driver.artifacts.parts import Contract, GraphInput, GraphNode, GraphOutput, GraphValue, Lifetime
from vyre_driver.errors import InvalidContainer, InvalidProgram
from vyre_driver.ir.buffers import BufferAccess
from vyre_driver.ir.program import Program
from vyre_driver.ir.wire import format as wire_format
from vyre_driver.ir.wire.cursor import Cursor

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vyre_driver.ir.dtypes import DataType

Made = TypeVar("Made")

MAGIC, VERSION = b"VGR0", 2
MAX_BYTES = 256 << 20
MAX_ITEMS = 1_000_000
MAX_RANK = 256
MAX_TYPE_BYTES = 65_536

_WHAT = "a graph of programs (VGR0)"
_ACCESSES = {
    0: BufferAccess.READ_ONLY,
    1: BufferAccess.READ_WRITE,
    2: BufferAccess.WRITE_ONLY,
    3: BufferAccess.UNIFORM,
}
_ACCESS_TAGS = {access: tag for tag, access in _ACCESSES.items()}
_LIFETIMES = {lifetime.value: lifetime for lifetime in Lifetime}
_LEAST_CONTRACT = 14  # bytes: the shortest type has four
_U32 = struct.Struct("<I")


class _GraphReader(Cursor):
    """A cursor over a graph."""

    __slots__ = ("_types",)

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self._types: dict[bytes, DataType] = {}  # most values are of a few types

    def refuse(self, problem: str, offset: int) -> NoReturn:
        refuse(_WHAT, problem, offset)

    def number_of(self, what: str, limit: int, least_bytes: int) -> int:
        """Return a u32 count of things of ``least_bytes`` each, for which there must be bytes left."""
        at = self.at
        number = self.u32(f"the number of {what}")
        if number > limit:
            self.refuse(f"there are {number} {what}, over the limit of {limit}", at)
        if number * least_bytes > self.end - self.at:
            self.refuse(f"{number} {what} are announced and {self.end - self.at} bytes are left", at)
        return number

    def name(self, what: str) -> str:
        """Return a text of 1 to 4096 bytes."""
        at = self.at
        text = self.text(what)
        if not 1 <= self.at - at - 4 <= MAX_NAME_BYTES:
            self.refuse(f"{what} has {self.at - at - 4} bytes, and 1 to {MAX_NAME_BYTES} are allowed", at)
        return text

    def contract(self) -> Contract:
        """Return a contract."""
        element = self._element()
        rank = self.number_of("dimensions", MAX_RANK, 6)
        shape = tuple(self._extent() for _ in range(rank))
        return Contract(element, shape, self.member(_ACCESSES, "an access"), self.member(_LIFETIMES, "a lifetime"))

    def _extent(self) -> int | str:
        return self.name("a symbol") if self.flag("whether a dimension is a symbol") else self.u64("a dimension")

    def _element(self) -> DataType:
        length = self.number_of("bytes of a data type", MAX_TYPE_BYTES, 1)
        at = self.at
        encoded = self.take(length, "a data type")
        if encoded not in self._types:
            document = Document(_WHAT, at)
            element = data_type(document, document.parse(encoded), "the data type")
            if _type_bytes(element) != encoded:
                document.refuse("the data type is not written as upstream writes it")
            self._types[encoded] = element
        return self._types[encoded]

    def node(self) -> GraphNode:
        """Return a node."""
        name = self.name("the name of a node")
        length = self.number_of("bytes of a program", MAX_BYTES, 1)
        at = self.at
        container = self.take(length, "a program")
        program = program_of(container, _WHAT, f"the program of node {name!r}", at)
        # Upstream writes those of older formats anew.
        original = container if int.from_bytes(container[4:6], "little") >= wire_format.VERSION else b""
        inputs = self.number_of("inputs", MAX_ITEMS, 9 + _LEAST_CONTRACT)
        taken = tuple(GraphInput(self.name("a buffer"), self.u32("a value"), self.contract()) for _ in range(inputs))
        outputs = self.number_of("outputs", MAX_ITEMS, 11 + _LEAST_CONTRACT)
        return GraphNode(name, program, taken, tuple(self._output() for _ in range(outputs)), original)

    def _output(self) -> GraphOutput:
        buffer, name, contract = self.name("a buffer"), self.name("the name of a value"), self.contract()
        replaces = self.flag("whether an output replaces a value")
        return GraphOutput(buffer, name, contract, self.u32("a value") if replaces else None)


def read_graph(data: bytes, make: Callable[[tuple[GraphValue, ...], tuple[GraphNode, ...]], Made]) -> Made:
    """Return what ``make``, which checks them, makes of the values from outside and the nodes of a graph.

    Raises
    ------
    InvalidContainer
        If the bytes are not one graph in canonical form, within the limits of the format, whose nodes fit their values.
    """
    data = whole_bytes(data, _WHAT)
    if len(data) > MAX_BYTES:
        refuse(_WHAT, f"it has {len(data)} bytes, over the limit of {MAX_BYTES}")
    reader = _GraphReader(data)
    magic, version = reader.take(4, "the magic"), int.from_bytes(reader.take(2, "the version"), "little")
    if magic != MAGIC:
        refuse(_WHAT, f"it begins with {magic!r}, not with {MAGIC!r}")
    if version != VERSION:
        refuse(_WHAT, f"it is of version {version}, and this reads {VERSION}", 4)
    number = reader.number_of("values from outside", MAX_ITEMS, 5 + _LEAST_CONTRACT)
    externals = tuple(GraphValue(reader.name("the name of a value"), reader.contract()) for _ in range(number))
    nodes, starts = [], []
    for _ in range(reader.number_of("nodes", MAX_ITEMS, 18)):
        starts.append(reader.at)
        nodes.append(reader.node())
    if reader.at != reader.end:
        refuse(_WHAT, f"{reader.end - reader.at} bytes follow the graph", reader.at)
    try:
        return make(externals, tuple(nodes))
    except InvalidProgram as error:
        place = error.context.get("node")
        return refuse(_WHAT, error.problem, starts[place] if isinstance(place, int) else 0)


def graph_bytes(externals: Sequence[GraphValue], nodes: Sequence[GraphNode]) -> bytes:
    """Return a graph's canonical bytes.

    Raises
    ------
    InvalidProgram
        If a program has no wire form, or something passes a limit of the format.
    """
    parts = [MAGIC, struct.pack("<H", VERSION), _U32.pack(len(externals))]
    for value in externals:
        parts += [_text(value.name), _contract_bytes(value.contract)]
    parts.append(_U32.pack(len(nodes)))
    for node in nodes:
        program = _container(node)
        parts += [_text(node.name), _U32.pack(len(program)), program, _U32.pack(len(node.inputs))]
        for port in node.inputs:
            parts += [_text(port.buffer), _U32.pack(port.value), _contract_bytes(port.contract)]
        parts.append(_U32.pack(len(node.outputs)))
        for made in node.outputs:
            replaced = b"\0" if made.successor_of is None else b"\1" + _U32.pack(made.successor_of)
            parts += [_text(made.buffer), _text(made.name), _contract_bytes(made.contract), replaced]
    data = b"".join(parts)
    if len(data) > MAX_BYTES:
        _over("the graph", len(data), "bytes", MAX_BYTES)
    return data


def _container(node: GraphNode) -> bytes:
    """Return a node's program as upstream wrote it, or as it is written here where that is another program."""
    if node.wire:
        with suppress(InvalidContainer, InvalidProgram):
            if Program.from_wire(node.wire) == node.program:
                return node.wire
    return node.program.to_wire()


def _contract_bytes(contract: Contract) -> bytes:
    element = _type_bytes(contract.element)
    if len(contract.shape) > MAX_RANK:
        _over("a shape", len(contract.shape), "dimensions", MAX_RANK)
    extents = [_extent_bytes(extent) for extent in contract.shape]
    if len(element) > MAX_TYPE_BYTES:
        _over("a data type", len(element), "bytes", MAX_TYPE_BYTES)
    head = _U32.pack(len(element)) + element + _U32.pack(len(extents))
    return head + b"".join(extents) + bytes((_ACCESS_TAGS[contract.access], contract.lifetime.value))


def _extent_bytes(extent: int | str) -> bytes:
    return b"\1" + _text(extent) if isinstance(extent, str) else b"\0" + struct.pack("<Q", extent)


def _type_bytes(element: DataType) -> bytes:
    return json.dumps(as_json(element), separators=(",", ":")).encode()


def _text(text: str) -> bytes:
    encoded = text.encode()
    if not 1 <= len(encoded) <= MAX_NAME_BYTES:
        raise InvalidProgram(
            f"the name {text[:40]!r} has {len(encoded)} bytes, and 1 to {MAX_NAME_BYTES} are allowed", fix="choose another name"
        )
    return _U32.pack(len(encoded)) + encoded


def _over(what: str, number: int, unit: str, limit: int) -> NoReturn:
    raise InvalidProgram(f"{what} has {number} {unit}, and a graph allows {limit}", fix="split it", value=number, limit=limit)
