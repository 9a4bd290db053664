"""Programs at and far beyond the limits: refused with InvalidProgram, in bounded time, in bounded words."""

from __future__ import annotations

import itertools
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest
from rule_programs import IN, OUT, chain, program

from vyre_driver.errors import InvalidProgram
from vyre_driver.ir import examine, validate
from vyre_driver.ir.arithmetic import Binary, f32
from vyre_driver.ir.buffers import BufferDecl, LinearType
from vyre_driver.ir.builders import (
    assign,
    atomic_add,
    barrier,
    block,
    gid_x,
    i32,
    if_,
    let,
    load,
    loop,
    store,
    u32,
    var,
)
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.operators import BinOp
from vyre_driver.ir.program import Program
from vyre_driver.ir.validation.rules import MAX_PROBLEMS

if TYPE_CHECKING:
    from vyre_driver.ir.nodes import Node

HANG_S = 10.0  # nothing here takes a tenth of it on an idle machine


def problems(given: Program) -> list[tuple[str, str]]:
    start = time.monotonic()
    found = [(one.rule, one.path) for one in examine(given).problems]
    assert time.monotonic() - start < HANG_S
    return found


def test_a_hundred_thousand_levels_of_nodes_are_refused() -> None:
    node: Node = barrier()
    for _ in range(100_000):
        node = block(node)
    deep = program(node)
    assert problems(deep) == [("V018", "entry[0]"), ("V019", "entry")]
    with pytest.raises(InvalidProgram, match=r"V018 at entry\[0\]: nodes nest 100002 deep, over the limit of 64"):
        validate(deep)


def test_a_hundred_thousand_levels_of_expressions_are_refused_and_hide_nothing_else() -> None:
    deep = chain(100_000)
    nodes = [let("x", deep), store("out", deep, u32(1)), if_(deep, [barrier()]), let("y", atomic_add("nowhere", 0, 1))]
    assert problems(program(*nodes)) == [
        ("V033", "body[0].value"),
        ("V033", "body[1].index"),
        ("V033", "body[2].cond"),
        ("R010", "body[3].value"),
    ]


def test_walks_need_no_python_stack() -> None:
    """At the limits of nesting and depth, from a caller that has all but used up the interpreter's."""
    node: Node = store("out", chain(128), load("in", chain(127)))
    for _ in range(62):
        node = if_(chain(128), [node])
    deepest = program(node, barrier())

    def from_below(levels: int) -> Program:
        return from_below(levels - 1) if levels else validate(deepest)

    frame, used = sys._getframe(), 0  # noqa: SLF001 -- how deep this stack is
    while frame is not None:
        frame, used = frame.f_back, used + 1  # type: ignore[assignment]
    assert from_below(sys.getrecursionlimit() - used - 30) is deepest


def test_expressions_that_double_a_hundred_times_cost_what_their_parts_cost() -> None:
    doubled: Any = var("x", DataType.U32)
    for _ in range(100):
        doubled = Binary(BinOp.ADD, doubled, doubled)
    nodes = [let("x", gid_x()), store("out", doubled, doubled), if_(doubled, [assign("x", doubled)])]
    assert problems(program(*nodes)) == []
    assert problems(program(*nodes, if_(doubled, [barrier()]))) == [("V010", "body[3].then[0]")]
    wrong = problems(program(let("x", f32(1.0)), store("out", doubled, doubled)))
    assert wrong == [("R012", "body[1].index"), ("V045", "body[1].value")]


def test_nodes_that_double_a_hundred_times_are_counted_and_not_walked() -> None:
    node: Node = store("out", gid_x(), u32(1))
    for _ in range(30):
        node = block(node, node)
    assert problems(program(node)) == [("V019", "entry")]
    for _ in range(70):
        node = block(node, node)
    assert [one.message for one in examine(program(node)).problems] == [
        "nodes nest 102 deep, over the limit of 64",
        "there are more than 2**64 nodes, over the limit of 100000",
    ]


def test_references_in_shared_parts_count_as_often_as_they_stand_there() -> None:
    doubled: Any = load("in", 0)
    for _ in range(100):
        doubled = Binary(BinOp.ADD, doubled, doubled)
    linear = BufferDecl.read("in", 0, DataType.U32).with_linear_type(LinearType.AFFINE)
    assert [one.message for one in examine(program(let("x", doubled), buffers=[linear])).problems] == [
        "AFFINE buffer 'in' is named more than 2**64 times"
    ]
    twice = program(*[block(let("x", load("in", 0)))] * 3, buffers=[linear])
    assert [one.message for one in examine(twice).problems] == ["AFFINE buffer 'in' is named 3 times"]


