"""A candidate as upstream's record holds it: a workgroup size, an unrolling and a tile of three numbers.

The constant ``UNROLL`` is the unrolling; what is neither that nor the workgroup's size is the tile, in the order of the space.
Missing numbers are 1, of the tile 0.

Source: spec item 2.4 (what a record holds).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from vyre_driver.autotune.search.space import UNROLL
from vyre_driver.errors import InvalidTuningSpace

if TYPE_CHECKING:
    from vyre_driver.autotune.search.space import Axes, Axis, Candidate, Limits, TuningSpace
    from vyre_driver.autotune.store.record import AutotuneRecord

_MOST_OTHERS = 3


class Columns(NamedTuple):
    """The numbers of a record."""

    workgroup_size: Axes
    unroll: int
    tile: Axes


def columns_of(space: TuningSpace, candidate: Candidate) -> Columns:
    """Return the numbers that stand for a candidate of a space.

    Raises
    ------
    InvalidTuningSpace
        If a record has no room for all of its constants.
    """
    tile = [candidate[axis.constant] for axis in _others(space)]
    if len(tile) > _MOST_OTHERS:
        names = ", ".join(axis.constant for axis in _others(space))
        raise InvalidTuningSpace(
            f"a record has room for {_MOST_OTHERS} constants besides the workgroup's size and {UNROLL}, and the space has "
            f"{len(tile)}: {names}",
            fix="tune fewer at once",
        )
    x, y, z = tile + [0] * (_MOST_OTHERS - len(tile))
    values = dict(candidate.constants)
    return Columns(candidate.workgroup_size, values.get(UNROLL, 1), (x, y, z))


def candidate_of(space: TuningSpace, record: AutotuneRecord, limits: Limits) -> Candidate | None:
    """Return the candidate that a record names, None if it is not of this space or will not do on this device."""
    sizes = dict(zip("xyz", record.workgroup_size, strict=True))
    values = {axis.constant: sizes[axis.workgroup] for axis in space.axes if axis.workgroup is not None}
    values |= {axis.constant: record.unroll for axis in space.axes if axis.constant == UNROLL}
    others = _others(space)
    values |= {axis.constant: value for axis, value in zip(others, record.tile, strict=False)}
    if len(others) > _MOST_OTHERS or any(values[axis.constant] not in axis.values for axis in space.axes):
        return None
    found = space.candidate(**values)
    is_same = columns_of(space, found) == (record.workgroup_size, record.unroll, record.tile)
    return found if is_same and space.refusal(found, limits) is None else None


def _others(space: TuningSpace) -> list[Axis]:
    return [axis for axis in space.axes if axis.workgroup is None and axis.constant != UNROLL]
