"""Programs that the validator must accept, and statements that it must refuse wherever they are put."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from vyre_driver.ir.arithmetic import OpaqueExpr, f32
from vyre_driver.ir.buffers import BufferDecl
from vyre_driver.ir.builders import (
    assign,
    atomic,
    atomic_add,
    atomic_compare_exchange,
    atomic_xor,
    barrier,
    binop,
    block,
    boolean,
    buf_len,
    call,
    cast,
    fma,
    gid_x,
    i32,
    if_,
    let,
    lid_x,
    load,
    loop,
    region,
    select,
    store,
    subgroup_add,
    u32,
    u64,
    unop,
    var,
    wid_x,
)
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.expressions import InvocationId
from vyre_driver.ir.nodes import AllReduce, AsyncWait, IndirectDispatch, OpaqueNode
from vyre_driver.ir.operators import AtomicOp, BinOp, CollectiveOp, MemoryOrdering, UnOp
from vyre_driver.ir.program import ROOT_GENERATOR, Program

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vyre_driver.ir.nodes import Node

U32, I32, F32, BOOL, U64 = DataType.U32, DataType.I32, DataType.F32, DataType.Bool, DataType.U64
TYPES = (U32, I32, F32, BOOL, U64)

# Plain and atomic uses never meet, so that no barrier is needed; nobody names the quiet ones but REFUSED.
PLAIN = {
    U32: BufferDecl.read_write("words", 0, U32).with_count(64),
    I32: BufferDecl.read_write("signed", 1, I32),
    F32: BufferDecl.output("floats", 2, F32).with_count(64),
    BOOL: BufferDecl.workgroup("flags", 4, BOOL),
    U64: BufferDecl.read_write("wide", 3, U64),
}
COUNTERS = BufferDecl.read_write("counters", 4, U32)
QUIET = [
    BufferDecl.read("quiet_input", 5, U32),
    BufferDecl.read_write("quiet_floats", 6, F32),
    BufferDecl.read_write("quiet_words", 7, U32).with_count(8),
    BufferDecl.read_write("quiet_bytes", 8, DataType.Bytes),
    BufferDecl.workgroup("quiet_shared", 8, U32),
]
BUFFERS = [*PLAIN.values(), COUNTERS, *QUIET]

INTEGER = [BinOp.ADD, BinOp.SUB, BinOp.MUL, BinOp.MOD, BinOp.DIV, BinOp.BIT_AND, BinOp.BIT_OR, BinOp.BIT_XOR]
WRAPPING = [BinOp.WRAPPING_ADD, BinOp.WRAPPING_SUB]
UNSIGNED = [BinOp.SHL, BinOp.SHR, BinOp.ROTATE_LEFT, BinOp.SATURATING_ADD, BinOp.SATURATING_MUL, BinOp.ABS_DIFF, BinOp.MUL_HIGH]
BINARY = {
    U32: [*INTEGER, *WRAPPING, *UNSIGNED],
    I32: [*INTEGER, *WRAPPING],
    F32: [BinOp.ADD, BinOp.SUB, BinOp.MUL, BinOp.DIV, BinOp.MIN, BinOp.MAX, BinOp.ABS_DIFF],
    U64: [*WRAPPING, BinOp.MUL_HIGH],
}
UNARY = {
    U32: [UnOp.NEGATE, UnOp.BIT_NOT, UnOp.POPCOUNT, UnOp.CLZ],
    I32: [UnOp.BIT_NOT, UnOp.CTZ, UnOp.REVERSE_BITS],
    F32: [UnOp.NEGATE, UnOp.SQRT, UnOp.SIN, UnOp.ABS, UnOp.RECIPROCAL],
    U64: [UnOp.BIT_NOT, UnOp.CLZ],
}
SOURCES = {U32: [I32, F32, BOOL, U64], I32: [U32, F32, BOOL], F32: [U32, I32, BOOL], U64: [U32, I32, BOOL], BOOL: [U32, F32]}
LITERALS: dict[DataType, st.SearchStrategy[Any]] = {
    U32: st.integers(0, 2**32 - 1).map(u32),
    I32: st.integers(-(2**31), 2**31 - 1).map(i32),
    F32: st.floats(width=32).map(f32),
    U64: st.integers(0, 2**64 - 1).map(u64),
    BOOL: st.booleans().map(boolean),
}


@dataclass
class Scope:
    """The variables that may be read, and those of them that may be assigned."""

    readable: dict[str, DataType] = field(default_factory=dict)
    assignable: set[str] = field(default_factory=set)
    all_come: bool = True  # whether every invocation of a workgroup gets here

    def inner(self, *, all_come: bool) -> Scope:
        return Scope(dict(self.readable), set(self.assignable), self.all_come and all_come)


@st.composite
def expressions(draw: st.DrawFn, dtype: DataType, scope: Scope, depth: int = 3) -> Any:  # noqa: ANN401, C901 -- one case an expression
    """An expression of this type."""
    known = sorted(name for name, own in scope.readable.items() if own == dtype)
    kinds = ["literal", "load", *(["var"] * 3 if known else [])]
    if depth:
        kinds += ["binary", "unary", "select", "cast", "special"]

    def inside(wanted: DataType) -> Any:  # noqa: ANN401 -- an expression
        return draw(expressions(wanted, scope, depth - 1 if depth else 0))

    match draw(st.sampled_from(kinds)):
        case "var":
            return var(draw(st.sampled_from(known)))
        case "load":
            return load(PLAIN[dtype], draw(st.sampled_from([gid_x(), lid_x(), u32(0), buf_len("words")])))
        case "binary" if dtype != BOOL:
            op = draw(st.sampled_from(BINARY[dtype]))
            right = inside(dtype)
            if op in {BinOp.DIV, BinOp.MOD}:
                right = load(PLAIN[dtype], 1)  # never a literal 0
            return binop(op, inside(dtype), right)
        case "binary":
            same = draw(st.sampled_from([U32, I32, F32, U64]))
            op = draw(st.sampled_from([BinOp.EQ, BinOp.NE, BinOp.LT, BinOp.GT, BinOp.LE, BinOp.GE]))
            return binop(op, inside(same), inside(same))
        case "unary":
            return (
                unop(UnOp.LOGICAL_NOT, inside(BOOL))
                if dtype == BOOL
                else unop(draw(st.sampled_from(UNARY[dtype])), inside(dtype))
            )
        case "select":
            return select(inside(draw(st.sampled_from([U32, BOOL]))), inside(dtype), inside(dtype))
        case "cast":
            return cast(dtype, inside(draw(st.sampled_from(SOURCES[dtype]))))
        case "special" if dtype == U32:
            return draw(
                st.sampled_from(
                    [
                        atomic_add(COUNTERS, inside(U32), inside(U32)),
                        atomic_compare_exchange(COUNTERS, 0, inside(U32), inside(U32)),
                        subgroup_add(inside(U32)),
                        wid_x(),
                    ]
                )
            )
        case "special" if dtype == F32:
            return fma(inside(F32), inside(F32), inside(F32))
        case "special" if dtype == BOOL:
            return binop(draw(st.sampled_from([BinOp.AND, BinOp.OR])), inside(BOOL), inside(BOOL))
    return draw(LITERALS[dtype])


@st.composite
def bodies(draw: st.DrawFn, scope: Scope, names: Any, depth: int = 3) -> list[Node]:  # noqa: ANN401, C901 -- a counter; one case a node
    """Statements, with names that are used once."""
    nodes: list[Node] = []
    for _ in range(draw(st.integers(0, 4))):
        kinds = ["let", "store", *(["assign"] if scope.assignable else []), *(["barrier"] if scope.all_come else [])]
        kinds += ["if", "if alike", "loop", "block", "region"] if depth else []
        match draw(st.sampled_from(kinds)):
            case "let":
                name, dtype = f"v{next(names)}", draw(st.sampled_from(TYPES))
                nodes.append(let(name, draw(expressions(dtype, scope))))
                scope.readable[name] = dtype
                scope.assignable.add(name)
            case "assign":
                name = draw(st.sampled_from(sorted(scope.assignable)))
                nodes.append(assign(name, draw(expressions(scope.readable[name], scope))))
            case "store":
                dtype = draw(st.sampled_from(TYPES))
                index = draw(st.sampled_from([gid_x(), u32(3), lid_x() + 1]))
                nodes.append(store(PLAIN[dtype], index, draw(expressions(dtype, scope))))
            case "barrier":
                nodes.append(barrier(draw(st.sampled_from([MemoryOrdering.SEQ_CST, MemoryOrdering.ACQ_REL]))))
            case "if":
                cond = draw(expressions(draw(st.sampled_from([U32, BOOL])), scope))
                then, otherwise = (draw(bodies(scope.inner(all_come=False), names, depth - 1)) for _ in range(2))
                nodes.append(if_(cond, then, otherwise))
            case "if alike":
                nodes.append(if_(wid_x() < 3, draw(bodies(scope.inner(all_come=True), names, depth - 1))))
            case "loop":
                name, inner = f"v{next(names)}", scope.inner(all_come=True)
                inner.readable[name] = U32
                nodes.append(loop(name, 0, buf_len("words"), draw(bodies(inner, names, depth - 1))))
            case "block":
                nodes.append(block(*draw(bodies(scope.inner(all_come=True), names, depth - 1))))
            case "region":
                nodes.append(region("made", *draw(bodies(scope.inner(all_come=True), names, depth - 1))))
    return nodes


class Made:
    """A program that hypothesis prints as a program, not as the thousands of objects it is made of."""

    def __init__(self, program: Program) -> None:
        self.program = program

    def __repr__(self) -> str:
        return f"{self.program!r}: {self.program.entry}"


@st.composite
def valid_programs(draw: st.DrawFn) -> Made:
    """A program that breaks no rule."""
    size = draw(st.tuples(*[st.integers(1, 64)] * 3))
    return Made(in_root(size, draw(bodies(Scope(), itertools.count()))))


def in_root(size: tuple[int, ...], nodes: Sequence[Node]) -> Program:
    """A program of these nodes in a root region, even when all of them are regions."""
    return Program.new(BUFFERS, size, [region(ROOT_GENERATOR, *nodes)])


# Each breaks one rule, and no other, wherever it stands: the code, where in it, and the statement.
REFUSED: list[tuple[str, str, Node]] = [
    ("V009", ".value", let("bad", atomic_add("quiet_input", 0, 1))),
    ("V011", ".body[0]", loop("bad", 0, 1, [assign("bad", u32(1))])),
    ("V012", ".value", let("bad", cast(DataType.F64, u32(1)))),
    ("V013", ".value", let("bad", load("quiet_bytes", 0))),
    ("V014", ".value", let("bad", atomic_xor("quiet_floats", 0, 1))),
    ("V023", ".value", let("bad", cast(DataType.Bytes, u32(1)))),
    ("V027", ".value.index", let("bad", atomic_add("quiet_words", i32(0), 1))),
    ("V028", ".value.c", let("bad", fma(1.0, 2.0, u32(3)))),
    ("V029", ".cond", if_(select(boolean(True), u32(1), i32(1)), [])),
    ("V030", ".value", let("bad", OpaqueExpr("", b""))),
    ("V031", "", OpaqueNode("", b"")),
    ("V032", ".body[1]", block(let("bad", u32(1)), let("bad", u32(1)))),
    ("V008", ".body[1].body[0]", block(let("bad", u32(1)), block(let("bad", u32(1))))),
    ("V036", ".index", store("quiet_words", 8, u32(1))),
    ("V042", ".value", let("bad", atomic(AtomicOp.ADD, "quiet_words", 0, 1, ordering=MemoryOrdering.GRID_SYNC))),
    ("V044", ".value.right", let("bad", u32(1) % u32(0))),
    ("V045", ".value", store("quiet_floats", 0, u32(1))),
    ("V046", ".buffer", AllReduce("quiet_shared", CollectiveOp.SUM)),
    ("V010", ".then[0]", if_(lid_x() < 1, [barrier()])),
    ("R009", ".value", let("bad", var("nobody"))),
    ("R010", ".buffer", store("nobody", 0, u32(1))),
    ("R011", ".buffer", store("quiet_input", 0, u32(1))),
    ("R012", ".index", store("quiet_words", i32(1), u32(1))),
    ("R013", ".cond", if_(f32(1.0), [])),
    ("R014", ".start", loop("bad", i32(0), 1, [])),
    ("R015", ".value", let("bad", u32(1) + f32(1.0))),
    ("R017", ".value", let("bad", InvocationId(3))),
    ("R018", ".count_offset", IndirectDispatch("quiet_words", 2)),
    ("R019", ".tag", AsyncWait("")),
    ("R020", "", store("quiet_words", 0, atomic_add("quiet_words", 0, 1))),
    ("R024", ".value.value", let("bad", atomic_add("quiet_words", 0, call("f") + i32(1)))),
    ("R025", ".value.value", let("bad", subgroup_add(boolean(True)))),
]


def body_count(nodes: tuple[Node, ...]) -> int:
    """How many bodies there are, that of ``nodes`` counted."""
    return 1 + sum(body_count(body) for node in nodes for _, body in _bodies_of(node))


def _bodies_of(node: Any) -> list[tuple[str, tuple[Node, ...]]]:  # noqa: ANN401 -- any node
    return [(name, getattr(node, name)) for name in ("then", "otherwise", "body") if hasattr(node, name)]


def inserted(nodes: tuple[Node, ...], which: int, at: int, new: Node, path: str) -> tuple[tuple[Node, ...], str]:
    """Put a node into the body number ``which``, counted from here; return its path too."""
    if which == 0:
        place = at % (len(nodes) + 1)
        return (*nodes[:place], new, *nodes[place:]), f"{path}[{place}]"
    which -= 1
    for place, node in enumerate(nodes):
        for name, body in _bodies_of(node):
            size = body_count(body)
            if which < size:
                changed, where = inserted(body, which, at, new, f"{path}[{place}].{name}")
                whole: Any = replace(node, **{name: changed})  # type: ignore[type-var]
                return (*nodes[:place], whole, *nodes[place + 1 :]), where
            which -= size
    raise AssertionError(which)
