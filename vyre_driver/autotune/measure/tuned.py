"""A kernel on a driver: called with arrays or bound to resident buffers, with the best constants known for the size."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_driver.autotune.measure.definition import Call, DeviceFacts, KernelDefinition, Operand, Plan, Size, Step
from vyre_driver.autotune.store.records import size_text
from vyre_driver.binding.arguments import as_array
from vyre_driver.binding.outputs import check_apart, host_targets, named_targets
from vyre_driver.display.line import count, one_line
from vyre_driver.errors import DispatchFailed, InvalidInput
from vyre_driver.kompute.buffer import Buffer
from vyre_driver.kompute.elements import check_target
from vyre_driver.kompute.memory import check_sizes
from vyre_driver.process.call_lock import call_lock
from vyre_driver.process.copies import refuse_copies
from vyre_driver.runtime.describe import SignatureProperty, tuned_signature
from vyre_driver.runtime.resident import check_buffers
from vyre_driver.spirv.disassembler import disassemble
from vyre_driver.telemetry.events import EventKind

if TYPE_CHECKING:
    import inspect
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from vyre_driver.autotune.search.space import Candidate
    from vyre_driver.autotune.target import TuningTarget
    from vyre_driver.ir.program import Program
    from vyre_driver.runtime.base import BaseDriver
    from vyre_driver.runtime.batch import Batch
    from vyre_driver.runtime.bound import BoundKernel
    from vyre_driver.runtime.futures import DispatchFuture
    from vyre_driver.runtime.kernel import Kernel
    from vyre_driver.spirv.module import SpirvModule

    Given = NDArray[Any] | Buffer


class BoundPlan:
    """A plan on resident buffers, recorded once; it holds the temporaries, and all memory as long as it lives."""

    def __init__(self, kernel: TunedKernel, plan: Plan, buffers: Mapping[str, Buffer]) -> None:
        """Make the temporaries and bind each step; made by ``TunedKernel.bind``."""
        self.plan = plan
        self._name = kernel.definition.name
        self._temporaries: list[Buffer] = []
        self.bound: tuple[BoundKernel, ...] = ()
        """The dispatches, in order."""
        self._batch: Batch | None = None
        try:
            self._bind(kernel, plan, dict(buffers))
        except BaseException:
            self.close()
            raise

    __reduce_ex__ = refuse_copies

    def run(self, timeout: float | None = None) -> None:
        """Run it and wait; raises as ``BoundKernel.run``, and DispatchFailed 1005 after ``close``."""
        self._whole().run(timeout)

    def submit(self, *, block: bool | None = None) -> DispatchFuture:
        """Hand the work to the device and return at once, as ``BoundKernel.submit``; DispatchFailed 1005 after ``close``."""
        return self._whole().submit(block=block)

    def close(self) -> None:
        """Give the temporaries back once nothing runs; a second call does nothing."""
        self.bound, self._batch = (), None
        while self._temporaries:
            self._temporaries.pop().close()

    def _bind(self, kernel: TunedKernel, plan: Plan, named: dict[str, Buffer]) -> None:
        for name, one in plan.temporaries.items():
            named[name] = Buffer(kernel.driver.context.device, one.shape, one.dtype)
            self._temporaries.append(named[name])
        self.bound = tuple(
            kernel.compiled(step).bind(
                *step.arguments(named), workgroups=step.workgroups, push_constants=step.push_constants or None
            )
            for step in plan.steps
        )
        if len(self.bound) > 1:
            self._batch = kernel.driver.batch()
            for bound in self.bound:
                self._batch.add(bound)

    def _whole(self) -> Batch | BoundKernel:
        if not self.bound:
            raise DispatchFailed(f"the bound {self._name} is closed", fix="bind it again")
        return self._batch or self.bound[0]


@dataclass(frozen=True, slots=True)
class Output:
    """What a plan writes under a name, and the array or buffer that is to have it: None for a new one."""

    kernel: str
    name: str
    operand: Operand
    target: Any
    given: Any = None
    """The caller's tensor, where ``target`` is an array in its memory."""

    @property
    def described(self) -> str:
        """Name and kernel, for a message."""
        return f"{self.name} of {self.kernel}"

    def returned(self, result: Given) -> Any:  # noqa: ANN401 -- an array, a buffer or a tensor
        """Return what a call gives back for a result: the caller's tensor, where the result was written there."""
        return result if self.given is None else self.given

    def check(self) -> None:
        """Check that the target has the right shape and type, and can be written to; raises InvalidInput otherwise."""
        wanted, target = self.operand, self.target
        if isinstance(target, np.ndarray):
            check_target(target, wanted.shape, wanted.dtype, self)
        elif target is not None and (target.shape, target.dtype) != (wanted.shape, wanted.dtype):
            raise InvalidInput(
                f"{self.described} has shape {wanted.shape} and type {wanted.dtype}, and the buffer "
                f"has {target.shape} and {target.dtype}",
                fix="give a buffer of that shape and type",
            )


