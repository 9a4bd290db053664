"""A kernel bound to resident buffers: recorded once, run or submitted again and again."""

from __future__ import annotations

import asyncio
import functools
import weakref
from typing import TYPE_CHECKING, Any

from vyre_driver.backends.kompute.submission import Submission

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from vyre_driver._tally import Replays
    from vyre_driver.backends.kompute.pipeline import BoundPipeline
    from vyre_driver.backends.kompute.resident import Buffer
    from vyre_driver.binding import BindingPlan

_MAX_RECENT = 32


class BoundKernel:
    """A kernel on resident buffers, recorded once. Their memory is held as long as it lives."""

    def __init__(
        self,
        pipeline: BoundPipeline,
        plan: BindingPlan,
        push_words: tuple[int, ...],
        buffers: Sequence[Buffer],
        replays: Replays,
    ) -> None:
        """Record it; made by ``Kernel.bind``. ``replays`` is told of each run."""
        self.pipeline = pipeline
        self.push_words = push_words
        roles = [binding.role for binding in plan.descriptors]
        memory = [id(buffer.memory) for buffer in buffers]
        self.reads = frozenset(one for one, role in zip(memory, roles, strict=True) if role.consumes_input)
        self.writes = frozenset(one for one, role in zip(memory, roles, strict=True) if role.produces_output)
        operations = [[pipeline.dispatch(push_words)]]
        self._submission = Submission(pipeline.device, operations, keep=pipeline, device_only=not pipeline.device.shares_memory)
        self._replays = replays

    def run(self, timeout: float | None = None) -> None:
        """Run it and wait, ``timeout`` seconds with an earlier run of it that goes on; raises as ``DispatchFuture.result``."""
        began = self._replays.now()
        self._submission.run(timeout)
        self._replays.ended(began)

    def submit(self) -> DispatchFuture:
        """Hand the work to the device and return at once; an earlier submission of it is waited for first."""
        future = DispatchFuture(self._submission, self._submission.submit())
        self._replays.handed_over()
        return future


class RecentBindings:
    """The bound kernels that one kernel made last, found again by buffers, grid and push constants.

    An entry goes with the first of its buffers, so that none holds memory that its owner has let go.
    """

    def __init__(self) -> None:
        """Remember nothing."""
        # No lock: a garbage collection, which may come anywhere, drops entries. Each step is one atomic operation of the dict.
        self._entries: dict[object, tuple[BoundKernel, list[weakref.ref[object]]]] = {}

    def find(self, key: object) -> BoundKernel | None:
        """Return the bound kernel of a key, None if it is not remembered."""
        found = self._entries.pop(key, None)
        if found is None:
            return None
        self._entries[key] = found
        return found[0]

    def remember(self, key: object, bound: BoundKernel, buffers: Sequence[Buffer]) -> None:
        """Keep a bound kernel until one of its buffers is closed or collected, or others push it out."""
        drop = functools.partial(_drop, weakref.ref(self), key)
        self._entries[key] = bound, [weakref.ref(buffer.lifetime, drop) for buffer in buffers]
        for oldest in list(self._entries)[:-_MAX_RECENT]:
            self.forget(oldest)

    def forget(self, key: object) -> None:
        """Drop an entry, if it is there."""
        self._entries.pop(key, None)


def _drop(bindings: weakref.ref[RecentBindings], key: object, _: object) -> None:
    alive = bindings()
    if alive is not None:
        alive.forget(key)


class DispatchFuture:
    """Work under way: ask it, wait for it, or await it."""

    def __init__(self, submission: Submission, generation: int) -> None:
        """Made by ``BoundKernel.submit`` and ``Batch.submit``."""
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
            2007 if it has not ended; it goes on.
        DispatchFailed
            1005, DeviceLost 2006: what it failed with.
        """
        self._submission.wait(self._generation, timeout)

    def __await__(self) -> Generator[Any, None, None]:
        """Wait in a thread of the event loop's executor."""
        return asyncio.to_thread(self.result).__await__()
