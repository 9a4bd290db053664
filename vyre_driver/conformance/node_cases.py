"""Hand-written cases of memory: atomics, an invocation's own, literals, orders, copies, and neighbours in one word.

Atomics are on u32, i32 and f32, in buffers and in workgroup memory, also where not all invocations come.

Source: spec items 1.2 (orderings), 1.5 to 1.7; docs/ir.md, "Atomics" and "Memory of an invocation's own".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from vyre_driver.backends.reference.atomics import SUPPORTED_ATOMICS
from vyre_driver.conformance.case import Case, case_of, output
from vyre_driver.conformance.patterns import (
    F32_EDGES,
    F32_SPECIAL,
    I32_EDGES,
    NUMPY,
    U32_EDGES,
    U64_EDGES,
    each_with_each,
    edges,
    scalar_types,
)
from vyre_driver.ir import builders as ir
from vyre_driver.ir import nodes as nd
from vyre_driver.ir.buffers import BufferDecl
from vyre_driver.ir.builders import bitcast
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.operators import AtomicOp, BinOp, MemoryOrdering
from vyre_driver.ir.validation.expression_rules import ATOMICS_OF

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from vyre_driver.conformance.options import Options
    from vyre_driver.ir.arithmetic import Expr
    from vyre_driver.ir.nodes import Node

U32, I32, F32 = DataType.U32, DataType.I32, DataType.F32
_TYPES = (U32, I32, F32)
_COMMUTING = (AtomicOp.ADD, AtomicOp.MIN, AtomicOp.MAX, AtomicOp.AND, AtomicOp.OR, AtomicOp.XOR)
_CELLS = 7
_SIZE, _GRID = (64, 1, 1), (3, 1, 1)


def atomic_cases(*, shared: bool) -> Iterator[Case]:
    """Yield them all, those on workgroup memory if that is there."""
    for dtype in _TYPES:
        for op in AtomicOp:
            if op in SUPPORTED_ATOMICS & ATOMICS_OF[dtype.wire_tag]:
                yield _found(op, dtype)
        for op in _COMMUTING:
            if op in ATOMICS_OF[dtype.wire_tag]:
                yield from _of_many(op, dtype, shared=shared)
        yield _exchanged(dtype)
    if shared:
        yield from _shared_orders()
        yield from _uneven()
        yield _histogram()


def _bits(dtype: DataType, values: NDArray[np.generic]) -> NDArray[np.uint32]:
    return np.asarray(values, NUMPY[dtype]).view(np.uint32)


def _found(op: AtomicOp, dtype: DataType) -> Case:
    """Return the case of every pair of edges, one invocation each: what an atomic finds, and what it leaves."""
    every = _bits(dtype, edges(dtype))
    before, operands = each_with_each(every, every)
    count, i = len(before), ir.gid_x()
    cells = BufferDecl.read_write("cells", 0, dtype).with_count(count)
    values, out = BufferDecl.read("values", 1, U32).with_count(count), output(count, 2)
    expected = ir.select((i % 3).eq(0), ir.load(values, i), ir.u32(5)) if op is AtomicOp.COMPARE_EXCHANGE else None
    body = [ir.if_(i < count, [ir.store(out, i, ir.atomic(op, cells, i, ir.load(values, i), expected=expected))])]
    given = before.view(NUMPY[dtype])
    grid = (-(-count // 64), 1, 1)
    return case_of(f"atomic {op.name} of {dtype}", [cells, values, out], body, given, operands, size=_SIZE, grid=grid)


def _of_many(op: AtomicOp, dtype: DataType, *, shared: bool) -> Iterator[Case]:
    """Yield the cases of many invocations at few elements, some out of range, in a buffer and in workgroup memory."""
    i = ir.gid_x()
    value: Expr = i * 0x9E37_79B9
    if dtype == F32:
        numbers = ir.cast(F32, ir.cast(I32, i * 37 % 101) - 50)  # whole ones, whose sums are exact
        special = ir.load("special", i % 16)
        value = bitcast(U32, numbers if op is AtomicOp.ADD else ir.select((i % 3).eq(0), special, numbers))
    cells = BufferDecl.read_write("cells", 0, dtype).with_count(_CELLS)
    given = np.arange(-3, _CELLS - 3, dtype=np.int32).astype(NUMPY[dtype])
    source = BufferDecl.read("special", 1, F32).with_count(16)
    specials = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan, 1e30, -1e30, *[1.0] * 8], np.float32)
    node = ir.let("before", ir.atomic(op, cells, i % (_CELLS + 2), value))
    name = f"atomic {op.name} of {dtype} by many"
    yield case_of(name, [cells, source], [node], given, specials, size=_SIZE, grid=_GRID)
    if not shared:
        return
    tile, out = BufferDecl.workgroup("tile", _CELLS, dtype), output(_CELLS * _GRID[0], 2)
    lane = ir.lid_x()
    body = [
        ir.if_(lane < _CELLS, [ir.store(tile, lane, ir.load(cells, lane))]),
        ir.barrier(),
        ir.let("before", ir.atomic(op, tile, i % (_CELLS + 2), value)),
        ir.barrier(),
        ir.if_(lane < _CELLS, [ir.store(out, ir.wid_x() * _CELLS + lane, bitcast(U32, ir.load(tile, lane)))]),
    ]
    read = BufferDecl.read("cells", 0, dtype).with_count(_CELLS)
    yield case_of(f"{name} in workgroup memory", [read, source, out, tile], body, given, specials, size=_SIZE, grid=_GRID)


def _exchanged(dtype: DataType) -> Case:
    """Return the case of a compare-exchange that succeeds for one invocation of many at each element.

    What it stores is none of the values that the others expect, so that their order does not matter.
    """
    i = ir.gid_x()
    cells, values = BufferDecl.read_write("cells", 0, dtype).with_count(_CELLS), np.arange(_CELLS, dtype=NUMPY[dtype])
    wanted = bitcast(U32, ir.cast(dtype, i / _CELLS)) if dtype != U32 else i / _CELLS
    swap = ir.atomic(AtomicOp.COMPARE_EXCHANGE, cells, i % _CELLS, i | 0x7000_0000, expected=wanted)
    return case_of(
        f"one of many exchanges {dtype}", [cells], [ir.let("before", swap)], values, size=(_CELLS, 1, 1), grid=(5, 1, 1)
    )


def _shared_orders() -> Iterator[Case]:
    lane, out = ir.lid_x(), output(16)
    for ordering in MemoryOrdering:
        if ordering is not MemoryOrdering.GRID_SYNC:
            tile = BufferDecl.workgroup("tile", 2, U32)
            body = [
                ir.let("found", ir.atomic(AtomicOp.ADD, tile, lane & 1, lane + 1, ordering=ordering)),
                ir.barrier(),
                ir.store(out, ir.gid_x(), ir.load(tile, lane & 1)),
            ]
            yield case_of(f"atomics on workgroup memory in the order {ordering.name}", [out, tile], body, grid=(2, 1, 1))


def _uneven() -> Iterator[Case]:
    """An invocation that takes more turns, or is the only one to come there, may not be held up or ended."""
    lane, i, out = ir.lid_x(), ir.gid_x(), output(96)
    for dtype in (U32, F32):
        tile = BufferDecl.workgroup("tile", 3, dtype)
        one = ir.u32(1) if dtype == U32 else bitcast(U32, ir.f32(1.0))
        count = ir.let("found", ir.atomic(AtomicOp.ADD, tile, lane % 3, one))
        ways: dict[str, list[Node]] = {
            "in a branch": [ir.if_((lane & 9).eq(0), [count])],
            "in uneven turns": [ir.loop("k", 0, lane & 15, [count])],
        }
        for name, nodes in ways.items():
            total = ir.load(tile, lane % 3)
            body = [*nodes, ir.barrier(), ir.store(out, i, bitcast(U32, total))]
            title = f"atomics of {dtype} on workgroup memory {name}"
            yield case_of(title, [out, tile], body, size=(32, 1, 1), grid=(3, 1, 1))


def _histogram() -> Case:
    """Return the case of a histogram: counted in workgroup memory, then added to the buffer."""
    i, lane = ir.gid_x(), ir.lid_x()
    data, counts = BufferDecl.read("data", 0, U32), BufferDecl.read_write("counts", 1, U32).with_count(16)
    tile, values = BufferDecl.workgroup("tile", 16, U32), np.arange(200, dtype=np.uint32) * np.uint32(2654435761)
    relaxed = MemoryOrdering.RELAXED
    body = [
        ir.if_(i < 200, [ir.let("a", ir.atomic(AtomicOp.ADD, tile, ir.load(data, i) >> 28, 1, ordering=relaxed))]),
        ir.barrier(),
        ir.if_(
            lane < 16,
            [ir.let("mine", ir.load(tile, lane)), ir.let("b", ir.atomic(AtomicOp.ADD, counts, lane, ir.var("mine", U32)))],
        ),
    ]
    zeros = np.zeros(16, np.uint32)
    return case_of(
        "a histogram by way of workgroup memory", [data, counts, tile], body, values, zeros, size=_SIZE, grid=(4, 1, 1)
    )


_ONES = 0xFFFF_FFFF


def local_cases(options: Options) -> Iterator[Case]:
    """Yield them all."""
    for dtype in scalar_types(options):
        yield _of_type(dtype)
    yield _zeros()
    yield _out_of_range()
    yield _sorted()
    if options.shared:
        yield _beside_workgroup_memory()


def _of_type(dtype: DataType) -> Case:
    """Return the case of elements that are turned round by way of memory of the invocation's own."""
    values = edges(dtype)[:4]
    i, count = ir.gid_x(), len(values)
    source, out, own = BufferDecl.read("in", 0, dtype), output(4 * count, 1, dtype), BufferDecl.local("own", count, dtype)
    k = ir.var("k", U32)
    body = [
        ir.loop("k", 0, count, [ir.store(own, (k + i) % count, ir.load(source, k))]),
        ir.loop("k", 0, count, [ir.store(out, i * count + k, ir.load(own, count - 1 - k))]),
    ]
    return case_of(f"own memory of {dtype}", [source, out, own], body, values, size=(4, 1, 1), grid=(1, 1, 1))


