"""What a kernel became: its SPIR-V without a device, and why it is as it is."""

# ruff: noqa: ANN001, ANN201, ANN202 -- kernels return nothing, and their functions take any number
# mypy: ignore-errors

from __future__ import annotations

import pytest

from vyre_driver.errors import InvalidInput
from vyre_driver.lang import Const, Group, In, Index, InOut, Out, atomic_add, f32, kernel, u32
from vyre_driver.spirv.module import SpirvModule

R = 2


def _scaled(v):
    half = v / 2
    return half * R


@kernel
def blur(i: Index, j: Index, x: In[f32], w: In[f32], y: Out[f32], a: f32):  # noqa: PLR0913 -- a kernel
    acc = 0.0
    for k in range(-R, R + 1):
        acc += x[i, j + k] * w[k + R] if j > 3 else _scaled(a)
    y[i, j] = acc


@kernel(bounds="robust", floats="fast")
def sums(g: Group[64], x: In[f32], counts: InOut[u32], y: Out[f32]):
    part = g.shared(f32, 64)
    part[g.local] = x[g.index]
    g.barrier()
    atomic_add(counts, 0, 1)
    y[g.index] = part[g.local] + part[g.local + 1]


@kernel
def saxpy(i: Index, x: In[f32], y: InOut[f32], a: f32, *, TWICE: Const[bool] = False):  # noqa: N803 -- a constant
    y[i] = a * x[i] + (y[i] if TWICE else 0.0)


BLUR = """kernel blur
  takes
    x: In[f32], 2 axes
    w: In[f32], 1 axis
    y: Out[f32], 2 axes
    a: f32
  variables
    v of _scaled: f32, since line -5
    half of _scaled: f32, since line -4
    acc: f32, since line 3
  captures
    R = 2
    _scaled = the function _scaled
  grid
    i goes over x.shape[0], y.shape[0], all of them alike
    j goes over y.shape[1]
    workgroups of 16 x 16 x 1, of this size: its workgroup of 16x16x1 invocations has more than one axis
  reads
    x in line 4
    w in line 4
  writes
    y in line 5
  checks of bounds
    line 4: x[i, j + k]: nothing proves j + k < x.shape[1]
    line 4: w[k + R]: nothing proves k + R < len(w)
    line 5: y[i, j]: nothing proves that the shape of y fits its buffer
  19 of 8,192 statements; floats device, bounds checked"""


def _relative(text: str, function) -> str:
    import re

    first = function.__code__.co_firstlineno + 1  # the line of its def
    return re.sub(r"\bline (\d+)", lambda found: f"line {int(found[1]) - first + 1}", text)


def test_an_explanation_is_told_in_lines() -> None:
    assert _relative(str(blur.explain()), blur.function) == BLUR


def test_an_explanation_has_data() -> None:
    found = sums.explain()
    first = sums.function.__code__.co_firstlineno + 1
    assert found.reads == {"x": (first + 2,), "counts": (first + 4,), "part": (first + 5,)}
    assert found.writes == {"part": (first + 2,), "counts": (first + 4,), "y": (first + 5,)}
    assert [(one.text, one.unproven) for one in found.checks] == [("part[g.local + 1]", "g.local + 1 < 64")]
    assert (found.floats, found.bounds, found.fixed_workgroup) == ("fast", "robust", "buffer 'part' is workgroup memory")
    found = saxpy.explain(TWICE=True)
    assert (found.checks, found.fixed_workgroup, found.extents) == ((), None, {"i": "len(x), len(y), all of them alike"})
    assert saxpy.explain().reads == {"x": (found.reads["x"])}


def test_there_is_spirv_without_a_device() -> None:
    module = saxpy.spirv()
    assert isinstance(module, SpirvModule)
    assert (module.name, [one.name for one in module.reflection.buffers]) == ("saxpy", ["x", "y"])
    assert module.code != saxpy.spirv(TWICE=True).code == saxpy.with_(TWICE=True).spirv().code
    assert "OpEntryPoint GLCompute" in saxpy.disassemble()
    assert "y[gid.x] = " in str(saxpy.program())
    with pytest.raises(InvalidInput, match="saxpy has no constant 'N'"):
        saxpy.spirv(N=3)
