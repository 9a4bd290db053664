"""Each decision about what upstream's validator leaves open, as programs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from rule_programs import IN, OUT, program

from vyre_driver.ir import examine
from vyre_driver.ir.arithmetic import f32
from vyre_driver.ir.buffers import BufferAccess, BufferDecl
from vyre_driver.ir.builders import (
    abs_diff,
    assign,
    atomic,
    atomic_add,
    barrier,
    binop,
    block,
    boolean,
    call,
    cast,
    gid_x,
    i32,
    i64,
    if_,
    let,
    load,
    loop,
    region,
    return_,
    select,
    store,
    subgroup_add,
    subgroup_ballot,
    subgroup_shuffle,
    u32,
    u64,
    var,
    wid_x,
)
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.nodes import AllReduce, AsyncLoad, AsyncStore, Trap
from vyre_driver.ir.operators import AtomicOp, BinOp, CollectiveOp, MemoryOrdering, OpaqueOp
from vyre_driver.ir.predicates import AtLeast

if TYPE_CHECKING:
    from vyre_driver.ir.arithmetic import Expr
    from vyre_driver.ir.program import Program

S = i32(3)


def lets(*values: Expr) -> Program:
    return program(*[let(f"x{place}", value) for place, value in enumerate(values)])


def writing(name: str, value: Expr) -> Program:
    return program(store(name, gid_x(), value))


# The first cell of each row of the decision: programs, and the rules that refuse them.
HOLES: dict[str, list[tuple[Program, list[str]]]] = {
    "type of a load index, a signed dynamic store index": [
        (lets(load("in", S)), ["R012"]),
        (program(store("out", load("signed", 0), u32(1))), ["R012"]),
    ],
    "condition of a select; of a ballot": [
        (lets(select(S, u32(1), u32(2)), subgroup_ballot(S)), ["R013", "R013"]),
        (lets(select(boolean(True), u32(1), u32(2)), select(u32(1), u32(1), u32(2)), subgroup_ballot(u32(1))), []),
    ],
    "offset and size of copies, address of a trap, lane of a shuffle": [
        (program(AsyncLoad("in", "shared", S, S, "t"), Trap(S, "t"), let("x", subgroup_shuffle(S, S))), ["R012"] * 4),
    ],
    "Mod and bit operators on i32 typed u32; AbsDiff on f32 too": [
        *((writing("signed", binop(op, S, S)), []) for op in (BinOp.MOD, BinOp.BIT_AND, BinOp.BIT_OR, BinOp.BIT_XOR)),
        (writing("out", S & S), []),
        (writing("floats", abs_diff(f32(1.0), f32(2.0))), []),
        (writing("out", abs_diff(f32(1.0), f32(2.0))), ["V045"]),
    ],
    "WrappingAdd, WrappingSub unchecked": [
        (lets(*(binop(BinOp.WRAPPING_ADD, one, one) for one in (u32(1), i32(1), u64(1)))), []),
        (lets(*(binop(BinOp.WRAPPING_SUB, one, one) for one in (f32(1.0), i64(1), boolean(True)))), ["R015"] * 3),
        (lets(binop(BinOp.WRAPPING_ADD, u32(1), i32(1))), ["R015"]),
    ],
    "MulHigh unchecked": [
        (lets(binop(BinOp.MUL_HIGH, u32(1), u32(1)), binop(BinOp.MUL_HIGH, u64(1), u64(1))), []),
        (lets(binop(BinOp.MUL_HIGH, S, S), binop(BinOp.MUL_HIGH, u32(1), u64(1))), ["R015", "R015"]),
    ],
    "order of bools": [
        (lets(binop(BinOp.LT, boolean(True), boolean(False))), ["R015"]),
        (lets(boolean(True).eq(boolean(False)), boolean(True).ne(boolean(False))), []),
    ],
    "And, Or on one u32 and one bool": [(lets(u32(1).and_(boolean(True)), boolean(True).or_(u32(1))), [])],
    "opaque binary operators": [(writing("floats", binop(OpaqueOp(1), u32(1), boolean(True))), [])],
    "a let of unknown type is u32": [
        (program(let("x", call("f")), store("floats", 0, var("x")), store("out", 0, var("x"))), []),
    ],
    "values of atomics; expected values": [
        (lets(atomic_add("out", 0, S)), ["R024"]),
        (lets(atomic(AtomicOp.COMPARE_EXCHANGE, "out", 0, 1)), ["R024"]),
        (lets(atomic(AtomicOp.ADD, "out", 0, 1, expected=1)), ["R024"]),
        (lets(atomic(AtomicOp.COMPARE_EXCHANGE, "out", 0, 1, expected=1)), []),
        (lets(atomic(OpaqueOp(1), "out", 0, 1, expected=1), atomic(OpaqueOp(1), "out", 0, 1)), []),
    ],
    "values of subgroup reductions": [
        (lets(subgroup_add(u32(1)), subgroup_add(S), subgroup_add(u64(1)), subgroup_add(f32(1.0))), []),
        (lets(subgroup_add(boolean(True)), subgroup_add(i64(1))), ["R025", "R025"]),
    ],
    "unknown buffers and read-only targets of copies and collectives": [
        (
            program(AsyncLoad("nowhere", "in", u32(0), u32(4), "t"), AsyncStore("in", "no", u32(0), u32(4), "t")),
            ["R010", "R011", "R010"],
        ),
        (program(AllReduce("in", CollectiveOp.SUM), AllReduce("no", CollectiveOp.SUM)), ["R011", "V046"]),
    ],
    "assignment where not all come; what a loop's end does to its head": [
        (program(let("x", u32(0)), if_(gid_x() < 5, [assign("x", u32(1))]), if_(var("x"), [barrier()])), ["V010"]),
        (program(let("x", u32(0)), loop("i", 0, 4, [if_(var("x"), [barrier()]), assign("x", gid_x())])), ["V010"]),
    ],
    "barrier after a return that not all took": [
        (program(if_(gid_x() < 5, [return_()]), barrier()), ["V010"]),
        (program(if_(wid_x() < 5, [return_()]), barrier()), []),
    ],
    "barrier of the grid where the workgroup index decides": [
        (program(if_(wid_x() < 5, [barrier(MemoryOrdering.GRID_SYNC)])), ["V010"]),
    ],
    "elements without layout, output ranges outside the buffer": [
        (program(buffers=[BufferDecl.read("a", 0, DataType.array(0))]), ["R007"]),
        (program(buffers=[OUT.with_output_byte_range((0, 33))]), ["R008"]),
    ],
    "loads from write-only buffers, copies never waited for": [
        (
            program(
                let("x", load("a", 0)),
                AsyncLoad("in", "a", u32(0), u32(4), "t"),
                buffers=[BufferDecl.storage("a", 0, BufferAccess.WRITE_ONLY, DataType.U32), IN],
            ),
            [],
        ),
    ],
    "i32 division by 0 and least / -1, unless literal": [
        (lets(S / load(BufferDecl.read("signed", 5, DataType.I32), 0), i32(-(2**31)) / i32(-1)), []),
        (lets(S / i32(0), S % i32(0)), ["V044", "V044"]),
    ],
    "a shape predicate for a count of 0": [
        (program(buffers=[IN.with_shape_predicate(AtLeast(1))]), []),
        (program(buffers=[OUT.with_shape_predicate(AtLeast(9))]), ["R023"]),
    ],
    "calls": [(lets(call("anything", S, f32(1.0))), [])],
    "capabilities (V034, V041, V046)": [
        (program(let("x", subgroup_add(u32(1))), let("y", cast(DataType.I64, S)), AllReduce("out", CollectiveOp.SUM)), []),
    ],
    "shadowing could be switched on": [(program(let("x", u32(1)), block(let("x", u32(1)))), ["V008"])],
    "scope of a region": [(program(region("a", let("x", u32(1))), let("y", var("x"))), ["R009"])],
}
PROGRAMS = [(hole, one, codes) for hole, programs in HOLES.items() for one, codes in programs]


@pytest.mark.parametrize(("one", "codes"), [case[1:] for case in PROGRAMS], ids=[case[0] for case in PROGRAMS])
def test_a_hole_is_closed_or_left_open_as_decided(one: Program, codes: list[str]) -> None:
    assert [problem.rule for problem in examine(one).problems] == codes


def test_every_decision_has_its_programs() -> None:
    text = (Path(__file__).parents[2] / "docs" / "decisions" / "0006-holes-of-the-validator.md").read_text("utf-8")
    rows = [line.split(" | ")[0].removeprefix("| ") for line in text.splitlines() if line.startswith("| ")]
    assert rows[1:] == list(HOLES)
