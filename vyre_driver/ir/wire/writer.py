"""Encode programs as the wire container, format 6 or 4.

Two functions: :func:`canonical_container` writes what upstream's encoder writes (0.7.2's, or 0.6.2's), which is what the
fingerprint is made of; it cannot express all of a program. :func:`refuse_losses` refuses what would be lost, so that no program
changes its meaning.

Source: spec items 3.4 (canonical form) and 3.5 (container); upstream 0.7, sections 1.1 and 1.2.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from blake3 import blake3

from vyre_driver.ir import dtypes
from vyre_driver.ir.buffers import BufferAccess, BufferDecl, LinearType, MemoryHints, canonical_place, output_places
from vyre_driver.ir.canonical import canonical_bytes, canonical_bytes_of_format_4, effects_out_of_order
from vyre_driver.ir.expressions import BufferRef, Call, Cast, OpaqueExpr, SubgroupReduce
from vyre_driver.ir.fields import encoded_text, refuse
from vyre_driver.ir.nodes import Node, OpaqueNode, op_id, spliced
from vyre_driver.ir.operators import SubgroupOp
from vyre_driver.ir.terms import Term, Traits, large_terms_within, terms_within
from vyre_driver.ir.wire import format as wire_format
from vyre_driver.ir.wire.format import leb, predicate_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vyre_driver.ir.program import Program

_HEADER = struct.Struct("<4sHH")
_THREE_U32 = struct.Struct("<III")
_TWO_U32 = struct.Struct("<II")
_U32 = struct.Struct("<I")
_PARAMETER_IN_SHAPE = frozenset({dtypes.ARRAY, dtypes.HANDLE, dtypes.OPAQUE})


def canonical_container(program: Program, version: int = wire_format.VERSION) -> bytes:
    """Return the container of the canonical form; what the format has no place for is not in it.

    Raises
    ------
    InvalidProgram
        If upstream's encoder refuses the program: a workgroup dimension of 0; a workgroup or live-out buffer of 0
        elements; an output range that is reversed or passes the buffer; a sparse or mesh element; an illegal
        quantization; a limit of the format. Or if format 4 has no name for a term: another subgroup reduction than a sum,
        a reference to a buffer.
    """
    if 0 in program.workgroup_size:
        refuse(f"the workgroup size {program.workgroup_size} has a 0", "give 1 or more along each axis")
    if len(program.buffers) > wire_format.MAX_BUFFERS:
        _over("buffers", len(program.buffers), wire_format.MAX_BUFFERS)
    for buffer in program.buffers:
        check_buffer(buffer)
    parts = sum(buffer.shape_predicate.size for buffer in program.buffers if buffer.shape_predicate is not None)
    if parts > wire_format.MAX_PREDICATE_PARTS and version >= wire_format.REQUIREMENTS_SINCE:
        _over("parts of shape predicates", parts, wire_format.MAX_PREDICATE_PARTS)
    check_limits(program.entry)
    is_old = version < wire_format.REQUIREMENTS_SINCE
    if is_old:
        _check_terms_of_format_4(program.entry)
    encode = canonical_bytes_of_format_4 if is_old else canonical_bytes
    buffers = sorted(program.buffers, key=canonical_place)
    records = [_record(wire_format.METADATA_OP, _metadata(program, buffers, version))]
    records.extend(_record(op_id(node), encode(node)) for node in spliced(program.entry))
    outputs = output_places(buffers)
    body = b"".join(
        [
            leb(len(records)),
            *records,
            leb(len(buffers)),
            *(_region(place, buffer) for place, buffer in enumerate(buffers)),
            leb(len(outputs)),
            *map(leb, outputs),
        ]
    )
    header = _HEADER.pack(wire_format.MAGIC, version, wire_format.ENDIAN_FIXED)
    if len(header) + 32 + len(body) > wire_format.MAX_CONTAINER_BYTES:
        _over("bytes", len(body), wire_format.MAX_CONTAINER_BYTES)
    return header + blake3(body).digest() + body


def refuse_losses(program: Program, version: int = wire_format.VERSION) -> None:
    """Refuse a program of which the format would lose or change something that it means.

    Raises
    ------
    InvalidProgram
        For a buffer with an element type whose parameters are not carried (vec, shaped tensor), and in format 4 for one
        with bytes_extraction, a linear type or a shape predicate; for a float literal that is a negative zero; for an
        operator whose operands the canonical order swaps although one may change what the other reads.
    """
    for buffer in program.buffers:
        for lost, fix in _lost_fields(buffer, version):
            refuse(f"wire format {version} has no place for {lost} of buffer {buffer.name!r}", fix, buffer=buffer.name)
    if not all(node.traits & Traits.SIGNED for node in program.entry):
        refuse(
            "the wire format drops the sign of the literal -0.0", "write Negate of 0.0, or 0.0 where the sign does not matter"
        )
    if all(node.traits & Traits.ORDER_SAFE for node in program.entry):
        return
    swapped = effects_out_of_order(program.entry)
    if swapped is not None:
        refuse(
            f"the wire format would swap the operands of {swapped!r}, of which one may change what the other reads",
            "bind the operand that comes first with let",
        )


def _check_terms_of_format_4(nodes: tuple[Node, ...]) -> None:
    """Refuse terms that format 4 has no name for, as upstream's 0.6.2 writes it."""
    for term in terms_within(*nodes):
        if isinstance(term, BufferRef):
            lost = f"the reference to buffer {term.buffer!r}"
        elif isinstance(term, SubgroupReduce) and term.op is not SubgroupOp.ADD:
            lost = f"a subgroup reduction by {term.op.name}"
        else:
            continue
        refuse(f"wire format 4 has no place for {lost}", f"write format {wire_format.VERSION}")


