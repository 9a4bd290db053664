"""What the property tests of programs draw from: small programs over few names, so that they come close to each other."""

from __future__ import annotations

import dataclasses
from typing import Any

from hypothesis import strategies as st

from vyre_driver.ir import expressions as ex
from vyre_driver.ir import nodes as nd
from vyre_driver.ir.buffers import BufferAccess, BufferDecl, CacheLocality, LinearType, MemoryHints, MemoryKind
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.operators import AtomicOp, BinOp, CollectiveOp, MemoryOrdering, OpaqueOp, SubgroupOp, UnOp
from vyre_driver.ir.predicates import AffineRange, And, AtLeast, AtMost, Exactly, ModEquals, MultipleOf, Not, Or, ShapePredicate
from vyre_driver.ir.program import Program
from vyre_driver.ir.quantization import QuantizationScale, QuantizationZeroPoint
from vyre_driver.ir.terms import Term

# Names that run into each other when nothing delimits them.
names = st.sampled_from(["", "a", "b", "ab", "a\0", "\0", "名前", "a\x01\0\0\0b"])
u32s = st.sampled_from([0, 1, 2, 255, 256, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF])
i32s = st.sampled_from([0, 1, -1, 2**31 - 1, -(2**31)])
f32_bits = st.sampled_from(
    [0, 0x8000_0000, 1, 0x8000_0001, 0x3F80_0000, 0x7F80_0000, 0xFF80_0000, 0x7FC0_0000, 0x7FC0_0001, 0xFFC0_0000]
)
payloads = st.sampled_from([b"", b"\0", b"\1\0\0\0", b"ab"])
bools = st.booleans()
ORDERINGS = st.sampled_from(MemoryOrdering)
COLLECTIVES = st.sampled_from(CollectiveOp)

_PLAIN_TYPES = [DataType(tag) for tag in (*range(1, 8), *range(9, 0x13), *range(0x19, 0x1E))]
scales = st.sampled_from(
    [
        QuantizationScale.per_tensor(),
        QuantizationScale.per_channel(1),
        QuantizationScale.per_group(1),
        QuantizationScale.per_group(32),
    ]
)
zero_points = st.sampled_from(
    [QuantizationZeroPoint.absent(), QuantizationZeroPoint.per_tensor(), QuantizationZeroPoint.per_group(32)]
)
_flat_types = (
    st.sampled_from(_PLAIN_TYPES)
    | st.builds(DataType.array, u32s)
    | st.builds(DataType.handle, u32s)
    | st.builds(DataType.opaque, u32s)
    | st.builds(DataType.device_mesh, st.lists(u32s, max_size=2))
    | st.builds(DataType.quantized, st.sampled_from([DataType.I4, DataType.U8]), scales, zero_points)
)
dtypes = st.recursive(
    _flat_types,
    lambda inner: (
        st.builds(DataType.vec, inner, st.integers(0, 255))
        | st.builds(DataType.tensor_shaped, inner, st.lists(u32s, max_size=2))
        | st.builds(DataType.sparse_csr, inner)
        | st.builds(DataType.sparse_coo, inner)
        | st.builds(DataType.sparse_bsr, inner, u32s, u32s)
    ),
    max_leaves=3,
)

binary_ops = st.sampled_from([*BinOp, OpaqueOp(0), OpaqueOp(7)])
unary_ops = st.sampled_from([*UnOp, OpaqueOp(0), OpaqueOp(7)])
atomic_ops = st.sampled_from([*AtomicOp, OpaqueOp(0)])

_leaves = (
    st.builds(ex.LitU32, u32s)
    | st.builds(ex.LitI32, i32s)
    | st.builds(ex.LitBool, bools)
    | st.builds(ex.LitF32, f32_bits)
    | st.builds(ex.Var, names)
    | st.builds(ex.BufLen, names)
    | st.builds(ex.BufferRef, names)
    | st.builds(ex.InvocationId, st.integers(0, 3))
    | st.builds(ex.WorkgroupId, st.integers(0, 3))
    | st.builds(ex.LocalId, st.integers(0, 3))
    | st.builds(ex.SubgroupLocalId)
    | st.builds(ex.SubgroupSize)
    | st.builds(ex.OpaqueExpr, names, payloads)
)


def _larger(inner: st.SearchStrategy[ex.Expr]) -> st.SearchStrategy[ex.Expr]:
    return (
        st.builds(ex.Binary, binary_ops, inner, inner)
        | st.builds(ex.Unary, unary_ops, inner)
        | st.builds(ex.Load, names, inner)
        | st.builds(ex.Call, names, st.lists(inner, max_size=3))
        | st.builds(ex.Select, inner, inner, inner)
        | st.builds(ex.Cast, dtypes, inner)
        | st.builds(ex.Atomic, atomic_ops, ORDERINGS, names, inner, st.none() | inner, inner)
        | st.builds(ex.Fma, inner, inner, inner)
        | st.builds(ex.SubgroupReduce, st.sampled_from(SubgroupOp), inner)
        | st.builds(ex.SubgroupShuffle, inner, inner)
        | st.builds(ex.SubgroupBallot, inner)
    )


