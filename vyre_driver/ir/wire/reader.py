"""Decode programs from the wire container, formats 4 to 7; the bytes are untrusted.

Every number is checked before something is made of it: a count against the bytes that are left, a text against its limit, a
nesting against its own. So hostile bytes cost no more than a few times their size, and end in InvalidContainer.

The grammar is made of the layouts of terms: for the scan that proves bytes, and for what creates terms of them.

Source: spec items 1.1, 1.5, 1.6 and 3.5; upstream 0.7, section 1.1.
"""

from __future__ import annotations

import struct
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from blake3 import blake3

from vyre_driver.errors import InvalidContainer, InvalidProgram
from vyre_driver.ir import dtypes, layout
from vyre_driver.ir import expressions as ex
from vyre_driver.ir import nodes as nd
from vyre_driver.ir.buffers import BufferAccess, BufferDecl, CacheLocality, LinearType, MemoryHints, MemoryKind, output_places
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.expressions import Expr, SubgroupAdd, SubgroupReduce
from vyre_driver.ir.fields import instance
from vyre_driver.ir.layout import Step
from vyre_driver.ir.operators import CollectiveOp, MemoryOrdering, OpaqueOp, SubgroupOp
from vyre_driver.ir.quantization import QuantizationScale, QuantizationZeroPoint, ScaleKind, ZeroPointKind
from vyre_driver.ir.terms import KEY_BYTES, Term, Traits
from vyre_driver.ir.wire import format as wire_format
from vyre_driver.ir.wire._scan import Grammar, Walk
from vyre_driver.ir.wire._terms import TermMaker
from vyre_driver.ir.wire.format import Cursor, read_predicate, refuse_bytes
from vyre_driver.ir.wire.writer import check_buffer, hints_bytes, shape_bytes

if TYPE_CHECKING:
    import enum
    from collections.abc import Callable, Iterator, Mapping

    from vyre_driver.ir.nodes import Node
    from vyre_driver.ir.predicates import ShapePredicate


class Fault:
    """The numbers of _scan.pxd: what a walk found."""

    WHOLE, CUT, UNKNOWN_TAG, NO_FLAG, NO_UTF8, TOO_LONG, TOO_DEEP, TOO_MANY, TOO_FEW_LEFT, NO_ZERO = range(10)


_NO_TYPE, _FIXED, _LIST, _QUANTIZED = range(4)  # how a data type goes on after its tag


def _read_source(cursor: Cursor) -> str | None:
    return cursor.text("a name") if cursor.flag("whether there is a source region") else None


def _read_opaque_operator(cursor: Cursor) -> OpaqueOp:
    cursor.at += 1
    return OpaqueOp(cursor.u32("the id of an operator"))


def read_dtype(cursor: Cursor) -> DataType:
    """Return the data type that stands at the cursor; nested ones are read by a loop.

    Raises
    ------
    InvalidContainer
        If there is none.
    """
    outer: list[int] = []
    while True:
        if len(outer) >= dtypes.MAX_TYPE_NESTING:
            refuse_bytes(f"a data type nests deeper than {dtypes.MAX_TYPE_NESTING}", cursor.at)
        tag = cursor.u8("the tag of a data type")
        if not dtypes.has_element(tag):
            break
        outer.append(tag)
    dtype = _with_parameters(cursor, tag, None)
    for tag in reversed(outer):
        dtype = _with_parameters(cursor, tag, dtype)
    return dtype


