"""Upstream 0.7's codes, one by one, and what is said where this driver decides otherwise."""

from __future__ import annotations

from dataclasses import replace

import pytest
from literals import refusal
from rule_programs import ABLE, BUFFERS, IN, OUT, SIGNATURES, X, chain, nest, program

from vyre_driver.errors import InvalidInput, InvalidProgram
from vyre_driver.ir import Problem, Program, examine, validate
from vyre_driver.ir.arithmetic import OpaqueExpr, f32
from vyre_driver.ir.buffers import BufferDecl, LinearType
from vyre_driver.ir.builders import (
    assign,
    atomic,
    atomic_add,
    barrier,
    binop,
    block,
    boolean,
    call,
    cast,
    fma,
    gid_x,
    i32,
    if_,
    let,
    lid_x,
    load,
    loop,
    region,
    return_,
    select,
    store,
    subgroup_add,
    u32,
    u64,
    unop,
    var,
    wid_x,
)
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.expressions import BufferRef, BufLen, InvocationId, SubgroupReduce
from vyre_driver.ir.nodes import AllReduce, AsyncLoad, AsyncWait, IndirectDispatch, OpaqueNode
from vyre_driver.ir.operators import AtomicOp, BinOp, CollectiveOp, MemoryOrdering, OpaqueOp, SubgroupOp, UnOp
from vyre_driver.ir.predicates import Exactly
from vyre_driver.ir.validation.upstream import UPSTREAM_RULES

S, F, T = i32(1), f32(1.0), boolean(True)
LINEAR = replace(IN, linear_type=LinearType.LINEAR)


def of(op: BinOp | UnOp | OpaqueOp, *operands: object) -> Program:
    """A let of an operator."""
    made = binop(op, *operands) if len(operands) == 2 else unop(op, *operands)  # type: ignore[arg-type,call-arg]
    return program(let("x", made))


def declared(*buffers: BufferDecl) -> Program:
    return program(buffers=buffers)


def expecting(op: AtomicOp, *expected: object) -> Program:
    return program(let("x", atomic(op, "out", 0, 1, expected=expected[0] if expected else None)))  # type: ignore[arg-type]


