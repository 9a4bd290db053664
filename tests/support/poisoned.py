"""What a shipped kernel makes of arrays in buffers that go on past their ends."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_driver.autotune.measure.tuned import TunedKernel

if TYPE_CHECKING:
    from collections.abc import Iterable

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


def distance(found: NDArray[Any], expected: NDArray[Any]) -> float:
    """How far two results are apart, relative to the largest magnitude in what is right."""
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    wide = expected.astype(np.float64)
    return float(np.abs(found - wide).max() / np.abs(wide).max())


def untried(kernel: TunedKernel, candidates: Iterable[Candidate]) -> set[tuple[str, int]]:
    """The values of axes that the device takes and that none of these candidates has, of those that it takes."""
    wanted, seen = (
        {(axis.constant, one[axis.constant]) for axis in kernel.space.axes for one in those}
        for those in (kernel.candidates, [one for one in candidates if one in kernel.candidates])
    )
    return wanted - seen


def on_a_narrow_grid(
    driver: Driver, definition: KernelDefinition, size: tuple[int, ...], candidate: Candidate | None
) -> tuple[NDArray[Any], NDArray[Any]]:
    """What a kernel makes of its example as on a device that takes three workgroups along x, and what is right."""
    kernel = TunedKernel(driver, definition)
    limits = replace(driver.device.limits, max_compute_work_group_count=(3, 65535, 65535))
    kernel.device = replace(kernel.device, physical=replace(driver.device, limits=limits))
    arrays, _ = definition.example(size, 1)
    expected = definition.expected(*arrays)
    out = driver.buffer(np.full_like(expected, 7))
    kernel.bind(*map(driver.buffer, arrays), out=out, candidate=candidate).run()
    return out.read(), expected