def _with_parameters(cursor: Cursor, tag: int, element: DataType | None) -> DataType:
    at = cursor.at
    if tag == dtypes.QUANTIZED and element is not None:
        scale = QuantizationScale(cursor.member(SCALES, "a scale"), cursor.u32("a scale's parameter"))
        zero = QuantizationZeroPoint(cursor.member(ZERO_POINTS, "a zero point"), cursor.u32("a zero point's parameter"))
        return DataType.quantized(element, scale, zero)
    if tag in {dtypes.TENSOR_SHAPED, dtypes.DEVICE_MESH}:
        count = cursor.u32("the number of dimensions")
        if count > wire_format.MAX_AXES:
            refuse_bytes(f"a data type has {count} dimensions, over the limit of {wire_format.MAX_AXES}", at)
        if 4 * count > cursor.end - cursor.at:
            refuse_bytes(f"a data type of {count} dimensions is announced and {cursor.end - cursor.at} bytes are left", at)
        return DataType(tag, element, tuple(cursor.u32("a dimension") for _ in range(count)))
    if tag == dtypes.VEC:
        return DataType(tag, element, (cursor.u8("the count of a vector"),))
    parameters = dtypes.parameter_count(tag)
    if parameters is None:
        refuse_bytes(f"{tag:#04x} is not a tag of a data type", at - 1)
    return DataType(tag, element, tuple(cursor.u32("the parameter of a data type") for _ in range(parameters)))


SCALES: Mapping[int, ScaleKind] = {kind.value: kind for kind in ScaleKind}
ZERO_POINTS: Mapping[int, ZeroPointKind] = {kind.value: kind for kind in ZeroPointKind}
TABLES: list[Mapping[int, enum.Enum]] = [
    *({one.wire_tag: one for one in table} for table in layout.TABLES),
    # After each table of kinds, that of those without parameter.
    SCALES,
    {0: ScaleKind.PER_TENSOR},
    ZERO_POINTS,
    {kind.value: kind for kind in (ZeroPointKind.ABSENT, ZeroPointKind.PER_TENSOR)},
]
_SCALE_TABLE, _ZERO_POINT_TABLE = TABLES.index(SCALES), TABLES.index(ZERO_POINTS)

# Every class of term, and the kinds of its fields.
PLANS: dict[type[Term], layout.Layout] = {
    cls: cls._layout
    for cls in {**vars(ex), **vars(nd)}.values()
    if isinstance(cls, type) and issubclass(cls, Term) and hasattr(cls, "wire_tag")
}
# What reads a field that _terms does not read itself; of operators only those of extensions.
READERS: dict[int, Callable[[Cursor], Any]] = {
    Step.U64: lambda cursor: cursor.u64("a number"),
    Step.FLAG: lambda cursor: cursor.flag("a bool literal"),
    Step.SOURCE: _read_source,
    Step.PAYLOAD: lambda cursor: cursor.payload("an opaque payload"),
    Step.DTYPE: read_dtype,
    **{Step.OPERATOR + place: _read_opaque_operator for place in range(len(layout.TABLES))},
}
# What messages call a field.
_WHAT = {
    **dict.fromkeys((Step.U32, Step.I32, Step.U64), "a number"),
    Step.U8: "an axis",
    Step.FLAG: "a bool literal",
    Step.TEXT: "a name",
    Step.SOURCE: "the name of a source region",
    Step.PAYLOAD: "an opaque payload",
    Step.DTYPE: "a data type",
    Step.EXPRESSION: "an expression",
    Step.OPTIONAL: "an expected value",
    Step.ARGUMENTS: "arguments",
    Step.BODY: "nodes",
    Step.NODE: "a node",
    Step.MEMBER + layout.TABLES.index(CollectiveOp): "a collective operator",
    Step.MEMBER + layout.TABLES.index(MemoryOrdering): "a memory ordering",
    Step.MEMBER + layout.TABLES.index(SubgroupOp): "the operator of a subgroup reduction",
    Step.MEMBER + _SCALE_TABLE: "a scale",
    Step.MEMBER + _ZERO_POINT_TABLE: "a zero point",
    **{Step.OPERATOR + place: "an operator" for place in range(len(layout.TABLES))},
}


