"""Candidates in a child process: one that kills it, or hangs, is out, and the others go on in the next.

All share one child, so that they can be timed in turn. Where a candidate's process dies after it has served others, that may be
their doing: the candidate gets one more chance, in a process of its own making.
"""

from __future__ import annotations

import base64
import os
import pickle
import sys
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from vyre_driver.autotune.search.outcomes import Abandoned
from vyre_driver.errors import DispatchFailed, DispatchTimeout, InvalidInput, VyreError
from vyre_driver.process.workers import ChildDied, ChildTimeout, Worker, open_in_memory
from vyre_driver.vulkan.layer._layer import PipelineExecutable, PipelineStatistic

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from vyre_driver.autotune.measure.definition import KernelDefinition
    from vyre_driver.autotune.search.outcomes import Budget
    from vyre_driver.autotune.search.space import Candidate
    from vyre_driver.runtime.base import BaseDriver

_START_S = 120.0
_GRACE_S = 10.0  # a child reports a time-out itself; this is for one that cannot
_CHILD = "vyre_driver.autotune.measure.child"


def write_pickle(descriptor: int, value: object) -> None:
    """Write a value in place of what is in a file that parent and child both have open, position and all."""
    os.ftruncate(descriptor, 0)
    os.lseek(descriptor, 0, os.SEEK_SET)
    with open(descriptor, "wb", closefd=False) as file:
        pickle.dump(value, file)


def read_pickle(descriptor: int) -> Any:  # noqa: ANN401 -- what the other process wrote
    """Return the value that ``write_pickle`` wrote."""
    os.lseek(descriptor, 0, os.SEEK_SET)
    with open(descriptor, "rb", closefd=False) as file:
        return pickle.load(file)  # noqa: S301 -- of our own parent or child


class IsolatedBench:
    """The same as ``trials.Workbench``, in a child process, until it is closed."""

    def __init__(
        self,
        driver: BaseDriver,
        definition: KernelDefinition,
        arrays: Sequence[NDArray[Any]],
        parameters: Mapping[str, Any],
        budget: Budget,
    ) -> None:
        """Start the first child.

        Raises
        ------
        InvalidInput
            If the definition or the parameters cannot be sent there.
        VyreError
            If the child's driver raises it.
        """
        self.budget = budget
        self._kernel, self.outputs = open_in_memory(), open_in_memory()
        self._child: Worker | None = None
        self._served: set[int] = set()  # the trials that this child has been asked about
        self._trials = 0
        try:
            self._send(definition, dict(parameters), list(arrays), driver.cache.arguments())
            self._job = self._job_on(driver)
            self._start()
        except BaseException:
            self.close()
            raise

    def make(self, candidate: Candidate) -> IsolatedTrial:
        """Make a candidate ready; raises what that fails with in the child, and DispatchFailed 1005 if the child dies of it."""
        self._trials += 1
        trial = IsolatedTrial(self, candidate, self._trials)
        told = self.ask(trial, "make", self.budget.make_timeout)
        return replace(trial, executables=tuple(_executable(*one) for one in told))

    def ask(self, trial: IsolatedTrial, what: str, seconds: float, **more: float) -> Any:  # noqa: ANN401 -- what JSON holds
        """Return a child's answer, of another one if it was no other candidate's fault that the first died.

        Raises
        ------
        DispatchTimeout
            If there is none in so many seconds, or a run took too long; the child is killed.
        DispatchFailed
            If the child died.
        """
        for is_last in (False, True):
            self._ensure_started()
            has_served_others = bool(self._served - {trial.number})
            try:
                if what != "make" and trial.number not in self._served:
                    self._exchange(trial.request("make again"), self.budget.make_timeout)
                return self._exchange({**trial.request(what), **more}, seconds)
            except ChildDied as error:
                if is_last or not has_served_others:
                    raise DispatchFailed(
                        f"the process that ran {trial.candidate} ended with {error}",
                        fix="leave it out of the tuning space, or correct the shader",
                    ) from None
            except ChildTimeout:
                raise DispatchTimeout(
                    f"the process that ran {trial.candidate} gave no answer to {what} in {seconds:g} s and was killed",
                    fix="leave it out of the tuning space, or give it more time",
                    timeout_s=seconds,
                ) from None
        raise AssertionError  # the second turn returns or raises

    def let_go(self, trial: IsolatedTrial) -> None:
        """Have the child close a trial, if it lives and has it; one that does not manage to is killed."""
        if self._child is not None and self._child.returncode is None and trial.number in self._served:
            with suppress(ChildDied, ChildTimeout):
                self._exchange(trial.request("close"), _GRACE_S)

    def close(self) -> None:
        """Kill the child, and remove what was handed to it; a second call does nothing."""
        if self._child is not None:
            self._child.end()
        self._kernel.close()
        self.outputs.close()

    def _send(self, definition: KernelDefinition, *more: object) -> None:
        """Write what the children need into the file that they inherit; raises InvalidInput."""
        try:
            write_pickle(self._kernel.fileno(), (definition, *more))
        except OSError:
            raise
        except Exception as error:
            raise InvalidInput(
                f"{definition.name} cannot be sent to a child process ({type(error).__name__}: {error})",
                fix="define it in a module that can be imported, without lambdas, or tune without isolation",
            ) from error

    def _job_on(self, driver: BaseDriver) -> dict[str, Any]:
        """Return what tells a child of the files that it inherits, and of the device."""
        return {
            "kernel": self._kernel.fileno(),
            "outputs": self.outputs.fileno(),
            "path": [one for one in sys.path if isinstance(one, str)],
            "device": f"uuid:{driver.device.device_uuid.hex()}",
            "strict": driver.strict,
            "must_be_warm": driver.context.first_pipelines.must_be_warm,
            "run_timeout": self.budget.run_timeout,
        }

    def _ensure_started(self) -> None:
        if self._child is None or self._child.returncode is not None:
            try:
                self._start()
            except VyreError as error:
                raise Abandoned(f"no other process can be started: {error}") from error

    def _start(self) -> None:
        """Start a child, and wait until it has opened its device; raises what it fails with."""
        self._served.clear()
        self._child = Worker(_CHILD, pass_fds=(self._kernel.fileno(), self.outputs.fileno()))
        try:
            self._exchange(self._job, _START_S)
        except BaseException as error:  # noqa: BLE001 -- raised again, most as they are
            self._child.end()
            raise _not_started(error) from None

    def _exchange(self, message: Mapping[str, Any], seconds: float) -> Any:  # noqa: ANN401 -- what JSON holds
        """Return the child's answer; raises as ``Worker.ask``, or what the candidate failed with."""
        assert self._child is not None  # noqa: S101 -- it was started
        if "trial" in message:
            self._served.add(message["trial"])
        answer = self._child.ask(message, seconds)
        if answer.get("is_over"):
            self._child.end()
        if "error" in answer:
            raise _error(answer)
        return answer["value"]


