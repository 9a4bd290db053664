"""Recorded work: submit it, wait for it, replay it.

Under the layer a submission returns at once with a fence; the wait holds neither the GIL nor a lock. Without it kompute waits
inside the submission.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from vyre_driver.errors import DeviceLost, DispatchFailed, ForkError, UnsupportedFeature
from vyre_driver.kompute.deadline import NS_PER_S, Deadline
from vyre_driver.kompute.results import VK_SUCCESS, VK_TIMEOUT
from vyre_driver.process.call_lock import call_lock
from vyre_driver.telemetry._timeline import label_of, label_of_number
from vyre_driver.vulkan.layer import _layer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from collections.abc import Set as AbstractSet

    from vyre_driver.errors import DispatchTimeout
    from vyre_driver.kompute.device import KomputeDevice
    from vyre_driver.kompute.pipeline import BoundPipeline
    from vyre_driver.vulkan.layer._layer import PipelineFacts

    Work: TypeAlias = "_layer.Work | _layer.Dispatch | BlockingWork"
    from vyre_driver.kompute.poller import Followed
    from vyre_driver.runtime.bound import BoundKernel

Outcome = tuple[BaseException | None]
"""How work ended: with what it failed, or None."""
SUCCESS: Final[Outcome] = (None,)
_NAMED = 4  # kernels of a batch


Span: TypeAlias = tuple[int, int, int]
"""Bytes of some memory: which, and where they begin and end."""


class NoDispatch:
    """In place of a pipeline where nothing is to run: a buffer has no elements, or the grid no invocations."""

    facts: PipelineFacts | None = None
    pipeline_ns = 0
    label = 0

    def __init__(self, device: KomputeDevice) -> None:
        """Remember the device."""
        self.device = device

    def dispatch(self, push_words: tuple[int, ...]) -> None:
        """Return no operation."""


class Submission(_layer.Runs):
    """Recorded work of one or several parts, which are handed to the device one after the other.

    ``run`` of one part that the layer recorded is a call of C where the work is idle and ``timeout`` None, a float or an int.

    ``keep`` is held as long as the work may run, which has the device write down its ``clock``.
    """

    __slots__ = ("__weakref__", "_clock", "_device", "_keep", "_works")

    def __init__(
        self, device: KomputeDevice, works: Sequence[Work], keep: object, *, clock: _layer.Clock | None = None
    ) -> None:
        """Hand nothing over yet."""
        super().__init__(device.in_use, call_lock("the bound kernel"), works)
        self._device = device
        self._works = works
        self._keep = keep
        self._clock = clock
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
        raise self._device.error_of(_layer.Failure(call, result, 0))

    def run_alone(self, deadline: Deadline) -> None:
        """As ``run``, for a caller that holds ``KomputeDevice.in_use`` and has shown the submission to no other thread."""
        self._finish(deadline)
        self._submit()
        self._finish(deadline)

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
                for work in self._works:
                    if work.is_pending and work.wait(0) != VK_SUCCESS:
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
        if generation != self._generation:
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
                return all(not work.is_pending or work.wait(0) == VK_SUCCESS for work in self._works)

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
            result = work.wait(deadline.left_ns())
            if result == VK_TIMEOUT:
                raise deadline.passed()
            if result:
                self._device.check_result(result)

    def _wait_for_works(self, left_ns: Callable[[], int | None]) -> int:
        """Wait for what is running; returns a VkResult: 0, VK_TIMEOUT, or below 0."""
        for work in self._works:
            if work.is_pending:
                result = work.wait(left_ns())
                if result:
                    return result
        return VK_SUCCESS

    def _outcome(self, generation: int, left_ns: Callable[[], int | None]) -> Outcome | None:
        """Wait for the work of that generation; returns how it ended, None if it has not. The caller holds the lock."""
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
        return SUCCESS if result == VK_SUCCESS else (device.error_of_result(result),)


def wait_for_earlier_work(device: KomputeDevice, deadline: Deadline) -> None:
    """Return when all that was submitted before has ended, by whichever thread; raises as ``Submission.wait``."""
    if device.layer is None:
        return
    failure = device.layer.wait_for_submitted(deadline.left_ns())
    if failure is not None and failure.result == VK_TIMEOUT:
        raise deadline.passed()
    device.raise_failure(failure)


class BlockingWork:
    """Recorded work without the layer: kompute waits inside ``submit``, and its result is what kompute says."""

    is_pending = False

    def __init__(self, device: KomputeDevice, evaluate: Callable[[], Any]) -> None:
        """Remember what submits it."""
        self._device = device
        self._evaluate = evaluate

    def submit(self) -> None:
        """Submit and wait."""
        self._device.call_kompute("run a dispatch", lambda _: self._evaluate())

    def wait(self, timeout_ns: int | None = None) -> int:  # noqa: ARG002 -- as Work.wait
        """Return at once: nothing is pending."""
        return VK_SUCCESS


def record(
    device: KomputeDevice, groups: Sequence[Sequence[Any]], keep: object, *, device_only: bool = False, timed: bool = False
) -> Submission:
    """Record groups of operations into kompute's Sequences; those of one group are independent of each other.

    Without the layer's barriers each group is a Sequence of its own, because kompute puts none between operations.
    ``device_only`` says that the host reads nothing that the work writes. With ``timed`` the device writes down its clock
    before the first and after the last operation, where there are any and it has a clock. Raises DispatchFailed with what
    recording failed with.
    """
    given = [group for group in groups if group]
    parts = [given] if "barriers" in device.hooks else [[group] for group in given]
    clock = _layer.take_clock(device.layer) if timed and given and device.is_timed and device.layer is not None else None

    def record_parts(manager: Any) -> list[Work]:  # noqa: ANN401 -- kp has no types
        sequences = [manager.sequence() for _ in parts]  # their works hold them as long as they may run
        for one, part in zip(sequences, parts, strict=True):
            started, stopped = (clock if part is end else None for end in (parts[0], parts[-1]))
            _layer.record(one, part, device_only, started, stopped)
        if device.layer is None:
            return [BlockingWork(device, one.eval) for one in sequences]
        return [_layer.Work(device.layer, one.eval, (manager, clock)) for one in sequences]

    works = device.call_kompute("record a dispatch", record_parts)
    return Submission(device, works, keep, clock=clock)


def record_alone(pipeline: BoundPipeline | NoDispatch, push_words: tuple[int, ...]) -> Submission:
    """Return one submission of one pipeline, which holds it, and nothing of what is bound to it, which holds the submission."""
    device = pipeline.device
    if isinstance(pipeline, NoDispatch):
        return Submission(device, (), pipeline)
    if device.layer is not None and "barriers" in device.hooks:
        return Submission(device, (pipeline.recorded(device.layer, push_words),), pipeline)
    return record(device, [[pipeline.dispatch(push_words)]], pipeline, device_only=not device.shares_memory)


def record_for_c(pipeline: BoundPipeline | NoDispatch, push_words: tuple[int, ...]) -> _layer.Taken:
    """Return a recording of its own of one pipeline, for C code to run without the GIL.

    Raises
    ------
    UnsupportedFeature
        If the layer does not record single dispatches: it is off, or its hook for barriers is.
    DispatchFailed
        If it cannot be recorded, or the device is closed; DeviceLost, ForkError.
    """
    device = pipeline.device
    device.check_usable()
    if device.layer is None or "barriers" not in device.hooks:
        raise UnsupportedFeature(
            f"on {device.physical.name!r} no kernel can be run from C: the layer does not record its dispatches",
            fix="let the layer and its barriers hook be active (VYRE_LAYER, VYRE_LAYER_HOOKS_OFF)",
            feature="bound_take",
        )
    dispatch = None if isinstance(pipeline, NoDispatch) else pipeline.recorded(device.layer, push_words)
    taken = _layer.Taken(device.layer, device.in_use, dispatch, pipeline)
    device.keep_holder(taken)
    return taken


def batch_label(dispatches: Sequence[BoundKernel]) -> int:
    """Return what a submission of several is called in profiles: their names, and the bytes that they read and write."""
    labels = [label_of_number(one.pipeline.label) for one in dispatches]
    counts = Counter(name for name, _ in labels if name)
    names = [name if times == 1 else f"{name} x{times}" for name, times in counts.items()]
    more = [f"{len(names) - _NAMED} more"] if len(names) > _NAMED else []
    return label_of(", ".join(names[:_NAMED] + more), sum(moved for _, moved in labels))


def record_in_order(dispatches: Sequence[BoundKernel], pushed: Sequence[tuple[int, ...]], *, timed: bool = False) -> Submission:
    """Return one submission of these: each waits for those before it whose results it needs, and the rest run side by side.

    ``pushed`` are the push constants of each.
    """
    device = dispatches[0].pipeline.device
    operations = [one.pipeline.dispatch(words) for one, words in zip(dispatches, pushed, strict=True)]
    groups = [
        [operations[place] for place in group if operations[place] is not None]
        for group in dependency_groups([(one.reads, one.writes) for one in dispatches])
    ]
    return record(device, groups, tuple(dispatches), device_only=not device.shares_memory, timed=timed)


def dependency_groups(accesses: Sequence[tuple[frozenset[Span], frozenset[Span]]]) -> Iterator[list[int]]:
    """Split operations, in order, into runs that need no barrier among themselves; yields the indices of each run.

    Each operation is (spans read, spans written). Two depend on each other when one writes bytes that the other reads or
    writes.
    """
    run: list[int] = []
    read: set[Span] = set()
    written: set[Span] = set()
    for index, (reads, writes) in enumerate(accesses):
        if run and (_share(written, reads | writes) or _share(read, writes)):
            yield run
            run, read, written = [], set(), set()
        run.append(index)
        read |= reads
        written |= writes
    if run:
        yield run


def _share(some: AbstractSet[Span], others: AbstractSet[Span]) -> bool:
    """Whether two sets of spans have a byte in common; most are equal or of other memory."""
    if not some.isdisjoint(others):
        return True
    begins: dict[int, list[Span]] = {}
    for span in some:
        begins.setdefault(span[0], []).append(span)
    return any(one[1] < span[2] and span[1] < one[2] for span in others for one in begins.get(span[0], ()))
