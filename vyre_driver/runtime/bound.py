"""A kernel bound to resident buffers: recorded once, run or submitted again and again."""

from __future__ import annotations

import functools
import itertools
import weakref
from typing import TYPE_CHECKING

from vyre_driver.display.line import one_line
from vyre_driver.kompute.submission import record_alone
from vyre_driver.process.copies import refuse_copies
from vyre_driver.runtime.futures import DispatchFuture
from vyre_driver.runtime.recordings import Recordings
from vyre_driver.telemetry.events import EventKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vyre_driver.binding.plan import BindingPlan
    from vyre_driver.kompute.buffer import Buffer, Lifetime
    from vyre_driver.kompute.deadline import Deadline
    from vyre_driver.kompute.pipeline import BoundPipeline
    from vyre_driver.kompute.submission import NoDispatch, Span
    from vyre_driver.telemetry.events import Events

_MAX_RECENT = 32


class Observed:
    """How the dispatches of one pipeline are recorded among a driver's events, and named in messages."""

    __slots__ = ("failed", "replays", "what")

    def __init__(self, events: Events, key: str) -> None:
        """Record under this key of the cache."""
        self.what = f"kernel {key[:16]}"
        self.replays = events.replays(key)
        self.failed = functools.partial(events.failed, EventKind.DISPATCH, key=key)


class BoundKernel:
    """A kernel on resident buffers, recorded once. Their memory is held as long as it lives."""

    __slots__ = ("__weakref__", "_observed", "_plan", "_recordings", "_spans", "_submission", "pipeline", "push_words")

    def __init__(
        self,
        pipeline: BoundPipeline | NoDispatch,
        plan: BindingPlan,
        push_words: tuple[int, ...],
        buffers: Sequence[Buffer],
        observed: Observed,
    ) -> None:
        """Record it; made by ``Kernel.bind``."""
        self.pipeline = pipeline
        self.push_words = push_words
        self._plan = plan
        self._spans = [buffer.span for buffer in buffers]
        self._recordings = Recordings(functools.partial(record_alone, pipeline, push_words), "this kernel")
        self._submission = self._recordings.first
        self._observed = observed

    @property
    def reads(self) -> frozenset[Span]:
        """The bytes of memory that it reads, views apart."""
        both = zip(self._spans, self._plan.descriptors, strict=True)
        return frozenset(span for span, binding in both if binding.role.consumes_input)

    @property
    def writes(self) -> frozenset[Span]:
        """The bytes of memory that it writes."""
        both = zip(self._spans, self._plan.descriptors, strict=True)
        return frozenset(span for span, binding in both if binding.role.produces_output)

    __reduce_ex__ = refuse_copies

    def __repr__(self) -> str:
        """Return which kernel it is of, on one line."""
        return one_line("BoundKernel", f"of {self._observed.what}")

    def run(self, timeout: float | None = None) -> None:
        """Run it and wait, ``timeout`` seconds with an earlier run of it that goes on; raises as ``DispatchFuture.result``."""
        replays = self._observed.replays
        began = replays.now()
        try:
            self._submission.run(timeout)
        except Exception as error:
            self._observed.failed(error, replays.now() - began)
            raise
        replays.ended(began)

    def execute(self, timeout: float | Deadline | None) -> None:
        """Run it and wait as a part of a call, which reports it itself; raises as ``run``."""
        self._submission.run(timeout)

    def submit(self, *, block: bool | None = None) -> DispatchFuture:
        """Hand the work to the device and return at once, also while earlier submissions of it are under way.

        They run one after the other, 64 of them at most. With ``block`` the 65th waits until the first has ended, without it
        raises; None waits where no event loop of asyncio runs on this thread, and raises where one does.

        Raises
        ------
        LimitExceeded
            If 64 are under way, and this is not to wait.
        InvalidInput
            If ``block`` is not a bool or None.
        DeviceLost
            If the device was lost.
        DispatchFailed
            If it cannot be handed over.
        """
        observed = self._observed
        try:
            submission, generation = self._recordings.submit(block)
            future = DispatchFuture(submission, generation, observed.failed, observed.what)
        except Exception as error:
            observed.failed(error)
            raise
        observed.replays.handed_over()
        return future


class RecentBindings:
    """The bound kernels that one kernel made last, found again by buffers, grid and push constants.

    An entry goes with the first of its buffers, so that none holds memory that its owner has let go.
    """

    def __init__(self) -> None:
        """Remember nothing."""
        # No lock: a garbage collection, which may come anywhere, ends lifetimes. Each step is one atomic operation of a dict,
        # and what an interrupt or another thread leaves in one of the two alone is removed by the next ``remember``.
        self._entries: dict[object, tuple[int, list[weakref.ref[object]]]] = {}
        self._bound: dict[int, BoundKernel] = {}  # by the number in the entry
        self._numbers = itertools.count()

    def find(self, key: object) -> BoundKernel | None:
        """Return the bound kernel of a key, None if it is not remembered."""
        entry = self._entries.pop(key, None)
        bound = None if entry is None else self._bound.get(entry[0])
        if entry is not None and bound is not None:
            self._entries.setdefault(key, entry)  # as the one that was used last
        return bound

    def remember(self, key: object, bound: BoundKernel, lifetimes: Sequence[Lifetime]) -> None:
        """Keep a bound kernel until one of its buffers is closed or collected, or others push it out.

        ``lifetimes`` are those of the buffers from before they were bound, and held since: that of a buffer closed meanwhile
        ends with the caller's hold on it, and the entry with it.
        """
        number = next(self._numbers)
        self._bound[number] = bound
        # The end of a lifetime runs no bytecode of ours, in which Python would raise an interrupt only to print and lose it.
        # What it empties is not the dict of the references, which would then hold itself.
        drop = functools.partial(self._bound.pop, number)  # called with the reference, which pop returns where nothing is left
        self._entries[key] = number, [weakref.ref(lifetime, drop) for lifetime in lifetimes]
        if len(self._bound) != len(self._entries):
            self._forget_halves()
        for oldest in list(self._entries)[: max(0, len(self._entries) - _MAX_RECENT)]:
            self._bound.pop(self._entries.pop(oldest, _NOTHING)[0], None)

    def _forget_halves(self) -> None:
        """Forget entries whose bound kernel went, and bound kernels whose entry did."""
        entries = list(self._entries.items())
        for key, (number, _) in entries:
            if number not in self._bound:
                self._entries.pop(key, None)
        for number in set(self._bound).difference([number for _, (number, _) in entries]):
            self._bound.pop(number, None)


_NOTHING: tuple[int, list[weakref.ref[object]]] = (-1, [])
