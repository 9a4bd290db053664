"""What a client has the scheduler keep: lost devices of tasks, who compiles which kernel, and tuning records."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING, NamedTuple

from vyre_driver._version import __version__
from vyre_driver.autotune.store.text import parse
from vyre_driver.errors import InstallationUnusable
from vyre_driver.lowering.emit.target import EMITTER_VERSION

if TYPE_CHECKING:
    from collections.abc import Sequence

    from distributed import Scheduler

    from vyre_driver.autotune.store.record import AutotuneRecord


class Versions(NamedTuple):
    """Versions of this package, of the code that it emits, and of Python."""

    package: str
    emitter: int
    python: str

    @classmethod
    def own(cls) -> Versions:
        """Return those of this process."""
        return cls(__version__, EMITTER_VERSION, ".".join(platform.python_version_tuple()[:2]))

    def check_same(self, where: str) -> None:
        """Check that this process has these versions.

        Raises
        ------
        InstallationUnusable
            If one differs: ``where`` says which process this is.
        """
        own = Versions.own()
        differing = [
            f"{name} {mine} here and {theirs} there"
            for name, mine, theirs in zip(("vyre-driver", "emitter", "Python"), own, self, strict=True)
            if mine != theirs
        ]
        if differing:
            raise InstallationUnusable(
                f"{where} cannot join the fleet: {', '.join(differing)}",
                fix=f"install vyre-driver {self.package} on Python {self.python} there",
            )


LOST = "vyre-device-lost"
MEASURED = "vyre-measured"
CALLERS = "vyre_callers"
RECORDS = "vyre_records"
NO_WORKERS_S = 60.0
SILENT_S = 60.0
_MOST_ASKED = 3
_MOST_RECORDS = 65_536


class Losses:
    """How many devices each task has lost. Called by the scheduler when a worker reports one, before the task's failure."""

    def __init__(self, scheduler: Scheduler) -> None:
        """Begin without losses."""
        self._scheduler = scheduler
        self._lost: dict[object, int] = {}

    def tell(self, key: object, losses: int, **_: object) -> None:
        """Have a task run once more when its failure arrives, unless it has now lost ``losses`` devices."""
        tasks = self._scheduler.tasks
        self._lost = {one: number for one, number in self._lost.items() if one in tasks}
        if key in tasks:
            self._lost[key] = self._lost.get(key, 0) + 1
            if self._lost[key] < losses:
                tasks[key].retries += 1


class Callers:
    """The workers that have loaded and called each kernel, in their order: the first compiles, the others wait for it."""

    def __init__(self, scheduler: Scheduler) -> None:
        """Begin without any."""
        self._scheduler = scheduler
        self._of: dict[tuple[str, bool], dict[str, str]] = {}

    def before(self, digest: str, worker: str, place: str, *, is_called: bool) -> tuple[list[str], bool]:
        """Return whom a worker asks for a kernel's entries before it calls it (else: loads it), and note that it does so now.

        Those are workers that have called it before, else those that have loaded it; nobody where one of them has the same
        cache, in ``place``. Also whether it waits for the end of their first calls: one that only loads does not, and one
        that calls waits only for those that came to call before it, so that no two wait for each other.
        """
        called, loaded = self._alive(digest, True), self._alive(digest, False)
        known = self._of[digest, is_called] = called if is_called else loaded
        earlier = {one: where for one, where in called.items() if one != worker} or loaded
        others = {one: where for one, where in earlier.items() if one != worker}
        known.setdefault(worker, place)
        asked = [] if place in others.values() else list(others)[:_MOST_ASKED]
        return asked, is_called and earlier is not loaded

    def _alive(self, digest: str, is_called: bool) -> dict[str, str]:  # noqa: FBT001 -- a key's part
        known = self._of.get((digest, is_called), {})
        return {one: place for one, place in known.items() if one in self._scheduler.workers}


class Records:
    """The tuning records that the workers know, as text, the better measured of two."""

    def __init__(self) -> None:
        """Begin without any."""
        self._of: dict[tuple[str, ...], dict[str, str]] = {}
        self._count = 0

    def tell(self, name: Sequence[str], identity: str, text: str, **_: object) -> None:
        """Keep a record, unless there is a better measured one, or 65,536 others."""
        known = self._of.get(tuple(name), {})
        there = known.get(identity)
        if there is None and self._count >= _MOST_RECORDS:
            return
        if there is None or _only(text).supersedes(_only(there)):
            self._count += there is None
            self._of[tuple(name)] = {**known, identity: text}

    def give(self, name: Sequence[str]) -> list[str]:
        """Return the records of a kernel."""
        return list(self._of.get(tuple(name), {}).values())


def _only(text: str) -> AutotuneRecord:
    (record,) = parse(text).records.values()
    return record


def prepare_scheduler(versions: Versions, losses: int, no_workers_s: float, dask_scheduler: Scheduler | None = None) -> None:
    """Have a scheduler keep these, give a task up after ``losses`` dead workers, and fail what no worker can take.

    Raises
    ------
    InstallationUnusable
        If the scheduler has another version than the client.
    """
    if dask_scheduler is None:  # Dask passes it by name; a type checker asks for the default
        return
    versions.check_same("the scheduler")
    if LOST not in dask_scheduler.stream_handlers:
        callers, records = Callers(dask_scheduler), Records()
        dask_scheduler.stream_handlers |= {LOST: Losses(dask_scheduler).tell, MEASURED: records.tell}
        dask_scheduler.handlers |= {CALLERS: callers.before, RECORDS: records.give}
    dask_scheduler.allowed_failures = losses - 1
    dask_scheduler.no_workers_timeout = no_workers_s
