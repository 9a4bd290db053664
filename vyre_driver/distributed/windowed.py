"""Many calls, of which some at a time are under way; their results in the order of the calls."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_driver.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from vyre_driver.distributed.futures import FleetFuture
    from vyre_driver.distributed.hedging import Hedging

_LOOKS_EVERY_S = 0.02


@dataclass(frozen=True, slots=True)
class FleetProgress:
    """How far ``map`` has come: results given, calls under way, calls that were begun twice, and seconds."""

    done: int
    under_way: int
    hedged: int
    seconds: float


@dataclass(slots=True)
class _Flight:
    arrays: tuple[object, ...]
    futures: list[FleetFuture]
    began: float
    nbytes: int
    took: float | None = None


@dataclass(slots=True)
class WindowedCalls:
    """Submits calls and gives their results.

    ``submit(arrays, avoid)`` begins one, not where the future ``avoid`` runs; ``window`` gives how many may be under way.
    """

    submit: Callable[[tuple[object, ...], FleetFuture | None], FleetFuture]
    window: Callable[[], int]
    window_bytes: int | None = None
    hedging: Hedging | None = None
    keep: bool = False
    on_progress: Callable[[FleetProgress], object] | None = None
    _flights: deque[_Flight] = field(default_factory=deque)

    def results(self, calls: Iterable[Sequence[object]]) -> Iterator[Any]:
        """Yield the result of each call, or its future with ``keep``; what was begun and nobody waits for is cancelled."""
        began, waiting = time.monotonic(), iter(calls)
        done, is_more = 0, True
        try:
            while True:
                while is_more and self._has_room():
                    arrays = next(waiting, None)
                    is_more = arrays is not None
                    if arrays is not None:
                        self._begin(arrays)
                if not self._flights:
                    return
                found = self._first()
                done += 1
                if self.on_progress is not None:
                    hedged = 0 if self.hedging is None else self.hedging.hedged
                    self.on_progress(FleetProgress(done, len(self._flights), hedged, time.monotonic() - began))
                yield found
        finally:
            for flight in self._flights:
                for future in flight.futures:
                    future.cancel()

    def _has_room(self) -> bool:
        under_way = sum(one.nbytes for one in self._flights)
        is_within = self.window_bytes is None or under_way < self.window_bytes
        return not self._flights or (len(self._flights) < self.window() and is_within)

    def _begin(self, arrays: Sequence[object]) -> None:
        if not isinstance(arrays, (tuple, list)):
            raise InvalidInput(
                f"a call of map is of type {type(arrays).__name__}, and each is a tuple of arrays",
                fix="give (array,) for a kernel of one array",
            )
        given = tuple(arrays)
        flight = _Flight(
            given, [self.submit(given, None)], time.monotonic(), sum(np.asarray(one).nbytes for one in _arrays(given))
        )
        if self.hedging is not None:
            self.hedging.begun += 1
        self._flights.append(flight)

    def _first(self) -> Any:  # noqa: ANN401 -- a result
        """Wait for the call that was begun first, and return its result."""
        flight = self._flights[0]
        if self.hedging is not None:
            self._look(self.hedging)
            while not self._settled(flight):
                time.sleep(_LOOKS_EVERY_S)
                self._look(self.hedging)
        future = next((one for one in flight.futures if one.status == "finished"), flight.futures[0])
        result = future if self.keep else future.result()
        self._flights.popleft()
        for other in flight.futures:
            if other is not future:
                other.cancel()
        return result

    @staticmethod
    def _settled(flight: _Flight) -> bool:
        """Whether one of a call's runs has a result, or all have failed."""
        states = [one.status for one in flight.futures]
        return "finished" in states or "pending" not in states

    def _look(self, hedging: Hedging) -> None:
        now = time.monotonic()
        for flight in self._flights:
            if flight.took is None and self._settled(flight):
                flight.took = now - flight.began
                hedging.ended(flight.took)
            elif flight.took is None and len(flight.futures) == 1 and hedging.is_late(now - flight.began):
                hedging.hedged += 1
                flight.futures.append(self.submit(flight.arrays, flight.futures[0]))


def _arrays(given: Iterable[object]) -> Iterator[np.ndarray[Any, Any]]:
    return (one for one in given if isinstance(one, np.ndarray))
