"""Which programs are free of their workgroup's size, and that those which are called bound give something else in another.

What is told to differ is run in workgroups of every size on the reference: a case that gives the same is not a case."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import pytest

from vyre_driver.backends.reference import interpret
from vyre_driver.binding import BindingPlan
from vyre_driver.errors import VyreError
from vyre_driver.ir import builders as ir
from vyre_driver.ir import nodes as nd
from vyre_driver.ir.buffers import BufferAccess, BufferDecl, MemoryKind
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.expressions import OpaqueExpr
from vyre_driver.ir.operators import AtomicOp, BinOp, OpaqueOp
from vyre_driver.ir.predicates import AtLeast
from vyre_driver.ir.program import Program
from vyre_driver.ir.validation.validate import validate
from vyre_driver.ir.workgroup_freedom import why_workgroup_is_fixed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from vyre_driver.ir.arithmetic import Expr
    from vyre_driver.ir.nodes import Node


U32, I32, F32 = DataType.U32, DataType.I32, DataType.F32
SIZES = (1, 32, 64, 128, 256, 512, 1024)
STEPS = 400  # of one invocation, enough for every case that ends

i = ir.gid_x()
OUT = BufferDecl.read_write("out", 0, U32)
FIXED = BufferDecl.read_write("fixed", 0, U32).with_count(5)
IN = BufferDecl.read("in", 1, U32)
KEPT = BufferDecl.read_write("kept", 7, U32).with_kind(MemoryKind.PERSISTENT)
ZEROS, ONES, NINE = np.zeros(5, np.uint32), np.ones(5, np.uint32), np.ones(9, np.uint32)
WIDE = np.full(9, 40, np.uint32)
LENGTH, GIVEN = ir.buf_len(OUT), ir.load(IN, i)
BELOW = i < LENGTH
j, limit = ir.var("j", U32), ir.var("limit", U32)


@dataclass(frozen=True)
class Asked:
    """A program of one axis, its inputs, and what its lets are specialized to."""

    buffers: Sequence[BufferDecl]
    nodes: Sequence[Node]
    inputs: Sequence[NDArray[np.generic]] = (ZEROS,)
    specs: Mapping[str, int] = field(default_factory=dict)

    def program(self, size: int = 64) -> Program:
        return validate(Program.wrapped(self.buffers, (size, 1, 1), self.nodes))

    def answers(self) -> list[tuple[bytes, ...] | str]:
        """The outputs, or the name of the error, in workgroups of each size."""
        return [self._answer(size) for size in SIZES]

    def _answer(self, size: int) -> tuple[bytes, ...] | str:
        try:
            found = interpret(self.program(size), self.inputs, constants=self.specs, step_budget=STEPS)
        except VyreError as error:
            return type(error).__name__
        return tuple(one.tobytes() for one in found.outputs)


def count(index: Expr | int = 0, value: Expr | int = 1, buffer: BufferDecl | str = OUT) -> Node:
    return ir.let("before", ir.atomic_add(buffer, index, value))


def modulo(value: Expr, divisor: Expr | int) -> Expr:
    return ir.binop(BinOp.MOD, value, ir.u32(divisor) if isinstance(divisor, int) else divisor)


def shown(condition: Expr, *before: Node) -> list[Node]:
    """What shows who comes behind a condition: each adds its index."""
    return [*before, ir.if_(condition, [count(0, i + 1, FIXED)])]


def fixed(*nodes: Node) -> Asked:
    return Asked([FIXED, IN], nodes, [ZEROS, ONES])


SIGNED = BufferDecl.read("signed", 2, I32)
NUMBERS = np.ones(5, np.int32)
QUOTIENT = ir.cast(U32, ir.binop(BinOp.DIV, ir.i32(10), ir.load(SIGNED, i)))
MISTOLD = ir.cast(U32, ir.binop(BinOp.DIV, ir.var("a", U32), ir.var("b", U32)))
SHARED = BufferDecl.workgroup("shared", 8, U32)
STORED = ir.store(OUT, i, i + 1)
RETURNS = [ir.return_()]
REACHED = ir.let("reached", QUOTIENT)  # past the last element it divides by zero


def past(*nodes: Node, given: NDArray[np.uint32] = ONES) -> Asked:
    """A program that fails where an invocation past the last element comes to REACHED; ``given`` is loaded of IN."""
    return Asked([OUT, IN, SIGNED], [ir.block(*nodes), STORED], [ZEROS, given, NUMBERS])


def turns(*nodes: Node) -> Asked:
    """A program that takes too many steps where an invocation finds 0 in IN, which are those past the last element."""
    return Asked([OUT, IN], nodes, [ZEROS, ONES])


COUNTS_ONE = BufferDecl.read_write("counts", 0, U32).with_count(1)
UNTIL_FOUND = [
    ir.let(limit, ir.u32(1) - GIVEN),  # nothing is left where 1 is given
    ir.let(j, 0),
    ir.loop("k", 0, 9999, [ir.if_((j < 9999).and_(limit > 0), [ir.assign(j, j + 1)])]),
    STORED,
]


def many(*before: Node) -> Node:
    return ir.loop("k", 0, 9999, [*before, STORED])


DIFFERENT = {
    "an atomic that all do": Asked([OUT], [count()]),
    "an atomic that all do in a loop": Asked([OUT], [ir.loop("k", 0, 3, [count()])]),
    "a store at a remainder": Asked([OUT], [ir.store(OUT, modulo(i, 5), i)]),
    "a store at an index that wraps": Asked([OUT], [ir.store(OUT, i + (2**32 - 5), i)]),
    "a store at an index that is selected": Asked([OUT], [ir.store(OUT, ir.select(BELOW, i, ir.u32(0)), i)]),
    "a store at a variable that no more is the index": Asked([OUT], [ir.let(j, i), ir.assign(j, 0), ir.store(OUT, j, i)]),
    "a guard of an input, which is longer": past(ir.if_(i < ir.buf_len(IN), [REACHED]), given=NINE),
    "a guard that lets the length through": past(ir.if_(i <= LENGTH, [REACHED])),
    "a guard of the length alone": past(ir.if_(i.eq(LENGTH), [REACHED])),
    "the other side of all but the length": past(ir.if_(i.ne(LENGTH), [], [REACHED])),
    "a guard that wraps": past(ir.if_(i < LENGTH - 6, [REACHED])),
    "a guard divided by what may be zero": past(ir.if_(i < LENGTH / ir.load("in", 0), [REACHED]), given=ZEROS),
    "a guard of the larger of two": past(ir.if_(i < ir.maximum(LENGTH, 9), [REACHED])),
    "a guard of more bits": past(ir.if_(i < (LENGTH | 8), [REACHED])),
    "a guard of a multiple": past(ir.if_(i < LENGTH * 2, [REACHED])),
    "a guard of a shifted length": past(ir.if_(i < (LENGTH << 1), [REACHED])),
    "a guard of a sum": past(ir.if_(i < LENGTH + 1, [REACHED])),
    "a guard from the right that is not one": past(ir.if_(ir.binop(BinOp.LT, LENGTH, i + 1), [REACHED])),
    "a guard that is negated": past(ir.if_(i >= LENGTH, [REACHED])),
    "a guard that is negated, from the right": past(ir.if_(ir.binop(BinOp.LE, LENGTH, i), [REACHED])),
    "a guard that is negated by not": past(ir.if_(BELOW.not_(), [REACHED])),
    "the other side of a guard": past(ir.if_(BELOW, [], [REACHED])),
    "the other side of a guard by equality": past(ir.if_(i.eq(0), [], [REACHED])),
    "a guard by inequality": past(ir.if_(i.ne(0), [REACHED])),
    "before the guard": past(REACHED, ir.if_(BELOW, [ir.let(j, i)])),
    "after the guard": past(ir.if_(BELOW, [ir.let(j, i)]), REACHED),
    "behind a guarded side": past(ir.if_(BELOW, [ir.let(j, i)], [ir.let(j, i)]), REACHED),
    "a guard or something else": past(ir.if_(BELOW.or_(GIVEN.eq(0)), [REACHED])),
    "something else or a guard": past(ir.if_(GIVEN.eq(0).or_(BELOW), [REACHED])),
    "not both a guard and something else": past(ir.if_(BELOW.and_(GIVEN.eq(1)), [], [REACHED])),
    "not both something else and no guard": past(ir.if_(GIVEN.eq(1).and_(i >= LENGTH), [], [REACHED])),
    "not both no guard and something else": past(ir.if_((i >= LENGTH).and_(GIVEN.eq(1)), [], [REACHED])),
    "a guard under a condition": past(ir.if_(GIVEN.eq(1), [ir.if_(i >= LENGTH, RETURNS)]), REACHED),
    "a guard beside a condition": past(ir.if_(GIVEN.eq(0), [], [ir.if_(i >= LENGTH, RETURNS)]), REACHED),
    "those below return": past(ir.if_(BELOW, RETURNS), REACHED),
    "a guard in a loop that need not turn": past(ir.loop("k", 0, 0, [ir.if_(i >= LENGTH, RETURNS)]), REACHED),
    "a guard of a comparison with what is loaded": past(ir.if_(GIVEN < LENGTH, [REACHED])),
    "a guard of a comparison of what is loaded, negated": past(ir.if_(GIVEN > LENGTH, [], [REACHED])),
    "a guard of what is loaded and a number": past(ir.if_(GIVEN.eq(0), [REACHED])),
    "a number above the count": fixed(*shown(i < 6)),
    "a number up to the count": fixed(*shown(i <= 5)),
    "a number up to the count from the right": fixed(*shown(ir.u32(5) >= i)),
    "a number from the count on": fixed(*shown(i >= 5)),
    "a number above what is loaded": fixed(*shown(ir.u32(4) >= GIVEN)),
    "a number that is the count": fixed(*shown(i.eq(5))),
    "a number below the count, not": fixed(*shown(i.ne(4))),
    "a number below the count of another buffer": Asked(
        [FIXED, BufferDecl.read("longer", 1, U32).with_count(9), SIGNED],
        [ir.if_(i < 9, [REACHED]), ir.store(FIXED, i, i)],
        [ZEROS, NINE, NUMBERS],
    ),
    "a number above an unknown count": Asked(
        [OUT, SIGNED], [ir.if_(i < 2, [REACHED]), STORED], [np.zeros(1, np.uint32), NUMBERS[:1]]
    ),
    "a let of a literal, specialized": Asked([FIXED], shown(i < limit, ir.let(limit, 5)), specs={"limit": 40}),
    "a variable that is assigned": past(ir.let(limit, LENGTH), ir.assign(limit, 40), ir.if_(i < limit, [REACHED])),
    "a name that is another one in another block": past(
        ir.block(ir.let(limit, LENGTH), ir.if_(i < limit, [ir.let(j, i)])),
        ir.block(ir.let(limit, ir.load("in", 0)), ir.if_(i < limit, [REACHED])),
        given=WIDE,
    ),
    "an index in the workgroup": Asked([OUT], [ir.store(OUT, i, ir.lid_x())]),
    "an index of the workgroup": Asked([OUT], [ir.store(OUT, i, ir.wid_x())], [np.zeros(40, np.uint32)]),
    "memory of the workgroup": Asked(
        [OUT, SHARED], [ir.if_(i.eq(0), [ir.store(SHARED, 0, 5)]), ir.barrier(), ir.store(OUT, i, ir.load(SHARED, 0))]
    ),
    "a guard of the count of what is pushed": Asked(
        [COUNTS_ONE, BufferDecl.push("many", 1, U32, 40)],
        [ir.if_(i < ir.buf_len("many"), [count(0, i + 1, COUNTS_ONE)])],
        [np.zeros(1, np.uint32), np.zeros(40, np.uint32)],
    ),
    "a sum over the subgroup": Asked([OUT], [ir.store(OUT, i, ir.subgroup_add(i))]),
    "a quotient of i32": Asked([OUT, SIGNED], [ir.store(OUT, i, QUOTIENT)], [ZEROS, NUMBERS]),
    "a quotient of i32 in an index": Asked([OUT, SIGNED], [ir.let(j, ir.load(OUT, QUOTIENT)), STORED], [ZEROS, NUMBERS]),
    "a quotient of i32 in a condition": past(ir.if_(QUOTIENT.eq(0), [])),
    "a quotient of i32 in a bound": past(ir.loop("k", 0, QUOTIENT, [])),
    "a quotient of i32 for an atomic": Asked([OUT, SIGNED], [count(i, QUOTIENT)], [ZEROS, NUMBERS]),
    "a remainder of i32": past(ir.let(j, ir.cast(U32, ir.binop(BinOp.MOD, ir.i32(10), ir.load(SIGNED, i))))),
    "a quotient of i32 that is not selected": past(ir.let(j, ir.select(BELOW, QUOTIENT, ir.u32(0)))),
    "a quotient of i32 by variables told to be u32": past(
        ir.let("a", ir.i32(10)), ir.let("b", ir.load(SIGNED, i)), ir.let("c", MISTOLD)
    ),
    "turns up to what is loaded": turns(ir.loop("k", 0, GIVEN - 1, [STORED])),
    "turns from what is loaded": turns(ir.loop("k", GIVEN * 9999, 9999, [STORED])),
    "turns up to a variable": turns(ir.let(j, 0), ir.assign(j, GIVEN - 1), ir.loop("k", 0, j, [STORED])),
    "turns up to a let": turns(ir.let(j, GIVEN - 1), ir.loop("k", 0, j, [STORED])),
    "turns up to what is computed": turns(ir.loop("k", 0, ir.maximum(GIVEN - 1, LENGTH), [STORED])),
    "turns up to what is negated": turns(ir.loop("k", 0, ~(ir.u32(0) - GIVEN), [STORED])),
    "turns up to what is selected": turns(ir.loop("k", 0, ir.select(GIVEN.eq(1), ir.u32(1), ir.u32(9999)), [STORED])),
    "turns under a condition": turns(ir.if_(GIVEN.eq(0), [many()])),
    "turns beside a condition": turns(ir.if_(GIVEN.eq(1), [], [many()])),
    "turns under a condition of all under another": turns(ir.if_(GIVEN.eq(0), [ir.if_(LENGTH > 3, [many()])])),
    "turns until a return": turns(many(ir.if_(GIVEN.eq(1), RETURNS))),
    "turns after a return": turns(ir.if_(GIVEN.eq(1), RETURNS), many()),
    "turns after a return in turns": turns(
        ir.if_(LENGTH > 3, [ir.block(ir.if_(GIVEN.eq(1), [ir.block(ir.return_())]))]), many()
    ),
    "turns until a condition fails": turns(*UNTIL_FOUND),
    "turns in turns up to what is loaded": turns(ir.loop("k", 0, 2, lambda k: [ir.loop("m", 0, GIVEN - 1 + k - k, [STORED])])),
}


COUNTS = BufferDecl.read_write("counts", 0, U32).with_count(3)
SHORT = BufferDecl.output("short", 2, U32).with_count(3)
NARROW = BufferDecl.read_write("narrow", 0, DataType.U16)
PART = BufferDecl.output("part", 0, U32).with_count(5).with_output_byte_range((4, 12))
SIZED = OUT.with_shape_predicate(AtLeast(3))
CONDITION = ir.var("condition", DataType.Bool)
SCALAR = BufferDecl.push("scalar", 9, U32)
ALREADY = ir.if_(i >= LENGTH, RETURNS)

FREE = {
    "a store at the index": Asked([OUT], [STORED]),
    "a store at a name of the index": Asked([OUT], [ir.let(j, i), ir.store(OUT, j, 1)]),
    "a store at a name of a name of the index": Asked([OUT], [ir.let(limit, i), ir.let(j, limit), ir.store(OUT, j, 1)]),
    "a guarded store": Asked([OUT], [ir.if_(BELOW, [STORED])]),
    "a load of what was stored": Asked([OUT, IN], [ir.if_(BELOW, [ir.store(OUT, i, ir.load(OUT, i) + GIVEN)])], [NINE, NINE]),
    "a load of any element": Asked([OUT, IN], [ir.store(OUT, i, ir.load(IN, modulo(GIVEN, LENGTH)))], [ZEROS, WIDE]),
    "an output of fewer elements": Asked([OUT, SHORT], [STORED, ir.store(SHORT, i, i)]),
    "a guard by the shorter output": Asked([OUT, SHORT], [ir.if_(i < ir.buf_len(SHORT), [STORED])]),
    "an output of which a part comes back": Asked([PART], [ir.store(PART, i, i + 1)], []),
    "an output whose count has to be enough": Asked([SIZED], [STORED]),
    "an output of narrow elements": Asked([NARROW], [ir.store(NARROW, i, ir.cast(DataType.U16, i))], [np.zeros(5, np.uint16)]),
    "a guard, counted": Asked([OUT], [ir.if_(i < ir.u32(1), [count(3)])]),
    "a guard from the right": Asked(
        [COUNTS, IN], [ir.if_(ir.buf_len(IN) > i, [count(GIVEN, 1, COUNTS)])], [np.zeros(3, np.uint32), NINE]
    ),
    "a guard that is negated twice": fixed(*shown((i < 5).not_().not_())),
    "a guard on the other side": fixed(ir.if_(i >= 5, [], [count(0, 1, FIXED)])),
    "a guard from the right on the other side": fixed(ir.if_(ir.u32(5) <= i, [], [count(0, 1, FIXED)])),
    "a guard up to the last": fixed(*shown(i <= 4)),
    "a guard up to the last from the right": fixed(*shown(ir.u32(4) >= i)),
    "a guard not above the last": fixed(*shown((i > 4).not_())),
    "a guard not above the last from the right": fixed(*shown((ir.u32(4) < i).not_())),
    "a guard of one": fixed(*shown(i.eq(4))),
    "a guard of all but one, not": fixed(*shown(i.ne(4).not_())),
    "a guard of the first": Asked([OUT], [ir.if_(i.eq(0), [count()])]),
    "a guard and something else": fixed(*shown((i < 5).and_(GIVEN.eq(1)))),
    "something else and a guard": fixed(*shown(GIVEN.eq(1).and_(i < 5))),
    "a guard or a guard": fixed(*shown((i < 5).or_(i.eq(2)))),
    "not the negation of a guard or something else": fixed(*shown((i >= 5).or_(GIVEN.eq(0)).not_())),
    "neither something else nor the negation of a guard": fixed(*shown(GIVEN.eq(0).or_(i >= 5).not_())),
    "a guard by name": fixed(*shown(CONDITION, ir.let(CONDITION, i < 5))),
    "a guard of a named count": Asked(
        [COUNTS, IN], [ir.let(limit, ir.buf_len(IN)), ir.if_(i < limit, [count(0, 1, COUNTS)])], [np.zeros(3, np.uint32), NINE]
    ),
    "a guard of the smaller of two": fixed(*shown(i < ir.minimum(GIVEN, ir.u32(5)))),
    "a guard of a part": Asked(
        [COUNTS, IN],
        [ir.if_(i < ir.binop(BinOp.DIV, ir.buf_len(IN), ir.u32(2)), [count(0, 1, COUNTS)])],
        [np.zeros(3, np.uint32), NINE],
    ),
    "a guard of a remainder": Asked(
        [COUNTS, IN], [ir.if_(i < modulo(ir.buf_len(IN), GIVEN), [count(0, 1, COUNTS)])], [np.zeros(3, np.uint32), WIDE]
    ),
    "a guard of what is left": Asked(
        [COUNTS, IN],
        [ir.if_(i < ir.binop(BinOp.SATURATING_SUB, ir.buf_len(IN), GIVEN), [count(0, 1, COUNTS)])],
        [np.zeros(3, np.uint32), NINE],
    ),
    "an outer guard": fixed(ir.if_(i < 5, [ir.if_(GIVEN.eq(1), [ir.loop("k", 0, GIVEN, [count(0, 1, FIXED)])])])),
    "an outer guard over the other side": fixed(ir.if_(i < 5, [ir.if_(GIVEN.eq(0), [], [count(0, 1, FIXED)])])),
    "an outer guard over blocks": fixed(ir.if_(i < 5, [ir.block(ir.let(j, i), ir.region("inner", count(0, j, FIXED)))])),
    "those past the end return": fixed(ir.if_(i >= 5, [ir.return_()]), count(0, 1, FIXED)),
    "those past the end return in a block": fixed(ir.block(ir.let(j, i), ir.if_(j >= 5, [ir.return_()])), count(0, 1, FIXED)),
    "those past the end return in another region": Asked(
        [FIXED], [ir.region("one", ir.if_(i >= 5, [ir.return_()])), ir.region("two", count(0, 1, FIXED))]
    ),
    "those past the end return on both sides": fixed(
        ir.if_(GIVEN.eq(1), [ir.if_(i >= 5, [ir.return_()])], [ir.if_(i >= 3, [ir.return_()])]), count(0, 1, FIXED)
    ),
    "one side returns and the other is guarded": fixed(ir.if_(i < 5, [], [ir.return_()]), count(0, 1, FIXED)),
    "guarded quotients of i32": Asked([OUT, SIGNED], [ir.if_(BELOW, [ir.store(OUT, i, QUOTIENT)])], [ZEROS, NUMBERS]),
    "quotients of i32 by a number": Asked(
        [OUT, SIGNED], [ir.store(OUT, i, ir.cast(U32, ir.binop(BinOp.DIV, ir.load(SIGNED, i), ir.i32(3))))], [ZEROS, NUMBERS]
    ),
    "quotients of u32": Asked([OUT, IN], [ir.store(OUT, i, ir.binop(BinOp.DIV, LENGTH, GIVEN))], [ZEROS, ZEROS]),
    "quotients of u32 by what is loaded": Asked(
        [OUT, IN], [ir.store(OUT, i, ir.binop(BinOp.DIV, ir.load("in", i), ir.load("in", 0)))], [ZEROS, ONES]
    ),
    "as many turns for all": Asked(
        [OUT, IN], [ir.loop("k", 0, ir.load(IN, 0), lambda k: [ir.loop("m", 0, k, [STORED])])], [ZEROS, ONES]
    ),
    "as many turns for all under a condition of all": Asked([OUT], [ir.if_(LENGTH > 3, [ir.loop("k", 0, LENGTH, [STORED])])]),
    "turns that a load counts, guarded": Asked([OUT, IN], [ir.if_(BELOW, [ir.loop("k", 0, GIVEN, [STORED])])], [ZEROS, ONES]),
    "turns until a condition fails, guarded": Asked([OUT, IN], [ir.if_(BELOW, UNTIL_FOUND)], [ZEROS, ONES]),
    "turns until a condition of all fails": Asked([OUT], [ir.forever([ir.if_(LENGTH < 3, [])]), STORED]),
    "turns until a return, guarded": Asked(
        [OUT, IN], [ALREADY, ir.loop("k", 0, 9999, [ir.if_(GIVEN.eq(1), [ir.return_()]), STORED])], [ZEROS, ONES]
    ),
    "atomics at the index": Asked([OUT], [count(i, 3)]),
    "atomics of one kind in two places": Asked([OUT], [ir.if_(i < 1, [count(3, 2)]), count(i, 3)]),
    "a histogram": Asked(
        [COUNTS, IN],
        [ir.if_(i < ir.buf_len(IN), [count(modulo(GIVEN, 3), 1, COUNTS)])],
        [np.zeros(3, np.uint32), np.arange(40, dtype=np.uint32)],
    ),
    "what is pushed": Asked([OUT, SCALAR], [ir.loop("k", 0, ir.load(SCALAR, 0), [STORED])], [ZEROS, np.array([3], np.uint32)]),
    "turns until a condition of what is pushed fails": Asked(
        [OUT, SCALAR], [ir.forever([ir.if_(ir.load(SCALAR, 0) < 3, [])]), STORED], [ZEROS, np.array([3], np.uint32)]
    ),
    "wide literals": Asked(
        [BufferDecl.read_write("wide", 0, DataType.U64)], [ir.store("wide", i, ir.u64(7))], [np.zeros(5, np.uint64)]
    ),
}


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
