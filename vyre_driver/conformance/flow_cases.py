"""Hand-written cases of memory, control flow, the grid, workgroups and atomics, of loops that end early, and of what is pushed.

Source: spec items 1.5 to 1.7; docs/ir.md, "Loops that end early"; docs/binding.md, "What is pushed".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from vyre_driver.conformance.case import Case, case_of, output
from vyre_driver.conformance.patterns import NUMPY, edges, scalar_types
from vyre_driver.ir import builders as ir
from vyre_driver.ir.buffers import PUSHED_TYPES, BufferDecl
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.operators import SubgroupOp

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vyre_driver.conformance.options import Options
    from vyre_driver.ir.arithmetic import Expr
    from vyre_driver.ir.nodes import Node

U32, F32, BOOL = DataType.U32, DataType.F32, DataType.Bool
_ONES = 0xFFFF_FFFF


def flow_cases(options: Options) -> Iterator[Case]:
    """Yield the cases that these options allow."""
    yield from _memory_cases(options)
    yield from _loop_cases()
    yield from _branch_cases()
    yield from _grid_cases()
    if options.shared:
        yield from _workgroup_cases()
    if options.atomics:
        yield _atomic_out_of_range()
    if options.subgroups:
        yield from _subgroup_cases()
        yield from _partial_subgroup_cases(options)


def _memory_cases(options: Options) -> Iterator[Case]:
    i = ir.gid_x()
    for dtype in scalar_types(options):
        source, out = BufferDecl.read("in", 0, dtype), output(8, 1, dtype)
        values = edges(dtype)[:4]
        for name, index in (("past the end", i), ("far out of range", i + (_ONES - 5)), ("by a constant", ir.u32(3))):
            yield case_of(f"load of {dtype} {name}", [source, out], [ir.store(out, i, ir.load(source, index))], values)
        both = BufferDecl.read_write("both", 0, dtype)
        moved = [ir.store(both, i + 2, ir.load(source.name, i))]
        for name, start in (("past the end", 0), ("far out of range", _ONES - 3)):
            node = ir.store(both, i + start, ir.load("in", i))
            yield case_of(
                f"store of {dtype} {name}", [both, BufferDecl.read("in", 1, dtype)], [node], values, np.roll(values, 1)
            )
        yield case_of(f"store of {dtype} shifted", [both, BufferDecl.read("in", 1, dtype)], moved, values, np.roll(values, 2))
    for dtype, width in ((DataType.Vec2U32, 2), (DataType.Vec4U32, 4)):
        source, out = BufferDecl.read("in", 0, dtype), output(8, 1, dtype)
        words = np.arange(1, 5 * width + 1, dtype=np.uint32).reshape(5, width)
        yield case_of(f"load of {dtype} past the end", [source, out], [ir.store(out, i, ir.load(source, i))], words)
    lengths = output(2, 2)
    body = [ir.store(lengths, 0, ir.buf_len("in")), ir.store(lengths, 1, ir.buf_len("fixed"))]
    buffers = [BufferDecl.read("in", 0, F32), BufferDecl.read("fixed", 1, F32).with_count(3), lengths]
    yield case_of("lengths of buffers", buffers, body, np.zeros(5, np.float32), np.zeros(3, np.float32), size=(1, 1, 1))


def _loop_cases() -> Iterator[Case]:
    i, total, out = ir.gid_x(), ir.var("total", U32), output(8)
    bounds: dict[str, tuple[Expr | int, Expr | int]] = {
        "empty": (3, 3),
        "backwards": (5, 2),
        "to a bound of its own": (0, i),
        "from a bound of its own": (i, 5),
        "at the end of u32": (_ONES - 2, _ONES),
    }
    for name, (start, stop) in bounds.items():
        body = [
            ir.let(total, 7),
            ir.loop("k", start, stop, lambda k: [ir.assign(total, total * 3 + k)]),
            ir.store(out, i, total),
        ]
        yield case_of(f"loop {name}", [out], body)
    stop = ir.var("stop", U32)
    body = [
        ir.let(total, 0),
        ir.let(stop, 4),
        ir.loop("k", 0, stop, lambda k: [ir.assign(stop, stop + 1), ir.assign(total, total + k)]),
        ir.store(out, i, total + stop * 100),
    ]
    yield case_of("loop whose bound changes inside", [out], body)
    body = [
        ir.let(total, 0),
        ir.loop(
            "k",
            0,
            10,
            lambda k: [
                ir.if_(k.eq(i), [ir.store(out, i, total + 1000), ir.return_()]),
                ir.assign(total, total + k),
                ir.loop("m", k, 4, lambda m: [ir.if_(m.eq(i), [ir.assign(total, total + 50)])]),
            ],
        ),
        ir.store(out, i, total),
    ]
    yield case_of("return out of nested loops", [out], body, size=(16, 1, 1))


def _branch_cases() -> Iterator[Case]:
    i, x, out = ir.gid_x(), ir.var("x", U32), output(8)
    body = [
        ir.let(x, i * 10),
        ir.if_(
            i < 5,
            [ir.assign(x, x + 1), ir.if_((i & 1).eq(0), [ir.assign(x, x + 2)], [ir.if_(i > 2, [ir.return_()])])],
            [ir.assign(x, x * 2)],
        ),
        ir.store(out, i, x),
    ]
    yield case_of("branches in branches", [out], body)
    body = [ir.let(x, i), ir.if_(i & 6, [ir.assign(x, 100)]), ir.block(ir.let("y", x + 1), ir.store(out, i, ir.var("y", U32)))]
    yield case_of("branch by a number", [out], body)
    y = ir.var("y", U32)
    body = [
        ir.let(x, i),
        ir.let(y, x),
        ir.assign(x, x + 1),
        ir.if_(i < 3, [ir.assign(x, y + 5)]),
        ir.store(out, i, x * 100 + y),
    ]
    yield case_of("a copy does not follow what it was copied from", [out], body)


def _grid_cases() -> Iterator[Case]:
    size, grid = (3, 2, 4), (2, 3, 2)
    width, height, depth = (one * other for one, other in zip(size, grid, strict=True))
    place = ir.gid_x() + ir.gid_y() * width + ir.gid_z() * (width * height)
    out = output(width * height * depth)
    ids = {
        "ids in the grid": (ir.gid_x(), ir.gid_y(), ir.gid_z()),
        "ids of workgroups": (ir.wid_x(), ir.wid_y(), ir.wid_z()),
        "ids in workgroups": (ir.lid_x(), ir.lid_y(), ir.lid_z()),
    }
    for name, (x, y, z) in ids.items():
        yield case_of(name, [out], [ir.store(out, place, x + y * 100 + z * 10000)], size=size, grid=grid)


def _workgroup_cases() -> Iterator[Case]:
    i, lane = ir.gid_x(), ir.lid_x()
    for dtype in (U32, F32, BOOL):
        shared, out = BufferDecl.workgroup("shared", 16, dtype), output(24, 0, dtype)
        yield case_of(
            f"workgroup memory of {dtype} begins as zeros",
            [out, shared],
            [ir.store(out, i, ir.load(shared, lane))],
            grid=(3, 1, 1),
        )
    shared, source, out = BufferDecl.workgroup("shared", 8, U32), BufferDecl.read("in", 0, U32), output(24, 1)
    values = np.arange(100, 124, dtype=np.uint32)
    body = [ir.store(shared, lane, ir.load(source, i)), ir.barrier(), ir.store(out, i, ir.load(shared, ir.u32(7) - lane))]
    yield case_of("exchange through workgroup memory", [source, out, shared], body, values, grid=(3, 1, 1))
    total = ir.var("total", U32)
    body = [
        ir.let(total, ir.load(source, i)),
        ir.loop(
            "k",
            0,
            3,
            lambda k: [
                ir.store(shared, lane, total),
                ir.barrier(),
                ir.assign(total, total + ir.load(shared, lane + (ir.u32(1) << k))),
                ir.barrier(),
            ],
        ),
        ir.store(out, i, total),
    ]
    yield case_of("barriers in a loop", [source, out, shared], body, values, grid=(3, 1, 1))
    body = [ir.store(shared, lane + 4, i), ir.barrier(), ir.store(out, i, ir.load(shared, lane + 4))]
    yield case_of("workgroup memory out of range", [output(24), shared], body, grid=(2, 1, 1))


def _atomic_out_of_range() -> Case:
    out, words = output(20, 1), np.array([5, 0, _ONES, 1 << 31, 12345], np.uint32)
    buffer = BufferDecl.read_write("words", 0, U32)
    body = [ir.store(out, ir.gid_x(), ir.atomic_add(buffer, ir.gid_x() + 5, 1))]
    return case_of("atomic out of range finds zero", [buffer, out], body, words)


def _subgroup_cases() -> Iterator[Case]:
    i, lane = ir.gid_x(), ir.subgroup_local_id()
    for dtype in (U32, DataType.I32):
        source, out = BufferDecl.read("in", 0, dtype), output(64, 1, dtype)
        values = np.resize(edges(dtype), 64).astype(NUMPY[dtype])
        loaded = ir.load(source, i)
        for op in SubgroupOp:
            reduced = [ir.store(out, i, ir.subgroup_reduce(op, loaded))]
            yield case_of(f"subgroup {op.name} of {dtype}", [source, out], reduced, values, size=(64, 1, 1))
        taken = ir.subgroup_shuffle(loaded, (lane * 5 + 3) & 31)
        yield case_of(f"shuffle of {dtype}", [source, out], [ir.store(out, i, taken)], values, size=(64, 1, 1))
    for count in (1, 3, 33):  # no device's subgroups are filled by all of them
        out = output(40 * count)
        asked = [ir.store(out, i * 40 + wanted, ir.subgroup_shuffle(ir.u32(7), ir.u32(wanted))) for wanted in range(40)]
        yield case_of(f"shuffles of a constant among {count}", [out], asked, size=(count, 1, 1))
    out = output(64)
    yield case_of("ballot", [out], [ir.store(out, i, ir.subgroup_ballot((i & 5).eq(4)))], size=(64, 1, 1))
    yield case_of("lane and size", [out], [ir.store(out, i, lane + ir.subgroup_size() * 100)], size=(64, 1, 1))


def _partial_subgroup_cases(options: Options) -> Iterator[Case]:
    """Yield cases where lanes are not there, have returned, or have taken the other branch."""
    values: dict[DataType, Expr] = {U32: ir.u32(7), DataType.I32: ir.i32(-7), F32: ir.f32(1.0), BOOL: ir.boolean(True)}
    values |= {DataType.U64: ir.u64(7 << 40)} if options.u64 else {}
    for dtype, value in values.items():
        out = output(6, 0, dtype)
        nodes = [ir.store(out, place, ir.subgroup_shuffle(value, lane)) for place, lane in enumerate((0, 1, 2, 7, 31, 40))]
        yield case_of(f"shuffle of {dtype} from lanes that are not there", [out], nodes, size=(1, 1, 1))
    i, lane, out = ir.gid_x(), ir.subgroup_local_id(), output(39 * 4)
    asked: list[Node] = [
        ir.store(out, i * 4, ir.subgroup_add(i + 1)),
        ir.store(out, i * 4 + 1, ir.subgroup_ballot(ir.boolean(True))),
        ir.store(out, i * 4 + 2, ir.subgroup_shuffle(i + 1, lane + 1)),
        ir.store(out, i * 4 + 3, ir.subgroup_shuffle(i + 1, lane ^ 2)),
    ]
    yield case_of("subgroups that are not full", [out], asked, size=(13, 1, 1), grid=(3, 1, 1))
    some = (i & 2).eq(0)
    yield case_of("subgroups of which some have returned", [out], [ir.if_(some, [ir.return_()]), *asked], size=(39, 1, 1))
    yield case_of("subgroups of which some are in a branch", [out], [ir.if_(some, asked)], size=(39, 1, 1))
    yield case_of("subgroups whose halves are in two branches", [out], [ir.if_(some, asked, asked)], size=(39, 1, 1))


_ALL = 0xFFFF_FFFF
_left, _total, _going = ir.var("left", U32), ir.var("total", U32), ir.var("going", BOOL)
_STEP: list[Node] = [ir.assign(_left, _left - 1), ir.assign(_total, _total * 3 + _left)]


def jump_cases(options: Options) -> Iterator[Case]:
    """Yield the cases that these options allow."""
    yield from _ending_cases()
    yield from _nested_cases()
    yield from _pushed_cases(options)
    if options.shared:
        yield from _barrier_cases()


def _ending_cases() -> Iterator[Case]:
    i, k, out = ir.gid_x(), ir.var("k", U32), output(8)
    counted = [*_STEP, ir.assign(_total, _total + k)]
    loops: dict[str, Node] = {
        "while something is left": ir.forever([ir.if_(_left > 0, _STEP)]),
        "while something is left, counted": ir.loop("k", 0, _ALL, [ir.if_(_left > 0, counted)]),
        "while something is left, at most three times": ir.loop("k", 0, 3, [ir.if_(_left > 0, counted)]),
        "while something is left, from a bound of its own": ir.loop("k", i, i + 3, [ir.if_(_left > 0, counted)]),
        "while a number is not zero": ir.forever([ir.if_(_left, _STEP)]),
        "while nothing is": ir.forever([ir.if_(ir.boolean(False), _STEP)]),
        "until it returns": ir.forever(
            [ir.if_(ir.boolean(True), [*_STEP, ir.if_(_left < 3, [ir.store(out, i, _total), ir.return_()])])]
        ),
        "by the variable and something else, each turn": ir.loop("k", 0, 9, [ir.if_((k & 1).eq(0), counted)]),
        "while more than one is left, at the end of u32": ir.loop("k", _ALL - 4, _ALL, [ir.if_(_left > 1, counted)]),
    }
    for name, loop in loops.items():
        yield case_of(f"loop {name}", [out], [ir.let(_left, i + 3), ir.let(_total, 7), loop, ir.store(out, i, _total)])
    broken: list[Node] = [ir.assign(_total, _total + k), ir.if_(k.eq(i), [ir.assign(_going, ir.boolean(False))])]
    body = [
        *(ir.let(_total, 0), ir.let(_going, ir.boolean(True))),
        ir.loop("k", 0, 100, [ir.if_(_going, broken)]),
        ir.store(out, i, ir.select(_going, ir.u32(0), _total)),
    ]
    yield case_of("loop that breaks", [out], body)
    data = BufferDecl.read_write("data", 0, U32)
    below = ir.if_(ir.load(data, i) < 1000, [ir.store(data, i, ir.load(data, i) * 2 + 1)])
    yield case_of("loop by what it stores", [data], [ir.loop("k", 0, 5, [below])], np.arange(8, dtype=np.uint32) * 100)


def _nested_cases() -> Iterator[Case]:
    i, out, inner = ir.gid_x(), output(16), ir.var("inner", U32)
    turns = ir.loop(
        "m", 0, _ALL, [ir.if_((inner > 0).and_(_going), [ir.assign(inner, inner - 1), ir.assign(_total, _total + 1)])]
    )
    leave = ir.if_(_total > i * 2, [ir.assign(_going, ir.boolean(False))])
    body = [
        *(ir.let(_left, 4), ir.let(_total, 0), ir.let(_going, ir.boolean(True))),
        ir.loop("k", 0, _ALL, [ir.if_(_going.and_(_left > 0), [*_STEP[:1], ir.let(inner, _left + (i & 3)), turns, leave])]),
        ir.store(out, i, _total * 100 + _left),
    ]
    yield case_of("loops in loops that end early", [out], body, size=(16, 1, 1))
    power = ir.var("power", U32)
    collatz = ir.select((power & 1).eq(0), power / 2, power * 3 + 1)
    body = [
        *(ir.let(power, i + 1), ir.let(_total, 0)),
        ir.forever([ir.if_(power > 1, [ir.assign(power, collatz), ir.assign(_total, _total + 1)])]),
        ir.store(out, i, _total),
    ]
    yield case_of("loop of as many turns as nobody knows", [out], body, size=(16, 1, 1))


def _barrier_cases() -> Iterator[Case]:
    lane, out, shared = ir.lid_x(), output(16), BufferDecl.workgroup("shared", 8, U32)
    limit = BufferDecl.push("limit", 1, U32)
    halve = ir.if_(_left > lane, [ir.store(shared, lane, ir.load(shared, lane) + ir.load(shared, lane + _left))])
    tree: list[Node] = [halve, ir.barrier(), ir.assign(_left, _left / 2)]
    for name, first, buffers, inputs in (
        ("of a literal", ir.u32(4), [out, shared], []),
        ("of what is pushed", ir.load(limit, 0), [out, limit, shared], [np.array([4], np.uint32)]),
    ):
        body = [
            *(ir.store(shared, lane, ir.gid_x() + 1), ir.let(_left, first), ir.barrier()),
            ir.forever([ir.if_(_left > 0, tree)]),
            ir.store(out, ir.gid_x(), ir.load(shared, 0)),
        ]
        yield case_of(f"barriers in a loop that ends by halves {name}", buffers, body, *inputs, grid=(2, 1, 1))


def _pushed_cases(options: Options) -> Iterator[Case]:
    i = ir.gid_x()
    types = [one for one in PUSHED_TYPES if one in NUMPY and (options.u64 or one not in {DataType.U64, DataType.I64})]
    for dtype in types:
        values, out = edges(dtype)[:4], output(12, 0, dtype)
        one, many = BufferDecl.push("one", 2, dtype), BufferDecl.push("many", 1, dtype, 4)
        stores = [
            *(ir.store(out, i, ir.load(many, i)), ir.store(out, 8, ir.load(one, 0))),
            *(ir.store(out, 9, ir.load(many, 3)), ir.store(out, 10, ir.load(one, i + 1))),
        ]
        yield case_of(f"pushed {dtype}", [out, many, one], stores, values, values[1:2])
    n, out = BufferDecl.push("n", 1, U32), output(8)
    body = [
        ir.let(_total, 0),
        ir.forever([ir.if_(_total < ir.load(n, 0) + i, [ir.assign(_total, _total * 2 + 1)])]),
        ir.store(out, i, _total + ir.buf_len(n)),
    ]
    yield case_of("loop by what is pushed", [out, n], body, np.array([9], np.uint32))
