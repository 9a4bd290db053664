"""The events of a driver: counted, kept for a while, and sent to listeners.

Seven kinds of events. HIT and MISS are what the cache said to ``Driver.compile``; COMPILE is a pipeline made, of saved code or
by the Vulkan driver; DISPATCH is work that was run or submitted; EVICT is entries that the cache removed to keep within its
bounds; FAILURE is a compile, a call, a bind or a run that raised; FETCH is what came of asking the store that machines share.
Of each kind there is a count and a sum of times, and the last 256 events are kept whole.

A listener is called on the thread that caused the event (of FETCH the one that speaks to the store), and should return soon.
One that raises is taken off and logged: what watches the work never stops it. Log records go to loggers below ``vyre_driver``,
which has a NullHandler.
"""

from __future__ import annotations

import contextlib
import enum
import logging
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

from vyre_driver.display.line import count, one_line
from vyre_driver.errors import InvalidInput, VyreError
from vyre_driver.telemetry._counters import Counters, Replays

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from vyre_driver.telemetry._counters import Parts

_LOG = logging.getLogger("vyre_driver.telemetry.events")
logging.getLogger("vyre_driver").addHandler(logging.NullHandler())


class EventKind(enum.Enum):
    """What happened."""

    COMPILE = "compile"
    HIT = "hit"
    MISS = "miss"
    DISPATCH = "dispatch"
    EVICT = "evict"
    FAILURE = "failure"
    FETCH = "fetch"


_REPORTED = "_is_reported"  # the attribute of an error that was already reported, on its way through several layers
_KINDS = tuple(EventKind)
_DISPATCH, _FAILURE = _KINDS.index(EventKind.DISPATCH), _KINDS.index(EventKind.FAILURE)


