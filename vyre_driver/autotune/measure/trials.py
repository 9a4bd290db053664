"""Candidates on a device: made ready on buffers that all share, run on fresh inputs, timed; here or in an isolated driver.

The time of a run is the device's own, from before its first dispatch to after its last. Where the device has no clock, or the
layer is off, it is the host's, of several runs handed over as one, so that they take a millisecond or more.

In the process of an isolated driver one that kills it, or hangs, is out, and the others go on in the next. All share one
process, so that they can be timed in turn. Where a process dies after it has served other candidates, that may be their doing:
the candidate gets one more chance, in a process of its own making.
"""

from __future__ import annotations

import pickle
import statistics
import sys
import time
import weakref
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_driver.autotune.measure.definition import DeviceFacts, KernelDefinition, Operand, Plan
from vyre_driver.autotune.search.outcomes import Abandoned, Budget, WrongOutputs
from vyre_driver.errors import DeviceLost, DispatchFailed, DispatchTimeout, DriverCrashed, InvalidInput, VyreError
from vyre_driver.isolated.arena import Arena
from vyre_driver.isolated.arguments import Sent
from vyre_driver.isolated.process import START_S, Child
from vyre_driver.kompute.timing import TimedDispatches
from vyre_driver.runtime.recording import unrecorded

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from vyre_driver.autotune.search.space import Candidate
    from vyre_driver.kompute.buffer import Buffer
    from vyre_driver.runtime.base import BaseDriver
    from vyre_driver.runtime.bound import BoundKernel
    from vyre_driver.vulkan.layer._layer import PipelineExecutable

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


_SHOWN_CHARACTERS = 300
_GRACE_S = 10.0  # the process reports a time-out itself; this is for one that cannot


class IsolatedBench:
    """The same as ``trials.Workbench``, in another process, until it is closed."""

    def __init__(
        self,
        driver: BaseDriver,
        definition: KernelDefinition,
        arrays: Sequence[NDArray[Any]],
        parameters: Mapping[str, Any],
        budget: Budget,
    ) -> None:
        """Start the first process.

        Raises
        ------
        InvalidInput
            If the definition or the parameters cannot be sent there.
        VyreError
            If the process's driver raises it.
        """
        self.budget = budget
        self._kernel = _pickled(definition, dict(parameters))
        self._arrays = arrays
        self._job = _job_on(driver)
        self._arena = Arena()
        self._served: set[int] = set()  # the trials that this process has been asked about
        self._trials = 0
        self._child = self._started()

    def make(self, candidate: Candidate) -> IsolatedTrial:
        """Make a candidate ready; raises what that fails with there, and DispatchFailed 1005 if the process dies of it."""
        self._trials += 1
        trial = IsolatedTrial(self, candidate, self._trials)
        return replace(trial, executables=self.ask(trial, "make", self.budget.make_timeout))

    def ask(self, trial: IsolatedTrial, what: str, seconds: float, *more: float) -> Any:  # noqa: ANN401 -- each step's own
        """Return the answer to a step of a trial, of another process if it was no other candidate's fault that one died.

        Raises
        ------
        DispatchTimeout
            If there is none in so many seconds, or a run took too long; the process is killed.
        DispatchFailed
            If the process died.
        """
        for is_last in (False, True):
            self._ensure_started()
            has_served_others = bool(self._served - {trial.number})
            try:
                if what != "make" and trial.number not in self._served:
                    self._exchange(trial, "make again", self.budget.make_timeout)
                return self._exchange(trial, what, seconds, *more)
            except DriverCrashed as error:
                if is_last or not has_served_others:
                    raise DispatchFailed(
                        f"the process that ran {trial.candidate} ended with {_ending(error)}",
                        fix="leave it out of the tuning space, or correct the shader",
                    ) from None
            except DispatchTimeout as error:
                if isinstance(error.__cause__, DispatchTimeout):
                    raise error.__cause__ from None  # the device's own
                raise DispatchTimeout(
                    f"the process that ran {trial.candidate} gave no answer to {what} in {seconds:g} s and was killed",
                    fix="leave it out of the tuning space, or give it more time",
                    timeout_s=seconds,
                ) from None
        raise AssertionError  # the second turn returns or raises

    def let_go(self, trial: IsolatedTrial) -> None:
        """Have the process close a trial, if it lives and has it; one that does not manage to is killed."""
        if self._child.died is None and trial.number in self._served:
            with suppress(DriverCrashed, DispatchTimeout):
                self._exchange(trial, "close", _GRACE_S)

    def close(self) -> None:
        """Kill the process; a second call does nothing."""
        self._child.worker.end()
        self._held.clear()

    def _ensure_started(self) -> None:
        if self._child.died is not None:
            try:
                self._child = self._started()
            except VyreError as error:
                raise Abandoned(f"no other process can be started: {error}") from error

    def _started(self) -> Child:
        """Return a process whose workbench is ready; raises what it fails with at its start."""
        self._served.clear()
        child: Child | None = None
        try:
            child = Child(self._job, self._arena)
            sent = Sent(child, self._arrays, {})
            self._bench, self._held = child.handle(), sent.held  # which the process reads as long as it lives
            arguments = self._bench.number, self._kernel, sent.arrays, self.budget.run_timeout
            child.ask("the kernel", "bench", *arguments, held=sent.held, limit=START_S)
        except BaseException as error:  # noqa: BLE001 -- raised again, most as they are
            if child is not None:
                child.worker.end()
            raise _not_started(error) from None
        return child

    def _exchange(self, trial: IsolatedTrial, what: str, seconds: float, *more: float) -> Any:  # noqa: ANN401 -- as ``ask``
        """Return the process's answer; raises as ``Child.ask``, or what the candidate failed with."""
        self._served.add(trial.number)
        step = what, trial.number, trial.candidate, *more
        return self._child.ask(str(trial.candidate), "trial", self._bench.number, *step, limit=seconds)


