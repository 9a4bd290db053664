"""Expressions, nodes and builders: literals, operators, what is refused, and programs as deep as anybody likes."""

from __future__ import annotations

import copy
import gc
import pickle
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from every_term import EXPRESSIONS, NODES
from literals import refusal

from vyre_driver import DataType
from vyre_driver.errors import InvalidProgram
from vyre_driver.ir import builders as ir
from vyre_driver.ir import expressions as ex
from vyre_driver.ir import nodes as nd
from vyre_driver.ir.buffers import BufferDecl
from vyre_driver.ir.canonical import canonical_bytes
from vyre_driver.ir.layout import ARGUMENTS, EXPRESSION, OPTIONAL
from vyre_driver.ir.operators import AtomicOp, BinOp, MemoryOrdering, OpaqueOp, UnOp
from vyre_driver.ir.program import Program
from vyre_driver.ir.terms import Term

if TYPE_CHECKING:
    from collections.abc import Callable

I = ir.gid_x()  # noqa: E741 -- the index, as in every kernel
FLOATS = BufferDecl.read("floats", 0, DataType.F32)
INTS = BufferDecl.read("ints", 1, DataType.I32)
X = ir.var("x")


@pytest.mark.parametrize(
    ("made", "op", "left", "right"),
    [
        (I + 1, BinOp.ADD, I, ir.u32(1)),
        (1 + I, BinOp.ADD, ir.u32(1), I),
        (I - 1, BinOp.SUB, I, ir.u32(1)),
        (1 - I, BinOp.SUB, ir.u32(1), I),
        (I * 2, BinOp.MUL, I, ir.u32(2)),
        (2 * I, BinOp.MUL, ir.u32(2), I),
        (I / 2, BinOp.DIV, I, ir.u32(2)),
        (2 / I, BinOp.DIV, ir.u32(2), I),
        (I % 2, BinOp.MOD, I, ir.u32(2)),
        (2 % I, BinOp.MOD, ir.u32(2), I),
        (I & 3, BinOp.BIT_AND, I, ir.u32(3)),
        (3 & I, BinOp.BIT_AND, ir.u32(3), I),
        (I | 3, BinOp.BIT_OR, I, ir.u32(3)),
        (3 | I, BinOp.BIT_OR, ir.u32(3), I),
        (I ^ 3, BinOp.BIT_XOR, I, ir.u32(3)),
        (3 ^ I, BinOp.BIT_XOR, ir.u32(3), I),
        (I << 3, BinOp.SHL, I, ir.u32(3)),
        (3 << I, BinOp.SHL, ir.u32(3), I),
        (I >> 3, BinOp.SHR, I, ir.u32(3)),
        (3 >> I, BinOp.SHR, ir.u32(3), I),
        (I < 3, BinOp.LT, I, ir.u32(3)),
        (I <= 3, BinOp.LE, I, ir.u32(3)),
        (I > 3, BinOp.GT, I, ir.u32(3)),
        (I >= 3, BinOp.GE, I, ir.u32(3)),
        (I.eq(3), BinOp.EQ, I, ir.u32(3)),
        (I.ne(3), BinOp.NE, I, ir.u32(3)),
        ((I < 3).and_(ir.boolean(True)), BinOp.AND, I < 3, ir.boolean(True)),
        ((I < 3).or_(I > 5), BinOp.OR, I < 3, I > 5),
    ],
)
def test_pythons_operators_make_the_programs(made: ex.Expr, op: BinOp, left: ex.Expr, right: ex.Expr) -> None:
    assert made == ex.Binary(op, left, right)


def test_signs_and_negations_are_unary() -> None:
    made = [-X, ~X, (I < 3).not_()]
    assert made == [
        ex.Unary(UnOp.NEGATE, X),
        ex.Unary(UnOp.BIT_NOT, X),
        ex.Unary(UnOp.LOGICAL_NOT, I < 3),
    ]


