"""A dispatch recorded once and replayed: buffers, pipeline, and upload + dispatch + read-back in one Sequence."""

from __future__ import annotations

import time
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_driver.backends.kompute.buffers import TensorBuffer, check_sizes, padded
from vyre_driver.errors import DispatchFailed, KernelCompileFailed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from vyre_driver.backends.kompute.device import KomputeDevice
    from vyre_driver.binding import BufferArgument

_UNUSED_BYTES = 4


@dataclass(frozen=True, slots=True)
class PipelineSource:
    """What a pipeline is made of: SPIR-V in host order, specialization words by SpecId, push-constant bytes."""

    code: bytes
    spec_words: tuple[int, ...]
    push_constant_bytes: int


@dataclass(frozen=True, slots=True)
class StageTimes:
    """Nanoseconds of one run.

    ``upload_ns`` and ``readback_ns`` are the host's copies, plus the device's when the stages were submitted apart;
    otherwise those are in ``dispatch_ns``.
    """

    upload_ns: int
    dispatch_ns: int
    readback_ns: int


class RecordedDispatch:
    """One pipeline bound to buffers of fixed sizes and to one grid.

    kompute binds set 0 as 0..n-1 in list order, so a binding number the shader skips gets a buffer of 4 bytes. The arguments of
    every ``run`` must have the byte sizes of the ones given here.
    """

    def __init__(
        self,
        device: KomputeDevice,
        source: PipelineSource,
        arguments: Sequence[BufferArgument],
        groups: tuple[int, int, int],
    ) -> None:
        """Allocate the buffers and make the pipeline; ``pipeline_ns`` tells how long the pipeline took.

        Raises
        ------
        LimitExceeded
            2104, DeviceOutOfMemory 1001: if a buffer or all of them do not fit.
        KernelCompileFailed
            1004 if the Vulkan driver refuses the module.
        """
        check_sizes(device, [(argument.binding.name, argument.byte_len) for argument in arguments])
        self._device = device
        slots = max(argument.binding.binding for argument in arguments) + 1
        used = {argument.binding.binding: argument.byte_len for argument in arguments}
        byte_lens = [used.get(slot, _UNUSED_BYTES) for slot in range(slots)]
        reserved = sum(padded(byte_len) for byte_len in byte_lens)
        device.reserve(reserved)
        self._release = weakref.finalize(self, device.release, reserved)
        self._buffers = [TensorBuffer(device, byte_len) for byte_len in byte_lens]
        self._zero([slot for slot in range(slots) if slot not in _consumed(arguments)])
        self._push_constant_words = source.push_constant_bytes // 4
        self._sequences: dict[str, Any] = {}
        self._push: tuple[int, ...] | None = None
        start = time.perf_counter_ns()
        self._algorithm = self._make_algorithm(source, groups)
        self.pipeline_ns = time.perf_counter_ns() - start

    def run(
        self, arguments: Sequence[BufferArgument], push_words: tuple[int, ...], *, split: bool = False
    ) -> tuple[list[NDArray[Any]], StageTimes]:
        """Upload the inputs, dispatch, read the outputs back; returns them in binding order.

        ``split`` submits the three stages one by one, so that each can be timed.

        Raises
        ------
        DispatchFailed
            1005 if kompute reports an error, the device is closed (ForkError 2005: in a forked child).
        """
        self._device.check_usable()
        self._record(arguments, push_words)
        began = time.perf_counter_ns()
        for argument in arguments:
            if argument.data is not None and argument.binding.role.consumes_input:
                self._buffers[argument.binding.binding].write(argument.data)
        self._submit(["upload"] if split else [])
        uploaded = time.perf_counter_ns()
        self._submit(["dispatch"] if split else ["all"])
        dispatched = time.perf_counter_ns()
        self._submit(["readback"] if split else [])
        outputs = [
            self._buffers[argument.binding.binding].read(argument.shape, argument.dtype)
            for argument in arguments
            if argument.binding.role.produces_output
        ]
        ended = time.perf_counter_ns()
        return outputs, StageTimes(uploaded - began, dispatched - uploaded, ended - dispatched)

    def _zero(self, slots: Sequence[int]) -> None:
        """Clear device memory that no upload will write: what the shader leaves out must not show another's bytes."""
        if slots:
            self._sequence(
                self._device.manager, [self._device.api.sync_device([self._buffers[slot].tensor for slot in slots])]
            ).eval()

    def _make_algorithm(self, source: PipelineSource, groups: tuple[int, int, int]) -> Any:  # noqa: ANN401 -- kp has no types
        # kompute turns constants into floats unless it is given both arrays, both of one integer type.
        spec = np.array(source.spec_words, np.uint32)
        push = np.zeros(self._push_constant_words, np.uint32)
        tensors = [buffer.tensor for buffer in self._buffers]
        try:
            algorithm = self._device.manager.algorithm(tensors, source.code, groups, spec, push)
        except RuntimeError as error:
            raise KernelCompileFailed(
                f"the Vulkan driver of {self._device.physical.name!r} refused the shader ({error})",
                fix="run spirv-val on the module, and report it with the driver's version if it passes",
            ) from error
        if not algorithm.is_init():
            raise KernelCompileFailed(
                f"the Vulkan driver of {self._device.physical.name!r} made no pipeline of the shader",
                fix="run spirv-val on the module",
            )
        return algorithm

    def _record(self, arguments: Sequence[BufferArgument], push_words: tuple[int, ...]) -> None:
        """Record the sequences anew when the push constants differ: kompute records their values.

        kompute's command pools cannot be reset, so each recording gets a Sequence of its own.
        """
        if self._push == push_words:
            return
        api, manager = self._device.api, self._device.manager
        tensors = {role: [] for role in ("upload", "readback")}  # type: dict[str, list[Any]]
        for argument in arguments:
            tensor = self._buffers[argument.binding.binding].tensor
            if argument.binding.role.consumes_input:
                tensors["upload"].append(tensor)
            if argument.binding.role.produces_output:
                tensors["readback"].append(tensor)
        operations = {
            "upload": [api.sync_device(tensors["upload"])] if tensors["upload"] else [],
            "dispatch": [api.dispatch(self._algorithm, np.array(push_words, np.uint32))],
            "readback": [api.sync_local(tensors["readback"])],
        }
        operations["all"] = [*operations["upload"], *operations["dispatch"], *operations["readback"]]
        self._sequences = {name: self._sequence(manager, recorded) for name, recorded in operations.items() if recorded}
        self._push = push_words

    @staticmethod
    def _sequence(manager: Any, operations: Sequence[Any]) -> Any:  # noqa: ANN401 -- kp has no types
        sequence = manager.sequence()
        for operation in operations:
            sequence.record(operation)
        return sequence

    def _submit(self, stages: Sequence[str]) -> None:
        for stage in stages:
            sequence = self._sequences.get(stage)
            if sequence is None:
                continue
            try:
                sequence.eval()
            except RuntimeError as error:
                raise DispatchFailed(
                    f"kompute failed on {self._device.physical.name!r} ({error})",
                    fix="run the shader under the Khronos validation layer",
                ) from error


def _consumed(arguments: Sequence[BufferArgument]) -> set[int]:
    return {argument.binding.binding for argument in arguments if argument.binding.role.consumes_input}
