"""Show ``vyre-driver top`` what the drivers of this process do: a Unix socket, where VYRE_TOP asks for it.

A client gets the drivers' metrics, as ``Driver.metrics`` has them, one driver after the other, and then the end of the
connection. Nothing is read from it, and the text fits into the socket's buffer, so that nobody who connects can keep the thread
waiting. The thread answers at most 100 times a second, and looks at the drivers at most ten times, for a millisecond or two
each.

The socket lies in a directory that only its owner may enter, and answers its owner and root.
"""

from __future__ import annotations

import atexit
import logging
import os
import secrets
import signal
import socket
import stat
import struct
import threading
import time
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING

from vyre_driver import settings
from vyre_driver.process.threads import start_all
from vyre_driver.telemetry.prometheus import metrics_of

if TYPE_CHECKING:
    from vyre_driver.telemetry.events import ObservedDriver

MOST_BYTES = 1 << 20
"""Of what a process sends."""
_SUFFIX = ".sock"
_BACKLOG = 16
_BETWEEN_S = 0.01
_LOOKS_S = 0.1
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


def peer(connection: socket.socket) -> tuple[int, int]:
    """Return the process and the user at the other end, as the kernel noted them when they connected or listened."""
    data = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, _ = _CREDENTIALS.unpack(data)
    return pid, uid


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
        self._looked_at, self._shown = -_LOOKS_S, b""
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
                if peer(connection)[1] in (os.geteuid(), 0):
                    connection.setblocking(False)
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, MOST_BYTES)
                    room = connection.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) // 2  # the kernel counts its own share
                    if time.monotonic() - self._looked_at >= _LOOKS_S:
                        self._looked_at, self._shown = time.monotonic(), self._text(min(room, MOST_BYTES))
                    connection.send(self._shown)
            time.sleep(_BETWEEN_S)

    def _text(self, most: int) -> bytes:
        """Return the metrics of the drivers that are open, without those for which there is no room in so many bytes."""
        text = b""
        for driver in [ref() for ref in self.drivers]:
            if driver is None or driver.is_closed:
                continue
            try:
                part = str(metrics_of([driver])).encode("utf-8", "backslashreplace")
            except Exception:  # noqa: BLE001 -- it may be closed just now
                _LOG.warning("vyre-driver top sees nothing of driver %d", driver.number, exc_info=True)
                continue
            text += part if len(text) + len(part) <= most else b""
        return text

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
