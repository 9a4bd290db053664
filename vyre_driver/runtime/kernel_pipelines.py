"""The pipelines of one kernel: the first goes the driver's way through the cache, the others are made of what it gave."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from vyre_driver.kompute.memory import TensorBuffer
from vyre_driver.kompute.pipeline import BoundPipeline, prepare_layout
from vyre_driver.kompute.views import Pieces
from vyre_driver.runtime.observed import Observed
from vyre_driver.telemetry._timeline import label_of
from vyre_driver.telemetry.events import EventKind
from vyre_driver.vulkan.layer._layer import Launchable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vyre_driver.identity.keys import PipelineCacheKey
    from vyre_driver.kompute.array_dispatch import StageTimes
    from vyre_driver.lowering.source import KernelSource, PipelineSource
    from vyre_driver.runtime.context import Context
    from vyre_driver.runtime.trace import Trace
    from vyre_driver.vulkan.layer._layer import Bound, PipelineFacts

_Made = TypeVar("_Made")
_ANY_BYTES = 256
_MOST_WORDS = 64  # that a launch pushes


@dataclass(frozen=True, slots=True)
class CompiledKernel:
    """What a kernel is made of, and what there is to say of it before there are buffers."""

    source: KernelSource
    key: PipelineCacheKey
    pipeline: PipelineSource
    trace: Trace


class KernelPipelines:
    """Make pipelines, and keep the trace of the last call."""

    def __init__(self, context: Context, compiled: CompiledKernel) -> None:
        """Make none yet."""
        self.context = context
        self.source = compiled.source
        self.push_constant_bytes = compiled.pipeline.push_constant_bytes
        self.key_hex = compiled.trace.key
        self.key = compiled.key
        self.observed = Observed(context.events, self.key_hex, compiled.source.name)
        context.events.timeline.name(self.key_hex, compiled.pipeline.name)
        self._trace = compiled.trace
        self._last: tuple[int, PipelineFacts | None, StageTimes | None] = (0, None, None)
        self._pipeline_source = compiled.pipeline
        self._has_pipeline = False
        self._kept: Bound | None = None
        self._untold: deque[tuple[int, str]] = deque()

    @property
    def trace(self) -> Trace:
        """What the cache said at compile time, and where the time of the last call went."""
        pipeline_ns, facts, stages = self._last
        return replace(self._trace, pipeline_ns=pipeline_ns, pipeline=facts, stages=stages)

    @property
    def spirv(self) -> bytes:
        """The code, in host byte order."""
        return self._pipeline_source.code

    def note_call(self, pipeline_ns: int, facts: PipelineFacts | None, stages: StageTimes | None) -> None:
        """Remember where the time of a call went; ``pipeline_ns`` is 0 where it replayed a pipeline."""
        self._last = pipeline_ns, facts, stages

    def note_call_of(self, other: KernelPipelines) -> None:
        """Remember where the time of another kernel's last call went, which was made for this one."""
        self._last = other._last

    def with_room(self, make: Callable[[], _Made]) -> _Made:
        """Return what ``make`` returns, which makes pipelines and buffers, with others let go where memory is short."""
        made = self.context.room.make(make)
        self._tell_compiled()
        return made

    def make(self, pieces: Pieces, groups: tuple[int, int, int]) -> BoundPipeline:
        """Make a pipeline; the first may wait for another process that makes the same one."""
        source, device = self._pipeline_source, self.context.device
        if self._has_pipeline:
            made = BoundPipeline(device, source, pieces, groups)
            self._keep_blob(made.facts)
            return made
        if not source.native:  # so that it is there when the store that machines share has answered
            prepare_layout(device, len(pieces.memory) + source.watches_loops, source.push_constant_bytes)
        first = self.context.first_pipelines.make(
            self.key,
            source,
            self._trace.reason,
            lambda native: BoundPipeline(device, replace(source, native=native), pieces, groups),
        )
        self._pipeline_source = replace(source, native=first.native)
        self._trace = replace(self._trace, reason=first.reason, executables=first.made.facts.executables)
        self._keep_blob(first.made.facts)
        self._untold.append((first.made.pipeline_ns, first.reason))
        self._has_pipeline = True
        return first.made

    @property
    def has_code(self) -> bool:
        """Whether there is compiled code, or a pipeline, so that nothing has to be compiled for a call."""
        return self._has_pipeline or bool(self._pipeline_source.native)

    def warm(self) -> None:
        """Make the first pipeline on small buffers of its own, for the calls to come; nothing is dispatched."""
        if not self._has_pipeline:
            self.with_room(lambda: self.make(self._any_pieces(), (1, 1, 1)))

    def _any_pieces(self) -> Pieces:
        device = self.context.device
        return Pieces(tuple([TensorBuffer(device, _ANY_BYTES, 4) for _ in self.source.plan.descriptors]))

    def bind(self, pieces: Pieces, groups: tuple[int, int, int]) -> BoundPipeline:
        """Bind buffers to a pipeline: the first is made, the others are bound to what it has, where the layer can."""
        if self._kept is not None:
            return BoundPipeline(self.context.device, self._pipeline_source, pieces, groups, self._kept)
        made = self.make(pieces, groups)
        self._kept = made.kept()
        return made

    def launchable(self, grid: tuple[int, int, int], parts: Sequence[int], written: Sequence[bool]) -> Launchable | None:
        """Return what launches it on buffers with so many bytes bound, the ``written`` ones written.

        None before the first pipeline is made, and where the layer has none to bind other buffers to.
        """
        source, device = self._pipeline_source, self.context.device
        words = source.push_constant_bytes // 4
        if self._kept is None or source.watches_loops or words > _MOST_WORDS:
            return None
        moved = sum(each * byte_len for each, byte_len in zip(source.traversals, parts, strict=False))
        mask = sum(1 << place for place, is_written in enumerate(written) if is_written)
        label = label_of(source.name, moved)
        how = (device.fail, grid, len(parts), mask, words, device.shares_memory, label)
        return Launchable(device.in_use, device.layer, self._kept, *how)

    def _tell_compiled(self) -> None:
        """Report the pipelines made since; with no lock held, for a listener may call this kernel."""
        while self._untold:
            pipeline_ns, reason = self._untold.popleft()
            self.context.events.emit(EventKind.COMPILE, pipeline_ns, self.key_hex, 1, reason, self.source.name)

    def _keep_blob(self, facts: PipelineFacts) -> None:
        """Store what the driver compiled, once: the next process makes its pipeline of it."""
        blob, given = facts.blob, self._pipeline_source.native
        if blob is None or given == blob or facts.cache_hit:
            return
        if self.context.first_pipelines.keep(self.key, self._pipeline_source.code, blob, given):
            self._pipeline_source = replace(self._pipeline_source, native=blob)