def check_limits(nodes: tuple[Node, ...]) -> None:
    """Refuse nodes that a reader of the format would refuse for their number, nesting or size.

    Raises
    ------
    InvalidProgram
        If there are too many, they nest too deeply, or take too many bytes; names the number and the limit.
    """
    count = sum(node.node_count for node in nodes)
    if count > wire_format.MAX_NODES:
        _over("nodes", count, wire_format.MAX_NODES)
    terms = sum(node.term_count for node in nodes)
    if terms > wire_format.MAX_TERMS:
        _over("nodes and expressions", terms, wire_format.MAX_TERMS)
    nesting = max((node.nesting for node in nodes), default=0)
    if nesting > wire_format.MAX_NESTING:
        _over("levels of nodes", nesting, wire_format.MAX_NESTING)
    depth = max((node.expression_depth for node in nodes), default=0)
    if depth > wire_format.MAX_EXPRESSION_DEPTH:
        _over("levels of expressions", depth, wire_format.MAX_EXPRESSION_DEPTH)
    for term in large_terms_within(*nodes):
        _check_fields(term)


def _check_fields(term: Term) -> None:
    if isinstance(term, Call) and len(term.args) > wire_format.MAX_CALL_ARGS:
        _over("arguments of a call", len(term.args), wire_format.MAX_CALL_ARGS)
    if isinstance(term, OpaqueExpr | OpaqueNode) and len(term.payload) > wire_format.MAX_PAYLOAD_BYTES:
        _over("bytes of an opaque payload", len(term.payload), wire_format.MAX_PAYLOAD_BYTES)
    if isinstance(term, Cast):
        _check_axes(term.target)
    for slot in term.__match_args__:
        value = getattr(term, slot, None)
        if isinstance(value, str):
            _check_text(value)


def _check_axes(dtype: dtypes.DataType | None) -> None:
    while dtype is not None:
        if dtype.wire_tag in {dtypes.TENSOR_SHAPED, dtypes.DEVICE_MESH} and len(dtype.parameters) > wire_format.MAX_AXES:
            _over("dimensions of a data type", len(dtype.parameters), wire_format.MAX_AXES)
        dtype = dtype.element


def _over(what: str, number: int, limit: int) -> None:
    refuse(f"the program has {number} {what}, over the wire format's limit of {limit}", "split it", value=number, limit=limit)


def _check_text(text: str) -> None:
    if len(text) * 4 > wire_format.MAX_STRING_BYTES and len(text.encode()) > wire_format.MAX_STRING_BYTES:
        _over("bytes of a text", len(text.encode()), wire_format.MAX_STRING_BYTES)


