"""A kernel on a driver: called with arrays or bound to resident buffers, with the best constants known for the size."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from vyre_driver.autotune.measure.definition import Call, DeviceFacts
from vyre_driver.autotune.measure.placement import CallBuffers, ResidentCall, bind_plan
from vyre_driver.autotune.store.records import size_text
from vyre_driver.binding.arguments import as_array
from vyre_driver.display.line import count, one_line
from vyre_driver.errors import InvalidInput
from vyre_driver.kompute.buffer import Buffer
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

    from vyre_driver.autotune.measure.bound_plan import BoundPlan
    from vyre_driver.autotune.measure.definition import KernelDefinition, Operand, Plan, Size, Step
    from vyre_driver.autotune.search.space import Candidate
    from vyre_driver.autotune.target import TuningTarget
    from vyre_driver.ir.program import Program
    from vyre_driver.runtime.base import BaseDriver
    from vyre_driver.runtime.kernel import Kernel
    from vyre_driver.spirv.module import SpirvModule

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
