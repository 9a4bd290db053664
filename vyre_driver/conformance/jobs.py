"""What a process is to ask, as one line of JSON, and the process itself: ``python -m vyre_driver.conformance.jobs JOB``.

It prints one line of JSON for each answer as soon as it is there: the case's name under ``case``, and beside it nothing where
backend and reference agree, ``refused`` with the reason, or ``failed`` with what ``suite.failure_data`` tells.
"""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from vyre_driver.backends.reference.invocations import SUBGROUP_LANES
from vyre_driver.conformance.adapters import open_backend
from vyre_driver.conformance.cases import hand_written
from vyre_driver.conformance.options import Options
from vyre_driver.conformance.suite import answer, failure_data, random_cases
from vyre_driver.process.child import take_over_stdout

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vyre_driver.conformance.case import Case, RunProgram
    from vyre_driver.conformance.suite import Answer


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
