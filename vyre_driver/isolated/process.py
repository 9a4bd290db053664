"""The child process of an isolated driver, as the driver's process has it: started, asked, ended, and its death told.

Each call takes a connection of its own for its length, which a thread of the child serves, so that as many calls go on at once
as there are threads. What an interrupt breaks off leaves its connection owing an answer: before it is used again it is asked to
answer something else, and what comes before that is passed over. The call that follows an interrupt waits a moment for that, on
whichever connection it goes itself: what was broken off may be the change of a push constant.
"""

from __future__ import annotations

import itertools
import math
import os
import pickle
import socket
import weakref
from collections import deque
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any

from vyre_driver.errors import DeviceLost, DispatchFailed, DispatchTimeout, DriverCrashed, ForkError
from vyre_driver.isolated.packets import Polling, pair, receive, send
from vyre_driver.process.call_lock import call_lock
from vyre_driver.process.threads import start_all
from vyre_driver.process.workers import ChildDied, Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from vyre_driver.isolated.arena import Arena

_CHILD = "vyre_driver.isolated.child"
START_S = 120.0
_MAKING_S = 60.0  # what a call's time-out is longer by here than in the child: making a pipeline is not counted there
_OVERTAKING_S = 0.5  # how long what was broken off is waited for, once
_MOST_S = 2e6  # poll(2) takes no more milliseconds than an int holds
_DYING_S = 5.0
_DIED_WORKING = (
    "call again, which starts another process; if the same call ends that too, its shader or the Vulkan driver is to blame"
)
_DIED_OPENING = "run vyre-driver doctor, which opens each device in a process of its own and says what ends it"
_numbers = itertools.count(1)


class _Turn:
    """A call's hold on its connection; goes with the call, however that ends."""

    __slots__ = ("__weakref__", "connection")

    def __init__(self, connection: _Connection) -> None:
        self.connection = connection


class _Connection:
    """One end of a pair of sockets. ``owed`` is the number of an answer that is to come, ``asked`` of the first since."""

    __slots__ = ("asked", "has_waited", "held", "owed", "polling", "socket", "turn", "within")

    def __init__(self, end: socket.socket) -> None:
        self.socket = end
        self.polling = Polling(end)
        self.turn: Callable[[], _Turn | None] = _nobody
        self.owed = self.asked = 0
        self.held: object = None
        self.within: float | None = None
        self.has_waited = False

    def set_timeout(self, within: float | None) -> None:
        """Have the socket wait so many seconds, for ever if None."""
        if self.within != within:
            self.within = math.nan  # which equals nothing: an interrupt may come before or after the step that sets it
            self.socket.settimeout(within)
            self.within = within

    def is_free(self) -> bool:
        """Whether nobody uses it and no answer is under way.

        What a broken-off call had asked for is waited for once, for a short time: a later call should not overtake it.
        """
        if self.turn() is not None:
            return False
        if not self.owed:
            return True
        try:
            # Asked anew each time: an interrupt may have lost the answer to the one before.
            number = next(_numbers)
            send(self.socket, number, b"", socket.MSG_DONTWAIT)
            self.asked = self.asked or number
            within, self.has_waited = (0.0 if self.has_waited else _OVERTAKING_S), True
            self.set_timeout(within)
            while receive(self.socket)[0] < self.asked:
                pass
        except (EOFError, OSError):
            return False
        self.owed = self.asked = 0
        self.held = None
        return True


def _nobody() -> None:
    return None


class Handle:
    """A number by which the child knows an object, which lets it go when this does."""

    __slots__ = ("__weakref__", "child", "number")

    def __init__(self, child: Child, number: int) -> None:
        """Be that number's only holder."""
        self.child, self.number = child, number


class _Gone(weakref.ref[Handle]):
    number = 0  # until it is known which has gone


