"""A kernel bound to resident buffers: recorded once, run or submitted again and again."""

from __future__ import annotations

import functools
import weakref
from typing import TYPE_CHECKING, Any

from vyre_driver.errors import DispatchTimeout
from vyre_driver.kompute.submission import Submission
from vyre_driver.telemetry.events import EventKind

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from vyre_driver.binding.plan import BindingPlan
    from vyre_driver.kompute.buffer import Buffer, Lifetime
    from vyre_driver.kompute.pipeline import BoundPipeline, NoDispatch
    from vyre_driver.telemetry.events import Events

_MAX_RECENT = 32
_MOST_RECORDINGS = 64


class BoundKernel:
    """A kernel on resident buffers, recorded once. Their memory is held as long as it lives."""

    def __init__(  # noqa: PLR0913 -- what it is made of
        self,
        pipeline: BoundPipeline | NoDispatch,
        plan: BindingPlan,
        push_words: tuple[int, ...],
        buffers: Sequence[Buffer],
        events: Events,
        key: str,
    ) -> None:
        """Record it; made by ``Kernel.bind``. ``events`` are told of each run of the pipeline of this key."""
        self.pipeline = pipeline
        self.push_words = push_words
        roles = [binding.role for binding in plan.descriptors]
        spans = [buffer.span for buffer in buffers]
        self.reads = frozenset(one for one, role in zip(spans, roles, strict=True) if role.consumes_input)
        self.writes = frozenset(one for one, role in zip(spans, roles, strict=True) if role.produces_output)
        self._recorded: list[Submission] = []
        self._submission = self._idle_recording()
        self._replays = events.replays(key)
        self._failed = functools.partial(events.failed, EventKind.DISPATCH, key=key)

    def run(self, timeout: float | None = None) -> None:
        """Run it and wait, ``timeout`` seconds with an earlier run of it that goes on; raises as ``DispatchFuture.result``."""
        began = self._replays.now()
        try:
            self._submission.run(timeout)
        except Exception as error:
            self._failed(error, self._replays.now() - began)
            raise
        self._replays.ended(began)

    def execute(self, timeout: float | None) -> None:
        """Run it and wait as a part of a call, which tells of it itself; raises as ``run``."""
        self._submission.run(timeout)

    def submit(self) -> DispatchFuture:
        """Hand the work to the device and return at once, also while earlier submissions of it are under way.

        They run one after the other. The 65th that is under way waits for the first to end: wait for futures before that, or
        call ``asyncio.to_thread(bound.submit)`` where an event loop must not stand still.
        """
        try:
            submission = self._idle_recording()
            future = DispatchFuture(submission, submission.submit(), self._failed)
        except Exception as error:
            self._failed(error)
            raise
        self._replays.handed_over()
        return future

    def _idle_recording(self) -> Submission:
        """Return a recording of which nothing runs, made now if need be: each can be handed over once at a time.

        Of ``_MOST_RECORDINGS`` that all run it is the one that was made first.
        """
        recorded = list(self._recorded)
        for one in recorded:
            if one.is_idle():
                return one
        if len(recorded) >= _MOST_RECORDINGS:
            return recorded[0]
        # It keeps the pipeline: a cycle with what is bound would keep the memory until garbage is collected.
        pipeline, device = self.pipeline, self.pipeline.device
        made = Submission(device, [[pipeline.dispatch(self.push_words)]], keep=pipeline, device_only=not device.shares_memory)
        self._recorded.append(made)
        return made


class RecentBindings:
    """The bound kernels that one kernel made last, found again by buffers, grid and push constants.

    An entry goes with the first of its buffers, so that none holds memory that its owner has let go.
    """

    def __init__(self) -> None:
        """Remember nothing."""
        # No lock: a garbage collection, which may come anywhere, empties entries. Each step is one atomic operation of a dict.
        self._entries: dict[object, tuple[dict[str, BoundKernel], list[weakref.ref[object]]]] = {}

    def find(self, key: object) -> BoundKernel | None:
        """Return the bound kernel of a key, None if it is not remembered; who asks holds the lifetimes in the key."""
        found = self._entries.pop(key, None)
        if found is None:
            return None
        self._entries[key] = found
        return found[0].get("bound")

    def remember(self, key: object, bound: BoundKernel, lifetimes: Sequence[Lifetime]) -> None:
        """Keep a bound kernel until one of its buffers is closed or collected, or others push it out.

        ``lifetimes`` are those that the key was made of, and held since: that of a buffer closed meanwhile ends with the
        caller's hold on it, and the entry with it.
        """
        # The end of a lifetime runs no bytecode of ours, in which Python would raise an interrupt only to print and lose it.
        # What it empties is not the dict of all entries, which would then hold itself.
        held = {"bound": bound}
        drop = functools.partial(held.pop, "bound")  # called with the reference, which pop returns where nothing is left
        self._entries[key] = held, [weakref.ref(lifetime, drop) for lifetime in lifetimes]
        emptied = [one for one, (still_held, _) in list(self._entries.items()) if not still_held]
        for gone in emptied:
            self._entries.pop(gone, None)
        for oldest in list(self._entries)[:-_MAX_RECENT]:
            self._entries.pop(oldest, None)


class DispatchFuture:
    """Work under way: ask it, wait for it, or await it."""

    def __init__(self, submission: Submission, generation: int, failed: Callable[[Exception], None]) -> None:
        """Made by ``BoundKernel.submit`` and ``Batch.submit``; ``failed`` is told of what the work failed with."""
        self._failed = failed
        self._submission = submission
        self._generation = generation

    def done(self) -> bool:
        """Whether the work has ended."""
        return self._submission.is_done(self._generation)

    def result(self, timeout: float | None = None) -> None:
        """Wait until the work has ended, at most ``timeout`` seconds; holds no lock of the interpreter meanwhile.

        Raises
        ------
        DispatchTimeout
            If it has not ended; it goes on.
        DispatchFailed
            What it failed with.
        DeviceLost
            What it failed with.
        """
        try:
            self._submission.wait(self._generation, timeout)
        except DispatchTimeout:  # nothing has failed: it may be asked again
            raise
        except Exception as error:
            self._failed(error)
            raise

    def __await__(self) -> Generator[Any, None, None]:
        """Wait in a thread of the event loop's executor."""
        import asyncio

        return asyncio.to_thread(self.result).__await__()
