"""Loops over ranges: every turn that Python has and no other, also at the ends of i32."""

from __future__ import annotations

import numpy as np
import pytest
from spirv_machine import decoded

from vyre_driver.binding.plan import BindingPlan
from vyre_driver.lang import In, Index, InOut, Out, i32, kernel
from vyre_driver.lowering.emit.entry import emit
from vyre_driver.spirv.opcodes import Ins

LEAST, MOST = -(1 << 31), (1 << 31) - 1
ENDS = [0, 1, 5, -1, -5, LEAST, LEAST + 1, LEAST + 3, MOST, MOST - 3]
SHORT = [(start, stop) for start in ENDS for stop in ENDS if stop - start < 20]


@kernel
def between(i: Index, starts: In[i32], stops: In[i32], sums: Out[i32]) -> None:
    total = 0
    for k in range(starts[i], stops[i]):
        total = total * 3 + k + 1
    sums[i] = total


@kernel
def up_to(i: Index, stops: In[i32], start: i32, sums: Out[i32]) -> None:
    total = 0
    for k in range(max(start, 0), stops[i]):
        total = total * 3 + k + 1
    sums[i] = total


@kernel
def near(i: Index, x: In[i32], y: InOut[i32]) -> None:
    for k in range(-2, 3):
        y[i] = y[i] * 7 + (x[i] + k + 2 if x[i] + k < 3 else (k - 3 + x[i]) // 2)


def turns(start: int, stop: int) -> int:
    total = 0
    for k in range(start, stop):
        total = total * 3 + k + 1
    return (total - LEAST) % (1 << 32) + LEAST


def test_a_range_has_the_turns_of_python_wherever_its_bounds_lie() -> None:
    starts, stops = (np.array(one, np.int32) for one in zip(*SHORT, strict=True))
    assert between.interpret(starts, stops).tolist() == [turns(*one) for one in SHORT]


@pytest.mark.parametrize("start", [0, 2, -3, MOST - 2])
def test_a_range_that_begins_at_0_or_above_has_no_turns_up_to_a_negative_number(start: int) -> None:
    stops = [stop for stop in ENDS if stop - start < 20]
    found = up_to.interpret(np.array(stops, np.int32), start)
    assert found.tolist() == [turns(max(start, 0), stop) for stop in stops]


def test_sums_with_the_number_of_a_turn_wrap_where_they_do_in_python() -> None:
    x = np.array(ENDS, np.int32)
    assert near.interpret(x, np.zeros_like(x)).tolist() == near.python(x, np.zeros_like(x)).tolist()


def test_the_number_of_a_turn_takes_one_sum_in_the_loop() -> None:
    program = between.program()
    opcodes = [opcode for opcode, _ in decoded(emit(program, BindingPlan.build(program)).code)]
    body = opcodes[opcodes.index(Ins.LoopMerge) :]
    assert (opcodes.count(Ins.Not), body.count(Ins.IAdd)) == (0, 4)  # the turn's number, two of the sum, the counter