class Child:
    """A process with an open driver. Everything that was made in it goes with it."""

    def __init__(self, job: Mapping[str, Any], arena: Arena) -> None:
        """Start it, and wait until its device is open.

        Raises
        ------
        DriverCrashed
            If it dies, or gives no answer in two minutes.
        VyreError
            What ``Driver`` raises in it.
        """
        self.arena = arena
        self.died: DriverCrashed | None = None
        self._told: ChildDied | None = None
        self._pid = os.getpid()
        self._lock = call_lock("the process of an isolated driver")
        self._ending = call_lock("the end of an isolated driver's process")
        self._connections: list[_Connection] = []
        self._dropped: deque[_Gone] = deque()
        self._unsaid: dict[int, None] = {}
        self._handles: dict[int, _Gone] = {}
        self._control, theirs = pair()

        def start() -> Worker:
            with theirs:
                numbers = [theirs.fileno(), arena.descriptor]
                return Worker(_CHILD, *map(str, numbers), pass_fds=numbers)

        self.worker: Worker = _on_the_starter(start)
        self.facts: dict[str, Any] = self._started(job)

    @property
    def pid(self) -> int:
        """The process's number."""
        return self.worker.pid

    def new_number(self) -> int:
        """Return a number for what the child is to make."""
        return next(_numbers)

    def handle(self, number: int | None = None) -> Handle:
        """Return the holder of an object: of a new number, or of one that the child has given."""
        found = Handle(self, self.new_number() if number is None else number)
        gone = _Gone(found, self._dropped.append)
        gone.number = found.number
        self._handles[found.number] = gone
        return found

    def check_usable(self) -> None:
        """Check that it may be asked; raises ForkError in a fork of its parent, and DriverCrashed after its end."""
        if os.getpid() != self._pid:
            raise ForkError(
                f"the driver was opened in process {self._pid} and is used in its fork {os.getpid()}",
                fix="open the driver after the fork, which an isolated one may be",
            )
        if self.died is not None:
            raise DriverCrashed(
                f"what is used was made in a process that is gone: {self.died.problem}",
                fix="make buffers and what is bound to them anew; kernels are compiled again by themselves",
                **self.died.context,
            )

    def ask(
        self,
        what: str,
        name: str,
        *arguments: object,
        held: object = None,
        timeout: float | None = None,
        limit: float | None = None,
    ) -> Any:  # noqa: ANN401 -- each step's own
        """Return what a step gives in the child; ``held`` stays alive until no answer to this is under way.

        ``timeout`` is that of the device, to which time to make a pipeline is added here; ``limit`` is for the answer.

        Raises
        ------
        DriverCrashed
            If the process dies.
        DispatchTimeout
            If the device takes longer than ``timeout`` seconds, or the process gives no answer; it is killed.
        DeviceLost
            If the device is lost; the process is ended.
        VyreError
            If the step raises it.
        """
        self.check_usable()
        unsaid = self._say_dropped()
        message = pickle.dumps((unsaid, name, *arguments), 5)
        within = limit
        if timeout is not None and timeout <= _MOST_S:
            within = float(timeout) + _MAKING_S
        try:
            answer = self._exchange(what, message, held, within)
        except TimeoutError:
            raise self._too_slow(what, limit if timeout is None else timeout) from None
        for number in unsaid:
            self._unsaid.pop(number, None)
        went_well, value = pickle.loads(answer)  # noqa: S301 -- of our own child
        if went_well:
            return value
        if isinstance(value, DispatchTimeout):
            raise self._too_slow(what, timeout) from value
        if isinstance(value, DeviceLost):
            self._end(f"its device was lost while it worked on {what}")
        raise value

    def close(self, within: float) -> None:
        """Have the driver closed when its work has ended, in so many seconds, and end the process; once."""
        if os.getpid() != self._pid or self.died is not None:
            return
        try:
            self._exchange("close", pickle.dumps(((), "close"), 5), None, within)
        except (DispatchFailed, TimeoutError):
            pass  # it is ended either way
        finally:
            self._end("its driver was closed")

    def _exchange(self, what: str, message: bytes, held: object, within: float | None) -> bytes:
        """Return the answer to a message; raises TimeoutError where none comes in time, DriverCrashed where none will come.

        The connection is given back when this returns, whatever it raises.
        """
        turn = self._turn()
        connection, number = turn.connection, next(_numbers)
        try:
            connection.set_timeout(within)
            connection.held, connection.has_waited, connection.owed = held, False, number
            try:
                send(connection.socket, number, message)
            except OSError:
                raise self._end(f"it died before {what} reached it") from None
            connection.polling.wait()
            answer = receive(connection.socket, number)[1]
            connection.owed = 0
            connection.held = None
        except TimeoutError:
            raise
        except (EOFError, OSError):
            raise self._end(f"it died while it worked on {what}") from None
        return answer

    def _turn(self) -> _Turn:
        """Return the hold on a connection that nobody uses."""
        with self._lock:
            free = None
            for one in self._connections:
                if (free is None or (one.owed and not one.has_waited)) and one.is_free():
                    free = free or one
            if free is not None:
                turn = _Turn(free)
                free.turn = weakref.ref(turn)
                return turn
            ours, theirs = pair()
            with theirs:
                try:
                    socket.send_fds(self._control, [b"c"], [theirs.fileno()])
                except OSError:
                    raise self._end("it died while nobody used it") from None
            made = _Connection(ours)
            turn = _Turn(made)
            made.turn = weakref.ref(turn)
            self._connections.append(made)
            return turn

    def _say_dropped(self) -> tuple[int, ...]:
        """Return the numbers that the child may forget."""
        if not self._dropped and not self._unsaid:
            return ()
        with self._lock:
            while self._dropped:
                number = self._dropped[0].number
                if number:  # else an interrupt came before anything was made under it
                    self._unsaid[number] = None
                    self._handles.pop(number, None)
                self._dropped.popleft()
            return tuple(self._unsaid)

    def _started(self, job: Mapping[str, Any]) -> dict[str, Any]:
        self._control.settimeout(START_S)
        number = next(_numbers)
        try:
            send(self._control, number, pickle.dumps(job, 5))
            went_well, value = pickle.loads(receive(self._control, number)[1])  # noqa: S301 -- of our own child
        except TimeoutError:
            raise self._end(f"it did not start in {START_S:g} s", _DIED_OPENING) from None
        except (EOFError, OSError):
            raise self._end("it died while it opened its device", _DIED_OPENING) from None
        except BaseException:
            self.worker.end()
            raise
        if not went_well:
            self.worker.end()
            raise value
        self._control.settimeout(None)
        found: dict[str, Any] = value
        return found

    def _too_slow(self, what: str, timeout: float | None) -> DispatchTimeout:
        """End the process, and return the error of a call that took too long."""
        self._end(f"it was killed, for {what} did not end in time")
        return DispatchTimeout(
            f"{what} did not end in {timeout} s, and the process that worked on it was killed, with its buffers",
            fix="wait longer, or make the shader do less in one dispatch; the next call starts another process",
            timeout_s=timeout,
        )

    def _end(self, why: str, fix: str = _DIED_WORKING) -> DriverCrashed:
        """Kill the process unless it has died, and return how it ended; what came first counts."""
        with self._ending:
            if self.died is None:
                # A dying process closes its sockets first: its own end is the better reason.
                if self._told is None:
                    status = self.worker.status_within(_DYING_S) if why.startswith("it died") else self.worker.poll()
                    self._told = ChildDied(status, self.worker.stderr_tail(), "killed")
                self.worker.end()
                told = self._told
                how = f" ({told})" if told.status is not None else ""
                self.died = DriverCrashed(
                    f"the process {self.worker.pid} of an isolated driver has ended{how}: {why}",
                    fix=fix,
                    pid=self.worker.pid,
                    how=told.how,
                    signal=told.signal,
                    said=told.stderr.decode("utf-8", "replace"),
                )
            return self.died


class _Starter:
    """A thread that starts processes: the kernel ends them with the thread that did, so it must not be one that ends sooner."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.wanted: SimpleQueue[tuple[Callable[[], Any], SimpleQueue[Any]]] = SimpleQueue()
        start_all([Thread(target=self._serve, name="vyre_driver isolated", daemon=True)])

    def _serve(self) -> None:
        while True:
            make, made = self.wanted.get()
            try:
                made.put((make(), None))
            except BaseException as error:  # noqa: BLE001 -- the waiting thread raises it
                made.put((None, error))
            del make, made


_starters: dict[int, _Starter] = {}
_starting = call_lock("the start of an isolated driver's process")


def _on_the_starter(make: Callable[[], Any]) -> Any:  # noqa: ANN401 -- what it makes
    """Return what ``make`` returns on the thread that starts processes; raises what it raises."""
    with _starting:
        starter = _starters.get(os.getpid())  # a fork has none of its parent's threads
        if starter is None:
            starter = _starters[os.getpid()] = _Starter()
    made: SimpleQueue[Any] = SimpleQueue()
    starter.wanted.put((make, made))
    found, error = made.get()
    if error is not None:
        raise error
    return found
