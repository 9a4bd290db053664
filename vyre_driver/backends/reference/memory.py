"""The buffers of a program: loads, stores and atomics of many invocations at once, and whether their order matters.

A load out of range gives zero, a store nothing, an atomic 0 and no effect.

The order that defines a program's result is: workgroup after workgroup, in each of them invocation after invocation, each up to
its next barrier. Running many in lockstep gives the same unless one of them touches an element that another one writes, with no
barrier of their workgroup between. Every buffer that is written keeps, for each element, its last writer and reader; an access
that breaks the rule raises :class:`OrderMatters`, and the invocations are then run apart.

Accesses of one step are in the right order already: a store's last value stays, atomics go invocation by invocation. An atomic
whose result is unused commutes with others of its kind.

A *code* is an invocation of the batch by its number; beyond these, ``kind * (groups + 1) + group`` for several of one
workgroup (``group == groups``: of several), where kind 0 is plain access and the others are kinds of atomics.

Races are looked for by the same accesses: two invocations use one element, one of them to write it, with no barrier between.
Atomics on both sides are none, and neither are stores of what is there already.

Source: spec item 1.7, memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np

from vyre_driver.backends.reference.atomics import commuting_kind, updated, updated_unused
from vyre_driver.backends.reference.values import layout_of, spread
from vyre_driver.errors import DataRace
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.operators import AtomicOp

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vyre_driver.backends.reference.dispatch import CompiledProgram
    from vyre_driver.backends.reference.invocations import InvocationBatch
    from vyre_driver.backends.reference.values import Values

    Places = NDArray[np.int64]

_PLAIN = 0


class Race(NamedTuple):
    """Two accesses of one element, the later one first.

    Each is a lane of a batch, None where it is one of several, the number of its statement, and what it does: it reads, stores
    or changes (an atomic).
    """

    log: AccessLog
    element: int
    lanes: tuple[int, int | None]
    places: tuple[int, int]
    does: tuple[str, str]

    @property
    def is_of_stores(self) -> bool:
        """Whether both store."""
        return self.does == ("stores", "stores")


class OrderMatters(Exception):
    """The result depends on the order in which invocations are run; never leaves the interpreter."""

    def __init__(self, race: Race | None = None) -> None:
        """Keep what met, where that is looked for."""
        super().__init__()
        self.race = race


class AccessLog:
    """The last to touch each element of a buffer, and in which phase (a number that grows with every batch and barrier)."""

    def __init__(self, count: int) -> None:
        """Begin with ``count`` untouched elements."""
        self._writers, self._written = np.zeros(count, np.int32), np.zeros(count, np.int64)
        self._readers, self._read = np.zeros(count, np.int32), np.zeros(count, np.int64)

    def fresh(self, batch: InvocationBatch, places: Places) -> Places:
        """Return the places that the batch has not written yet."""
        return places[self._written[places] < batch.began]

    def reading(self, batch: InvocationBatch, lanes: Places, places: Places) -> None:
        """Note a load."""
        groups = batch.group_of[lanes]
        self._check(batch, lanes, groups, places, self._writers, self._written)
        seen, when = self._readers[places], self._read[places]
        codes = lanes.astype(np.int32)
        live = when >= batch.since
        if live.any():
            same = _group_of(batch, seen) == groups
            now = when == batch.phase[groups]
            codes = np.where(live & ~same, batch.code(_PLAIN, batch.groups), codes)
            codes = np.where(live & same & now & (seen != lanes), batch.code(_PLAIN, groups), codes).astype(np.int32)
        _put(batch, self._readers, places, codes, groups, _PLAIN)
        self._read[places] = batch.phase[groups]

    def writing(
        self, batch: InvocationBatch, lanes: Places, places: Places, kind: int = _PLAIN, *, is_atomic: bool = False
    ) -> None:
        """Note a store or an atomic; one whose result is unused has a kind (1 and up)."""
        del is_atomic  # for those that look for races
        groups = batch.group_of[lanes]
        self._check(batch, lanes, groups, places, self._writers, self._written, kind)
        self._check(batch, lanes, groups, places, self._readers, self._read)
        codes = lanes.astype(np.int32)
        if kind:
            seen = self._writers[places]
            elsewhere = (self._written[places] >= batch.since) & (_group_of(batch, seen) != groups)
            codes = np.where(elsewhere, batch.code(kind, batch.groups), batch.code(kind, groups)).astype(np.int32)
        _put(batch, self._writers, places, codes, groups, kind)
        self._written[places] = batch.phase[groups]

    def _check(  # noqa: PLR0913 -- two of the log's four arrays, and who comes
        self,
        batch: InvocationBatch,
        lanes: Places,
        groups: Places,
        places: Places,
        who: NDArray[np.int32],
        when: NDArray[np.int64],
        kind: int = _PLAIN,
    ) -> None:
        """Raise if another invocation touched a place, with no barrier between; atomics of one kind may."""
        touched = when[places]
        live = touched >= batch.since
        if not live.any():
            return
        other = who[places]
        ordered = (_group_of(batch, other) == groups) & (touched != batch.phase[groups])
        clashes = live & (other != lanes) & ~ordered
        if kind:
            clashes &= (other < batch.count) | ((other - batch.count) // (batch.groups + 1) != kind)
        if clashes.any():
            self._clash(batch, lanes, places, clashes, is_read=who is self._readers)

    def _clash(
        self, batch: InvocationBatch, lanes: Places, places: Places, clashes: NDArray[np.bool_], *, is_read: bool
    ) -> NoReturn:
        """Say that the order matters; ``is_read`` where what was there before is a load."""
        del batch, lanes, places, clashes, is_read
        raise OrderMatters


def _group_of(batch: InvocationBatch, codes: NDArray[np.int32]) -> Places:
    own = batch.group_of[np.minimum(codes, batch.count - 1)]
    return np.where(codes < batch.count, own, (codes - batch.count) % (batch.groups + 1))


def _put(  # noqa: PLR0913 -- one of the log's arrays, and who comes
    batch: InvocationBatch, who: NDArray[np.int32], places: Places, codes: NDArray[np.int32], groups: Places, kind: int
) -> None:
    """Write codes; where several fall on one place, the code of several."""
    who[places] = codes
    lost = who[places] != codes
    if lost.any():
        mine, stayed = groups[lost], _group_of(batch, who[places[lost]])
        alike = mine == stayed
        who[places[lost][alike]] = batch.code(kind, mine[alike])
        who[places[lost][~alike]] = batch.code(kind, batch.groups)


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


class BufferMemory:
    """The memory of one buffer: ``count`` elements, so many for each workgroup of a batch, or for each invocation.

    With a ``log``, its accesses are held against the order, and what is overwritten is kept until the batch has run.
    """

    def __init__(  # noqa: PLR0913 -- what it is, and whose
        self,
        dtype: DataType,
        data: NDArray[Any],
        count: int,
        *,
        shared: bool,
        log: type[AccessLog] | None,
        local: bool = False,
    ) -> None:
        """Take elements as they lie in memory."""
        self.dtype = dtype
        self.data = data
        self.count = count
        self._is_bool = dtype == DataType.Bool
        self._shared = shared
        self._local = local
        self.log = None if log is None else log(len(data))
        self._overwritten: list[tuple[Places, NDArray[Any]]] = []

    @classmethod
    def zeroed(cls, dtype: DataType, count: int, groups: int, *, log: type[AccessLog] | None) -> BufferMemory:
        """Return workgroup memory for so many workgroups."""
        layout = layout_of(dtype)
        data = np.zeros((count * groups, *layout.shape), layout.dtype)
        return cls(dtype, data, count, shared=True, log=log)

    @classmethod
    def of_invocations(cls, dtype: DataType, count: int, invocations: int) -> BufferMemory:
        """Return memory of their own for so many invocations."""
        layout = layout_of(dtype)
        data = np.zeros((count * invocations, *layout.shape), layout.dtype)
        return cls(dtype, data, count, shared=True, log=None, local=True)

    def without_history(self) -> BufferMemory:
        """Return the same memory without the accesses noted so far: for the next of several dispatches."""
        log = None if self.log is None else type(self.log)
        return BufferMemory(self.dtype, self.data, self.count, shared=self._shared, log=log)

    @property
    def raw(self) -> NDArray[np.uint8]:
        """The bytes, to be written to."""
        return self.data.reshape(-1).view(np.uint8)

    def load(self, batch: InvocationBatch, index: Values) -> Values:
        """Return elements for the active invocations of a batch."""
        inside, all_inside, places = self._places(batch, index)
        if self.log is not None and batch.watched:
            lanes = spread(batch.lanes, batch.active_count)
            every = places if len(places) == len(lanes) else np.repeat(places, len(lanes))
            reached = slice(None) if all_inside else spread(inside, len(lanes))
            self.log.reading(batch, lanes[reached], every[reached])
        if all_inside:
            found = self.data[places]
        else:
            found = np.zeros((len(places), *self.data.shape[1:]), self.data.dtype)
            found[inside] = self.data[places[inside]]
        return found != 0 if self._is_bool else found

    def store(self, batch: InvocationBatch, index: Values, values: Values) -> None:
        """Write elements; of several on one place the last stays."""
        lanes, inside, places = self._reached(batch, index)
        values = spread(values, len(inside))[inside]
        if self.log is not None and batch.watched:
            self._keep(self.log, batch, places)
            self._log_store(self.log, batch, lanes, places, values)
        self.data[places] = values
        if batch.watched and not batch.stores_met:
            batch.stores_met = self.data[places].tobytes() != np.ascontiguousarray(values, self.data.dtype).tobytes()
            if batch.stores_met and isinstance(self.log, RaceLog):
                raise stores_of_two(self.log, batch, lanes, places, self._differing(places, values))

    def _log_store(self, log: AccessLog, batch: InvocationBatch, lanes: Places, places: Places, values: Values) -> None:
        """Note a store; where it may race, but stores what is there, only the order matters."""
        try:
            log.writing(batch, lanes, places)
        except OrderMatters as found:
            if found.race is not None and found.race.is_of_stores and not len(self._differing(places, values)):
                raise OrderMatters from None
            raise

    def _differing(self, places: Places, values: Values) -> Places:
        """Return which values are not what is in memory, bit for bit."""
        there, given = self.data[places], np.ascontiguousarray(values, self.data.dtype)
        if not len(places):
            return np.zeros(0, np.int64)
        both = (one.reshape(len(places), -1).view(np.uint8) for one in (there, given))
        return np.flatnonzero(np.not_equal(*both).any(axis=1))

    def atomic(  # noqa: PLR0913 -- the fields of an atomic
        self, batch: InvocationBatch, op: AtomicOp, index: Values, values: Values, expected: Values | None, *, is_used: bool
    ) -> Values:
        """Apply an atomic, and return what was there; zeros when it is unused."""
        lanes, inside, places = self._reached(batch, index)
        count = len(inside)
        result = np.zeros(count, np.uint32)
        values = spread(values, count)[inside]
        kind = 0 if is_used else commuting_kind(op, self.data)
        if self.log is not None and batch.watched:
            self._keep(self.log, batch, places)
            self.log.writing(batch, lanes, places, kind, is_atomic=True)
        if kind and updated_unused(self.data, op, places, values):
            return result
        if batch.watched and self.dtype == DataType.F32 and op is AtomicOp.ADD:
            batch.sums_met |= len(np.unique(places)) < len(places)
        wanted = None if expected is None else spread(expected, count)[inside]
        result[inside] = updated(self.data, op, places, values, wanted)
        return result

    def load_bytes(self, index: Values) -> Values:
        """Return the bytes from each index to the end."""
        found = np.empty(len(index), object)
        found[:] = [self.raw[place:].tobytes() for place in index.tolist()]
        return found

    def store_bytes(self, place: int, data: bytes) -> None:
        """Write bytes at a byte offset; those beyond the end are dropped."""
        room = self.raw[place : place + len(data)]
        room[:] = np.frombuffer(data, np.uint8)[: len(room)]

    def roll_back(self) -> None:
        """Undo what was written since :meth:`commit`."""
        for places, old in reversed(self._overwritten):
            self.data[places] = old
        self.commit()

    def commit(self) -> None:
        """Keep what was written: forget what it overwrote."""
        self._overwritten.clear()

    def _keep(self, log: AccessLog, batch: InvocationBatch, places: Places) -> None:
        """Keep what is about to be overwritten for the first time in this batch."""
        if not self._shared:
            fresh = log.fresh(batch, places)
            if len(fresh):
                self._overwritten.append((fresh, self.data[fresh]))

    def _places(self, batch: InvocationBatch, index: Values) -> tuple[NDArray[np.bool_], bool, Places]:
        """Return which are in range, whether all are, and the places in memory."""
        places = index.astype(np.int64)
        inside = places < self.count
        if self._local:
            lanes = batch.lanes
            places = spread(places, len(lanes)) + lanes * self.count
            inside = spread(inside, len(lanes))
        elif self._shared and batch.groups > 1:
            places = places + batch.group_of[batch.lanes] * self.count
            inside = spread(inside, len(places))
        return inside, bool(inside.all()), places

    def _reached(self, batch: InvocationBatch, index: Values) -> tuple[Places, Any, Places]:
        """Return the active invocations whose index is in range, which they are, and their places."""
        count = batch.active_count
        inside, all_inside, places = self._places(batch, index)
        places, lanes = spread(places, count), batch.lanes
        if all_inside:
            return lanes, np.ones(count, np.bool_), places
        inside = spread(inside, count)
        return lanes[inside], inside, places[inside]
