"""Products and attention of made-up arrays, held against what their definitions expect."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from poisoned import result

from vyre_driver.autotune.measure.trials import difference
from vyre_driver.autotune.measure.tuned import TunedKernel
from vyre_driver.errors import UnsupportedFeature

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vyre_driver import Driver
    from vyre_driver.autotune.measure.definition import KernelDefinition
    from vyre_driver.autotune.search.space import Candidate


def made(driver: Driver, definition: KernelDefinition) -> TunedKernel:
    """Return the kernel; the test is skipped where the device cannot store its types."""
    try:
        return TunedKernel(driver, definition)
    except UnsupportedFeature as error:
        pytest.skip(str(error))


def smallest(kernel: TunedKernel, parts: int) -> Candidate:
    """Return the candidate with the smallest tile, the fewest invocations and so many parts: it is compiled soonest."""
    found = [one for one in kernel.candidates if one["SPLIT_K"] == parts]
    return min(found, key=lambda one: (one["TILE_X"] * one["TILE_Y"], one.workgroup_size))


def wrong(definition: KernelDefinition, found: NDArray[Any], *arrays: NDArray[Any], **parameters: Any) -> str | None:  # noqa: ANN401 -- what the kernel takes
    """Return where a result is not what the definition expects of these arrays, None where it is."""
    size = definition.size(definition.operands(arrays), parameters)
    right = definition.expected(*arrays, **parameters)
    assert right is not None
    if (found.shape, found.dtype) != (right.shape, right.dtype):
        return f"{found.dtype} of shape {found.shape}, and {right.dtype} of shape {right.shape} is right"
    return difference([definition.numbers(right)], [definition.numbers(found)], definition.tolerance(size))


def wrong_on(
    driver: Driver,
    definition: KernelDefinition,
    candidate: Candidate | None,
    *arrays: NDArray[Any],
    **parameters: Any,  # noqa: ANN401 -- what the kernel takes
) -> str | None:
    """Return where a kernel in buffers that go on past their ends is wrong, None where it is right."""
    found = result(driver, definition, candidate, *arrays, **parameters)
    return wrong(definition, found, *arrays, **parameters)


def scattered(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array of the same numbers that do not lie side by side."""
    wide = np.repeat(array, 2, axis=-1)
    return wide[..., ::2]
