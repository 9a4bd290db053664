"""Hand-written cases of literals, orders, copies, neighbours in one word, and atomics where not all invocations come.

Source: spec items 1.2 (orderings), 1.5 to 1.7.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from vyre_driver.conformance.case import Case, case_of, output
from vyre_driver.conformance.patterns import F32_EDGES, F32_SPECIAL, I32_EDGES, NUMPY, U32_EDGES, U64_EDGES
from vyre_driver.ir import builders as ir
from vyre_driver.ir import nodes as nd
from vyre_driver.ir.buffers import BufferDecl
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.operators import AtomicOp, BinOp, MemoryOrdering

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vyre_driver.conformance.options import Options
    from vyre_driver.ir.arithmetic import Expr

U32, F32 = DataType.U32, DataType.F32
_ALONE = (1, 1, 1)
_BARRIERS = tuple(one for one in MemoryOrdering if one is not MemoryOrdering.RELAXED)
_ATOMICS = tuple(one for one in MemoryOrdering if one is not MemoryOrdering.GRID_SYNC)


def node_cases(options: Options) -> Iterator[Case]:
    """Yield the cases that these options allow."""
    yield from _literal_cases(options)
    yield from _copy_cases()
    yield from _scope_cases()
    if options.narrow:
        yield from _neighbour_cases()
    if options.shared:
        yield from _barrier_cases()
    if options.atomics:
        yield from _order_cases()
        yield from _uneven_cases()


def _literal_cases(options: Options) -> Iterator[Case]:
    literals: dict[DataType, list[Expr]] = {
        U32: [ir.u32(one) for one in U32_EDGES],
        DataType.I32: [ir.i32(one) for one in I32_EDGES],
        F32: [ir.f32(one) for one in (*F32_EDGES, *F32_SPECIAL, 1e-40, -1e-40)],
        DataType.Bool: [ir.boolean(one) for one in (True, False)],
    }
    if options.u64:
        literals[DataType.U64] = [ir.u64(one) for one in U64_EDGES]
        literals[DataType.I64] = [ir.i64(one) for one in (0, 1, -1, 2**63 - 1, -(2**63), -(2**32) - 7)]
        literals[DataType.F64] = [ir.f64(one) for one in (0.0, -0.0, 1.5, 1e300, 5e-324, float("inf"))]
    for dtype, many in literals.items():
        out = output(len(many), 0, dtype)
        yield case_of(f"literals of {dtype}", [out], [ir.store(out, place, one) for place, one in enumerate(many)], size=_ALONE)


def _copy_cases() -> Iterator[Case]:
    source, out = BufferDecl.read("in", 0, U32), output(6, 1)
    shared, values = BufferDecl.workgroup("shared", 4, U32), np.arange(11, 17, dtype=np.uint32)
    body = [
        nd.AsyncLoad("in", "shared", ir.u32(8), ir.u32(12), "in"),
        nd.AsyncWait("in"),
        nd.AsyncStore("shared", "out", ir.u32(4), ir.u32(16), "out"),
        nd.AsyncWait("out"),
    ]
    yield case_of("copies in and out", [source, out, shared], body, values, size=_ALONE)
    text = BufferDecl.read("in", 0, DataType.Bytes).with_bytes_extraction(True)
    yield case_of(
        "bytes as a word", [text, output(1, 1)], [ir.store("out", 0, ir.load(text, 3))], values.view(np.uint8), size=_ALONE
    )
    guarded = ir.if_(ir.gid_x() >= 8, [ir.trap(ir.gid_x(), "never")])
    yield case_of("a trap that nobody reaches", [output(8)], [guarded, ir.store("out", ir.gid_x(), ir.gid_x())])


def _scope_cases() -> Iterator[Case]:
    i, out, x = ir.gid_x(), output(8), ir.var("x", U32)
    inside = [ir.let("x", i * 3), ir.store(out, i, x)]
    body = [ir.block(*inside), ir.region("vyre.conformance", ir.let("x", i), ir.store(out, i, ir.load(out, i) * 100 + x))]
    yield case_of("a name in one block and another in the next", [out], body)
    for dtype, width in ((DataType.Vec2U32, 2), (DataType.Vec4U32, 4)):
        words = np.arange(1, 6 * width + 1, dtype=np.uint32).reshape(6, width)
        others = np.where(np.arange(6)[:, None] % 3 == np.arange(width) % 3, words, words + np.uint32(1))
        sources = [BufferDecl.read("in", 0, dtype), BufferDecl.read("other", 1, dtype)]
        pair = [ir.load(one, i) for one in sources]
        for op in (BinOp.EQ, BinOp.NE):
            result = ir.cast(U32, ir.binop(op, *pair))
            yield case_of(f"{op.name} of {dtype}", [*sources, output(8, 2)], [ir.store("out", i, result)], words, others)
        chosen = ir.select((i & 1).eq(1), *pair)
        target = output(8, 2, dtype)
        yield case_of(f"select of {dtype}", [*sources, target], [ir.store(target, i, chosen)], words, others)


def _neighbour_cases() -> Iterator[Case]:
    """Each invocation writes an element of a word that others write to as well, and not one bit beside it."""
    i = ir.gid_x()
    for dtype in (DataType.U8, DataType.I8, DataType.U16, DataType.I16):
        words = BufferDecl.read_write("words", 0, dtype)
        before = np.full(64 * NUMPY[dtype].itemsize, 0xA5, np.uint8).view(NUMPY[dtype])
        every = [ir.store(words, i, ir.cast(dtype, i * 0x01010101))]
        yield case_of(f"neighbours of {dtype}", [words], every, before, size=(64, 1, 1))
        third = [ir.if_((i % 3).eq(0), every)]
        yield case_of(f"every third neighbour of {dtype}", [words], third, before, size=(64, 1, 1))
        twice = [*every, ir.store(words, i, ir.load(words, i))]
        yield case_of(f"what was just written of {dtype}", [words], twice, before, size=(64, 1, 1))


def _barrier_cases() -> Iterator[Case]:
    lane, i = ir.lid_x(), ir.gid_x()
    for ordering in _BARRIERS:
        shared, out = BufferDecl.workgroup("shared", 8, U32), output(16)
        barrier = ir.barrier(ordering)
        body = [ir.store(shared, lane, i * 7), barrier, ir.store(out, i, ir.load(shared, lane ^ 5))]
        yield case_of(f"barrier {ordering.name}", [out, shared], body, grid=(2, 1, 1))


def _order_cases() -> Iterator[Case]:
    words, out = BufferDecl.read_write("words", 0, U32), output(3, 1)
    given = np.array([1, 5, 9], np.uint32)
    for ordering in _ATOMICS:
        found = ir.atomic(AtomicOp.ADD, words, 1, 3, ordering=ordering)
        swapped = ir.atomic(AtomicOp.COMPARE_EXCHANGE, words, 2, 4, expected=ir.u32(9), ordering=ordering)
        body = [ir.store(out, 0, found), ir.store(out, 2, swapped), ir.barrier(), ir.store(out, 1, ir.load(words, 1))]
        yield case_of(f"atomics in the order {ordering.name}", [words, out], body, given, size=_ALONE)


def _uneven_cases() -> Iterator[Case]:
    """An invocation that takes more turns, or is the only one to come there, may not be held up or ended by an order."""
    i, out, counters = ir.gid_x(), output(96), BufferDecl.read_write("counters", 1, U32)
    zeros = np.zeros(3, np.uint32)
    count = ir.let("found", ir.atomic_add(counters, 0, 1))
    stored = ir.store(out, i, i * 3 + 1)
    turns: dict[str, tuple[Expr | int, Expr | int]] = {
        "more turns for some": (0, i & 15),
        "turns for some": (0, i >> 6),
        "turns from one's own": (i & 7, 7),
    }
    for name, (start, stop) in turns.items():
        body = [ir.loop("k", start, stop, [count]), stored]
        yield case_of(f"an atomic, and {name}", [out, counters], body, zeros, size=(32, 1, 1), grid=(3, 1, 1))
    branches = [ir.if_((i & 9).eq(0), [count], [ir.if_(i < 50, [ir.let("other", ir.atomic_add(counters, 1, i))])]), stored]
    yield case_of("an atomic in a branch", [out, counters], branches, zeros, size=(32, 1, 1), grid=(3, 1, 1))
    left = [ir.loop("k", 0, 20, lambda k: [count, ir.if_(k.eq(i), [stored, ir.return_()])]), ir.store(out, i, ir.u32(5))]
    yield case_of("an atomic before some return", [out, counters], left, zeros, size=(32, 1, 1), grid=(3, 1, 1))
