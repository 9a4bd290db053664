"""Which programs are free of their workgroup's size, and that those which are called bound give something else in another.

What is told to differ is run in workgroups of every size on the reference: a case that gives the same is not a case.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import pytest
from freedom_cases import DIFFERENT, FIXED, FREE, I32, IN, KEPT, SHARED, SIZES, U32, count, i, j, limit, shown

from vyre_driver.binding import BindingPlan
from vyre_driver.ir import builders as ir
from vyre_driver.ir import nodes as nd
from vyre_driver.ir.buffers import BufferAccess, BufferDecl, MemoryKind
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.expressions import OpaqueExpr
from vyre_driver.ir.operators import AtomicOp, BinOp, OpaqueOp
from vyre_driver.ir.program import Program
from vyre_driver.ir.workgroup_freedom import why_workgroup_is_fixed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vyre_driver.ir.arithmetic import Expr
    from vyre_driver.ir.nodes import Node


@pytest.mark.parametrize("name", DIFFERENT)
def test_a_program_that_gives_something_else_in_larger_workgroups_is_bound(name: str) -> None:
    asked = DIFFERENT[name]
    assert (why_workgroup_is_fixed(asked.program()) is None, len(set(asked.answers())) > 1) == (False, True)


@pytest.mark.parametrize("name", FREE)
def test_a_program_that_is_free_gives_the_same_in_workgroups_of_every_size(name: str) -> None:
    asked = FREE[name]
    answers = asked.answers()
    assert (why_workgroup_is_fixed(asked.program()), answers) == (None, answers[:1] * len(SIZES))
    assert isinstance(answers[0], tuple), answers[0]


def bound(*nodes: Node, buffers: Sequence[BufferDecl] = (FIXED, IN), size: tuple[int, int, int] = (64, 1, 1)) -> Program:
    return Program.wrapped(buffers, size, nodes)


OPEN_BYTES = BufferDecl.read_write("bytes", 2, DataType.Bytes).with_bytes_extraction(True)
OPAQUE = OpaqueOp(0x8000_0001)
PLACED = ir.store(FIXED, i, i)
MEETING = "invocations may meet at an element of 'fixed', where their order decides"
PAST = "invocations past the last element may write to 'fixed'"

BOUND = {
    "two axes": (bound(PLACED, size=(8, 8, 1)), "its workgroup of 8x8x1 invocations has more than one axis"),
    "three axes": (bound(PLACED, size=(8, 1, 2)), "its workgroup of 8x1x2 invocations has more than one axis"),
    "no effect": (bound(ir.let(j, i)), "it writes nothing"),
    "nothing": (bound(ir.return_()), "it writes nothing"),
    "not composable": (bound(PLACED).with_non_composable_with_self(True), "it is not composable with itself"),
    "workgroup memory": (bound(PLACED, buffers=[FIXED, SHARED]), "buffer 'shared' is workgroup memory"),
    "workgroup memory of a strange kind": (
        bound(PLACED, buffers=[FIXED, SHARED.with_kind(MemoryKind.GLOBAL)]),
        "buffer 'shared' is workgroup memory",
    ),
    "shared memory of a strange access": (
        bound(PLACED, buffers=[FIXED, IN.with_kind(MemoryKind.SHARED)]),
        "buffer 'in' is shared memory",
    ),
    "memory of its own": (bound(PLACED, buffers=[FIXED, IN.with_kind(MemoryKind.LOCAL)]), "buffer 'in' is local memory"),
    "a barrier": (bound(PLACED, ir.barrier()), "it uses Barrier"),
    "an index in the workgroup": (bound(ir.store(FIXED, i, ir.lid_y())), "it uses LocalId"),
    "an index of the workgroup": (bound(ir.store(FIXED, i, ir.wid_z())), "it uses WorkgroupId"),
    "a value along y": (bound(ir.store(FIXED, i, ir.gid_y())), "it looks at y or z of an index, and nobody knows its grid"),
    "a lane": (bound(ir.store(FIXED, i, ir.subgroup_local_id())), "it uses SubgroupLocalId"),
    "lanes": (bound(ir.store(FIXED, i, ir.subgroup_size())), "it uses SubgroupSize"),
    "a ballot": (bound(ir.store(FIXED, i, ir.subgroup_ballot(i < 5))), "it uses SubgroupBallot"),
    "a shuffle": (bound(ir.store(FIXED, i, ir.subgroup_shuffle(i, 1))), "it uses SubgroupShuffle"),
    "a sum": (bound(ir.store(FIXED, i, ir.subgroup_add(i))), "it uses SubgroupReduce"),
    "another lane": (bound(ir.store(FIXED, i, ir.binop(BinOp.SHUFFLE, i, i))), "it uses SHUFFLE, which reaches other lanes"),
    "a call": (bound(ir.store(FIXED, i, ir.call("twice", i))), "it uses Call"),
    "a trap": (bound(ir.if_(i < 5, [ir.trap(i, "here")]), PLACED), "it uses Trap"),
    "a resumption": (bound(nd.Resume("here"), PLACED), "it uses Resume"),
    "a copy": (bound(nd.AsyncLoad("in", "fixed", ir.u32(0), ir.u32(4), "tag")), "it uses AsyncLoad"),
    "a copy back": (bound(nd.AsyncStore("in", "fixed", ir.u32(0), ir.u32(4), "tag")), "it uses AsyncStore"),
    "a wait": (bound(PLACED, nd.AsyncWait("tag")), "it uses AsyncWait"),
    "a dispatch": (bound(PLACED, nd.IndirectDispatch("in", 0)), "it uses IndirectDispatch"),
    "a collective": (bound(PLACED, nd.Broadcast("in", 0)), "it uses Broadcast"),
    "an opaque node": (bound(PLACED, nd.OpaqueNode("kind", b"")), "it uses OpaqueNode"),
    "an opaque expression": (bound(ir.store(FIXED, i, OpaqueExpr("kind", b""))), "it uses OpaqueExpr"),
    "an opaque operator": (bound(ir.store(FIXED, i, ir.binop(OPAQUE, i, i))), "it uses an operator of an extension"),
    "an opaque operator of one": (bound(ir.store(FIXED, i, ir.unop(OPAQUE, i))), "it uses an operator of an extension"),
    "too deep": (bound(*[PLACED] * 100_001), "it is larger than a valid program"),
    "a neighbour's element": (bound(ir.if_(i < 5, [ir.store(FIXED, i, ir.load(FIXED, i + 1))])), MEETING),
    "a neighbour's element, unguarded": (bound(ir.let(j, ir.load(FIXED, i ^ 1)), PLACED), MEETING),
    "a guarded store anywhere": (bound(ir.if_(i < 5, [ir.store(FIXED, ir.load(IN, i), i)])), MEETING),
    "stores here and there": (bound(PLACED, ir.if_(i < 5, [ir.store(FIXED, 0, i)])), MEETING),
    "atomics of two kinds": (
        bound(ir.if_(i < 5, [count(0, 1, FIXED), ir.let(j, ir.atomic_max(FIXED, 0, i))])),
        MEETING,
    ),
    "atomics and a load": (bound(ir.if_(i < 5, [count(0, 1, FIXED)]), ir.let(j, ir.load(FIXED, i))), MEETING),
    "what an atomic finds": (
        bound(ir.let(j, ir.atomic_add(FIXED, i, 1)), ir.let(limit, j)),
        "what an atomic finds in 'fixed' depends on the order",
    ),
    "what an atomic in an expression finds": (
        bound(ir.if_(i < 5, [ir.let(j, ir.atomic_add(FIXED, i, 1) + 0)])),
        "what an atomic finds in 'fixed' depends on the order",
    ),
    "what an atomic for another finds": (
        bound(ir.if_(i < 5, [count(ir.atomic_add(IN, 0, 1), 1, FIXED)])),
        "what an atomic finds in 'in' depends on the order",
    ),
    "an atomic in a condition": (
        bound(ir.if_(ir.atomic_add(FIXED, 0, 1).eq(0), [])),
        "what an atomic finds in 'fixed' depends on the order",
    ),
    "an atomic in an index": (
        bound(ir.if_(i < 5, [ir.store(FIXED, ir.atomic_add(IN, 0, 1), i)])),
        "what an atomic finds in 'in' depends on the order",
    ),
    "an atomic in a bound": (
        bound(ir.if_(i < 5, [ir.loop("k", 0, ir.atomic_add(IN, 0, 1), [PLACED])])),
        "what an atomic finds in 'in' depends on the order",
    ),
    "an exchange": (
        bound(ir.if_(i < 5, [ir.let(j, ir.atomic_exchange(FIXED, 0, i))])),
        "what is left in 'fixed' depends on the order of its atomics",
    ),
    "an atomic of an extension": (
        bound(ir.if_(i < 5, [ir.let(j, ir.atomic(OPAQUE, FIXED, 0, i))])),
        "it uses an operator of an extension",
    ),
    "bytes": (
        bound(ir.if_(i < 5, [ir.store(OPEN_BYTES, i, i)]), buffers=[FIXED, OPEN_BYTES]),
        "elements of 'bytes' may share bytes",
    ),
    "an unknown buffer": (bound(ir.store("none", i, i)), "elements of 'none' may share bytes"),
    "what stays on the device": (
        bound(ir.store(KEPT, i, i), PLACED, buffers=[FIXED, KEPT]),
        "invocations past the last element may write to 'kept'",
    ),
    "an index along y": (bound(ir.store(FIXED, ir.gid_y(), i)), PAST),
    "a difference that wraps": (bound(*shown(i < ir.buf_len(FIXED) - 1)), PAST),
    "a name that hides another, which no valid program has": (
        bound(*shown(i < limit, ir.let(limit, ir.load(IN, 0)), ir.block(ir.let(limit, ir.buf_len(FIXED))))),
        PAST,
    ),
    "a loop whose variable hides another": (
        bound(*shown(i < limit, ir.let(limit, ir.load(IN, 0)), ir.loop(limit, 0, 1, [ir.let(j, i)]))),
        PAST,
    ),
    "a guard divided by zero, which no valid program is": (
        bound(*shown(i < ir.binop(BinOp.DIV, ir.buf_len(FIXED), ir.u32(0)))),
        PAST,
    ),
    "turns by a name that a loop had": (
        bound(ir.let(limit, ir.load(IN, i)), ir.loop(limit, 0, 1, []), ir.loop("k", 0, limit, [PLACED])),
        "invocations past the last element may take more turns of the loop over 'k'",
    ),
    "a guard of another axis": (bound(*shown(ir.gid_y() < 1)), PAST),
    "a guard of something else": (bound(*shown(ir.load(IN, i) < 5)), PAST),
    "a guard of more than the index": (bound(*shown(i - 1 < 5)), PAST),
    "a guard of a cast": (bound(*shown(ir.cast(I32, i) < 5)), PAST),
    "turns of a load": (
        bound(ir.loop("k", ir.load(IN, i), 9, [PLACED])),
        "invocations past the last element may take more turns of the loop over 'k'",
    ),
    "turns of what is written": (
        bound(ir.loop("k", 0, ir.load(FIXED, 0), [PLACED])),
        "invocations past the last element may take more turns of the loop over 'k'",
    ),
    "a quotient of what is not known": (
        bound(ir.let(j, ir.binop(BinOp.MOD, ir.var("a"), ir.var("b"))), PLACED),
        "invocations past the last element may divide i32 by zero",
    ),
    "a quotient by -1": (
        bound(ir.let("quotient", ir.binop(BinOp.DIV, ir.cast(I32, i), ir.i32(-1))), PLACED),
        "invocations past the last element may divide i32 by zero",
    ),
}


@pytest.mark.parametrize("name", BOUND)
def test_what_binds_a_program_is_told(name: str) -> None:
    program, why = BOUND[name]
    assert why_workgroup_is_fixed(program) == why


@pytest.mark.parametrize("op", AtomicOp)
def test_only_atomics_that_commute_are_free(op: AtomicOp) -> None:
    expected = ir.u32(0) if op in {AtomicOp.COMPARE_EXCHANGE, AtomicOp.COMPARE_EXCHANGE_WEAK} else None
    program = bound(ir.if_(i < 5, [ir.let(j, ir.atomic(op, FIXED, 0, i, expected=expected))]))
    free = {AtomicOp.ADD, AtomicOp.OR, AtomicOp.AND, AtomicOp.XOR, AtomicOp.MIN, AtomicOp.MAX}
    assert (why_workgroup_is_fixed(program) is None) == (op in free)


KINDS = [MemoryKind.GLOBAL, MemoryKind.READONLY, MemoryKind.UNIFORM, MemoryKind.PERSISTENT]
ACCESSES = [one for one in BufferAccess if one is not BufferAccess.WORKGROUP]


@pytest.mark.parametrize(("kind", "access", "is_output"), list(product(KINDS, ACCESSES, [False, True])))
def test_the_counts_that_guard_are_those_of_what_the_plan_calls_an_output(
    kind: MemoryKind,
    access: BufferAccess,
    is_output: bool,  # noqa: FBT001 -- a field of a declaration
) -> None:
    asked = BufferDecl("asked", 1, access, kind, U32, is_output=is_output)
    guarded = ir.if_(i < ir.buf_len(asked), [ir.store(KEPT, i, i)])
    program = bound(guarded, buffers=[FIXED, asked, KEPT])
    role = next(one.role for one in BindingPlan.build(program).bindings if one.name == "asked")
    assert (why_workgroup_is_fixed(program) is None) == role.produces_output


def test_beside_atomics_every_count_guards() -> None:
    stored = ir.if_(i < ir.buf_len(IN), [ir.store(KEPT, i, i)])
    alone = bound(stored, buffers=[FIXED, IN, KEPT])
    beside = bound(stored, ir.if_(i < 5, [count(0, 1, FIXED)]), buffers=[FIXED, IN, KEPT])
    past = "invocations past the last element may write to 'kept'"
    assert (why_workgroup_is_fixed(alone), why_workgroup_is_fixed(beside)) == (past, None)


@pytest.mark.parametrize("element", [DataType.I4, DataType.FP4, DataType.NF4, DataType.Bytes])
def test_the_count_of_elements_that_are_no_whole_bytes_guards_nothing(element: DataType) -> None:
    asked = BufferDecl.read_write("asked", 1, element)
    program = bound(ir.if_(i < ir.buf_len(asked), [ir.store(KEPT, i, i)]), buffers=[FIXED, asked, KEPT])
    assert why_workgroup_is_fixed(program) == "invocations past the last element may write to 'kept'"


def test_a_deep_unvalidated_program_is_refused_without_recursion() -> None:
    node: Node = PLACED
    for _ in range(20_000):
        node = ir.block(node)
    deep = i
    for _ in range(20_000):
        deep = deep + i
    expected = "it is larger than a valid program"
    found = [why_workgroup_is_fixed(bound(one)) for one in (node, ir.store(FIXED, i, deep))]
    assert found == [expected, expected]


def test_an_expression_that_stands_in_many_places_is_looked_at_once() -> None:
    value: Expr = i
    for _ in range(100):
        value = value + value
    assert why_workgroup_is_fixed(bound(ir.store(FIXED, i, value))) is None