def checked_outputs(kernel: str, plan: Plan, out: object) -> tuple[Output, ...]:
    """Return what a plan writes, in its order, with what ``out`` of a call gives for it.

    Raises InvalidInput if something there does not fit, or two share memory.
    """
    given = [None] * len(plan.outputs) if out is None else named_targets(tuple(plan.outputs), out, kernel)
    found = tuple(
        Output(kernel, name, operand, target, None if target is one else one)
        for (name, operand), target, one in zip(plan.outputs.items(), host_targets(given), given, strict=True)
    )
    for output in found:
        output.check()
    check_apart([(output, output.target) for output in found])
    return found


def check_overwritten(inputs: Mapping[str, Buffer], outputs: Sequence[Output], *, may_overwrite: bool) -> None:
    """Check that a plan writes to none of its inputs but those that it works on in place, or may overwrite.

    Raises InvalidInput if it would, or is to work in place with another buffer.
    """
    for output in outputs:
        buffer = output.target
        for over, given in inputs.items():
            is_spared = over == output.name or (may_overwrite and given.span == buffer.span)
            if not is_spared and given.overlaps(buffer):
                how = "are one buffer" if given.span == buffer.span else "share memory"
                raise InvalidInput(
                    f"{output.kernel} reads {over} after it began to write {output.name}, and both {how}",
                    fix="give another buffer as out",
                )
        if inputs.get(output.name, buffer) is not buffer:
            raise InvalidInput(
                f"{output.kernel} works on {output.name} in place, and out is another buffer than {output.name}",
                fix=f"give the buffer of {output.name} as out too",
            )


def bind_plan(kernel: TunedKernel, plan: Plan, inputs: Mapping[str, Buffer], outputs: Sequence[Buffer]) -> BoundPlan:
    """Bind a plan of a kernel to buffers, where they fit it.

    Raises InvalidInput if they do not, or one is written before it was read; and as ``BoundPlan``.
    """
    written = checked_outputs(kernel.definition.public_name, plan, tuple(outputs))
    check_overwritten(inputs, written, may_overwrite=kernel.definition.may_overwrite)
    named = {**inputs, **{one.name: one.target for one in written}}
    return kernel.driver.context.room.make(lambda: BoundPlan(kernel, plan, named))


class CallBuffers:
    """Buffers for arrays of one shape, and the plan that was bound to them last.

    It does not hold the kernel, which holds it: the buffers go with the last who uses that, and wait for no garbage collection.
    """

    def __init__(self, driver: BaseDriver, memory: Mapping[str, Operand]) -> None:
        """Allocate them."""
        self.used = 0  # by the kernel: when it was last called
        self.form: object = None  # what calls have to be like that the plan is for
        self._buffers: dict[str, Buffer] = {}
        self._bound: BoundPlan | None = None
        try:
            for name, one in memory.items():
                self._buffers[name] = Buffer(driver.context.device, one.shape, one.dtype)
            if any(0 in one.shape for one in memory.values()):  # then steps may run nothing, and their outputs are zeros
                for buffer in self._buffers.values():
                    buffer.fill(0)
        except BaseException:
            self.close()
            raise

    def bind(self, kernel: TunedKernel, plan: Plan, form: object) -> None:
        """Bind a plan, in the place of another one: with another candidate, or of a call with other parameters."""
        if self.form != form:
            self._unbind()
            self._bound = BoundPlan(kernel, plan, self._buffers)
            self.form = form

    def run(self, kernel: str, given: Mapping[str, NDArray[Any]], out: object) -> tuple[NDArray[Any], ...]:
        """Run it on arrays; returns the outputs, each in its target where ``out`` has one; raises as ``checked_outputs``."""
        assert self._bound is not None  # noqa: S101 -- the kernel binds before it runs
        outputs = checked_outputs(kernel, self._bound.plan, out)
        for name, array in given.items():
            self._buffers[name].write(array)
        self._bound.run()
        if len(outputs) == 1:
            return (outputs[0].returned(self._buffers[outputs[0].name].read(out=outputs[0].target)),)
        # Where memory is short for one of them the call is made again, with arrays that nothing has been written to.
        results = [self._buffers[one.name].read() for one in outputs]
        for place, one in enumerate(outputs):
            if one.target is not None:
                np.copyto(one.target, results[place])
                results[place] = one.returned(one.target)
        return tuple(results)

    def close(self) -> None:
        """Let plan and buffers go."""
        self._unbind()
        while self._buffers:
            self._buffers.popitem()[1].close()

    def _unbind(self) -> None:
        bound, self._bound = self._bound, None
        if bound is not None:
            bound.close()


