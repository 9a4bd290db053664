"""A kernel on a driver: called with arrays or bound to resident buffers, with the best constants known for the size."""

from __future__ import annotations

import threading
from collections import OrderedDict
from importlib import import_module
from typing import TYPE_CHECKING, Any

from vyre_driver.arguments import as_array
from vyre_driver.errors import InvalidInput
from vyre_driver.kernels.definition import DeviceFacts, Operand

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from vyre_driver.autotune.space import Candidate
    from vyre_driver.backends.kompute.resident import Buffer
    from vyre_driver.bound import BoundKernel, DispatchFuture
    from vyre_driver.driver import Driver
    from vyre_driver.ir.program import Program
    from vyre_driver.kernel import Kernel
    from vyre_driver.kernels.definition import KernelDefinition, Plan, Size, Step
    from vyre_driver.spirv.module import SpirvModule

_MAX_CALLS = 4


class TunedKernel:
    """A kernel of :mod:`vyre_driver.kernels`, or of a definition of your own. May be called from several threads."""

    def __init__(self, driver: Driver, definition: KernelDefinition) -> None:
        """Choose what the driver's device runs of it.

        Raises
        ------
        UnsupportedFeature
            1002 if the device cannot run the kernel.
        InvalidTuningSpace
            2210 if none of its candidates will do there.
        """
        self.driver = driver
        self.definition = definition
        self.device = DeviceFacts(driver.physical_device, frozenset(driver.backend.features))
        self.space = definition.space(self.device)
        self.candidates = self.space.candidates(driver.physical_device.limits)
        self.target = definition.target(self.device, self.space)
        self._compiled: dict[object, tuple[SpirvModule | Program, Kernel]] = {}
        self._known: dict[Size, Candidate] = {}
        self._calls: OrderedDict[object, _Call] = OrderedDict()
        self._lock = threading.RLock()

    def __call__(self, *arrays: object, **parameters: Any) -> NDArray[Any] | tuple[NDArray[Any], ...]:  # noqa: ANN401 -- what the definition takes
        """Run it on arrays, in the order of ``definition.inputs``; one array comes back, or a tuple.

        The buffers of the last calls are kept, for calls with arrays of the same shapes.

        Raises
        ------
        InvalidInput
            2201 if the arrays or parameters do not fit the kernel.
        DeviceOutOfMemory
            1001, DispatchFailed 1005 and their kin: as a call of a ``Kernel``.
        """
        given = [as_array(array) for array in arrays]
        operands = self._operands([Operand(one.shape, one.dtype) for one in given])
        size = self.definition.size(operands, parameters)
        candidate = self._tuned(size)
        form = (candidate, *((one.shape, one.dtype) for one in operands.values()), *sorted(parameters.items()))
        with self._lock:
            call = self._calls.pop(form, None)
            if call is None:
                while len(self._calls) >= _MAX_CALLS:
                    self._calls.popitem(last=False)[1].close()
                call = _Call(self, operands, parameters, candidate)
            self._calls[form] = call
            return call.run(given)

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
            2201 if the buffers do not fit the kernel.
        """
        operands = self._operands([Operand(one.shape, one.dtype) for one in buffers])
        size = self.definition.size(operands, parameters)
        chosen = self._tuned(size) if candidate is None else candidate
        plan = self.definition.plan(operands, parameters, chosen, self.device)
        outputs = tuple(out) if isinstance(out, (tuple, list)) else (out,)
        self._check_outputs(plan, outputs)
        named = dict(zip(self.definition.inputs, buffers, strict=True)) | dict(zip(plan.outputs, outputs, strict=True))
        return BoundPlan(self, plan, named)

    def candidate(self, size: Size) -> Candidate:
        """Return what a call of this size runs with: the best known, else the space's first."""
        at = self.definition.size_class(size)
        found = self._known.get(at)
        if found is None:
            found = self._known[at] = self.target.known(self.driver.tuning, at) or self.candidates[0]
        return found

    def forget(self) -> None:
        """Look the records up again at the next call."""
        self._known.clear()

    def compiled(self, step: Step) -> Kernel:
        """Return the kernel of a step; the same one for the same module and constants."""
        key = (id(step.module), step.config, *sorted(step.specs.items()))
        with self._lock:
            found = self._compiled.get(key)
            if found is None:  # the module is kept, so that nothing else gets its id
                made = self.driver.compile(step.module, step.specs, step.config)
                found = self._compiled[key] = step.module, made
            return found[1]

    def close(self) -> None:
        """Let the buffers of calls go; a second call does nothing."""
        with self._lock:
            while self._calls:
                self._calls.popitem()[1].close()

    def _operands(self, given: list[Operand]) -> dict[str, Operand]:
        names = self.definition.inputs
        if len(given) != len(names):
            raise InvalidInput(
                f"{self.definition.name} takes {len(names)} arrays ({', '.join(names)}) and got {len(given)}",
                fix=f"give {len(names)}",
                expected=len(names),
                received=len(given),
            )
        return dict(zip(names, given, strict=True))

    def _check_outputs(self, plan: Plan, outputs: tuple[Buffer, ...]) -> None:
        if len(outputs) != len(plan.outputs):
            raise InvalidInput(
                f"{self.definition.name} writes {len(plan.outputs)} buffers and got {len(outputs)} as out",
                fix=f"give {', '.join(plan.outputs)}",
            )
        for (name, wanted), buffer in zip(plan.outputs.items(), outputs, strict=True):
            if (buffer.shape, buffer.dtype) != (wanted.shape, wanted.dtype):
                raise InvalidInput(
                    f"{name} of {self.definition.name} has shape {wanted.shape} and type {wanted.dtype}, and the buffer "
                    f"has {buffer.shape} and {buffer.dtype}",
                    fix="give a buffer of that shape and type",
                )

    def _tuned(self, size: Size) -> Candidate:
        """Return the candidate for a size, tuned first where the mode says so."""
        tuning = self.driver.tuning
        if tuning.may_tune:
            with self._lock:
                if tuning.claims(self.target, self.definition.size_class(size)):
                    import_module("vyre_driver.tuner_calls").tune_unasked(self, size)  # late: most never tune
        return self.candidate(size)


