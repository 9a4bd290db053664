"""Work under way, as a future of Python's.

A thread that asks a future for its result waits on the device. Only where somebody waits by other means (a callback,
``concurrent.futures.wait``, ``await``) does the device's poller follow the work and notify them.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import itertools
import logging
import sys
import threading
import time
from concurrent.futures import Future, InvalidStateError
from typing import TYPE_CHECKING, Any, NoReturn

from vyre_driver.errors import DispatchTimeout
from vyre_driver.kompute.poller import Followed
from vyre_driver.process._lock import Condition
from vyre_driver.telemetry.stages import Stage

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from vyre_driver.kompute.submission import Outcome, Submission
    from vyre_driver.runtime.observed import Observed, ObservedBatch

_LOG = logging.getLogger("vyre_driver.runtime.futures")
_RUNNING, _FINISHED = "RUNNING", "FINISHED"  # concurrent.futures' own names, which its functions look for
_MOST_REFUSALS = 300  # of about a millisecond each
_TURNS_NS = 50_000  # how long an event loop takes turns instead of being woken, which takes as long
_numbers = itertools.count(1)


class _Event:
    """As ``threading.Event``, whose lock Ctrl-C leaves taken where it ends a wait, so that setting it would hang."""

    __slots__ = ("_condition", "_is_set")

    def __init__(self) -> None:
        self._condition = Condition()
        self._is_set = False

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        with self._condition:
            self._is_set = True
            self._condition.notify_all()

    def clear(self) -> None:
        self._is_set = False

    def wait(self, timeout: float | None = None) -> bool:
        with self._condition:
            if not self._is_set:
                self._condition.wait(timeout)
            return self._is_set


class _Waiters(list[Any]):
    """What ``concurrent.futures`` keeps for each of its waits that go on; nobody waits for them yet when they are appended."""

    def append(self, waiter: Any) -> None:  # noqa: ANN401 -- concurrent.futures' own
        if type(getattr(waiter, "event", None)) is threading.Event:
            waiter.event = _Event()
        super().append(waiter)


class _Audience:
    """Those that wait for a future by other means than ``result``; made when the first comes, in one step with the state."""

    __slots__ = ("callbacks", "condition", "refusals", "state", "waiters")

    def __init__(self, state: str) -> None:
        self.state = state
        # Python's own one is left locked where Ctrl-C ends a wait at the wrong moment.
        self.condition = Condition()
        self.waiters = _Waiters()
        self.callbacks: list[Callable[[DispatchFuture], object]] = []
        self.refusals = 0


class DispatchFuture(Future[None]):
    """Work under way: ask it, wait for it, or await it; a ``concurrent.futures.Future`` whose result is None.

    It keeps what it ended with, also when its driver is closed, which waits for the work. It cannot be cancelled: its work
    was handed to the device when it was made.
    """

    _outcome: Outcome | None = None
    _audience: _Audience | None = None
    _result = None

    def __init__(self, submission: Submission, generation: int, observed: Observed | ObservedBatch) -> None:
        """Made by ``BoundKernel.submit`` and ``Batch.submit``; ``observed`` records the work and how it ends."""
        # Not Future's own: what it makes, a lock among it, costs a fifth of a submission, and most futures need none of it.
        self._submission = submission
        self._generation = generation
        self._observed = observed
        self._number = next(_numbers)
        self._began_ns = observed.dispatches.handed_over()

    def done(self) -> bool:
        """Whether the work has ended, well or not; never waits."""
        return self._outcome is not None or self._is_over(0)

    def running(self) -> bool:
        """Whether the work has not ended."""
        return not self.done()

    def cancel(self) -> bool:
        """Return False: the work was handed to the device, and runs to its end."""
        return False

    def cancelled(self) -> bool:
        """Return False."""
        return False

    def result(self, timeout: float | None = None) -> None:
        """Wait until the work has ended, at most ``timeout`` seconds; holds no lock of the interpreter meanwhile.

        Raises
        ------
        DispatchTimeout
            If it has not ended; it goes on.
        DispatchFailed
            If that is how the work failed.
        DeviceLost
            If that is how the work failed.
        ForkError
            In a forked child, where its end is never seen.
        """
        error = self.exception(timeout)
        if error is not None:
            try:
                raise error
            finally:
                del self, error  # the error's frames would hold it, and the device's memory, in a cycle

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait as ``result`` and return what the work failed with, None if it did not."""
        try:
            outcome = self._outcome
            if outcome is None:
                waiting = self._observed.timeline.now()
                outcome = self._note(self._submission.ending(self._generation, timeout))
                if waiting:
                    self._observed.timeline.add(Stage.WAIT, waiting, 0, self._observed.what)
            elif timeout is not None:
                self._submission.check_timeout(timeout)
        except DispatchTimeout as error:  # nothing has failed: it may be asked again
            if sys.version_info < (3, 11):
                raise _as_everybodys_time_out(error) from None
            raise
        except Exception as error:
            self._observed.failed(error)
            raise
        return outcome[0]

    def __await__(self) -> Generator[Any, None, None]:
        """Wait without blocking the event loop and without a thread of its executor; cancelled, the work goes on."""
        until_ns = time.monotonic_ns() + _TURNS_NS
        while not self.done():
            if time.monotonic_ns() > until_ns:
                import asyncio  # late: most await nothing

                yield from asyncio.wrap_future(self)
            else:
                yield  # one turn of the event loop, as asyncio.sleep(0): work is short, and waking a loop takes long
        self.result()

    def __repr__(self) -> str:
        """Return what was submitted, and how far it is."""
        with contextlib.suppress(Exception):  # a repr raises nothing, and that it is not known to have ended is right
            self.done()
        outcome = self._outcome
        state = "pending" if outcome is None else f"failed {type(outcome[0]).__name__}" if outcome[0] else "finished"
        return f"<{type(self).__name__} of {self._observed.what}: {state}>"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        """Refuse to be copied or pickled."""
        raise TypeError("a DispatchFuture stands for work of this process's device and cannot be copied or pickled")

    def _refuse(self, *_: object) -> NoReturn:
        raise InvalidStateError(f"{self!r} gets its result from the device")

    set_result = set_exception = set_running_or_notify_cancel = _refuse  # type: ignore[assignment]

    @property
    def _state(self) -> str:  # type: ignore[override]  # concurrent.futures only reads it, and what follows
        return self._made_audience().state

    @property
    def _condition(self) -> Condition:  # type: ignore[override]
        return self._made_audience().condition

    @property
    def _waiters(self) -> list[Any]:  # type: ignore[override]
        return self._made_audience().waiters

    @property
    def _done_callbacks(self) -> list[Callable[[DispatchFuture], object]]:
        return self._made_audience().callbacks

    @property
    def _exception(self) -> BaseException | None:  # type: ignore[override]
        return None if self._outcome is None else self._outcome[0]

    def _made_audience(self) -> _Audience:
        """Return the audience; where there was none, the work is followed from now on, unless it has ended."""
        audience = self._audience
        if audience is None:
            is_over = self.done()
            if not is_over:
                # First: interrupted between the two, it would have an audience that nobody notifies.
                self._submission.follow(self._number, Followed(self._is_followed_over, self._notify, self._forget))
            audience = self._set_audience(_FINISHED if is_over else _RUNNING)
        return audience

    def _set_audience(self, state: str) -> _Audience:
        """Return the audience, made in this state where there is none; one step, for two threads may come at once."""
        made: _Audience = self.__dict__.setdefault("_audience", _Audience(state))
        return made

    def _is_over(self, wait_ns: int) -> bool:
        outcome = self._submission.poll(self._generation, wait_ns)
        if outcome is None:
            return False
        self._note(outcome)
        return True

    def _note(self, outcome: Outcome) -> Outcome:
        """Keep what it ended with, once, and report that."""
        kept: Outcome = self.__dict__.setdefault("_outcome", outcome)
        began_ns = self.__dict__.pop("_began_ns", None)  # one thread gets it
        if began_ns is None:
            return kept
        error, dispatches = kept[0], self._observed.dispatches
        if error is None:
            dispatches.was_seen(began_ns)
        elif isinstance(error, Exception):
            self._observed.failed(error, dispatches.now() - began_ns)
        return kept

    def _is_followed_over(self, wait_ns: int) -> bool:
        """Whether it has ended, for the poller: what it cannot find out ends it too, for somebody waits."""
        try:
            return self._outcome is not None or self._is_over(wait_ns)
        except Exception as error:  # noqa: BLE001 -- the future's
            self._note((error,))
            return True

    def _notify(self) -> bool:
        """Notify those who wait, on the poller's thread, which no interrupt comes to; False if they hold the condition."""
        audience = self._set_audience(_FINISHED)
        condition = audience.condition
        if not condition.acquire(blocking=False):
            audience.refusals += 1
            if audience.refusals < _MOST_REFUSALS:
                return False
            # Ctrl-C has ended ``concurrent.futures.wait`` before it gave back what it had taken: nobody ever will.
            condition = audience.condition = Condition()
            condition.acquire()
        try:
            if audience.state == _FINISHED:
                return True
            audience.state = _FINISHED
            for waiter in audience.waiters:
                (waiter.add_exception if self._exception is not None else waiter.add_result)(self)
            condition.notify_all()
        finally:
            condition.release()
        for callback in audience.callbacks:
            try:
                callback(self)
            except BaseException:  # noqa: BLE001 -- whatever it raises, the other futures are completed
                _LOG.exception("a callback of %r raised", self)
        return True

    def _forget(self) -> None:
        """In a forked child: end with a ForkError. Callbacks and listeners are the parent's to call, as are their locks."""
        outcome = self._submission.poll(self._generation)
        if outcome is not None:  # None: the fork came in the middle of a wait for it on this thread
            self.__dict__.setdefault("_outcome", outcome)
        self._audience = _Audience(_FINISHED)


def _as_everybodys_time_out(error: DispatchTimeout) -> DispatchTimeout:
    """Return the same error as what Python 3.10 calls a TimeoutError in each of its modules: later on they are one."""
    named = [concurrent.futures.TimeoutError, getattr(sys.modules.get("asyncio"), "TimeoutError", TimeoutError)]
    bases = tuple(dict.fromkeys(one for one in named if one is not TimeoutError))
    members = {"__reduce__": lambda _: DispatchTimeout.__reduce__(error)}
    made: type[DispatchTimeout] = type("DispatchTimeout", (DispatchTimeout, *bases), members)
    return made(error.problem, fix=error.fix, **error.context)
