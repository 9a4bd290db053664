"""The parts of a graph of programs: contracts, values, and nodes with what they take and make."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from vyre_driver.ir.buffers import BufferAccess
    from vyre_driver.ir.dtypes import DataType
    from vyre_driver.ir.program import Program


class Lifetime(enum.Enum):
    """How long a value lives; the values are the wire tags."""

    CONSTANT = 0
    """Given, and never changed."""
    INVOCATION = 1
    """Given or made for one run."""
    RETAINED = 2
    """Given at first; what a run leaves in it is there for the next one."""
    OUTPUT = 3
    """A result of the run."""


class Contract(NamedTuple):
    """The type of a value: its elements, its shape, how it may be used, and how long it lives.

    A dimension is a number, or the name of a symbol whose number the arrays tell. 0 leaves it to run time.
    """

    element: DataType
    shape: tuple[int | str, ...]
    access: BufferAccess
    lifetime: Lifetime


class GraphValue(NamedTuple):
    """A value; ``node`` is the place of the node that makes it, None for one that is given from outside.

    ``successor_of`` is the number of the retained value that it replaces.
    """

    name: str
    contract: Contract
    node: int | None = None
    successor_of: int | None = None


class GraphInput(NamedTuple):
    """A buffer of a node's program that is bound to a value, by the value's number."""

    buffer: str
    value: int
    contract: Contract


class GraphOutput(NamedTuple):
    """A buffer of a node's program that becomes a value of this name; ``successor_of`` as of the value."""

    buffer: str
    name: str
    contract: Contract
    successor_of: int | None = None


class GraphNode(NamedTuple):
    """A program with what it takes and makes.

    ``wire`` is the program's container as upstream wrote it, which need not be in canonical form; empty where it is made here.
    It is written again while it reads to the program, and does not count in comparisons.
    """

    name: str
    program: Program
    inputs: tuple[GraphInput, ...]
    outputs: tuple[GraphOutput, ...]
    wire: bytes = b""

    def __eq__(self, other: object) -> bool:
        """Return whether all but the container is equal."""
        return isinstance(other, GraphNode) and self[:-1] == other[:-1]

    def __ne__(self, other: object) -> bool:
        """Return whether anything but the container differs: a tuple would compare that too."""
        return not self == other

    def __hash__(self) -> int:
        """Return the hash of all but the container."""
        return hash(self[:-1])
