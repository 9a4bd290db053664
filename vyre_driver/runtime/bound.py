"""A kernel bound to resident buffers: recorded once, run or submitted again and again."""

from __future__ import annotations

import functools
import itertools
import time
import weakref
from typing import TYPE_CHECKING

from vyre_driver.binding.push_constants import repacked_push_constants
from vyre_driver.display.line import one_line
from vyre_driver.errors import InvalidInput
from vyre_driver.kompute.recording import record_alone, record_for_c
from vyre_driver.kompute.timing import run_timed
from vyre_driver.process.copies import refuse_copies
from vyre_driver.runtime._runs import ToldRuns
from vyre_driver.runtime.futures import DispatchFuture
from vyre_driver.runtime.recordings import Recordings
from vyre_driver.telemetry.stages import Stage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vyre_driver.kompute.buffer import Buffer, Lifetime
    from vyre_driver.kompute.pipeline import BoundPipeline
    from vyre_driver.kompute.submission import NoDispatch, Span
    from vyre_driver.kompute.timing import DispatchTimes
    from vyre_driver.lowering.source import KernelSource
    from vyre_driver.runtime.observed import Observed
    from vyre_driver.vulkan.layer._layer import Taken

_MAX_RECENT = 32


class ResidentDispatch:
    """A pipeline on the caller's buffers, and its recordings with the push constants that it was bound with."""

    __slots__ = ("__weakref__", "counts", "observed", "pipeline", "recordings", "source", "spans")

    def __init__(  # noqa: PLR0913 -- made in one place
        self,
        pipeline: BoundPipeline | NoDispatch,
        source: KernelSource,
        push_words: tuple[int, ...],
        counts: tuple[int, ...],
        buffers: Sequence[Buffer],
        observed: Observed,
    ) -> None:
        """Record it; ``counts`` are the words behind the push constants, which are of the buffers."""
        self.pipeline = pipeline
        self.source = source
        self.counts = counts
        self.spans = [buffer.span for buffer in buffers]
        self.recordings = Recordings(functools.partial(record_alone, pipeline), push_words + counts, "this kernel")
        self.observed = observed


class BoundKernel(ToldRuns):
    """A kernel on resident buffers, recorded once. Their memory is held as long as it lives."""

    __slots__ = ("__weakref__", "_dispatch", "_observed")

    _recordings: Recordings

    def __init__(self, dispatch: ResidentDispatch, label: str | None = None) -> None:
        """Made by ``Kernel.bind``; ``label`` is for ``driver.events``."""
        # Those are its recordings until ``set`` puts its own there, in one step.
        observed = dispatch.observed if label is None else dispatch.observed.labelled(label)
        super().__init__(dispatch.recordings, observed.dispatches, observed.failed)
        self._dispatch = dispatch
        self._observed = observed

    @property
    def pipeline(self) -> BoundPipeline | NoDispatch:
        """The pipeline that it dispatches."""
        return self._dispatch.pipeline

    @property
    def push_words(self) -> tuple[int, ...]:
        """The push constants as words, and behind them the element counts that a program reads."""
        return self._recordings.values

    @property
    def reads(self) -> frozenset[Span]:
        """The bytes of memory that it reads, views apart."""
        both = zip(self._dispatch.spans, self._dispatch.source.plan.descriptors, strict=True)
        return frozenset(span for span, binding in both if binding.role.consumes_input)

    @property
    def writes(self) -> frozenset[Span]:
        """The bytes of memory that it writes."""
        both = zip(self._dispatch.spans, self._dispatch.source.plan.descriptors, strict=True)
        return frozenset(span for span, binding in both if binding.role.produces_output)

    __reduce_ex__ = refuse_copies

    def __repr__(self) -> str:
        """Return which kernel it is of, on one line."""
        return one_line("BoundKernel", f"of {self._observed.what}")

    def set(self, /, **push_constants: object) -> None:
        """Replace push constants, all or some of them, in what is run and submitted from now on; the others keep their values.

        Only the dispatch is recorded again. Work that is under way keeps the values that it was handed over with. A batch that
        holds this kernel takes the new ones when it is next run or submitted. Other kernels that were bound
        to the same buffers, before or later, have values of their own.

        Raises
        ------
        InvalidPushConstant
            If one is unknown or does not fit; all keep their values then.
        DispatchFailed
            If the dispatch cannot be recorded, or the driver is closed.
        """
        dispatch, recordings = self._dispatch, self._recordings
        try:
            words = repacked_push_constants(
                dispatch.source.push_constants,
                recordings.values[: len(recordings.values) - len(dispatch.counts)],
                push_constants,
                dispatch.source.plan.subject,
            )
            self._recordings = recordings.renewed(words + dispatch.counts)
        except Exception as error:
            self._observed.failed(error)
            raise

    def run_timed(self, runs: int, timeout: float | None = None) -> DispatchTimes:
        """Run it so often, one run after the other, within ``timeout`` seconds, and measure that; raises as ``run``."""
        observed, began_ns = self._observed, time.perf_counter_ns()
        try:
            times = run_timed(self, runs, timeout)
        except Exception as error:
            observed.failed(error, time.perf_counter_ns() - began_ns)
            raise
        observed.dispatches.ran(began_ns)
        if times.device_ns is not None:
            observed.dispatches.measured(times.device_ns)
        return times

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
        timeline = observed.timeline
        submitting = timeline.now()
        try:
            submission, generation = self._recordings.submit(block)
            future = DispatchFuture(submission, generation, observed)
        except Exception as error:
            observed.failed(error)
            raise
        if submitting:
            timeline.add(Stage.SUBMIT, submitting, self.pipeline.label)
        return future

    @property
    def name(self) -> str:
        """The kernel's name."""
        return self._dispatch.source.name


