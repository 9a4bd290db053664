"""Workgroups and shared memory whose sizes are computed of specialization constants."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from assembler import BASE, assemble, op
from kernels import glsl

from vyre_driver import SpirvModule
from vyre_driver.errors import LimitExceeded

if TYPE_CHECKING:
    from vyre_driver import Driver

pytestmark = pytest.mark.device

# Each invocation adds 1 to y[0]; the workgroup has (constant 0) * (constant 1) invocations along x.
COUNTED = BASE | {
    "first": op(17, 1),
    "capability": op(),
    "local size": op(),
    "decorations": [*op(71, 20, 1, 0), *op(71, 21, 1, 1), *op(71, 24, 11, 25)],
    "array": op(29, 6, 10),
    "declarations": [
        *op(50, 10, 20, 4),
        *op(50, 10, 21, 2),
        *op(43, 10, 25, 1),
        *op(43, 10, 26, 0),
        *op(52, 10, 22, 132, 20, 21),
        *op(23, 23, 10, 3),
        *op(51, 23, 24, 22, 25, 25),
        *op(32, 27, 12, 10),
    ],
    "label": [*op(248, 4), *op(65, 27, 30, 9, 26, 26), *op(234, 10, 31, 30, 25, 26, 25)],
}
COUNTED_SPECS = {"constant_0": 6, "constant_1": 5}

REVERSED = """#version 450
layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint SIZE = 8u;
shared uint tile[SIZE * 2u];
layout(binding = 0) readonly buffer X { uint x[]; };
layout(binding = 1) writeonly buffer Y { uint y[]; };
void main() {
    uint i = gl_LocalInvocationID.x;
    tile[i] = x[i]; tile[i + SIZE] = x[i + SIZE]; barrier();
    y[i] = tile[2u * SIZE - 1u - i]; y[i + SIZE] = tile[SIZE - 1u - i];
}
"""


@pytest.mark.parametrize(("specs", "expected"), [({}, 8), (COUNTED_SPECS, 30)])
def test_a_computed_workgroup_has_as_many_invocations_as_were_worked_out(
    driver: Driver, specs: dict[str, object], expected: int
) -> None:
    kernel = driver.compile(SpirvModule.from_bytes(assemble(COUNTED)), specs)
    assert (kernel.workgroup_size, kernel(np.zeros(1, np.uint32), workgroups=(3,)).tolist()) == (
        (expected, 1, 1),
        [3 * expected],
    )


def test_shared_memory_of_computed_size_holds_that_much(driver: Driver) -> None:
    x = np.arange(64, dtype=np.uint32)
    kernel = driver.compile(glsl(REVERSED), {"SIZE": 32})
    assert kernel(x, out_shapes={"y": 64}, workgroups=(1,), strict=True).tolist() == x[::-1].tolist()


def test_computed_shared_memory_over_the_limit_never_reaches_the_driver(driver: Driver) -> None:
    limits = driver.device.limits
    text = REVERSED.replace("SIZE * 2u]", "SIZE * 2u + 65536u]")
    with pytest.raises(LimitExceeded) as refused:
        driver.compile(glsl(text), {"SIZE": 32})
    assert refused.value.context == {
        "value": 4 * (64 + 65536),
        "limit": limits.max_compute_shared_memory_size,
        "variable": "tile",
    }
