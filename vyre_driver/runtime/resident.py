"""Calls and bindings with resident buffers: which memory each binding gets, and what comes back."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from vyre_driver.binding.arguments import check_aliases
from vyre_driver.binding.outputs import check_apart, checked_arguments, returned_form
from vyre_driver.errors import InvalidInput
from vyre_driver.kompute.buffer import Buffer
from vyre_driver.kompute.deadline import Deadline
from vyre_driver.kompute.elements import check_target
from vyre_driver.kompute.results import VK_TIMEOUT
from vyre_driver.kompute.submission import NoDispatch
from vyre_driver.kompute.views import launch_part, pieces_of
from vyre_driver.runtime.array_calls import grid_of, runs_nothing
from vyre_driver.runtime.bound import RecentBindings, ResidentDispatch
from vyre_driver.runtime.placement import Contents, Result, part_of
from vyre_driver.runtime.streamed import check_streamed, streamed_load
from vyre_driver.vulkan.layer._layer import Launchable, wait_for_launch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from vyre_driver.binding.arguments import BufferArgument
    from vyre_driver.kompute.device import KomputeDevice
    from vyre_driver.kompute.pipeline import BoundPipeline
    from vyre_driver.runtime.array_calls import ArrayCalls
    from vyre_driver.runtime.kernel_pipelines import KernelPipelines
    from vyre_driver.runtime.options import CallOptions, PreparedCall
    from vyre_driver.runtime.streamed import Slot, Slots, StreamedLoad


_MAX_PROOFS = 64


class ProvenBinding(NamedTuple):
    """What is known of buffers that fit: the element counts that a program reads, and the grid, None where nothing runs."""

    words: tuple[int, ...]
    grid: tuple[int, int, int] | None


class ResidentCalls:
    """The bindings of one kernel, and its calls that bring buffers."""

    def __init__(self, pipelines: KernelPipelines, array_calls: ArrayCalls) -> None:
        """Have bound nothing."""
        self._pipelines = pipelines
        self._array_calls = array_calls
        self._source = pipelines.source
        self._context = pipelines.context
        self._recent = RecentBindings()
        self._proofs: dict[object, ProvenBinding] = {}
        self._launchables: dict[object, Launchable] = {}
        self._descriptors = pipelines.source.plan.descriptors
        self._writes = [one.role.produces_output for one in self._descriptors]

    def dispatch(
        self, given: tuple[Any, ...], groups: tuple[int, int, int] | None, push_words: tuple[int, ...]
    ) -> ResidentDispatch:
        """Return what was recorded for these buffers, this grid and these push constants, recorded now if need be."""
        device = self._context.device
        device.in_use.check_usable()
        forms = [one.form for one in given if type(one) is Buffer and one.device is device]
        if len(forms) < len(given):
            check_buffers(device, given)
            forms = [one.form for one in given]
        form = (tuple(forms), groups, push_words)
        found = self._recent.find(form)
        if found is None:
            lifetimes = [buffer.lifetime for buffer in given]  # as they are before: a buffer may be closed meanwhile
            proven = self._proven(given, groups, is_apart=len(set(lifetimes)) == len(lifetimes))
            found = self._bind(proven, given, push_words)
            self._recent.remember(form, found, lifetimes)
        return found

    def _proven(self, buffers: Sequence[Buffer], groups: tuple[int, int, int] | None, *, is_apart: bool) -> ProvenBinding:
        """Prove that buffers fit, or find that others of the same shapes and types did, where each has memory of its own."""
        key = (tuple([(one.shape, one.dtype) for one in buffers]), groups)
        known = self._proofs.get(key)
        if known is not None and is_apart:
            return known
        arguments = self._source.plan.check_resident(buffers, allow_empty=True)
        self._check_overlaps(buffers)
        proven = self._prove(arguments, groups)
        if len(self._proofs) >= _MAX_PROOFS:
            self._proofs.clear()
        self._proofs[key] = proven
        return proven

    def _check_overlaps(self, buffers: Sequence[Buffer]) -> None:
        """Check that what is written overlaps nothing but itself: invocations would read what others have written."""
        for place, one in enumerate(buffers):
            for other, earlier in enumerate(buffers[:place]):
                written = self._writes[place] + self._writes[other]
                if written and one.overlaps(earlier) and (written == 2 or one.span != earlier.span):
                    first, second = (self._descriptors[at] for at in (other, place))
                    raise InvalidInput(
                        f"{first.described} and {second.described} share memory, and "
                        f"{'both are' if written == 2 else 'one is'} written",
                        fix="give each memory of its own (copy.copy); a buffer that is written may be read too, where each "
                        "invocation reads only what it writes",
                        bindings=(first.name, second.name),
                    )

    def _prove(self, arguments: Sequence[BufferArgument], groups: tuple[int, int, int] | None) -> ProvenBinding:
        words = self._source.rules.push_words(arguments)
        if runs_nothing(arguments, groups):
            return ProvenBinding(words, None)
        limits = self._context.device.physical.limits
        return ProvenBinding(words, grid_of(self._source, limits, groups, arguments))

    def _bind(self, proven: ProvenBinding, buffers: Sequence[Buffer], push_words: tuple[int, ...]) -> ResidentDispatch:
        context, grid = self._context, proven.grid
        pipeline: BoundPipeline | NoDispatch
        if grid is None:
            for buffer in buffers:
                buffer.check_open()
            pipeline = NoDispatch(context.device)
        else:
            pipeline = self._pipelines.with_room(
                lambda: self._pipelines.bind(pieces_of(context.device, buffers, self._writes), grid)
            )
        return ResidentDispatch(pipeline, self._source, push_words, proven.words, buffers, self._pipelines.observed)

    def run(
        self,
        arrays: tuple[object, ...],
        push_words: tuple[int, ...],
        groups: tuple[int, int, int] | None,
        targets: Sequence[object],
        options: CallOptions,
    ) -> list[Buffer | NDArray[Any]]:
        """Run on the caller's buffers, and on new ones for what is not resident."""
        if options.split:
            raise InvalidInput(
                "split=True is given, and a call with resident buffers has no upload, dispatch and read-back to tell apart",
                fix="leave split out, or call with arrays alone",
            )
        plan = self._source.plan
        given = [one for one in arrays if type(one) is Buffer]
        if len(given) == len(arrays) == len(self._descriptors) and not (targets or options.strict or options.shapes):
            if not self._launch(given, groups, push_words, options.timeout):
                self.dispatch(arrays, groups, push_words).recordings.first.run(options.timeout)
            outputs = zip(self._descriptors, given, strict=True)
            return [part_of(one, buffer) for one, buffer in outputs if one.output_index is not None]
        arguments = checked_arguments(plan, arrays, options.shapes)
        buffers, contents, results = self._placed(arguments, arrays, targets, None, in_stream=options.in_stream)
        self._check_overlaps(buffers)
        if options.strict:
            self._run_strictly(arrays, push_words, groups, options, contents, results)
            return [one.take(options.timeout) for one in results]
        bound = self._bind(self._prove(arguments, groups), buffers, push_words)
        deadline = Deadline(options.timeout, self._context.device.physical.name)
        for one in contents:
            one.put(deadline)
        bound.recordings.first.run(deadline)
        return [one.take(deadline) for one in results]

    def _launch(
        self, buffers: list[Buffer], groups: tuple[int, int, int] | None, push_words: tuple[int, ...], timeout: float | None
    ) -> bool:
        """Launch on buffers and wait; return False where this takes a recording of its own, as the first call does."""
        device = self._context.device
        known = self.launchable(buffers, groups)
        if known is None:
            return False
        launchable, words = known
        parts = []
        for buffer in buffers:
            part = launch_part(buffer)
            if part is None:
                return False
            parts.append(part)
        deadline = device.never if timeout is None else Deadline(timeout, device.physical.name)
        with device.in_use:  # closing the device waits for the end of both
            number = launchable.launch(parts, push_words + words)
            result = wait_for_launch(device.layer, number, deadline.left_ns())
        if result == VK_TIMEOUT:
            raise deadline.passed()
        device.check_result(result)
        return True

    def launchable(
        self, buffers: Sequence[Buffer], groups: tuple[int, int, int] | None
    ) -> tuple[Launchable, tuple[int, ...]] | None:
        """Return what launches the kernel on buffers like these, and the words behind its push constants.

        None where nothing runs, before the first pipeline is made, and where the layer binds no buffers to it.
        """
        device = self._context.device
        if any(buffer.device is not device for buffer in buffers):
            return None
        lifetimes = {buffer.lifetime for buffer in buffers}
        proven = self._proven(buffers, groups, is_apart=len(lifetimes) == len(buffers))
        if proven.grid is None:
            return None
        key = tuple([(buffer.shape, buffer.dtype) for buffer in buffers]), groups
        launchable = self._launchables.get(key)
        if launchable is None:
            launchable = self._pipelines.launchable(proven.grid, [buffer.nbytes for buffer in buffers], self._writes)
            if launchable is None:
                return None
            if len(self._launchables) >= _MAX_PROOFS:
                self._launchables.clear()
            self._launchables[key] = launchable
        return launchable, proven.words

    def load(self, call: PreparedCall, slots: Slots) -> StreamedLoad | None:
        """Prove a call of a stream, and place it in a slot; None if it runs nothing.

        Raises InvalidInput as a call, and where a buffer of the caller's would be copied from or to.
        """
        arguments = checked_arguments(self._source.plan, call.arrays, call.options.shapes)
        proven = self._prove(arguments, call.groups)
        grid = proven.grid
        if grid is None:
            return None
        given = [[one.form if isinstance(one, Buffer) else None for one in both] for both in (call.arrays, call.targets)]
        slot = slots.take((self, grid, [(one.shape, one.dtype) for one in arguments], given))
        try:
            buffers, contents, results = self._placed(arguments, call.arrays, call.targets, slot, in_stream=True)
            self._check_overlaps(buffers)
            check_streamed(contents, results, slot)
            pipeline = slot.pipeline = slot.pipeline or self._pipelines.with_room(
                lambda: self._pipelines.bind(pieces_of(self._context.device, buffers, self._writes), grid)
            )
        except BaseException:
            slots.give_back(slot)
            raise
        return streamed_load(slot, pipeline, call.push_words + proven.words, contents, results)

    def _run_strictly(  # noqa: PLR0913 -- a call
        self,
        arrays: tuple[object, ...],
        push_words: tuple[int, ...],
        groups: tuple[int, int, int] | None,
        options: CallOptions,
        contents: Sequence[Contents],
        results: Sequence[Result],
    ) -> None:
        """Run a watched call on what the buffers hold, and write to them what it gives."""
        timeout = options.timeout
        host = tuple([array.read(timeout) if isinstance(array, Buffer) else array for array in arrays])
        outputs = self._array_calls.run(host, push_words, groups, (), options)
        for one in contents:
            one.put(timeout)
        for result, output in zip(results, outputs, strict=True):
            is_packed = result.form.elements is not None
            contained = self._source.plan.pack(result.binding.name, output) if is_packed else output
            part_of(result.binding, result.buffer).write(contained, timeout)

    def _placed(
        self,
        arguments: Sequence[BufferArgument],
        arrays: Sequence[object],
        targets: Sequence[object],
        slot: Slot | None,
        *,
        in_stream: bool,
    ) -> tuple[tuple[Buffer, ...], list[Contents], list[Result]]:
        """Give each argument the caller's buffer or a new one; returns them, what they begin with, and the results.

        A buffer that is given for what is read and written is updated in place, unless another buffer is its target: then that
        one begins with its contents. New outputs are buffers where every array given is one, else they come back as arrays.
        In a stream new outputs come back as arrays, and the caller's buffers as they are. With a slot its buffers are taken for
        new ones.
        """
        is_resident = not in_stream and bool(arrays) and all(isinstance(one, Buffer) for one in arrays)
        buffers: list[Buffer] = []
        contents: list[Contents] = []
        results: list[Result] = []
        for one in arguments:
            source = None if one.position is None else arrays[one.position]
            is_output = one.binding.output_index is not None
            target = targets[len(results)] if targets and is_output else None
            buffers.append(self._buffer_of(one, source, target, slot))
            begins = one.data is not None or isinstance(source, Buffer) or not isinstance(target, Buffer)
            if buffers[-1] is not source and begins:
                contents.append(Contents(len(buffers) - 1, buffers[-1], source if isinstance(source, Buffer) else one.data))
            if not is_output:
                continue
            if target is not None and not isinstance(target, Buffer):
                check_target(target, *returned_form(one.binding, *one.result.returned), one.binding)
            is_kept = is_resident or (in_stream and isinstance(source, Buffer))
            is_array = not (isinstance(target, Buffer) or (target is None and is_kept))
            into = target if isinstance(target, np.ndarray) else None
            results.append(Result(one.binding, buffers[-1], one.result, into, is_array))
        check_apart([(one.binding, one.buffer) for one in results])
        check_apart([(one.binding, one.target) for one in results])
        check_aliases(self._source.plan, buffers)
        check_unread(arguments, buffers, contents)
        check_out(arguments, buffers, targets)
        return tuple(buffers), contents, results

    def _buffer_of(self, argument: BufferArgument, source: object, target: object, slot: Slot | None) -> Buffer:
        """Return the buffer that a binding gets."""
        given = [one for one in (target, source) if isinstance(one, Buffer)]
        for one in given:
            self._check_device(one, argument)
        form, device = argument.result, self._context.device
        if isinstance(target, Buffer) and (target.shape != form.shape or target.dtype != form.dtype):
            raise InvalidInput(
                f"out has a {target.described} for {argument.binding.described}, which has shape {form.shape} and type "
                f"{form.dtype}",
                fix=f"give driver.empty({form.shape}, {str(form.dtype)!r})",
                binding=argument.binding.name,
            )
        if given:
            return given[0]
        made = functools.partial(Buffer, device, form.shape, form.dtype, argument.binding.name)
        return self._context.room.make(made if slot is None else functools.partial(slot.buffer, argument.binding.name, made))

    def _check_device(self, buffer: Buffer, argument: BufferArgument) -> None:
        if buffer.device is not self._context.device:
            raise InvalidInput(
                f"{argument.binding.described} got a buffer of another driver, on {buffer.device.physical.name!r}",
                fix="make it with the driver that compiled the kernel",
                binding=argument.binding.name,
            )


