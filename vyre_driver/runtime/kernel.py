"""A compiled module: called with arrays and buffers, or bound to resident buffers and replayed."""

from __future__ import annotations

import inspect
import time
from typing import TYPE_CHECKING, Any

from numpy import ascontiguousarray

from vyre_driver.binding._call_form import as_contiguous, as_targets, plain_workgroups
from vyre_driver.binding.arguments import check_switch
from vyre_driver.binding.grid import given_groups
from vyre_driver.binding.names import in_binding_order, split_named
from vyre_driver.binding.outputs import array_targets, as_given, wanted_shapes
from vyre_driver.binding.push_constants import pack_push_constants, packer_of
from vyre_driver.checks import check_text
from vyre_driver.display.line import one_line, table
from vyre_driver.errors import InvalidInput, InvalidPushConstant
from vyre_driver.kompute.buffer import Buffer
from vyre_driver.kompute.views import launch_part
from vyre_driver.process.copies import refuse_copies
from vyre_driver.runtime._quick import QuickLaunch
from vyre_driver.runtime.array_calls import ArrayCalls
from vyre_driver.runtime.bound import BoundKernel
from vyre_driver.runtime.describe import SignatureProperty, call_signature, described_binding, signature_text
from vyre_driver.runtime.kernel_pipelines import KernelPipelines
from vyre_driver.runtime.options import CallOptions, PreparedCall
from vyre_driver.runtime.resident import ResidentCalls
from vyre_driver.runtime.streamed import StreamedLoad
from vyre_driver.runtime.streamed_call import StreamedCall, arrays_among, split_options
from vyre_driver.spirv.disassembler import disassemble

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from vyre_driver.binding.plan import Binding
    from vyre_driver.runtime.array_calls import Contents
    from vyre_driver.runtime.calls import ProvenCall
    from vyre_driver.runtime.context import Context
    from vyre_driver.runtime.kernel_pipelines import CompiledKernel
    from vyre_driver.runtime.options import QuickCall
    from vyre_driver.runtime.streamed import Slots
    from vyre_driver.runtime.trace import Trace
    from vyre_driver.spirv.layout import Member

    Groups = tuple[int, int, int] | None
    Again = tuple[ProvenCall, Contents, tuple[int, ...], tuple[NDArray[Any] | None, ...]]


