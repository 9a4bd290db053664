"""Look for races: two invocations that use one element, one of them to write it, with no barrier between.

Atomics on both sides are none, and neither are stores of what is there already.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

import numpy as np

from vyre_driver.backends.reference.order import AccessLog, OrderMatters, Race
from vyre_driver.errors import DataRace

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vyre_driver.backends.reference.compiled import CompiledProgram
    from vyre_driver.backends.reference.invocations import InvocationBatch

    Places = NDArray[np.int64]

_FIRST, _LAST = 0, 1


class RaceLog(AccessLog):
    """Also remembers the first and the last invocation that stored to an element or loaded it, and in which statement."""

    def __init__(self, count: int) -> None:
        """Begin with ``count`` untouched elements."""
        super().__init__(count)
        self._lanes = {is_read: np.zeros((2, count), np.int32) for is_read in (False, True)}
        self._statements = {is_read: np.zeros((2, count), np.int32) for is_read in (False, True)}
        self._atomics = np.zeros(count, np.bool_)  # whether the last one to write was an atomic
        self._is_load = self._is_atomic = False  # the access at hand

    def reading(self, batch: InvocationBatch, lanes: Places, places: Places) -> None:
        """Note a load."""
        self._is_load, self._is_atomic = True, False
        before = self._read[places].copy()
        super().reading(batch, lanes, places)
        self._remember(batch, lanes, places, before, is_read=True)

    def writing(self, batch: InvocationBatch, lanes: Places, places: Places, kind: int = 0, *, is_atomic: bool = False) -> None:
        """Note a store or an atomic."""
        self._is_load, self._is_atomic = False, is_atomic
        before = self._written[places].copy()
        super().writing(batch, lanes, places, kind)
        self._remember(batch, lanes, places, before, is_read=False)
        self._atomics[places] = is_atomic

    def _remember(self, batch: InvocationBatch, lanes: Places, places: Places, before: Places, *, is_read: bool) -> None:
        """Keep who came last, and who came first since the last barrier."""
        who, where = self._lanes[is_read], self._statements[is_read]
        new = before != batch.phase[batch.group_of[lanes]]
        reverse = slice(None, None, -1)  # of several on one place the last assignment stays
        for at, taken, one in ((_FIRST, places[new][reverse], lanes[new][reverse]), (_LAST, places, lanes)):
            who[at, taken] = one
            where[at, taken] = batch.place

    def _clash(
        self, batch: InvocationBatch, lanes: Places, places: Places, clashes: NDArray[np.bool_], *, is_read: bool
    ) -> NoReturn:
        """Name the first two that meet, where they are not both atomics."""
        if self._is_atomic and not is_read:
            clashes = clashes & ~self._atomics[places]
        found = np.flatnonzero(clashes)
        if not len(found):
            raise OrderMatters
        lane, element = int(lanes[found[0]]), int(places[found[0]])
        who, where = self._lanes[is_read][:, element], self._statements[is_read][:, element]
        at = _LAST if who[_LAST] != lane else _FIRST
        other = None if who[at] == lane else int(who[at])
        now = "reads" if self._is_load else "changes" if self._is_atomic else "stores"
        before = "reads" if is_read else "changes" if self._atomics[element] else "stores"
        raise OrderMatters(Race(self, element, (lane, other), (batch.place, int(where[at])), (now, before)))


def stores_of_two(log: AccessLog, batch: InvocationBatch, lanes: Places, places: Places, differs: Places) -> OrderMatters:
    """Return that the first of ``differs`` and another invocation store different values to one element at once."""
    one = int(differs[0])
    last = int(np.flatnonzero(places == places[one])[-1])
    both = int(lanes[last]), int(lanes[one])
    return OrderMatters(Race(log, int(places[one]), both, (batch.place, batch.place), ("stores", "stores")))


def check_no_race(compiled: CompiledProgram, batch: InvocationBatch, race: Race | None) -> None:
    """Check that two accesses of a batch were not found to race; raises DataRace."""
    if race is None:
        return
    at = next(number for number, one in enumerate(batch.buffers) if one.log is race.log)
    buffer, element = compiled.buffers[at].name, race.element % max(batch.buffers[at].count, 1)
    later, earlier = (None if lane is None else batch.invocation(lane) for lane in race.lanes)
    who = "another one" if earlier is None else f"invocation {earlier}"
    raise DataRace(
        f"invocation {later} {race.does[0]} {buffer}[{element}], and {who} {race.does[1]} it with no barrier between",
        fix="let one of them store, use an atomic, or put a barrier between",
        buffer=buffer,
        element=element,
        invocations=(later, earlier),
        paths=tuple(compiled.paths[place] for place in race.places),
        does=race.does,
    )