def _type_rows() -> list[tuple[int, int, int, bool]]:
    """Return tag, form, bytes after it and whether it is made of another type, for each data type."""
    rows = []
    for tag in range(256):
        parameters = dtypes.parameter_count(tag)
        form, byte_len = _FIXED, 4 * (parameters or 0)
        if parameters is None:
            form = _NO_TYPE
        elif tag == dtypes.QUANTIZED:
            form = _QUANTIZED
        elif tag in {dtypes.TENSOR_SHAPED, dtypes.DEVICE_MESH}:
            form = _LIST
        elif tag == dtypes.VEC:
            byte_len = 1
        rows.append((tag, form, byte_len, dtypes.has_element(tag)))
    return rows


def _grammar(plans: Mapping[type[Term], layout.Layout]) -> Grammar:
    rows = [(issubclass(cls, nd.Node), cls.wire_tag, [kind.step for kind in plan]) for cls, plan in plans.items()]
    return Grammar(rows, TABLES, _type_rows(), _SCALE_TABLE, _ZERO_POINT_TABLE)


GRAMMAR = _grammar(PLANS)
GRAMMAR_OF_SUMS = _grammar(PLANS | {ex.SubgroupReduce: (layout.EXPRESSION,)})
"""That of format 4 up to upstream's 0.6.3, in which a subgroup reduction is a sum."""
_PROBLEMS = {
    Fault.CUT: "{what} takes {number} bytes and {limit} are left",
    Fault.UNKNOWN_TAG: "{what} has the unknown tag {number:#04x}",
    Fault.NO_FLAG: "whether {what} follows is {number}, neither 0 nor 1",
    Fault.NO_UTF8: "{what} is not UTF-8",
    Fault.TOO_LONG: "{what} has {number} bytes, over the limit of {limit}",
    Fault.TOO_DEEP: "terms nest deeper than {limit}",
    Fault.TOO_MANY: "there are {number} {what}, over the limit of {limit}",
    Fault.TOO_FEW_LEFT: "{number} {what} are announced and {limit} bytes are left",
    Fault.NO_ZERO: "{what} without axis and group has the parameter {number}",
}
_PROBLEMS_OF = {  # where a step wants another text
    (Fault.UNKNOWN_TAG, Step.DTYPE): "{number:#04x} is not a tag of a data type",
    (Fault.NO_FLAG, Step.FLAG): "{what} is {number}, neither 0 nor 1",
    (Fault.TOO_DEEP, Step.EXPRESSION): "expressions nest deeper than {limit}",
    (Fault.TOO_DEEP, Step.NODE): "nodes nest deeper than {limit}",
    (Fault.TOO_DEEP, Step.DTYPE): "a data type nests deeper than {limit}",
    (Fault.TOO_MANY, Step.NODE): "there are more than {limit} nodes",
    (Fault.TOO_MANY, 0): "there are more than {limit} nodes and expressions",
    (Fault.TOO_MANY, Step.DTYPE): "a data type has {number} dimensions, over the limit of {limit}",
    (Fault.TOO_FEW_LEFT, Step.DTYPE): "{number} dimensions of a data type are announced and {limit} bytes are left",
}


def limits() -> tuple[int, ...]:
    """Return the limits of a walk, in the order of ``vyre_wire_limits``."""
    return (
        wire_format.MAX_NODES,
        wire_format.MAX_TERMS,
        wire_format.MAX_NESTING,
        wire_format.MAX_EXPRESSION_DEPTH,
        dtypes.MAX_TYPE_NESTING,
        wire_format.MAX_CALL_ARGS,
        wire_format.MAX_STRING_BYTES,
        wire_format.MAX_PAYLOAD_BYTES,
        wire_format.MAX_AXES,
    )


def refuse_fault(fault: int, at: int, wanted: int, number: int, limit: int) -> NoReturn:
    """Raise InvalidContainer (2105) for what a walk found at byte ``at``."""
    problem = _PROBLEMS_OF.get((fault, wanted), _PROBLEMS[fault])
    if fault == Fault.CUT and number == 1:
        problem = "{what} is missing: the bytes end"
    refuse_bytes(problem.format(what=_WHAT.get(wanted, "a term"), number=number, limit=limit), at)


