"""Candidates on a device: made ready on buffers that all share, run on fresh inputs, timed.

The time of a run is the device's own, from before its first dispatch to after its last. Where the device has no clock, or the
layer is off, it is the host's, of several runs handed over as one, so that they take a millisecond or more.
"""

from __future__ import annotations

import statistics
import time
import weakref
from contextlib import ExitStack
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_driver.autotune.measure.definition import DeviceFacts, Operand
from vyre_driver.autotune.search.outcomes import Abandoned, WrongOutputs
from vyre_driver.errors import DeviceLost, DispatchTimeout
from vyre_driver.kompute.timing import TimedDispatches
from vyre_driver.runtime.recording import unrecorded

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from vyre_driver.autotune.measure.definition import KernelDefinition, Plan
    from vyre_driver.autotune.search.space import Candidate
    from vyre_driver.kompute.buffer import Buffer
    from vyre_driver.runtime.base import BaseDriver
    from vyre_driver.runtime.bound import BoundKernel

    Outputs = Sequence[NDArray[Any]]

POISON = 0xA5
"""Each byte of an output before the run that is checked."""


def difference(right: Outputs, given: Outputs, tolerance: float) -> str | None:
    """Return where outputs differ from the right ones, None if they agree.

    They may be apart by ``tolerance`` of the largest finite magnitude in the right ones; 0 is bit for bit. NaN agrees with NaN,
    an infinity with itself.
    """
    if len(right) != len(given):
        return f"there are {len(given)} outputs, and {len(right)} are right"
    for number, (one, other) in enumerate(zip(right, given, strict=True), start=1):
        why = _difference(one, other, tolerance)
        if why is not None:
            return f"output {number}: {why}"
    return None


def unwritten(outputs: Outputs) -> str | None:
    """Return that nothing was written, where every byte is still the poison."""
    if all((_bytes(one) == POISON).all() for one in outputs):
        return "nothing was written to the outputs"
    return None


def _difference(right: NDArray[Any], given: NDArray[Any], tolerance: float) -> str | None:
    if (right.shape, right.dtype) != (given.shape, given.dtype):
        return f"{given.dtype} of shape {given.shape}, and {right.dtype} of shape {right.shape} is right"
    if right.size == 0:
        return None
    wrong = _unequal(right, given) if tolerance == 0 else _apart(right, given, tolerance)
    count = int(np.count_nonzero(wrong))
    if count == 0:
        return None
    first = int(np.argmax(wrong))
    should, found = right.reshape(-1)[first], given.reshape(-1)[first]
    return f"{count} of {right.size} elements are wrong, the first at index {first}: {found!s}, and {should!s} is right"


def _unequal(right: NDArray[Any], given: NDArray[Any]) -> NDArray[np.bool_]:
    width = right.dtype.itemsize
    wrong: NDArray[np.bool_] = (_bytes(right).reshape(-1, width) != _bytes(given).reshape(-1, width)).any(axis=1)
    return wrong


def _apart(right: NDArray[Any], given: NDArray[Any], tolerance: float) -> NDArray[np.bool_]:
    with np.errstate(all="ignore"):  # some CPUs raise at a signalling NaN, which a device may give, when it is converted
        one, other = (array.reshape(-1).astype(np.float64) for array in (right, given))
        finite = np.isfinite(one)
        largest = float(np.abs(one[finite]).max(initial=0.0))
        near = np.abs(one - other) <= tolerance * largest
    same = (one == other) | (np.isnan(one) & np.isnan(other))
    return ~np.where(finite, near, same)


def _bytes(array: NDArray[Any]) -> NDArray[np.uint8]:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


SEED = 20
_LEAST_TIMED_NS = 1_000_000
_BUSY_NS = 10_000_000  # of work that is handed over at once, so that the device does not wait for the host in between
_MAX_REPEATS = 1000

# What still runs is let go with its driver, and not before: to let go of it is to wait for it.
_running: dict[weakref.ref[BaseDriver], list[object]] = {}


