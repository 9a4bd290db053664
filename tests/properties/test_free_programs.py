"""A program that is called free of its workgroup gives the same bits in workgroups of every size, on the reference."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from vyre_driver.backends.reference import interpret
from vyre_driver.conformance.cases import hand_written
from vyre_driver.conformance.generate import generate
from vyre_driver.conformance.options import Options, RandomSource
from vyre_driver.errors import VyreError
from vyre_driver.ir import builders as ir
from vyre_driver.ir.buffers import BufferDecl
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.operators import BinOp
from vyre_driver.ir.program import Program
from vyre_driver.ir.validation.validate import validate
from vyre_driver.ir.workgroup_freedom import why_workgroup_is_fixed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from vyre_driver.ir.arithmetic import Expr
    from vyre_driver.ir.nodes import Node

SIZES = (1, 32, 64, 128, 256, 512, 1024)
BUDGET = 300  # steps of one invocation: past it there is an error, as good an answer as another
SEEDS = st.integers(0, 2**64 - 1)
U32, I32 = DataType.U32, DataType.I32
COUNTS = (1, 2, 3, 5, 7, 31, 32, 33, 64, 65)
I = ir.gid_x()  # noqa: E741 -- short, for it stands everywhere
COMPARISONS = (BinOp.LT, BinOp.LT, BinOp.GT, BinOp.GE, BinOp.GE, BinOp.LE, BinOp.EQ, BinOp.NE)
BOUNDING = (BinOp.MIN, BinOp.MAX, BinOp.ADD, BinOp.SUB, BinOp.DIV, BinOp.MOD, BinOp.SATURATING_SUB, BinOp.SHR, BinOp.BIT_AND)


def answers(
    program: Program, inputs: Sequence[NDArray[Any]], counts: Mapping[str, int] | None = None
) -> list[tuple[bytes, ...] | str]:
    """The outputs, or the name of the error, in workgroups of each size, with the grid that covers the elements."""
    found: list[tuple[bytes, ...] | str] = []
    for size in SIZES:
        sized = program.with_workgroup_size((size, 1, 1))
        try:
            outputs = interpret(sized, inputs, element_counts=counts, step_budget=BUDGET).outputs
            found.append(tuple(one.tobytes() for one in outputs))
        except VyreError as error:
            found.append(type(error).__name__)
    return found


def seem_free(program: Program, inputs: Sequence[NDArray[Any]], counts: Mapping[str, int] | None = None) -> bool:
    found = answers(program, inputs, counts)
    return found == found[:1] * len(SIZES)


class Maker:
    """Random programs about who does what: guards, right and nearly right, with effects inside, before, behind, beside them."""

    def __init__(self, seed: int) -> None:
        self.rng = RandomSource(seed)
        self.counts = [self.rng.pick(COUNTS) for _ in range(4)]
        first, second, third, fourth = self.counts
        self.buffers = [
            BufferDecl.read_write("open", 0, U32),
            BufferDecl.output("fixed", 1, U32).with_count(second),
            BufferDecl.read("in", 2, U32),
            BufferDecl.read("signed", 3, I32).with_count(fourth),
            BufferDecl.read_write("bins", 4, U32).with_count(3),
        ]
        self.inputs = [
            np.arange(first, dtype=np.uint32),
            np.arange(third, dtype=np.uint32) % np.uint32(self.rng.pick((1, 2, 3, 9))) + np.uint32(self.rng.below(2)),
            np.arange(1, fourth + 1, dtype=np.int32),
            np.zeros(3, np.uint32),
        ]
        self.names: list[str] = []
        self.conditions: list[str] = []
        self.made = 0
        self.atomics = self.rng.chance(40)
        self.returns = self.rng.chance(50)

    def program(self) -> Program:
        nodes = [node for _ in range(self.rng.between(1, 4)) for node in self.statement(0)]
        nodes.append(ir.store("fixed", I, I + 1))
        return validate(Program.wrapped(self.buffers, (64, 1, 1), nodes))

    def atom(self) -> Expr:
        rng = self.rng
        ways: list[Expr] = [
            I,
            I,
            ir.u32(rng.pick((0, 1, 2, 3, *self.counts, 2**32 - 1))),
            *[ir.buf_len(name) for name in ("open", "fixed", "in", "signed") if not (self.atomics and name == "open")],
            ir.load("in", I),
            ir.load("in", ir.u32(0)),
            *[ir.var(name, U32) for name in self.names],
        ]
        return rng.pick(ways)

    def bound(self) -> Expr:
        rng = self.rng
        if rng.chance(70):
            return self.atom()
        if rng.chance(20):
            return ir.select(self.condition(1), self.atom(), self.atom())
        op, left = rng.pick(BOUNDING), self.atom()
        right = ir.u32(rng.between(1, 3)) if op in {BinOp.DIV, BinOp.MOD} else self.atom()
        return ir.binop(op, left, right)

    def condition(self, nesting: int = 0) -> Expr:
        rng = self.rng
        if nesting < 2 and rng.chance(25):
            sides = self.condition(nesting + 1), self.condition(nesting + 1)
            return ir.binop(rng.pick((BinOp.AND, BinOp.OR)), *sides)
        if nesting < 2 and rng.chance(15):
            return self.condition(nesting + 1).not_()
        if self.conditions and rng.chance(20):
            return ir.var(rng.pick(self.conditions), DataType.Bool)
        left = I if rng.chance(70) else self.bound()
        right = ir.buf_len("fixed") if rng.chance(30) else self.bound()
        if rng.chance(25):
            left, right = right, left
        return ir.binop(rng.pick(COMPARISONS), left, right)

    def name(self) -> str:
        self.made += 1
        return f"v{self.made}"

    def statement(self, nesting: int) -> list[Node]:
        ways = [self.let, self.let, self.assign, self.effect, self.effect, self.effect, self.divide]
        if nesting < 3:
            ways += [self.guard, self.guard, self.guard, self.leave, self.loop, self.block]
        return self.rng.pick(ways)(nesting)

    def body(self, nesting: int) -> list[Node]:
        names, conditions = list(self.names), list(self.conditions)
        nodes = [node for _ in range(self.rng.between(0, 3)) for node in self.statement(nesting + 1)]
        self.names, self.conditions = names, conditions
        return nodes

    def let(self, _nesting: int) -> list[Node]:
        name = self.name()
        if self.rng.chance(30):
            made = ir.let(name, self.condition())
            self.conditions.append(name)
        else:
            made = ir.let(name, self.bound())
            self.names.append(name)
        return [made]

    def assign(self, _nesting: int) -> list[Node]:
        loops = {name for name in self.names if name.startswith("k")}
        assignable = [name for name in self.names if name not in loops]
        return [ir.assign(self.rng.pick(assignable), self.bound())] if assignable and self.rng.chance(40) else []

    def effect(self, _nesting: int) -> list[Node]:
        rng = self.rng
        if rng.chance(40):
            index = ir.binop(BinOp.MOD, self.bound(), ir.u32(4))
            return [ir.let(self.name(), ir.atomic_add("bins", I if rng.chance(20) else index, 1))]
        index = I if rng.chance(60) else self.bound()
        if self.atomics:
            return [ir.let(self.name(), ir.atomic_add("open", index, 1))]
        return [ir.store("open", index, ir.load("open", I) + ir.u32(3) if rng.chance(30) else self.bound())]

    def divide(self, _nesting: int) -> list[Node]:
        quotient = ir.binop(BinOp.DIV, ir.i32(7), ir.load("signed", I))
        return [ir.let(self.name(), quotient)] if self.rng.chance(20) else []

    def guard(self, nesting: int) -> list[Node]:
        condition = self.condition()
        otherwise = self.body(nesting) if self.rng.chance(40) else []
        return [ir.if_(condition, self.body(nesting), otherwise)]

    def leave(self, _nesting: int) -> list[Node]:
        return [ir.if_(self.condition(), [ir.return_()])] if self.returns else []

    def loop(self, nesting: int) -> list[Node]:
        self.made += 1
        name = f"k{self.made}"
        stop = ir.u32(self.rng.below(4)) if self.rng.chance(50) else self.bound()
        self.names.append(name)
        body = self.body(nesting)
        self.names.remove(name)
        return [ir.loop(name, self.rng.below(2), stop, body)]

    def block(self, nesting: int) -> list[Node]:
        return [ir.block(*self.body(nesting))]


@settings(max_examples=100, deadline=None)
@given(SEEDS)
def test_a_program_of_guards_that_is_free_gives_the_same_in_every_workgroup(seed: int) -> None:
    maker = Maker(seed)
    program = maker.program()
    if why_workgroup_is_fixed(program) is None:
        assert seem_free(program, maker.inputs)


def test_programs_of_guards_are_of_all_sorts() -> None:
    """Else the property above would say little."""
    found = {"free": 0, "bound, and right so": 0, "bound to be safe": 0}
    for seed in range(60):
        maker = Maker(seed)
        program = maker.program()
        if why_workgroup_is_fixed(program) is None:
            found["free"] += 1
        else:
            found["bound to be safe" if seem_free(program, maker.inputs) else "bound, and right so"] += 1
    assert min(found.values()) > 5, found


@settings(max_examples=100, deadline=None)
@given(SEEDS)
def test_a_random_program_that_is_free_gives_the_same_in_every_workgroup(seed: int) -> None:
    case = generate(seed, Options(shared=False))
    flat = replace(case, program=case.program.with_workgroup_size((64, 1, 1)))
    if why_workgroup_is_fixed(flat.program) is None:
        assert seem_free(flat.program, flat.inputs, flat.element_counts)


def test_most_programs_written_by_hand_are_free_and_those_give_the_same_in_every_workgroup() -> None:
    cases = list(hand_written(Options(subgroups=True)))
    free = [case for case in cases if why_workgroup_is_fixed(case.program) is None]
    wrong = [case.name for case in free if not seem_free(case.program, case.inputs, case.element_counts)]
    assert (wrong, 2 * len(free) > len(cases)) == ([], True)
