"""Candidates in the process of an isolated driver: one that kills it, or hangs, is out, and the others go on in the next.

All share one process, so that they can be timed in turn. Where a process dies after it has served other candidates, that may be
their doing: the candidate gets one more chance, in a process of its own making.
"""

from __future__ import annotations

import pickle
import sys
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from vyre_driver.autotune.measure.trials import DeviceTrial, Workbench
from vyre_driver.autotune.search.outcomes import Abandoned
from vyre_driver.errors import DispatchFailed, DispatchTimeout, DriverCrashed, InvalidInput, VyreError
from vyre_driver.isolated.arena import Arena
from vyre_driver.isolated.arguments import Sent
from vyre_driver.isolated.process import START_S, Child

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from vyre_driver.autotune.measure.definition import KernelDefinition
    from vyre_driver.autotune.search.outcomes import Budget
    from vyre_driver.autotune.search.space import Candidate
    from vyre_driver.runtime.base import BaseDriver
    from vyre_driver.vulkan.layer._layer import PipelineExecutable

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
