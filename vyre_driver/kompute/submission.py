"""Recorded work: submit it, wait for it, replay it.

A submission returns at once with a fence, which the layer has; the wait holds neither the GIL nor a lock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from vyre_driver.errors import DeviceLost, DispatchFailed, ForkError
from vyre_driver.kompute.deadline import NS_PER_S, Deadline
from vyre_driver.kompute.results import VK_SUCCESS, VK_TIMEOUT, cut_error
from vyre_driver.process.call_lock import call_lock
from vyre_driver.vulkan.layer import _layer
from vyre_driver.vulkan.layer._layer import LOOP_CUT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vyre_driver.errors import DispatchTimeout, LoopCut
    from vyre_driver.kompute.device import KomputeDevice
    from vyre_driver.kompute.pipeline import BoundPipeline
    from vyre_driver.kompute.poller import Followed
    from vyre_driver.vulkan.layer._layer import PipelineFacts

    Work: TypeAlias = "_layer.Work | _layer.Dispatch | _layer.Transfer"

Outcome = tuple[BaseException | None]
"""How work ended: with what it failed, or None."""
SUCCESS: Final[Outcome] = (None,)
_MOST_CUT = 256  # generations that are remembered for who asks for them


Span: TypeAlias = tuple[int, int, int]
"""Bytes of some memory: which, and where they begin and end."""


class NoDispatch:
    """In place of a pipeline where nothing is to run: a buffer has no elements, or the grid no invocations."""

    facts: PipelineFacts | None = None
    pipeline_ns = 0
    label = 0
    watched: tuple[BoundPipeline, ...] = ()

    def __init__(self, device: KomputeDevice) -> None:
        """Remember the device."""
        self.device = device

    def dispatch(self, push_words: tuple[int, ...], cut_word: object = None) -> None:
        """Return no operation."""

    def memory_with(self, _: object) -> tuple[_layer.Allocation, ...]:
        """Return no memory."""
        return ()


class Submission(_layer.Runs):
    """Recorded work of one or several parts, which are handed to the device one after the other.

    ``run`` of one part that the layer recorded is a call of C where the work is idle and ``timeout`` None, a float or an int.

    ``keep`` is held as long as the work may run, which has the device write down its ``clock``.
    """

    __slots__ = ("__weakref__", "_clock", "_cut", "_device", "_keep", "_watched", "_works")

    def __init__(
        self,
        device: KomputeDevice,
        works: Sequence[Work],
        keep: object,
        *,
        clock: _layer.Clock | None = None,
        watched: Sequence[BoundPipeline] = (),
    ) -> None:
        """Hand nothing over yet; of the dispatches of those ``watched`` the driver may cut a loop."""
        super().__init__(device.in_use, call_lock("the bound kernel"), works)
        self._device = device
        self._works = works
        self._keep = keep
        self._clock = clock
        self._watched = watched
        self._cut: list[int] = []  # the generations of which the driver has cut a loop, the latest
        device.keep_holder(self)

    @property
    def is_pending(self) -> bool:
        """Whether the end of some of it has not been seen; the caller holds all that submits it."""
        for work in self._works:  # noqa: SIM110 -- in each call with arrays, of which a generator is 1 %
            if work.is_pending:
                return True
        return False

    def _run_after_others(self, timeout: float | Deadline | None) -> None:
        """As ``run``, also where an earlier submission is pending or another thread runs it."""
        deadline = self._deadline(timeout)
        with self._device.in_use, deadline.holding(self._lock):
            self.run_alone(deadline)

    def _passed(self, timeout: float) -> DispatchTimeout:
        return self._deadline(timeout).passed()

    def _raise_result(self, call: str, result: int) -> None:
        raise self._device.error_of(_layer.Failure(call, result, 0)) if result != LOOP_CUT else self._cut_error()

    def run_alone(self, deadline: Deadline) -> None:
        """As ``run``, for a caller that holds ``KomputeDevice.in_use`` and has shown the submission to no other thread."""
        self._finish(deadline)
        self._submit()
        self._finish(deadline)
        if self._generation in self._cut:
            raise self._cut_error()

    def submit(self) -> int:
        """Hand the work to the device; returns its generation, to ask about it later. Waits for an earlier one first."""
        with self._device.in_use, self._lock:
            self._finish(self._device.never)
            self._submit()
            return self._generation

    def try_submit(self) -> int | None:
        """Hand the work to the device if none of it runs and no thread waits for it; returns its generation, or None."""
        with self._lock.attempt() as is_mine:
            if not is_mine:
                return None
            with self._device.in_use:
                if not self._has_ended():
                    return None
                self._submit()
                return self._generation

    def ending(self, generation: int, timeout: float | Deadline | None = None) -> Outcome:
        """Wait until the work of that generation has ended, and return how.

        Raises
        ------
        DispatchTimeout
            If it takes longer than ``timeout`` seconds; it goes on running.
        InvalidInput
            If ``timeout`` is not a number of seconds.
        """
        deadline = self._deadline(timeout)
        with deadline.holding(self._lock):
            outcome = self._outcome(generation, deadline.left_ns)
        if outcome is None:
            raise deadline.passed()
        return outcome

    def wait(self, generation: int, timeout: float | Deadline | None = None) -> None:
        """Return when the work of that generation is done.

        Raises
        ------
        DispatchTimeout
            If it takes longer than ``timeout`` seconds; it goes on running.
        DeviceLost
            If the device was lost.
        DispatchFailed
            If the work failed otherwise.
        InvalidInput
            If ``timeout`` is not a number of seconds.
        """
        error = self.ending(generation, timeout)[0]
        if error is not None:
            raise error

    def check_timeout(self, timeout: object) -> None:
        """Check that ``timeout`` is a number of seconds; raises InvalidInput otherwise."""
        Deadline(timeout, self._device.physical.name)

    def finish(self, timeout_s: float | Deadline | None = None) -> None:
        """Return when nothing of it runs any more; raises as ``wait``."""
        deadline = self._deadline(timeout_s)
        with self._device.in_use, deadline.holding(self._lock):
            self._finish(deadline)

    def ticks(self) -> tuple[int, int] | None:
        """Return the device's clock before and after the last run, which has ended; None if it was not written down."""
        with self._device.in_use, self._lock:
            return None if self._clock is None else self._clock.ticks

    def poll(self, generation: int, wait_ns: int = 0) -> Outcome | None:
        """Return how the work of that generation ended, None if it has not, nor in the next ``wait_ns``.

        While another thread waits for it, it has not.
        """
        if generation != self._generation and generation not in self._cut:
            return SUCCESS
        with _layer.Hold(self._lock, wait_ns / NS_PER_S) if wait_ns else self._lock.attempt() as is_mine:
            return self._outcome(generation, lambda: wait_ns) if is_mine else None

    def follow(self, number: int, followed: Followed) -> None:
        """Have the device's poller follow it; ``number`` is its place in the order of submission."""
        self._device.poller.follow(number, followed)

    def is_idle(self) -> bool:
        """Whether none of it runs and no thread waits for it; a failure is raised to the waiter."""
        with self._lock.attempt() as is_mine:
            if not is_mine:
                return False
            with self._device.in_use:
                return self._has_ended()

    def note_end(self) -> None:
        """Note whether a loop was cut of work whose end nobody has seen, while the device still has the word that says so.

        It is for the end of the device, which is idle. A thread that waits for the work notes it itself.
        """
        with self._lock.attempt() as is_mine:
            if is_mine and any(work.is_pending and work.take_cut() for work in self._works):
                self._note_cut(LOOP_CUT)

    def _deadline(self, timeout_s: float | Deadline | None) -> Deadline:
        if isinstance(timeout_s, Deadline):
            return timeout_s
        return self._device.never if timeout_s is None else Deadline(timeout_s, self._device.physical.name)

    def _submit(self) -> None:
        """Submit all, when nothing of it runs any more; several Sequences one after the other."""
        for number, work in enumerate(self._works):
            if number:
                self._finish(self._device.never)
            self._device.raise_failure(work.submit())
        self._generation += 1

    def _finish(self, deadline: Deadline) -> None:
        """Wait for what is running; after a time-out or an interrupt it is still known to run."""
        for work in self._works:
            if not work.is_pending:
                continue
            result = self._note_cut(work.wait(deadline.left_ns()))
            if result == VK_TIMEOUT:
                raise deadline.passed()
            if result:
                self._device.check_result(result)

    def _wait_for_works(self, left_ns: Callable[[], int | None]) -> int:
        """Wait for what is running; returns a VkResult: 0, VK_TIMEOUT, or below 0."""
        for work in self._works:
            if work.is_pending:
                result = self._note_cut(work.wait(left_ns()))
                if result:
                    return result
        return VK_SUCCESS

    def _has_ended(self) -> bool:
        """Whether nothing of it is pending, without a wait; a failure is raised to the waiter."""
        return all(not work.is_pending or self._note_cut(work.wait(0)) == VK_SUCCESS for work in self._works)

    def _note_cut(self, result: int) -> int:
        """Return the VkResult of a wait; where a loop was cut, remember the generation for its error, and return success."""
        if result != LOOP_CUT:
            return result
        self._cut = [*self._cut[1 - _MOST_CUT :], self._generation]
        return VK_SUCCESS

    def _cut_error(self) -> LoopCut:
        if len(self._watched) == 1:
            return self._watched[0].cut_error()
        names = ", ".join(dict.fromkeys(one.name for one in self._watched))
        return cut_error(f"one of the kernels {names}", self._device.physical.name, self._watched[0].loop_limit)

    def _outcome(self, generation: int, left_ns: Callable[[], int | None]) -> Outcome | None:
        """Wait for the work of that generation; returns how it ended, None if it has not. The caller holds the lock."""
        if generation in self._cut:
            return (self._cut_error(),)
        if generation != self._generation:
            return SUCCESS
        device = self._device
        try:
            with device.in_use:
                result = self._wait_for_works(left_ns)
        except (ForkError, DeviceLost) as error:
            return (error,)
        except DispatchFailed:
            if not device.in_use.closed:
                raise
            # Closing the device waits for the work first, and for the threads that wait on its fence.
            result = self._wait_for_works(left_ns)
            if result < VK_SUCCESS and device.has_ended_well:
                return SUCCESS
        if result == VK_TIMEOUT:
            return None
        if generation in self._cut:
            return (self._cut_error(),)
        return SUCCESS if result == VK_SUCCESS else (device.error_of_result(result),)


def wait_for_earlier_work(device: KomputeDevice, deadline: Deadline) -> None:
    """Return when all that was submitted before has ended, by whichever thread; raises as ``Submission.wait``."""
    failure = device.layer.wait_for_submitted(deadline.left_ns())
    if failure is not None and failure.result == VK_TIMEOUT:
        raise deadline.passed()
    device.raise_failure(failure)
