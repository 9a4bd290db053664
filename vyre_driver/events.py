"""What a driver did: counted, kept for a while, and told to whoever listens.

Five kinds of events. HIT and MISS are what the cache said to ``Driver.compile``; COMPILE is a pipeline made, of saved code or
by the Vulkan driver; DISPATCH is work that was run or handed over; EVICT is entries that the cache removed to keep within its
bounds. Of each kind there is a count and a sum of times, and the last 256 events are kept whole.

A listener is called on the thread that caused the event, after the fact, and should return soon. One that raises is taken off
and logged: what watches the work never stops it. Log records go to loggers below ``vyre_driver``, which has a NullHandler.
"""

from __future__ import annotations

import enum
import logging
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from vyre_driver._tally import Replays, Tally

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vyre_driver._tally import Parts

_LOG = logging.getLogger("vyre_driver.events")
logging.getLogger("vyre_driver").addHandler(logging.NullHandler())


class EventKind(enum.Enum):
    """What happened."""

    COMPILE = "compile"
    HIT = "hit"
    MISS = "miss"
    DISPATCH = "dispatch"
    EVICT = "evict"


_KINDS = tuple(EventKind)
_DISPATCH = _KINDS.index(EventKind.DISPATCH)


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened.

    ``ended_ns`` is when, in ns since 1970 by the system's clock, and ``duration_ns`` how long it took: None for work that was
    handed over and not waited for. ``key`` is the pipeline's key in hex, None where there is none or several. ``count`` is how
    many dispatches or entries; ``detail`` says in words what the kind does not.
    """

    kind: EventKind
    ended_ns: int
    duration_ns: int | None
    key: str | None
    count: int
    detail: str


class Listener(Protocol):
    """What is told of events."""

    def on_event(self, event: Event) -> None:
        """Take notice of an event."""


class Events:
    """The events of one driver. May be used from several threads."""

    def __init__(self, listeners: Iterable[Listener] = ()) -> None:
        """Start with nothing."""
        self._tally = Tally(len(_KINDS))
        self._listeners: tuple[Listener, ...] = ()
        self._lock = threading.Lock()  # of the listeners; the tally needs none
        self.listeners_dropped = 0
        self._set_listeners(tuple(listeners))

    def emit(
        self, kind: EventKind, duration_ns: int | None = None, key: str | None = None, count: int = 1, detail: str = ""
    ) -> None:
        """Count an event that has just ended, keep it, tell the listeners, and log it."""
        self._tally.add(_KINDS.index(kind), duration_ns, key, count, detail)
        _LOG.debug("%s %s: %s", kind.value, key, detail)

    def dispatched(self, duration_ns: int | None, key: str | None, count: int = 1, detail: str = "") -> None:
        """Do as ``emit`` for dispatches, which are not logged."""
        self._tally.add(_DISPATCH, duration_ns, key, count, detail)

    def replays(self, key: str | None) -> Replays:
        """Return what tells of dispatches of one pipeline, of each as ``dispatched`` and faster."""
        return Replays(self._tally, _DISPATCH, key)

    def evicted(self, entries: int, freed_bytes: int) -> None:
        """Count entries that the cache removed, and the allocated bytes that this freed."""
        self.emit(EventKind.EVICT, count=entries, detail=f"{freed_bytes} bytes freed")

    def add_listener(self, listener: Listener) -> None:
        """Tell a listener of every event from now on."""
        with self._lock:
            self._set_listeners((*self._listeners, listener))

    def remove_listener(self, listener: Listener) -> None:
        """Tell it no more; one that was not told does not matter."""
        with self._lock:
            self._set_listeners(tuple(one for one in self._listeners if one is not listener))

    def recent(self) -> tuple[Event, ...]:
        """Return the last events, at most 256, the latest one at the end."""
        return tuple([_event(parts) for parts in self._tally.recent()])

    def counts(self) -> dict[EventKind, int]:
        """Return how many of each kind there were: dispatches one by one, also of a batch, and entries of an eviction."""
        return dict(zip(_KINDS, self._tally.counts(), strict=True))

    def total_ns(self) -> dict[EventKind, int]:
        """Return how many nanoseconds those of each kind took that were timed."""
        return dict(zip(_KINDS, self._tally.total_ns(), strict=True))

    def _set_listeners(self, listeners: tuple[Listener, ...]) -> None:
        self._listeners = listeners
        self._tally.hear = self._tell if listeners else None

    def _tell(self, parts: Parts) -> None:
        event = _event(parts)
        for listener in self._listeners:
            try:
                listener.on_event(event)
            except Exception:  # noqa: BLE001 -- whatever it raises, the work goes on
                self.listeners_dropped += 1
                self.remove_listener(listener)
                _LOG.exception("a listener raised, and is told no more")


def _event(parts: Parts) -> Event:
    return Event(_KINDS[parts[0]], *parts[1:])
