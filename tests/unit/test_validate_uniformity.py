"""Which barriers are refused because some invocations may not reach them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from rule_programs import program

from vyre_driver.ir import examine
from vyre_driver.ir.arithmetic import f32
from vyre_driver.ir.buffers import BufferDecl
from vyre_driver.ir.builders import (
    assign,
    barrier,
    binop,
    block,
    buf_len,
    call,
    cast,
    fma,
    gid_x,
    if_,
    let,
    lid_x,
    load,
    loop,
    region,
    return_,
    select,
    store,
    subgroup_size,
    u32,
    u64,
    unop,
    var,
    wid_x,
)
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.operators import BinOp, MemoryOrdering, UnOp
from vyre_driver.ir.program import Program

if TYPE_CHECKING:
    from vyre_driver.ir.arithmetic import Expr
    from vyre_driver.ir.nodes import Node

N = DataType.U32
GRID = MemoryOrdering.GRID_SYNC
x, y, z = var("x", N), var("y", N), var("z", N)
one, zero = u32(1), u32(0)


def barriers_refused(*nodes: Node) -> list[str]:
    found = examine(program(*nodes))
    assert {problem.rule for problem in found.problems} <= {"V010"}
    return [problem.path for problem in found.problems]


ALIKE: list[Expr] = [
    u32(1),
    buf_len("in"),
    wid_x(),
    wid_x() + buf_len("in") * 2,
    cast(N, cast(DataType.F32, wid_x())),
    select(wid_x() < 3, u32(1), u32(2)),
    unop(UnOp.POPCOUNT, wid_x()),
    cast(N, fma(1.0, 2.0, f32(3.0))),
    cast(N, u64(1)),
    x,
    binop(BinOp.BIT_XOR, x, wid_x()),
]
DIFFERENT: list[Expr] = [
    gid_x(),
    lid_x(),
    load("in", 0),
    subgroup_size(),
    call("anything"),
    u32(1) + gid_x(),
    select(gid_x() < 3, u32(1), u32(1)),
    cast(N, cast(DataType.F32, gid_x())),
    y,
    binop(BinOp.BIT_XOR, x, y),
]


@pytest.mark.parametrize("cond", ALIKE)
def test_a_barrier_stands_under_what_is_the_same_in_a_workgroup(cond: Expr) -> None:
    nodes = [let("x", wid_x()), let("y", gid_x())]
    assert barriers_refused(*nodes, if_(cond, [barrier()], [barrier()]), loop("i", 0, cond, [barrier()])) == []


@pytest.mark.parametrize("cond", DIFFERENT)
def test_no_barrier_stands_under_what_may_differ_in_a_workgroup(cond: Expr) -> None:
    nodes = [let("x", wid_x()), let("y", gid_x())]
    found = barriers_refused(*nodes, if_(cond, [barrier()], [barrier()]), loop("i", cond, 9, [block(barrier())]), barrier())
    assert found == ["body[2].then[0]", "body[2].otherwise[0]", "body[3].body[0].body[0]"]


CASES: dict[str, tuple[list[Node], list[str]]] = {
    "an assigned variable is tainted for good": (
        [let("x", one), if_(x, [barrier()]), assign("x", gid_x()), assign("x", one), if_(x, [barrier()])],
        ["body[4].then[0]"],
    ),
    "a variable assigned where not all invocations come differs": (
        [let("x", zero), if_(gid_x() < 5, [assign("x", one)]), if_(x, [barrier()])],
        ["body[2].then[0]"],
    ),
    "a variable assigned where all come stays alike": (
        [let("x", zero), if_(wid_x() < 5, [assign("x", one)]), if_(x, [barrier()])],
        [],
    ),
    "what the end of a loop assigns counts at its head": (
        [let("x", zero), loop("i", 0, 4, [if_(x, [barrier()]), assign("x", load("in", 0))])],
        ["body[1].body[0].then[0]"],
    ),
    "through other variables too, and from an inner loop": (
        [
            let("x", zero),
            let("y", zero),
            let("z", zero),
            loop(
                "i", 0, 4, [if_(x, [barrier()]), assign("x", y), loop("j", 0, 4, [assign("y", z), block(assign("z", gid_x()))])]
            ),
        ],
        ["body[3].body[0].then[0]"],
    ),
    "a loop that assigns alike values is not a harm": (
        [let("x", zero), loop("i", 0, 4, [if_(x, [barrier()]), assign("x", x + var("i", N))])],
        [],
    ),
    "a variable of the body is a new one each turn": (
        [loop("i", 0, 4, [let("x", one), if_(x, [barrier()]), assign("x", gid_x())])],
        [],
    ),
    "one name in two bodies is two variables": ([block(let("x", gid_x())), block(let("x", one), if_(x, [barrier()]))], []),
    "the variable of a loop is as alike as its bounds": (
        [loop("i", 0, wid_x(), [if_(var("i", N) < 2, [barrier()])]), loop("i", 0, gid_x(), [if_(var("i", N) < 2, [])])],
        [],
    ),
    "after a return that not all take no barrier is reached by all": (
        [if_(gid_x() < 5, [return_()]), barrier(), region("later", barrier())],
        ["body[1]", "body[2].body[0]"],
    ),
    "after a return that a workgroup takes as one all is well": ([if_(wid_x() < 5, [return_()]), barrier()], []),
    "a return at the end of a loop counts at its head": (
        [loop("i", 0, 4, [barrier(), if_(load("in", gid_x()), [return_()])])],
        ["body[0].body[0]"],
    ),
    "after a barrier all load the same, and return together": (
        [loop("i", 0, 4, [barrier(), let("x", load("in", 0)), if_(x.eq(3), [return_()])])],
        [],
    ),
    "so they do at an index that a workgroup has, and after a write of another buffer": (
        [loop("i", 0, 4, [barrier(), store("out", gid_x(), one), if_(load("shared", wid_x()), [return_()])])],
        [],
    ),
    "other workgroups may write at any time what this one has settled": (
        [loop("i", 0, 4, [store("out", 0, one), barrier(), if_(load("out", 0), [return_()])])],
        ["body[0].body[1]"],
    ),
    "memory of the workgroup they do not have": (
        [loop("i", 0, 4, [store("shared", 0, one), barrier(), if_(load("shared", 0), [return_()]), barrier()])],
        [],
    ),
    "before a barrier they may load what others are writing": (
        [loop("i", 0, 4, [if_(load("in", 0), [return_()]), barrier()])],
        ["body[0].body[1]"],
    ),
    "what is written after the barrier may differ": (
        [loop("i", 0, 4, [barrier(), store("shared", gid_x(), one), if_(load("shared", 0), [return_()])])],
        ["body[0].body[0]"],
    ),
    "be it in a branch": (
        [loop("i", 0, 4, [barrier(), if_(gid_x(), [store("out", 0, one)]), if_(load("out", 0), [return_()])])],
        ["body[0].body[0]"],
    ),
    "a barrier in a branch settles nothing outside of it": (
        [loop("i", 0, 4, [if_(wid_x(), [barrier()]), if_(load("in", 0), [return_()])])],
        ["body[0].body[0].then[0]"],
    ),
    "a barrier that only releases settles nothing": (
        [loop("i", 0, 4, [barrier(MemoryOrdering.RELEASE), if_(load("in", 0), [return_()])])],
        ["body[0].body[0]"],
    ),
    "a branch on what is loaded is still no place for a barrier": (
        [barrier(), if_(load("in", 0), [barrier()])],
        ["body[1].then[0]"],
    ),
    "a barrier of the grid wants more than one workgroup's answer": (
        [loop("i", 0, 4, [barrier(), if_(load("in", 0), [return_()]), barrier(GRID)])],
        ["body[0].body[2]"],
    ),
    "an if is decided before its branches run": ([let("x", zero), if_(x, [assign("x", gid_x())], [barrier()])], []),
    "turns until a condition that all have fails": (
        [let("x", u32(9)), loop("i", 0, 2**32 - 1, [if_(x > 0, [barrier(), assign("x", x - 1)])]), barrier()],
        [],
    ),
    "turns until a condition fails that not all have": (
        [let("x", gid_x()), loop("i", 0, 2**32 - 1, [if_(x > 0, [barrier(), assign("x", x - 1)])]), barrier()],
        ["body[1].body[0].then[0]"],
    ),
    "turns until a condition fails that a turn makes differ": (
        [let("x", u32(9)), loop("i", 0, 2**32 - 1, [if_(x > 0, [barrier(), assign("x", load("in", 0))])]), barrier(GRID)],
        ["body[1].body[0].then[0]"],
    ),
    "a barrier of the grid wants the same in every workgroup": (
        [if_(wid_x() < 5, [barrier(), barrier(GRID)]), if_(buf_len("in") < 5, [barrier(GRID)]), barrier(GRID)],
        ["body[0].then[1]"],
    ),
    "so do the variables and returns before it": (
        [
            let("x", zero),
            if_(wid_x() < 5, [assign("x", one)]),
            if_(x, [barrier(GRID)]),
            if_(wid_x(), [return_()]),
            barrier(GRID),
        ],
        ["body[2].then[0]", "body[4]"],
    ),
}


@pytest.mark.parametrize(("nodes", "refused"), CASES.values(), ids=CASES)
def test_ways_through_a_program(nodes: list[Node], refused: list[str]) -> None:
    assert barriers_refused(*nodes) == refused


N_PUSHED, MANY = BufferDecl.push("n", 8, N), BufferDecl.push("many", 9, N, 4)
UPSTREAM = "what is pushed decides which invocations reach this barrier, and upstream's validator refuses that"


def judged(*nodes: Node) -> tuple[list[str], list[str]]:
    """The barriers that are refused, and those of which is said that upstream refuses them."""
    found = examine(program(*nodes, buffers=(*program().buffers, N_PUSHED, MANY)))
    assert {(one.rule, one.message) for one in found.warnings} <= {("R033", UPSTREAM)}
    return [one.path for one in found.problems], [one.path for one in found.warnings]


@pytest.mark.parametrize(
    ("cond", "refused", "warned"),
    [
        (load(N_PUSHED, 0), False, True),
        (load(MANY, wid_x()) + load(N_PUSHED, 0) * 2, False, True),
        (load(MANY, load(N_PUSHED, 0)), False, True),
        (buf_len(MANY), False, False),
        (load(MANY, gid_x()), True, False),
        (load(N_PUSHED, 0) + gid_x(), True, False),
        (load("in", load(N_PUSHED, 0)), True, False),
    ],
)
def test_what_is_pushed_is_as_alike_as_its_index_and_examine_says_where_upstream_differs(
    cond: Expr, *, refused: bool, warned: bool
) -> None:
    paths = ["body[0].body[0]", "body[1].then[0]"]
    assert judged(loop("i", 0, cond, [barrier()]), if_(cond < one, [barrier()]), barrier()) == (
        paths if refused else [],
        paths if warned else [],
    )


def test_what_is_pushed_is_the_same_in_the_grid_unless_a_workgroup_chooses_it() -> None:
    nodes = [if_(load(N_PUSHED, 0) < 5, [barrier(GRID)]), if_(load(MANY, wid_x()) < 5, [barrier(GRID)])]
    assert judged(*nodes) == (["body[1].then[0]"], ["body[0].then[0]"])


def test_turns_end_by_what_is_pushed_for_all_alike() -> None:
    turns = loop("i", 0, 2**32 - 1, [if_(x < load(N_PUSHED, 0), [barrier(), assign("x", x + 1)])])
    assert judged(let("x", zero), turns) == ([], ["body[1].body[0].then[0]"])


def test_a_variable_that_is_not_declared_is_no_reason_of_its_own() -> None:
    found = examine(program(if_(var("nowhere", N) < 2, [barrier()])))
    assert [problem.rule for problem in found.problems] == ["R009"]


def test_a_barrier_of_the_grid_says_what_it_wants() -> None:
    found = examine(program(if_(wid_x() < 5, [barrier(GRID)])))
    assert [problem.message for problem in found.problems] == [
        "not every workgroup is known to reach this barrier of the whole grid"
    ]


def test_a_part_that_stands_in_two_places_is_judged_in_each() -> None:
    shared = if_(x, [barrier()])
    nodes = [let("x", one), shared, assign("x", gid_x()), shared]
    assert barriers_refused(*nodes) == ["body[3].then[0]"]
    two = Program.new(program().buffers, (64, 1, 1), [region("a", *nodes), region("b", let("x", one), shared)])
    assert [problem.path for problem in examine(two).problems] == ["entry[0].body[3].then[0]"]