_KINDS = {kind.wire_tag: kind for kind in MemoryKind}
_ACCESSES = {access.wire_tag: access for access in BufferAccess}
_LINEAR_TYPES = {kind.value: kind for kind in LinearType}
_LOCALITIES = {locality.wire_tag: locality for locality in CacheLocality}
_IS_NODE = 1 << 8  # beside the tag, in what a walk calls a term
_CLASSES: dict[int, type[Any]] = {cls.wire_tag + _IS_NODE * issubclass(cls, nd.Node): cls for cls in PLANS}
_ONE_NUMBER = frozenset({dtypes.ARRAY, dtypes.HANDLE, dtypes.OPAQUE})


class ProgramFields(NamedTuple):
    """The fields of a container, in the order of a Program's fields."""

    buffers: tuple[BufferDecl, ...]
    workgroup_size: tuple[int, int, int]
    entry: tuple[Node, ...]
    entry_op_id: str | None
    non_composable_with_self: bool


class _Metadata(NamedTuple):
    op_id: str | None
    workgroup_size: tuple[int, int, int]
    non_composable: bool
    buffers: list[_BufferMetadata]


class _BufferMetadata(NamedTuple):
    name: str
    binding: int
    elements: int
    is_output: bool
    live_out: bool
    byte_range: tuple[int, int] | None
    hints: MemoryHints
    linear_type: LinearType
    bytes_extraction: bool
    shape_predicate: ShapePredicate | None


class TermReader:
    """Reads the nodes of one program; short terms that are written alike become one object.

    A scan in C proves a node first, so that invalid bytes cost no memory; then its terms are created, the inner ones first.
    """

    def __init__(self, data: bytes, version: int, sums: list[Expr] | None = None) -> None:
        """Read from these bytes; where subgroup reductions have no operator, ``sums`` takes their values."""
        self._cursor = Cursor(data)
        self._version = version
        self._walk = Walk(GRAMMAR if sums is None else GRAMMAR_OF_SUMS, data, limits())
        classes: dict[int, Callable[..., Any]] = {**_CLASSES}
        if sums is not None:
            classes[SubgroupReduce.wire_tag] = partial(_sum, sums)
        self._maker = TermMaker(self._walk, self._cursor, classes, TABLES, READERS, KEY_BYTES, Traits.PLAIN)

    def check(self, at: int, end: int) -> int:
        """Prove that a node stands at byte ``at``, and count it; returns the byte after it, ``end`` at most.

        Raises
        ------
        InvalidContainer
            If there is none, or it passes a limit of the format.
        """
        fault, stopped, wanted, number, limit = self._walk.check(at, end)
        if fault:
            if self._version >= wire_format.TILES_SINCE and wanted == Step.NODE and number in wire_format.TILE_NODES:
                refuse_bytes(f"the node {wire_format.TILE_NODES[number]} of tiles is not read", stopped)
            refuse_fault(fault, stopped, wanted, number, limit)
        return stopped

    def op_id(self, at: int) -> str:
        """Return the id of the operation that the checked node at byte ``at`` is."""
        cls = _CLASSES[_IS_NODE + self._cursor.data[at]]
        if cls is not nd.OpaqueNode:
            return str(cls.op_id)
        self._cursor.at = at + 1
        return self._cursor.text("a name")

    def node(self, at: int, end: int) -> Node:
        """Return the checked node at byte ``at``.

        Raises
        ------
        InvalidProgram
            If a field of it cannot be so.
        """
        return self._maker.make(at, end)  # type: ignore[no-any-return]


