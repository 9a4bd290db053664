"""Hand-written cases of atomics on u32, i32 and f32, in buffers and in workgroup memory.

Source: spec item 1.7 (memory); docs/ir.md, "Atomics".
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from vyre_driver.backends.reference.atomics import SUPPORTED_ATOMICS
from vyre_driver.conformance.case import Case, case_of, output
from vyre_driver.conformance.patterns import NUMPY, edges
from vyre_driver.ir import builders as ir
from vyre_driver.ir.buffers import BufferDecl
from vyre_driver.ir.builders import bitcast
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.operators import AtomicOp, MemoryOrdering
from vyre_driver.ir.validation.expression_rules import ATOMICS_OF

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

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
    pairs = np.array(list(product(every, every)), np.uint32)
    count, i = len(pairs), ir.gid_x()
    cells = BufferDecl.read_write("cells", 0, dtype).with_count(count)
    values, out = BufferDecl.read("values", 1, U32).with_count(count), output(count, 2)
    expected = ir.select((i % 3).eq(0), ir.load(values, i), ir.u32(5)) if op is AtomicOp.COMPARE_EXCHANGE else None
    body = [ir.if_(i < count, [ir.store(out, i, ir.atomic(op, cells, i, ir.load(values, i), expected=expected))])]
    given = pairs[:, 0].copy().view(NUMPY[dtype])
    grid = (-(-count // 64), 1, 1)
    return case_of(f"atomic {op.name} of {dtype}", [cells, values, out], body, given, pairs[:, 1].copy(), size=_SIZE, grid=grid)


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
