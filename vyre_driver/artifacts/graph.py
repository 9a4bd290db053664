"""A graph of programs (upstream's ProgramGraph): checked, read, written, identified and run.

Its bytes are upstream's "VGR0", version 2:

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
import math
import struct
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, NoReturn, TypeVar

from blake3 import blake3

from vyre_driver.artifacts.documents import MAX_NAME_BYTES, Document, as_json, data_type, program_of, refuse, whole_bytes
from vyre_driver.artifacts.parts import Contract, GraphInput, GraphNode, GraphOutput, GraphValue, Lifetime
from vyre_driver.artifacts.schedule import Made, Runnable, Schedule, Taken, Value, WiredNode, mapping_of, schedule_of
from vyre_driver.checks import U32_MAX, U64_MAX, integer_within, items_of
from vyre_driver.errors import InvalidContainer, InvalidInput, InvalidProgram
from vyre_driver.ir.buffers import BufferAccess
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.fields import brief, encoded_text, instance
from vyre_driver.ir.fields import refuse as refuse_field
from vyre_driver.ir.program import Program
from vyre_driver.ir.wire import format as wire_format
from vyre_driver.ir.wire.format import Cursor

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vyre_driver.ir.buffers import BufferDecl


_READ = frozenset({BufferAccess.READ_ONLY, BufferAccess.READ_WRITE, BufferAccess.UNIFORM})
_WRITTEN = frozenset({BufferAccess.READ_WRITE, BufferAccess.WRITE_ONLY})
# The accesses of a program's buffer that a contract's access allows.
_ALLOWED = {
    BufferAccess.READ_ONLY: _READ,
    BufferAccess.READ_WRITE: frozenset({BufferAccess.READ_WRITE}),
    BufferAccess.WRITE_ONLY: _WRITTEN,
    BufferAccess.UNIFORM: frozenset({BufferAccess.UNIFORM}),
}


def values_of(externals: Sequence[GraphValue], nodes: Sequence[GraphNode]) -> tuple[GraphValue, ...]:
    """Return all values of a graph in the order of their numbers, once its names and nodes are checked.

    Raises
    ------
    InvalidProgram
        For a field without a place in the format, a name that is there twice, or a node that does not fit its program or the
        values before it; ``node`` of the error's context is the node's place, None for a value from outside.
    """
    values = list(externals)
    names: set[str] = set()
    for value in externals:
        instance(value, GraphValue, "a value from outside")
        _take_name(names, value.name, None)
        _check_contract(value.contract, f"value {value.name!r}")
    for place, node in enumerate(nodes):
        instance(node, GraphNode, "a node")
        instance(node.program, Program, "the program of a node")
        for name in (node.name, *(output.name for output in node.outputs)):
            _take_name(names, name, place)
        try:
            ports: tuple[GraphInput | GraphOutput, ...] = (*node.inputs, *node.outputs)
            for port in ports:
                _check_contract(port.contract, f"buffer {port.buffer!r}")
            _check_node(values, node)
        except InvalidProgram as error:
            raise InvalidProgram(f"node {node.name!r}: {error.problem}", fix=error.fix, node=place) from None
        values.extend(GraphValue(output.name, output.contract, place, output.successor_of) for output in node.outputs)
    return tuple(values)


def _take_name(names: set[str], name: str, node: int | None) -> None:
    encoded_text(name, "the name of a value or a node")
    if name in names:
        raise InvalidProgram(f"two values or nodes of the graph are called {name!r}", fix="give each its own name", node=node)
    names.add(name)


def _refuse(problem: str) -> NoReturn:
    raise InvalidProgram(problem, fix="connect the node as its program declares its buffers")


def _check_contract(contract: Contract, what: str) -> None:
    """Check that each field of a contract has a place in the format."""
    instance(contract, Contract, f"the contract of {what}")
    instance(contract.element, DataType, f"the element type of {what}")
    instance(contract.shape, tuple, f"the shape of {what}")
    instance(contract.lifetime, Lifetime, f"the lifetime of {what}")
    if contract.access not in _ALLOWED:
        refuse_field(
            f"the access of {what} is {brief(contract.access)}", f"give {', '.join(access.name for access in _ALLOWED)}"
        )
    for extent in contract.shape:
        if isinstance(extent, str):
            encoded_text(extent, f"a symbol in the shape of {what}")
        elif type(extent) is not int or not 0 <= extent <= U64_MAX:
            refuse_field(f"the shape {brief(contract.shape)} has an extent that is no u64", "give numbers from 0 to 2**64 - 1")


def _check_node(values: Sequence[GraphValue], node: GraphNode) -> None:
    buffers = {buffer.name: buffer for buffer in reversed(node.program.buffers)}
    bound: set[str] = set()
    taken: dict[int, str] = {}  # the buffer by the value
    for port in node.inputs:
        if type(port.value) is not int or not 0 <= port.value < len(values):
            _refuse(f"value {port.value} of buffer {port.buffer!r} is none of the {len(values)} before the node")
        if port.buffer in bound:
            _refuse(f"buffer {port.buffer!r} is bound twice")
        if port.value in taken:
            _refuse(f"value {port.value} is bound to the buffers {taken[port.value]!r} and {port.buffer!r}")
        bound.add(port.buffer)
        taken[port.value] = port.buffer
        provided, expected = values[port.value].contract, port.contract
        if provided._replace(access=expected.access) != expected:
            _refuse(f"the contract of buffer {port.buffer!r} is not that of value {values[port.value].name!r}")
        _check_buffer(buffers, port, _READ)
    for made in node.outputs:
        prior = made.successor_of
        if prior is not None:
            _check_successor(values, buffers, made, taken)
        if made.buffer in bound and (prior is None or taken[prior] != made.buffer):
            _refuse(f"buffer {made.buffer!r} is bound twice")
        bound.add(made.buffer)
        _check_buffer(buffers, made, _WRITTEN)


def _check_successor(
    values: Sequence[GraphValue], buffers: Mapping[str, BufferDecl], port: GraphOutput, taken: Mapping[int, str]
) -> None:
    """Check that an output may replace a retained value: it is of the same kind, and the node reads that value."""
    number = port.successor_of
    if number is None or number not in taken:
        _refuse(f"output {port.name!r} replaces value {number}, which the node does not take")
    prior, after = values[number].contract, port.contract
    buffer = buffers.get(port.buffer)
    becomes_output = after.lifetime is Lifetime.OUTPUT and buffer is not None and buffer.is_output
    is_alike = prior == (after._replace(lifetime=Lifetime.RETAINED) if becomes_output else after)
    if prior.lifetime is not Lifetime.RETAINED or not is_alike:
        _refuse(f"output {port.name!r} cannot replace value {values[number].name!r}, whose contract is another")


def _check_buffer(buffers: Mapping[str, BufferDecl], port: GraphInput | GraphOutput, usable: frozenset[BufferAccess]) -> None:
    buffer, contract = buffers.get(port.buffer), port.contract
    if buffer is None:
        _refuse(f"its program has no buffer {port.buffer!r}")
    if buffer.element != contract.element:
        _refuse(f"buffer {port.buffer!r} has elements of {buffer.element}, its contract of {contract.element}")
    count = elements_of(contract)
    if count is not None and buffer.count not in (0, count):
        _refuse(f"buffer {port.buffer!r} has {buffer.count} elements, its contract {count}")
    if buffer.access not in _ALLOWED[contract.access] or buffer.access not in usable:
        role = "input" if usable is _READ else "output"
        _refuse(f"buffer {port.buffer!r} is {buffer.access.name}, and the {role}'s contract {contract.access.name}")


def elements_of(contract: Contract) -> int | None:
    """Return the number of elements, None where a symbol decides it; raises InvalidProgram if it passes 64 bits."""
    extents = [extent for extent in contract.shape if isinstance(extent, int)]
    if len(extents) < len(contract.shape):
        return None
    count = math.prod(extents)
    if count > U64_MAX:
        _refuse(f"the shape {contract.shape} has more than 2**64 - 1 elements")
    return count


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


def read_graph(data: bytes) -> Graph:
    """Return the graph in bytes that upstream wrote.

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
        return Graph(externals, tuple(nodes))
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