class BoundPlan:
    """A plan on resident buffers, recorded once; it holds the temporaries, and all memory as long as it lives."""

    def __init__(self, kernel: TunedKernel, plan: Plan, buffers: Mapping[str, Buffer]) -> None:
        """Make the temporaries and bind each step; made by ``TunedKernel.bind``."""
        made = {name: kernel.driver.empty(one.shape, one.dtype) for name, one in plan.temporaries.items()}
        named = {**buffers, **made}
        self._temporaries = tuple(made.values())
        self.bound: tuple[BoundKernel, ...] = tuple(
            kernel.compiled(step).bind(*(named[name] for name in step.buffers), groups=step.groups, push=step.push or None)
            for step in plan.steps
        )
        """The dispatches, in order."""
        self._batch = None
        if len(self.bound) > 1:
            self._batch = kernel.driver.batch()
            for one in self.bound:
                self._batch.add(one)

    def run(self, timeout: float | None = None) -> None:
        """Run it and wait; raises as ``BoundKernel.run``."""
        (self._batch or self.bound[0]).run(timeout)

    def submit(self) -> DispatchFuture:
        """Hand the work to the device and return at once."""
        return (self._batch or self.bound[0]).submit()

    def close(self) -> None:
        """Give the temporaries back once nothing runs; a second call does nothing."""
        self.bound, self._batch = (), None
        for one in self._temporaries:
            one.close()


class _Call:
    """A bound plan with buffers of its own, for arrays of one shape."""

    def __init__(
        self, kernel: TunedKernel, operands: Mapping[str, Operand], parameters: Mapping[str, Any], candidate: Candidate
    ) -> None:
        plan = kernel.definition.plan(operands, parameters, candidate, kernel.device)
        self._buffers: dict[str, Buffer] = {}
        try:
            for name, one in {**operands, **plan.outputs}.items():
                self._buffers[name] = kernel.driver.empty(one.shape, one.dtype)
            self._bound = BoundPlan(kernel, plan, self._buffers)
        except BaseException:
            for buffer in self._buffers.values():
                buffer.close()
            raise
        self._inputs = tuple(self._buffers[name] for name in operands)
        self._outputs = tuple(self._buffers[name] for name in plan.outputs)

    def run(self, arrays: Sequence[NDArray[Any]]) -> NDArray[Any] | tuple[NDArray[Any], ...]:
        for buffer, array in zip(self._inputs, arrays, strict=True):
            buffer.write(array)
        self._bound.run()
        outputs = tuple(buffer.read() for buffer in self._outputs)
        return outputs[0] if len(outputs) == 1 else outputs

    def close(self) -> None:
        self._bound.close()
        for buffer in self._buffers.values():
            buffer.close()
