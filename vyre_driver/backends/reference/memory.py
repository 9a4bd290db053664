"""The buffers of a program: loads, stores and atomics of many invocations at once.

A load out of range gives zero, a store nothing, an atomic 0 and no effect.

Source: spec item 1.7, memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_driver.backends.reference.atomics import commuting_kind, updated, updated_unused
from vyre_driver.backends.reference.order import AccessLog, OrderMatters, RaceLog, stores_of_two
from vyre_driver.backends.reference.values import layout_of, spread
from vyre_driver.ir.dtypes import DataType
from vyre_driver.ir.operators import AtomicOp

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vyre_driver.backends.reference.invocations import InvocationBatch
    from vyre_driver.backends.reference.values import Values

    Places = NDArray[np.int64]


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
