"""No index of a lowered program leaves its buffer, whatever bounds checks were left out: devices hide it or break on it."""

from __future__ import annotations

import itertools
import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from spirv_machine import Machine, OutOfRange

from vyre_driver.backends.reference import interpret
from vyre_driver.errors import InvalidProgram
from vyre_driver.ir import (
    BinOp,
    BufferDecl,
    DataType,
    Program,
    assign,
    binop,
    block,
    buf_len,
    gid_x,
    if_,
    let,
    lid_x,
    load,
    loop,
    return_,
    select,
    store,
    u32,
    var,
)
from vyre_driver.ir.expressions import Load
from vyre_driver.ir.terms import terms_within
from vyre_driver.ir.validation.validate import validate

if TYPE_CHECKING:
    from conftest import Lower

U32 = DataType.U32
SIZE = 8  # of the workgroup
FIXED = BufferDecl.read_write("fixed", 0, U32).with_count(12)
OPEN = BufferDecl.read_write("open", 1, U32)
NUMBERS = [0, 1, 2, 3, 4, 7, 8, 9, 11, 12, 13, 31, 32, 0x7FFF_FFFF, 0xFFFF_FFFF]
OPERATORS = [
    *(BinOp.ADD, BinOp.SUB, BinOp.MUL, BinOp.MIN, BinOp.MAX, BinOp.BIT_AND, BinOp.BIT_OR, BinOp.BIT_XOR),
    *(BinOp.SHL, BinOp.SHR, BinOp.MOD, BinOp.DIV, BinOp.SATURATING_SUB, BinOp.SATURATING_ADD, BinOp.ABS_DIFF),
]
COMPARISONS = [BinOp.EQ, BinOp.NE, BinOp.LT, BinOp.GT, BinOp.LE, BinOp.GE]


