"""A graph of programs (upstream's ProgramGraph): read, written, identified and run."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, TypeVar

from blake3 import blake3

from vyre_driver.artifacts.graph_rules import values_of
from vyre_driver.artifacts.graph_wire import graph_bytes, read_graph
from vyre_driver.artifacts.parts import GraphInput, GraphNode, GraphValue, Lifetime
from vyre_driver.artifacts.schedule import Runnable, Schedule, Value, mapping_of
from vyre_driver.artifacts.wiring import Made, Taken, WiredNode, schedule_of
from vyre_driver.checks import U32_MAX, U64_MAX, integer_within, items_of
from vyre_driver.errors import InvalidInput, InvalidProgram
from vyre_driver.ir.buffers import BufferAccess

if TYPE_CHECKING:
    from collections.abc import Mapping

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
        return read_graph(data, cls)

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
