"""What a client changes at the scheduler: how often a task may lose its device, and how long it waits for a worker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_driver.distributed.worker import LOST

if TYPE_CHECKING:
    from distributed import Scheduler

    from vyre_driver.distributed.versions import Versions

NO_WORKERS_S = 60.0
SILENT_S = 60.0


class Losses:
    """How many devices each task has lost. Called by the scheduler when a worker tells of one, before the task's failure."""

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


def prepare_scheduler(versions: Versions, losses: int, no_workers_s: float, dask_scheduler: Scheduler | None = None) -> None:
    """Have a scheduler count lost devices, give a task up after ``losses`` dead workers, and fail what no worker can take.

    Raises
    ------
    InstallationUnusable
        If the scheduler has another version than the client.
    """
    if dask_scheduler is None:  # Dask passes it by name; a type checker asks for the default
        return
    versions.check_same("the scheduler")
    if LOST not in dask_scheduler.stream_handlers:
        dask_scheduler.stream_handlers[LOST] = Losses(dask_scheduler).tell
    dask_scheduler.allowed_failures = losses - 1
    dask_scheduler.no_workers_timeout = no_workers_s
