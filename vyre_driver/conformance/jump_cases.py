"""Hand-written cases of loops that end when their condition first fails, and of what is pushed.

Source: docs/ir.md, "Loops that end early"; docs/binding.md, "What is pushed".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from vyre_driver.conformance.case import case_of, output
from vyre_driver.conformance.patterns import NUMPY, edges
from vyre_driver.ir import builders as ir
from vyre_driver.ir.buffers import PUSHED_TYPES, BufferDecl
from vyre_driver.ir.dtypes import DataType

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vyre_driver.conformance.case import Case
    from vyre_driver.conformance.options import Options
    from vyre_driver.ir.nodes import Node

U32, BOOL = DataType.U32, DataType.Bool
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
