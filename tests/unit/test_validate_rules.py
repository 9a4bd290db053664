"""Every rule of the validator: what it accepts, what it refuses, where and in which words."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from rule_cases import ADDED, DEVICES, UPSTREAM
from rule_programs import ABLE, SIGNATURES, Case, X, program

from vyre_driver.errors import InvalidProgram
from vyre_driver.ir import Problem, examine, validate
from vyre_driver.ir.arithmetic import LitU32, f32
from vyre_driver.ir.buffers import BufferDecl
from vyre_driver.ir.builders import (
    assign,
    atomic_add,
    barrier,
    binop,
    block,
    boolean,
    buf_len,
    call,
    cast,
    gid_x,
    i32,
    if_,
    let,
    load,
    loop,
    select,
    store,
    u32,
    u64,
    unop,
    var,
)
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.nodes import AllGather, Broadcast, Return
from vyre_driver.ir.operators import BinOp, UnOp
from vyre_driver.ir.program import Program
from vyre_driver.ir.validation.rules import Rule
from vyre_driver.target.profile import DeviceProfile

if TYPE_CHECKING:
    from vyre_driver.ir.arithmetic import Expr
    from vyre_driver.ir.nodes import Node

CASES = [*UPSTREAM, *ADDED, *DEVICES]
NAMES = [f"{case.rule.name.lower()}-{place}" for place, case in enumerate(CASES)]


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_a_rule_refuses_one_thing_and_says_where(case: Case) -> None:
    with pytest.raises(InvalidProgram) as caught:
        validate(case.refused, case.profile, operations=case.operations)
    (problem,) = caught.value.problems
    assert (problem.rule, f"{problem.path}: {problem.message}") == (case.rule.code, case.finding)
    assert str(caught.value) == f"{problem.rule} at {problem.path}: {problem.message}. Fix: {problem.fix}."


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_a_rule_accepts_what_is_right(case: Case) -> None:
    assert validate(case.accepted, case.profile or ABLE, operations=case.operations) is case.accepted


def test_every_rule_has_a_case() -> None:
    assert {case.rule for case in CASES} == set(Rule) - {
        Rule.NARROWING,
        Rule.PUSHED_BARRIER,
        Rule.ATOMIC_WORKGROUP,
        Rule.LOCAL_UPSTREAM,
    }


def test_a_narrowing_integer_cast_is_a_warning() -> None:
    narrowing = program(let("x", cast(DataType.U8, u32(300))), let("y", cast(DataType.U64, u32(3))))
    assert validate(narrowing) is narrowing
    report = examine(narrowing)
    assert (report.problems, report.total) == ((), 0)
    assert report.warnings == (
        Problem("V035", "body[0].value", "the cast from u32 to u8 drops the upper bits", "mask the value, if that is meant"),
    )


def test_atomics_that_upstream_refuses_are_warnings() -> None:
    body = [let(name, atomic_add(name, 0, 1)) for name in ("out", "shared", "signed", "floats")]
    more = program(*body)
    assert validate(more) is more
    fix = "use {}, if the program is for others too"
    assert examine(more).warnings == (
        Problem(
            "V025",
            "body[1].value",
            "'shared' is workgroup memory, on which upstream's validator refuses atomics",
            fix.format("a read-write buffer"),
        ),
        Problem(
            "V014",
            "body[2].value",
            "'signed' holds i32, on which upstream's validator refuses atomics",
            fix.format("a buffer of u32"),
        ),
        Problem(
            "V014",
            "body[3].value",
            "'floats' holds f32, on which upstream's validator refuses atomics",
            fix.format("a buffer of u32"),
        ),
    )


def test_atomics_and_plain_uses_of_workgroup_memory_want_a_barrier_between() -> None:
    found = atomic_add("shared", 0, 1)
    fine = program(let("x", found), barrier(), let("y", load("shared", 0)))
    assert validate(fine) is fine
    (problem,) = examine(program(let("x", found), let("y", load("shared", 0)))).problems
    assert (problem.rule, problem.path) == ("R020", "body[1]")


def test_all_problems_are_told_at_once_in_the_order_they_stand_in() -> None:
    wrong = program(
        let("x", u32(1) + i32(1)),
        store("nowhere", f32(0.0), load("in", i32(0)) / u32(0)),
        block(assign("y", cast(DataType.F64, u32(1))), let("x", u32(1))),
        size=(0, 1, 1),
    )
    with pytest.raises(InvalidProgram) as caught:
        validate(wrong)
    assert [(one.rule, one.path) for one in caught.value.problems] == [
        ("R002", "workgroup_size[0]"),
        ("R015", "body[0].value"),
        ("R010", "body[1].buffer"),
        ("R012", "body[1].index"),
        ("R012", "body[1].value.left.index"),
        ("V044", "body[1].value.right"),
        ("R009", "body[2].body[0]"),
        ("V012", "body[2].body[0].value"),
        ("V008", "body[2].body[1]"),
    ]
    lines = str(caught.value).splitlines()
    assert (lines[0], len(lines)) == ("the program breaks rules in 9 places:", 10)
    assert lines[1] == "  R002 at workgroup_size[0]: the workgroup has 0 invocations along x (use 1 or more)"
    assert lines[-1].endswith("(use another name). Fix: correct each place as it says.")


def test_an_error_with_problems_survives_pickle() -> None:
    with pytest.raises(InvalidProgram) as caught:
        validate(program(store("in", 0, u32(1))))
    again = pickle.loads(pickle.dumps(caught.value))  # noqa: S301 -- our own bytes
    assert (again.problems, str(again)) == (caught.value.problems, str(caught.value))


def test_an_error_of_another_stage_has_no_problems() -> None:
    with pytest.raises(InvalidProgram) as caught:
        u32(-1)
    assert caught.value.problems == ()


def test_paths_begin_at_the_entry_where_there_is_no_single_root_region() -> None:
    two = Program.new((), (1, 1, 1), [*program().entry, *program(store("out", 0, X)).entry])
    with pytest.raises(InvalidProgram) as caught:
        validate(two)
    assert [one.path for one in caught.value.problems] == ["entry[1].body[0].buffer"]


def test_what_is_not_known_is_not_refused() -> None:
    """The result of a call, and all that is computed of it."""
    unknown = call("anything", u32(1))
    usable = program(
        let("x", unknown),
        assign("x", f32(1.0)),
        store("floats", unknown, var("x") + unknown),
        let("y", cast(DataType.Bytes, unknown)),
        let("z", atomic_add("out", unknown, unknown)),
        let("w", unop(UnOp.UNPACK4_LOW, unknown)),
        let("v", select(unknown, unknown, u32(1)) + 1),
        if_(unknown, [loop("i", unknown, unknown, [])]),
    )
    assert validate(usable) is usable


def test_a_call_has_the_type_of_its_signature() -> None:
    wrong = program(store("floats", 0, call("twice", u32(1))))
    validate(wrong)
    with pytest.raises(InvalidProgram, match=r"V045 at body\[0\]\.value: buffer 'floats' holds f32, and is given u32"):
        validate(wrong, operations=SIGNATURES)


def test_a_verdict_is_remembered_for_the_profile_it_was_given_for() -> None:
    """Upstream forgets the limits of the device, and so accepts for a weaker one what it saw on a stronger one."""
    wide = program(let("x", u64(1)))
    assert (validate(wide), validate(wide, ABLE), validate(wide, ABLE)) == (wide, wide, wide)
    with pytest.raises(InvalidProgram, match="R027"):
        validate(wide, DeviceProfile.conservative())
    with pytest.raises(InvalidProgram, match="R027"):
        validate(wide, DeviceProfile.conservative())


def test_the_flag_of_upstream_is_no_verdict() -> None:
    """Anybody can set it, and it is part of digest v2: it is neither believed nor set here."""
    flagged = program(store("in", 0, X)).with_structurally_validated(True)
    with pytest.raises(InvalidProgram, match="R011"):
        validate(flagged)
    assert not validate(program()).structurally_validated


def test_what_is_no_program_is_refused() -> None:
    with pytest.raises(InvalidProgram, match="what is validated is 3, an int, where Program is wanted"):
        validate(3)  # type: ignore[arg-type]


def test_the_length_of_a_buffer_is_a_plain_use_of_it() -> None:
    wrong = program(if_(gid_x() < buf_len("out"), [let("x", atomic_add("out", 0, 1))]))
    assert [(one.rule, one.path) for one in examine(wrong).problems] == [("R020", "body[0].then[0]")]


def test_operations_are_asked_for_every_time() -> None:
    calling = program(let("x", call("twice", X)))
    validate(calling, operations=SIGNATURES)
    with pytest.raises(InvalidProgram, match="V016"):
        validate(calling, operations={})


def documented_rows(path: Path) -> list[str]:
    return [line for line in path.read_text("utf-8").splitlines() if line.startswith(("| V", "| R"))]


def test_the_document_lists_every_rule_with_the_words_of_its_first_example() -> None:
    examples = {case.rule: case.finding for case in reversed(CASES)}
    examples[Rule.NARROWING] = "body[0].value: the cast from u32 to u8 drops the upper bits"
    upstreams = "what is pushed decides which invocations reach this barrier, and upstream's validator refuses that"
    examples[Rule.PUSHED_BARRIER] = f"body[0].body[0]: {upstreams}"
    examples[Rule.ATOMIC_WORKGROUP] = (
        "body[0].value: 'shared' is workgroup memory, on which upstream's validator refuses atomics"
    )
    examples[Rule.LOCAL_UPSTREAM] = "buffers[1]: 'own' is memory of an invocation's own, and workgroup memory to upstream"
    expected = [f"| {rule.code} | {rule.refuses} | {examples[rule]} |" for rule in Rule]
    assert documented_rows(Path(__file__).parents[2] / "docs" / "validation-rules.md") == expected


def codes(*nodes: Node) -> list[tuple[str, str]]:
    return [(one.rule, one.path) for one in examine(program(*nodes)).problems]


def test_types_are_the_same_that_are_equal_however_they_were_made() -> None:
    """Those that come from the wire are objects of their own."""
    x = cast(DataType(DataType.F32.wire_tag), u32(1))
    y = cast(DataType(DataType.F32.wire_tag), u32(1))
    right = [
        let("sum", x + y),
        let("same", x.eq(y)),
        let("one", select(boolean(True), x, y)),
        assign("one", y),
        store("floats", 0, x),
        let("z", cast(DataType(DataType.F32.wire_tag), x)),
    ]
    assert codes(*right) == []


@pytest.mark.parametrize(
    "zero",
    [u32(0), i32(0), f32(0.0), f32(-0.0), cast(DataType.U32, u64(0)), cast(DataType.I32, cast(DataType.U32, boolean(False)))],
)
def test_every_literal_zero_is_a_bad_divisor(zero: Expr) -> None:
    assert codes(let("x", binop(BinOp.DIV, call("f"), zero))) == [("V044", "body[0].value.right")]


@pytest.mark.parametrize("one", [u32(1), i32(-1), f32(0.5), cast(DataType.U32, u64(1)), load("in", 0)])
def test_what_is_no_literal_zero_is_no_bad_divisor(one: Expr) -> None:
    assert codes(let("x", binop(BinOp.DIV, call("f"), one))) == []


def test_only_a_division_minds_a_zero() -> None:
    assert codes(let("x", u32(1) % u32(0)), let("y", u32(1) * u32(0))) == [("V044", "body[0].value.right")]


def test_a_signed_index_is_of_the_wrong_type_unless_it_is_negative() -> None:
    assert codes(store("out", i32(0), u32(1)), store("out", i32(-1), u32(1))) == [
        ("R012", "body[0].index"),
        ("V036", "body[1].index"),
    ]


def test_both_bounds_of_a_loop_are_u32() -> None:
    assert codes(loop("i", i32(0), f32(1.0), [])) == [("R014", "body[0].start"), ("R014", "body[0].stop")]


def test_classes_of_somebody_else_are_refused_and_not_run() -> None:
    class Strange(LitU32):
        __slots__ = ()

    class StrangeNode(Return):
        __slots__ = ()

    assert codes(let("x", Strange(1)), let("y", u32(2) + Strange(1)), StrangeNode()) == [
        ("V030", "body[0].value"),
        ("V030", "body[1].value.right"),
        ("V031", "body[2]"),
    ]


def test_collectives_write_what_may_be_written() -> None:
    assert codes(AllGather("in", "in"), AllGather("in", "out"), Broadcast("in", 0)) == [
        ("R011", "body[0].output"),
        ("R011", "body[2].buffer"),
    ]


def test_a_barrier_parts_plain_uses_from_atomics_in_either_order() -> None:
    plain, atomics = store("out", 0, u32(1)), let("x", atomic_add("out", 0, 1))
    assert codes(plain, barrier(), atomics) == []
    assert codes(atomics, barrier(), plain) == []
    assert codes(plain, barrier(), plain, atomics, barrier(), plain) == [("R020", "body[3]")]


def test_a_limit_that_nobody_tells_refuses_nothing() -> None:
    untold = replace(ABLE, max_shared_memory_bytes=0, max_storage_buffer_binding_size=0)
    assert validate(program(), untold)


def test_the_message_lists_twenty_problems_and_counts_more() -> None:
    for count, last in ((20, "  R010 at body[19].buffer"), (21, "  and 1 more. Fix:")):
        with pytest.raises(InvalidProgram) as caught:
            validate(program(*[store("nowhere", 0, u32(1)) for _ in range(count)]))
        assert str(caught.value).splitlines()[-1].startswith(last)


def test_a_thousand_warnings_are_kept() -> None:
    narrowing = [block(let("x", cast(DataType.U8, u32(300)))) for _ in range(1001)]
    assert len(examine(program(*narrowing)).warnings) == 1000


def test_a_hazard_is_told_once_between_two_barriers_and_again_after() -> None:
    both = store("out", 0, atomic_add("out", 0, 1))
    assert codes(both, both, barrier(), both) == [("R020", "body[0]"), ("R020", "body[3]")]


@pytest.mark.parametrize(
    ("dtype", "lacking"),
    [
        (DataType.F16, replace(ABLE, supports_f16=False)),
        (DataType.BF16, replace(ABLE, supports_bf16=False)),
        (DataType.U64, replace(ABLE, max_native_int_width=32)),
        (DataType.I64, replace(ABLE, max_native_int_width=32)),
    ],
    ids=str,
)
def test_a_type_is_asked_of_the_device_in_buffers_and_casts(dtype: DataType, lacking: DeviceProfile) -> None:
    held = BufferDecl.read("held", 0, dtype)
    using = program(let("x", cast(dtype, load("held", 0))), buffers=[held])
    plain = program(buffers=[BufferDecl.read("held", 0, DataType.F32)])
    assert [(one.rule, one.path) for one in examine(using, lacking).problems] == [
        ("R030", "buffers[0]"),
        ("V034", "body[0].value"),
    ]
    assert (examine(using, ABLE).problems, examine(plain, lacking).problems) == ((), ())


def test_the_advice_fits_the_operator() -> None:
    wrong = program(let("x", -i32(1)), let("y", -boolean(True)), let("z", unop(UnOp.LOGICAL_NOT, i32(1))))
    cast_it = "cast the operands to a type that it takes"
    assert [one.fix for one in examine(wrong).problems] == [
        "write i32(0) - value, which wraps at the least i32",
        cast_it,
        cast_it,
    ]


def test_the_known_operand_says_what_an_operator_gives() -> None:
    unknown = call("f")
    assert codes(
        store("floats", 0, binop(BinOp.ADD, unknown, u32(1))),
        store("floats", 0, binop(BinOp.ADD, u32(1), unknown)),
        let("x", binop(BinOp.LT, unknown, boolean(True))),
        let("y", binop(BinOp.ADD, boolean(True), unknown)),
        store("floats", 0, binop(BinOp.ADD, unknown, unknown)),
    ) == [("V045", "body[0].value"), ("V045", "body[1].value"), ("R015", "body[2].value"), ("R015", "body[3].value")]
