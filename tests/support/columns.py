"""Candidates of the shipped kernels by the numbers that upstream's records have: workgroup size, unrolling, tile."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vyre_driver.autotune import Candidate, TuningSpace

Axes = tuple[int, int, int]


def candidate_with(space: TuningSpace, workgroup_size: Axes, unroll: int = 1, tile: Axes = (0, 0, 0)) -> Candidate:
    """A candidate of a space, valid or not: tiles are the other constants in their order."""
    sizes, left = dict(zip("xyz", workgroup_size, strict=True)), iter(tile)
    values = {}
    for axis in space.axes:
        if axis.workgroup is not None:
            values[axis.constant] = sizes[axis.workgroup]
        else:
            values[axis.constant] = unroll if axis.constant == "UNROLL" else next(left)
    return space.candidate(**values)
