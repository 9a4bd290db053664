"""The validators take time in proportion to the program, counted in calls where that shows it."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import pytest
from rule_programs import BUFFERS, X, program

from vyre_driver.ir import examine
from vyre_driver.ir.buffers import BufferDecl
from vyre_driver.ir.builders import (
    assign,
    atomic_add,
    barrier,
    binop,
    call,
    cast,
    gid_x,
    if_,
    let,
    load,
    loop,
    return_,
    store,
    u32,
)
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.operators import BinOp
from vyre_driver.ir.validation.rules import MAX_PROBLEMS

if TYPE_CHECKING:
    from collections.abc import Callable

    from vyre_driver.ir.nodes import Node
    from vyre_driver.ir.program import Program

HANG_S = 4.0  # of the processor; nothing here takes a third of it on an idle machine
CHOICE = binop(BinOp.EQ, load("in", u32(0)), X)


def calls_of_examine(given: Program) -> int:
    """Return how many functions, of Python and of C, the examination as upstream calls."""
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in {"call", "c_call"}

    sys.setprofile(count)
    try:
        examine(given, upstream="0.7")
    finally:
        sys.setprofile(None)
    return calls


def nested(body: list[Node], levels: int) -> Program:
    """Loops inside each other, each behind a barrier, with a body that all invocations leave together."""
    inner: list[Node] = [*body, if_(CHOICE, [return_()])]
    for level in range(levels):
        inner = [barrier(), loop(f"k{level}", 0, 2, inner)]
    return program(*inner)


def wrong_arguments(count: int) -> Program:
    return program(let("x", call("op", *[load(f"no{place}", 0) for place in range(count)])))


def variables_and_loops(count: int) -> Program:
    lets = [let(f"v{place}", u32(place)) for place in range(count)]
    return program(*lets, *[loop(f"k{place}", 0, u32(place), []) for place in range(count)])


def exits_that_assign(count: int) -> Program:
    lets = [let(f"v{place}", u32(place)) for place in range(count)]
    exits = [if_(CHOICE, [assign(f"v{place}", X), return_()]) for place in range(count)]
    return program(*lets, loop("k", 0, 2, [barrier(), *exits]))


def with_buffers(count: int, *nodes: Node) -> Program:
    """Nodes behind a store to each of so many buffers."""
    buffers = [BufferDecl.read_write(f"b{place}", 100 + place, DataType.U32) for place in range(count)]
    return program(*[store(f"b{place}", 0, X) for place in range(count)], *nodes, buffers=[*BUFFERS, *buffers])


def test_four_times_the_findings_in_a_statement_take_some_four_times_the_calls() -> None:
    calls_of_examine(wrong_arguments(10))  # what the first examination imports and keeps
    assert calls_of_examine(wrong_arguments(800)) < 5 * calls_of_examine(wrong_arguments(200))


def test_loops_inside_each_other_cost_what_is_in_them_once_for_each_level() -> None:
    """The square of the levels would be 16 times as much."""
    body: list[Node] = [store("out", 0, u32(place)) for place in range(100)]
    calls_of_examine(nested(body, 1))
    assert calls_of_examine(nested(body, 48)) < 6 * calls_of_examine(nested(body, 12))


def test_no_path_is_made_for_a_finding_that_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    path = "vyre_driver.ir.walks.OperandPlaces.path"
    monkeypatch.setattr(path, lambda _places, expr: asked.append(expr) or "value")
    report = examine(wrong_arguments(MAX_PROBLEMS + 500), upstream="0.7")
    assert (len(asked), len(report.problems), report.total) == (MAX_PROBLEMS, MAX_PROBLEMS, MAX_PROBLEMS + 501)


def seconds_of(given: Program, upstream: str | None = None) -> float:
    start = time.process_time()
    examine(given, upstream=upstream)
    return time.process_time() - start


@pytest.mark.parametrize("made", [variables_and_loops, exits_that_assign])
def test_the_variables_in_scope_are_not_copied_for_each_loop_or_branch(made: Callable[[int], Program]) -> None:
    assert seconds_of(made(10_000), upstream="0.7") < HANG_S


def test_what_was_written_is_not_copied_for_each_body() -> None:
    bodies = [if_(X, [assign("out", X)]) for _ in range(30_000)]
    assert seconds_of(with_buffers(16_000, if_(gid_x(), [return_()]), *bodies, barrier())) < HANG_S


def test_hazards_are_not_looked_for_in_all_that_was_seen_before() -> None:
    stores = [store("out", 0, X) for _ in range(30_000)]
    assert seconds_of(with_buffers(16_000, let("x", atomic_add("in", 0, X)), *stores)) < HANG_S


def test_a_type_of_thousands_of_axes_is_not_spelled_out_for_each_finding() -> None:
    wide = cast(DataType.tensor_shaped(DataType.F32, [1] * 4096), X)
    assert seconds_of(program(let("x", wide), *[assign("x", X) for _ in range(30_000)])) < HANG_S