class Kernel:
    """A compiled module or program. ``trace`` is that of the last call. May be called from several threads."""

    def __init__(self, context: Context, compiled: CompiledKernel) -> None:
        """Made by ``Driver.compile``."""
        self._context = context
        self.source = compiled.source
        """What it is made of: plan, workgroup, constants and the rules of its calls."""
        self.plan = self.source.plan
        self.workgroup_size = self.source.workgroup
        """Invocations of a workgroup along x, y, z; what ``workgroups`` counts."""
        self._pipelines = KernelPipelines(context, compiled)
        self._observed = self._pipelines.observed
        self._array_calls = ArrayCalls(self._pipelines)
        self._resident_calls = ResidentCalls(self._pipelines, self._array_calls)
        self._proven = None if context.is_strict else self._array_calls.calls  # each strict call is checked anew
        names = {one.name for one in self.plan.descriptors}
        self._packer = packer_of(self.source.push_constants, self.source.named_push_bytes, names)

    def __call__(  # noqa: PLR0913 -- what a call takes, by keyword
        self,
        /,
        *arrays: object,
        workgroups: int | Sequence[int] | None = None,
        invocations: int | Sequence[int] | None = None,
        push_constants: Mapping[str, object] | None = None,
        out: object = None,
        out_shapes: Mapping[str, int | tuple[int, ...]] | None = None,
        split: bool = False,
        timeout: float | None = None,
        strict: bool | None = None,
        label: str | None = None,
        **named: object,
    ) -> Any:  # noqa: ANN401 -- an array, a buffer, or a tuple of them
        """Run the kernel once; one array comes back, or a tuple when the shader writes several.

        The results are numpy arrays, or buffers where every array given is a buffer. A buffer that is given for what the shader
        reads and writes is updated in place; a numpy array is written only where ``out`` has it. A call in which an array has
        no elements, or with 0 invocations, runs nothing.

        Parameters
        ----------
        arrays
            By position, in binding order: read-only buffers, read-write buffers, and write-only ones unless ``out``,
            ``out_shapes`` or the shader gives their size; those start with zeros. Each is a resident buffer of this driver, a
            numpy array, bytes, or what :func:`vyre_driver.binding.arguments.as_array` reads. For structures it is a mapping by
            the names of the members, a list of such, or a structured array, which are packed as the shader lays them out.
        workgroups
            Workgroups of ``workgroup_size`` invocations along x, y, z.
        invocations
            Invocations along x, y, z, rounded up to whole workgroups. Without either, one for each element of the largest
            output; where workgroup or code have more axes than the first, one for each place in the shape of the outputs
            (the last axis is x). That is refused where the shape has fewer than two axes (three where the workgroup has three),
            and where an array that is only read is longer than the longest output.
        push_constants
            Push constants by name; most are given as keywords.
        out
            The output's place, which is also returned: a contiguous array or a buffer of its shape and type. Where there are
            several outputs, a tuple of them, None for a new one, or a mapping by name. It gives the shape of a write-only
            output.
        out_shapes
            Shapes of write-only buffers by name, or their numbers of elements; the result has that shape.
        split
            Submit upload, dispatch and read-back one by one, so that ``trace`` can tell them apart; refused with buffers, which
            are neither uploaded nor read back.
        timeout
            Seconds to wait for the device, with calls of the same form on other threads, which come first; making the pipeline
            is not counted, and a strict call's runs count each. None waits for ever.
        strict
            Whether to check that all of write-only buffers is written, that read-only ones stay as they are, and that no loop
            is cut; None does as the driver. May run the shader several times (:mod:`vyre_driver.runtime.strict`).
        label
            Name of the call, for ``driver.events``.
        named
            Arrays by the names of their buffers, and push constants by theirs: all of those that the shader declares.

        Raises
        ------
        InvalidInput
            If an array, the grid, a name or an option do not fit; nothing has run then.
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
            If the device fails (DeviceLost, LoopCut) or the driver is closed (ForkError).
        OutputNotWritten
            If a strict call finds elements that nothing wrote.
        InputChanged
            If a strict call finds an input that has changed.
        """
        began = time.perf_counter_ns()
        try:
            again = None
            if strict is None and invocations is None and split is False:
                again = self._again(arrays, named, workgroups, push_constants, out_shapes, out)
            if again is not None:
                if label is not None:
                    check_text("label", label)
                outputs: list[Any] = self._array_calls.run_again(*again, timeout)
            else:
                check_switch("strict", strict)
                check_switch("split", split)
                is_strict = self._context.is_strict if strict is None else bool(strict)
                options = CallOptions(
                    workgroups, invocations, push_constants, out, out_shapes, split, timeout, is_strict, label
                )
                outputs = self._run(arrays, named, options)
        except Exception as error:
            self._observed.failed(error, time.perf_counter_ns() - began)
            raise
        self._observed.dispatches.ran(began, label)
        return as_returned(outputs)

    def _call_plainly(
        self,
        arrays: tuple[object, ...],
        workgroups: tuple[int, int, int] | None,
        push_constants: dict[str, Any],
        out: object = None,
        out_shapes: Mapping[str, int | tuple[int, ...]] | None = None,
    ) -> Any:  # noqa: ANN401 -- an array, a buffer, or a tuple of them
        """As a call with these arguments and no others: for ``vyre_driver.lang``, in whose calls keywords take 0.5 us."""
        began = time.perf_counter_ns()
        try:
            again = self._again(arrays, {}, workgroups, push_constants, out_shapes, out)
            if again is not None:
                outputs: list[Any] = self._array_calls.run_again(*again, None)
            else:
                is_strict = self._context.is_strict
                options = CallOptions(workgroups, None, push_constants, out, out_shapes, strict=is_strict)
                outputs = self._run(arrays, {}, options)
        except Exception as error:
            if not isinstance(error, InvalidInput | InvalidPushConstant):  # which lang says again in its own words
                self._observed.failed(error, time.perf_counter_ns() - began)
            raise
        self._observed.dispatches.ran(began)
        return as_returned(outputs)

    def _quick_launch(self, call: QuickCall) -> QuickLaunch | None:
        """Return what launches calls like this one in one pass; None where there is none, or none yet."""
        packer, context = self._packer, self._context
        words = None if packer is None else packer.pack(call.numbers)
        if packer is None or words is None or context.is_strict:
            return None
        known = self._resident_calls.launchable(call.buffers, call.grid)
        if known is None:
            return None
        launchable, counts = known
        forms = tuple([(place, one.dtype, one.shape) for place, one in zip(call.places, call.buffers, strict=True)])
        numbers = tuple([(place, *packer.layout[name]) for name, place in call.number_places])
        dispatches, failed = self._observed.dispatches, self._observed.failed
        how = (call.reference, call.watch, launch_part, call.argument_count, forms, numbers, words + counts, call.written)
        return QuickLaunch(launchable, dispatches, failed, context.device, Buffer, *how)

    def bind(
        self,
        /,
        *buffers: Buffer,
        workgroups: int | Sequence[int] | None = None,
        invocations: int | Sequence[int] | None = None,
        push_constants: Mapping[str, object] | None = None,
        label: str | None = None,
        **named: object,
    ) -> BoundKernel:
        """Bind resident buffers, one for each binding, by position or name, and record the dispatch.

        Grid, push constants and label as in a call. Binding the same buffers in the same way again takes what was recorded
        then. A view is bound where it lies if it begins at a multiple of ``minStorageBufferOffsetAlignment``; otherwise each
        run copies it.

        Raises
        ------
        InvalidInput
            If a buffer is of another driver, or buffers, names or the grid do not fit.
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
            packer, words = self._packer, None
            if label is not None:
                check_text("label", label)
            if packer is not None and invocations is None:
                words = packer.pack_call(named, push_constants)
            groups = None if workgroups is None else plain_workgroups(workgroups)
            if words is not None and (groups is None) is (workgroups is None):
                return self._bound(buffers, groups, words, label)
            return self._bind(buffers, named, CallOptions(workgroups, invocations, push_constants), label)
        except Exception as error:
            self._observed.failed(error)
            raise

    def _bind(
        self, buffers: tuple[object, ...], named: dict[str, object], options: CallOptions, label: str | None
    ) -> BoundKernel:
        buffers, push_words = self._pushed(buffers, named, options)
        groups = given_groups(self.workgroup_size, options.workgroups, options.invocations)
        return self._bound(buffers, groups, push_words, label)

    def _bound(
        self, buffers: tuple[object, ...], groups: Groups, push_words: tuple[int, ...], label: str | None
    ) -> BoundKernel:
        return BoundKernel(self._resident_calls.dispatch(buffers, groups, push_words), label)

    @property
    def name(self) -> str:
        """The module's or the program's name."""
        return self.source.name

    @property
    def signature(self) -> str:
        """What a call takes, as a line: buffers with their types and access, then push constants."""
        return signature_text(self.source)

    @SignatureProperty
    def __signature__(self) -> inspect.Signature:
        """What ``inspect.signature`` shows: buffers and push constants by their names, and the options of every call."""
        return call_signature(self.buffers, self.push_constants, inspect.signature(Kernel.__call__))

    @property
    def buffers(self) -> tuple[Binding, ...]:
        """The buffers that a call takes, in binding order: name, role, type and size of each."""
        return self.plan.descriptors

    @property
    def push_constants(self) -> tuple[Member, ...]:
        """The push constants: name, offset in bytes and type of each."""
        return self.source.push_constants

    def disassemble(self) -> str:
        """Return the SPIR-V that runs as text, by spirv-dis.

        Raises
        ------
        ToolUnavailable
            If spirv-dis is not installed.
        """
        return disassemble(self._pipelines.spirv, self.name)

    __reduce_ex__ = refuse_copies

    def __repr__(self) -> str:
        """Return its signature and workgroup on one line."""
        return one_line("Kernel", self.signature, f"workgroups of {'x'.join(map(str, self.workgroup_size))}")

    def _repr_html_(self) -> str:
        rows = [(one.name, described_binding(one).partition(": ")[2]) for one in self.buffers]
        rows += [(one.name, f"{one.type} push constant") for one in self.push_constants]
        rows += [(name, f"constant {value}") for name, value in self.constants.items()]
        return table(rows, caption=f"Kernel {self.name}, workgroups of {'x'.join(map(str, self.workgroup_size))}")

    @property
    def constants(self) -> dict[str, int | float | bool]:
        """The value of each specialization constant by name: the caller's, else the tuned one, else the declared one.

        Of a program, those that were given.
        """
        return dict(self.source.constants)

    @property
    def trace(self) -> Trace:
        """What the cache said at compile time, and where the time of the last call went."""
        return self._pipelines.trace

    def _again(  # noqa: PLR0913 -- a call, taken apart
        self,
        arrays: tuple[object, ...],
        named: dict[str, object],
        workgroups: int | Sequence[int] | None,
        push_constants: Mapping[str, object] | None,
        out_shapes: Mapping[str, int | tuple[int, ...]] | None,
        out: object,
    ) -> Again | None:
        """Return the call that was proven before, if this one has its form and is all plain.

        With it come contents, push words and targets.
        """
        packer, proven = self._packer, self._proven
        words = None if packer is None else packer.pack_call(named, push_constants)
        if words is None or proven is None:
            return None
        groups = None if workgroups is None else plain_workgroups(workgroups)
        if (groups is None) is not (workgroups is None):
            return None
        found = proven.find(arrays, groups, out_shapes, out)
        if found is None:
            return None
        contents = as_contiguous(arrays, found.positions, ascontiguousarray)
        if out is None:
            return found, contents, words, ()
        targets = as_targets(out)
        return None if targets is None else (found, contents, words, targets)

    def _run(self, arrays: tuple[object, ...], named: dict[str, object], options: CallOptions) -> list[Buffer | NDArray[Any]]:
        call = self._prepared(arrays, named, options)
        calls: ArrayCalls | ResidentCalls = self._array_calls
        for one in (*call.arrays, *call.targets):
            if type(one) is Buffer:
                calls = self._resident_calls
        return as_given(self.source.plan, list(calls.run(*call)), options.out)

    def _load(self, arrays: tuple[object, ...], named: dict[str, object], options: CallOptions, slots: Slots) -> StreamedLoad:
        """Prove a call of a stream and place it; one that runs nothing has its outputs at once. Raises as a call."""
        found = self._resident_calls.load(self._prepared(arrays, named, options), slots)
        return StreamedLoad(outputs=self._run(arrays, named, options)) if found is None else found

    def _prepared(self, arrays: tuple[object, ...], named: dict[str, object], options: CallOptions) -> PreparedCall:
        plan = self.source.plan
        targets = () if options.out is None else array_targets(plan, options.out)
        if targets:
            options = options._replace(sized=wanted_shapes(plan, options.out_shapes, targets))
        arrays, push_words = self._pushed(arrays, named, options)
        if options.label is not None:  # after the push constants, of which one may have that name
            check_text("label", options.label)
        groups = given_groups(self.source.workgroup, options.workgroups, options.invocations)
        return PreparedCall(arrays, push_words, groups, targets, options)

    def __vyre_stream__(
        self, context: Context, arrays: tuple[object, ...], named: dict[str, object], out: object
    ) -> StreamedCall:
        """Return a call of a stream: arrays and options as of a call, ``out`` as its."""
        if context is not self._context:
            raise InvalidInput(
                f"the kernel {self.name!r} is of another driver than the stream", fix="stream with the driver that compiled it"
            )
        taken, options = split_options(named, out, is_strict=context.is_strict)
        written = out if isinstance(out, tuple | list) else (out,)
        both = tuple(arrays_among((*arrays, *taken.values()))), tuple(arrays_among(written))
        return StreamedCall(self, arrays, taken, options, lambda found: as_returned(as_given(self.plan, found, out)), *both)

    def _pushed(
        self, arrays: tuple[object, ...], named: dict[str, object], options: CallOptions
    ) -> tuple[tuple[object, ...], tuple[int, ...]]:
        """Return the arrays in binding order, and the push constants' words."""
        source, given = self.source, options.push_constants
        packer = self._packer
        words = None if packer is None else packer.pack_call(named, given)
        if words is not None:
            return arrays, words
        if named:
            names = [one.name for one in source.push_constants]
            by_name, given = split_named(source.plan, names, named, given)
            if by_name:
                left_out = wanted_shapes(source.plan, options.shapes, ())
                arrays = in_binding_order(source.plan, arrays, by_name, left_out)
        given = {} if given is None else given
        return arrays, pack_push_constants(source.push_constants, source.named_push_bytes, given, source.plan.subject)


def as_returned(outputs: list[Any]) -> Any:  # noqa: ANN401 -- an array, a buffer, or a tuple of them
    """Return the outputs of a call as it returns them: the only one, or a tuple."""
    return outputs[0] if len(outputs) == 1 else tuple(outputs)
