"""The queues of a pool's devices, and the threads that do what waits in them.

A job goes to the shortest queue. Those of a device that is lost go to the others.
"""

from __future__ import annotations

import logging
import threading
import weakref
from collections import deque
from concurrent.futures import Future
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from vyre_driver.errors import DeviceLost
from vyre_driver.process._lock import Condition

if TYPE_CHECKING:
    from collections.abc import Callable

    from vyre_driver.driver import Driver
    from vyre_driver.pool import DriverPool

_Result = TypeVar("_Result")
_MAX_LOST = 2
_LOG = logging.getLogger("vyre_driver.pool")


class Job(Generic[_Result]):
    """Work for one device, its future, and how many devices it was running on when they were lost."""

    __slots__ = ("future", "is_running", "losses", "work")

    def __init__(self, work: Callable[[Driver], _Result]) -> None:
        self.work = work
        self.future: Future[_Result] = Future()
        # Its own one is left locked where Ctrl-C ends a wait at the wrong moment, and the thread that works on it would hang.
        self.future._condition = Condition()  # type: ignore[assignment]  # noqa: SLF001
        self.is_running = False
        self.losses = 0


class Lane:
    """One device of a pool: its driver, and the jobs that wait for it. Changed under the pool's lock."""

    def __init__(
        self, driver: Driver, number: int, pool: DriverPool, serve: Callable[[Lane], None], *, is_isolated: bool
    ) -> None:
        self.driver, self.number, self.is_isolated = driver, number, is_isolated
        self.waiting: deque[Job[Any]] = deque()
        self.running: Job[Any] | None = None
        self.done = self.failed = self.cancelled = 0
        self.lost: DeviceLost | None = None
        self.thread = threading.Thread(target=serve, args=(self,), name=f"vyre_driver device {number}", daemon=True)
        # One item at least for each job that waits, and for each reason to end: the thread looks around once an item.
        self.wakes: SimpleQueue[object] = SimpleQueue()
        # The thread ends when its pool is dropped: that puts this reference among the items, in one step.
        self.owner = weakref.ref(pool, self.wakes.put)

    @property
    def load(self) -> tuple[int, int, int]:
        """What the shortest queue has least of: jobs, then jobs done, then its number."""
        return len(self.waiting) + (self.running is not None), self.done, self.number


class Lanes:
    """The lanes of a pool, and what their threads do.

    The threads hold this and not the pool, so that a pool that is dropped, or whose making was interrupted, is collected and
    ends them.
    """

    def __init__(self) -> None:
        self.changing = threading.RLock()
        self.closing = False
        self.lanes: list[Lane] = []

    def end(self) -> None:
        """Have the threads end when all work that was given has ended."""
        self.closing = True
        self.wake()

    def wake(self) -> None:
        """Wake every thread to look for work."""
        for lane in self.lanes:
            lane.wakes.put(None)

    def shortest(self) -> Lane:
        """Return the lane with least to do; under the lock."""
        left = [lane for lane in self.lanes if lane.lost is None]
        if not left:
            lost = self.lanes[-1].lost
            raise DeviceLost(
                f"all {len(self.lanes)} devices of the pool were lost",
                fix="make a new pool, and look into the system log for the reason",
                **(lost.context if lost is not None else {}),
            ) from lost
        return min(left, key=lambda lane: lane.load)

    def enqueue(self, job: Job[Any]) -> None:
        """Append a job to the shortest queue; under the lock."""
        lane = self.shortest()
        lane.wakes.put(None)  # first: an item too many costs a look, and one too few would leave a job undone
        lane.waiting.append(job)

    def serve(self, lane: Lane) -> None:
        """Do one job after the other, until the pool is closed or the device lost; holds none while it waits for the next."""
        while True:
            if lane.wakes.get() is not None:  # the pool was dropped
                self.closing = True
            with self.changing:
                if lane.waiting:
                    lane.running = lane.waiting.popleft()
                elif self.closing and not self._may_be_rerouted(lane):
                    return
                else:
                    continue
            if not self._do(lane, lane.running):
                return
            with self.changing:
                lane.running = None
                if self.closing:
                    self.wake()  # another may have waited for what this one would have lost

    def _do(self, lane: Lane, job: Job[Any]) -> bool:
        """Do a job; returns False if the device was lost."""
        if not job.is_running and not job.future.set_running_or_notify_cancel():
            lane.cancelled += 1
            return True
        job.is_running = True
        try:
            result = job.work(lane.driver)
        except BaseException as error:  # noqa: BLE001 -- the future's, whatever it is
            if isinstance(error, DeviceLost) and not lane.is_isolated:
                self._lose(lane, job, error)
                return False
            if isinstance(error, DeviceLost) and self._is_done_again(job):
                return True
            lane.failed += 1
            job.future.set_exception(error)
        else:
            job.future.set_result(result)
        lane.done += 1
        return True

    def _is_done_again(self, job: Job[Any]) -> bool:
        """Have a job done again whose device was lost with its process; returns False at the second loss."""
        job.losses += 1
        if job.losses < _MAX_LOST:
            with self.changing:
                self.enqueue(job)
        return job.losses < _MAX_LOST

    def _may_be_rerouted(self, lane: Lane) -> bool:
        """Whether another lane still has work that it may lose its device over; under the lock."""
        return any(other is not lane and other.lost is None and (other.waiting or other.running) for other in self.lanes)

    def _lose(self, lane: Lane, job: Job[Any], error: DeviceLost) -> None:
        """Set a lane aside and give its work to the others; where there are none, it fails with the error."""
        job.losses += 1
        failed: list[Job[Any]] = []
        with self.changing:
            lane.lost, lane.running = error, None
            moved = [job, *lane.waiting]
            if job.losses >= _MAX_LOST:
                failed.append(moved.pop(0))
            lane.waiting.clear()
            for one in moved:
                try:
                    self.enqueue(one)
                except DeviceLost:
                    failed.append(one)
            self.wake()
        _LOG.warning("device %r of a pool was lost; %d jobs go to others", lane.driver.device.name, len(moved))
        for one in failed:
            if one.is_running or one.future.set_running_or_notify_cancel():
                one.future.set_exception(error)