@dataclass(frozen=True, slots=True)
class Failure:
    """What failed, COMPILE or DISPATCH, and with which error: its stable code, 0 for a foreign one, and its class."""

    operation: EventKind
    code: int
    error: str


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened.

    ``ended_ns`` is when, in ns since 1970 by the system's clock, and ``duration_ns`` how long it took: None for work that was
    submitted and not waited for. ``key`` is the pipeline's key in hex, None where there is none or several. ``count`` is how
    many dispatches or entries; ``detail`` says in words what the kind does not. A FAILURE has its ``failure``.
    """

    kind: EventKind
    ended_ns: int
    duration_ns: int | None
    key: str | None
    count: int
    detail: str
    failure: Failure | None = None


class Listener(Protocol):
    """What receives events; a plain function may do so too."""

    def on_event(self, event: Event) -> None:
        """Receive an event."""


AnyListener: TypeAlias = "Listener | Callable[[Event], object]"


class Events:
    """The events of one driver. May be used from several threads."""

    def __init__(self, listeners: Iterable[AnyListener] = ()) -> None:
        """Start with nothing."""
        self._tally = Counters(len(_KINDS))
        self._listeners: tuple[AnyListener, ...] = ()
        self._lock = threading.RLock()  # of the listeners, which a finalizer may take off; the tally needs none
        self.listeners_dropped = 0
        self._failures: dict[tuple[EventKind, int], int] = {}
        self._set_listeners(tuple(listeners))

    def __repr__(self) -> str:
        """Return how many there were of each kind as one line."""
        found = [f"{kind.value} {number}" for kind, number in self.counts().items() if number]
        return one_line("Events", *found or ["none yet"], count(len(self._listeners), "listener"))

    def emit(
        self, kind: EventKind, duration_ns: int | None = None, key: str | None = None, count: int = 1, detail: str = ""
    ) -> None:
        """Count an event that has just ended, keep it, call the listeners, and log it."""
        self._tally.add(_KINDS.index(kind), duration_ns, key, count, detail)
        _LOG.debug("%s %s: %s", kind.value, key, detail)

    def dispatched(self, duration_ns: int | None, key: str | None, count: int = 1, detail: str = "") -> None:
        """Do as ``emit`` for dispatches, which are not logged."""
        self._tally.add(_DISPATCH, duration_ns, key, count, detail)

    def replays(self, key: str | None) -> Replays:
        """Return an object that records dispatches of one pipeline, as ``dispatched`` does and faster."""
        return Replays(self._tally, _DISPATCH, key)

    def failed(self, operation: EventKind, error: Exception, duration_ns: int | None = None, key: str | None = None) -> None:
        """Count an error that is about to reach the caller, keep it, call the listeners, and log it; each once."""
        if getattr(error, _REPORTED, False):
            return
        with contextlib.suppress(AttributeError):  # an error without attributes of its own
            setattr(error, _REPORTED, True)
        code = error.code if isinstance(error, VyreError) else 0
        with self._lock:
            self._failures[operation, code] = self._failures.get((operation, code), 0) + 1
        failure = Failure(operation, code, type(error).__name__)
        problem = error.problem if isinstance(error, VyreError) else str(error)
        self._tally.add(_FAILURE, duration_ns, key, 1, (failure, problem))
        what = operation.value if key is None else f"{operation.value} {key}"  # there is no key before all is proven
        _LOG.warning("%s failed: %s %s: %s", what, failure.error, code, problem)

    def evicted(self, entries: int, freed_bytes: int) -> None:
        """Count entries that the cache removed, and the allocated bytes that this freed."""
        self.emit(EventKind.EVICT, count=entries, detail=f"{freed_bytes} bytes freed")

    def add_listener(self, listener: AnyListener) -> None:
        """Send every event from now on to a listener: a function, or an object with a method ``on_event``.

        Raises
        ------
        InvalidInput
            If it is neither.
        """
        if isinstance(listener, type) or not callable(getattr(listener, "on_event", listener)):
            what = f"the class {listener.__name__}" if isinstance(listener, type) else f"of type {type(listener).__name__}"
            raise InvalidInput(
                f"a listener is {what}, which cannot be called with an event",
                fix="pass a function of one argument, or an object with a method on_event",
            )
        with self._lock:
            self._set_listeners((*self._listeners, listener))

    def remove_listener(self, listener: AnyListener) -> None:
        """Remove a listener; one that was never added is ignored."""
        with self._lock:  # a method of an object is another object each time
            self._set_listeners(tuple(one for one in self._listeners if one is not listener and one != listener))

    def recent(self) -> tuple[Event, ...]:
        """Return the last events, at most 256, the latest one at the end."""
        return tuple([_event(parts) for parts in self._tally.recent()])

    def counts(self) -> dict[EventKind, int]:
        """Return how many of each kind there were: dispatches one by one, also of a batch, and entries of an eviction."""
        return dict(zip(_KINDS, self._tally.counts(), strict=True))

    def total_ns(self) -> dict[EventKind, int]:
        """Return how many nanoseconds those of each kind took that were timed."""
        return dict(zip(_KINDS, self._tally.total_ns(), strict=True))

    def failures(self) -> dict[tuple[EventKind, int], int]:
        """Return how many failures there were by what failed, COMPILE or DISPATCH, and the error's code."""
        with self._lock:
            return dict(self._failures)

    def _set_listeners(self, listeners: tuple[AnyListener, ...]) -> None:
        self._listeners = listeners
        self._tally.hear = self._report if listeners else None

    def _report(self, parts: Parts) -> None:
        event = _event(parts)
        for listener in self._listeners:
            try:
                getattr(listener, "on_event", listener)(event)  # type: ignore[operator] # seen to be by add_listener
            except Exception:  # noqa: BLE001 -- whatever it raises, the work goes on
                self.listeners_dropped += 1
                self.remove_listener(listener)
                _LOG.exception("a listener raised, and is removed")


def _event(parts: Parts) -> Event:
    kind, ended_ns, duration_ns, key, count, detail = parts
    if kind == _FAILURE:
        failure, problem = detail
        return Event(EventKind.FAILURE, ended_ns, duration_ns, key, count, problem, failure)
    return Event(_KINDS[kind], ended_ns, duration_ns, key, count, detail)