@pytest.mark.parametrize(
    ("beside", "number", "literal"),
    [
        (I, 2**32 - 1, ir.u32(2**32 - 1)),
        (ir.load(INTS, I), -1, ir.i32(-1)),
        (ir.load(FLOATS, I), 2, ir.f32(2.0)),
        (ir.load(FLOATS, I), 0.1, ir.f32(0.1)),
        (X, 0.1, ir.f32(0.1)),
        (ir.var("l", DataType.U64), 2**64 - 1, ir.u64(2**64 - 1)),
        (ir.var("l", DataType.I64), -(2**63), ir.i64(-(2**63))),
        (ir.var("d", DataType.F64), 0.1, ir.f64(0.1)),
        (ir.cast(DataType.I32, I), -3, ir.i32(-3)),
        (ir.atomic_add("c", I, 1), 7, ir.u32(7)),
        (ir.select(I < 3, X, ir.load(FLOATS, I)), 2, ir.f32(2.0)),
        (-ir.load(INTS, I) * X, 5, ir.i32(5)),
        (X + ir.load(INTS, I), 5, ir.i32(5)),
        (ir.fma(X, 1.0, 2), 5, ir.f32(5.0)),
        (ir.subgroup_add(ir.load(INTS, I)), -5, ir.i32(-5)),
        (ir.subgroup_shuffle(ir.load(INTS, I), 3), -5, ir.i32(-5)),
        (I, np.uint32(7), ir.u32(7)),
        (X, np.int32(-7), ir.i32(-7)),
        (X, np.float32(0.1), ir.f32(0.1)),
        (X, np.uint64(7), ir.u64(7)),
    ],
)
def test_a_number_is_a_literal_of_the_type_beside_it(beside: ex.Expr, number: float, literal: ex.Expr) -> None:
    assert (beside.eq(number), beside - number) == (beside.eq(literal), ex.Binary(BinOp.SUB, beside, literal))
    assert number - beside == ex.Binary(BinOp.SUB, literal, beside)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: X + 1, "the type of the number 1 is not known here"),
        (lambda: ir.load("ints", I) + 1, "the type of the number 1 is not known here"),
        (lambda: ir.store("ints", I, 1), "the type of the number 1 is not known here"),
        (lambda: ir.let("x", 1), "the type of the number 1 is not known here"),
        (lambda: ir.cast(DataType.F32, 1), "the type of the number 1 is not known here"),
        (lambda: I + 0.5, "0.5 is not of type u32"),
        (lambda: I + True, "True is Python's, and an expression is wanted"),
        (lambda: I + np.bool_(1), "or boolean(True) for a constant"),
        (lambda: I - -1, "a u32 literal is -1, outside 0 to 4294967295"),
        (lambda: I + 2**32, "outside 0 to 4294967295"),
        (lambda: ir.load(INTS, I) + 2**31, "outside -2147483648 to 2147483647"),
        (lambda: ir.load(FLOATS, I) + (2**24 + 1), "16777217 is not exact in f32"),
        (lambda: ir.load(FLOATS, I) + 10**400, "does not fit f32"),
        (lambda: X + 1e39, "does not fit f32"),
        (lambda: (I < 3).and_(1), "1 is not of type bool"),
        (lambda: ir.if_(1, []), "1 is not of type bool"),
        (lambda: ir.var("h", DataType.F16) + 1, "there is no literal of type f16"),
        (lambda: ir.var("l", DataType.U64) + -1, "-1 does not fit u64"),
        (lambda: ir.var("d", DataType.F64) + (2**53 + 1), "is not exact in f64"),
        (lambda: I + np.int32(1), "stands beside u32"),
        (lambda: X + np.float16(1), "there is no literal for"),
        (lambda: ir.let(ir.var("x", DataType.I32), I), "variable 'x' is declared i32 and is given u32"),
        (lambda: ir.load(7, I), "7 is not a buffer"),  # type: ignore[arg-type]
        (lambda: ir.let(7, I), "7 is not a variable"),  # type: ignore[arg-type]
        (lambda: ir.load("x", "i"), "'i' is neither an expression nor a number"),  # type: ignore[arg-type]
        (lambda: ir.u32(True), "which is not an integer"),
        (lambda: ir.u32(1.0), "which is not an integer"),  # type: ignore[arg-type]
        (lambda: ir.f32("1"), "does not fit f32"),  # type: ignore[arg-type]
        (lambda: ex.LitBool(1), "a bool literal is 1"),  # type: ignore[arg-type]
        (lambda: ex.Var("\ud800"), "has a lone surrogate"),
        (lambda: ex.Var(7), "which is not a str"),  # type: ignore[arg-type]
        (lambda: ex.Binary("+", X, X), "a binary operator is '+', a str"),  # type: ignore[arg-type]
        (lambda: ex.Binary(UnOp.ABS, X, X), "a binary operator is"),  # type: ignore[arg-type]
        (lambda: ex.Binary(BinOp.ADD, X, 1), "an operand is 1"),  # type: ignore[arg-type]
        (lambda: ex.Unary(BinOp.ADD, X), "a unary operator is"),  # type: ignore[arg-type]
        (lambda: ex.Load("x", 1), "Load got 1 for an expression"),  # type: ignore[arg-type]
        (lambda: ex.Call("f", X), "the arguments of a call are"),  # type: ignore[arg-type]
        (lambda: ex.InvocationId(256), "an axis is 256, outside 0 to 255"),
        (lambda: ex.Cast("u32", X), "the target of a cast is 'u32'"),  # type: ignore[arg-type]
        (lambda: ex.Atomic(AtomicOp.ADD, 4, "c", I, None, I), "the ordering of an atomic is 4"),  # type: ignore[arg-type]
        (lambda: ex.OpaqueExpr("k", "text"), "the payload of an opaque expression is 'text'"),  # type: ignore[arg-type]
        (lambda: nd.Store("x", I, 1), "Store got 1 for an expression"),  # type: ignore[arg-type]
        (lambda: nd.Store("x", nd.Return(), I), "Store got a node for an expression"),  # type: ignore[arg-type]
        (lambda: nd.If(nd.Return(), [nd.Return()]), "If got a node for an expression"),  # type: ignore[arg-type, list-item]
        (lambda: nd.Block([I]), "body of Block holds InvocationId(axis=0), which is not a node"),  # type: ignore[arg-type]
        (lambda: nd.Block(nd.Return()), "body of Block is Return()"),  # type: ignore[arg-type]
        (lambda: nd.Barrier(4), "the ordering of a barrier is 4"),  # type: ignore[arg-type]
        (lambda: nd.Broadcast("b", 2**32), "root of Broadcast is 4294967296"),
        (lambda: nd.AllReduce("b", BinOp.ADD), "a collective operator is"),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_be_meant_is_refused(make: object, says: str) -> None:
    assert callable(make)
    with pytest.raises(InvalidProgram) as caught:
        make()
    assert says in str(caught.value)


