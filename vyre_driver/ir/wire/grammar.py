"""The grammar of the wire format: one table for the scan that proves bytes and for the reader that creates terms.

Source: spec items 1.1, 1.5 and 1.6.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from vyre_driver.ir import dtypes
from vyre_driver.ir import expressions as ex
from vyre_driver.ir import nodes as nd
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.operators import AtomicOp, BinOp, CollectiveOp, MemoryOrdering, OpaqueOp, UnOp
from vyre_driver.ir.quantization import QuantizationScale, QuantizationZeroPoint, ScaleKind, ZeroPointKind
from vyre_driver.ir.wire import format as wire_format
from vyre_driver.ir.wire._scan import Grammar
from vyre_driver.ir.wire.cursor import Cursor, refuse_bytes

if TYPE_CHECKING:
    import enum
    from collections.abc import Callable, Mapping

    from vyre_driver.ir.operators import Operator
    from vyre_driver.ir.terms import Term

    Reader = Callable[[Cursor], Any]


class Step(NamedTuple):
    """A field on the wire: its number in _wire_scan.pxd, what messages call it, what reads it unless it is a term."""

    code: int
    what: str
    read: Reader | None = None


class Fault:
    """Numbers of _wire_scan.pxd: what a walk found."""

    WHOLE, CUT, UNKNOWN_TAG, NO_FLAG, NO_UTF8, TOO_LONG, TOO_DEEP, TOO_MANY, TOO_FEW_LEFT, NO_ZERO = range(10)


_MEMBER, _OPERATOR = 32, 64  # and the number of a table
_NO_TYPE, _FIXED, _LIST, _QUANTIZED = range(4)  # how a data type goes on after its tag
TABLES: list[Mapping[int, Any]] = []


def _table(members: Mapping[int, enum.Enum]) -> int:
    TABLES.append(members)
    return len(TABLES) - 1


def _member(table: type[Operator], what: str) -> Step:
    known = {member.wire_tag: member for member in table}
    return Step(_MEMBER + _table(known), what, lambda cursor: cursor.member(known, what))


def _operator(table: type[Operator]) -> Step:
    known = {member.wire_tag: member for member in table}

    def read(cursor: Cursor) -> Any:  # noqa: ANN401 -- a member of the table, or an OpaqueOp
        if cursor.data[cursor.at : cursor.at + 1] == b"\x80":
            cursor.at += 1
            return OpaqueOp(cursor.u32("the id of an operator"))
        return cursor.member(known, "an operator")

    return Step(_OPERATOR + _table(known), "an operator", read)


def _read_source(cursor: Cursor) -> str | None:
    return cursor.text("a name") if cursor.flag("whether there is a source region") else None


def _read_i32(cursor: Cursor) -> int:
    value = cursor.u32("a number")
    return value - (1 << 32) if value >> 31 else value


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
        scale = QuantizationScale(cursor.member(_SCALES, "a scale"), cursor.u32("a scale's parameter"))
        zero = QuantizationZeroPoint(cursor.member(_ZERO_POINTS, "a zero point"), cursor.u32("a zero point's parameter"))
        return DataType.quantized(element, scale, zero)
    if tag in {dtypes.TENSOR_SHAPED, dtypes.DEVICE_MESH}:
        count = cursor.u32("the number of dimensions")
        if 4 * count > cursor.end - cursor.at:
            refuse_bytes(f"a data type of {count} dimensions is announced and {cursor.end - cursor.at} bytes are left", at)
        return DataType(tag, element, tuple(cursor.u32("a dimension") for _ in range(count)))
    if tag == dtypes.VEC:
        return DataType(tag, element, (cursor.u8("the count of a vector"),))
    parameters = dtypes.parameter_count(tag)
    if parameters is None:
        refuse_bytes(f"{tag:#04x} is not a tag of a data type", at - 1)
    return DataType(tag, element, tuple(cursor.u32("the parameter of a data type") for _ in range(parameters)))


_SCALES: Mapping[int, ScaleKind] = {kind.value: kind for kind in ScaleKind}
_ZERO_POINTS: Mapping[int, ZeroPointKind] = {kind.value: kind for kind in ZeroPointKind}
# After each table of kinds, that of those without parameter.
_SCALE_TABLE = _table(_SCALES)
_table({0: ScaleKind.PER_TENSOR})
_ZERO_POINT_TABLE = _table(_ZERO_POINTS)
_table({kind.value: kind for kind in (ZeroPointKind.ABSENT, ZeroPointKind.PER_TENSOR)})

_AXIS = Step(1, "an axis", lambda cursor: cursor.u8("an axis"))
_U32 = Step(2, "a number", lambda cursor: cursor.u32("a number"))
_I32 = Step(14, "a number", _read_i32)
_U64 = Step(3, "a number", lambda cursor: cursor.u64("a number"))
_BOOL = Step(4, "a bool literal", lambda cursor: cursor.flag("a bool literal"))
_NAME = Step(5, "a name", lambda cursor: cursor.text("a name"))
_SOURCE = Step(6, "the name of a source region", _read_source)
_PAYLOAD = Step(7, "an opaque payload", lambda cursor: cursor.payload("an opaque payload"))
_DTYPE = Step(8, "a data type", read_dtype)
EXPRESSION = Step(9, "an expression")
OPTIONAL = Step(10, "an expected value")
ARGUMENTS = Step(11, "arguments")
BODY = Step(12, "nodes")
NODE = Step(13, "a node")
_COLLECTIVE = _member(CollectiveOp, "a collective operator")
_ORDERING = _member(MemoryOrdering, "a memory ordering")
_COPY = (_NAME, _NAME, EXPRESSION, EXPRESSION, _NAME)

PLANS: dict[type[Term], tuple[Step, ...]] = {
    ex.LitU32: (_U32,),
    ex.LitI32: (_I32,),
    ex.LitBool: (_BOOL,),
    ex.LitF32: (_U32,),
    ex.Var: (_NAME,),
    ex.Load: (_NAME, EXPRESSION),
    ex.BufLen: (_NAME,),
    ex.InvocationId: (_AXIS,),
    ex.WorkgroupId: (_AXIS,),
    ex.LocalId: (_AXIS,),
    ex.Binary: (_operator(BinOp), EXPRESSION, EXPRESSION),
    ex.Unary: (_operator(UnOp), EXPRESSION),
    ex.Call: (_NAME, ARGUMENTS),
    ex.Select: (EXPRESSION, EXPRESSION, EXPRESSION),
    ex.Cast: (_DTYPE, EXPRESSION),
    ex.Atomic: (_operator(AtomicOp), _ORDERING, _NAME, EXPRESSION, OPTIONAL, EXPRESSION),
    ex.Fma: (EXPRESSION, EXPRESSION, EXPRESSION),
    ex.SubgroupAdd: (EXPRESSION,),
    ex.SubgroupShuffle: (EXPRESSION, EXPRESSION),
    ex.SubgroupBallot: (EXPRESSION,),
    ex.SubgroupLocalId: (),
    ex.SubgroupSize: (),
    ex.OpaqueExpr: (_NAME, _PAYLOAD),
    nd.Let: (_NAME, EXPRESSION),
    nd.Assign: (_NAME, EXPRESSION),
    nd.Store: (_NAME, EXPRESSION, EXPRESSION),
    nd.If: (EXPRESSION, BODY, BODY),
    nd.Loop: (_NAME, EXPRESSION, EXPRESSION, BODY),
    nd.Return: (),
    nd.Block: (BODY,),
    nd.Barrier: (_ORDERING,),
    nd.IndirectDispatch: (_NAME, _U64),
    nd.AsyncLoad: _COPY,
    nd.AsyncWait: (_NAME,),
    nd.Region: (_NAME, _SOURCE, BODY),
    nd.AsyncStore: _COPY,
    nd.Trap: (EXPRESSION, _NAME),
    nd.Resume: (_NAME,),
    nd.AllReduce: (_NAME, _COLLECTIVE, _U32),
    nd.AllGather: (_NAME, _NAME, _U32),
    nd.ReduceScatter: (_NAME, _NAME, _COLLECTIVE, _U32),
    nd.Broadcast: (_NAME, _U32, _U32),
    nd.OpaqueNode: (_NAME, _PAYLOAD),
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


GRAMMAR = Grammar(
    [(issubclass(cls, nd.Node), cls.wire_tag, [step.code for step in plan]) for cls, plan in PLANS.items()],
    TABLES,
    _type_rows(),
    _SCALE_TABLE,
    _ZERO_POINT_TABLE,
)
READERS = {step.code: step.read for plan in PLANS.values() for step in plan if step.read is not None}
_WHAT = {step.code: step.what for plan in PLANS.values() for step in plan} | {
    NODE.code: NODE.what,
    _MEMBER + _SCALE_TABLE: "a scale",
    _MEMBER + _ZERO_POINT_TABLE: "a zero point",
}
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
    (Fault.UNKNOWN_TAG, _DTYPE.code): "{number:#04x} is not a tag of a data type",
    (Fault.NO_FLAG, _BOOL.code): "{what} is {number}, neither 0 nor 1",
    (Fault.TOO_DEEP, EXPRESSION.code): "expressions nest deeper than {limit}",
    (Fault.TOO_DEEP, NODE.code): "nodes nest deeper than {limit}",
    (Fault.TOO_DEEP, _DTYPE.code): "a data type nests deeper than {limit}",
    (Fault.TOO_MANY, NODE.code): "there are more than {limit} nodes",
    (Fault.TOO_MANY, 0): "there are more than {limit} nodes and expressions",
    (Fault.TOO_FEW_LEFT, _DTYPE.code): "{number} dimensions of a data type are announced and {limit} bytes are left",
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
    )


def refuse_fault(fault: int, at: int, wanted: int, number: int, limit: int) -> NoReturn:
    """Raise InvalidContainer (2105) for what a walk found at byte ``at``."""
    problem = _PROBLEMS_OF.get((fault, wanted), _PROBLEMS[fault])
    if fault == Fault.CUT and number == 1:
        problem = "{what} is missing: the bytes end"
    refuse_bytes(problem.format(what=_WHAT.get(wanted, "a term"), number=number, limit=limit), at)
