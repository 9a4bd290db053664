"""A dispatch with arrays, recorded once and replayed: upload, dispatch, read-back."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_driver.errors import DispatchFailed
from vyre_driver.kompute.deadline import Deadline
from vyre_driver.kompute.memory import LEAST_PINNED_WRITE, TensorBuffer, check_sizes, padded
from vyre_driver.kompute.recording import record
from vyre_driver.kompute.submission import Submission
from vyre_driver.process.call_lock import call_lock
from vyre_driver.telemetry.stages import Stage
from vyre_driver.vulkan.layer import _layer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from vyre_driver.binding.arguments import BufferArgument
    from vyre_driver.kompute.device import KomputeDevice
    from vyre_driver.kompute.pipeline import BoundPipeline
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
        self._uploaded = [buffer.upload_region for buffer in self._inputs if not buffer.is_mapped]
        self._is_long = any(buffer.byte_len >= LEAST_PINNED_WRITE for buffer in self._inputs)
        self._bytes_up = sum(buffer.byte_len for buffer in self._inputs)
        self._bytes_down = sum(buffer.byte_len for buffer in self._outputs)
        self._is_staged = all(buffer.is_staged for buffer in self._inputs)
        self._read_back = [buffer.readback_region for buffer in self._outputs if not buffer.is_read_in_place]
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
            self._device.movers.move(moves, deadline, tuple([buffer.allocation for buffer in self._inputs]))

    def _bytes_of(self, places: Sequence[int], deadline: Deadline) -> list[NDArray[np.uint8]]:
        buffers = [self._inputs[place] for place in places]
        return [buffer.read_range(0, buffer.byte_len, deadline) for buffer in buffers]

    def _submission(self, stage: str) -> Submission:
        """Return a stage's submission, recorded when it is first wanted: kompute records the push constants' values."""
        found = self._submissions.get(stage)
        if found is None:
            found = self._submissions[stage] = (
                self._copied(stage) if stage in {"upload", "readback"} else self._dispatched(stage)
            )
        return found

    def _copied(self, stage: str) -> Submission:
        device = self._device
        regions = self._uploaded if stage == "upload" else self._read_back
        return Submission(
            device, (_layer.Transfer(device.layer, regions, (device.manager, *self.bound.memory_with(None))),), self.bound
        )

    def _dispatched(self, stage: str) -> Submission:
        bound = self.bound
        made = bound.dispatch(self._push or ())
        if stage == "all" and (self._uploaded or self._read_back):
            operation, before, after = made if isinstance(made, tuple) else (made, (), ())
            made = (operation, (*self._uploaded, *before), (*after, *self._read_back))
        return record(
            self._device,
            [[made]],
            bound,
            watched=bound.watched,
            cut_word=bound.cut_word,
            memory=bound.memory_with(bound.cut_word),
        )
