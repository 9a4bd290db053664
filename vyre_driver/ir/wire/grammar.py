"""The grammar of the wire format, from the layouts of terms: for the scan that proves bytes, and the reader that creates terms.

Source: spec items 1.1, 1.5 and 1.6.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from vyre_driver.ir import dtypes, layout
from vyre_driver.ir import expressions as ex
from vyre_driver.ir import nodes as nd
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.layout import Step
from vyre_driver.ir.operators import CollectiveOp, MemoryOrdering, OpaqueOp, SubgroupOp
from vyre_driver.ir.quantization import QuantizationScale, QuantizationZeroPoint, ScaleKind, ZeroPointKind
from vyre_driver.ir.terms import Term
from vyre_driver.ir.wire import format as wire_format
from vyre_driver.ir.wire._scan import Grammar
from vyre_driver.ir.wire.format import Cursor, refuse_bytes

if TYPE_CHECKING:
    import enum
    from collections.abc import Callable, Mapping


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
