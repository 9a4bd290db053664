"""A compiled module: called with arrays, or bound to resident buffers and replayed."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_driver.binding import _call_form
from vyre_driver.binding.arguments import check_switch
from vyre_driver.binding.grid import grid
from vyre_driver.binding.push_constants import pack_push_constants, packer_of
from vyre_driver.kompute.buffer import Buffer, check_buffers
from vyre_driver.kompute.pipeline import BoundPipeline, RecordedDispatch, StageTimes, allocate
from vyre_driver.runtime.bound import BoundKernel, RecentBindings
from vyre_driver.runtime.calls import ProvenCall, ProvenCalls
from vyre_driver.runtime.strict import StrictCall
from vyre_driver.telemetry.events import EventKind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from vyre_driver.binding.arguments import BufferArgument
    from vyre_driver.cache.entry import Verdict
    from vyre_driver.driver import Driver
    from vyre_driver.identity.keys import PipelineCacheKey
    from vyre_driver.kompute.buffer import Lifetime
    from vyre_driver.kompute.memory import TensorBuffer
    from vyre_driver.kompute.pipeline import PipelineSource
    from vyre_driver.lowering.source import KernelSource
    from vyre_driver.vulkan.layer._layer import PipelineFacts


@dataclass(frozen=True, slots=True)
class Trace:
    """Where the time of one call went, and what the cache said.

    ``reason`` tells of a crash too that the entry was set aside for. ``compile_ns`` is ``Driver.compile`` as a whole,
    ``lookup_ns`` the cache's part of it; ``pipeline_ns`` is 0 when the call replayed a pipeline already made. ``pipeline`` and
    ``stages`` are None before the first call; without the layer, ``pipeline`` tells nothing.
    """

    key: str
    verdict: Verdict
    reason: str
    compile_ns: int
    lookup_ns: int
    pipeline_ns: int
    pipeline: PipelineFacts | None
    stages: StageTimes | None


@dataclass(frozen=True, slots=True)
class CompiledKernel:
    """What a kernel is made of, and what there is to say of it before there are buffers."""

    source: KernelSource
    key: PipelineCacheKey
    pipeline: PipelineSource
    trace: Trace


class Kernel:
    """A compiled module. ``trace`` tells of the last call. May be called from several threads."""

    def __init__(self, driver: Driver, compiled: CompiledKernel) -> None:
        """Made by ``Driver.compile``."""
        self._driver = driver
        self.source = compiled.source
        """What it is made of: plan, workgroup, constants and the rules of its calls."""
        self._key = compiled.key
        self.plan = self.source.plan
        self.workgroup = self.source.workgroup
        self._trace = compiled.trace
        self._last: tuple[int, PipelineFacts | None, StageTimes | None] = (0, None, None)
        self._calls = ProvenCalls(driver.room)
        self._packer = packer_of(self.source.push_constants, self.source.push_constant_bytes)
        self._pipeline_source = compiled.pipeline
        self._has_pipeline = False
        self._recent = RecentBindings()
        self._untold: deque[tuple[int, str]] = deque()

    def __call__(  # noqa: PLR0913 -- what a call can be told, by keyword
        self,
        *arrays: object,
        groups: Sequence[int] | None = None,
        push: Mapping[str, object] | None = None,
        out_counts: Mapping[str, int] | None = None,
        split: bool = False,
        timeout: float | None = None,
        strict: bool | None = None,
        label: str | None = None,
    ) -> NDArray[Any] | tuple[NDArray[Any], ...]:
        """Run the kernel once; one array comes back, or a tuple when the shader writes several.

        Parameters
        ----------
        arrays
            In binding order: read-only buffers, read-write buffers (a copy comes back), and write-only ones unless
            ``out_counts`` or the shader gives their size; those start with zeros. Each is a numpy array, bytes, or what
            :func:`vyre_driver.binding.arguments.as_array` reads; none is ever written to.
        groups
            Workgroups of ``workgroup`` invocations along x, y, z; None takes one invocation for each element of the largest
            output, and is refused where workgroup or code have more axes than the first.
        push
            Push constants by name, all of them.
        out_counts
            Elements of write-only buffers, by name.
        split
            Submit upload, dispatch and read-back one by one, so that ``trace`` can tell them apart.
        timeout
            Seconds to wait for the device, with calls of the same form on other threads, which come first; making the pipeline
            is not counted, and a strict call's runs count each. None waits for ever, and so does kompute without the layer.
        strict
            Whether to check that every element of write-only buffers is written and that read-only ones stay as they are; None
            does as the driver. Runs the shader twice or more where poison is left (:mod:`vyre_driver.runtime.strict`).
        label
            Name of the call, for ``driver.events``.

        Raises
        ------
        InvalidInput
            If an array, the groups or an option do not fit; nothing has run then.
        InvalidPushConstant
            If a push constant is missing, unknown, or does not fit; nothing has run then.
        LimitExceeded
            If a buffer or the grid is over a limit of the device; nothing has run then.
        DeviceOutOfMemory
            If the buffers do not fit into the device's memory.
        KernelCompileFailed
            If the Vulkan driver refuses the module.
        DispatchTimeout
            If the work does not end in time; it is still running, and the next call waits for it.
        DispatchFailed
            If the device fails or the driver is closed (DeviceLost, ForkError).
        OutputNotWritten
            What a strict call found.
        InputChanged
            What a strict call found.
        """
        began = time.perf_counter_ns()
        try:
            return self._run(
                arrays, groups, push, out_counts, began=began, split=split, timeout=timeout, strict=strict, label=label
            )
        except Exception as error:
            self._driver.events.failed(EventKind.DISPATCH, error, time.perf_counter_ns() - began, self._trace.key)
            raise

    def _run(  # noqa: PLR0913 -- as a call
        self,
        arrays: tuple[object, ...],
        groups: Sequence[int] | None,
        push: Mapping[str, object] | None,
        out_counts: Mapping[str, int] | None,
        *,
        began: int,
        split: bool,
        timeout: float | None,
        strict: bool | None,
        label: str | None,
    ) -> NDArray[Any] | tuple[NDArray[Any], ...]:
        check_switch("strict", strict)
        call, contents, push_words, pipeline_ns = self._proven(arrays, groups, push, out_counts)
        self._calls.use(call.recorded)
        push_words += call.counts
        if self._driver.strict if strict is None else strict:
            watched = StrictCall(call.recorded, self.plan, contents, call.outputs)
            outputs, stages = watched.run(push_words, split=split, timeout_s=timeout)
        else:
            outputs, stages, _ = call.recorded.run(contents, call.outputs, push_words, split=split, timeout_s=timeout)
        self._last = pipeline_ns, call.recorded.bound.facts, stages
        outputs = self.source.rules.trimmed(outputs)
        self._driver.events.dispatched(time.perf_counter_ns() - began, self._trace.key, 1, label or "")
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    @property
    def constants(self) -> dict[str, int | float | bool]:
        """The value of each specialization constant by name: the caller's, else the tuned one, else the declared one.

        Of a program, those that were given.
        """
        return dict(self.source.constants)

    @property
    def trace(self) -> Trace:
        """What the cache said at compile time, and where the time of the last call went."""
        pipeline_ns, facts, stages = self._last
        return replace(self._trace, pipeline_ns=pipeline_ns, pipeline=facts, stages=stages)

    def bind(
        self, *buffers: Buffer, groups: Sequence[int] | None = None, push: Mapping[str, object] | None = None
    ) -> BoundKernel:
        """Bind resident buffers, one for each binding in binding order, and record the dispatch.

        ``groups`` and ``push`` as in a call. Binding the same buffers in the same way again gives what was recorded then.

        Raises
        ------
        InvalidInput
            If a buffer is of another driver, or buffers or groups do not fit.
        InvalidPushConstant
            If a push constant is missing, unknown, or does not fit.
        LimitExceeded
            If the grid is over a limit of the device.
        KernelCompileFailed
            If the Vulkan driver refuses the module.
        DispatchFailed
            If the driver is closed, or the dispatch cannot be recorded.
        """
        try:
            return self._bind(buffers, groups, push)
        except Exception as error:
            self._driver.events.failed(EventKind.DISPATCH, error, None, self._trace.key)
            raise

    def _bind(
        self, buffers: tuple[Buffer, ...], groups: Sequence[int] | None, push: Mapping[str, object] | None
    ) -> BoundKernel:
        self._driver.device.check_usable()
        push_words = self._push_words(push)
        # Held until the binding is remembered: the form has their addresses, which no other's may be meanwhile.
        lifetimes = [buffer.lifetime for buffer in buffers if type(buffer) is Buffer]
        form = _binding_form(lifetimes, groups, push_words) if len(lifetimes) == len(buffers) else None
        bound = self._recent.find(form) if form is not None else None
        if bound is None:
            pipeline, counts = self._driver.room.make(lambda: self._bound_pipeline(buffers, groups))
            self._tell_compiled()
            bound = BoundKernel(pipeline, self.plan, push_words + counts, buffers, self._driver.events, self._trace.key)
            if form is not None:
                self._recent.remember(form, bound, lifetimes)
        return bound

    def _bound_pipeline(self, buffers: Sequence[Buffer], groups: Sequence[int] | None) -> tuple[BoundPipeline, tuple[int, ...]]:
        """Prove that the buffers fit, and make a pipeline on them; returns it and the counts that a program is given."""
        check_buffers(self._driver.device, buffers)
        arguments = self.plan.check_resident(buffers)
        counts, shape = self.source.rules.push_words(arguments), self._grid(groups, arguments)
        return self._pipeline([buffer.memory for buffer in buffers], shape), counts

    def _grid(self, groups: Sequence[int] | None, arguments: Sequence[BufferArgument]) -> tuple[int, int, int]:
        source, limits = self.source, self._driver.physical_device.limits
        if groups is None:
            groups = source.rules.groups(arguments)
        return grid(groups, arguments, source.workgroup, limits, beyond_x=source.rules.looks_beyond_x)

    def _proven(
        self,
        arrays: tuple[object, ...],
        groups: Sequence[int] | None,
        push: Mapping[str, object] | None,
        out_counts: Mapping[str, int] | None,
    ) -> tuple[ProvenCall, list[NDArray[Any] | None], tuple[int, ...], int]:
        """Prove a call, or find that it has the form of one that was proven; returns also the push constants' words."""
        push_words = self._push_words(push)
        call = self._calls.find_latest(arrays, groups, out_counts)
        if call is None:
            form = _call_form.call_form(arrays, groups, out_counts, np.ndarray)
            call = self._calls.find(form)
            if call is None:
                call, contents, pipeline_ns = self._prepare(arrays, groups, out_counts or {})
                self._calls.remember(form, call)
                return call, contents, push_words, pipeline_ns
            self._calls.remember(form, call)
        return call, _call_form.as_contiguous(arrays, call.positions, np.ascontiguousarray), push_words, 0

    def _prepare(
        self, arrays: Sequence[object], groups: Sequence[int] | None, out_counts: Mapping[str, int]
    ) -> tuple[ProvenCall, list[NDArray[Any] | None], int]:
        """Prove that the call fits; returns it, the contents, and the ns its pipeline took if that was made just now."""
        arguments = self.plan.check_arguments(arrays, out_counts)
        counts = self.source.rules.push_words(arguments)
        shape = self._grid(groups, arguments)
        recorded, made = self._driver.room.make(lambda: self._recorded_for(arguments, shape))
        self._tell_compiled()
        call = ProvenCall(
            recorded,
            tuple(one.position for one in arguments),
            tuple((one.shape, one.dtype) for one in arguments if one.binding.output_index is not None),
            counts,
        )
        return call, [one.data for one in arguments], recorded.bound.pipeline_ns if made else 0

    def _push_words(self, push: Mapping[str, object] | None) -> tuple[int, ...]:
        members = self.source.push_constants
        if not push and not members:
            return ()
        words = self._packer.pack(push) if self._packer is not None else None
        if words is not None:
            return words
        return pack_push_constants(members, self._pipeline_source.push_constant_bytes, push or {}, self.plan.subject)

    def _recorded_for(self, arguments: Sequence[BufferArgument], groups: tuple[int, int, int]) -> tuple[RecordedDispatch, bool]:
        """Return the recorded dispatch for these sizes and this grid, and whether it was made just now."""
        shape = (groups, *(argument.byte_len for argument in arguments))

        def record() -> RecordedDispatch:
            return RecordedDispatch(self._pipeline(allocate(self._driver.device, arguments), groups), arguments)

        return self._calls.recorded(shape, record)

    def _pipeline(self, buffers: Sequence[TensorBuffer], groups: tuple[int, int, int]) -> BoundPipeline:
        """Make a pipeline; the first goes the driver's way, and may wait for another process that makes the same one."""
        source, device = self._pipeline_source, self._driver.device
        if self._has_pipeline:
            made = BoundPipeline(device, source, buffers, groups)
            self._keep_blob(made.facts)
            return made
        first = self._driver.first_pipelines.make(
            self._key,
            source,
            self._trace.reason,
            lambda native: BoundPipeline(device, replace(source, native=native), buffers, groups),
        )
        self._pipeline_source = replace(source, native=first.native)
        self._trace = replace(self._trace, reason=first.reason)
        self._keep_blob(first.made.facts)
        self._untold.append((first.made.pipeline_ns, first.reason))
        self._has_pipeline = True
        return first.made

    def _tell_compiled(self) -> None:
        """Tell of pipelines made since; with no lock held, for a listener may call this kernel."""
        while self._untold:
            pipeline_ns, reason = self._untold.popleft()
            self._driver.events.emit(EventKind.COMPILE, pipeline_ns, self._trace.key, detail=reason)

    def _keep_blob(self, facts: PipelineFacts) -> None:
        """Store what the driver compiled, once: the next process makes its pipeline of it."""
        blob = facts.blob
        if blob is None or self._pipeline_source.native == blob or facts.cache_hit:
            return
        if self._driver.first_pipelines.keep(self._key, self._pipeline_source.code, blob):
            self._pipeline_source = replace(self._pipeline_source, native=blob)


def _binding_form(lifetimes: Sequence[Lifetime], groups: Sequence[int] | None, push_words: tuple[int, ...]) -> object | None:
    """Return what two bindings that were proven have in common; None when the groups are of an unusual type."""
    plain = _call_form.call_form((), groups, None, np.ndarray)
    return None if plain is None else (tuple([id(one) for one in lifetimes]), plain[1], push_words)
