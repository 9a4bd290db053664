"""Arrays of several axes: which checks of their elements are left, and that numbers that lie harm nobody."""

from __future__ import annotations

import numpy as np
import pytest
from spirv_machine import GLOBAL, Machine, decoded

from vyre_driver.backends.reference.dispatch import interpret
from vyre_driver.binding.plan import BindingPlan
from vyre_driver.binding.pushed import pushed_members
from vyre_driver.lang import Group, In, Index, InOut, Kernel, Out, kernel, u32
from vyre_driver.lowering.emit.entry import emit
from vyre_driver.lowering.emit.target import LoweringTarget
from vyre_driver.spirv.opcodes import Ins

LIES = [0, 1, 2, 3, 4, 1 << 16, 0x5555_5555, 0x5555_5556, 1 << 31, 0xFFFF_FFFF]
SMALL_LIES = [0, 1, 2, 3, 4, 5, 13, 40]


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


@kernel(signature="(n,3),(m,d),(m,3)->(n)")
def named(i: Index, x: In[u32], y: In[u32], z: In[u32], out: Out[u32]) -> None:
    total = x[i, 0]
    for k in range(y.shape[0]):
        for axis in range(z.shape[1]):
            total = total * 3 + x[i, axis] + z[k, axis]
        for axis in range(y.shape[1]):
            total += y[k, axis]
    out[i] = total


@kernel(signature="(m,k),(k,n)->(m,n)", over="m, n")
def product(g: Group[1, 1], x: In[u32], y: In[u32], out: Out[u32]) -> None:
    i, j = g.index
    total = u32(0)
    for k in range(x.shape[1]):
        total += x[i, k] * y[k, j]
    out[i, j] = total


@kernel(signature="(n,3),(3,n)->(n,n)")
def turned(i: Index, j: Index, x: In[u32], y: In[u32], out: Out[u32]) -> None:
    out[j, i] = x[i, 0] * y[2, j] + x[j, 1] * y[1, i] + x[i, 2] * y[0, i]


SIGNED = {"named": named, "product": product, "turned": turned}
ROBUST = {name: type(made)(made.function, made.definition._replace(bounds="robust")) for name, made in SIGNED.items()}


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


def test_axes_of_one_name_come_as_one_number_and_those_of_a_number_as_none() -> None:
    assert [one.translated().scalars for one in (named, product, turned)] == [
        ("x.shape[0]", "y.shape[0]", "y.shape[1]"),
        ("x.shape[0]", "x.shape[1]", "y.shape[1]"),
        ("x.shape[0]",),
    ]


def test_elements_along_axes_that_a_signature_names_are_not_checked() -> None:
    assert [checks(named), checks(turned)] == [0, 1]  # that of the only place in an array of its shape


def test_axes_that_a_signature_names_are_those_of_the_call() -> None:
    x, y, z = (np.arange(size, dtype=np.uint32).reshape(shape) for size, shape in ((12, (4, 3)), (10, (2, 5)), (6, (2, 3))))
    assert named.interpret(x, y, z).tolist() == named.python(x, y, z).tolist()
    assert product.interpret(x, x.T.copy()).tolist() == (x @ x.T).tolist()
    assert turned.interpret(x, x.T.copy()).tolist() == turned.python(x, x.T.copy()).tolist()
    empty = np.zeros((4, 0), np.uint32)
    assert product.interpret(empty, empty.T.copy()).tolist() == np.zeros((4, 4)).tolist()


def test_nothing_is_proven_where_accesses_are_left_to_the_device() -> None:
    program = ROBUST["named"].program()
    code = decoded(emit(program, BindingPlan.build(program), (), LoweringTarget(checks=False)).code)
    found = [sum(opcode == one for opcode, _ in code) for one in (Ins.UMulExtended, Ins.ULessThanEqual, Ins.Select)]
    lengths = ["len(" in str(one.program()) for one in (SIGNED["named"], ROBUST["named"])]
    assert (found, lengths) == ([0, 0, 0], [True, False])


@pytest.mark.parametrize("made", [*SIGNED.values(), *ROBUST.values()], ids=[*SIGNED, *(f"robust {name}" for name in ROBUST)])
def test_numbers_that_lie_about_axes_that_a_signature_names_reach_no_element_outside(made: Kernel) -> None:
    program, random = made.program(), np.random.default_rng(5)
    lies = SMALL_LIES if made.definition.is_robust else LIES  # its loops turn as often as the pushed length says
    plan = BindingPlan.build(program)
    machine = Machine(emit(program, plan).code)
    arrays = [one for one in program.buffers if one.name in made.translated().ranks]
    for _ in range(200):
        sizes = random.choice([1, 2, 3, 6, 9, 12], len(arrays))
        pushed = {name: int(one) for name, one in zip(made.translated().scalars, random.choice(lies, 4), strict=False)}
        at = random.choice([0, 1, 2, 3, 0x5555_5556, 0xFFFF_FFFF], 3).tolist()
        memory = {one.name: list(range(size)) for one, size in zip(arrays, sizes, strict=True)} | {GLOBAL: at}
        machine.run(0, 1 << 32, memory, [*(pushed[one.name] for one in pushed_members(plan)), *map(int, sizes)])
