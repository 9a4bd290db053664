"""A pipeline bound to buffers, and a dispatch of it recorded once and replayed: upload, dispatch, read-back."""

from __future__ import annotations

import functools
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_driver.errors import DispatchFailed, KernelCompileFailed
from vyre_driver.kompute.deadline import Deadline
from vyre_driver.kompute.memory import LEAST_PINNED_WRITE, TensorBuffer, check_sizes, padded
from vyre_driver.kompute.submission import record
from vyre_driver.process.call_lock import call_lock
from vyre_driver.telemetry._timeline import label_of
from vyre_driver.telemetry.stages import Stage
from vyre_driver.vulkan.layer import _layer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from vyre_driver.binding.arguments import BufferArgument
    from vyre_driver.kompute.device import KomputeDevice
    from vyre_driver.kompute.submission import Submission
    from vyre_driver.kompute.views import Pieces
    from vyre_driver.lowering.source import PipelineSource
    from vyre_driver.vulkan.layer._layer import Move


@dataclass(frozen=True, slots=True)
class StageTimes:
    """Nanoseconds of one run.

    ``upload_ns`` and ``readback_ns`` are the host's copies, plus the device's when the stages were submitted apart;
    otherwise those are in ``dispatch_ns``.
    """

    upload_ns: int
    dispatch_ns: int
    readback_ns: int


_SHARED = _layer.PipelineFacts(created=True, shared=True, cache_hit=None, compile_ns=0, blob=None)
_MOST_PARTS = 64  # that the layer binds itself


