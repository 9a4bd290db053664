"""What a shipped kernel makes of arrays in buffers that go on past their ends."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_driver.autotune.measure.tuned import TunedKernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vyre_driver import Driver
    from vyre_driver.autotune.measure.definition import KernelDefinition
    from vyre_driver.autotune.search.space import Candidate

POISON = b"\x55"
TAIL = POISON * 2**16
NANS = b"\xff" * 2**16


def result(
    driver: Driver,
    definition: KernelDefinition,
    candidate: Candidate | None,
    *arrays: NDArray[Any],
    **parameters: Any,  # noqa: ANN401 -- what the kernel takes
) -> NDArray[Any]:
    """What a kernel makes of arrays, in buffers that go on past their ends, where it must find nothing and leave nothing."""
    kernel = TunedKernel(driver, definition)
    chosen = candidate or kernel.candidates[0]
    operands = definition.operands(arrays)
    plan = definition.plan(definition.call(operands, parameters, chosen, kernel.device))
    made = {**plan.outputs, **plan.temporaries}
    lengths = {name: math.prod(one.shape) * one.dtype.itemsize for name, one in made.items()}
    held = {name: (one.tobytes() + NANS, one.dtype) for name, one in zip(definition.inputs, arrays, strict=True)}
    held |= {name: (POISON * lengths[name] + TAIL, one.dtype) for name, one in made.items()}
    buffers = {name: driver.buffer(np.frombuffer(raw, dtype)) for name, (raw, dtype) in held.items()}
    for step in plan.steps:
        bound = kernel.compiled(step).bind(
            *step.arguments(buffers), workgroups=step.workgroups, push_constants=step.push_constants
        )
        bound.run()
    found = {name: buffers[name].read().tobytes() for name in made}
    assert {name for name, one in found.items() if one[lengths[name] :] != TAIL} == set()
    ((name, operand),) = plan.outputs.items()
    return np.frombuffer(found[name][: lengths[name]], operand.dtype).reshape(operand.shape)
