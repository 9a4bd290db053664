"""Bytes to expressions and nodes.

Every class is read by its plan: what stands on the wire for each of its fields, in order. A stack of half-read terms takes the
place of recursion.

Source: spec items 1.5 and 1.6.
"""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING, Any, NoReturn

from vyre_driver.ir import dtypes, wire_format
from vyre_driver.ir import expressions as ex
from vyre_driver.ir import nodes as nd
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.operators import AtomicOp, BinOp, CollectiveOp, MemoryOrdering, OpaqueOp, UnOp
from vyre_driver.ir.quantization import QuantizationScale, QuantizationZeroPoint, ScaleKind, ZeroPointKind
from vyre_driver.ir.terms import KEY_BYTES, Traits
from vyre_driver.ir.wire_cursor import Cursor, refuse_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from vyre_driver.ir.operators import Operator
    from vyre_driver.ir.statements import Node
    from vyre_driver.ir.terms import Term

    Reader = Callable[[Cursor], Any]

# What stands for a field: a function that reads it, or one of these.
_EXPRESSION, _NODE, _OPTIONAL, _ARGUMENTS, _BODY = "expression", "node", "optional expression", "arguments", "body"


def _tags(table: type[Operator]) -> dict[int, Any]:
    return {member.wire_tag: member for member in table}


def _operator(table: type[Operator]) -> Reader:
    known = _tags(table)

    def read(cursor: Cursor) -> Any:  # noqa: ANN401 -- a member of the table, or an OpaqueOp
        if cursor.data[cursor.at : cursor.at + 1] == b"\x80":
            cursor.at += 1
            return OpaqueOp(cursor.u32("the id of an operator"))
        return cursor.member(known, "an operator")

    return read


def _member(table: type[Operator], what: str) -> Reader:
    known = _tags(table)
    return lambda cursor: cursor.member(known, what)


def _name(cursor: Cursor) -> str:
    return cursor.text("a name")


def _source(cursor: Cursor) -> str | None:
    return cursor.text("a name") if cursor.flag("whether there is a source region") else None


def _u8(cursor: Cursor) -> int:
    return cursor.u8("an axis")


def _u32(cursor: Cursor) -> int:
    return cursor.u32("a number")


def _i32(cursor: Cursor) -> int:
    value = cursor.u32("a number")
    return value - (1 << 32) if value >> 31 else value


def _u64(cursor: Cursor) -> int:
    return cursor.u64("a number")


def _bool(cursor: Cursor) -> bool:
    return cursor.flag("a bool literal")


def _payload(cursor: Cursor) -> bytes:
    return cursor.payload("an opaque payload")