def read_container(data: bytes, *, subgroup_sums: bool | None = None) -> ProgramFields:
    """Return the fields of a container of format 4 to 7.

    In format 4 a subgroup reduction has no operator up to upstream's 0.6.3, and one since 0.6.4, and nothing says which.
    ``subgroup_sums`` says that it has none (True) or one (False); None tries both.

    Raises
    ------
    InvalidContainer
        If the bytes are no such container, wholly and with the digest they give, or can be read both ways.
    InvalidProgram
        If what it says is not a field of a program, or is a buffer that no encoder writes.
    """
    if not isinstance(data, bytes | bytearray | memoryview):
        refuse_bytes(f"a container is bytes, not {type(data).__name__}", 0)
    if subgroup_sums is not None:
        instance(subgroup_sums, bool, "subgroup_sums")
    data = bytes(data)
    version = _checked_version(data)
    if version > wire_format.WITHOUT_REQUIREMENTS or subgroup_sums is False:
        return _read(data, version)
    return _read(data, version, []) if subgroup_sums else _read_either_way(data, version)


def _read_either_way(data: bytes, version: int) -> ProgramFields:
    """Return the fields of a container of either way of writing subgroup reductions; refuse one that is of both."""
    sums: list[Expr] = []
    as_sums = _tried(data, version, sums)
    if not sums and isinstance(as_sums, ProgramFields):
        return as_sums
    with_operators = _tried(data, version)
    if isinstance(as_sums, InvalidProgram):
        if isinstance(with_operators, InvalidProgram):
            raise as_sums
        return with_operators
    if isinstance(with_operators, InvalidProgram):
        return as_sums
    raise InvalidContainer(
        "the bytes are of wire format 4, and their subgroup reductions can be read with an operator and without one",
        fix="give subgroup_sums=True for what upstream up to 0.6.3 or vyre_driver 0.2 wrote, False for what 0.6.4 or 0.6.5 did",
        offset=4,
    )


def _tried(data: bytes, version: int, sums: list[Expr] | None = None) -> ProgramFields | InvalidProgram:
    """Return the fields, or the error, which holds nothing of what was read."""
    try:
        return _read(data, version, sums)
    except InvalidProgram as error:
        return error.with_traceback(None)


def _read(data: bytes, version: int, sums: list[Expr] | None = None) -> ProgramFields:
    cursor = Cursor(data, wire_format.HEADER_BYTES)
    records = cursor.count("records", least_bytes=3)
    if records == 0:
        refuse_bytes("there is no record for the metadata", cursor.at)
    metadata = _read_metadata(cursor, version)
    terms = TermReader(cursor.data, version, sums)
    nodes_at = cursor.at
    for _ in range(records - 1):
        _check_node(cursor, terms)
    buffers = _read_regions(cursor, metadata.buffers)
    _check_outputs(cursor, buffers)
    if cursor.at != cursor.end:
        refuse_bytes(f"{cursor.end - cursor.at} bytes follow the program", cursor.at)
    cursor.at = nodes_at
    entry = tuple(_read_node(cursor, terms) for _ in range(records - 1))
    return ProgramFields(buffers, metadata.workgroup_size, entry, metadata.op_id, metadata.non_composable)


def _checked_version(data: bytes) -> int:
    """Return the format of a container whose header is right."""
    if len(data) > wire_format.MAX_CONTAINER_BYTES:
        refuse_bytes(f"the container has {len(data)} bytes, over the limit of {wire_format.MAX_CONTAINER_BYTES}", 0)
    if len(data) < wire_format.HEADER_BYTES:
        refuse_bytes(f"the container has {len(data)} bytes, fewer than its header of {wire_format.HEADER_BYTES}", 0)
    magic, version, flags = struct.unpack_from("<4sHH", data)
    if magic != wire_format.MAGIC:
        refuse_bytes(f"it begins with {magic!r}, not with {wire_format.MAGIC!r}", 0)
    if not wire_format.OLDEST <= version <= wire_format.NEWEST:
        known = f"formats {wire_format.OLDEST} to {wire_format.NEWEST}"
        refuse_bytes(f"it is of format {version}, and this reads {known}", 4)
    if flags != wire_format.ENDIAN_FIXED:
        refuse_bytes(
            f"its flags are {flags:#06x}, and this reads {wire_format.ENDIAN_FIXED:#06x}: not compressed, not sealed", 6
        )
    if blake3(memoryview(data)[wire_format.HEADER_BYTES :]).digest() != data[8:40]:
        refuse_bytes("its body does not have the digest that the header gives", 8)
    return int(version)


