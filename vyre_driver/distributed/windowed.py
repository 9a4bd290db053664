"""Many calls, of which some at a time are under way; their results in the order of the calls, and how far they have come."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections import deque
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
from distributed import wait

from vyre_driver.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from vyre_driver.distributed.futures import FleetFuture

_LEAST_DONE = 10
_TIMES_MEDIAN = 3.0
_MOST_TWINS = 0.05
_LEAST_TWINS = 2  # a worker has two threads: when it is slow, one call waits for the device behind the other


class Hedging:
    """Which of the calls under way are late. Times are in seconds, by any clock that does not go back.

    Once 10 calls have ended, and they are half of those begun or more, a call that takes more than 3 times their median is
    late. One in twenty of the calls begun may be hedged, and two in all cases.

    Source: the rule of backup tasks that Cubed uses for its array tasks, with a bound on how many there are.
    """

    def __init__(self) -> None:
        """Begin without calls."""
        self.begun = self.hedged = 0
        self._taken: list[float] = []

    def ended(self, seconds: float) -> None:
        """Learn from a call that has ended."""
        self._taken.append(seconds)

    def is_late(self, seconds: float) -> bool:
        """Return whether a call that has been under way for so long should be begun once more."""
        done = len(self._taken)
        if done < _LEAST_DONE or done * 2 < self.begun or self.hedged >= max(_LEAST_TWINS, int(self.begun * _MOST_TWINS)):
            return False
        return seconds > _TIMES_MEDIAN * median(self._taken)


_LOOKS_EVERY_S, _ASKS_EVERY_S = 0.02, 1.0
_READS_S, _READS_BYTES = 0.005, 1 << 20  # of calls that are sent in one message
_FETCHED = 8
_END = object()
_AHEAD_BYTES = 256 << 20  # of arrays that lie with the scheduler while a result is late


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
    nbytes: int
    began: float
    futures: list[FleetFuture] = field(default_factory=list)
    took: float | None = None
    fetched: list[Any] = field(default_factory=list)

    @property
    def is_settled(self) -> bool:
        """Whether one of its runs has a result, or all have failed."""
        states = [one.status for one in self.futures]
        return "finished" in states or "pending" not in states

    def best(self) -> FleetFuture:
        """Return the run that has a result, else the first."""
        return next((one for one in self.futures if one.status == "finished"), self.futures[0])


def _wait(futures: list[FleetFuture], seconds: float) -> None:
    """Wait until one of the futures is done, so many seconds at most."""
    with contextlib.suppress(TimeoutError, asyncio.TimeoutError, CancelledError):
        wait(futures, timeout=seconds, return_when="FIRST_COMPLETED")


@dataclass(slots=True)
class WindowedCalls:
    """Submits calls and gives their results.

    ``submit(calls, avoid)`` begins some at once, not where the future ``avoid`` runs; ``window`` gives how many may be under
    way. ``ahead`` is how many times as many may have been begun while those that have ended wait for one before them;
    ``gather`` fetches several results.
    """

    submit: Callable[[list[tuple[object, ...]], FleetFuture | None], Sequence[FleetFuture]]
    window: Callable[[], int]
    gather: Callable[[list[FleetFuture]], list[Any]]
    window_bytes: int | None = None
    ahead: int = 1
    hedging: Hedging | None = None
    keep: bool = False
    on_progress: Callable[[FleetProgress], object] | None = None
    wait: Callable[[list[FleetFuture], float], None] = _wait
    _flights: deque[_Flight] = field(default_factory=deque)
    _waiting: Iterator[Sequence[object]] = field(default_factory=lambda: iter(()))
    _is_more: bool = True
    _known: int = 1
    _asks_at: float = 0.0

    def results(self, calls: Iterable[Sequence[object]]) -> Iterator[Any]:
        """Yield the result of each call, or its future with ``keep``; what was begun and nobody waits for is cancelled."""
        began, done = time.monotonic(), 0
        self._waiting = iter(calls)
        try:
            while True:
                self._fill()
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

    def _fill(self) -> None:
        """Begin calls while there is room, once a quarter of the window is free: one message has all that are read quickly."""
        window = self._window()
        room = self._room(window)
        if self._flights and room < window // 4:
            return
        while self._is_more and room > 0:
            # The first quarter goes by itself: workers begin while the rest is on its way.
            batch = self._read(room if self._flights else -(-room // 4))
            room -= len(batch)
            if not batch:
                return
            found = self.submit([one.arrays for one in batch], None)
            for flight, future in zip(batch, found, strict=True):
                flight.futures.append(future)
            self._flights.extend(batch)
            if self.hedging is not None:
                self.hedging.begun += len(batch)

    def _window(self) -> int:
        """Return the window, asked for once a second: workers come and go, and each question is one to the scheduler."""
        now = time.monotonic()
        if now >= self._asks_at:
            self._known, self._asks_at = self.window(), now + _ASKS_EVERY_S
        return self._known

    def _room(self, window: int) -> int:
        """Return how many calls may be begun."""
        begun = len(self._flights)
        if begun >= window and sum(one.nbytes for one in self._flights) >= _AHEAD_BYTES:
            return 0
        under_way = begun if begun < window or self.ahead == 1 else sum(not one.is_settled for one in self._flights)
        return max(min(window - under_way, window * self.ahead - begun), int(not self._flights))

    def _read(self, most: int) -> list[_Flight]:
        """Read some calls; fewer where that takes long, or they are large."""
        ends, batch, nbytes = time.monotonic() + _READS_S, list[_Flight](), 0
        under_way = sum(one.nbytes for one in self._flights)
        while len(batch) < most and nbytes < _READS_BYTES and (not batch or time.monotonic() < ends):
            if self.window_bytes is not None and (self._flights or batch) and under_way + nbytes >= self.window_bytes:
                break
            arrays = next(self._waiting, _END)
            if arrays is _END:
                self._is_more = False
                break
            batch.append(_flight(arrays))
            nbytes += batch[-1].nbytes
        return batch

    def _first(self) -> Any:  # noqa: ANN401 -- a result
        """Wait for the call that was begun first, and return its result."""
        flight = self._flights[0]
        self._look()
        while not flight.is_settled:
            self.wait(flight.futures, _LOOKS_EVERY_S)
            self._look()
            if self.ahead > 1 and not flight.is_settled:
                self._fill()
        future = flight.best()
        if not self.keep and not flight.fetched:
            self._fetch()
        result = future if self.keep else flight.fetched[0] if flight.fetched else future.result()
        self._flights.popleft()
        for other in flight.futures:
            if other is not future:
                other.cancel()
        return result

    def _fetch(self) -> None:
        """Fetch results of calls that were begun first and have ended, several at once; an error is left to ``result()``."""
        ready = list(
            itertools.takewhile(lambda one: one.best().status == "finished", itertools.islice(self._flights, _FETCHED))
        )
        if len(ready) > 1:
            with contextlib.suppress(Exception):
                found = self.gather([one.best() for one in ready])
                for flight, result in zip(ready, found, strict=True):
                    flight.fetched = [result]

    def _look(self) -> None:
        """Begin calls that are late once more."""
        hedging, now = self.hedging, time.monotonic()
        if hedging is None:
            return
        for flight in self._flights:
            if flight.took is None and flight.is_settled:
                flight.took = now - flight.began
                hedging.ended(flight.took)
            elif flight.took is None and len(flight.futures) == 1 and hedging.is_late(now - flight.began):
                hedging.hedged += 1
                flight.futures += self.submit([flight.arrays], flight.futures[0])


def _flight(arrays: object) -> _Flight:
    if not isinstance(arrays, (tuple, list)):
        raise InvalidInput(
            f"a call of map is of type {type(arrays).__name__}, and each is a tuple of arrays",
            fix="give (array,) for a kernel of one array",
        )
    nbytes = sum(one.nbytes for one in arrays if isinstance(one, np.ndarray))
    return _Flight(tuple(arrays), nbytes, time.monotonic())


@contextmanager
def progress(what: str, of: int | None = None) -> Iterator[Callable[..., None]]:
    """Show a bar while the block runs, on a terminal's standard error or in a notebook; elsewhere nothing.

    The block gets what ``FleetPool.map`` and ``store_regions`` take as ``on_progress``.

    Parameters
    ----------
    what
        The name of the work, as the bar shows it.
    of
        How many calls there are; None where that is not known. ``store_regions`` says it itself.
    """
    from rich.console import Console  # late: most programs show no progress
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not (console.is_terminal or console.is_jupyter)) as bars:
        task = bars.add_task(what, total=of)

        def told(now: FleetProgress | int, count: int | None = of) -> None:
            bars.update(task, completed=now.done if isinstance(now, FleetProgress) else now, total=count)

        yield told