expressions: st.SearchStrategy[ex.Expr] = st.recursive(_leaves, _larger, max_leaves=6)

_simple_nodes = (
    st.builds(nd.Let, names, expressions)
    | st.builds(nd.Assign, names, expressions)
    | st.builds(nd.Store, names, expressions, expressions)
    | st.builds(nd.Return)
    | st.builds(nd.Barrier, ORDERINGS)
    | st.builds(nd.IndirectDispatch, names, st.sampled_from([0, 1, 2**64 - 1]))
    | st.builds(nd.AsyncLoad, names, names, expressions, expressions, names)
    | st.builds(nd.AsyncStore, names, names, expressions, expressions, names)
    | st.builds(nd.AsyncWait, names)
    | st.builds(nd.Trap, expressions, names)
    | st.builds(nd.Resume, names)
    | st.builds(nd.AllReduce, names, COLLECTIVES, u32s)
    | st.builds(nd.AllGather, names, names, u32s)
    | st.builds(nd.ReduceScatter, names, names, COLLECTIVES, u32s)
    | st.builds(nd.Broadcast, names, u32s, u32s)
    | st.builds(nd.OpaqueNode, names, payloads)
)


def _bodies(inner: st.SearchStrategy[nd.Node]) -> st.SearchStrategy[nd.Node]:
    body = st.lists(inner, max_size=3)
    return (
        st.builds(nd.If, expressions, body, body)
        | st.builds(nd.Loop, names, expressions, expressions, body)
        | st.builds(nd.Block, body)
        | st.builds(nd.Region, names, st.none() | names, body)
    )


nodes: st.SearchStrategy[nd.Node] = st.recursive(_simple_nodes, _bodies, max_leaves=5)

predicates: st.SearchStrategy[ShapePredicate] = st.recursive(
    st.builds(AtLeast, u32s)
    | st.builds(AtMost, u32s)
    | st.builds(Exactly, u32s)
    | st.builds(MultipleOf, u32s)
    | st.builds(ModEquals, u32s, u32s)
    | st.builds(AffineRange, i32s, i32s, i32s, i32s),
    lambda inner: st.builds(And, inner, inner) | st.builds(Or, inner, inner) | st.builds(Not, inner),
    max_leaves=3,
)
hints = st.builds(MemoryHints, st.none() | st.integers(0, 2), u32s, st.sampled_from(CacheLocality))
buffers = st.builds(
    BufferDecl,
    names,
    u32s,
    st.sampled_from(BufferAccess),
    st.sampled_from(MemoryKind),
    dtypes,
    u32s,
    bools,
    bools,
    st.none() | st.tuples(st.integers(0, 2), st.integers(0, 2)),
    hints,
    bools,
    st.sampled_from(LinearType),
    st.none() | predicates,
)
sizes = st.tuples(u32s, u32s, u32s)
programs = st.builds(
    Program, st.lists(buffers, max_size=3), sizes, st.lists(nodes, max_size=3), st.none() | names, bools, bools
)

# What format 6 carries whole: no lost field, no refused element, sizes that its encoder takes.
_carried_types = _flat_types.filter(lambda dtype: dtype.wire_tag != DataType.device_mesh(()).wire_tag)
carried_buffers = st.builds(
    BufferDecl,
    names,
    u32s,
    st.sampled_from(BufferAccess),
    st.sampled_from(MemoryKind),
    _carried_types,
    st.integers(1, 9),
    bools,
    bools,
    st.none() | st.just((0, 0)),
    hints,
    bools,
    st.sampled_from(LinearType),
    st.none() | predicates,
)
carried_programs = st.builds(
    Program,
    st.lists(carried_buffers, max_size=3),
    st.tuples(*[st.integers(1, 0xFFFF_FFFF)] * 3),
    st.lists(nodes, max_size=3),
    st.none() | names,
    bools,
)


def spelled_out(value: Any) -> Any:  # noqa: ANN401 -- any part of a program
    """Every field of a program as nested tuples: what the digests are judged by, computed without them."""
    if isinstance(value, Term | Program | BufferDecl | DataType | ShapePredicate | MemoryHints):
        fields = [field.name for field in dataclasses.fields(value) if field.init and field.name != "structurally_validated"]
        return type(value).__name__, *(spelled_out(getattr(value, name)) for name in fields)
    if isinstance(value, tuple):
        return ("sequence", *map(spelled_out, value))
    return type(value).__name__, value