def _sum(sums: list[Expr], value: Expr) -> SubgroupReduce:
    sums.append(value)
    return SubgroupAdd(value)


def _check_node(cursor: Cursor, terms: TermReader) -> None:
    """Prove that a record stands at the cursor, and pass it; nothing is made of it yet."""
    at = cursor.at
    op = cursor.leb_text("an op id")
    end = cursor.at_end_of("the payload of a record")
    start = cursor.at
    cursor.at = terms.check(start, end)
    if cursor.at != end:
        refuse_bytes(f"the node of a record ends at byte {cursor.at}, its payload at byte {end}", cursor.at)
    held = terms.op_id(start)
    if op != held:
        refuse_bytes(f"a record is said to hold {op!r} and holds {held!r}", at)
    cursor.zero("the operand count of a record")


def _read_node(cursor: Cursor, terms: TermReader) -> Node:
    """Return the node of a checked record."""
    cursor.leb_text("an op id")
    end = cursor.at_end_of("the payload of a record")
    node = terms.node(cursor.at, end)
    cursor.at = end + 1
    return node


def _read_metadata(cursor: Cursor, version: int) -> _Metadata:
    at = cursor.at
    op = cursor.leb_text("an op id")
    if op != wire_format.METADATA_OP:
        refuse_bytes(f"the first record holds {op!r}, not {wire_format.METADATA_OP!r}", at)
    end = cursor.at_end_of("the metadata")
    if cursor.take(len(wire_format.METADATA_MAGIC), "the metadata's magic") != wire_format.METADATA_MAGIC:
        refuse_bytes(f"the metadata does not begin with {wire_format.METADATA_MAGIC!r}", at)
    name = cursor.text("the op id of the program") if cursor.flag("whether there is an op id") else None
    x, y, z = cursor.u32("the workgroup size"), cursor.u32("the workgroup size"), cursor.u32("the workgroup size")
    if 0 in (x, y, z):
        refuse_bytes(f"the workgroup size {x, y, z} has a 0", cursor.at - 12)
    non_composable = cursor.flag("whether it is not composable with itself")
    count = cursor.count("buffers", least_bytes=21, limit=wire_format.MAX_BUFFERS)
    buffers = list(_read_buffers(cursor, version, count))
    if cursor.at != end:
        refuse_bytes(f"the metadata ends at byte {cursor.at}, its record at byte {end}", cursor.at)
    cursor.zero("the operand count of the metadata")
    return _Metadata(name, (x, y, z), non_composable, buffers)


def _read_buffers(cursor: Cursor, version: int, count: int) -> Iterator[_BufferMetadata]:
    parts = 0
    for _ in range(count):
        buffer = _read_buffer_metadata(cursor, version)
        parts += 0 if buffer.shape_predicate is None else buffer.shape_predicate.size
        if parts > wire_format.MAX_PREDICATE_PARTS:
            refuse_bytes(f"shape predicates have more than {wire_format.MAX_PREDICATE_PARTS} parts", cursor.at)
        yield buffer


