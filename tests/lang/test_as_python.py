"""Kernels as plain Python: at their own lines, with the types of their programs, workgroups in turns."""

# ruff: noqa: ANN001, ANN002, ANN003, ANN201, ANN202, T201 -- kernels return nothing, and their functions take any number

from __future__ import annotations

import dataclasses
import functools
import operator
import traceback
from typing import NamedTuple

import numpy as np
import pytest
from both_ways import function_of, run_both
from kernel_texts import NAMES

from vyre_driver.errors import DivergentBarrier
from vyre_driver.lang.frontend.intrinsics import static_range
from vyre_driver.lang.interpret.as_python import run_as_python
from vyre_driver.lang.source.parameters import Specialization, signature_of
from vyre_driver.lang.types import Group, In, Index, InOut, Out, f32, i32, u32


def block_sum(g: Group[256], x: In[f32], out: Out[f32]):
    part = g.shared(f32, 256)
    t, i = g.local, g.index
    part[t] = x[i] if i < len(x) else 0.0
    g.barrier()
    for k in static_range(8):
        s = 128 >> k
        if t < s:
            part[t] += part[t + s]
        g.barrier()
    if t == 0:
        out[g.id] = part[0]


def test_a_block_sum_of_1024_sums_each_block() -> None:
    x, out = np.random.default_rng(0).random(1024).astype(np.float32), np.zeros(4, np.float32)
    run_as_python(block_sum, signature_of(block_sum), Specialization(), {"x": x, "out": out}, (4,))
    assert np.allclose(out, x.reshape(4, 256).sum(1), rtol=1e-5)


def test_a_block_sum_is_that_of_the_program_bit_for_bit() -> None:
    arguments = {"x": np.random.default_rng(1).random(1000).astype(np.float32), "out": np.zeros(4, np.float32)}
    assert not run_both(block_sum, arguments, (4,)).differences()


def _half(x):
    assert x < 5, "too much"
    return x / 2


def halves(i: Index, out: Out[f32]):
    print("at", i)
    out[i] = _half(i)


def test_it_prints_and_fails_at_the_lines_of_the_kernel(capsys: pytest.CaptureFixture[str]) -> None:
    out = np.zeros(9, np.float32)
    with pytest.raises(AssertionError, match="too much") as found:
        run_as_python(halves, signature_of(halves), Specialization(), {"out": out}, (9,))
    assert capsys.readouterr().out.split("\n")[:2] == ["at 0", "at 1"]
    assert out[:6].tolist() == [0, 0.5, 1, 1.5, 2, 0]
    frames = [frame for frame in traceback.extract_tb(found.value.__traceback__) if frame.filename == __file__]
    assert [frame.name for frame in frames[-2:]] == ["halves", "_half"]
    assert frames[-1].lineno == _half.__code__.co_firstlineno + 1


def divergent(g: Group[4], out: Out[i32]):
    if g.local < 2:
        g.barrier()
    out[g.index] = 1


def test_a_barrier_that_only_some_reach_is_named() -> None:
    with pytest.raises(DivergentBarrier, match="2 of the 4 invocations of a workgroup of 'divergent'"):
        run_as_python(divergent, signature_of(divergent), Specialization(), {"out": np.zeros(4, np.int32)}, (1,))


def _exchange(group, memory, value):
    memory[group.local] = value
    group.barrier()
    return memory[group.size - 1 - group.local]


def turned(g: Group[8], x: InOut[u32]):
    memory = g.shared(u32, 8)
    x[g.index] = _exchange(g, memory, x[g.index]) + 1


def test_a_function_that_waits_at_a_barrier_does_so_for_its_workgroup() -> None:
    arguments = {"x": np.arange(24, dtype=np.uint32)}
    found = run_both(turned, arguments, (3,))
    assert not found.differences()
    assert found.python["x"][:8].tolist() == [8, 7, 6, 5, 4, 3, 2, 1]


