"""Jobs of many cases, in this process or in children: one that ends its process, or hangs, is a failure with a name.

``python -m vyre_driver.conformance.jobs JOB`` is the child, whose job is one line of JSON. It prints one line of JSON for each
answer as soon as it is there: the fields of ``suite.Answer``, a failure as its ``as_data``. A driver that crashes, leaks or
never comes back does so in the child, and the other cases are asked still; one whose device is lost ends with it.
"""

from __future__ import annotations

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import islice
from threading import Event
from typing import TYPE_CHECKING

from vyre_driver.backends.reference.invocations import SUBGROUP_LANES
from vyre_driver.conformance.adapters import open_backend
from vyre_driver.conformance.cases import hand_written
from vyre_driver.conformance.options import Options
from vyre_driver.conformance.suite import Answer, Failure, Report, answer, random_cases
from vyre_driver.process.child import take_over_stdout
from vyre_driver.process.workers import ChildDied, Worker

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from vyre_driver.conformance.case import Case, RunProgram

DEFAULT_BATCH = 500
ANSWER_TIMEOUT_S = 300.0
_LOOK_S = 0.2  # how often a worker looks whether it is to stop
_LEAVING_S = 10.0  # how long a child may take to close a device that was lost


def batches(job: Job, size: int = DEFAULT_BATCH) -> Iterator[Job]:
    """Cut a job into jobs of at most ``size`` cases."""
    for done in range(0, job.count, size):
        yield replace(job.without(done), count=min(size, job.count - done))


def run_batches(
    jobs: Iterable[Job],
    *,
    workers: int = 1,
    max_failures: int = 10,
    timeout_s: float = ANSWER_TIMEOUT_S,
) -> Report:
    """Do each job in a process of its own, so many ``workers`` at a time; stop when so many cases have failed.

    What they find is counted in the order of the jobs. ``timeout_s`` is how long one answer may take.
    """
    report, stop = Report(), Event()
    with ThreadPoolExecutor(workers) as pool:
        do = partial(run_job, timeout_s=timeout_s, max_failures=max_failures, stop=stop)
        try:
            for answers in pool.map(do, jobs):
                for found in answers:
                    report.add(found)
                if len(report.failures) >= max_failures:
                    break
        finally:
            stop.set()
            pool.shutdown(cancel_futures=True)
    return report


def run_job(
    job: Job, *, timeout_s: float = ANSWER_TIMEOUT_S, max_failures: int = 10, stop: Event | None = None
) -> list[Answer]:
    """Do a job in child processes, another one after each that ended before it was done; ``stop`` ends it early."""
    answers: list[Answer] = []
    while len(answers) < job.count and sum(found.failure is not None for found in answers) < max_failures:
        ended = _run_child(job.without(len(answers)), answers, timeout_s, Event() if stop is None else stop)
        if ended is None:
            break
        if ended and len(answers) < job.count:
            name = job.name(len(answers))
            answers.append(Answer(name, failure=Failure(name, ended, (), "", f"{name}: {ended}")))
    return answers


def _run_child(job: Job, answers: list[Answer], timeout_s: float, stop: Event) -> str | None:
    """Add the answers of one child; returns how it ended, "" when it said so itself, None when it was stopped."""
    deadline = time.monotonic() + timeout_s
    with Worker("vyre_driver.conformance.jobs", job.line) as child:
        while not stop.is_set():
            if child.has_answer(min(_LOOK_S, deadline - time.monotonic())):
                try:
                    name, refusal, failure, is_last = child.answer()
                except ChildDied as error:
                    how = f"signal {error.signal} ({error})" if error.signal else error
                    return f"the process ended with {how}"
                deadline = time.monotonic() + timeout_s
                answers.append(Answer(name, refusal, None if failure is None else Failure(**failure), is_last))
                if is_last:
                    child.status_within(_LEAVING_S)
                    return ""
            elif time.monotonic() >= deadline:
                return f"no answer in {timeout_s:g} s"
    return None


@dataclass(frozen=True, slots=True)
class Job:
    """``count`` cases from number ``first`` on: seeds, or ``by_hand`` places among the hand-written cases.

    With ``subgroup_lanes`` some use subgroups of so many, with ``constants`` they are about constants.
    """

    backend: str
    first: int
    count: int
    by_hand: bool = False
    subgroup_lanes: int = 0
    constants: bool = False
    device: str | None = None
    allow_software: bool | None = None

    @property
    def line(self) -> str:
        """The job as JSON."""
        return json.dumps(asdict(self), sort_keys=True)

    def cases(self) -> Iterator[Case]:
        """Yield the cases."""
        lanes = self.subgroup_lanes
        options = Options(subgroups=bool(lanes), subgroup_lanes=lanes or SUBGROUP_LANES, constants=self.constants)
        if self.by_hand:
            return islice(hand_written(options), self.first, self.first + self.count)
        return random_cases(self.first, self.count, options)

    def name(self, place: int) -> str:
        """Return the name of the case at a place of this job."""
        return next(replace(self, first=self.first + place, count=1).cases()).name

    def without(self, done: int) -> Job:
        """Return what is left of it when so many cases are done."""
        return replace(self, first=self.first + done, count=self.count - done)

    def open(self, stack: ExitStack) -> RunProgram:
        """Return its backend until the stack is closed; raises as ``open_backend``."""
        return open_backend(self.backend, stack, device=self.device, allow_software=self.allow_software)


def main(line: str) -> None:
    """Do a job."""
    tell = take_over_stdout()
    job = Job(**json.loads(line))
    with ExitStack() as stack:
        backend = job.open(stack)
        for case in job.cases():
            found = answer(backend, case)
            tell([found.name, found.refusal, None if found.failure is None else found.failure.as_data(), found.is_last])
            if found.is_last:
                break


if __name__ == "__main__":
    main(sys.argv[1])
