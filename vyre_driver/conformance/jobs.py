"""Jobs of many cases, in this process or in children: one that ends its process, or hangs, is a failure with a name.

``python -m vyre_driver.conformance.jobs JOB`` is the child, whose job is one line of JSON. It prints one line of JSON for each
answer as soon as it is there: the case's name under ``case``, and beside it nothing where backend and reference agree,
``refused`` with the reason, or ``failed`` with what ``suite.failure_data`` tells. A driver that crashes, leaks or never comes
back does so in the child, and the other cases are asked still; one whose device is lost ends with it.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from threading import Event, Lock
from typing import TYPE_CHECKING, Any

from vyre_driver.backends.reference.invocations import SUBGROUP_LANES
from vyre_driver.conformance.adapters import open_backend
from vyre_driver.conformance.cases import hand_written
from vyre_driver.conformance.options import Options
from vyre_driver.conformance.suite import answer, failure_data, random_cases
from vyre_driver.process.child import take_over_stdout
from vyre_driver.process.workers import ChildDied, Worker

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from vyre_driver.conformance.case import Case, RunProgram
    from vyre_driver.conformance.suite import Answer

DEFAULT_BATCH = 500
ANSWER_TIMEOUT_S = 300.0
_LOOK_S = 0.2  # how often a worker looks whether it is to stop
_LEAVING_S = 10.0  # how long a child may take to close a device that was lost


@dataclass(slots=True)
class Tally:
    """The results of many cases as plain data; ``failed`` holds what ``suite.failure_data`` returns for each failure."""

    asked: int = 0
    agreed: int = 0
    unsupported: Counter[str] = field(default_factory=Counter)
    failed: list[dict[str, Any]] = field(default_factory=list)

    def add(self, answer: dict[str, Any]) -> None:
        """Count one more answer, as ``jobs.answer_data`` has it."""
        self.asked += 1
        if "failed" in answer:
            self.failed.append(answer["failed"])
        elif "refused" in answer:
            self.unsupported[answer["refused"]] += 1
        else:
            self.agreed += 1

    def merge(self, other: Tally) -> None:
        """Count what another one has counted."""
        self.asked += other.asked
        self.agreed += other.agreed
        self.unsupported.update(other.unsupported)
        self.failed += other.failed

    def as_data(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "asked": self.asked,
            "agreed": self.agreed,
            "unsupported": dict(self.unsupported.most_common()),
            "failed": self.failed,
        }


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
) -> Tally:
    """Do each job in a process of its own; stop when so many cases have failed.

    So many ``workers`` run at a time; what they find is counted in the order of the jobs. ``timeout_s`` is how long one answer
    may take.
    """
    done: dict[int, Tally] = {}
    lock, stop = Lock(), Event()

    def failures() -> int:
        return sum(len(one.failed) for one in done.values())

    def do(place: int, job: Job) -> None:
        if stop.is_set():
            return
        found = run_job(job, timeout_s=timeout_s, max_failures=max_failures - failures(), stop=stop)
        with lock:
            done[place] = found
            if failures() >= max_failures:
                stop.set()

    with ThreadPoolExecutor(workers) as pool:
        try:
            for one in as_completed([pool.submit(do, place, job) for place, job in enumerate(jobs)]):
                one.result()
        finally:
            stop.set()
            pool.shutdown(cancel_futures=True)
    total = Tally()
    for place in sorted(done):
        total.merge(done[place])
    return total


def run_job(job: Job, *, timeout_s: float = ANSWER_TIMEOUT_S, max_failures: int = 10, stop: Event | None = None) -> Tally:
    """Do a job in child processes, another one after each that ended before it was done; ``stop`` ends it early."""
    tally = Tally()
    while tally.asked < job.count:
        left = job.without(tally.asked)
        ended = _run_child(left, tally, timeout_s, Event() if stop is None else stop)
        if ended is None:
            break
        if ended and tally.asked < job.count:
            name = job.name(tally.asked)
            tally.add(
                {"case": name, "failed": {"case": name, "why": ended, "grid": [], "program": "", "text": f"{name}: {ended}"}}
            )
        if len(tally.failed) >= max_failures:
            break
    return tally


def _run_child(job: Job, tally: Tally, timeout_s: float, stop: Event) -> str | None:
    """Count the answers of one child; returns how it ended, "" when it said so itself, None when it was stopped."""
    deadline = time.monotonic() + timeout_s
    with Worker("vyre_driver.conformance.jobs", job.line) as child:
        while not stop.is_set():
            if child.has_answer(min(_LOOK_S, deadline - time.monotonic())):
                try:
                    found = child.answer()
                except ChildDied as error:
                    how = f"signal {error.signal} ({error})" if error.signal else error
                    return f"the process ended with {how}"
                deadline = time.monotonic() + timeout_s
                tally.add(found)
                if "ends" in found:
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


def answer_data(found: Answer) -> dict[str, Any]:
    """Return an answer as plain data."""
    if found.failure is not None:
        ends = {"ends": True} if found.is_last else {}
        return {"case": found.name, "failed": failure_data(found.failure), **ends}
    return {"case": found.name} if found.refusal is None else {"case": found.name, "refused": found.refusal}


def main(line: str) -> None:
    """Do a job."""
    tell = take_over_stdout()
    job = Job(**json.loads(line))
    with ExitStack() as stack:
        backend = job.open(stack)
        for case in job.cases():
            found = answer(backend, case)
            tell(answer_data(found))
            if found.is_last:
                break


if __name__ == "__main__":
    main(sys.argv[1])