def _read_buffer_metadata(cursor: Cursor, version: int) -> _BufferMetadata:
    name = cursor.text("the name of a buffer")
    binding, count = cursor.u32("a binding"), cursor.u32("a count")
    is_output, live_out = cursor.flag("is_output"), cursor.flag("pipeline_live_out")
    has_range = cursor.flag("whether there is an output range")
    byte_range = (cursor.leb("the start of a range"), cursor.leb("the end of a range")) if has_range else None
    axis = cursor.u8("an axis") if cursor.flag("whether there is a coalesce axis") else None
    alignment = cursor.u32("an alignment")
    locality = cursor.member(_LOCALITIES, "a cache locality")
    linear_type, extraction, predicate = LinearType.UNRESTRICTED, False, None
    if version >= wire_format.REQUIREMENTS_SINCE:
        linear_type, extraction = cursor.member(_LINEAR_TYPES, "a linear type"), cursor.flag("bytes_extraction")
        predicate = read_predicate(cursor)
    hints = MemoryHints(axis, alignment, locality)
    return _BufferMetadata(name, binding, count, is_output, live_out, byte_range, hints, linear_type, extraction, predicate)


def _read_regions(cursor: Cursor, known: list[_BufferMetadata]) -> tuple[BufferDecl, ...]:
    at = cursor.at
    count = cursor.count("memory regions", least_bytes=14, limit=wire_format.MAX_BUFFERS)
    if count != len(known):
        refuse_bytes(f"there are {count} memory regions for {len(known)} buffers", at)
    return tuple(_read_region(cursor, place, facts) for place, facts in enumerate(known))


def _read_region(cursor: Cursor, place: int, known: _BufferMetadata) -> BufferDecl:
    at = cursor.at
    if cursor.leb("the index of a memory region") != place:
        refuse_bytes(f"memory region {place} has another index", at)
    kind, access = cursor.member(_KINDS, "a memory kind"), cursor.member(_ACCESSES, "an access")
    tag = cursor.u8("the tag of an element type")
    cursor.zero("the byte after an element type")
    shape_end = cursor.at_end_of("the shape of a memory region")
    shape_start = cursor.at
    cursor.leb("a count")
    buffer = BufferDecl(
        known.name,
        known.binding,
        access,
        kind,
        _element_type(cursor, tag),
        count=known.elements,
        is_output=known.is_output,
        pipeline_live_out=known.live_out,
        output_byte_range=known.byte_range,
        hints=known.hints,
        bytes_extraction=known.bytes_extraction,
        linear_type=known.linear_type,
        shape_predicate=known.shape_predicate,
    )
    check_buffer(buffer)
    cursor.at = shape_end
    hints_end = cursor.at_end_of("the hints of a memory region")
    encoded = cursor.data[shape_start:shape_end], cursor.take(hints_end - cursor.at, "hints")
    if encoded != (shape_bytes(buffer), hints_bytes(known.hints)):
        refuse_bytes(f"memory region {place} does not say what the metadata of buffer {known.name!r} says", at)
    return buffer


def _element_type(cursor: Cursor, tag: int) -> DataType:
    if tag in wire_format.LOSSY_ELEMENTS | wire_format.REFUSED_ELEMENTS:
        refuse_bytes(f"an element type has the tag {tag:#04x}, of which the format does not carry the parameters", cursor.at)
    if tag in _ONE_NUMBER:
        return DataType(tag, parameters=(cursor.leb("the parameter of an element type"),))
    if tag != dtypes.QUANTIZED:
        return DataType(tag)
    storage = DataType(cursor.leb("the storage of a quantized type"))
    scale = QuantizationScale(cursor.leb_member(SCALES, "a scale"), cursor.leb("a scale's parameter"))
    zero = QuantizationZeroPoint(cursor.leb_member(ZERO_POINTS, "a zero point"), cursor.leb("a zero point's parameter"))
    dtype = DataType.quantized(storage, scale, zero)
    problem = dtypes.wire_problem(dtype)
    if problem is not None:
        refuse_bytes(problem, cursor.at)
    return dtype


def _check_outputs(cursor: Cursor, buffers: tuple[BufferDecl, ...]) -> None:
    at = cursor.at
    count = cursor.count("outputs", limit=wire_format.MAX_BUFFERS)
    if tuple(cursor.leb("an output") for _ in range(count)) != output_places(buffers):
        refuse_bytes("the output set is not that of the buffers that may be written", at)