@pytest.mark.parametrize(
    "expression",
    [
        "(1 if a[i] > 0 else 2.5) // 2",
        "f32(a[i]) // 3 + f32(a[i]) % 3",
        "a[i] // 3 + a[i] % -5 + (a[i] << 33 - 2) + (a[i] >> i)",
        "np.where(a[i] > 3, 1, 0.1) * 3",
        "np.add(a[i], operator.mul(a[i], 3)) - operator.neg(np.square(a[i])) + operator.and_(i, 5) + np.logical_xor(i, a[i])",
        "np.minimum(a[i], -5) + np.maximum(a[i] * 0.5, i) + np.clip(a[i], -1, 50) + np.clip(a[i], 1.5, 2)",
        "min(a[i], 2.5) + max(i, a[i])",
        "f32(a[i] * 2147483647) + int(a[i] * 1e9)",
        "(a[i] == 0) + True * (a[i] > 2) + (1.5 + (i > 3))",
        "(a[i] > 0) + (a[i] > 1) + (not a[i]) + abs(a[i] == 2)",
        "a[i] ** 3 + a[i] ** -1 + f32(i8(a[i] * 100)) + f32(u16(a[i]))",
        "fma(a[i], 0.1, 1 / 3) + trunc_rem(a[i], 3) + trunc_div(a[i], 0) + cdiv(a[i], 3) * cdiv(-7, 2) + cdiv(a[i], -1)",
    ],
)
def test_types_are_those_of_the_program(expression: str) -> None:
    text = f"def kernel(i: Index, a: In[i32], o: Out[f32]):\n    o[i] = {expression}\n"
    arguments = {"a": np.array([0, 1, -1, 2, -7, 100, 2**31 - 1, -(2**31)], np.int32), "o": np.zeros(8, np.float32)}
    names = {**NAMES, "operator": operator}
    assert not run_both(function_of(text, "kernel", names), arguments, (8,)).differences()


def test_an_index_out_of_range_along_its_axis_gives_nothing() -> None:
    text = (
        "def kernel(i: Index, a: In[i32, 2], o: InOut[i32, 2]):\n    o[i, i + 2] = a[0, i] * 100 + a[i - 1, i ^ 0] + o[7, 7]\n"
    )
    arguments = {"a": np.arange(12, dtype=np.int32).reshape(3, 4), "o": np.zeros((5, 5), np.int32)}
    assert not run_both(function_of(text, "kernel", NAMES), arguments, (5,)).differences()


def scale(v):
    return v * 3.0


class Scaled(NamedTuple):
    v: float

    def scale(self):
        return scale(self.v)


def lambda_of(function):
    return lambda v: function(v) + 1.0


@pytest.mark.parametrize("expression", ["Scaled(x[i]).scale()", "of_scale(x[i])"])
def test_a_function_may_call_another_one_of_its_own_name(expression: str) -> None:
    text = f"def k(i: Index, x: In[f32], o: Out[f32]):\n    o[i] = {expression}\n"
    names = {**NAMES, "Scaled": Scaled, "of_scale": lambda_of(scale)}
    given = {"x": np.arange(1, 9, dtype=np.float32), "o": np.zeros(8, np.float32)}
    assert not run_both(function_of(text, "k", names), given, (8,)).differences()


def passed_on(f):
    @functools.wraps(f)
    def called(*args, **kwargs):
        return f(*args, **kwargs)

    return called


def total(g, part):
    if g.local < 2:
        part[g.local] += part[g.local + 2]
    g.barrier()
    return part[0] + part[1]


@passed_on
def cleared(g, part, at):
    g.barrier()
    if g.local == at:
        part[at] = 0.0
    g.barrier()


def total_of_others(part, *rest, **more):
    cleared(*rest, part, **more)
    return total(*rest, part)


def called_by_names(function, path, part):
    return function(path, part)


def renamed(g, part):
    group = g
    group.barrier()
    return total(group, part)


@dataclasses.dataclass(frozen=True)
class Part:
    group: object
    memory: object

    @property
    def total(self):
        return total(self.group, self.memory)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("total(g, part)", [10.0, 26.0]),
        ("passed_on(total, g, part)", [10.0, 26.0]),
        ("usual(g, part=part)", [10.0, 26.0]),
        ("total_of_others(part, g, at=3)", [6.0, 18.0]),
        ("called_by_names(function=total, path=g, part=part)", [10.0, 26.0]),
        ("renamed(g, part)", [10.0, 26.0]),
        ("Part(g, part).total", [10.0, 26.0]),
    ],
)
def test_functions_wait_at_barriers_however_they_get_their_workgroup(expression: str, expected: list[float]) -> None:
    lines = ["part = g.shared(f32, 4)", "part[g.local] = x[g.index]", "g.barrier()", f"found = {expression}"]
    lines += ["if g.local == 0:", "    o[g.id] = found"]
    text = "def sums(g: Group[4], x: In[f32], o: InOut[f32]):\n" + "".join(f"    {line}\n" for line in lines)
    names = {**NAMES, **globals(), "passed_on": lambda f, *args: f(*args), "usual": passed_on(total)}
    given = {"x": np.arange(1, 9, dtype=np.float32), "o": np.zeros(2, np.float32)}
    both = run_both(function_of(text, "sums", names), given, (2,))
    assert not both.differences()
    assert both.python["o"].tolist() == expected
