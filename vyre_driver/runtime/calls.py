"""The calls of one kernel that were proven, and the dispatches that were recorded for them."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from numpy import ndarray

from vyre_driver.binding._call_form import call_form, matches
from vyre_driver.process.call_lock import call_lock

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy import dtype

    from vyre_driver.binding._call_form import Form
    from vyre_driver.binding.structure import ResultForm
    from vyre_driver.kompute.array_dispatch import RecordedDispatch
    from vyre_driver.runtime.room import Room

_MAX_RECORDED = 8
_MAX_CALLS = 64


@dataclass(frozen=True, slots=True)
class ProvenCall:
    """A proven call: where each buffer's array stands among those given (None: it starts with zeros), and what comes back.

    ``counts`` are the element counts that a program reads; ``finishes`` says whether what is read is not yet what the caller
    gets, ``is_packed`` that contents were made of the caller's values, as they have to be each time. ``recorded`` is None of a
    call that runs nothing.
    """

    recorded: RecordedDispatch | None
    positions: tuple[int | None, ...]
    forms: tuple[ResultForm, ...]
    outputs: tuple[tuple[tuple[int, ...], dtype[Any]], ...]
    counts: tuple[int, ...]
    finishes: bool
    is_packed: bool


class ProvenCalls:
    """Calls by their form and dispatches by sizes and grid: what was not used for longest makes way, here and in ``Room``.

    ``lock`` is held while a dispatch is recorded, and while anything is forgotten.
    """

    def __init__(self, room: Room) -> None:
        """Know none; made by ``Kernel``."""
        self.lock = call_lock("the kernel")
        self._room = room
        self._calls: OrderedDict[object, ProvenCall] = OrderedDict()
        self._latest: tuple[Form, ProvenCall] | None = None  # of these, the one that was found last
        self._recorded: dict[object, RecordedDispatch] = {}
        room.add(self)

    def find(
        self,
        arrays: tuple[object, ...],
        groups: Sequence[int] | None,
        out_shapes: Mapping[str, int | tuple[int, ...]] | None,
        out: object = None,
    ) -> ProvenCall | None:
        """Return the call of this form that was proven before, None if there is none."""
        latest = self._latest
        if latest is not None and matches(latest[0], arrays, groups, out_shapes, ndarray, out):
            return latest[1]
        form = call_form(arrays, groups, out_shapes, ndarray, out)
        found = self._calls.get(form)
        if found is not None:
            self.remember(form, found)
        return found

    def remember(self, form: Form | None, call: ProvenCall) -> None:
        """Keep a proven call: another with arrays of the same types and shapes needs no proof."""
        with self.lock:
            if form is None or call.recorded not in self._recorded.values():
                return  # of an unusual form, or let go meanwhile by another thread
            self._calls[form] = call
            self._latest = form, call
            while len(self._calls) > _MAX_CALLS:
                self._calls.popitem(last=False)

    def recorded(self, shape: object, record: Callable[[], RecordedDispatch]) -> tuple[RecordedDispatch, bool]:
        """Return the recorded dispatch for these sizes and this grid, and whether it was made just now."""
        with self.lock:
            found = self._recorded.get(shape)
            if found is not None:
                return found, False
            if len(self._recorded) >= _MAX_RECORDED:
                self._drop(min(self._recorded, key=lambda shape: self._recorded[shape].used))
            made = record()
            self.use(made)
            self._recorded[shape] = made
            return made, True

    def use(self, recorded: RecordedDispatch) -> None:
        """Note that a dispatch is used now."""
        recorded.used = next(self._room.uses)

    def oldest_use(self) -> int | None:
        """Return when what was not called for longest was called, None if nothing is kept; as ``Keeper``."""
        return min([one.used for one in list(self._recorded.values())], default=None)

    def let_go(self) -> bool:
        """Drop the recorded dispatch and the buffers that were not called for longest and are idle; as ``Keeper``."""
        with self.lock.attempt() as is_mine:
            idle = [shape for shape, one in self._recorded.items() if one.is_idle()] if is_mine else []
            if idle:
                self._drop(min(idle, key=lambda shape: self._recorded[shape].used))
            return bool(idle)

    def _drop(self, shape: object) -> None:
        """Forget a recorded dispatch and the calls that were proven for it; under the lock."""
        dropped = self._recorded[shape]
        # It goes last: what an interrupt leaves half done is then a call to prove again, and no buffers in nobody's count.
        if self._latest is not None and self._latest[1].recorded is dropped:
            self._latest = None
        self._calls = OrderedDict((form, call) for form, call in self._calls.items() if call.recorded is not dropped)
        del self._recorded[shape]