CASES: list[tuple[Program, list[str]]] = [
    (program(let("x", X), block(let("x", X))), ["V008"]),
    (program(let("x", atomic_add("in", 0, 1))), ["V009"]),
    (program(if_(gid_x(), [barrier()])), ["V010"]),
    (program(let("x", X), if_(var("x"), [assign("x", gid_x())], [barrier()])), []),
    (program(let("x", X), loop("i", 0, 4, [assign("x", gid_x()), if_(var("x"), [barrier()])])), ["V010"]),
    (program(loop("i", 0, 4, [assign("i", X)])), ["V011"]),
    (program(let("x", cast(DataType.F64, X))), ["V012"]),
    (program(let("x", load("bytes", 0)), store("bytes", 0, X)), ["V013", "V013"]),
    (program(let("x", atomic_add("bytes", 0, 1))), ["V013", "V014"]),
    (program(let("x", atomic_add("floats", 0, 1))), ["V014"]),
    (program(let("x", call("thrice", X))), ["V016"]),
    (nest(66), ["V018"]),
    (nest(65), []),
    (program(*[block()] * 100_000), ["V019"]),
    (
        declared(BufferDecl.output("a", 0, DataType.U32).with_count(1), BufferDecl.output("b", 1, DataType.U32).with_count(1)),
        ["V022"],
    ),
    (program(let("x", cast(DataType.Bytes, X))), ["V023"]),
    (program(let("x", atomic_add("shared", 0, 1))), ["V025"]),
    (program(let("x", atomic_add("out", S, 1))), ["V027"]),
    (program(let("x", fma(F, X, X))), ["V028", "V028"]),
    (program(let("x", select(T, X, F))), ["V029"]),
    (program(let("x", OpaqueExpr("", b"")), OpaqueNode("", b"")), ["V030", "V031"]),
    (program(let("x", X), let("x", X)), ["V032"]),
    (program(let("x", chain(130))), ["V033"]),
    (program(let("x", chain(129))), []),
    (program(store("out", 8, X), store("out", i32(-1), X)), ["V036", "V122", "V036"]),
    (program(let("x", subgroup_add(X))), ["V041"]),
    (program(let("x", atomic(AtomicOp.ADD, "out", 0, 1, ordering=MemoryOrdering.GRID_SYNC))), ["V042"]),
    (program(barrier(MemoryOrdering.RELAXED)), ["V043"]),
    (of(BinOp.DIV, X, u32(0)), ["V044"]),
    (program(let("x", X), assign("x", F), assign("out", F)), ["V045", "V045"]),
    (program(AllReduce("shared", CollectiveOp.SUM)), ["V046", "V046"]),
    (program(let("x", SubgroupReduce(SubgroupOp.OR, F))), ["V041", "V047"]),
    (program(let("x", BufferRef("in"))), ["V051"]),
    (program(loop("i", 0, 4, [barrier(), if_(lid_x(), [return_()])])), ["V055"]),
    (program(let("x", atomic_add("out", 0, S))), ["V057"]),
    (expecting(AtomicOp.COMPARE_EXCHANGE, S), ["V058"]),
    (expecting(AtomicOp.COMPARE_EXCHANGE), ["V059"]),
    (expecting(AtomicOp.COMPARE_EXCHANGE_WEAK, X), ["V060"]),
    (program(let("x", atomic_add("no", 0, 1))), ["V061"]),
    (program(store("in", 0, X), store("no", 0, X), let("x", load("no", 0))), ["V063", "V064", "V065"]),
    (program(let("x", var("y")), let("z", BufLen("no"))), ["V066", "V067"]),
    (program(let("x", InvocationId(3))), ["V068"]),
    (program(buffers=[OUT, LINEAR]), ["V070"]),
    (declared(BufferDecl.read("a", 0, DataType.U32).with_shape_predicate(Exactly(1))), ["V083"]),
    (of(BinOp.ADD, u64(1), u64(1)), ["V084"]),
    (of(BinOp.SATURATING_ADD, S, S), ["V085"]),
    (of(BinOp.ABS_DIFF, S, S), ["V086"]),
    (of(BinOp.ADD, T, T), ["V087", "V087"]),
    (of(BinOp.ADD, X, F), ["V088"]),
    (of(BinOp.MOD, F, F), ["V089", "V089"]),
    (of(BinOp.MOD, X, S), ["V090"]),
    (of(BinOp.BIT_AND, F, T), ["V091", "V092", "V093"]),
    (of(BinOp.SHL, X, S), ["V094"]),
    (of(BinOp.AND, F, T), ["V095"]),
    (of(BinOp.LT, X, S), ["V096"]),
    (of(BinOp.BALLOT, X, X), ["V097"]),
    (of(UnOp.NEGATE, S), ["V098"]),
    (of(UnOp.NEGATE, T), ["V099"]),
    (of(UnOp.LOGICAL_NOT, F), ["V100"]),
    (of(UnOp.POPCOUNT, F), ["V101"]),
    (of(UnOp.SQRT, X), ["V102"]),
    (of(UnOp.UNPACK8_HIGH, F), ["V103"]),
    (of(OpaqueOp(1), X), ["V104"]),
    (Program.new([], (1, 0, 1), []), ["V105", "V106"]),
    (declared(OUT, replace(IN, name="out")), ["V107"]),
    (declared(OUT, replace(IN, binding=0)), ["V108"]),
    (declared(BufferDecl.workgroup("a", 0, DataType.U32)), ["V109"]),
    (declared(BufferDecl.output("a", 0, DataType.array(4)).with_count(4)), ["V110"]),
    (program(return_(), barrier()), ["V112"]),
    (program(*[region("a#self-exclusive", block())] * 2), ["V115"]),
    (program(let("x", load("out", 0)), let("y", atomic_add("out", 0, 1))), ["V116"]),
    (program(let("x", load("out", 0)), if_(X, [let("y", atomic_add("out", 0, 1))])), []),
    (program(AsyncLoad("in", "out", X, X, ""), AsyncWait("")), ["V117", "V128"]),
    (program(assign("in", X), assign("no", X)), ["V119", "V120"]),
    (program(store("out", 0, F)), ["V121"]),
    (program(store("out", F, X)), ["V122"]),
    (program(if_(F, [])), ["V123"]),
    (program(loop("i", F, S, [])), ["V124", "V125"]),
    (program(IndirectDispatch("no", 6)), ["V126", "V127"]),
    (declared(BufferDecl.output("a", 0, DataType.U32)), ["V130"]),
    (declared(BufferDecl.output("a", 0, DataType.U32).with_output_byte_range((0, 0))), []),
]


@pytest.mark.parametrize(("given", "codes"), CASES, ids=["-".join(codes) or f"none-{n}" for n, (_, codes) in enumerate(CASES)])
def test_a_program_gets_upstreams_codes(given: Program, codes: list[str]) -> None:
    report = examine(given, upstream="0.7")
    assert ([problem.rule for problem in report.problems], report.total) == (codes, len(codes))
    assert all(problem.fix == UPSTREAM_RULES[problem.rule].fix for problem in report.problems)


@pytest.mark.parametrize(
    ("name", "argument", "codes"),
    [
        ("thrice", X, ["V016"]),
        ("first", BufferRef("in"), []),
        ("first", BufferRef("no"), ["V052"]),
        ("first", X, ["V053"]),
        ("first", BufferRef("floats"), ["V054"]),
        ("strange", X, ["V021"]),
        ("twice", F, ["V022"]),
        ("twice", BufferRef("in"), ["V022"]),
        ("deep", X, ["V020"]),
    ],
)
def test_calls_are_checked_against_the_operations_that_are_given(name: str, argument: object, codes: list[str]) -> None:
    calling = program(let("x", call(name, argument)))  # type: ignore[arg-type]
    assert [problem.rule for problem in examine(calling, operations=SIGNATURES, upstream="0.7").problems] == codes


