"""Which constants a kernel runs with can be asked, and a tuning that proves nothing leaves the record that is there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from kernels import glsl

from vyre_driver import Driver
from vyre_driver.autotune import Axis, TuningSpace
from vyre_driver.autotune.search.outcomes import Budget
from vyre_driver.autotune.store.store import AutotuneStore
from vyre_driver.errors import TuningFailed
from vyre_driver.ir import BufferDecl, DataType, Program, gid_x, let, store, u32, var

if TYPE_CHECKING:
    from vyre_driver.autotune.search.space import Candidate

pytestmark = pytest.mark.device
BUDGET = Budget(seconds=20, max_samples=8, warm_up=0)
ADD = """#version 450
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint DEPTH = 1;
layout(constant_id = 2) const float SCALE = 1.5;
layout(constant_id = 3) const bool FAST = true;
layout(constant_id = 4) const int SHIFT = -3;
layout(binding = 0) readonly buffer X { float x[]; };
layout(binding = 1) buffer Y { float y[]; };
void main() {
    uint base = gl_WorkGroupID.x * gl_WorkGroupSize.x * DEPTH + gl_LocalInvocationID.x;
    for (uint k = 0u; k < DEPTH; k++) {
        uint i = base + k * gl_WorkGroupSize.x;
        if (i < y.length()) y[i] += FAST ? x[i] : SCALE * float(SHIFT);
    }
}
"""
SPACE = TuningSpace(
    (
        Axis("constant_0", (128, 256, 64), "invocations of a workgroup", "x"),
        Axis("DEPTH", (4, 1, 8), "elements of an invocation"),
    )
)
X = np.arange(30_000, dtype=np.float32)


def groups(one: Candidate) -> tuple[int, int, int]:
    return -(-X.size // (one.workgroup_size[0] * one["DEPTH"])), 1, 1


def test_the_constants_of_a_kernel_are_told_by_name(driver: Driver) -> None:
    declared = driver.compile(glsl(ADD)).constants
    given = driver.compile(glsl(ADD), {"DEPTH": 2, "SCALE": 0.25, "FAST": False, "SHIFT": -7, "constant_0": 32}).constants
    out = BufferDecl.output("out", 0, DataType.U32).with_count(4)
    program = Program.wrapped([out], (4, 1, 1), [let("k", u32(1)), store(out, gid_x(), var("k", DataType.U32))])
    assert declared == {"constant_0": 1, "DEPTH": 1, "SCALE": 1.5, "FAST": True, "SHIFT": -3}
    assert given == {"constant_0": 32, "DEPTH": 2, "SCALE": 0.25, "FAST": False, "SHIFT": -7}
    assert [driver.compile(program, specs).constants for specs in (None, {"k": 7})] == [{}, {"k": 7}]


def test_a_grid_can_be_made_of_the_constants_that_tuning_chose() -> None:
    with Driver(autotune=AutotuneStore()) as driver:
        best = driver.tune(glsl(ADD), X, X, space=SPACE, workgroups=groups, budget=BUDGET).best.candidate
        kernel = driver.compile(glsl(ADD), space=SPACE)
        found = kernel.constants
        covered = -(-X.size // (kernel.workgroup_size[0] * int(found["DEPTH"])))
        result = kernel(X, X, workgroups=(covered,))
    assert (found["constant_0"], found["DEPTH"]) == (best.workgroup_size[0], best["DEPTH"])
    np.testing.assert_array_equal(np.asarray(result), 2 * X)


def test_a_tuning_with_a_grid_that_does_not_cover_the_elements_keeps_the_record_that_is_there() -> None:
    with Driver(autotune=AutotuneStore()) as driver:
        good = driver.tune(glsl(ADD), X, X, space=SPACE, workgroups=groups, budget=BUDGET).record
        with pytest.raises(TuningFailed) as failed:
            driver.tune(glsl(ADD), X, X, space=SPACE, workgroups=(4, 1, 1), budget=BUDGET)
        kept = driver.compile(glsl(ADD), space=SPACE).constants
    assert (kept["constant_0"], kept["DEPTH"]) == (good.workgroup_size[0], good.tile[0])
    assert "give what the first one that ran gives, " in failed.value.problem
    assert (
        failed.value.fix == "tune only what does not change the result, and let the grid of each candidate cover all elements"
    )
