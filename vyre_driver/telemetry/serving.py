"""Show ``vyre-driver top`` what the drivers of this process do: a Unix socket, where VYRE_TOP asks for it.

A client gets one JSON document and the end of the connection. Nothing is read from it, and the document goes into the
socket's buffer in one step or not at all, so that nobody who connects can keep the thread waiting. It answers at most 100
times a second, and looks at the drivers at most ten times a second, each time for less than a millisecond.

The socket lies in a directory that only its owner may enter, and answers its owner and root.
"""

from __future__ import annotations

import atexit
import json
import logging
import os
import secrets
import signal
import socket
import stat
import struct
import sys
import threading
import time
import weakref
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vyre_driver import settings
from vyre_driver.process.threads import start_all

if TYPE_CHECKING:
    from vyre_driver.telemetry.events import ObservedDriver

SCHEMA = 1
_SUFFIX = ".sock"
_MOST_DRIVERS, _MOST_ROWS, _LONGEST_NAME = 16, 32, 80  # so that a document fits into a socket's buffer
_BUFFER_BYTES = 1 << 20
_BACKLOG = 16
_LOOKS_S = 0.1
_BETWEEN_S = 0.01
_AFTER_FAULT_S = 1.0
_BEGINNING_S = 60.0
_CREDENTIALS = struct.Struct("3i")  # ucred: pid, uid, gid
_LOG = logging.getLogger("vyre_driver.telemetry.serving")


class NoPlace(Exception):
    """There is no directory for sockets that only this user may enter."""


def directory() -> int:
    """Open the directory of the sockets, made if need be; raises NoPlace, with what is wrong."""
    place = settings.runtime_directory()
    if place is None:
        raise NoPlace("there is neither XDG_RUNTIME_DIR nor a home")
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        opened = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise NoPlace(f"{place} cannot be used: {error.strerror}") from error
    found = os.fstat(opened)
    if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077:
        os.close(opened)
        raise NoPlace(f"{place} belongs to user {found.st_uid} and has mode {stat.S_IMODE(found.st_mode):o}, not 700")
    return opened


def address(opened: int, name: str) -> str:
    """Return the address of a socket in an open directory, whose path may be longer than an address (108 bytes)."""
    return f"/proc/self/fd/{opened}/{name}"


def peer_uid(connection: socket.socket) -> int:
    """Return the user at the other end, as the kernel noted it when they connected or listened."""
    data = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(data)[1])


def listed(opened: int) -> list[str]:
    """Return the names of the sockets in an open directory, also of those whose process does not listen yet."""
    return [name for name in os.listdir(opened) if name.endswith(_SUFFIX)]


def remove_stale(opened: int) -> None:
    """Remove sockets that nobody listens to any more: their processes were killed."""
    for name in listed(opened):
        with suppress(OSError):
            found = os.stat(name, dir_fd=opened, follow_symlinks=False)
            is_beginning = name.startswith(".") and time.time() - found.st_mtime < _BEGINNING_S
            if stat.S_ISSOCK(found.st_mode) and not is_beginning and not _is_heard(address(opened, name)):
                os.unlink(name, dir_fd=opened)


def _is_heard(place: str) -> bool:
    """Whether a process listens to a socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(place)
        except ConnectionRefusedError:
            return False
        except BlockingIOError:  # it is busy
            return True
    return True


class _Server:
    """The socket of this process, and the thread that answers on it."""

    def __init__(self) -> None:
        """Listen; raises NoPlace, or OSError."""
        self.drivers: list[weakref.ref[ObservedDriver]] = []
        self._said = 0.0, b""
        self._began = time.time()
        self._directory = directory()
        self.name = f"{os.getpid()}-{secrets.token_hex(4)}{_SUFFIX}"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            remove_stale(self._directory)
            os.fchmod(self._socket.fileno(), 0o600)  # the mode that bind gives the file
            # Under another name until it listens: one that nobody listens to is taken for what a killed process has left.
            self._socket.bind(address(self._directory, f".{self.name}"))
            self._socket.listen(_BACKLOG)
            os.rename(f".{self.name}", self.name, src_dir_fd=self._directory, dst_dir_fd=self._directory)
        except BaseException:
            self.forget()
            raise

    def serve(self) -> None:
        """Answer everybody until the socket is closed."""
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # they are for the threads of the program
        while self._socket.fileno() >= 0:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                if self._socket.fileno() < 0:
                    return
                time.sleep(_AFTER_FAULT_S)  # there are no descriptors just now, for one
                continue
            with connection, suppress(OSError):
                if peer_uid(connection) in (os.geteuid(), 0):
                    connection.setblocking(False)
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER_BYTES)
                    connection.send(self._document())
            time.sleep(_BETWEEN_S)

    def _document(self) -> bytes:
        looked, document = self._said
        if time.monotonic() - looked >= _LOOKS_S or not document:
            self._said = time.monotonic(), _document_of([ref() for ref in self.drivers], self._began)
        return self._said[1]

    def close(self) -> None:
        """Remove the socket; of a forked child's only ``forget`` is called."""
        with suppress(OSError):
            os.unlink(self.name, dir_fd=self._directory)
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes the thread
        self.forget()

    def forget(self) -> None:
        """Close what is open of it here, as in a forked child, which leaves the socket to its parent."""
        self._socket.close()
        with suppress(OSError):
            os.close(self._directory)