def test_bytes_in_place_of_any_expression_of_any_term_are_refused() -> None:
    kinds = {EXPRESSION: b"\0", OPTIONAL: b"\0", ARGUMENTS: (b"\0",)}
    places = {
        (type(term), name): (term, {name: kinds[kind]})
        for term in (*EXPRESSIONS, *NODES)
        for name, kind in zip(term.__match_args__, term._layout, strict=False)  # noqa: SLF001 -- all fields of all terms
        if kind in kinds
    }
    assert len(places) > 30
    for (cls, _), (term, wrong) in places.items():
        with pytest.raises(InvalidProgram) as caught:
            replace(term, **wrong)
        assert "b'\\x00'" in str(caught.value), cls


@pytest.mark.parametrize(
    "use", [bool, lambda one: one and X, lambda one: 0 < one < 3, lambda one: one + "a", lambda one: one // 2]
)
def test_an_expression_has_no_truth_value_and_takes_no_text(use: object) -> None:
    assert callable(use)
    with pytest.raises(TypeError):
        use(I)


FALSE: Any = ir.load(INTS, I) == ir.load(FLOATS, I)  # of Python, whatever the program would find


@pytest.mark.parametrize(
    "make",
    [
        lambda: ir.if_(FALSE, []),
        lambda: ir.select(FALSE, X, X),
        lambda: ir.select(I < 3, FALSE, not FALSE),
        lambda: ir.subgroup_ballot(FALSE),
        lambda: (I < 3).and_(FALSE),
        lambda: (I < 3).or_(not FALSE),
        lambda: (I < 3) & FALSE,
        lambda: FALSE | (I < 3),
        lambda: (I < 3).eq(FALSE),
        lambda: ir.let("c", FALSE),
        lambda: ir.assign(ir.var("c", DataType.Bool), FALSE),
        lambda: ir.store(BufferDecl.read_write("b", 0, DataType.Bool), 0, FALSE),
        lambda: ir.minimum(FALSE, I),
        lambda: ir.load(INTS, FALSE),
        lambda: ir.loop("k", FALSE, 3, []),
        lambda: ir.unop(UnOp.LOGICAL_NOT, FALSE),
        lambda: ir.cast(DataType.U32, FALSE),
        lambda: ir.trap(FALSE, "tag"),
        lambda: ir.if_(np.bool_(FALSE), []),
    ],
)
def test_what_pythons_comparison_gives_is_no_expression(make: Callable[[], object]) -> None:
    kind, code, message = refusal(make)
    assert (kind, code, "is Python's, and an expression is wanted" in message) == (InvalidProgram, 1006, True)


@pytest.mark.parametrize("number", [3, 3.0, True, np.uint32(3), np.bool_(1)])
def test_an_expression_is_not_compared_with_a_number_by_python(number: object) -> None:
    for compare in (lambda: number == I, lambda: number != I, lambda: number == I, lambda: [I].index(number)):
        with pytest.raises(TypeError, match=r"== compares objects. Fix: write \.eq\("):
            compare()
    assert [I == None, I == "3", I == (3,), ir.gid_x() != I] == [False] * 4  # noqa: E711 -- what is tested


def test_builders_make_the_nodes_and_expressions_they_are_named_for() -> None:
    counted = ir.loop("k", 0, I, lambda k: [ir.store(FLOATS, k, 1)])
    assert counted == nd.Loop("k", ir.u32(0), I, (nd.Store("floats", ir.var("k"), ir.f32(1.0)),))
    assert ir.forever([]) == nd.Loop("__forever__", ir.u32(0), ir.u32(2**32 - 1), ())
    assert ir.call_region("f", [I, X], [ir.return_()]) == nd.Region(
        "f", None, (nd.Let("arg0", I), nd.Let("arg1", X), nd.Return())
    )
    assert ir.saturating_sub(I, 3) == I - ex.Binary(BinOp.MIN, I, ir.u32(3))
    assert ir.atomic_compare_exchange("c", 0, 1, 2) == ex.Atomic(
        AtomicOp.COMPARE_EXCHANGE, MemoryOrdering.SEQ_CST, "c", ir.u32(0), ir.u32(1), ir.u32(2)
    )
    assert [ir.gid_y(), ir.wid_x(), ir.wid_z(), ir.lid_y()] == [
        ex.InvocationId(1),
        ex.WorkgroupId(0),
        ex.WorkgroupId(2),
        ex.LocalId(1),
    ]
    assert ir.binop(OpaqueOp(1), I, 3) == ex.Binary(OpaqueOp(1), I, ir.u32(3))


def test_a_term_keeps_what_it_was_told_of_its_type_out_of_equality() -> None:
    assert (ir.var("x", DataType.F32), hash(ir.var("x", DataType.F32))) == (X, hash(X))
    assert (ir.var("x", DataType.F32).dtype, X.dtype) == (DataType.F32, None)


def test_terms_cannot_be_changed_copied_or_pickled() -> None:
    term = I + 1
    with pytest.raises((AttributeError, TypeError)):
        term.left = X  # type: ignore[attr-defined]
    with pytest.raises((AttributeError, TypeError)):
        term.key = b""
    assert copy.copy(term) is copy.deepcopy(term) is term
    with pytest.raises(TypeError, match="to_wire"):
        pickle.dumps(term)


def test_terms_of_different_kinds_are_unequal() -> None:
    assert ir.u32(0) != ir.i32(0)
    assert ir.f32(0.0) != ir.f32(-0.0)
    assert nd.Return() != ir.u32(0)


def test_large_operands_stand_in_the_order_of_their_bytes_too() -> None:
    def large(name: str) -> ex.Expr:
        made: ex.Expr = ir.var(name)
        for _ in range(40):
            made = ir.load("a buffer", made)
        return made

    low, high = large("a"), large("b")
    assert (low.wire, high.wire) == (None, None)
    assert canonical_bytes(low) < canonical_bytes(high)
    written = {canonical_bytes(low ^ high), canonical_bytes(high ^ low)}
    assert written == {b"\x09\x08" + canonical_bytes(low) + canonical_bytes(high)}
    assert (low ^ high) != (high ^ low)


def deep_expression(levels: int) -> ex.Expr:
    made: ex.Expr = X
    for step in range(levels):
        made = (made ^ ir.u32(step)) if step % 2 else ex.Binary(BinOp.BIT_XOR, ir.var("y"), made)
    return made


def deep_node(levels: int) -> nd.Node:
    made: nd.Node = nd.Return()
    for _ in range(levels):
        made = nd.Block((nd.Let("x", ir.u32(1)), made))
    return made


@pytest.mark.parametrize("levels", [8_000, pytest.param(50_000, marks=pytest.mark.thorough)])
def test_deep_programs_need_no_deep_stack(levels: int) -> None:
    node, value = deep_node(levels), deep_expression(levels)
    program = Program.wrapped([], (1, 1, 1), [node, nd.Let("deep", value)])
    same = Program.wrapped([], (1, 1, 1), [deep_node(levels), nd.Let("deep", deep_expression(levels))])
    assert (program, hash(program), program.digest()) == (same, hash(same), same.digest())
    assert program.canonical() == program
    assert len(program.normalized_cache_digest()) == len(program.fingerprint()) == 32
    assert len(str(program)) < 1_100_000
    assert len(repr(value)) < 2100
    assert program.stats().nesting == levels + 2
    assert program.stats().expression_depth == levels + 1
    assert copy.deepcopy(program) is program
    with pytest.raises(InvalidProgram, match="levels of nodes, over the wire format's limit of 64"):
        program.to_wire()
    del node, value, program, same
    gc.collect()


def test_a_tree_that_shares_itself_costs_what_its_parts_cost() -> None:
    left, right = X, X
    for _ in range(200):
        left = (left ^ ir.var("a")) ^ (left ^ ir.var("b"))
        right = (right ^ ir.var("b")) ^ (ir.var("a") ^ right)
    one = Program.wrapped([], (1, 1, 1), [nd.Let("v", left)])
    other = Program.wrapped([], (1, 1, 1), [nd.Let("v", right)])
    assert (one == other, left == right, one.digest() == other.digest()) == (True, False, False)
    assert one.stats().expression_count > 2**200
    assert str(one).endswith("workgroup (1, 1, 1)>")
    assert isinstance(left ^ right, Term)
    for use in (one.to_wire, one.normalized_cache_digest):
        with pytest.raises(InvalidProgram, match="split"):
            use()