class ResidentCall:
    """A call with a buffer among its arrays or targets: arrays of the host are copied to buffers that last as long as it."""

    def __init__(self, kernel: TunedKernel, plan: Plan, given: Mapping[str, Given], out: object) -> None:
        """Check the buffers.

        Raises
        ------
        InvalidInput
            If one does not fit or is of another driver, or is written before it was read.
        DispatchFailed
            If one is closed.
        """
        self._kernel = kernel
        self._plan = plan
        self._given = given
        self._outputs = checked_outputs(kernel.definition.public_name, plan, out)
        self._made: list[Buffer] = []
        for name, one in [*given.items(), *((one.name, one.target) for one in self._outputs)]:
            if isinstance(one, Buffer):
                self._check_usable(name, one)
        self._check_begun()

    def run(self) -> tuple[Given, ...]:
        """Run it; returns buffers where a target is one, or there is none and all arrays are buffers, else arrays."""
        try:
            return self._run()
        finally:
            for one in self._made:
                one.close()

    def _run(self) -> tuple[Given, ...]:
        inputs = {name: self._input(name, one) for name, one in self._given.items()}
        written = [self._written(one, inputs) for one in self._outputs]
        bound = bind_plan(self._kernel, self._plan, inputs, written)
        try:
            self._begin(inputs)
            bound.run()
        finally:
            bound.close()
        is_resident = all(isinstance(one, Buffer) for one in self._given.values())
        results: list[Given] = []
        for one, buffer in zip(self._outputs, written, strict=True):
            is_buffer = one.target is buffer or (one.target is None and is_resident)
            results.append(buffer if is_buffer else one.returned(buffer.read(out=one.target)))
        self._made = [made for made in self._made if all(made is not one for one in results)]
        return tuple(results)

    def _input(self, name: str, given: Given) -> Buffer:
        """Return the buffer of an input: the target of what is worked on in place, else the caller's, or a new one."""
        target = next((one.target for one in self._outputs if one.name == name), None)
        found = target if isinstance(target, Buffer) else given
        return found if isinstance(found, Buffer) else self._new(name, given.shape, given.dtype)

    def _written(self, output: Output, inputs: Mapping[str, Buffer]) -> Buffer:
        """Return the buffer of an output: that of the input of its name, else its target, or a new one."""
        found = inputs.get(output.name, output.target)
        return found if isinstance(found, Buffer) else self._new(output.name, output.operand.shape, output.operand.dtype)

    def _new(self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Buffer:
        context = self._kernel.driver.context
        self._made.append(context.room.make(lambda: Buffer(context.device, shape, dtype, name)))
        if any(0 in given.shape for given in self._given.values()):  # then steps may run nothing, and their outputs are zeros
            self._made[-1].fill(0)
        return self._made[-1]

    def _begin(self, inputs: Mapping[str, Buffer]) -> None:
        """Copy what is not yet where the plan reads it."""
        for name, given in self._given.items():
            if not isinstance(given, Buffer):
                inputs[name].write(given)
            elif given is not inputs[name]:
                given.copy_to(inputs[name])

    def _check_usable(self, name: str, buffer: Buffer) -> None:
        if buffer.device is not self._kernel.driver.context.device:
            raise InvalidInput(
                f"{name} of {self._kernel.definition.public_name} got a buffer of another driver, on "
                f"{buffer.device.physical.name!r}",
                fix="make it with the driver of the kernel",
                binding=name,
            )
        buffer.check_open()

    def _check_begun(self) -> None:
        """Check that no target that begins with what one input holds is in the place of another one."""
        for output in self._outputs:
            for name, given in self._given.items():
                if output.name not in self._given or name == output.name or not isinstance(output.target, Buffer):
                    continue
                if isinstance(given, Buffer) and given.overlaps(output.target):
                    raise InvalidInput(
                        f"out for {output.described} shares memory with {name}, and would begin with what {output.name} is "
                        "given, before the kernel has read it",
                        fix="give out memory of its own",
                        bindings=(output.name, name),
                    )


_MAX_CALLS = 4
_MAX_COMPILED = 256  # steps: modules with their constants
_MAX_SIZES = 1024  # classes of sizes whose best candidate is remembered


class TunedKernel:
    """A kernel of :mod:`vyre_driver.kernels`, or of a definition of your own. May be called from several threads.

    Which dispatches a call is made of depends on its size: buffers and push constants are those of each one in ``kernels``.
    """

    def __init__(self, driver: BaseDriver, definition: KernelDefinition) -> None:
        """Choose what the driver's device runs of it.

        Raises
        ------
        InvalidInput
            If ``driver`` is no driver.
        UnsupportedFeature
            If the device cannot run the kernel.
        InvalidTuningSpace
            If none of its candidates will do there.
        DispatchFailed
            If the driver is closed.
        """
        check_driver(driver, definition.public_name)
        driver.context.device.check_usable()
        self.driver = driver
        self.definition = definition
        self.device = DeviceFacts.of(driver)
        self.space = definition.space(self.device)
        if not definition.is_included:
            _ = self.target  # which refuses modules that cannot be bound
        self._compiled: dict[object, tuple[SpirvModule | Program, Kernel]] = {}
        self._known: dict[Size, Candidate] = {}
        self._latest: tuple[Size | None, Candidate] = None, self.space.first(driver.device.limits)
        self._calls: OrderedDict[object, CallBuffers] = OrderedDict()  # the latest last
        self._lock = threading.RLock()  # of what is compiled and tuned
        self._calling = call_lock(definition.name)  # of the calls, their buffers and what is bound to them
        driver.context.room.add(self)

    @property
    def name(self) -> str:
        """The definition's."""
        return self.definition.name

    @cached_property
    def target(self) -> TuningTarget:
        """What tuning records of the kernel are for."""
        return self.definition.target(self.device)

    @cached_property
    def candidates(self) -> tuple[Candidate, ...]:
        """What is valid on the device, preferred first; enumerated when it is first asked for."""
        return self.space.candidates(self.driver.device.limits)

    @property
    def signature(self) -> str:
        """What a call takes, as a line: arrays in order, then parameters."""
        named = [one.name if one.default is one.empty else f"{one.name}={one.default!r}" for one in self.definition.parameters]
        return f"{self.name}({'; '.join(filter(None, (', '.join(self.definition.inputs), ', '.join(named))))})"

    @SignatureProperty
    def __signature__(self) -> inspect.Signature:
        """What ``inspect.signature`` shows: arrays by position, parameters by keyword."""
        return tuned_signature(self.definition.inputs, self.definition.parameters)

    @property
    def constants(self) -> dict[str, int]:
        """What was chosen for the size that was asked for last, by name; of the space's first candidate before that."""
        return dict(self._latest[1].constants)

    @property
    def workgroup_size(self) -> tuple[int, int, int]:
        """Invocations of a workgroup along x, y, z, as chosen for the size that was asked for last."""
        return self._latest[1].workgroup_size

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """The kernels of the dispatches that calls have needed until now."""
        return tuple(made for _, made in list(self._compiled.values()))

    def disassemble(self) -> str:
        """Return the SPIR-V of the modules that calls may run as text, one after the other, by spirv-dis.

        Raises
        ------
        ToolUnavailable
            If spirv-dis is not installed.
        """
        return "\n".join(disassemble(one.code, one.name) for one in self.definition.modules(self.device))

    __reduce_ex__ = refuse_copies

    def __repr__(self) -> str:
        """Return its signature, what may be tuned, and what was chosen last for which size, on one line."""
        size, chosen = self._latest
        axes = ", ".join(axis.constant for axis in self.space.axes)
        space = f"{count(len(self.candidates), 'candidate')}{' of ' if axes else ''}{axes}"
        told = f"chosen{f' for {size_text(size)}' if size else ''}: {chosen}"
        return one_line("TunedKernel", self.signature, space, "nothing chosen yet" if size is None else told)

    def __call__(self, *arrays: object, out: object = None, **parameters: Any) -> Any:  # noqa: ANN401 -- an array, a buffer, or a tuple of them
        """Run it on arrays, in the order of ``definition.inputs``; one array comes back, or a tuple.

        Each is a resident buffer of this driver, or what a ``Kernel`` takes. The results are numpy arrays, or buffers where
        every array given is a buffer. A buffer that the kernel works on in place is updated; a numpy array is written only
        where ``out`` has it.

        The buffers of the last four shapes are kept, for calls with numpy arrays like those; they go where memory is wanted. A
        call with a buffer keeps none, and takes new ones for what is not resident.

        Parameters
        ----------
        out
            The output's place, which is also returned: a contiguous array, a tensor of PyTorch in the memory of the CPU, or a
            buffer, of its shape and type. Where there are
            several outputs, a tuple of them, None for a new one, or a mapping by name. A buffer that one of the other arguments
            shares is refused, unless the definition ``may_overwrite`` it.

        Raises
        ------
        InvalidInput
            If the arrays, parameters or ``out`` do not fit the kernel; nothing has run then.
        LimitExceeded
            If an array is larger than a buffer of the device may be; no memory is taken then.
        DeviceOutOfMemory
            As a call of a ``Kernel``.
        DispatchFailed
            As a call of a ``Kernel``, or if a buffer is closed.
        """
        try:
            results = self._called(arrays, parameters, out)
        except Exception as error:
            self.driver.events.failed(EventKind.DISPATCH, error, kernel=self.definition.name)
            raise
        return results[0] if len(results) == 1 else results

    def _called(self, arrays: tuple[object, ...], parameters: dict[str, Any], out: object) -> tuple[NDArray[Any] | Buffer, ...]:
        given = [one if isinstance(one, Buffer) else as_array(one) for one in arrays]
        operands = self.definition.operands(given)
        size = self.definition.size(operands, parameters)
        call = Call(operands, parameters, size, self._tuned(operands, size), self.device)
        named = dict(zip(self.definition.inputs, given, strict=True))
        targets = out.values() if isinstance(out, Mapping) else out if isinstance(out, (tuple, list)) else (out,)
        if any(isinstance(one, Buffer) for one in (*given, *targets)):
            return ResidentCall(self, self._plan(call), named, out).run()
        return self.driver.context.room.make(lambda: self._run(call, named, out))

    def _run(self, wanted: Call, given: Mapping[str, Any], out: object) -> tuple[NDArray[Any], ...]:
        """Run a call of arrays alone, in the buffers of the last one if it was like this."""
        form = wanted.candidate, list(wanted.operands.values()), _typed(wanted.parameters)
        with self._calling:
            call = next(reversed(self._calls.values()), None)
            if call is None or call.form != form:
                call = self._prepared(form, wanted)
            call.used = next(self.driver.context.room.uses)
            return call.run(self.definition.public_name, given, out)

    def bind(
        self,
        *buffers: Buffer,
        out: Buffer | Sequence[Buffer],
        candidate: Candidate | None = None,
        **parameters: Any,  # noqa: ANN401 -- what the definition takes
    ) -> BoundPlan:
        """Bind resident buffers: the inputs in order, and ``out`` for what the kernel writes; its dispatches are recorded once.

        ``candidate`` takes the place of the best one known.

        Raises
        ------
        InvalidInput
            If the buffers do not fit the kernel.
        """
        outputs = tuple(out) if isinstance(out, (tuple, list)) else (out,)
        check_buffers(self.driver.context.device, (*buffers, *outputs))
        operands = self.definition.operands(buffers)
        size = self.definition.size(operands, parameters)
        chosen = self._tuned(operands, size) if candidate is None else candidate
        plan = self._plan(Call(operands, parameters, size, chosen, self.device))
        if len(outputs) != len(plan.outputs):
            raise InvalidInput(
                f"{self.definition.public_name} writes {count(len(plan.outputs), 'buffer')} and got {len(outputs)} as out",
                fix=f"give {', '.join(plan.outputs)}",
            )
        return bind_plan(self, plan, dict(zip(self.definition.inputs, buffers, strict=True)), outputs)

    def candidate(self, size: Size) -> Candidate:
        """Return what a call of this size runs with: the best known, else the space's first."""
        at, known = self.definition.size_class(size), self._known
        found = known.get(at)
        if found is None:
            if len(known) >= _MAX_SIZES:
                self.forget()
                known = self._known
            found = known[at] = self.target.known(self.driver.tuning, at) or self.definition.untuned(self.candidates, size)
        self._latest = size, found
        return found

    def forget(self) -> None:
        """Look the records up again at the next call."""
        self._known = {}  # not cleared: what another thread is looking up just now may be of before

    def compiled(self, step: Step) -> Kernel:
        """Return the kernel of a step; the same one for the same module and constants."""
        key = (id(step.module), step.config, *sorted(step.constants.items()))
        with self._lock:
            found = self._compiled.get(key)
            if found is None:  # the module is kept, so that nothing else gets its id
                made = self.driver.compile(step.module, step.constants, step.config)
                if len(self._compiled) >= _MAX_COMPILED:
                    del self._compiled[next(iter(self._compiled))]
                found = self._compiled[key] = step.module, made
            return found[1]

    def close(self) -> None:
        """Let the buffers of calls go; a second call does nothing."""
        with self._calling:
            while self._calls:
                self._calls.popitem()[1].close()

    def _prepared(self, form: object, wanted: Call) -> CallBuffers:
        """Return buffers to which a call's plan is bound; under the lock, where those of earlier calls stay."""
        plan = self._plan(wanted)
        memory = {**wanted.operands, **plan.outputs}
        shapes = tuple((name, one.shape, one.dtype) for name, one in memory.items())
        call = self._calls.pop(shapes, None)
        while len(self._calls) >= _MAX_CALLS:
            self._calls.popitem(last=False)[1].close()
        try:
            call = call or CallBuffers(self.driver, memory)
            call.bind(self, plan, form)
        except BaseException:
            if call is not None:
                call.close()
            raise
        self._calls[shapes] = call
        return call

    def _plan(self, call: Call) -> Plan:
        """Return a call's plan, whose memory fits into buffers of the device; LimitExceeded names what does not."""
        plan = self.definition.plan(call)
        memory = {**call.operands, **plan.outputs, **plan.temporaries}
        sizes = [
            (f"{name} of {self.definition.public_name}", math.prod(one.shape) * one.dtype.itemsize)
            for name, one in memory.items()
        ]
        check_sizes(self.driver.context.device, sizes)
        return plan

    def oldest_use(self) -> int | None:
        """Return when what was not called for longest was called, None if nothing is kept; as ``Keeper``."""
        return min([one.used for one in list(self._calls.values())], default=None)

    def let_go(self) -> bool:
        """Drop the buffers of the shape that was not called for longest, unless a call is under way; as ``Keeper``."""
        with self._calling.attempt() as is_mine:
            if is_mine and self._calls:
                self._calls.popitem(last=False)[1].close()
                return True
        return False

    def _tuned(self, operands: Mapping[str, Operand], size: Size) -> Candidate:
        """Return the candidate for a size, tuned first where the mode says so and there is something to measure."""
        tuning = self.driver.tuning
        if tuning.tunes_on_first_use and not any(0 in one.shape for one in operands.values()):
            with self._lock:
                if tuning.claim(self.target, self.definition.size_class(size)):
                    from vyre_driver.autotune.measure.tune import tune_unasked, warned  # late: most never tune

                    with warned():
                        tune_unasked(self, size)
        return self.candidate(size)


def check_driver(driver: object, kernel: str) -> None:
    """Check that a kernel is made for a driver; callers new to this pass the arrays there."""
    if not hasattr(getattr(driver, "context", None), "device"):  # an isolated driver has a context of its own kind
        raise InvalidInput(
            f"{kernel} is made for a driver and got something of type {type(driver).__name__}",
            fix="pass a Driver, and call what comes back on arrays",
            parameter="driver",
        )


def _typed(values: Mapping[str, object]) -> list[tuple[str, type, str]]:
    """Return parameters so that 0.0 is not -0.0, and 1 not 1.0."""
    return [(name, type(value), repr(value)) for name, value in values.items()]
