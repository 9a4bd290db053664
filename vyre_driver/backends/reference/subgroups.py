"""Subgroup operations: exchange values between the active invocations of a subgroup.

A subgroup is so many consecutive invocations of a workgroup, 32 by default, the last one perhaps fewer.
Source: spec item 1.7, parallelism.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from vyre_driver.backends.reference import floats
from vyre_driver.backends.reference.values import spread

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vyre_driver.backends.reference.invocations import InvocationBatch
    from vyre_driver.backends.reference.values import Values

BALLOT_LANES = 32


def _slots(batch: InvocationBatch) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    """Return the subgroup and the lane of each active invocation, and how many subgroups there are."""
    lanes = batch.lanes
    return batch.subgroup_of[lanes], batch.subgroup_lane[lanes], int(batch.subgroup_of[-1]) + 1


def add(batch: InvocationBatch, values: Values) -> Values:
    """Return the sum over each subgroup; integers wrap, f32 are added from lane 0 up, to 0.0."""
    groups, lanes, count = _slots(batch)
    table = np.zeros((count, batch.grid.lanes), values.dtype)
    table[groups, lanes] = spread(values, len(lanes))
    if values.dtype != np.float32:
        return np.asarray(np.add.reduce(table, axis=1, dtype=values.dtype)[groups])
    table = floats.flushed(table)
    there = np.zeros(table.shape, np.bool_)
    there[groups, lanes] = True
    total = np.zeros(count, np.float32)
    for lane in range(batch.grid.lanes):
        total = np.where(there[:, lane], floats.canonical(total + table[:, lane]), total)
    return total[groups]


def shuffle(batch: InvocationBatch, values: Values, wanted: Values) -> Values:
    """Return the value of another lane; zero where that is not there or not active."""
    groups, lanes, count = _slots(batch)
    table = np.zeros((count, batch.grid.lanes, *values.shape[1:]), values.dtype)
    table[groups, lanes] = spread(values, len(lanes))
    wanted = spread(wanted, len(lanes)).astype(np.int64)
    there = wanted < batch.grid.lanes
    found = table[groups, np.where(there, wanted, 0)]
    return np.where(there.reshape(-1, *[1] * (values.ndim - 1)), found, np.zeros(1, values.dtype))


def ballot(batch: InvocationBatch, conditions: Values) -> Values:
    """Return a bit for each active lane whose condition holds, of the first 32."""
    groups, lanes, count = _slots(batch)
    conditions = spread(conditions, len(lanes)) & (lanes < BALLOT_LANES)
    table = np.zeros((count, batch.grid.lanes), np.uint32)
    table[groups, lanes] = conditions.astype(np.uint32) << (lanes % BALLOT_LANES).astype(np.uint32)
    return np.asarray(np.bitwise_or.reduce(table, axis=1)[groups])
