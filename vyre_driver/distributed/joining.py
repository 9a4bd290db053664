"""The devices of this host as workers: of a fleet of this host alone, or of a scheduler elsewhere (``vyre-driver worker``)."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import os
import signal
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

import dask
from distributed import Client, Nanny, Scheduler, Security, SpecCluster, Status
from distributed.comm import get_local_address_for
from distributed.core import connect
from distributed.system import MEMORY_LIMIT

from vyre_driver import settings
from vyre_driver.distributed.scheduling import NO_WORKERS_S, SILENT_S
from vyre_driver.distributed.worker import WorkerDriver
from vyre_driver.errors import DispatchFailed, FileUnusable, InvalidCommand, InvalidInput, ToolUnavailable
from vyre_driver.process.workers import ChildTimeout, run_tool
from vyre_driver.vulkan.devices import enumerate_devices
from vyre_driver.vulkan.selection import every_device, select_device

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Literal

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


ANSWERS_WITHIN_S = 10.0
_TOOL_WITHIN_S = 60.0
_DAYS = 365


class Certificates(NamedTuple):
    """Paths of the files of TLS, in PEM: whose certificates are taken, the own certificate, and its key."""

    ca: str
    cert: str
    key: str

    def security(self) -> Security:
        """Return them as Dask's, encryption required; raises FileUnusable for what cannot be read."""
        for path in self:
            try:
                Path(path).read_bytes()
            except OSError as error:
                raise FileUnusable(f"{path} cannot be read: {error.strerror}", fix="name a file in PEM", path=path) from error
        both = {f"tls_{side}_{part}": value for side in ("client", "scheduler", "worker") for part, value in self._pair()}
        return Security(tls_ca_file=self.ca, require_encryption=True, **both)

    def _pair(self) -> tuple[tuple[str, str], ...]:
        return ("cert", self.cert), ("key", self.key)


def make_certificates(folder: str) -> Certificates:
    """Make a certificate for all processes of a fleet, and its key, in a folder; it vouches for itself, for a year.

    Anybody with the key can run code on every machine of the fleet: it is readable by its owner alone.

    Raises
    ------
    FileUnusable
        If the folder cannot be written to, or has certificates already.
    ToolUnavailable
        If openssl is not installed, or fails.
    """
    place = Path(folder).absolute()
    made = Certificates(str(place / "cert.pem"), str(place / "cert.pem"), str(place / "key.pem"))
    try:
        place.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(made.key, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except OSError as error:
        raise FileUnusable(
            f"{made.key} cannot be made: {error.strerror}", fix="name a folder that has no certificates yet", path=made.key
        ) from error
    command = ["openssl", "req", "-x509", "-newkey", "rsa:3072", "-sha256", "-nodes", "-days", str(_DAYS)]
    command += ["-subj", "/CN=vyre-fleet", "-keyout", made.key, "-out", made.cert]
    try:
        ended = run_tool(command, b"", _TOOL_WITHIN_S)
        problem = "" if ended.returncode == 0 else ended.stderr.decode("utf-8", "replace").strip()
    except (OSError, ChildTimeout) as error:
        problem = str(error)
    if problem:
        Path(made.key).unlink(missing_ok=True)
        raise ToolUnavailable(f"openssl made no certificate: {problem}", fix="install openssl", tool="openssl")
    return made


def check_address(address: str, *, has_certificates: bool) -> str:
    """Return a scheduler's address with its scheme, if a worker may join there.

    Raises
    ------
    InvalidCommand
        If it is no address, or is beyond this host without TLS: Dask runs whatever it is sent.
    """
    whole = address if "://" in address else f"{'tls' if has_certificates else 'tcp'}://{address}"
    parts = urlsplit(whole)
    try:
        port, host = parts.port, parts.hostname
    except ValueError:
        port = host = None
    if parts.scheme not in {"tcp", "tls"} or not host or not port:
        raise InvalidCommand(f"{address!r} is no address of a scheduler", fix="write tls://HOST:PORT, or tcp://127.0.0.1:PORT")
    if parts.scheme == "tls" and not has_certificates:
        raise InvalidCommand(
            f"{address!r} is encrypted, and there is no certificate for it",
            fix="give --tls-ca, --tls-cert and --tls-key; --make-certificates FOLDER makes them",
        )
    if parts.scheme == "tcp" and not _is_loopback(host):
        raise InvalidCommand(
            f"{address!r} is beyond this host, and without TLS anybody there may run code here",
            fix="start the scheduler with TLS and write tls:// (--make-certificates FOLDER makes what both need)",
        )
    return whole


def join(address: str, devices: Sequence[str | int], security: Security | None, joined: Callable[[int], object]) -> None:
    """Have a process for each device work for a scheduler until this one gets SIGINT or SIGTERM, or the workers go.

    ``joined`` is called with the number of processes when all work.

    Raises
    ------
    DispatchFailed
        If no scheduler answers at the address, or none does any more when the workers have gone.
    VyreError
        What ``Driver`` raises in a process.
    """
    with dask.config.set(CONFIG):
        asyncio.run(_join(address, devices, security or Security(), joined))


async def _join(address: str, devices: Sequence[str | int], security: Security, joined: Callable[[int], object]) -> None:
    await _check_answers(address, security)
    host = urlsplit(get_local_address_for(address)).hostname
    how = {"host": host, "nthreads": THREADS, "memory_limit": MEMORY_LIMIT // len(devices), "silence_logs": logging.WARNING}
    nannies = [
        RestartingNanny(address, security=security, plugins=(WorkerDriver(one),), dashboard=False, **how) for one in devices
    ]
    ending = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ending.set)
    try:
        await asyncio.gather(*nannies)
        joined(len(nannies))
        ends = [asyncio.ensure_future(ending.wait()), asyncio.ensure_future(_all_finished(nannies))]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        for one in ends:
            one.cancel()
        await asyncio.gather(*ends, return_exceptions=True)
    finally:
        await asyncio.gather(*(one.close() for one in nannies), return_exceptions=True)
    if not ending.is_set():
        await _check_answers(address, security)  # workers that were retired are no failure


async def _all_finished(nannies: Sequence[RestartingNanny]) -> bool:
    for one in nannies:
        await one.finished()
    return True


async def _check_answers(address: str, security: Security) -> None:
    try:
        comm = await connect(address, timeout=ANSWERS_WITHIN_S, **security.get_connection_args("worker"))
        await comm.close()
    except (OSError, TimeoutError, asyncio.TimeoutError) as error:
        raise DispatchFailed(
            f"no scheduler answers at {address} within {ANSWERS_WITHIN_S:g} s: {error}",
            fix="start one there (dask scheduler), with the same certificates",
        ) from error


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
