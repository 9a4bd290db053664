"""Grids of tiles: as many workgroups as there are tiles, in a shape that a device takes.

Source: Vulkan 1.3, limit ``maxComputeWorkGroupCount``: 65,535 along an axis is all that every device has.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vyre_driver.vulkan.devices import DeviceLimits


def grid_of(tiles: int, limits: DeviceLimits) -> tuple[int, int, int]:
    """Return workgroups along x and y for at least so many tiles, row by row; shaders leave those past the last tile.

    A grid that is too large for y as well is refused where it is bound (LimitExceeded 2104).
    """
    across = min(tiles, limits.max_compute_work_group_count[0])
    return across, math.ceil(tiles / across), 1