class BoundPipeline:
    """One pipeline on buffers, for one grid, which have the binding numbers 0..n-1 of set 0, in their order.

    ``facts`` tells how the pipeline came to be, ``pipeline_ns`` how long kompute took for it.
    """

    __slots__ = (
        "__weakref__",
        "_algorithm",
        "_groups",
        "_handles",
        "_label",
        "_pieces",
        "_source",
        "buffers",
        "device",
        "facts",
        "pipeline_ns",
    )

    def __init__(
        self,
        device: KomputeDevice,
        source: PipelineSource,
        pieces: Pieces,
        groups: tuple[int, int, int],
        kept: _layer.Bound | None = None,
    ) -> None:
        """Make the pipeline, or bind the buffers to one of the same source that was ``kept``.

        Raises KernelCompileFailed if the Vulkan driver refuses the module.
        """
        self.device = device
        self.buffers = pieces.memory
        self._source = source
        self._pieces = pieces
        self._groups = groups
        self._algorithm: Any = None
        self._label = 0
        self.facts, self.pipeline_ns = _SHARED, 0
        if kept is None or device.layer is None:
            self._algorithm, self.facts, self._handles, self.pipeline_ns = self._make()
        else:
            with device.in_use:
                bound = _layer.bind_buffers(device.layer, kept, pieces.parts)
            if isinstance(bound, _layer.Failure):
                raise device.error_of(bound)
            self._handles = bound
        device.keep_holder(self)

    @property
    def label(self) -> int:
        """What its dispatches are called in profiles: the kernel's name, and the bytes that it reads and writes."""
        if not self._label:
            bound = [part[2] for part in self._pieces.parts]
            moved = sum(each * byte_len for each, byte_len in zip(self._source.traversals, bound, strict=False))
            self._label = label_of(self._source.name, moved)
        return self._label

    def _make(self) -> tuple[Any, _layer.PipelineFacts, _layer.Bound, int]:
        """Have kompute make an algorithm; returns it, its facts, what it binds, and the ns that it took."""
        device, source, pieces = self.device, self._source, self._pieces
        start = time.perf_counter_ns()
        # kompute turns constants into floats unless it is given both arrays, both of one integer type.
        pushed = _words((0,) * (source.push_constant_bytes // 4))
        arguments = ([one.tensor for one in pieces.memory], source.code, self._groups, _words(source.spec_words), pushed)
        algorithm, facts, handles = device.call_kompute(
            "make a pipeline",
            lambda manager: _layer.create_pipeline(
                device.layer, manager.algorithm, arguments, source.native or None, pieces.ranges, source.subgroup_size
            ),
            KernelCompileFailed,
        )
        pipeline_ns = time.perf_counter_ns() - start
        device.timeline.add(Stage.PIPELINE, start, 0, source.name)
        if not algorithm.is_init():
            raise KernelCompileFailed(
                f"the Vulkan driver of {device.physical.name!r} made no pipeline of the shader",
                fix="run spirv-val on the module",
            )
        return algorithm, facts, handles, pipeline_ns

    def kept(self) -> _layer.Bound | None:
        """Return its pipeline, to bind other buffers to; None where the layer does not share it or record its dispatches."""
        device = self.device
        if device.layer is None or not {"barriers", "shared_pipelines"} <= set(device.hooks) or len(self.buffers) > _MOST_PARTS:
            return None
        with device.in_use:
            found = _layer.keep_bound(device.layer, self._handles)
        if found is not None:
            device.keep_holder(found)
        return found

    def dispatch(self, push_words: tuple[int, ...]) -> Any:  # noqa: ANN401 -- kp has no types
        """Return the operation that dispatches it with these push constants, for kompute to record."""
        if self._algorithm is None:
            self._algorithm = self._make()[0]
        operation = self.device.api.dispatch(self._algorithm, _words(push_words))
        pieces = self._pieces
        return (operation, pieces.before, pieces.after) if pieces.kept else operation

    def recorded(self, layer: _layer.LayerDevice, push_words: tuple[int, ...]) -> _layer.Dispatch:
        """Return its dispatch with these push constants in a command buffer of the layer's, which holds what is bound.

        Raises
        ------
        DispatchFailed
            If it cannot be recorded, or the device is closed; DeviceLost, ForkError.
        """
        device, pieces = self.device, self._pieces
        copies = (pieces.before, pieces.after) if pieces.kept else None
        # Not this object: the collector takes apart what a cycle holds before the work that uses it has waited for its end.
        tensors = [one.tensor for one in pieces.memory + pieces.kept]
        with device.in_use:
            made = _layer.record_dispatch(
                layer,
                self._handles,
                self._groups,
                _push_bytes(push_words),
                copies,
                not device.shares_memory,
                (device.manager, self._algorithm, self._handles, *tensors),
                label=self.label,
            )
        if isinstance(made, _layer.Failure):
            raise device.error_of(made)
        return made


def prepare_layout(device: KomputeDevice, buffers: int, push_bytes: int) -> None:
    """Make the layout now of a pipeline of so many buffers and bytes of push constants: some drivers take 5 ms for it."""
    if device.layer is not None:
        with device.in_use:
            _layer.prepare_layout(device.layer, buffers, push_bytes)


@functools.lru_cache(maxsize=256)
def _words(values: tuple[int, ...]) -> NDArray[np.uint32]:
    """Return words as kompute takes them, which copies them; the same few come again and again."""
    words = np.array(values, np.uint32)
    words.flags.writeable = False
    return words


@functools.lru_cache(maxsize=256)
def _push_bytes(words: tuple[int, ...]) -> bytes:
    """Return words as a device reads them."""
    return _words(words).tobytes()


OF_CALLS = "(calls)"
"""The name of the buffers that kernels keep for their calls with arrays."""


def allocate(device: KomputeDevice, arguments: Sequence[BufferArgument]) -> list[TensorBuffer]:
    """Return a buffer for each argument.

    Raises LimitExceeded if one is larger than the device allows, DeviceOutOfMemory if all of them do not fit into its memory.
    """
    check_sizes(device, [(f"buffer {one.binding.name!r}", one.byte_len) for one in arguments])
    device.check_available(sum(padded(one.byte_len) for one in arguments))
    return [TensorBuffer(device, one.byte_len, one.binding.stride, name=OF_CALLS) for one in arguments]


class RecordedDispatch:
    """A bound pipeline with buffers of its own, of fixed sizes: upload, dispatch and read-back in one submission.

    ``arguments`` are those that ``allocate`` made its buffers for; every ``run`` must bring arrays of their byte sizes.
    """

    def __init__(self, bound: BoundPipeline, arguments: Sequence[BufferArgument]) -> None:
        """Record nothing yet."""
        self.bound = bound
        self._device = bound.device
        self._inputs = bound.buffers
        both = zip(arguments, self._inputs, strict=True)
        self._outputs = [buffer for one, buffer in both if one.binding.output_index is not None]
        self._uploaded = [buffer.tensor for buffer in self._inputs if not buffer.is_mapped]
        self._is_long = any(buffer.byte_len >= LEAST_PINNED_WRITE for buffer in self._inputs)
        self._bytes_up = sum(buffer.byte_len for buffer in self._inputs)
        self._bytes_down = sum(buffer.byte_len for buffer in self._outputs)
        self._is_staged = all(buffer.is_staged for buffer in self._inputs)
        self._read_back = [buffer.tensor for buffer in self._outputs if not buffer.is_read_in_place]
        self._submissions: dict[str, Submission] = {}
        self._push: tuple[int, ...] | None = None
        self.used = 0  # by the kernel: when it was last called
        self._lock = call_lock("the kernel")

    def is_idle(self) -> bool:
        """Whether no thread calls it and nothing of it runs, not even after a time-out; never waits."""
        with self._lock.attempt() as is_mine:
            try:
                if is_mine:
                    self._finish(Deadline(0, self._device.physical.name))
            except DispatchFailed:
                return False
            return is_mine

    def run(  # noqa: PLR0913 -- what, how, and where to look
        self,
        contents: Sequence[NDArray[Any] | None],
        outputs: Sequence[tuple[tuple[int, ...], np.dtype[Any]]],
        push_words: tuple[int, ...],
        looked_at: Sequence[int] = (),
        *,
        into: Sequence[NDArray[Any] | None] = (),
        split: bool = False,
        timeout_s: float | None = None,
    ) -> tuple[list[NDArray[Any]], StageTimes, list[NDArray[np.uint8]]]:
        """Upload, dispatch, and return the outputs in the shapes and types given; all in binding order.

        Each is in its array of ``into``, contiguous and of that shape and type, where there is one, else in a new one.

        What comes back last are the bytes that the buffers at the places ``looked_at`` hold afterwards.

        ``contents`` has a contiguous array for each buffer, or None for one that starts with zeros: what a shader leaves out of
        its output shows neither another process's bytes nor an earlier call's.

        ``split`` submits the three stages one by one, so that each can be timed. ``timeout_s`` counts from now to the end,
        with what other threads run of it before.

        Raises
        ------
        DispatchFailed
            If the dispatch fails.
        DeviceLost
            If the device is lost.
        DispatchTimeout
            If it does not end in time.
        ForkError
            If this process was forked after the device was opened.
        """
        deadline = self._device.never if timeout_s is None else Deadline(timeout_s, self._device.physical.name)
        with self._device.in_use, deadline.holding(self._lock):
            results, stages = self._run(contents, outputs, push_words, deadline, into, split=split)
            return results, stages, self._bytes_of(looked_at, deadline) if looked_at else []

    def _run(  # noqa: PLR0913 -- as run
        self,
        contents: Sequence[NDArray[Any] | None],
        outputs: Sequence[tuple[tuple[int, ...], np.dtype[Any]]],
        push_words: tuple[int, ...],
        deadline: Deadline,
        into: Sequence[NDArray[Any] | None],
        *,
        split: bool,
    ) -> tuple[list[NDArray[Any]], StageTimes]:
        began = time.perf_counter_ns()
        self._finish(deadline)
        if self._push != push_words:
            self._submissions, self._push = {}, push_words
        if not self._is_staged or (self._is_long and not split and self._gains_from_parts(contents, into)):
            return self._run_in_parts(began, contents, outputs, deadline, into)
        for buffer, array in zip(self._inputs, contents, strict=True):
            buffer.write(array)
        if split and self._uploaded:
            self._submission("upload").run_alone(deadline)
        uploaded = time.perf_counter_ns()
        self._submission("dispatch" if split else "all").run_alone(deadline)
        dispatched = time.perf_counter_ns()
        if split and self._read_back:
            self._submission("readback").run_alone(deadline)
        if into:
            read = zip(self._outputs, outputs, into, strict=True)
            results = [buffer.read(*form, target) for buffer, form, target in read]
        else:
            results = [buffer.read(*form) for buffer, form in zip(self._outputs, outputs, strict=True)]
        self._device.moved.add(self._bytes_up, self._bytes_down)
        return results, self._stages(began, uploaded, dispatched)

    def _stages(self, began: int, uploaded: int, dispatched: int) -> StageTimes:
        """Return the times of a run that ends now, and add them to the timeline where one is kept."""
        ended = time.perf_counter_ns()
        timeline = self._device.timeline
        if timeline.is_on:
            label = self.bound.label
            timeline.add(Stage.UPLOAD, began, label, ended_ns=uploaded)
            timeline.add(Stage.EXECUTE, uploaded, label, ended_ns=dispatched)
            timeline.add(Stage.READ_BACK, dispatched, label, ended_ns=ended)
        return StageTimes(uploaded - began, dispatched - uploaded, ended - dispatched)

    def _finish(self, deadline: Deadline) -> None:
        """Wait for what a time-out or an interrupt has left to the device, which may still use the buffers."""
        for submission in self._submissions.values():
            if submission.is_pending:
                submission.finish(deadline)
        if self._is_long:  # others are not copied by themselves
            for buffer in self._inputs:
                buffer.settle(deadline)

    def _gains_from_parts(self, contents: Sequence[NDArray[Any] | None], into: Sequence[NDArray[Any] | None]) -> bool:
        read = zip(self._outputs, into or [None] * len(self._outputs), strict=True)
        written = zip(self._inputs, contents, strict=True)
        return any(buffer.gains_from_parts(array) for buffer, array in (*written, *read))

    def _run_in_parts(
        self,
        began: int,
        contents: Sequence[NDArray[Any] | None],
        outputs: Sequence[tuple[tuple[int, ...], np.dtype[Any]]],
        deadline: Deadline,
        into: Sequence[NDArray[Any] | None],
    ) -> tuple[list[NDArray[Any]], StageTimes]:
        """Move each array on its own: the device pinned ones, several threads long ones, in pieces."""
        moves: list[Move] = []
        for buffer, array in zip(self._inputs, contents, strict=True):
            if buffer.is_moved(array):
                moves.append(buffer.move(array))
            else:
                buffer.upload(array, deadline)
        self._move(moves, deadline)
        uploaded = time.perf_counter_ns()
        self._submission("dispatch").run_alone(deadline)
        dispatched = time.perf_counter_ns()
        read = zip(outputs, into or [None] * len(outputs), strict=True)
        results = [np.empty(*form) if target is None else target for form, target in read]
        moves = []
        for buffer, found in zip(self._outputs, results, strict=True):
            if buffer.is_moved(found):
                moves.append(buffer.move(found, is_down=True))
            else:
                buffer.read_range(0, buffer.byte_len, deadline, found.reshape(-1).view(np.uint8))
        self._move(moves, deadline)
        return results, self._stages(began, uploaded, dispatched)

    def _move(self, moves: Sequence[Move], deadline: Deadline) -> None:
        if moves:
            self._device.movers.move(moves, deadline, [buffer.tensor for buffer in self._inputs])

    def _bytes_of(self, places: Sequence[int], deadline: Deadline) -> list[NDArray[np.uint8]]:
        buffers = [self._inputs[place] for place in places]
        return [buffer.read_range(0, buffer.byte_len, deadline) for buffer in buffers]

    def _submission(self, stage: str) -> Submission:
        """Return a stage's submission, recorded when it is first wanted: kompute records the push constants' values."""
        found = self._submissions.get(stage)
        if found is None:
            found = self._submissions[stage] = record(self._device, self._operations(stage), self.bound)
        return found

    def _operations(self, stage: str) -> list[list[Any]]:
        api = self._device.api
        operations = []
        if stage in {"upload", "all"} and self._uploaded:
            operations.append([api.sync_device(self._uploaded)])
        if stage in {"dispatch", "all"}:
            operations.append([self.bound.dispatch(self._push or ())])
        if stage in {"readback", "all"} and self._read_back:
            operations.append([api.sync_local(self._read_back)])
        return operations
