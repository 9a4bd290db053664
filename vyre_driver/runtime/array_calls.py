"""Calls with arrays of the host: proven, uploaded, run, and read back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_driver.binding import _call_form
from vyre_driver.binding.grid import grid
from vyre_driver.binding.outputs import check_apart, checked_arguments, returned_form
from vyre_driver.kompute.array_dispatch import RecordedDispatch, allocate
from vyre_driver.kompute.elements import check_target
from vyre_driver.kompute.views import Pieces
from vyre_driver.lowering.source import watched_source
from vyre_driver.runtime.calls import ProvenCall, ProvenCalls
from vyre_driver.runtime.compilation import compile_source
from vyre_driver.runtime.kernel_pipelines import KernelPipelines
from vyre_driver.runtime.strict import StrictCall

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from vyre_driver.binding.arguments import BufferArgument
    from vyre_driver.binding.plan import Binding
    from vyre_driver.lowering.source import KernelSource
    from vyre_driver.runtime.options import CallOptions
    from vyre_driver.vulkan.devices import DeviceLimits

    Contents = list[NDArray[Any] | None]


class ArrayCalls:
    """The calls of one kernel that bring arrays alone."""

    def __init__(self, pipelines: KernelPipelines) -> None:
        """Have proven none."""
        self._pipelines = pipelines
        self._source = pipelines.source
        self._cuts = any(one.output_byte_range is not None for one in self._source.plan.descriptors)
        self.calls = ProvenCalls(pipelines.context.room)
        self._watched: ArrayCalls | None = None  # once a strict call has asked for it
        self._may_watch = True

    def run(
        self,
        arrays: tuple[object, ...],
        push_words: tuple[int, ...],
        groups: tuple[int, int, int] | None,
        targets: Sequence[object],
        options: CallOptions,
    ) -> Sequence[NDArray[Any]]:
        """Upload, run and read back; the results are written to the targets where there are some.

        A strict call runs code that says whether a loop was cut, where the device's driver may cut one.
        """
        watched = self._watched_calls() if options.strict else None
        if watched is not None:
            outputs = watched.run(arrays, push_words, groups, targets, options)
            self._pipelines.note_call_of(watched._pipelines)  # noqa: SLF001 -- of this class
            return outputs
        call, contents, pipeline_ns = self.prove(arrays, groups, options.shapes)
        if targets:
            self._check_targets(call, targets)
            if not call.is_packed:
                form = _call_form.call_form(arrays, groups, options.out_shapes, np.ndarray, options.out)
                self.calls.remember(form, call)
        if call.recorded is None:
            return written(targets, self._unchanged(call, contents))
        if not options.strict:
            return self._run(call, contents, push_words, targets, options.split, options.timeout, pipeline_ns)
        self.calls.use(call.recorded)
        strict = StrictCall(call.recorded, self._source.plan, contents, call.outputs)
        raw, stages = strict.run(push_words + call.counts, split=options.split, timeout_s=options.timeout)
        self._pipelines.note_call(pipeline_ns, call.recorded.bound.facts, stages)
        return written(targets, self._finished(call, raw))

    def _watched_calls(self) -> ArrayCalls | None:
        """Return the calls of the same kernel with code that watches loops; None where this one does, or has none to watch."""
        if self._may_watch:
            context = self._pipelines.context
            source = watched_source(self._source, context.device)
            if source is not self._source:
                self._watched = ArrayCalls(KernelPipelines(context, compile_source(context, source)))
            self._may_watch = False
        return self._watched

    def run_again(
        self,
        call: ProvenCall,
        contents: Contents,
        push_words: tuple[int, ...],
        targets: tuple[NDArray[Any] | None, ...],
        timeout: float | None,
    ) -> list[NDArray[Any]]:
        """Run what ``calls.find`` found, with other contents."""
        return self._run(call, contents, push_words, targets, False, timeout, 0)

    def _run(  # noqa: PLR0913 -- a call, taken apart
        self,
        call: ProvenCall,
        contents: Sequence[NDArray[Any] | None],
        push_words: tuple[int, ...],
        targets: Sequence[Any],
        split: bool,  # noqa: FBT001 -- the same
        timeout: float | None,
        pipeline_ns: int,
    ) -> list[NDArray[Any]]:
        recorded: RecordedDispatch = call.recorded  # type: ignore[assignment] # something runs
        self.calls.use(recorded)
        into = () if self._cuts or call.finishes else targets
        raw, stages, _ = recorded.run(
            contents, call.outputs, push_words + call.counts, into=into, split=split, timeout_s=timeout
        )
        self._pipelines.note_call(pipeline_ns, recorded.bound.facts, stages)
        if into:
            return raw
        outputs = self._finished(call, raw)
        return written(targets, outputs) if targets else outputs

    def _finished(self, call: ProvenCall, raw: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
        outputs = [form.finish(one) for form, one in zip(call.forms, raw, strict=True)] if call.finishes else raw
        return self._source.rules.trimmed(outputs)

    def prove(
        self,
        arrays: tuple[object, ...],
        groups: tuple[int, int, int] | None,
        out_shapes: Mapping[str, int | tuple[int, ...]] | None,
    ) -> tuple[ProvenCall, Contents, int]:
        """Prove a call, or find that it has the form of one that was proven; returns also the contents of its buffers."""
        found = self.calls.find(arrays, groups, out_shapes)
        if found is not None:
            return found, _call_form.as_contiguous(arrays, found.positions, np.ascontiguousarray), 0
        call, contents, pipeline_ns = self._prepare(arrays, groups, out_shapes)
        if not call.is_packed:
            self.calls.remember(_call_form.call_form(arrays, groups, out_shapes, np.ndarray), call)
        return call, contents, pipeline_ns

    def _prepare(
        self,
        arrays: tuple[object, ...],
        groups: tuple[int, int, int] | None,
        out_shapes: Mapping[str, int | tuple[int, ...]] | None,
    ) -> tuple[ProvenCall, Contents, int]:
        """Prove that the call fits; returns it, the contents, and the ns its pipeline took if made now."""
        arguments = checked_arguments(self._source.plan, arrays, out_shapes)
        counts = self._source.rules.push_words(arguments)
        positions = tuple(one.position for one in arguments)
        forms = tuple(one.result for one in arguments if one.binding.output_index is not None)
        outputs = tuple((one.shape, one.dtype) for one in forms)
        finishes = any(one.elements is not None for one in forms)
        is_packed = any(one.is_packed for one in arguments)
        if runs_nothing(arguments, groups):
            call = ProvenCall(None, positions, forms, outputs, counts, finishes, is_packed)
            return call, [one.data for one in arguments], 0
        shape = grid_of(self._source, self._pipelines.context.device.physical.limits, groups, arguments)
        recorded, made = self._pipelines.with_room(lambda: self._recorded_for(arguments, shape))
        call = ProvenCall(recorded, positions, forms, outputs, counts, finishes, is_packed)
        return call, [one.data for one in arguments], recorded.bound.pipeline_ns if made else 0

    def _recorded_for(self, arguments: Sequence[BufferArgument], groups: tuple[int, int, int]) -> tuple[RecordedDispatch, bool]:
        """Return the recorded dispatch for these sizes and this grid, and whether it was made just now."""
        shape = (groups, *(argument.byte_len for argument in arguments))

        def record() -> RecordedDispatch:
            buffers = allocate(self._pipelines.context.device, arguments)
            return RecordedDispatch(self._pipelines.make(Pieces(tuple(buffers)), groups), arguments)

        return self.calls.recorded(shape, record)

    def _outputs(self) -> list[tuple[int, Binding]]:
        """Return what is read back, with its place among the buffers."""
        return [(place, one) for place, one in enumerate(self._source.plan.descriptors) if one.output_index is not None]

    def _check_targets(self, call: ProvenCall, targets: Sequence[object]) -> None:
        for (_, binding), target, form in zip(self._outputs(), targets, call.forms, strict=True):
            if target is not None:
                check_target(target, *returned_form(binding, *form.returned), binding)
        check_apart([(binding, target) for (_, binding), target in zip(self._outputs(), targets, strict=True)])

    def _unchanged(self, call: ProvenCall, contents: Sequence[NDArray[Any] | None]) -> list[NDArray[Any]]:
        """Return the outputs of a call that runs nothing: what was given, else zeros."""
        given = [contents[place] for place, _ in self._outputs()]
        read = [
            np.zeros(form.shape, form.dtype) if array is None else array.reshape(form.shape).copy()
            for array, form in zip(given, call.forms, strict=True)
        ]
        return self._source.rules.trimmed([form.finish(one) for form, one in zip(call.forms, read, strict=True)])


def grid_of(
    source: KernelSource, limits: DeviceLimits, groups: tuple[int, int, int] | None, arguments: Sequence[BufferArgument]
) -> tuple[int, int, int]:
    """Return the workgroups of a call: the caller's, else the kernel's own rule, else what the outputs want."""
    wanted = source.rules.groups(arguments) if groups is None else groups
    return grid(wanted, arguments, source.workgroup, limits, beyond_x=source.rules.looks_beyond_x)


def runs_nothing(arguments: Sequence[BufferArgument], groups: tuple[int, int, int] | None) -> bool:
    """Whether a buffer has no elements, or the caller's grid no invocations."""
    return any(one.is_empty for one in arguments) or (groups is not None and 0 in groups)


def written(targets: Sequence[object], results: Sequence[NDArray[Any]]) -> list[Any]:
    """Return the results, each in its target where it has one."""
    if not targets:
        return list(results)
    found: list[object] = []
    for target, result in zip(targets, results, strict=True):
        if isinstance(target, np.ndarray):
            np.copyto(target, result)
        found.append(result if target is None else target)
    return found
