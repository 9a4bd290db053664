"""What has no lowering is refused by its place and its need, and what has is asked of the device as features."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from vyre_driver.errors import UnsupportedFeature
from vyre_driver.ir import (
    AllGather,
    AllReduce,
    AsyncLoad,
    AsyncStore,
    AsyncWait,
    Atomic,
    Binary,
    Broadcast,
    BufferDecl,
    BufferRef,
    DataType,
    IndirectDispatch,
    OpaqueExpr,
    OpaqueNode,
    OpaqueOp,
    Program,
    ReduceScatter,
    Resume,
    SubgroupAdd,
    SubgroupReduce,
    Unary,
    barrier,
    binop,
    call,
    cast,
    f32,
    f64,
    fma,
    gid_x,
    i32,
    i64,
    if_,
    let,
    load,
    store,
    trap,
    u32,
    u64,
)
from vyre_driver.ir.extensions import extension
from vyre_driver.ir.operators import BinOp, CollectiveOp, MemoryOrdering, SubgroupOp
from vyre_driver.lowering.emit.target import FLUSH, PRESERVE, ROUND_TO_EVEN, LoweringTarget
from vyre_driver.spirv import builder

if TYPE_CHECKING:
    from conftest import Lower

    from vyre_driver.ir.expressions import Expr
    from vyre_driver.ir.nodes import Node

U32, F32, U64 = DataType.U32, DataType.F32, DataType.U64
OUT = BufferDecl.read_write("out", 0, U32).with_count(64)
BYTES = BufferDecl.read_write("bytes", 1, DataType.Bytes)
NIBBLES = BufferDecl.read_write("nibbles", 2, DataType.I4).with_count(64)
FLOATS = BufferDecl.read_write("floats", 3, F32).with_count(64)
SMALL = BufferDecl.read_write("small", 4, DataType.U8).with_count(64)
HALVES = BufferDecl.read_write("halves", 5, DataType.F16).with_count(64)
BUFFERS = [OUT, BYTES, NIBBLES, FLOATS, SMALL, HALVES]
OPAQUE = OpaqueOp(0x8000_0001)


def within(*nodes: Node) -> Program:
    """A program with these nodes after a store and inside an if, so that paths have something to tell."""
    return Program.wrapped(BUFFERS, (64, 1, 1), [store(OUT, gid_x(), u32(1)), if_(gid_x() < 8, list(nodes))])


def value(expression: Expr) -> Node:
    return store(OUT, gid_x(), cast(U32, expression))


REFUSED: list[tuple[Node, str, str]] = [
    (barrier(MemoryOrdering.GRID_SYNC), "a barrier of the whole grid", ""),
    (trap(u32(0), "t"), "Trap has no lowering", ""),
    (Resume("t"), "Resume has no lowering", ""),
    (IndirectDispatch("out", 0), "IndirectDispatch has no lowering", ""),
    (AsyncLoad("out", "floats", u32(0), u32(4), "t"), "AsyncLoad has no lowering", ""),
    (AsyncStore("out", "floats", u32(0), u32(4), "t"), "AsyncStore has no lowering", ""),
    (AsyncWait("t"), "AsyncWait has no lowering", ""),
    (AllReduce("out", CollectiveOp.SUM), "AllReduce has no lowering", ""),
    (AllGather("out", "out"), "AllGather has no lowering", ""),
    (ReduceScatter("out", "out", CollectiveOp.SUM), "ReduceScatter has no lowering", ""),
    (Broadcast("out", 0), "Broadcast has no lowering", ""),
    (OpaqueNode("an.extension", b""), "OpaqueNode has no lowering", ""),
    (let("x", call("an.operation", u32(1))), "a call of 'an.operation'", ".value"),
    (value(OpaqueExpr("an.extension", b"")), "an expression of kind 'an.extension'", ".value.value"),
    (value(Binary(OPAQUE, u32(1), u32(2))), "opaque operator 0x80000001", ".value.value"),
    (value(Unary(OPAQUE, u32(1))), "opaque operator 0x80000001", ".value.value"),
    (
        value(Atomic(OPAQUE, MemoryOrdering.RELAXED, "out", u32(0), None, u32(1))),
        "an opaque operator as an atomic",
        ".value.value",
    ),
    (let("x", load(BYTES, 0)), "buffer 'bytes' has elements of a type that has no lowering", ".value"),
    (let("x", load(NIBBLES, 0)), "buffer 'nibbles' has elements of a type that has no lowering", ".value"),
    (let("x", binop(BinOp.ADD, i64(1), i64(2))), "ADD of i64", ".value"),
    (let("x", binop(BinOp.MUL, f64(1.0), f64(2.0))), "MUL of f64", ".value"),
    (let("x", binop(BinOp.LT, load(HALVES, 0), load(HALVES, 1))), "LT of f16", ".value"),
    (let("x", SubgroupAdd(i64(1))), "a subgroup reduction by ADD of i64", ".value"),
    (let("x", SubgroupReduce(SubgroupOp.MUL, u64(1))), "a subgroup reduction by MUL of u64", ".value"),
    (let("x", BufferRef("out")), "the buffer 'out' as a value", ".value"),
    (let("x", call("mine", BufferRef("out"))), "a call of 'mine'", ".value"),
]


@pytest.mark.parametrize(("node", "problem", "inside"), REFUSED, ids=[one[1] for one in REFUSED])
def test_what_has_no_lowering_is_refused_with_its_place_and_its_need(
    lower: Lower, node: Node, problem: str, inside: str
) -> None:
    with pytest.raises(UnsupportedFeature) as refused:
        lower(within(node))
    error = refused.value
    place = f"body[1].then[0]{inside}"
    message = f"the program cannot be lowered to SPIR-V: {problem}"
    assert (error.code, error.context["path"], str(error).startswith(message)) == (1002, place, True), str(error)
    assert f"it would need {error.context['needs']}. Fix: " in str(error)


@pytest.mark.parametrize(
    ("op", "types"),
    [
        *((op, "u32, i32, u64 or f32") for op in (SubgroupOp.ADD, SubgroupOp.MIN, SubgroupOp.MAX)),
        (SubgroupOp.MUL, "u32, i32 or f32"),
        *((op, "u32, i32 or u64") for op in (SubgroupOp.AND, SubgroupOp.OR, SubgroupOp.XOR)),
    ],
)
def test_the_need_of_a_reduction_names_the_types_that_it_takes(lower: Lower, op: SubgroupOp, types: str) -> None:
    literals = {"u32": u32(1), "i32": i32(1), "u64": u64(1), "f32": f32(1.0)}
    for name, literal in literals.items():
        if name in types:
            lower(within(let("x", SubgroupReduce(op, literal))))
    with pytest.raises(UnsupportedFeature) as refused:
        lower(within(let("x", SubgroupReduce(op, f64(1.0)))))
    assert refused.value.context["needs"] == types


def test_a_program_whose_code_passes_the_bound_is_refused(lower: Lower, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builder, "MAX_WORDS", 100)
    with pytest.raises(UnsupportedFeature) as refused:
        lower(within(*(store(OUT, gid_x() + place, load(OUT, place)) for place in range(20))))
    error = refused.value
    expected = "the program cannot be lowered to SPIR-V: the code passes 16777216 bytes, at body[1].then["
    assert (error.code, str(error).startswith(expected)) == (1002, True), str(error)
    assert error.context["needs"] == "fewer repeated expressions that write memory"


def test_an_fma_that_no_driver_is_known_to_round_once_is_refused_without_f64(lower: Lower) -> None:
    program = within(store(FLOATS, 0, fma(load(FLOATS, 0), load(FLOATS, 1), load(FLOATS, 2))))
    with pytest.raises(UnsupportedFeature, match="an fma that rounds once, at body") as refused:
        lower(program, (), LoweringTarget(fuses=False))
    needs = "shaderFloat64, or a configuration with a ulp budget"
    assert refused.value.context["needs"] == needs
    features = [
        lower(program, (), one).features
        for one in (
            LoweringTarget(),
            LoweringTarget(fuses=False, strict=False),
            LoweringTarget(frozenset({"shaderFloat64"}), fuses=False),
            LoweringTarget(frozenset({"shaderFloat64"})),
        )
    ]
    assert features == [frozenset(), frozenset(), frozenset({"shaderFloat64"}), frozenset()]


CONTROLS = frozenset({FLUSH, PRESERVE, ROUND_TO_EVEN})
EVERYTHING = CONTROLS | {
    "shaderInt64",
    "shaderFloat64",
    "storageBuffer8BitAccess",
    "storageBuffer16BitAccess",
    "shaderFloat16",
    "shaderInt8",
    "vulkanMemoryModel",
}


@pytest.mark.parametrize(
    ("buffer", "node", "strict", "features"),
    [
        (OUT, value(gid_x() + 1), True, set()),
        (OUT, value(cast(U64, gid_x())), True, set()),
        (OUT, value(extension("div<u64>", cast(U64, gid_x()), cast(U64, gid_x() + 1))), True, {"shaderInt64"}),
        (FLOATS, store(FLOATS, 0, load(FLOATS, 1) + 1.0), True, CONTROLS),
        (FLOATS, store(FLOATS, 0, load(FLOATS, 1) + 1.0), False, {PRESERVE}),
        (SMALL, store(SMALL, 0, load(SMALL, 1)), True, {"storageBuffer8BitAccess"}),
        (SMALL, value(gid_x()), True, set()),
        (HALVES, store(HALVES, 0, load(HALVES, 1)), True, {"storageBuffer16BitAccess"}),
    ],
)
def test_a_module_relies_on_the_features_that_its_code_uses_and_no_others(
    lower: Lower, buffer: BufferDecl, node: Node, features: set[str], *, strict: bool
) -> None:
    program = Program.wrapped([OUT, buffer] if buffer is not OUT else [OUT], (64, 1, 1), [node])
    assert lower(program, (), LoweringTarget(EVERYTHING, strict=strict)).features == features
