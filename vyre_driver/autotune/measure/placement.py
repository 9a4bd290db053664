"""Which memory the arrays of a tuned kernel's call are in, and what comes back of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_driver.autotune.measure.bound_plan import BoundPlan
from vyre_driver.binding.outputs import check_apart, host_targets, named_targets
from vyre_driver.errors import InvalidInput
from vyre_driver.kompute.buffer import Buffer
from vyre_driver.kompute.elements import check_target

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from vyre_driver.autotune.measure.definition import KernelOnDriver, Operand, Plan
    from vyre_driver.runtime.base import BaseDriver

    Given = NDArray[Any] | Buffer


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


def bind_plan(kernel: KernelOnDriver, plan: Plan, inputs: Mapping[str, Buffer], outputs: Sequence[Buffer]) -> BoundPlan:
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
        except BaseException:
            self.close()
            raise

    def bind(self, kernel: KernelOnDriver, plan: Plan, form: object) -> None:
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

    def __init__(self, kernel: KernelOnDriver, plan: Plan, given: Mapping[str, Given], out: object) -> None:
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