def check_buffer(buffer: BufferDecl) -> None:
    """Refuse a buffer that upstream's encoder refuses, and its decoder too.

    Raises
    ------
    InvalidProgram
        If it is workgroup memory or lives on after the program and has 0 elements; has an element type that is not carried;
        or an output range that is reversed or passes it.
    """
    what, element = f"buffer {buffer.name!r}", buffer.element
    _check_text(buffer.name)
    if buffer.count == 0 and buffer.access is BufferAccess.WORKGROUP:
        refuse(f"{what} is workgroup memory of 0 elements", "give it a count", buffer=buffer.name)
    if buffer.count == 0 and buffer.pipeline_live_out:
        refuse(f"{what} lives on after the program and has 0 elements", "give it a count", buffer=buffer.name)
    if element.wire_tag in wire_format.REFUSED_ELEMENTS:
        refuse(
            f"{what} has elements of {element}, which the wire format does not carry", "use dense elements", buffer=buffer.name
        )
    problem = dtypes.wire_problem(element)
    if problem is not None:
        refuse(f"{what} cannot be encoded: {problem}", "use a storage that is allowed", buffer=buffer.name)
    if buffer.output_byte_range is not None:
        start, end = buffer.output_byte_range
        size = buffer.static_byte_len()
        if start > end or (size is not None and end > size):
            known = "of unknown size" if size is None else f"of {size} bytes"
            refuse(f"{what} {known} has the output range {start} to {end}", "give start <= end within it", buffer=buffer.name)


def _lost_fields(buffer: BufferDecl, version: int) -> Iterator[tuple[str, str]]:
    """Yield what a format does not carry of a buffer, and what to do."""
    if version < wire_format.REQUIREMENTS_SINCE:
        fix = f"write format {wire_format.VERSION}, or declare the buffer without it"
        if buffer.bytes_extraction:
            yield "bytes_extraction", fix
        if buffer.linear_type is not LinearType.UNRESTRICTED:
            yield f"the linear type {buffer.linear_type.name}", fix
        if buffer.shape_predicate is not None:
            yield f"the shape predicate {buffer.shape_predicate.describe()}", fix
    inner: dtypes.DataType | None = buffer.element
    if inner is not None and inner.wire_tag in wire_format.LOSSY_ELEMENTS:
        yield f"the parameters of the element type {inner}", "declare the buffer with another element type, or carry it beside"


def _record(op: str, payload: bytes) -> bytes:
    name = op.encode()
    return leb(len(name)) + name + leb(len(payload)) + payload + b"\0"


def _metadata(program: Program, buffers: list[BufferDecl], version: int) -> bytes:
    op = program.entry_op_id
    if op is not None:
        _check_text(op)
    return b"".join(
        [
            wire_format.METADATA_MAGIC,
            b"\0" if op is None else b"\1" + encoded_text(op, "the op id"),
            _THREE_U32.pack(*program.workgroup_size),
            bytes((program.non_composable_with_self,)),
            leb(len(buffers)),
            *(_buffer_metadata(buffer) + requirements_bytes(buffer, version) for buffer in buffers),
        ]
    )


def _buffer_metadata(buffer: BufferDecl) -> bytes:
    byte_range = buffer.output_byte_range
    return b"".join(
        [
            encoded_text(buffer.name, "the name of a buffer"),
            _TWO_U32.pack(buffer.binding, buffer.count),
            bytes((buffer.is_output, buffer.pipeline_live_out)),
            b"\0" if byte_range is None else b"\1" + leb(byte_range[0]) + leb(byte_range[1]),
            hints_bytes(buffer.hints),
        ]
    )


def requirements_bytes(buffer: BufferDecl, version: int) -> bytes:
    """Return what a buffer's metadata has since format 6: how often it is named, how it is accessed, and of what size it is."""
    if version < wire_format.REQUIREMENTS_SINCE:
        return b""
    return bytes((buffer.linear_type.value, buffer.bytes_extraction)) + predicate_bytes(buffer.shape_predicate)


def hints_bytes(hints: MemoryHints) -> bytes:
    """Return memory hints as they stand in both tables."""
    axis = b"\0" if hints.coalesce_axis is None else bytes((1, hints.coalesce_axis))
    return axis + _U32.pack(hints.preferred_alignment) + bytes((hints.cache_locality.wire_tag,))


def shape_bytes(buffer: BufferDecl) -> bytes:
    """Return count and parameters of the element type as they stand in the table of memory regions."""
    element = buffer.element
    numbers = [buffer.count]
    if element.wire_tag in _PARAMETER_IN_SHAPE:
        numbers.extend(element.parameters)
    elif element.element is not None and element.scale is not None and element.zero_point is not None:
        scale, zero_point = element.scale, element.zero_point
        numbers.append(element.element.wire_tag)
        numbers.extend((scale.kind.value, scale.parameter, zero_point.kind.value, zero_point.parameter))
    return b"".join(map(leb, numbers))


def _region(place: int, buffer: BufferDecl) -> bytes:
    shape, hints = shape_bytes(buffer), hints_bytes(buffer.hints)
    tags = bytes((buffer.kind.wire_tag, buffer.access.wire_tag, buffer.element.wire_tag, 0))
    return leb(place) + tags + leb(len(shape)) + shape + leb(len(hints)) + hints