def test_every_code_has_a_program() -> None:
    called = {"V020", "V021", "V052", "V053", "V054"}
    on_a_device = {"V034", "V035"}
    assert {code for _, codes in CASES for code in codes} | called | on_a_device == set(UPSTREAM_RULES)


def test_a_device_decides_about_subgroups_collectives_and_casts() -> None:
    asking = program(let("x", subgroup_add(X)), AllReduce("out", CollectiveOp.SUM), let("y", cast(DataType.U64, X)))
    assert examine(asking, ABLE, upstream="0.7").problems == ()
    less = replace(ABLE, supports_subgroup_ops=False, supports_distributed_collectives=False, max_native_int_width=32)
    assert [problem.rule for problem in examine(asking, less, upstream="0.7").problems] == ["V041", "V046", "V034"]


def test_a_cast_that_drops_bits_is_a_warning() -> None:
    report = examine(program(let("x", cast(DataType.U8, X))), upstream="0.7")
    assert (report.problems, [(problem.rule, problem.path) for problem in report.warnings]) == ((), [("V035", "body[0].value")])


def test_a_finding_says_that_this_driver_takes_it() -> None:
    (problem,) = examine(program(let("x", atomic_add("floats", 0, 1))), upstream="0.7").problems
    message = "'floats' holds f32, and atomics work on u32; this driver takes it"
    assert problem == Problem("V014", "body[0].value", message, "use a buffer of u32")
    (problem,) = examine(program(store("out", 0, F)), upstream="0.7").problems
    assert problem.message == "buffer 'out' holds u32, and is given f32"


def test_nothing_is_said_to_be_taken_of_a_program_that_was_not_examined_to_its_end() -> None:
    deep = program(store("nowhere", 0, X), *nest(66).entry)
    assert [problem.message for problem in examine(deep, upstream="0.7").problems][:1] == ["there is no buffer 'nowhere'"]


def test_what_only_this_driver_refuses_is_a_warning() -> None:
    report = examine(program(let("x", load("in", S))), upstream="0.7")
    message = "the index of a load must be u32, and is i32; upstream takes it"
    assert report == ((), (Problem("R012", "body[0].value.index", message, "cast it to u32"),), 0)


def test_validate_raises_what_upstream_finds() -> None:
    run_time = declared(BufferDecl.output("a", 0, DataType.U32))
    assert validate(run_time) is run_time
    with pytest.raises(InvalidProgram) as caught:
        validate(run_time, upstream="0.7")
    fix = "give it a count, or the output_byte_range (0, 0) if it is empty"
    assert str(caught.value) == f"V130 at buffers[0]: output 'a' has no count; this driver takes it. Fix: {fix}."
    fine = program(store("out", gid_x(), u32(1)))
    assert validate(fine, upstream="0.7") is fine


def test_another_version_is_refused() -> None:
    message = "upstream '0.8' is not known here. Fix: give one of '0.7'."
    assert refusal(lambda: examine(program(), upstream="0.8")) == (InvalidInput, InvalidInput("", fix="").code, message)


BEHIND = [barrier(), if_(load("in", 0), [return_()])]
EXITS = [
    ("a load that all make alike", BEHIND, []),
    ("a barrier at the end", [barrier(), if_(lid_x(), [return_()]), barrier()], []),
    ("an index that differs", [barrier(), if_(load("in", lid_x()), [return_()])], ["V055"]),
    ("a write between", [barrier(), store("out", 0, X), if_(load("out", 0), [return_()])], ["V055"]),
    ("a write in a branch between", [barrier(), if_(X, [store("out", 0, X)]), if_(load("out", 0), [return_()])], ["V055"]),
    ("a barrier that releases", [barrier(MemoryOrdering.RELEASE), if_(load("in", 0), [return_()])], ["V055"]),
    ("a variable of it", [barrier(), let("y", load("in", 0)), if_(var("y"), [return_()])], []),
    ("a variable that differs", [barrier(), let("y", lid_x()), if_(var("y"), [return_()])], ["V055"]),
    ("blocks are looked through", [block(barrier()), region("r", if_(load("in", 0), [return_()]))], []),
    ("a barrier under a condition", [if_(wid_x(), [barrier()]), if_(load("in", 0), [return_()])], ["V055"]),
    ("a return from a loop inside", [barrier(), loop("k", 0, 2, [if_(load("in", 0), [return_()])])], []),
    (
        "a loop inside that writes",
        [barrier(), loop("k", 0, 2, [if_(load("out", 0), [return_()]), store("out", 0, X)])],
        ["V055"],
    ),
    ("no barrier at all", [if_(lid_x(), [return_()])], []),
]


@pytest.mark.parametrize(("body", "codes"), [case[1:] for case in EXITS], ids=[case[0] for case in EXITS])
def test_a_loop_with_a_barrier_is_left_by_all_or_none(body: list[object], codes: list[str]) -> None:
    report = examine(program(loop("i", 0, 4, body), buffers=BUFFERS), upstream="0.7")  # type: ignore[arg-type]
    assert [problem.rule for problem in report.problems] == codes
