"""What the kernels on matrices and on rows share: the checks of their arrays, and grids with a workgroup for each tile.

Source: Vulkan 1.3, limit ``maxComputeWorkGroupCount``: 65,535 along an axis is all that every device has.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from vyre_driver.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np

    from vyre_driver.autotune.measure.definition import DeviceFacts, Operand
    from vyre_driver.vulkan.devices import DeviceLimits

_AXES = {1: "one axis", 2: "two axes"}
_AXES_FIXES = {1: "give an array of one row or more", 2: "give a matrix: reshape a vector to one row or one column"}
_MOST_TURNS = 65_400  # of loops, on a CPU device


def grid_of(tiles: int, limits: DeviceLimits) -> tuple[int, int, int]:
    """Return workgroups along x and y for at least so many tiles, row by row; shaders leave those past the last tile.

    A grid that is too large for y as well is refused where it is bound (LimitExceeded).
    """
    across = min(tiles, limits.max_compute_work_group_count[0])
    return across, math.ceil(tiles / across), 1


def least_parts(k: int, step: int, turns: int, device: DeviceFacts) -> int:
    """Return in how many parts k is summed at least, where a step takes so many turns of loops: one, but on a CPU device.

    llvmpipe ends loops after 65,535 turns.
    """
    return math.ceil(k / (_MOST_TURNS // turns * step)) if device.physical.is_software else 1


def check_matrices(
    kernel: str,
    operands: Mapping[str, Operand],
    dtypes: Sequence[np.dtype[np.generic]],
    fix: str,
) -> None:
    """Check that all are matrices of one of these types.

    Raises
    ------
    InvalidInput
        If not; ``fix`` says what makes a matrix of such a type.
    """
    for name, operand in operands.items():
        if len(operand.shape) != 2 or operand.dtype not in dtypes:
            raise InvalidInput(
                f"{name} of {kernel} has the shape {operand.shape} and the type {operand.dtype}, and must be a matrix of "
                f"{_listed(dtypes)}",
                fix=fix,
                binding=name,
            )


def check_rows(
    kernel: str, operands: Mapping[str, Operand], dtypes: Sequence[np.dtype[np.generic]], *, least_axes: int = 1
) -> None:
    """Check that arrays have one of these types, and enough axes: the last one is a row, those before it count rows.

    Raises
    ------
    InvalidInput
        If the type is another one, or there are fewer than ``least_axes`` axes.
    """
    for name, operand in operands.items():
        if operand.dtype not in dtypes:
            raise InvalidInput(
                f"{name} of {kernel} has the type {operand.dtype}, and must have the type {_listed(dtypes)}",
                fix=f"convert it with .astype(numpy.{dtypes[0]})",
                binding=name,
            )
        if len(operand.shape) < least_axes:
            raise InvalidInput(
                f"{name} of {kernel} has the shape {operand.shape}, and must have {_AXES[least_axes]} or more",
                fix=_AXES_FIXES[least_axes],
                binding=name,
            )


def row_count(shape: tuple[int, ...]) -> int:
    """Return how many rows an array has along its last axis; a vector is one row."""
    return math.prod(shape[:-1])


def refuse_parameters(kernel: str, parameters: Mapping[str, object]) -> None:
    """Check that a call has no parameters, and raise InvalidInput otherwise."""
    if parameters:
        raise InvalidInput(f"{kernel} takes no parameters and got {sorted(parameters)}", fix="leave them out")


def _listed(dtypes: Sequence[np.dtype[np.generic]]) -> str:
    *others, last = [dtype.name for dtype in dtypes]
    return f"{', '.join(others)} or {last}" if others else last
