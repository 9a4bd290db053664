"""Which buffer of a node's program is which value of an artifact, which does not say so.

Inputs and outputs are matched apart, and a buffer takes a value of its type and count only. Where several values fit a buffer,
two things have to agree: upstream names a buffer as its value, and lists the values of a node in the order of its bindings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from vyre_driver.artifacts.schedule import external_buffers
from vyre_driver.errors import InvalidProgram
from vyre_driver.ir.buffers import BufferAccess

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vyre_driver.artifacts.neutral import ArtifactNode, Resource
    from vyre_driver.ir.buffers import BufferDecl
    from vyre_driver.ir.dtypes import DataType

RUN_THE_GRAPH = "run the graph (VGR0) that it was compiled from"

_READ_ONLY = frozenset({BufferAccess.READ_ONLY, BufferAccess.UNIFORM})
_SHOWN = 4  # of the values that fit, in a message


def matched_buffers(node: ArtifactNode, resources: Sequence[Resource]) -> tuple[dict[str, int], dict[str, int]]:
    """Return the number of the value of each buffer that a node takes, and of each that it makes.

    What a node makes in place of a retained value is in both, with the value that it takes and the one that it makes.

    Raises
    ------
    InvalidProgram
        If a buffer fits several values, or none.
    UnsupportedFeature
        As ``external_buffers``.
    """
    declared = {buffer.name: buffer for buffer in node.program.buffers}
    buffers = sorted([declared[name] for name in external_buffers(node.program, node.name)], key=lambda each: each.binding)
    is_in_place = len(node.inputs) + len(node.outputs) - len(buffers) == len(node.priors)
    in_place = dict(node.priors) if is_in_place else {}
    outputs = [number for number in node.outputs if number not in in_place]
    read, written = _by_role(buffers, len(node.inputs), {resources[number].name for number in outputs})
    if (len(read), len(written)) != (len(node.inputs), len(outputs)):
        raise InvalidProgram(
            f"node {node.name!r} takes {len(node.inputs)} values and makes {len(outputs)}, and its program has "
            f"{len(read)} buffers to read and {len(written)} outputs",
            fix=RUN_THE_GRAPH,
        )
    names = {resources[successor].name: prior for successor, prior in in_place.items()}
    taken = _Matching(node, resources, node.inputs, names).matched(read)
    made = _Matching(node, resources, outputs, {}).matched(written)
    buffer_of = {number: name for name, number in taken.items()}
    for successor, prior in in_place.items():
        name = buffer_of[prior]
        if declared[name].access is not BufferAccess.READ_WRITE:
            raise InvalidProgram(
                f"node {node.name!r} replaces value {resources[prior].name!r} in place, and its buffer {name!r} is "
                f"{declared[name].access.name}",
                fix=RUN_THE_GRAPH,
            )
        made[name] = successor
    return taken, made


def _by_role(buffers: Sequence[BufferDecl], inputs: int, made: set[str]) -> tuple[list[BufferDecl], list[BufferDecl]]:
    """Return the buffers that a node takes, and those that become the values with the names ``made``.

    One that is read and written, and no declared output, becomes one where values would have no buffer otherwise. Without
    values to make, all are taken.
    """
    if not made:
        return list(buffers), []
    writable = [buffer for buffer in buffers if buffer.access not in _READ_ONLY]
    written = [buffer for buffer in writable if _is_output(buffer)]
    if len(written) < len(made):
        are_inputs_complete = len(buffers) - len(writable) == inputs
        written = [buffer for buffer in writable if _is_output(buffer) or are_inputs_complete or buffer.name in made]
    names = {buffer.name for buffer in written}
    return [buffer for buffer in buffers if buffer.name not in names], written


def _is_output(buffer: BufferDecl) -> bool:
    return buffer.is_output or buffer.access is BufferAccess.WRITE_ONLY


class _Matching:
    """The values of one role of a node; ``aliases`` are names of values besides their own."""

    def __init__(
        self, node: ArtifactNode, resources: Sequence[Resource], numbers: Sequence[int], aliases: Mapping[str, int]
    ) -> None:
        self._node, self._resources = node, resources
        self._places = {number: place for place, number in enumerate(numbers)}
        self._named = {**aliases, **{resources[number].name: number for number in numbers}}
        self._fitting: dict[tuple[DataType, int | None], list[int]] = {}  # by element and count, None for any
        for number in numbers:
            for count in (resources[number].element_count, None):
                self._fitting.setdefault((resources[number].element, count), []).append(number)

    def matched(self, buffers: Sequence[BufferDecl]) -> dict[str, int]:
        """Return the value of each buffer, which are in the order of their bindings."""
        last: dict[DataType, int] = {}  # the place of the value that a name gave to the buffer before
        matched: dict[int, str] = {}
        for buffer in buffers:
            fitting = self._fitting.get((buffer.element, buffer.count or None), [])
            number = fitting[0] if len(fitting) == 1 else self._by_name(buffer)
            if number is not None and len(fitting) > 1:
                place = self._places[number]
                number = number if place > last.get(buffer.element, -1) else None
                last[buffer.element] = place
            if number is None or number in matched:
                self._refuse(buffer, fitting)
            matched[number] = buffer.name
        return {name: number for number, name in matched.items()}

    def _by_name(self, buffer: BufferDecl) -> int | None:
        """Return the value with the name of a buffer, None if there is none that fits it."""
        number = self._named.get(buffer.name)
        if number is None:
            return None
        resource = self._resources[number]
        return number if resource.element == buffer.element and buffer.count in (0, resource.element_count) else None

    def _refuse(self, buffer: BufferDecl, fitting: Sequence[int]) -> NoReturn:
        shown = ", ".join(repr(self._resources[number].name) for number in fitting[:_SHOWN]) or "none"
        more = f" and {len(fitting) - _SHOWN} more" if len(fitting) > _SHOWN else ""
        raise InvalidProgram(
            f"an artifact does not name the buffers of its values, and buffer {buffer.name!r} of node {self._node.name!r} "
            f"fits {shown}{more} of them",
            fix=RUN_THE_GRAPH,
        )