_making = threading.RLock()  # a signal handler may open a driver in the middle of another's opening
_servers: list[_Server] = []  # one, once a driver asks for it


def serve(driver: ObservedDriver) -> None:
    """Show a driver to ``vyre-driver top`` from now on; where that cannot be done, a line in the log says why."""
    try:
        with _making:
            if not _servers:
                _servers.append(_started())
            server = _servers[0]
            server.drivers = [ref for ref in server.drivers if ref() is not None] + [weakref.ref(driver)]
    except (NoPlace, OSError, RuntimeError) as error:
        _LOG.warning("vyre-driver top will not see this process: %s", error)


def _started() -> _Server:
    server = _Server()
    try:
        start_all([threading.Thread(target=server.serve, name="vyre_driver top", daemon=True)])
    except RuntimeError:
        server.close()
        raise
    return server


@atexit.register
def _close() -> None:
    for server in _servers:
        server.close()
    _servers.clear()


def _forget_in_child() -> None:
    global _making  # noqa: PLW0603 -- another thread of the parent may have held it
    _making = threading.RLock()
    for server in _servers:
        server.forget()
    _servers.clear()


os.register_at_fork(after_in_child=_forget_in_child)


def _document_of(drivers: list[ObservedDriver | None], began: float) -> bytes:
    rows = []
    there = [driver for driver in drivers if driver is not None and not driver.is_closed]
    for driver in there[:_MOST_DRIVERS]:
        try:
            rows.append(_row(driver))
        except Exception:  # noqa: BLE001 -- it may be closed just now
            _LOG.warning("vyre-driver top sees nothing of driver %d", driver.number, exc_info=True)
    document = {"schema": SCHEMA, "pid": os.getpid(), "command": Path(sys.argv[0] if sys.argv else "").name or "python"}
    document |= {"began_s": began, "taken_ns": time.monotonic_ns()}
    document |= {"drivers": rows, "left_out": max(0, len(there) - _MOST_DRIVERS)}
    return json.dumps(document).encode()


def _row(driver: ObservedDriver) -> dict[str, Any]:
    """Return what is shown of a driver: of its kernels those with most dispatches, of its buffers the largest."""
    found = driver.context.snapshot()
    events, report = found["events"], found["report"]
    kernels = sorted(events["kernels"], key=lambda one: -one["dispatches"])[:_MOST_ROWS]
    named = sorted(found["memory"]["buffers"].items(), key=lambda one: -one[1][1])[:_MOST_ROWS]
    return {
        "number": driver.number,
        "device": found["device"],
        "uuid": found["uuid"],
        "is_lost": found["is_lost"],
        "events": {kind: {"count": one["count"], "total_ns": one["total_ns"]} for kind, one in events["kinds"].items()},
        "failures": events["failures"],
        "kernels": [{**one, "name": one["name"][:_LONGEST_NAME]} for one in kernels],
        "in_flight": report["layer"]["counters"].get("work_pending"),
        "moved": found["moved"],
        "memory_bytes": found["memory"]["bytes"],
        "buffers": [{"name": name[:_LONGEST_NAME], "count": count, "bytes": size} for name, (count, size) in named],
        "cache": report["cache"]["counts"],
    }
