"""The process that an isolated driver works in: it opens the device, and does what it is asked over sockets.

The first message on the control socket is the job. Each further one brings an end of a connection, which a thread of its own
serves until the other side closes it. When the control socket is closed the process ends at once, whatever the device does; the
kernel ends it with its parent even where that cannot be seen, because a driver holds the interpreter.
"""

from __future__ import annotations

import os
import pickle
import signal
import socket
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from vyre_driver.autotune.store.store import AutotuneStore
from vyre_driver.cache.disk import DiskPipelineCache
from vyre_driver.driver import Driver
from vyre_driver.isolated.arena import MappedArena
from vyre_driver.isolated.packets import receive, send
from vyre_driver.isolated.polling import Polling
from vyre_driver.isolated.work import Work
from vyre_driver.process.child import end_with_parent

if TYPE_CHECKING:
    from collections.abc import Mapping

_MOST_ENDS = 4
NOTHING = pickle.dumps((True, None), 5)


def main(control: socket.socket, arena: int) -> None:
    """Open the driver, answer with the device, and serve connections until the parent is gone."""
    number, message = receive(control)
    try:
        job: dict[str, Any] = pickle.loads(message)  # noqa: S301 -- of our own parent
        sys.path[:] = job["path"]
        work = Work(_opened(job), MappedArena(arena))
        answer = pickle.dumps((True, work.facts()), 5)
    except Exception as error:  # noqa: BLE001 -- sent to the caller
        send(control, number, pickled_error(error))
        return
    send(control, number, answer)
    while True:
        data, descriptors, _, _ = socket.recv_fds(control, 1, _MOST_ENDS)
        for descriptor in descriptors:
            end = socket.socket(fileno=descriptor)
            threading.Thread(target=serve, args=(work, end), daemon=True).start()
        if not data:
            return


def serve(work: Work, end: socket.socket) -> None:
    """Answer on one connection, request by request; an empty one only asks to be answered."""
    polling = Polling(end)
    while True:
        try:
            polling.wait()
            number, message = receive(end)
            send(end, number, answer_of(work, message) if message else b"")
        except (EOFError, OSError):
            return


def answer_of(work: Work, message: bytes) -> bytes:
    """Return the pickled answer to a request: whether it went well, and the value or the error."""
    try:
        dropped, name, *arguments = pickle.loads(message)  # noqa: S301 -- of our own parent
        for one in dropped:
            work.drop(one)
        value = work.do(name, arguments)
        return NOTHING if value is None else pickle.dumps((True, value), 5)
    except Exception as error:  # noqa: BLE001 -- sent to the caller
        return pickled_error(error)


def pickled_error(error: Exception) -> bytes:
    """Return an answer that has the other side raise the error, or one that says what it said."""
    with suppress(Exception):
        found = pickle.dumps((False, error), 5)
        pickle.loads(found)  # noqa: S301 -- our own; some errors are pickled and cannot be read back
        return found
    return pickle.dumps((False, RuntimeError(f"{type(error).__name__}: {error}")), 5)


def _opened(job: Mapping[str, Any]) -> Driver:
    store = job["autotune"]
    autotune = AutotuneStore() if store is False else store
    cache = DiskPipelineCache(**job["cache"])
    driver = Driver(job["device"], cache, autotune, allow_software=job["allow_software"], strict=job["strict"])
    if job["must_be_warm"]:
        driver.assert_warm()
    return driver


if __name__ == "__main__":
    end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the caller
    os.dup2(2, 1)  # what drivers and libraries print
    with suppress(EOFError, OSError):
        main(socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2]))
    os._exit(0)  # without waiting for a device that may hang