def check_unread(arguments: Sequence[BufferArgument], buffers: Sequence[Buffer], contents: Sequence[Contents]) -> None:
    """Check that no buffer that a call begins with writing is one that the kernel reads in another place."""
    for filled in contents:
        sources = {one.place: one.source for one in contents}
        for place, buffer in enumerate(buffers):
            source = sources.get(place)
            touches = buffer.overlaps(filled.buffer) or (isinstance(source, Buffer) and source.overlaps(filled.buffer))
            if place != filled.place and touches:
                one, another = arguments[filled.place].binding, arguments[place].binding
                raise InvalidInput(
                    f"out for {one.described} shares memory with {another.described}, and would begin with what {one.name!r} "
                    "is given, before the kernel has read it",
                    fix=f"give out memory of its own, or {another.name!r} as a copy (copy.copy)",
                    bindings=(one.name, another.name),
                )


def check_out(arguments: Sequence[BufferArgument], buffers: Sequence[Buffer], targets: Sequence[object]) -> None:
    """Check that no buffer of ``out`` is one that the kernel reads in another place.

    An array in ``out`` gets its result when all is read. One buffer for two arguments is the caller's word that each invocation
    reads only what it writes, which no inspection of a shader finds out; ``out`` says nothing of the kind.
    """
    for one, buffer in zip(arguments, buffers, strict=True):
        if not any(target is buffer for target in targets):
            continue
        for other, another in zip(arguments, buffers, strict=True):
            if other is not one and other.binding.role.consumes_input and another.overlaps(buffer):
                raise InvalidInput(
                    f"out for {one.binding.described} shares memory with {other.binding.described}, which may be read after it "
                    "was written",
                    fix="give out memory of its own; where each invocation reads only what it writes, give the buffer for "
                    f"{one.binding.name!r} as an argument too, and leave out= out",
                    bindings=(one.binding.name, other.binding.name),
                )


def check_buffers(device: KomputeDevice, given: Sequence[object]) -> None:
    """Check that all are buffers of this device, and raise InvalidInput otherwise."""
    for number, one in enumerate(given, start=1):
        if not isinstance(one, Buffer):
            raise InvalidInput(
                f"argument {number} of bind is of type {type(one).__name__}, and bind takes resident buffers",
                fix="make one with driver.buffer(array), or call the kernel with arrays",
            )
        if one.device is not device:
            raise InvalidInput(
                f"argument {number} of bind is a buffer of another driver, on {one.device.physical.name!r}",
                fix="make it with the driver that compiled the kernel",
            )
