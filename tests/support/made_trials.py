"""Made-up candidates for the tests of the search: what they cost is known, and time is what the tests say."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_driver.autotune import Budget, Candidate, Outcome, SearchResult, Status
from vyre_driver.autotune.search.search import search
from vyre_driver.errors import DispatchTimeout

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

RIGHT = np.arange(4, dtype=np.uint32)
WRONG = RIGHT + np.uint32(1)
STEPS = ("make", "outputs", "sample")
NO_LIMIT = Budget(seconds=1e9, samples=10**9)
HUNG = DispatchTimeout("it did not end", fix="wait")


class Clock:
    """A clock that stands still unless it is told."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class MadeTrial:
    """A candidate that takes ``cost`` nanoseconds, more or less."""

    lab: Lab
    place: int
    closed: int = 0
    runs: int = 0

    def outputs(self) -> Sequence[NDArray[Any]]:
        given = self.lab.step(self, "outputs")
        return [RIGHT if given is None else given]

    def sample(self) -> float:
        self.runs += 1
        self.lab.step(self, "sample")
        time = self.lab.time(self.place) * self.lab.noise()
        self.lab.work(time / 1e9)
        return time

    def keep_busy(self, seconds: float) -> float:
        self.lab.step(self, "keep busy")
        self.lab.busy_s.append(seconds)
        self.lab.work(seconds)
        return self.lab.time(self.place) * self.lab.noise()

    def verify(self) -> None:
        self.lab.step(self, "verify")

    def close(self) -> None:
        self.closed += 1
        self.lab.step(self, "close")


@dataclass
class Lab:
    """Candidates by their places, what they cost, and what they do at which step (``at``: an error, or outputs)."""

    costs: Sequence[float]
    noise_seed: int = 0
    gauss: float = 0.0
    spikes: float = 0.0
    at: dict[tuple[int, str], Any] = field(default_factory=dict)
    make_s: float = 0.0
    busy_s: list[float] = field(default_factory=list)
    clock: Clock = field(default_factory=Clock)
    trials: list[MadeTrial] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = random.Random(self.noise_seed)  # noqa: S311 -- noise

    @property
    def candidates(self) -> list[Candidate]:
        return [Candidate((place + 1, 1, 1)) for place in range(len(self.costs))]

    def time(self, place: int) -> float:
        """Nanoseconds of a run, without noise."""
        return self.costs[place]

    def work(self, seconds: float) -> None:
        """Let the device work."""
        self.clock.now += seconds

    def make(self, candidate: Candidate) -> MadeTrial:
        self.clock.now += self.make_s
        trial = MadeTrial(self, candidate.workgroup_size[0] - 1)
        self.step(trial, "make")
        self.trials.append(trial)
        return trial

    def step(self, trial: MadeTrial, name: str) -> Any:  # noqa: ANN401 -- outputs or nothing
        what = self.at.get((trial.place, name))
        if callable(what):
            what = what(trial)
        if isinstance(what, BaseException):
            raise what
        return what

    def noise(self) -> float:
        """A few per cent as often up as down, and at times far too long."""
        factor = 1 + self.random.gauss(0, self.gauss) if self.gauss else 1.0
        return factor * (1 + self.random.uniform(0.2, 4)) if self.random.random() < self.spikes else factor


@dataclass
class IdlingLab(Lab):
    """On a device whose clock is at a fifth when it idles, stays there for 0.2 s of work, and is full after 0.4 s more.

    ``fixed`` nanoseconds of each candidate go by another clock, that of the memory.
    """

    fixed: Sequence[float] = ()
    worked_s: float = 0.0

    def time(self, place: int) -> float:
        clock = 0.2 + 0.8 * min(max(self.worked_s - 0.2, 0.0) / 0.4, 1.0)
        return self.costs[place] / clock + (self.fixed[place] if self.fixed else 0.0)

    def work(self, seconds: float) -> None:
        super().work(seconds)
        self.worked_s += seconds

    def make(self, candidate: Candidate) -> MadeTrial:
        self.worked_s = 0.0
        return super().make(candidate)


def place_of(candidate: Candidate) -> int:
    return candidate.workgroup_size[0] - 1


def agrees(right: Sequence[NDArray[Any]], given: Sequence[NDArray[Any]]) -> str | None:
    return None if all(map(np.array_equal, right, given)) else f"{given[0].tolist()} is not {right[0].tolist()}"


def found(lab: Lab, budget: Budget = NO_LIMIT, **options: Any) -> SearchResult:  # noqa: ANN401 -- those of search
    return search(lab.candidates, lab.make, budget=budget, agrees=agrees, clock=lab.clock, **options)


def statuses(outcomes: tuple[Outcome, ...]) -> list[Status]:
    return [one.status for one in outcomes]


def all_closed_once(lab: Lab) -> bool:
    return {trial.closed for trial in lab.trials} == {1}
