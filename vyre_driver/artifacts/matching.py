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
    from collections.abc import Sequence

    from vyre_driver.artifacts.neutral import ArtifactNode, Resource
    from vyre_driver.ir.buffers import BufferDecl
    from vyre_driver.ir.dtypes import DataType

RUN_THE_GRAPH = "run the graph (VGR0) that it was compiled from"

_READ_ONLY = frozenset({BufferAccess.READ_ONLY, BufferAccess.UNIFORM})
_SHOWN = 4  # of the values that fit, in a message


def matched_buffers(node: ArtifactNode, resources: Sequence[Resource]) -> tuple[dict[str, int], dict[str, int]]:
    """Return the number of the value of each buffer that a node reads, and of each that it makes.

    Raises
    ------
    InvalidProgram
        If a buffer fits several values, or none.
    UnsupportedFeature
        As ``external_buffers``.
    """
    declared = {buffer.name: buffer for buffer in node.program.buffers}
    buffers = sorted([declared[name] for name in external_buffers(node.program, node.name)], key=lambda each: each.binding)
    read, written = _by_role(node, buffers, {resources[number].name for number in node.outputs})
    if (len(read), len(written)) != (len(node.inputs), len(node.outputs)):
        raise InvalidProgram(
            f"node {node.name!r} takes {len(node.inputs)} values and makes {len(node.outputs)}, and its program has "
            f"{len(read)} buffers to read and {len(written)} outputs",
            fix=RUN_THE_GRAPH,
        )
    return _matched(node, read, node.inputs, resources), _matched(node, written, node.outputs, resources)


def _by_role(node: ArtifactNode, buffers: Sequence[BufferDecl], made: set[str]) -> tuple[list[BufferDecl], list[BufferDecl]]:
    """Return the buffers that the node reads, and those that it makes.

    One that is read and written, and no declared output, is made where values would have no buffer otherwise.
    """
    read = [buffer for buffer in buffers if buffer.access in _READ_ONLY]
    outputs = [buffer for buffer in buffers if buffer.access not in _READ_ONLY and _is_output(buffer)]
    are_outputs_missing, are_inputs_complete = len(outputs) < len(node.outputs), len(read) == len(node.inputs)
    written = [
        buffer
        for buffer in buffers
        if buffer.access not in _READ_ONLY
        and (_is_output(buffer) or (are_outputs_missing and (are_inputs_complete or buffer.name in made)))
    ]
    names = {buffer.name for buffer in written}
    return [buffer for buffer in buffers if buffer.name not in names], written


def _is_output(buffer: BufferDecl) -> bool:
    return buffer.is_output or buffer.access is BufferAccess.WRITE_ONLY


def _matched(
    node: ArtifactNode, buffers: Sequence[BufferDecl], numbers: Sequence[int], resources: Sequence[Resource]
) -> dict[str, int]:
    """Return the value of each buffer, which are in the order of their bindings."""
    values: dict[tuple[DataType, int | None], list[int]] = {}
    for number in numbers:
        resource = resources[number]
        values.setdefault((resource.element, resource.element_count), []).append(number)
        values.setdefault((resource.element, None), []).append(number)
    named = {resources[number].name: place for place, number in enumerate(numbers)}
    last: dict[DataType, int] = {}  # the place of the value of the buffer before
    matched: dict[int, str] = {}
    for buffer in buffers:
        fitting = values.get((buffer.element, buffer.count or None), [])
        number = fitting[0] if len(fitting) == 1 else None
        if number is None and buffer.name in named:
            place = named[buffer.name]
            is_fit = resources[numbers[place]].element == buffer.element
            is_fit = is_fit and buffer.count in (0, resources[numbers[place]].element_count)
            if is_fit and place > last.get(buffer.element, -1):
                number, last[buffer.element] = numbers[place], place
        if number is None or number in matched:
            _refuse(node, buffer, [resources[fit].name for fit in fitting])
        matched[number] = buffer.name
    return {name: number for number, name in matched.items()}


def _refuse(node: ArtifactNode, buffer: BufferDecl, fitting: list[str]) -> NoReturn:
    shown = ", ".join(map(repr, fitting[:_SHOWN])) or "none"
    more = f" and {len(fitting) - _SHOWN} more" if len(fitting) > _SHOWN else ""
    raise InvalidProgram(
        f"an artifact does not name the buffers of its values, and buffer {buffer.name!r} of node {node.name!r} "
        f"fits {shown}{more} of them",
        fix=RUN_THE_GRAPH,
    )
