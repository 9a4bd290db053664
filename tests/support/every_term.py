"""One program that holds every kind of node and expression, every buffer field, and names that need quoting."""

from __future__ import annotations

from vyre_driver.ir import expressions as ex
from vyre_driver.ir import nodes as nd
from vyre_driver.ir.buffers import BufferAccess, BufferDecl, CacheLocality, LinearType, MemoryHints, MemoryKind
from vyre_driver.ir.builders import f32, f64, forever, i32, i64, lid_z, u32, u64, wid_y
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.operators import AtomicOp, BinOp, CollectiveOp, MemoryOrdering, OpaqueOp, SubgroupOp, UnOp
from vyre_driver.ir.predicates import AffineRange, And, AtLeast, AtMost, Exactly, ModEquals, MultipleOf, Not, Or
from vyre_driver.ir.program import Program
from vyre_driver.ir.quantization import QuantizationScale, QuantizationZeroPoint

EXPRESSIONS: list[ex.Expr] = [
    u32(7),
    i32(-7),
    ex.LitBool(True),
    f32(0.1),
    f32(float("inf")),
    u64(2**64 - 1),
    i64(-(2**63)),
    f64(0.1),
    ex.Var("x"),
    ex.Load("in", u32(1)),
    ex.BufLen("in"),
    ex.InvocationId(0),
    wid_y(),
    lid_z(),
    ex.LocalId(7),
    (ex.Var("a") + ex.Var("b")) * ex.Var("c"),
    ex.Var("a") + ex.Var("b") * ex.Var("c"),
    ex.Var("a") - (ex.Var("b") - ex.Var("c")),
    (ex.Var("a") < ex.Var("b")).eq(ex.Var("c") < ex.Var("d")),
    ex.Binary(BinOp.ROTATE_LEFT, ex.Var("a"), u32(3)),
    ex.Binary(OpaqueOp(0x8000_0001), ex.Var("a"), ex.Var("b")),
    -ex.Var("a"),
    ~(-ex.Var("a")),
    (ex.Var("a").and_(ex.Var("b"))).not_(),
    ex.Unary(UnOp.POPCOUNT, ex.Var("a")),
    ex.Unary(OpaqueOp(2), ex.Var("a")),
    ex.Call("my.op", (u32(1), ex.Var("x"))),
    ex.Call("my.op", ()),
    ex.Call("my.op", (ex.BufferRef("in"), u32(1))),
    ex.Select(ex.LitBool(False), u32(1), u32(2)),
    ex.Cast(DataType.vec(DataType.F32, 4), ex.Var("x")),
    ex.Cast(DataType.quantized(DataType.I4, QuantizationScale.per_group(32), QuantizationZeroPoint.absent()), ex.Var("x")),
    ex.Cast(DataType.tensor_shaped(DataType.sparse_bsr(DataType.BF16, 8, 16), (2, 3)), ex.Var("x")),
    ex.Atomic(AtomicOp.ADD, MemoryOrdering.RELAXED, "counts", u32(0), None, u32(1)),
    ex.Atomic(AtomicOp.COMPARE_EXCHANGE, MemoryOrdering.SEQ_CST, "counts", u32(0), u32(1), u32(2)),
    ex.Atomic(OpaqueOp(3), MemoryOrdering.SEQ_CST, "counts", u32(0), None, u32(1)),
    ex.Fma(f32(1.0), f32(2.0), f32(3.0)),
    *(ex.SubgroupReduce(op, u32(1)) for op in SubgroupOp),
    ex.SubgroupShuffle(ex.Var("x"), u32(3)),
    ex.SubgroupBallot(ex.LitBool(True)),
    ex.SubgroupLocalId(),
    ex.SubgroupSize(),
    ex.OpaqueExpr("my kind", bytes(range(20))),
    ex.OpaqueExpr("my.kind", b""),
]

NODES: list[nd.Node] = [
    *(nd.Let(f"v{place}", one) for place, one in enumerate(EXPRESSIONS)),
    nd.Assign("v0", u32(8)),
    nd.Store("out", u32(0), u32(1)),
    nd.If(ex.LitBool(True), (nd.Return(),)),
    nd.If(ex.LitBool(True), (), (nd.Return(),)),
    nd.Loop("i", u32(0), u32(9), (nd.Barrier(), nd.Barrier(MemoryOrdering.GRID_SYNC))),
    forever([nd.Return()]),
    nd.Block((nd.Let("inner", u32(1)),)),
    nd.IndirectDispatch("counts", 2**40),
    nd.AsyncLoad("in", "tile", u32(0), u32(64), "tag 1"),
    nd.AsyncStore("tile", "out", u32(0), u32(64), "tag2"),
    nd.AsyncWait("tag 1"),
    nd.Region("my.generator", None, ()),
    nd.Region("my.generator", "the source", (nd.Return(),)),
    nd.Trap(u32(1), "oops"),
    nd.Resume("oops"),
    nd.AllReduce("out", CollectiveOp.SUM, 3),
    nd.AllGather("in", "out", 0),
    nd.ReduceScatter("in", "out", CollectiveOp.BIT_XOR, 1),
    nd.Broadcast("out", 2, 0),
    nd.OpaqueNode("my.node", b"\0\1"),
]

CARRIED_BUFFERS = [
    BufferDecl.read("in", 0, DataType.U32).with_hints(MemoryHints(1, 256, CacheLocality.STREAMING)),
    BufferDecl.output("out", 1, DataType.F32).with_count(64).with_output_byte_range(range(16, 256)),
    BufferDecl.read_write("counts", 2, DataType.U32),
    BufferDecl.uniform("settings", 3, DataType.array(12)).with_count(1),
    BufferDecl.workgroup("tile", 64, DataType.handle(7)),
    BufferDecl.storage("only", 4, BufferAccess.WRITE_ONLY, DataType.opaque(9)).with_kind(MemoryKind.PUSH),
    BufferDecl.read(
        "weights",
        5,
        DataType.quantized(DataType.NF4, QuantizationScale.per_channel(1), QuantizationZeroPoint.per_tensor()),
    ).with_kind(MemoryKind.PERSISTENT),
]

_PREDICATE = Or(
    And(AtLeast(64), AtMost(2**32 - 1)),
    Not(And(ModEquals(8, 3), Or(Exactly(0), AffineRange(-1, 2**63 - 1, -(2**63), 5)))),
)

# What format 6 carries and format 4 does not.
REQUIRING_BUFFERS = [
    BufferDecl.read("raw", 6, DataType.Bytes).with_bytes_extraction(True),
    BufferDecl.read("once", 7, DataType.U32).with_linear_type(LinearType.LINEAR),
    BufferDecl.read("checked", 9, DataType.F32).with_shape_predicate(Or(AtLeast(64), Not(MultipleOf(3)))),
    BufferDecl.read("every", 10, DataType.F32).with_shape_predicate(_PREDICATE),
]
SHAPED = BufferDecl.read("shaped", 8, DataType.vec(DataType.F32, 4))
"""A buffer that no format carries whole."""

CARRIED = Program.wrapped(CARRIED_BUFFERS + REQUIRING_BUFFERS, (8, 4, 2), NODES).with_entry_op_id("every.term")
WHOLE = CARRIED.with_rewritten_buffers([*CARRIED.buffers, SHAPED]).with_non_composable_with_self(True)