def test_a_shared_part_is_reported_where_it_stands_first_and_again_in_another_scope() -> None:
    lost = var("lost", DataType.U32) + 1
    wrong_everywhere = u32(1) + i32(1)
    nodes = [block(let("a", lost), let("b", lost)), block(let("lost", u32(1)), let("c", lost)), let("d", lost)]
    assert problems(program(*nodes, let("e", wrong_everywhere), let("f", wrong_everywhere))) == [
        ("R009", "body[0].body[0].value.left"),
        ("R009", "body[2].value.left"),
        ("R015", "body[3].value"),
    ]


def test_what_a_part_was_in_one_scope_is_not_what_it_is_in_the_next() -> None:
    stored = store("out", 0, var("x"))
    found = problems(program(block(let("x", u32(1)), stored), block(let("x", f32(1.0)), stored), stored))
    assert found == [("V045", "body[1].body[1].value"), ("R009", "body[2].value")]


def test_a_part_is_judged_again_when_a_variable_in_it_is_declared_after_all() -> None:
    lost = var("lost", DataType.U32) + 1
    assert problems(program(let("a", lost), let("lost", u32(1)), store("floats", 0, lost))) == [
        ("R009", "body[0].value.left"),
        ("V045", "body[2].value"),
    ]
    twice = [let("lost", u32(1)), store("out", 0, var("lost")), let("lost", f32(1.0))]
    stored = twice[1]
    assert problems(program(*twice, stored)) == [("V032", "body[2]"), ("V045", "body[3].value")]


def test_a_thousand_problems_are_kept_and_all_are_counted() -> None:
    wrong = program(*[store("nowhere", 0, u32(1)) for _ in range(3000)])
    report = examine(wrong)
    assert (len(report.problems), report.total, report.problems[-1].path) == (MAX_PROBLEMS, 3000, "body[999].buffer")
    with pytest.raises(InvalidProgram) as caught:
        validate(wrong)
    lines = str(caught.value).splitlines()
    assert (lines[0], len(lines)) == ("the program breaks rules in 3000 places:", 22)
    assert lines[-1] == "  and 2980 more. Fix: correct each place as it says."


def test_messages_are_bounded_however_long_the_names_are() -> None:
    long = "n" * 1_000_000
    body: list[Node] = [let("x", var(long)), assign(long, u32(1)), store(long, 0, load(long, 0))]
    node: Node = block(*body)
    for _ in range(60):
        node = block(node)
    shape = BufferDecl.read(long, 0, DataType.tensor_shaped(DataType.F32, [1] * 100_000))
    wrong = program(node, buffers=[OUT, shape, shape])
    with pytest.raises(InvalidProgram) as caught:
        validate(wrong)
    assert len(caught.value.problems) == 6
    assert len(str(caught.value)) < 4000


def largest(*unit: Node) -> Program:
    """As many of these nodes as 64 KiB of wire hold, each an object of its own."""
    buffers = [OUT, IN]
    size = len(program(*unit, buffers=buffers).to_wire()) - len(program(buffers=buffers).to_wire())
    wire = program(*(list(unit) * (65_000 // size)), buffers=buffers).to_wire()
    assert 60_000 < len(wire) < 65_536
    return Program.from_wire(wire)


@pytest.mark.parametrize(
    "unit",
    [
        [store("out", gid_x(), u32(1) + u32(2) * 3)],
        [store("nowhere", i32(0), u32(1) + i32(1))],
        [let("x", var("y") + var("z"))],
        [loop("i", 0, 2, [barrier(), assign("x", var("y"))])],
        [block(let("x", atomic_add("out", 0, load("out", 0))))],
        [if_(gid_x(), [barrier()])],
    ],
    ids=["right", "wrong", "undeclared", "loops", "hazards", "divergent"],
)
def test_64_kib_of_program_are_validated_without_a_hang(unit: list[Node]) -> None:
    large = largest(*unit)
    start = time.monotonic()
    examine(large)
    assert time.monotonic() - start < HANG_S


def test_many_loops_inside_each_other_with_many_variables_do_not_hang() -> None:
    """Every variable takes the value of the next, so that a taint needs many turns to reach the first."""
    names = [f"v{place}" for place in range(1500)]
    lets: list[Node] = [let(name, u32(0)) for name in names]
    steps: list[Node] = [assign(name, var(after)) for name, after in itertools.pairwise(names)]
    body: list[Node] = [*steps, assign(names[-1], gid_x()), if_(var(names[0]), [barrier()])]
    for level in range(60):
        body = [loop(f"i{level}", 0, 2, body)]
    found = problems(program(*lets, *body))
    assert [rule for rule, _ in found] == ["V010"]
