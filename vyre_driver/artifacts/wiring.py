"""From the nodes of a graph or an artifact to a schedule: which memory each value lies in, so that nobody sees it change."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from vyre_driver.artifacts.parts import Lifetime
from vyre_driver.artifacts.schedule import Schedule, Step, Value, check_connected
from vyre_driver.errors import InvalidProgram
from vyre_driver.ir.buffers import BufferAccess
from vyre_driver.ir.nodes import Node
from vyre_driver.ir.terms import terms_within
from vyre_driver.ir.validation.buffer_uses import written_by

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from vyre_driver.ir.program import Program

_WRITABLE = frozenset({BufferAccess.READ_WRITE, BufferAccess.WRITE_ONLY})


class Taken(NamedTuple):
    """A buffer of a node that is bound to a value; ``may_change`` says that its contract lets the node write it."""

    buffer: str
    value: int
    may_change: bool


class Made(NamedTuple):
    """A buffer of a node that becomes a value; ``prior`` is the retained value that it replaces."""

    buffer: str
    value: int
    prior: int | None = None


class WiredNode(NamedTuple):
    """A program, and the values of its buffers."""

    name: str
    program: Program
    taken: tuple[Taken, ...]
    made: tuple[Made, ...]


def schedule_of(values: Sequence[Value], nodes: Sequence[WiredNode]) -> Schedule:
    """Return the nodes as steps, over values that are each in memory of their own.

    A node that writes a buffer of a value, which is not its to change, gets a copy. An output that replaces a retained value
    lies in the memory of that value where the node writes it in place; elsewhere it is copied there when a run has ended.

    Raises
    ------
    InvalidProgram
        If a node leaves a buffer without a value, takes a value that has been replaced in place, or writes one that others
        need; or if two outputs replace one value.
    UnsupportedFeature
        As ``external_buffers``.
    """
    wiring = _Wiring(values, {port.value: place for place, node in enumerate(nodes) for port in node.taken})
    steps = tuple([wiring.step(place, node) for place, node in enumerate(nodes)])
    return Schedule(tuple(wiring.values), steps)


class _Wiring:
    """The values while the steps are made."""

    def __init__(self, values: Sequence[Value], last_uses: Mapping[int, int]) -> None:
        self.values = list(values)
        self._last_uses = last_uses  # the place of the last node that takes a value
        self._successors: dict[int, str] = {}  # of each value that is replaced: the name of the one that does
        self._overwritten: set[int] = set()  # values whose memory has that of their successor
        self._changed: set[int] = set()  # retained values that nodes have written

    def step(self, place: int, node: WiredNode) -> Step:
        """Return the step of a node, and place what it makes."""
        buffers = {}
        for port in node.taken:
            self._check_current(node, port.value)
            buffers[port.buffer] = port.value
        for made in node.made:
            if made.prior is not None:
                self._replace(node, made, made.prior, is_in_place=buffers.get(made.buffer) == made.prior)
            buffers[made.buffer] = made.value
        check_connected(node.program, node.name, buffers)
        inputs = [port for port in node.taken if buffers[port.buffer] == port.value]
        written = _written_buffers(node.program, {port.buffer for port in inputs})
        copied = [port.buffer for port in inputs if port.buffer in written and self._needs_copy(place, node, port)]
        return Step(node.name, node.program, buffers, copied=frozenset(copied))

    def _check_current(self, node: WiredNode, number: int) -> None:
        if number in self._overwritten:
            name, successor = self.values[number].name, self._successors[number]
            raise InvalidProgram(
                f"node {node.name!r} takes value {name!r}, which {successor!r} has replaced in place by then",
                fix=f"put the node before the one that makes {successor!r}, or give {successor!r} a buffer of its own",
            )

    def _needs_copy(self, place: int, node: WiredNode, port: Taken) -> bool:
        """Return whether a node writes a copy of a value that it takes; raises InvalidProgram where none can be made."""
        value = self.values[port.value]
        if value.lifetime is Lifetime.RETAINED and port.may_change:
            self._changed.add(port.value)
            return False
        if value.is_given and port.value not in self._changed:
            return True
        if value.lifetime is Lifetime.INVOCATION and self._last_uses[port.value] == place:
            return False
        raise InvalidProgram(
            f"node {node.name!r} writes buffer {port.buffer!r}, and others need value {value.name!r}, which it is bound to",
            fix="let the program write another buffer",
        )

    def _replace(self, node: WiredNode, made: Made, prior: int, *, is_in_place: bool) -> None:
        """Give an output the memory of the value that it replaces, or note that it is copied there."""
        name, value = self.values[made.value].name, self.values[prior]
        if prior in self._successors:
            raise InvalidProgram(
                f"{self._successors[prior]!r} and {name!r} of node {node.name!r} both replace value {value.name!r}",
                fix="replace a retained value once",
            )
        self._successors[prior] = name
        if is_in_place:
            self._overwritten.add(prior)
            self.values[made.value] = self.values[made.value]._replace(memory=value.memory)
        else:
            # The value that the chain of successors began with.
            state = value.memory if value.replaces is None else value.replaces
            self.values[made.value] = self.values[made.value]._replace(replaces=state)


def _written_buffers(program: Program, names: AbstractSet[str]) -> AbstractSet[str]:
    """Return which of these buffers a program writes."""
    if not any(buffer.name in names and buffer.access in _WRITABLE for buffer in program.buffers):
        return frozenset()
    nodes = [term for term in terms_within(*program.entry) if isinstance(term, Node)]
    return names & frozenset().union(*map(written_by, nodes))
