"""The parameters that a dispatch pushes to its program: element counts, of all buffers and of each, and workgroup counts.

Source: spec item 2.2, dispatch parameters.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from vyre_driver.checks import U32_MAX, U64_MAX, whole_in_range
from vyre_driver.errors import InvalidInput, LimitExceeded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vyre_driver.binding.plan import BindingPlan


def dispatch_element_count(plan: BindingPlan, *, has_atomics: bool) -> int:
    """Return how many elements a dispatch is about, at least 1.

    That is the longest output, for each element of it needs an invocation. With workgroup memory or atomics (which the
    program's stats tell) inputs matter as well, as they do without outputs of a known count: then it is the longest buffer
    that has a descriptor.
    """
    bindings = plan.descriptors
    outputs = max((one.element_count for one in bindings if one.role.produces_output), default=0)
    if outputs and not has_atomics and not plan.shared_indices:
        return outputs
    return max((one.element_count for one in bindings), default=0) or 1


def covering_grid(element_count: int, workgroup_size: Sequence[int]) -> tuple[int, int, int]:
    """Return the workgroups along x, y and z that have an invocation for each of ``element_count`` elements (u64).

    A workgroup of one axis gets a row of elements. One of two axes gets rows of s = ceil(sqrt(n)) elements, as many as are
    needed; one of three gets layers of s x s with s = ceil(cbrt(n)). Each axis is at least 1.

    Raises
    ------
    InvalidInput
        If a number is out of its range: 0 to 2**64 - 1 elements, 1 to 2**32 - 1 invocations along an axis.
    LimitExceeded
        If an axis needs more than 2**32 - 1 workgroups.
    """
    count = whole_in_range(element_count, "the number of elements of a dispatch", 0, U64_MAX)
    size = [whole_in_range(axis, "the size of a workgroup along an axis", 1, U32_MAX) for axis in workgroup_size]
    if len(size) != 3:
        raise InvalidInput(f"a workgroup size has {len(size)} axes, and 3 are wanted", fix="give (x, y, z) in invocations")
    groups = tuple(max(1, _ceil_div(extent, axis)) for extent, axis in zip(_extents(count, size), size, strict=True))
    for axis, needed in zip("xyz", groups, strict=True):
        if needed > U32_MAX:
            raise LimitExceeded(
                f"{count} elements need {needed} workgroups of {'x'.join(map(str, size))} along {axis}, and a dispatch has "
                f"{U32_MAX} workgroups at most",
                fix="use larger workgroups, or dispatch the elements in parts",
                value=needed,
                limit=U32_MAX,
            )
    return groups  # type: ignore[return-value] # of three sizes


def _extents(count: int, size: Sequence[int]) -> tuple[int, int, int]:
    """Return how many elements lie along each axis."""
    if size[1:] == [1, 1]:
        return count, 1, 1
    if size[2] == 1:
        side = ceil_square_root(count)
        return side, _ceil_div(count, max(side, 1)), 1
    side = ceil_cube_root(count)
    return side, side, _ceil_div(count, max(side * side, 1))


def ceil_square_root(value: int) -> int:
    """Return the least integer whose square is at least ``value``, which is 0 or more."""
    return math.isqrt(value - 1) + 1 if value else 0


def ceil_cube_root(value: int) -> int:
    """Return the least integer whose cube is at least ``value``, which is 0 or more."""
    high = 1 << -(-value.bit_length() // 3)
    low = 0
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if middle**3 >= value else (middle + 1, high)
    return low


def _ceil_div(value: int, divisor: int) -> int:
    return -(-value // divisor)
