"""Python processes in a fifth of the time: forked from one that has imported numpy and the package, and opened no device.

``Forks`` is the side of the tests. Run as a script, this file is the process that is forked. A fork runs a script or
``-c CODE`` as Python would, as ``__main__`` and in a session of its own, and ends as any process does. What was imported
before, and what the loader reads when a process starts (LD_LIBRARY_PATH), are its parent's.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_MOST_BYTES = 1 << 17  # of a request and of a reply


class Forks:
    """A process that is forked for each script; it starts when it is first asked, and ends with ``close``."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, arguments: Sequence[str], environment: Mapping[str, str], hangs_after_s: float) -> tuple[int, str, str]:
        """Return the status, standard output and standard error of a fork; one that hangs is killed with its children."""
        if self._process is None:
            self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with theirs:
                command = [sys.executable, __file__, str(theirs.fileno())]
                self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()], start_new_session=True)
        (out, out_end), (err, err_end) = os.pipe(), os.pipe()
        request = json.dumps({"arguments": [*arguments], "environment": {**environment}, "directory": str(Path.cwd())})
        try:
            socket.send_fds(self._socket, [request.encode()], [out_end, err_end])
        finally:
            os.close(out_end)
            os.close(err_end)
        pid = int(self._socket.recv(_MOST_BYTES))
        try:
            texts = _read_all([out, err], time.monotonic() + hangs_after_s)
        except BaseException:
            os.killpg(pid, signal.SIGKILL)
            self._socket.recv(_MOST_BYTES)
            raise
        return int(self._socket.recv(_MOST_BYTES)), texts[0], texts[1]

    def close(self) -> None:
        """End it."""
        if self._process is not None:
            self._socket.close()
            self._process.wait()
            self._process = None


def _read_all(pipes: list[int], until: float) -> list[str]:
    """Return all that comes out of pipes, and close them; raises TimeoutError where one is still open then."""
    found: dict[int, list[bytes]] = {pipe: [] for pipe in pipes}
    try:
        with selectors.DefaultSelector() as waiting:
            for pipe in pipes:
                waiting.register(pipe, selectors.EVENT_READ)
            while waiting.get_map():
                ready = waiting.select(max(0, until - time.monotonic()))
                if not ready:
                    raise TimeoutError("it hangs")
                for key, _ in ready:
                    found[key.fd].append(os.read(key.fd, 1 << 16))
                    if not found[key.fd][-1]:
                        waiting.unregister(key.fd)
    finally:
        for pipe in pipes:
            os.close(pipe)
    return [b"".join(found[pipe]).decode() for pipe in pipes]


def _serve(asking: socket.socket) -> dict[str, object] | None:
    """Fork for each request, and tell the fork's number and status; returns the request in the fork, None at the end."""
    while True:
        text, pipes, _, _ = socket.recv_fds(asking, _MOST_BYTES, 2)
        if not text:
            return None
        pid = os.fork()
        if pid == 0:
            os.setsid()
            nothing = os.open(os.devnull, os.O_RDONLY)
            for number, descriptor in enumerate([nothing, *pipes]):
                os.dup2(descriptor, number)
                os.close(descriptor)
            asking.close()
            return json.loads(text)  # type: ignore[no-any-return]
        for pipe in pipes:
            os.close(pipe)
        asking.send(str(pid).encode())
        asking.send(str(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])).encode())


def _prepare(request: dict[str, object]) -> tuple[str, str]:
    """Have environment, directory, warnings, arguments and path as Python has them; returns the program and its name."""
    import warnings

    environment, arguments = request["environment"], request["arguments"]
    assert isinstance(environment, dict)
    assert isinstance(arguments, list)
    for name in set(os.environ) - set(environment):
        del os.environ[name]
    os.environ.update(environment)
    os.chdir(str(request["directory"]))
    if arguments[0] == "-W":
        warnings.simplefilter(arguments[1])
        arguments = arguments[2:]
    if arguments[0] == "-c":
        sys.path[0], sys.argv = "", ["-c", *arguments[2:]]
        return arguments[1], "<string>"
    sys.path[0], sys.argv = str(Path(arguments[0]).parent), arguments
    return Path(arguments[0]).read_text("utf-8"), arguments[0]


if __name__ == "__main__":
    import vyre_driver

    vyre_driver.Driver  # noqa: B018 -- which imports what nearly all of them need
    _given = _serve(socket.socket(fileno=int(sys.argv[1])))
    if _given is not None:
        _text, __file__ = _prepare(_given)
        del _given
        exec(compile(_text, __file__, "exec", dont_inherit=True))  # noqa: S102 -- as Python does; names last as long as the process
