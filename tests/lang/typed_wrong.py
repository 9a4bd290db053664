"""Mistakes that mypy --strict and pyright find: ``error:`` names their codes for what stands in its line (test_typing.py)."""

from typing import Annotated

import numpy as np

import vyre_driver
from vyre_driver.lang import (
    Const,
    Group,
    In,
    Index,
    InOut,
    Out,
    atomic_add,
    bitcast,
    elementwise,
    f16,
    f32,
    function,
    fuse,
    i32,
    i64,
    kernel,
    local,
    reduction,
    scan,
    u32,
)


@kernel
def saxpy(i: Index, x: In[f32], y: InOut[f32], a: f32) -> None:
    y[i] = a * x[i] + y[i]


@kernel
def scale(i: Index, j: Index, x: In[f32], out: Out[f32], n: i32, *, BY: Const[int] = 2) -> None:
    out[i, j] = x[i, j] * n * BY


@function
def twice(x: float) -> float:
    return 2.0 * x


@elementwise
def blend(x: f32, y: f32) -> f32:
    return x + y


x, y = np.zeros(4, np.float32), np.zeros(4, np.float32)
saxpy(x, y)  # error: call-overload | reportCallIssue
saxpy(x, y, "a")  # error: call-overload | reportArgumentType
saxpy(x, [1.0, 2.0], 2.0)  # error: call-overload | reportArgumentType
saxpy(x, 2.0, y)  # error: call-overload | reportArgumentType
saxpy(0, x, y, 2.0)  # error: call-overload | reportCallIssue
saxpy(x, y, 2.0, b=1)  # error: call-overload | reportCallIssue
saxpy(x, y, 2.0, timeout="1 s")  # error: call-overload | reportArgumentType
saxpy(x, a=2.0)  # error: call-overload | reportCallIssue
scale(x, y, 0.5)  # error: call-overload | reportArgumentType reportCallIssue
scale()  # error: call-overload | reportCallIssue
scale("x", 3)  # error: call-overload | reportArgumentType
scale(x, y, 3, BY="2")  # error: call-overload | reportArgumentType reportCallIssue
saxpy.bind(x, y)  # error: call-arg | reportCallIssue
saxpy.over("4")  # error: arg-type | reportArgumentType
saxpy.on("cpu")  # error: arg-type | reportArgumentType
saxpy.run(x, y, 2.0)  # error: attr-defined | reportAttributeAccessIssue
saxpy.program(BY="2")  # error: arg-type | reportArgumentType
vyre_driver.Driver().compile(twice)  # error: arg-type | reportArgumentType
saxpy.tune(x, y, 2.0, seconds="5")  # error: arg-type | reportArgumentType
saxpy.interpret(x, [1.0], 2.0)  # error: arg-type | reportArgumentType
saxpy.python("x", y, 2.0)  # error: arg-type | reportArgumentType
warnings = saxpy.explain().warnings  # error: attr-defined | reportAttributeAccessIssue
saxpy.compiled_for("cpu")  # error: arg-type | reportArgumentType
scale.with_(BY="2")  # error: arg-type | reportArgumentType
blend(x, "y")  # error: call-overload | reportArgumentType reportCallIssue
blend(x, y, out=0.5)  # error: call-overload | reportArgumentType
blend(x, y, where="all")  # error: call-overload | reportArgumentType
elementwise(2)  # error: call-overload | reportArgumentType
fuse(x)  # error: call-overload | reportArgumentType
reduction(lambda a, b: a + b)  # error: call-overload | reportCallIssue
reduction(lambda a: a, zero=0)  # error: arg-type misc | reportArgumentType reportCallIssue
scan(1)  # error: arg-type | reportArgumentType
scan(lambda a, b: a + b)(x, axis="rows")  # error: arg-type | reportArgumentType


@kernel  # error: type-var arg-type | reportArgumentType reportCallIssue
def no_index(x: In[f32], y: Out[f32]) -> None:
    y[0] = x[0]


@kernel(floats="quick")  # error: call-overload untyped-decorator | reportArgumentType
def no_such_floats(i: Index, x: InOut[f32]) -> None:
    x[i] += 1.0


@kernel(tune={"BLOCK": 64})  # error: dict-item | reportArgumentType
def tuned(i: Index, x: InOut[f32], *, BLOCK: Const[int] = 64) -> None:
    x[i] += BLOCK


@kernel(checks="all")  # error: call-overload untyped-decorator | reportArgumentType
def no_such_checks(i: Index, x: InOut[f32]) -> None:
    x[i] += 1.0


@kernel  # error: type-var arg-type | reportArgumentType reportCallIssue
def returns(i: Index, x: In[f32]) -> float:
    return x[i]


@kernel
def mistakes(g: Annotated[Group, 64], x: In[f32], y: Out[f32], counts: InOut[u32], n: i32) -> None:
    x[g.index] = 1.0  # error: index | reportIndexIssue
    y[g.index] += 1.0  # error: index | reportIndexIssue
    y[g.index] = "1.0"  # error: assignment | reportArgumentType
    counts[g.index] = 0.5  # error: assignment | reportArgumentType
    atomic_add(x, 0, 1.0)  # error: arg-type | reportArgumentType
    atomic_add(counts, 0.5, 1)  # error: arg-type | reportArgumentType
    atomic_add(counts, 0, 0.5)  # error: misc | reportArgumentType
    g.barriers()  # error: attr-defined | reportAttributeAccessIssue
    g.shared(f32, 1.5)  # error: arg-type | reportArgumentType
    g.shared(16, 16)  # error: arg-type | reportArgumentType
    near = local(f32, 4)
    near[0] = "1.0"  # error: assignment | reportArgumentType
    local(4, f32)  # error: arg-type | reportArgumentType
    bitcast(u32, "1.0")  # error: arg-type | reportArgumentType
    twice("x")  # error: arg-type | reportArgumentType
    n = 0.5  # error: assignment | reportAssignmentType
    y[1] = n
    y[0] = x.length  # error: attr-defined | reportAttributeAccessIssue


@kernel
def widths(i: Index, halves: InOut[f16], words: InOut[i64]) -> None:
    halves[i] = "1.0"  # error: assignment | reportArgumentType
    words[i] = halves[i]  # error: assignment | reportArgumentType
