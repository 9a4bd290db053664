"""Futures of a fleet: Dask's own, with its errors told in ours."""

from __future__ import annotations

from typing import Any

from distributed import Client, Future, KilledWorker
from distributed.client import FutureCancelledError
from distributed.scheduler import NoValidWorkerError, NoWorkerError

from vyre_driver.errors import WorkerLost

_NO_SCHEDULER = "scheduler-connection-lost"


class FleetFuture(Future):  # type: ignore[misc] # Dask's
    """The result of a task: ``result()`` waits, and raises WorkerLost where Dask has given the task up."""

    async def _result(self, raiseit: bool = True) -> Any:  # noqa: ANN401, FBT001, FBT002 -- Dask's
        try:
            found = await super()._result(raiseit=raiseit)
        except (KilledWorker, NoValidWorkerError, NoWorkerError, FutureCancelledError) as error:
            known = told(error)
            if known is error:
                raise
            raise known from error
        return found

    async def _exception(self) -> BaseException | None:
        found: BaseException | None = await super()._exception()
        return None if found is None else told(found)


def of_fleet(future: Future, client: Client) -> FleetFuture:
    """Return a future of Dask's as one of ours, of the same task."""
    return FleetFuture(future.key, client)


def told(error: BaseException) -> BaseException:
    """Return an error of Dask's scheduler as WorkerLost; any other as it is."""
    if isinstance(error, KilledWorker):
        return WorkerLost(
            f"{error.allowed_failures + 1} worker processes died while they had task {error.task}, the last on "
            f"{error.last_worker.address}; it is not given to another",
            fix="run its input alone in Driver(strict=True), or raise losses if the processes were killed for other reasons",
            task=str(error.task),
            worker=error.last_worker.address,
        )
    if isinstance(error, (NoValidWorkerError, NoWorkerError)):
        return WorkerLost(
            f"no worker could take this task within {error.timeout:g} s",
            fix="start workers (vyre-driver worker ADDRESS), and look into their logs for why those before have gone",
            task=str(error.task),
        )
    if isinstance(error, FutureCancelledError) and error.reason == _NO_SCHEDULER:
        return WorkerLost(
            "the connection to the scheduler was lost before this task had a result",
            fix="start the scheduler again if it has ended, and make a new Client and a new FleetPool",
            task=str(error.key),
        )
    return error