@dataclass(frozen=True, slots=True)
class IsolatedTrial:
    """A candidate in the child of a bench; made ready again in the next one when that child is gone."""

    bench: IsolatedBench
    candidate: Candidate
    number: int
    executables: tuple[PipelineExecutable, ...] = ()
    """As ``DeviceTrial.executables``."""

    def request(self, what: str) -> dict[str, Any]:
        """Return what is sent to the child."""
        return {"do": what, "trial": self.number, "candidate": asdict(self.candidate)}

    def outputs(self) -> list[NDArray[Any]]:
        """Do as ``DeviceTrial.outputs``; raises as ``IsolatedBench.ask``."""
        self.bench.ask(self, "outputs", self._long)
        found: list[NDArray[Any]] = read_pickle(self.bench.outputs.fileno())
        return found

    def sample(self) -> float:
        """Do as ``DeviceTrial.sample``; raises as ``IsolatedBench.ask``."""
        return float(self.bench.ask(self, "sample", self.bench.budget.run_timeout + _GRACE_S))

    def keep_busy(self, seconds: float) -> float:
        """Do as ``DeviceTrial.keep_busy``; raises as ``IsolatedBench.ask``."""
        return float(self.bench.ask(self, "keep busy", seconds + self._long, busy_s=seconds))

    def close(self) -> None:
        """Have the child let it go, if it lives."""
        self.bench.let_go(self)

    @property
    def _long(self) -> float:
        """Seconds for a run, with what has to be made ready and copied."""
        return self.bench.budget.run_timeout + self.bench.budget.make_timeout


def _executable(name: str, description: str, subgroup_size: int, statistics: list[Any]) -> PipelineExecutable:
    """Return what JSON has made lists of."""
    return PipelineExecutable(name, description, subgroup_size, tuple(PipelineStatistic(*one) for one in statistics))


def _not_started(error: BaseException) -> BaseException:
    """Return what to raise when a child fails at its start: nothing that a candidate did."""
    if isinstance(error, ChildDied | ChildTimeout):
        said = error if isinstance(error, ChildDied) else f"no answer in {_START_S:g} s"
        return DispatchFailed(f"a child process for tuning did not start: {said}", fix="tune without isolation to see why")
    if isinstance(error, VyreError) or not isinstance(error, Exception):
        return error
    return InvalidInput(
        f"a child process for tuning cannot use the kernel ({type(error).__name__}: {error})",
        fix="define the kernel in a module that can be imported, or tune without isolation",
    )


def _error(answer: Mapping[str, Any]) -> BaseException:
    """Return the error that a child reports."""
    with suppress(Exception):
        found = pickle.loads(base64.b64decode(answer["error"]))  # noqa: S301 -- of our own child
        if isinstance(found, Exception):
            return found
    return RuntimeError(answer["said"])