def take_for_c(kernel: object) -> Taken:
    """Return the handle of a BoundKernel for C code, which is a recording of its own with the values that the kernel has now.

    Raises
    ------
    InvalidInput
        If it is something else.
    UnsupportedFeature
        If the layer does not record single dispatches.
    DispatchFailed
        If it cannot be recorded, or the driver is closed; DeviceLost, ForkError.
    """
    if not isinstance(kernel, BoundKernel):
        raise InvalidInput(
            f"what is to be run from C is of type {type(kernel).__name__}, not a BoundKernel",
            fix="pass what kernel.bind() gave",
        )
    return record_for_c(kernel.pipeline, kernel.push_words)


class RecentBindings:
    """The dispatches on buffers that one kernel made last, found again by buffers, grid and push constants.

    An entry goes with the first of its buffers, so that none holds memory that its owner has let go.
    """

    def __init__(self) -> None:
        """Remember nothing."""
        # No lock: a garbage collection, which may come anywhere, ends lifetimes. Each step is one atomic operation of a dict,
        # and what an interrupt or another thread leaves in one of the two alone is removed by the next ``remember``.
        self._entries: dict[object, tuple[int, list[weakref.ref[object]]]] = {}
        self._bound: dict[int, ResidentDispatch] = {}  # by the number in the entry
        self._numbers = itertools.count()

    def find(self, key: object) -> ResidentDispatch | None:
        """Return the dispatch of a key, None if it is not remembered."""
        entry = self._entries.pop(key, None)
        bound = None if entry is None else self._bound.get(entry[0])
        if entry is not None and bound is not None:
            self._entries.setdefault(key, entry)  # as the one that was used last
        return bound

    def remember(self, key: object, bound: ResidentDispatch, lifetimes: Sequence[Lifetime]) -> None:
        """Keep a dispatch until one of its buffers is closed or collected, or others push it out.

        ``lifetimes`` are those of the buffers from before they were bound, and held since: that of a buffer closed meanwhile
        ends with the caller's hold on it, and the entry with it.
        """
        number = next(self._numbers)
        self._bound[number] = bound
        # What it empties is not the dict of the references, which would then hold itself.
        drop = functools.partial(self._bound.pop, number)  # called with the reference, which pop returns where nothing is left
        self._entries[key] = number, [weakref.ref(lifetime, drop) for lifetime in lifetimes]
        if len(self._bound) != len(self._entries):
            self._forget_halves()
        for oldest in list(self._entries)[: max(0, len(self._entries) - _MAX_RECENT)]:
            self._bound.pop(self._entries.pop(oldest, _NOTHING)[0], None)

    def _forget_halves(self) -> None:
        """Forget entries whose dispatch went, and dispatches whose entry did."""
        entries = list(self._entries.items())
        for key, (number, _) in entries:
            if number not in self._bound:
                self._entries.pop(key, None)
        for number in set(self._bound).difference([number for _, (number, _) in entries]):
            self._bound.pop(number, None)


_NOTHING: tuple[int, list[weakref.ref[object]]] = (-1, [])