def _zeros() -> Case:
    """Return the case of memory that is zero for each invocation of each workgroup, whatever those before stored."""
    i, out, own = ir.gid_x(), output(32), BufferDecl.local("own", 4, U32)
    body = [
        ir.let("before", ir.load(own, i % 4) + ir.load(own, 3)),
        ir.store(own, i % 4, i + 1),
        ir.store(own, 3, 77),
        ir.store(out, i, ir.var("before", U32) * 1000 + ir.load(own, i % 4) + ir.buf_len("own")),
    ]
    return case_of("own memory begins as zeros", [out, own], body, size=(8, 1, 1), grid=(4, 1, 1))


def _out_of_range() -> Case:
    """Return the case of stores and loads before, at and beyond the end, with two buffers side by side."""
    i, out = ir.gid_x(), output(48)
    own, other = BufferDecl.local("own", 3, U32), BufferDecl.local("other", 3, U32)
    body = [
        ir.loop("k", 0, 3, [ir.store(other, ir.var("k", U32), 5)]),
        ir.store(own, i - 2, i + 100),
        ir.store(other, i + (_ONES - 5), 9),
        ir.store(out, i * 3, ir.load(own, i - 2)),
        ir.store(out, i * 3 + 1, ir.load(own, 0) + ir.load(own, 1) + ir.load(own, 2) + ir.load(own, i)),
        ir.store(out, i * 3 + 2, ir.load(other, 0) * 100 + ir.load(other, 1) * 10 + ir.load(other, 2)),
    ]
    return case_of("own memory out of range", [out, own, other], body, size=(8, 1, 1), grid=(2, 1, 1))


