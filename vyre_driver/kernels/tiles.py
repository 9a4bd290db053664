"""What the kernels on matrices share: the check of a matrix, and grids with one workgroup for each tile.

Source: Vulkan 1.3, limit ``maxComputeWorkGroupCount``: 65,535 along an axis is all that every device has.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from vyre_driver.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np

    from vyre_driver.autotune.measure.definition import Operand
    from vyre_driver.vulkan.devices import DeviceLimits


def grid_of(tiles: int, limits: DeviceLimits) -> tuple[int, int, int]:
    """Return workgroups along x and y for at least so many tiles, row by row; shaders leave those past the last tile.

    A grid that is too large for y as well is refused where it is bound (LimitExceeded).
    """
    across = min(tiles, limits.max_compute_work_group_count[0])
    return across, math.ceil(tiles / across), 1


def check_matrices(
    kernel: str,
    operands: Mapping[str, Operand],
    parameters: Mapping[str, object],
    dtypes: Sequence[np.dtype[np.generic]],
    fix: str,
) -> None:
    """Check that all are matrices of one of these types, and that no parameters are given.

    Raises
    ------
    InvalidInput
        If not; ``fix`` says what makes a matrix of such a type.
    """
    if parameters:
        raise InvalidInput(f"{kernel} takes no parameters and got {sorted(parameters)}", fix="leave them out")
    *others, last = [one.name for one in dtypes]
    types = f"{', '.join(others)} or {last}" if others else last
    for name, one in operands.items():
        if len(one.shape) != 2 or one.dtype not in dtypes:
            raise InvalidInput(
                f"{name} of {kernel} has the shape {one.shape} and the type {one.dtype}, and must be a matrix of {types}",
                fix=fix,
                binding=name,
            )
