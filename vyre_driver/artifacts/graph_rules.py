"""The rules of a graph, which upstream's ProgramGraph checks when a node is added."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NoReturn

from vyre_driver.artifacts.parts import Contract, GraphNode, GraphValue, Lifetime
from vyre_driver.checks import U64_MAX
from vyre_driver.errors import InvalidProgram
from vyre_driver.ir.buffers import BufferAccess
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.fields import brief, encoded_text, instance, refuse
from vyre_driver.ir.program import Program

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vyre_driver.artifacts.parts import GraphInput, GraphOutput
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
        refuse(f"the access of {what} is {brief(contract.access)}", f"give {', '.join(access.name for access in _ALLOWED)}")
    for extent in contract.shape:
        if isinstance(extent, str):
            encoded_text(extent, f"a symbol in the shape of {what}")
        elif type(extent) is not int or not 0 <= extent <= U64_MAX:
            refuse(f"the shape {brief(contract.shape)} has an extent that is no u64", "give numbers from 0 to 2**64 - 1")


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