class RandomPrograms:
    """Random programs about indices: guards, arithmetic near the counts, values that were computed before a guard."""

    def __init__(self, seed: str) -> None:
        self.roll = random.Random(seed)  # noqa: S311 -- programs, no secrets
        self.names: list[str] = []
        self.assigned: list[str] = []
        self.made: list[Any] = []  # expressions to use again: what was computed outside a guard is known inside it
        self.count = 0

    def word(self, depth: int = 2) -> Any:  # noqa: ANN401 -- an expression
        roll = self.roll
        if self.made and roll.random() < 0.5:
            return roll.choice(self.made)
        match roll.randrange(8 if depth else 4):
            case 0:
                return u32(roll.choice(NUMBERS))
            case 1:
                return roll.choice([gid_x(), lid_x(), buf_len(OPEN), buf_len(FIXED)])
            case 2 if self.names:
                return var(roll.choice(self.names), U32)
            case 3:
                return load(roll.choice([FIXED, OPEN]), self.word(0))
            case 4:
                return select(self.condition(), self.word(depth - 1), self.word(depth - 1))
            case 5 | 6 | 7:
                op = roll.choice(OPERATORS)
                right = self.word(depth - 1) if op not in {BinOp.MOD, BinOp.DIV} else self.word(depth - 1) + 1
                made = binop(op, self.word(depth - 1), right)
                self.made.append(made)
                return made
        return gid_x()

    def condition(self) -> Any:  # noqa: ANN401 -- an expression
        limit = u32(self.roll.randrange(1, 14)) if self.roll.random() < 0.5 else self.word(0)
        guarded = gid_x() if self.roll.random() < 0.3 else self.word(1)
        made = binop(self.roll.choice(COMPARISONS), guarded, limit)
        match self.roll.randrange(5):
            case 0:
                return made.not_()
            case 1:
                return made.and_(binop(self.roll.choice(COMPARISONS), self.word(0), self.word(0)))
            case 2:
                return made.or_(binop(self.roll.choice(COMPARISONS), self.word(0), self.word(0)))
        return made

    def body(self, depth: int) -> list[Any]:
        known = self.names[:], self.assigned[:], self.made[:]
        nodes = [self.statement(depth) for _ in range(self.roll.randrange(1, 5))]
        self.names, self.assigned, self.made = known
        return nodes

    def statement(self, depth: int) -> Any:  # noqa: ANN401 -- a node
        roll = self.roll
        match roll.randrange(10 if depth else 5):
            case 0 | 1:
                self.count += 1
                made = let(f"v{self.count}", self.word())
                self.names.append(f"v{self.count}")
                self.assigned.append(f"v{self.count}")
                return made
            case 2 if self.assigned:
                return assign(roll.choice(self.assigned), self.word())
            case 5 | 6:
                return if_(self.condition(), self.body(depth - 1), self.body(depth - 1) if roll.random() < 0.4 else [])
            case 7:
                self.count += 1
                start, stop = self.word(0), self.word(0)
                name = f"k{self.count}"
                self.names.append(name)
                turns = loop(name, binop(BinOp.MIN, start, u32(9)), binop(BinOp.MIN, stop, u32(14)), self.body(depth - 1))
                self.names.remove(name)
                return turns
            case 8:
                return if_(self.condition(), [return_()])
            case 9:
                return self.turns_until(depth)
        return store(roll.choice([FIXED, OPEN]), self.word(), self.word(1))

    def turns_until(self, depth: int) -> Any:  # noqa: ANN401 -- a node
        """A loop that ends when its condition first fails, which it does after some turns; counted or not."""
        self.count += 1
        left, name = var(f"left{self.count}", U32), f"k{self.count}"
        bound = self.roll.choice([2**32 - 1, 2**32 - 1, 1 << 20, 3])
        going = self.condition()
        if any(isinstance(one, Load) for one in terms_within(going)):
            going = binop(BinOp.GE, left, u32(self.roll.randrange(4)))
        self.names.append(left.name)
        inside = [assign(left, left - 1), *self.body(depth - 1)]
        self.names.remove(left.name)
        if self.roll.random() < 0.3:
            inside.append(store(OPEN, var(name, U32), u32(1)))
        turns = loop(name, 0, bound, [if_(binop(BinOp.GT, left, u32(0)).and_(going), inside)])
        return block(let(left, u32(self.roll.randrange(12))), turns)

    def program(self) -> Program:
        near = [binop(self.roll.choice(OPERATORS[:10]), gid_x(), u32(self.roll.randrange(1, 9))) for _ in range(4)]
        self.made += near
        first = [let(f"near{place}", one) for place, one in enumerate(near)]
        return Program.wrapped([FIXED, OPEN], (SIZE, 1, 1), [*first, *self.body(3), *self.body(2)])


def valid_program(seed: int) -> Program:
    """The first program of a seed that the validator takes: it refuses literals that leave a buffer."""
    for attempt in itertools.count():
        program = RandomPrograms(f"{seed} {attempt}").program()
        try:
            validate(program)
        except InvalidProgram:
            continue
        return program
    raise AssertionError("there is always another")


@pytest.mark.parametrize("first", [50, *(pytest.param(first, marks=pytest.mark.thorough) for first in (0, 100, 150, 200, 250))])
def test_no_index_leaves_its_buffer_and_the_results_are_those_of_the_reference(lower: Lower, first: int) -> None:
    for seed in range(first, first + 50):
        program = valid_program(seed)
        machine = Machine(lower(program).code)
        for index, length in ((0, 1), (12, 3), (41, 30)):
            fixed, opened = list(range(3, 15)), [(7 * one) % 19 for one in range(length)]
            wanted = one_invocation(program, index, fixed, opened)
            try:
                machine.run(index, SIZE, {"fixed": fixed, "open": opened}, [length])
            except OutOfRange as error:
                raise AssertionError(f"seed {seed}, invocation {index}: {error}\n{program}") from error
            assert [fixed, opened] == wanted, f"seed {seed}, invocation {index}\n{program}"


def one_invocation(program: Program, index: int, fixed: list[int], opened: list[int]) -> list[list[int]]:
    """What the reference gives of a grid whose other invocations do nothing."""
    alone = program.with_rewritten_wrapped_entry([if_(gid_x().eq(index), list(program.entry))])
    inputs = [np.array(fixed, np.uint32), np.array(opened, np.uint32)]
    return [np.asarray(one).tolist() for one in interpret(alone, inputs, grid=(6, 1, 1)).outputs]
