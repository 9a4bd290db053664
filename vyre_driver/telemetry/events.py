"""The events of a driver: counted, kept for a while, and sent to listeners.

Nine kinds of events. HIT and MISS are what the cache said to ``Driver.compile``; COMPILE is a pipeline made, of saved code or
by the Vulkan driver; DISPATCH is work that was run or submitted; COMPLETE is the end of submitted work, once somebody has seen
it; TUNE is a search for the best constants; EVICT is entries that the cache removed to keep within its bounds; FAILURE is a
compile, a call, a bind, a run or a search that raised; FETCH is what came of asking the store that machines share. Of each kind
there is a count, a sum and a histogram of times, and the last 256 events are kept whole.

A listener is called on the thread that caused the event (of FETCH the one that speaks to the store), and should return soon.
One that raises is taken off and logged: what watches the work never stops it. Log records go to loggers below ``vyre_driver``,
which has a NullHandler.
"""

from __future__ import annotations

import contextlib
import enum
import inspect
import logging
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from vyre_driver.display.line import count, one_line
from vyre_driver.errors import InvalidInput, VyreError
from vyre_driver.telemetry._counters import Counters, Dispatches, KernelCounts
from vyre_driver.telemetry._timeline import Timeline

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from vyre_driver.telemetry._counters import Parts
    from vyre_driver.vulkan.devices import PhysicalDevice

_LOG = logging.getLogger("vyre_driver.telemetry.events")
logging.getLogger("vyre_driver").addHandler(logging.NullHandler())


class EventKind(enum.Enum):
    """What happened."""

    COMPILE = "compile"
    HIT = "hit"
    MISS = "miss"
    DISPATCH = "dispatch"
    COMPLETE = "complete"
    TUNE = "tune"
    EVICT = "evict"
    FAILURE = "failure"
    FETCH = "fetch"


_REPORTED = "_is_reported"  # the attribute of an error that was already reported, on its way through several layers
_KINDS = tuple(EventKind)
_DISPATCH, _COMPLETE, _FAILURE = map(_KINDS.index, (EventKind.DISPATCH, EventKind.COMPLETE, EventKind.FAILURE))
_MOST_KERNELS = 256  # that are counted by name; a label of Prometheus must not have any number of values
_OTHERS = "(others)"
_MOST_NAMED = 8


