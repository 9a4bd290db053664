"""The GPUs of this host as a fleet: a scheduler here, and a process for each device."""

from __future__ import annotations

import asyncio
import logging
import tempfile
from typing import TYPE_CHECKING, Any

import dask
from distributed import Client, Nanny, Scheduler, SpecCluster, Status
from distributed.system import MEMORY_LIMIT

from vyre_driver import settings
from vyre_driver.distributed.scheduling import NO_WORKERS_S, SILENT_S
from vyre_driver.distributed.worker import WorkerDriver
from vyre_driver.errors import InvalidInput
from vyre_driver.vulkan.devices import enumerate_devices
from vyre_driver.vulkan.selection import every_device, select_device

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Literal

    from distributed import Security

_LONGEST_S = 30.0
_FAILED = "nanny-instantiate-failed"


class RestartingNanny(Nanny):  # type: ignore[misc] # Dask has no types that we use
    """Starts its process again after 1, 2, 4 and at most 30 s where the device cannot be opened, say because it is being reset.

    Dask's own closes when a restart fails once, and the fleet has a worker less from then on. A first start that fails is an
    error of the fleet's.
    """

    _failures = 0

    async def instantiate(self) -> Status:
        """Start the process, later if the last start failed."""
        if self._failures:
            await asyncio.sleep(min(2.0 ** (self._failures - 1), _LONGEST_S))
            if self.status != Status.running:  # it was closed meanwhile
                return Status.closed
        found: Status = await super().instantiate()
        self._failures = 0
        return found

    async def close(self, timeout: float = 5, reason: str = "nanny-close") -> Literal["OK"]:
        """Close, but not because a process did not come up again: that one's end has another started."""
        if reason == _FAILED and self.status == Status.running:
            self._failures += 1
            return "OK"
        closed: Any = await super().close(timeout=timeout, reason=reason)
        return "OK" if closed is None else closed


THREADS = 2
# Children are spawned: a forked one has no Vulkan (docs/decisions/0008).
CONFIG = {
    "distributed.worker.multiprocessing-method": "spawn",
    "distributed.scheduler.worker-ttl": f"{SILENT_S:g}s",
    "distributed.scheduler.no-workers-timeout": f"{NO_WORKERS_S:g}s",
    # Of the messages that Dask keeps for its developers a client would have 1,000 batches of up to 1 MB, arrays and all.
    "distributed.admin.low-level-log-length": 100,
}


class _Cluster(SpecCluster):  # type: ignore[misc] # Dask's
    """Processes that are started again by their nannies however long that takes.

    Dask's own ends the nanny of a worker that is away 15 s after it was lost, also where that one is being restarted anew.
    """

    def _update_worker_status(self, op: str, msg: Any) -> None:  # noqa: ANN401 -- Dask's
        """Note a worker that came or left; one that left may be off the list, which Dask also takes from its scheduler."""
        if op != "remove" or msg in self.scheduler_info["workers"]:
            super(SpecCluster, self)._update_worker_status(op, msg)


class LocalFleet:
    """A scheduler in this process, and a worker process for each device, pinned to it; a context manager, or ``close`` it.

    A process that dies is started again by its nanny, which opens no device. Programs that make one need
    ``if __name__ == "__main__":``, because processes are spawned.
    """

    def __init__(
        self,
        devices: Sequence[str | int] | None = None,
        *,
        allow_software: bool | None = None,
        security: Security | None = None,
        memory_limit: str | float | None = None,
        dashboard: str | None = None,
    ) -> None:
        """Start the processes.

        Parameters
        ----------
        devices
            Each as for ``Driver``; one that is named twice gets two processes. None takes every GPU; without any, the CPU
            device that was allowed.
        allow_software
            As for ``Driver``.
        security
            Dask's ``Security`` with certificates; without one the connections, all of this host, are not encrypted.
        memory_limit
            Host memory of each process, above which results are spilled to disk, in bytes or as Dask writes it; None shares
            what there is.
        dashboard
            Where Dask's dashboard listens, ``"127.0.0.1:8787"``; it needs the package ``bokeh``. None has none.

        Raises
        ------
        VyreError
            What ``Driver`` raises for a device that is not there or not allowed.
        """
        allowed = settings.switch(settings.ALLOW_SOFTWARE) if allow_software is None else allow_software
        self.devices = pinned(devices, allow_software=allowed)
        self._folder = tempfile.TemporaryDirectory(prefix="vyre-fleet-", ignore_cleanup_errors=True)
        common: dict[str, Any] = {"host": "127.0.0.1", "security": security, "protocol": "tls://" if security else "tcp://"}
        memory = MEMORY_LIMIT // len(self.devices) if memory_limit is None else memory_limit
        of_worker = {**common, "nthreads": THREADS, "memory_limit": memory, "local_directory": self._folder.name}
        of_worker |= {"silence_logs": logging.WARNING, "dashboard": False}
        workers = {
            number: {"cls": RestartingNanny, "options": {**of_worker, "plugins": (WorkerDriver(name, allow_software=allowed),)}}
            for number, name in enumerate(self.devices)
        }
        scheduler = {
            "cls": Scheduler,
            "options": {**common, "dashboard": dashboard is not None, "dashboard_address": dashboard or "127.0.0.1:0"},
        }
        try:
            with dask.config.set(CONFIG):
                self.cluster = _Cluster(workers, scheduler, security=security, name="vyre fleet", silence_logs=logging.WARNING)
                self.client = Client(self.cluster)
        except BaseException:
            self.close()
            raise

    def __repr__(self) -> str:
        """Return its devices and address on one line."""
        return f"<LocalFleet at {self.cluster.scheduler_address} on {', '.join(map(str, self.devices))}>"

    def close(self) -> None:
        """End the processes; a second call does nothing."""
        for one in ("client", "cluster"):
            held = self.__dict__.pop(one, None)
            if held is not None:
                held.close()
        self._folder.cleanup()

    def __enter__(self) -> LocalFleet:
        """Return the fleet itself."""
        return self

    def __exit__(self, *raised: object) -> None:
        """Close it."""
        self.close()


def pinned(devices: Sequence[str | int] | None, *, allow_software: bool) -> list[str | int]:
    """Return how each device is named in another process: by uuid, or by index where several have one uuid.

    Raises
    ------
    InvalidInput
        If there is none.
    VyreError
        What ``Driver`` raises for one that is not there or not allowed.
    """
    if devices is None:
        return every_device(allow_software=allow_software)
    found = enumerate_devices()
    uuids = [one.device_uuid for one in found]
    chosen = [select_device(found, one, allow_software=allow_software) for one in devices]
    if not chosen:
        raise InvalidInput("the fleet has no devices", fix="name one device or more, or leave them out to take all")
    return [f"uuid:{one.device_uuid.hex()}" if uuids.count(one.device_uuid) == 1 else one.index for one in chosen]
