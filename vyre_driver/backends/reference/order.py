"""Whether what many invocations do at once is what they would do one after the other.

The order that defines a program's result is: workgroup after workgroup, in each of them invocation after invocation, each up to
its next barrier. Running many in lockstep gives the same unless one of them touches an element that another one writes, with no
barrier of their workgroup between. Every buffer that is written keeps, for each element, who wrote and who read it last; what
breaks the rule raises :class:`OrderMatters`, and the invocations are then run apart.

Accesses of one step are in the right order already: a store's last value stays, atomics go invocation by invocation. An atomic
whose result nobody uses commutes with others of its kind.

A *code* says who: an invocation of the unit by its number; beyond these, ``kind * (groups + 1) + group`` for several of one
workgroup (``group == groups``: of several), where kind 0 is plain access and the others are kinds of atomics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vyre_driver.backends.reference.unit import Unit

    Places = NDArray[np.int64]

_MANY = 0


class OrderMatters(Exception):
    """The result depends on the order in which invocations are run; never leaves the interpreter."""


class AccessLog:
    """Who touched each element of a buffer, and in which phase (a number that grows with every unit and barrier)."""

    def __init__(self, count: int) -> None:
        """Begin with ``count`` untouched elements."""
        self._writers, self._written = np.zeros(count, np.int32), np.zeros(count, np.int64)
        self._readers, self._read = np.zeros(count, np.int32), np.zeros(count, np.int64)

    def fresh(self, unit: Unit, places: Places) -> Places:
        """Return the places that the unit has not written yet."""
        return places[self._written[places] < unit.began]

    def reading(self, unit: Unit, lanes: Places, places: Places) -> None:
        """Note a load."""
        groups = unit.group_of[lanes]
        self._check(unit, lanes, groups, places, self._writers, self._written, own_kind=None)
        seen, when = self._readers[places], self._read[places]
        codes = lanes.astype(np.int32)
        live = when >= unit.since
        if live.any():
            same = _group_of(unit, seen) == groups
            now = when == unit.phase[groups]
            codes = np.where(live & ~same, unit.code(_MANY, unit.groups), codes)
            codes = np.where(live & same & now & (seen != lanes), unit.code(_MANY, groups), codes).astype(np.int32)
        _put(unit, self._readers, places, codes, groups, _MANY)
        self._read[places] = unit.phase[groups]

    def writing(self, unit: Unit, lanes: Places, places: Places) -> None:
        """Note a store, or an atomic whose result is used."""
        groups = unit.group_of[lanes]
        self._check(unit, lanes, groups, places, self._writers, self._written, own_kind=None)
        self._check(unit, lanes, groups, places, self._readers, self._read, own_kind=None)
        _put(unit, self._writers, places, lanes.astype(np.int32), groups, _MANY)
        self._written[places] = unit.phase[groups]

    def combining(self, unit: Unit, lanes: Places, places: Places, kind: int) -> None:
        """Note an atomic of a kind (1 and up) whose result nobody uses."""
        groups = unit.group_of[lanes]
        self._check(unit, lanes, groups, places, self._writers, self._written, own_kind=kind)
        self._check(unit, lanes, groups, places, self._readers, self._read, own_kind=None)
        codes = unit.code(kind, groups)
        seen = self._writers[places]
        elsewhere = (self._written[places] >= unit.since) & (_group_of(unit, seen) != groups)
        codes = np.where(elsewhere, unit.code(kind, unit.groups), codes).astype(np.int32)
        _put(unit, self._writers, places, codes, groups, kind)
        self._written[places] = unit.phase[groups]

    def _check(  # noqa: PLR0913 -- two of the log's four arrays, and who comes
        self,
        unit: Unit,
        lanes: Places,
        groups: Places,
        places: Places,
        who: NDArray[np.int32],
        when: NDArray[np.int64],
        *,
        own_kind: int | None,
    ) -> None:
        """Raise if another invocation touched a place, with no barrier between."""
        touched = when[places]
        live = touched >= unit.since
        if not live.any():
            return
        other = who[places]
        ordered = (_group_of(unit, other) == groups) & (touched != unit.phase[groups])
        clashes = live & (other != lanes) & ~ordered
        if own_kind is not None:
            clashes &= (other < unit.count) | ((other - unit.count) // (unit.groups + 1) != own_kind)
        if clashes.any():
            raise OrderMatters


def _group_of(unit: Unit, codes: NDArray[np.int32]) -> Places:
    own = unit.group_of[np.minimum(codes, unit.count - 1)]
    return np.where(codes < unit.count, own, (codes - unit.count) % (unit.groups + 1))


def _put(  # noqa: PLR0913 -- one of the log's arrays, and who comes
    unit: Unit, who: NDArray[np.int32], places: Places, codes: NDArray[np.int32], groups: Places, kind: int
) -> None:
    """Write codes; where several fall on one place, the code of several."""
    who[places] = codes
    lost = who[places] != codes
    if lost.any():
        mine, stayed = groups[lost], _group_of(unit, who[places[lost]])
        alike = mine == stayed
        who[places[lost][alike]] = unit.code(kind, mine[alike])
        who[places[lost][~alike]] = unit.code(kind, unit.groups)