def read_dtype(cursor: Cursor) -> DataType:
    """Return the data type that stands at the cursor; nested ones are read by a loop.

    Raises
    ------
    InvalidContainer
        2105 if there is none.
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
        refuse_bytes(f"{tag:#04x} is no tag of a data type", at - 1)
    return DataType(tag, element, tuple(cursor.u32("the parameter of a data type") for _ in range(parameters)))


_SCALES: Mapping[int, ScaleKind] = {kind.value: kind for kind in ScaleKind}
_ZERO_POINTS: Mapping[int, ZeroPointKind] = {kind.value: kind for kind in ZeroPointKind}
_COPY = (_name, _name, _EXPRESSION, _EXPRESSION, _name)
_COLLECTIVE = _member(CollectiveOp, "a collective operator")
_ORDERING = _member(MemoryOrdering, "a memory ordering")

Plan = tuple[Any, ...]

_EXPRESSIONS: dict[type[Term], Plan] = {
    ex.LitU32: (_u32,),
    ex.LitI32: (_i32,),
    ex.LitBool: (_bool,),
    ex.LitF32: (_u32,),
    ex.Var: (_name,),
    ex.Load: (_name, _EXPRESSION),
    ex.BufLen: (_name,),
    ex.InvocationId: (_u8,),
    ex.WorkgroupId: (_u8,),
    ex.LocalId: (_u8,),
    ex.Binary: (_operator(BinOp), _EXPRESSION, _EXPRESSION),
    ex.Unary: (_operator(UnOp), _EXPRESSION),
    ex.Call: (_name, _ARGUMENTS),
    ex.Select: (_EXPRESSION, _EXPRESSION, _EXPRESSION),
    ex.Cast: (read_dtype, _EXPRESSION),
    ex.Atomic: (_operator(AtomicOp), _ORDERING, _name, _EXPRESSION, _OPTIONAL, _EXPRESSION),
    ex.Fma: (_EXPRESSION, _EXPRESSION, _EXPRESSION),
    ex.SubgroupAdd: (_EXPRESSION,),
    ex.SubgroupShuffle: (_EXPRESSION, _EXPRESSION),
    ex.SubgroupBallot: (_EXPRESSION,),
    ex.SubgroupLocalId: (),
    ex.SubgroupSize: (),
    ex.OpaqueExpr: (_name, _payload),
}
_NODES: dict[type[Term], Plan] = {
    nd.Let: (_name, _EXPRESSION),
    nd.Assign: (_name, _EXPRESSION),
    nd.Store: (_name, _EXPRESSION, _EXPRESSION),
    nd.If: (_EXPRESSION, _BODY, _BODY),
    nd.Loop: (_name, _EXPRESSION, _EXPRESSION, _BODY),
    nd.Return: (),
    nd.Block: (_BODY,),
    nd.Barrier: (_ORDERING,),
    nd.IndirectDispatch: (_name, _u64),
    nd.AsyncLoad: _COPY,
    nd.AsyncWait: (_name,),
    nd.Region: (_name, _source, _BODY),
    nd.AsyncStore: _COPY,
    nd.Trap: (_EXPRESSION, _name),
    nd.Resume: (_name,),
    nd.AllReduce: (_name, _COLLECTIVE, _u32),
    nd.AllGather: (_name, _name, _u32),
    nd.ReduceScatter: (_name, _name, _COLLECTIVE, _u32),
    nd.Broadcast: (_name, _u32, _u32),
    nd.OpaqueNode: (_name, _payload),
}
_Known = tuple[type[Any], Plan, int]
_NESTED, _NAMED, _VARYING = -1, -2, -3  # where a number of bytes is wanted
_FIXED_BYTES: dict[Any, int] = {_u8: 1, _u32: 4, _i32: 4, _bool: 1}


def _leaf_bytes(plan: Plan) -> int:
    """Return the bytes of a term in which nothing is nested: a number of them, or why there is none."""
    if not all(map(callable, plan)):
        return _NESTED
    if plan == (_name,):
        return _NAMED
    return 1 + sum(_FIXED_BYTES[step] for step in plan) if set(plan) <= set(_FIXED_BYTES) else _VARYING


def _by_tag(plans: dict[type[Term], Plan]) -> dict[int, _Known]:
    """Return class, plan and bytes of each tag."""
    return {cls.wire_tag: (cls, plan, _leaf_bytes(plan)) for cls, plan in plans.items()}


_EXPRESSION_TAGS, _NODE_TAGS = _by_tag(_EXPRESSIONS), _by_tag(_NODES)


class _Frame:
    """A term, or a sequence of terms, that is being read: its class, what is still to read, what was read.

    ``nesting`` counts the nodes it is in, ``depth`` the expressions; it began at byte ``start``.
    """

    __slots__ = ("cls", "depth", "nesting", "plan", "start", "values")

    def __init__(self, cls: type[Any], plan: Iterator[Any], nesting: int, depth: int, start: int) -> None:
        self.cls = cls
        self.plan = plan
        self.values: list[Any] = []
        self.nesting = nesting
        self.depth = depth
        self.start = start


class TermReader:
    """Reads the nodes of one program, and counts them; short terms that are written alike become one object."""

    def __init__(self, cursor: Cursor) -> None:
        """Read at the cursor."""
        self._cursor = cursor
        self._nodes = self._terms = 0
        self._expressions_read: dict[bytes, Any] = {}
        self._nodes_read: dict[bytes, Any] = {}

    def node(self) -> Node:
        """Return the node that stands at the cursor.

        Raises
        ------
        InvalidContainer
            2105 if there is none, or it passes a limit of the format.
        """
        cursor = self._cursor
        frame = _Frame(list, iter((_NODE,)), 0, 0, cursor.at)
        stack: list[_Frame] = []
        while True:
            append = frame.values.append
            for step in frame.plan:
                if step.__class__ is not str:
                    append(step(cursor))
                    continue
                opened = self._expression(frame) if step is _EXPRESSION else self._open(step, frame)
                if opened is not None:
                    stack.append(frame)
                    frame = opened
                    break
            else:
                if not stack:
                    return frame.values[0]  # type: ignore[no-any-return]
                cls = frame.cls
                known = self._expressions_read if frame.depth else self._nodes_read
                values = frame.values
                made = tuple(values) if cls is tuple else self._shared(known, cls, values, frame.start)
                frame = stack.pop()
                frame.values.append(made)

    def _open(self, step: str, frame: _Frame) -> _Frame | None:
        """Return the frame of what stands at the cursor; put it into ``frame`` and return None when nothing is nested in it."""
        cursor = self._cursor
        if step is _NODE:
            return self._node(frame)
        if step is _OPTIONAL:
            if cursor.flag("whether a value is expected"):
                return self._expression(frame)
            frame.values.append(None)
            return None
        is_body = step is _BODY
        limit = wire_format.MAX_NODES if is_body else wire_format.MAX_CALL_ARGS
        count = cursor.u32_count("nodes" if is_body else "arguments", limit=limit)
        return _Frame(tuple, repeat(_NODE if is_body else _EXPRESSION, count), frame.nesting, frame.depth, cursor.at)

    def _expression(self, frame: _Frame) -> _Frame | None:
        cursor, depth = self._cursor, frame.depth + 1
        start = cursor.at
        if depth > wire_format.MAX_EXPRESSION_DEPTH:
            refuse_bytes(f"expressions nest deeper than {wire_format.MAX_EXPRESSION_DEPTH}", start)
        self._terms += 1
        if self._terms > wire_format.MAX_TERMS:
            self._refuse_more_terms()
        cls, plan, size = cursor.member(_EXPRESSION_TAGS, "an expression")
        if size == _NESTED:
            return _Frame(cls, iter(plan), frame.nesting, depth, start)
        if size == _NAMED:
            size = 5 + int.from_bytes(cursor.data[start + 1 : start + 5], "little")
        leaf = self._expressions_read.get(cursor.data[start : start + size]) if 0 < size <= KEY_BYTES else None
        if leaf is not None:
            cursor.at = start + size
            frame.values.append(leaf)
            return None
        fields = [read(cursor) for read in plan]
        frame.values.append(self._shared(self._expressions_read, cls, fields, start))
        return None

    def _node(self, frame: _Frame) -> _Frame | None:
        cursor = self._cursor
        start = cursor.at
        self._nodes += 1
        if self._nodes > wire_format.MAX_NODES:
            refuse_bytes(f"there are more than {wire_format.MAX_NODES} nodes", start)
        if frame.nesting >= wire_format.MAX_NESTING:
            refuse_bytes(f"nodes nest deeper than {wire_format.MAX_NESTING}", start)
        self._terms += 1
        if self._terms > wire_format.MAX_TERMS:
            self._refuse_more_terms()
        cls, plan, size = cursor.member(_NODE_TAGS, "a node")
        if size == _NESTED:
            return _Frame(cls, iter(plan), frame.nesting + 1, 0, start)
        fields = [read(cursor) for read in plan]
        frame.values.append(self._shared(self._nodes_read, cls, fields, start))
        return None

    def _refuse_more_terms(self) -> NoReturn:
        refuse_bytes(f"there are more than {wire_format.MAX_TERMS} nodes and expressions", self._cursor.at)

    def _shared(self, known: dict[bytes, Any], cls: type[Any], fields: list[Any], start: int) -> object:
        """Return the term of these fields, the one that was made before when it is short and written alike."""
        cursor = self._cursor
        if cursor.at - start > KEY_BYTES:
            return cls(*fields)
        written = cursor.data[start : cursor.at]
        term = known.get(written)
        if term is None:
            term = cls(*fields)
            known[term.key if term.traits & Traits.PLAIN else written] = term
        return term
