"""The devices of this host as workers of a scheduler elsewhere: what ``vyre-driver worker`` does."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

import dask
from distributed import Security
from distributed.comm import get_local_address_for
from distributed.core import connect
from distributed.system import MEMORY_LIMIT

from vyre_driver.distributed.local import CONFIG, THREADS, RestartingNanny
from vyre_driver.distributed.worker import WorkerDriver
from vyre_driver.errors import DispatchFailed, FileUnusable, InvalidCommand, ToolUnavailable
from vyre_driver.process.workers import ChildTimeout, run_tool

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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
