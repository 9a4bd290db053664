"""Arrays of several axes: which checks of their elements are left, and that numbers that lie harm nobody."""

from __future__ import annotations

import numpy as np
import pytest
from spirv_machine import decoded

from vyre_driver.backends.reference.dispatch import interpret
from vyre_driver.binding.plan import BindingPlan
from vyre_driver.lang import Group, In, Index, InOut, Kernel, Out, kernel, u32
from vyre_driver.lowering.emit.entry import emit
from vyre_driver.spirv.instructions import Ins


@kernel
def around(i: Index, j: Index, x: In[u32], y: Out[u32]) -> None:
    h, w = x.shape
    if 0 < i < h - 1 and 0 < j < w - 1:
        y[i, j] = x[i - 1, j] + x[i + 1, j] + x[i, j - 1] + x[i, j + 1]
    else:
        y[i, j] = x[i, j]


@kernel
def clamped(i: Index, j: Index, x: In[u32], y: InOut[u32]) -> None:
    for d in range(-2, 3):
        y[i, j] += x[min(max(i + d, 0), x.shape[0] - 1), j] + x[(i + d + 2) % x.shape[0], j]


@kernel
def rolled(i: Index, j: Index, k: Index, x: In[u32], y: Out[u32]) -> None:
    n, m, p = x.shape
    y[i, j, k] = x[i, (j + 1) % m, k] + x[i, j, (k + p - 1) % p] + x[(i + n - 1) % n, j, k]


def checks(made: Kernel) -> int:
    """How many selections and branches the code has, but for the one that everything stands in."""
    program = made.program()
    code = decoded(emit(program, BindingPlan.build(program)).code)
    loops = sum(opcode == Ins.LoopMerge for opcode, _ in code)
    return sum(opcode in {Ins.Select, Ins.BranchConditional} for opcode, _ in code) - loops - 1


def given(made: Kernel, **pushed: int) -> list[np.ndarray]:
    return [np.array([pushed[name]], np.uint32) for name in made.translated().scalars]


def test_elements_that_are_inside_for_certain_are_not_checked() -> None:
    assert [checks(around) - 1, checks(clamped), checks(rolled)] == [0, 0, 0]  # the first has an if of its own


@pytest.mark.parametrize(
    "shape", [(3, 5), (1 << 31, 2), (65536, 65536), (4, 4), (1 << 30, 4), (0xFFFF_FFFF, 0xFFFF_FFFF)], ids=str
)
def test_a_shape_that_the_buffer_does_not_have_runs_nothing(shape: tuple[int, int]) -> None:
    x, y = np.arange(12, dtype=np.uint32), np.full(12, 7, np.uint32)
    made = clamped.translated()
    numbers = dict(zip(("x.shape[0]", "x.shape[1]"), shape, strict=True))
    numbers |= {name.replace("x", "y"): count for name, count in numbers.items()}
    found = interpret(made.program, [x, y, *given(clamped, **numbers)], grid=(1, 1, 1))
    assert list(found.outputs[0]) == [7] * 12


def test_fewer_accesses_than_a_test_of_the_shape_is_worth_are_checked_one_by_one() -> None:
    @kernel
    def once(i: Index, j: Index, x: In[u32], y: Out[u32]) -> None:
        y[i, j] = x[i, j]

    @kernel
    def grouped(g: Group[16, 16], x: In[u32], y: Out[u32]) -> None:
        row, column = g.index
        if row < x.shape[0] and column < x.shape[1]:
            y[column, row] = x[row, column]

    assert ["mul_high" in str(one.program()) for one in (once, grouped, around)] == [False, False, True]