def _sorted() -> Case:
    """Return the case of an insertion sort in own memory: loops that are left early, with indices that memory decides."""
    i, k, j = ir.gid_x(), ir.var("k", U32), ir.var("j", U32)
    source, out, own = BufferDecl.read("in", 0, U32), output(8, 1), BufferDecl.local("own", 6, U32)
    value = ir.var("value", U32)
    move = [ir.store(own, j, ir.load(own, j - 1)), ir.assign("j", j - 1)]
    body = [
        ir.loop(
            "k",
            0,
            6,
            [
                ir.let("value", ir.load(source, i + k)),
                ir.let("j", k),
                ir.loop("turn", 0, 6, [ir.if_((j > 0).and_(ir.load(own, j - 1) > value), move)]),
                ir.store(own, j, value),
            ],
        ),
        ir.store(out, i, ir.load(own, 2) * 1000 + ir.load(own, ir.load(own, 0) % 6)),
    ]
    given = np.array([5, 2, 9, 2, 7, 1, 8, 3, 6, 4, 0, 9, 2], np.uint32)
    return case_of("a sort in own memory", [source, out, own], body, given, size=(8, 1, 1), grid=(1, 1, 1))


def _beside_workgroup_memory() -> Case:
    """Return the case of own memory that is kept over barriers, beside that of the workgroup."""
    i, lane, out = ir.gid_x(), ir.lid_x(), output(32)
    own, tile = BufferDecl.local("own", 2, U32), BufferDecl.workgroup("tile", 8, U32)
    body = [
        ir.store(own, lane % 2, i * 3 + 1),
        ir.store(tile, lane, ir.load(own, lane % 2)),
        ir.barrier(),
        ir.store(own, 1 - lane % 2, ir.load(tile, 7 - lane)),
        ir.barrier(),
        ir.store(out, i, ir.load(own, 0) * 1000 + ir.load(own, 1)),
    ]
    return case_of("own memory over barriers", [out, own, tile], body, size=(8, 1, 1), grid=(4, 1, 1))


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