@dataclass(frozen=True, slots=True)
class Failure:
    """What failed, COMPILE, DISPATCH or TUNE, and with which error: its stable code, 0 for a foreign one, and its class."""

    operation: EventKind
    code: int
    error: str


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened.

    ``ended_ns`` is when, in ns since 1970 by the system's clock, and ``duration_ns`` how long it took: None for work that was
    submitted and not waited for, whose COMPLETE has it, from ``submit`` to when its end was seen. ``key`` is the pipeline's key
    in hex, None where there is none or several, and ``kernel`` its name, of a batch the names of its kernels. ``count`` is how
    many dispatches or entries; ``detail`` is the label of a dispatch, and of others says in words what the kind does not. A
    FAILURE has its ``failure``.
    """

    kind: EventKind
    ended_ns: int
    duration_ns: int | None
    key: str | None
    count: int
    detail: str
    failure: Failure | None = None
    kernel: str = ""


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
        self.timeline = self._tally.timeline = Timeline()
        """What is kept for a profile: nothing while there is none."""
        self._listeners: tuple[AnyListener, ...] = ()
        self._lock = threading.RLock()  # of the listeners, which a finalizer may take off; the tally needs none
        self.listeners_dropped = 0
        self._failures: dict[tuple[EventKind, int], int] = {}
        self._kernels: dict[str, KernelCounts] = {}
        self._set_listeners(tuple(listeners))

    def __repr__(self) -> str:
        """Return how many there were of each kind as one line."""
        found = [f"{kind.value} {number}" for kind, number in self.counts().items() if number]
        return one_line("Events", *found or ["none yet"], count(len(self._listeners), "listener"))

    def emit(  # noqa: PLR0913 -- the parts of an event
        self,
        kind: EventKind,
        duration_ns: int | None = None,
        key: str | None = None,
        count: int = 1,
        detail: str = "",
        kernel: str = "",
    ) -> None:
        """Count an event that has just ended, keep it, call the listeners, and log it."""
        self._tally.add(_KINDS.index(kind), duration_ns, (key, kernel), count, detail)
        _LOG.debug("%s %s: %s", kind.value, f"{kernel} {key}".strip(), detail)

    def dispatches(self, key: str | None, kernels: Sequence[str], label: str = "") -> Dispatches:
        """Return an object that records dispatches of these kernels as ``emit`` does, but faster, and not in the log."""
        names = list(dict.fromkeys(kernels))
        named = ", ".join(names[:_MOST_NAMED]) + ", ..." * (len(names) > _MOST_NAMED)
        counts = tuple([(self._counts_of(name), kernels.count(name)) for name in names])
        return Dispatches(self._tally, _DISPATCH, _COMPLETE, (key, named), counts, label)

    def _counts_of(self, name: str) -> KernelCounts:
        """Return the counts of the kernels of a name, those of all others where there are many names."""
        known = self._kernels
        name = name if name in known or len(known) < _MOST_KERNELS else _OTHERS
        return known.setdefault(name, KernelCounts(name))

    def kernels(self) -> tuple[KernelCounts, ...]:
        """Return what was done of the kernels of each name, those beyond 256 names as ``(others)``."""
        return tuple(self._kernels.values())

    def failed(
        self, operation: EventKind, error: Exception, duration_ns: int | None = None, key: str | None = None, kernel: str = ""
    ) -> None:
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
        self._tally.add(_FAILURE, duration_ns, (key, kernel), 1, (failure, problem))
        what = " ".join(filter(None, (operation.value, kernel, key)))  # neither is there before all is proven
        _LOG.warning("%s failed: %s %s: %s", what, failure.error, code, problem)

    @contextlib.contextmanager
    def timed(self, kind: EventKind, kernel: str) -> Iterator[None]:
        """Emit what the block does as an event of this kind; if it raises, as a failure of that."""
        began_ns = time.perf_counter_ns()
        try:
            yield
        except Exception as error:
            self.failed(kind, error, time.perf_counter_ns() - began_ns, kernel=kernel)
            raise
        self.emit(kind, time.perf_counter_ns() - began_ns, kernel=kernel)

    def evicted(self, entries: int, freed_bytes: int) -> None:
        """Count entries that the cache removed, and the allocated bytes that this freed."""
        self.emit(EventKind.EVICT, count=entries, detail=f"{freed_bytes} bytes freed")

    def add_listener(self, listener: AnyListener) -> None:
        """Send every event from now on to a listener: a function, or an object with a method ``on_event``.

        Raises
        ------
        InvalidInput
            If it is neither, cannot be called with one argument, or is a coroutine function, which nobody would await.
        """
        check_listener(listener)
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

    def histogram(self, kind: EventKind) -> tuple[int, ...]:
        """Return how many of a kind were timed, by how long they took: place n has those of at most 2 ** n ns.

        Those of place n took more than 2 ** (n - 1) ns, but for place 0; the last, 43, has all above 2 ** 42 ns, 73 minutes.
        """
        return tuple(self._tally.histogram(_KINDS.index(kind)))

    def failures(self) -> dict[tuple[EventKind, int], int]:
        """Return how many failures there were by what failed, COMPILE, DISPATCH or TUNE, and the error's code."""
        with self._lock:
            return dict(self._failures)

    def snapshot(self) -> dict[str, Any]:
        """Return all that is counted as plain data: times in ns, histograms as ``histogram`` has them, failures as rows."""
        counted = zip(self.counts().items(), self.total_ns().values(), strict=True)
        kinds = {
            kind.value: {"count": number, "total_ns": total_ns, "histogram": list(self.histogram(kind))}
            for (kind, number), total_ns in counted
        }
        failures = sorted([operation.value, code, number] for (operation, code), number in self.failures().items())
        kernels = [
            {"name": one.name, "dispatches": one.dispatches, "total_ns": one.total_ns, "device_ns": one.device_ns}
            for one in self.kernels()
        ]
        return {"kinds": kinds, "failures": failures, "kernels": kernels, "listeners_dropped": self.listeners_dropped}

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


def check_listener(listener: object) -> None:
    """Check that a listener can be called with an event; raises InvalidInput."""
    called = getattr(listener, "on_event", listener)
    if isinstance(listener, type) or not callable(called):
        what = f"the class {listener.__name__}" if isinstance(listener, type) else f"of type {type(listener).__name__}"
        raise InvalidInput(f"a listener is {what}, which cannot be called with an event", fix=_TAKES_ONE)
    name = getattr(called, "__qualname__", type(called).__name__)
    if inspect.iscoroutinefunction(called):
        fix = "pass a plain function; in it, loop.call_soon_threadsafe(...) hands the event to an event loop"
        raise InvalidInput(f"the listener {name} is a coroutine function, and nobody would await it", fix=fix)
    try:
        takes = inspect.signature(called, follow_wrapped=False)  # a wrapper is called, not what it wraps
    except (TypeError, ValueError):  # of a function that is written in C, which has none
        return
    try:
        takes.bind(None)
    except TypeError as error:
        takes = takes.replace(return_annotation=inspect.Signature.empty)
        raise InvalidInput(f"the listener {name}{takes} cannot be called with one event: {error}", fix=_TAKES_ONE) from None


_TAKES_ONE = "pass a function of one argument, or an object with a method on_event"


def _event(parts: Parts) -> Event:
    kind, ended_ns, duration_ns, subject, count, detail = parts
    key, kernel = subject
    if kind == _FAILURE:
        failure, problem = detail
        return Event(EventKind.FAILURE, ended_ns, duration_ns, key, count, problem, failure, kernel)
    return Event(_KINDS[kind], ended_ns, duration_ns, key, count, detail, None, kernel)


class ObservedDriver(Protocol):
    """A driver as telemetry looks at it: an object with events and counters of one device."""

    number: int
    device: PhysicalDevice
    events: Events

    @property
    def context(self) -> Any:  # noqa: ANN401 -- of a later stage, and of an isolated driver another one
        """The open device, and what is kept for it."""

    @property
    def is_closed(self) -> bool:
        """Whether it was closed."""