Item = TypeVar("Item")

ARTIFACT_SCHEMA = 4
IDENTITY_VERSION = 2

_DIGEST_BYTES = 32


@dataclass(frozen=True, slots=True)
class Graph(Runnable):
    """Programs that are connected by named values; a value itself, which is checked when it is made.

    ``externals`` are the values from outside, ``values`` these and then what the nodes make, in the order of their numbers.
    The nodes run in their order.
    """

    externals: tuple[GraphValue, ...]
    nodes: tuple[GraphNode, ...]
    values: tuple[GraphValue, ...] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Check names and nodes; raises InvalidProgram."""
        for name in ("externals", "nodes"):
            items = items_of(getattr(self, name))
            if items is None:
                raise InvalidProgram(f"{name} of a graph are no sequence", fix=f"give a tuple of {name}")
            object.__setattr__(self, name, tuple(items))
        object.__setattr__(self, "values", values_of(self.externals, self.nodes))

    @classmethod
    def from_wire(cls, data: bytes) -> Graph:
        """Return the graph in bytes that upstream wrote (VGR0, version 2).

        Raises
        ------
        InvalidContainer
            If they are not one such graph.
        """
        return read_graph(data)

    def to_wire(self) -> bytes:
        """Return the graph as upstream writes it; raises InvalidProgram if a program has no wire form."""
        return graph_bytes(self.externals, self.nodes)

    def identity(
        self,
        configuration_digest: bytes,
        symbols: Mapping[str, int] | None = None,
        constants: Mapping[str, bytes] | None = None,
        artifact_schema: int = ARTIFACT_SCHEMA,
    ) -> bytes:
        """Return upstream's identity of the graph (32 bytes, version 2).

        Parameters
        ----------
        configuration_digest
            32 bytes over whatever else decides what is compiled.
        symbols
            The number of each symbol in its shapes.
        constants
            32 bytes that identify the contents of each constant value.
        artifact_schema
            The schema of artifacts that it is compiled to, a u32.

        Raises
        ------
        InvalidInput
            If a digest has another length, or symbols and constants are not those of the graph.
        """
        symbols, constants = mapping_of(symbols, "symbols"), mapping_of(constants, "constants")
        if integer_within(artifact_schema, 0, U32_MAX) is None:
            raise InvalidInput(f"artifact_schema is {artifact_schema!r}", fix="give a number from 0 to 2**32 - 1")
        names = {extent for value in self.values for extent in value.contract.shape if isinstance(extent, str)}
        _check_names("symbols", symbols, names)
        constant_names = {value.name for value in self.values if value.contract.lifetime is Lifetime.CONSTANT}
        _check_names("constants", constants, constant_names)
        for what, digest in (("configuration_digest", configuration_digest), *constants.items()):
            if not isinstance(digest, bytes) or len(digest) != _DIGEST_BYTES:
                raise InvalidInput(f"{what} is not a digest of {_DIGEST_BYTES} bytes", fix="give the bytes of a digest")
        for symbol, number in symbols.items():
            if integer_within(number, 0, U64_MAX) is None:
                raise InvalidInput(f"symbol {symbol!r} is {number!r}", fix="give a number from 0 to 2**64 - 1")
        head = struct.pack("<HI", IDENTITY_VERSION, artifact_schema)
        hashed = blake3(b"vyre-program-graph-identity\0" + head + _sized(self.to_wire()) + configuration_digest)
        hashed.update(struct.pack("<Q", len(symbols)))
        for symbol, number in _in_order(symbols):
            hashed.update(_sized(symbol.encode()) + struct.pack("<Q", number))
        hashed.update(struct.pack("<Q", len(constants)))
        for name, digest in _in_order(constants):
            hashed.update(_sized(name.encode()) + digest)
        return hashed.digest()

    def schedule(self) -> Schedule:
        """Return the nodes as steps, over all values; raises as ``Runnable.schedule``.

        An output that replaces a retained value lies in the memory of that value where the node writes it in place.
        """
        values = []
        for number, value in enumerate(self.values):
            contract = value.contract
            is_given = value.node is None
            values.append(Value(value.name, contract.element, contract.shape, contract.lifetime, number, is_given))
        numbers = count(len(self.externals))
        nodes = []
        for node in self.nodes:
            taken = tuple([Taken(port.buffer, port.value, _may_change(port)) for port in node.inputs])
            made = tuple([Made(port.buffer, next(numbers), port.successor_of) for port in node.outputs])
            nodes.append(WiredNode(node.name, node.program, taken, made))
        return schedule_of(values, nodes)


def _may_change(port: GraphInput) -> bool:
    return port.contract.access is BufferAccess.READ_WRITE


def _check_names(what: str, values: Mapping[str, object], names: set[str]) -> None:
    if set(values) != names:
        wrong = sorted(map(str, set(values) ^ names))
        given = sorted(values, key=str)
        raise InvalidInput(
            f"the {what} of the graph are {sorted(names)}, and {given} are given ({wrong[0]!r} is in one alone)",
            fix=f"give exactly the {what} of the graph",
        )


def _in_order(items: Mapping[str, Item]) -> list[tuple[str, Item]]:
    return sorted(items.items(), key=lambda pair: pair[0].encode())


def _sized(data: bytes) -> bytes:
    return struct.pack("<Q", len(data)) + data
