"""Hand-written cases of memory that each invocation has for itself.

Source: docs/ir.md, "Memory of an invocation's own".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from vyre_driver.conformance.case import Case, case_of, output
from vyre_driver.conformance.patterns import edges, scalar_types
from vyre_driver.ir import builders as ir
from vyre_driver.ir.buffers import BufferDecl
from vyre_driver.ir.dtypes import DataType

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vyre_driver.conformance.options import Options

U32 = DataType.U32
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