class Workbench:
    """The buffers of one call, which every candidate is run on."""

    def __init__(  # noqa: PLR0913 -- by keyword
        self,
        driver: BaseDriver,
        definition: KernelDefinition,
        arrays: Sequence[NDArray[Any]],
        parameters: Mapping[str, Any],
        *,
        run_timeout: float | None,
        patience: float = 0.0,
    ) -> None:
        """Upload the inputs.

        ``run_timeout`` is how many seconds one run may take, and ``patience`` how many more the device is waited for then: if
        it is busy still, no other candidate can be run.

        Raises
        ------
        InvalidInput
            If the arrays do not fit the kernel.
        DeviceOutOfMemory
            If they do not fit into the device's memory.
        """
        self.driver = driver
        self.definition = definition
        self.device = DeviceFacts.of(driver)
        self.parameters = dict(parameters)
        self.run_timeout = run_timeout
        self.patience = patience
        self.arrays = dict(zip(definition.inputs, arrays, strict=True))
        self.operands = definition.operands(arrays)
        self._shared: dict[object, Buffer] = {}
        self._is_stuck = False
        try:
            for name, array in self.arrays.items():
                self.buffer(name, self.operands[name]).write(array)
        except BaseException:
            self.close()
            raise

    def make(self, candidate: Candidate) -> DeviceTrial:
        """Make a candidate ready; raises as ``Driver.compile`` and ``Kernel.bind``."""
        call = self.definition.call(self.operands, self.parameters, candidate, self.device)
        return DeviceTrial(self, candidate, self.definition.plan(call))

    def buffer(self, name: str, operand: Operand) -> Buffer:
        """Return the buffer of that name, shape and type, which is the same for every candidate."""
        at = name, operand.shape, operand.dtype
        found = self._shared.get(at)
        if found is None:
            found = self._shared[at] = self.driver.empty(operand.shape, operand.dtype)
        return found

    def run(self, dispatches: TimedDispatches, candidate: Candidate) -> float:
        """Return the nanoseconds of a run.

        Raises
        ------
        DispatchTimeout
            If it does not end in time, and does a little later.
        Abandoned
            If the device is busy even then, or is lost.
        """
        try:
            times = dispatches.run(self.run_timeout)
        except DispatchTimeout as error:
            try:
                dispatches.finish(self.patience)
            except DispatchTimeout:
                self._is_stuck = True
                _held_with(self.driver).append(dispatches)
                raise Abandoned(f"{error} It still runs, so that nothing else can: {candidate}") from error
            raise
        except DeviceLost as error:
            raise Abandoned(str(error)) from error
        return float(times.enqueue_ns + times.wait_ns if times.device_ns is None else times.device_ns)

    def close(self) -> None:
        """Give the buffers back; those of a run that has not ended go with the driver."""
        if self._is_stuck:
            _held_with(self.driver).append(list(self._shared.values()))
            self._shared.clear()
        with ExitStack() as closing:
            while self._shared:
                closing.callback(self._shared.popitem()[1].close)


class DeviceTrial:
    """A candidate on a workbench."""

    def __init__(self, bench: Workbench, candidate: Candidate, plan: Plan) -> None:
        """Compile and bind its dispatches; made by ``Workbench.make``."""
        self._bench = bench
        self._candidate = candidate
        operands = {**plan.outputs, **plan.temporaries, **bench.operands}
        named = {name: bench.buffer(name, operand) for name, operand in operands.items()}
        with unrecorded():
            self._dispatches: tuple[BoundKernel, ...] = tuple(
                # Not with the kernels that calls are served from: what is tried once is not kept there.
                bench.driver.compile(step.module, step.constants, step.config).bind(
                    *step.arguments(named), workgroups=step.workgroups, push_constants=step.push_constants or None
                )
                for step in plan.steps
            )
        facts = [one.pipeline.facts for one in self._dispatches]
        self.executables = tuple(told for one in facts if one is not None for told in one.executables)
        """The driver's statistics of its code, dispatch by dispatch; empty where it gives none."""
        written = {memory for one in self._dispatches for memory, _, _ in one.writes}
        self._restored = [name for name in bench.operands if id(named[name].memory) in written]
        self._outputs = [named[name] for name in plan.outputs]
        self._poisoned = [named[name] for name in plan.outputs if name not in bench.operands]
        self._named = named
        self._repeats = 1
        self._timed: TimedDispatches | None = None

    def outputs(self) -> list[NDArray[Any]]:
        """Return what a run on fresh inputs gives; what the run leaves alone is poison.

        Raises
        ------
        WrongOutputs
            If all of it is.
        """
        for buffer in self._poisoned:
            buffer.write(np.full(buffer.nbytes, POISON, np.uint8).view(buffer.dtype).reshape(buffer.shape))
        self._restore()
        took = self._bench.run(TimedDispatches(self._dispatches), self._candidate)
        outputs = [buffer.read() for buffer in self._outputs]
        why = unwritten(outputs)
        if why is not None:
            raise WrongOutputs(why)
        if not self._bench.driver.context.device.is_timed and not self._restored:
            self._repeats = min(ceil(_LEAST_TIMED_NS / max(took, 1.0)), _MAX_REPEATS)
        return outputs

    def sample(self) -> float:
        """Return the nanoseconds of a run, inputs restored before it; raises as ``Workbench.run``."""
        if self._timed is None:
            self._timed = TimedDispatches(self._dispatches, self._repeats)
        self._restore()
        return self._bench.run(self._timed, self._candidate) / self._repeats

    def keep_busy(self, seconds: float) -> float:
        """Run for so many seconds, and once at least; returns the median nanoseconds of a run. Raises as ``Workbench.run``."""
        until = time.monotonic() + seconds
        took = self.sample()
        # What works in place may not go on from its own results: they are no input that anybody promised.
        repeats = 1 if self._restored else min(ceil(_BUSY_NS / max(took, 1.0)), _MAX_REPEATS)
        runs, times = TimedDispatches(self._dispatches, repeats), []
        while time.monotonic() < until:
            self._restore()
            times.append(self._bench.run(runs, self._candidate) / repeats)
        return statistics.median(times or [took])

    def close(self) -> None:
        """Let the pipelines go."""
        self._timed = None
        self._dispatches = ()
        self._named = {}
        self._outputs = self._poisoned = []

    def _restore(self) -> None:
        for name in self._restored:
            self._named[name].write(self._bench.arrays[name])


def _held_with(driver: BaseDriver) -> list[object]:
    return _running.setdefault(weakref.ref(driver, _running.pop), [])
