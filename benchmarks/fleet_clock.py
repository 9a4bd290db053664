"""Simulated time: actors that wait for each other, and a clock that goes on to the next event when all of them wait.

Actors are threads of which one at a time runs, so the driver's own code runs in them as it is. Nothing waits in real time.
"""

from __future__ import annotations

import heapq
import itertools
import threading
from typing import TYPE_CHECKING

from vyre_driver.process.clock import Clock

if TYPE_CHECKING:
    from collections.abc import Callable

_STACK_BYTES = 256 << 10
_TICK_S = 1e-6  # so that who waits for a difference of times does not wait for ever for what rounding leaves


class _Ended(SystemExit):
    """Ends an actor that still waits when the simulation is over."""


class _Actor:
    def __init__(self) -> None:
        self.turn = threading.Lock()
        self.turn.acquire()
        self.waits = 0  # how often it has waited: an event of an earlier wait is none any more


class Simulation(Clock):
    """The clock of a simulation. ``start`` adds actors, ``run`` runs them until those that count have ended."""

    def __init__(self) -> None:
        """Begin at 0 s with nobody."""
        self._time = 0.0
        self._events: list[tuple[float, int, _Actor, int]] = []
        self._order = itertools.count()
        self._running = self._main = _Actor()
        self._counting = 0
        self._actors: list[tuple[_Actor, threading.Thread]] = []
        self._is_over = False
        self._error: BaseException | None = None

    def now(self) -> float:
        """Return the simulated seconds since the beginning."""
        return self._time

    def sleep(self, seconds: float) -> None:
        """Have others go on for so many seconds."""
        self._add(self._running, seconds)
        self._next()

    def condition(self) -> SimulatedCondition:
        """Return a condition that is waited for by this clock."""
        return SimulatedCondition(self)

    def start(self, act: Callable[[], object], *, after_s: float = 0.0, counts: bool = True) -> None:
        """Add an actor that begins in so many seconds; those that do not count are ended when all others have."""
        actor = _Actor()
        self._counting += counts

        def body() -> None:
            actor.turn.acquire()
            if self._is_over:  # before its time came
                return
            try:
                act()
            except _Ended:
                return
            except BaseException as error:  # noqa: BLE001 -- raised by run
                self._error, self._counting = error, counts
            self._counting -= counts
            self._next(is_ending=True)

        thread = threading.Thread(target=body, daemon=True)
        self._actors.append((actor, thread))
        thread.start()
        self._add(actor, after_s)

    def run(self) -> None:
        """Return when all actors that count have ended; raises what one of them raised."""
        before = threading.stack_size(_STACK_BYTES)
        try:
            self._next()
        finally:
            threading.stack_size(before)
            self._is_over = True
            for actor, thread in self._actors:
                if thread.is_alive():
                    actor.turn.release()
                    thread.join()
        if self._error is not None:
            raise self._error

    def wait(self, seconds: float | None) -> _Actor:
        """Wait until ``wake`` or, unless None, for so many seconds; returns the actor that waited."""
        actor = self._running
        if seconds is not None:
            self._add(actor, seconds)
        self._next()
        return actor

    @property
    def running(self) -> tuple[_Actor, int]:
        """The actor that runs, and its next wait: what ``wake`` takes."""
        return self._running, self._running.waits

    def wake(self, waiting: tuple[_Actor, int]) -> None:
        """Have an actor go on now, if it is in that wait still."""
        actor, waits = waiting
        heapq.heappush(self._events, (self._time, next(self._order), actor, waits))

    def _add(self, actor: _Actor, seconds: float) -> None:
        heapq.heappush(self._events, (self._time + max(_TICK_S, seconds), next(self._order), actor, actor.waits))

    def _next(self, *, is_ending: bool = False) -> None:
        """Go on to the next event, and return when it is this actor's turn again."""
        me = self._running
        found = self._main
        while self._counting and self._events:
            at, _, actor, waits = heapq.heappop(self._events)
            if actor.waits == waits:
                self._time, found = at, actor
                break
        found.waits += 1
        if found is me and not is_ending:
            return
        self._running = found
        found.turn.release()
        if not is_ending:
            me.turn.acquire()
            if self._is_over and me is not self._main:
                raise _Ended


class SimulatedCondition:
    """As ``threading.Condition``; its lock is none, since one actor runs at a time."""

    def __init__(self, simulation: Simulation) -> None:
        """Begin with nobody waiting."""
        self._simulation = simulation
        self._waiting: list[tuple[_Actor, int]] = []

    def __enter__(self) -> object:
        """Go on at once."""
        return self

    def __exit__(self, *raised: object) -> None:
        """Go on at once."""

    def wait(self, timeout: float | None = None) -> None:
        """Return when notified, or after so many seconds."""
        self._waiting.append(self._simulation.running)
        self._simulation.wait(timeout)

    def notify_all(self) -> None:
        """Wake all who wait."""
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            self._simulation.wake(one)