@dataclass(frozen=True, slots=True)
class IsolatedTrial:
    """A candidate in the process of a bench; made ready again in the next one when that is gone."""

    bench: IsolatedBench
    candidate: Candidate
    number: int
    executables: tuple[PipelineExecutable, ...] = ()
    """As ``DeviceTrial.executables``."""

    def outputs(self) -> list[NDArray[Any]]:
        """Do as ``DeviceTrial.outputs``; raises as ``IsolatedBench.ask``."""
        found: list[NDArray[Any]] = self.bench.ask(self, "outputs", self._long)
        return found

    def sample(self) -> float:
        """Do as ``DeviceTrial.sample``; raises as ``IsolatedBench.ask``."""
        return float(self.bench.ask(self, "sample", self.bench.budget.run_timeout + _GRACE_S))

    def keep_busy(self, seconds: float) -> float:
        """Do as ``DeviceTrial.keep_busy``; raises as ``IsolatedBench.ask``."""
        return float(self.bench.ask(self, "keep busy", seconds + self._long, seconds))

    def close(self) -> None:
        """Have the process let it go, if that lives."""
        self.bench.let_go(self)

    @property
    def _long(self) -> float:
        """Seconds for a run, with what has to be made ready and copied."""
        return self.bench.budget.run_timeout + self.bench.budget.make_timeout


class ServedBench:
    """A workbench in the process of an isolated driver, and the trials on it by their numbers."""

    def __init__(self, driver: BaseDriver, kernel: bytes, arrays: Sequence[NDArray[Any]], run_timeout: float) -> None:
        """Upload the inputs."""
        definition, parameters = pickle.loads(kernel)  # noqa: S301 -- of our own parent
        self._bench = Workbench(driver, definition, arrays, parameters, run_timeout=run_timeout)
        self._trials: dict[int, DeviceTrial] = {}

    def do(self, what: str, number: int, candidate: Candidate, busy_s: float = 0.0) -> object:
        """Do one step of a trial; returns the nanoseconds of a run, its outputs, or the statistics of the code."""
        try:
            if what in {"make", "make again"}:
                trial = self._trials[number] = self._bench.make(candidate)
                if what == "make again":
                    trial.outputs()  # as the first time; and a warm-up
                return trial.executables
            trial = self._trials[number]
            if what == "sample":
                return trial.sample()
            if what == "keep busy":
                return trial.keep_busy(busy_s)
            if what == "outputs":
                return trial.outputs()
            self._trials.pop(number).close()
        except Abandoned as error:
            raise (error.__cause__ or error) from None
        return None


def _pickled(definition: KernelDefinition, parameters: Mapping[str, Any]) -> bytes:
    """Return what another process needs of a kernel; raises InvalidInput."""
    try:
        return pickle.dumps((definition, parameters))
    except Exception as error:
        raise InvalidInput(
            f"{definition.name} cannot be sent to a child process ({type(error).__name__}: {error})",
            fix="define it in a module that can be imported, without lambdas, or tune without isolation",
        ) from error


def _job_on(driver: BaseDriver) -> dict[str, Any]:
    """Return the job of a process on the same device, with the cache of a driver and no tuning records."""
    return {
        "path": [one for one in sys.path if isinstance(one, str)],
        "device": f"uuid:{driver.device.device_uuid.hex()}",
        "cache": driver.cache.arguments(),
        "autotune": False,
        "allow_software": True,
        "strict": driver.strict,
        "must_be_warm": driver.context.first_pipelines.must_be_warm,
    }


def _not_started(error: BaseException) -> BaseException:
    """Return what to raise when a process fails at its start: nothing that a candidate did."""
    if isinstance(error, DriverCrashed | DispatchTimeout):
        said = _ending(error) if isinstance(error, DriverCrashed) else f"no answer in {START_S:g} s"
        return DispatchFailed(f"a child process for tuning did not start: {said}", fix="tune without isolation to see why")
    if isinstance(error, VyreError) or not isinstance(error, Exception):
        return error
    return InvalidInput(
        f"a child process for tuning cannot use the kernel ({type(error).__name__}: {error})",
        fix="define the kernel in a module that can be imported, or tune without isolation",
    )


def _ending(error: DriverCrashed) -> str:
    """Return how a process ended: the signal, or the status and the end of what it printed."""
    how, said = str(error.context["how"]), str(error.context["said"])
    return f"{how}: {said.strip()[-_SHOWN_CHARACTERS:]}" if how.startswith("status") else how
