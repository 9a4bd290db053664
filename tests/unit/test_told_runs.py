"""What a bound kernel's run tells, and refuses, where there is no device: one that fails, and one of nothing."""

from __future__ import annotations

import re
import threading
import time

import pytest

from vyre_driver.runtime._runs import Ring, ToldRuns
from vyre_driver.runtime.bound import BoundKernel
from vyre_driver.runtime.futures import DispatchFuture
from vyre_driver.runtime.observed import Observed
from vyre_driver.telemetry.events import EventKind, Events
from vyre_driver.vulkan.layer._layer import Runnable


def ring(first: Runnable) -> Ring:
    made = Ring()
    made.first = first
    return made


def test_a_run_that_raises_is_told_of_once_with_its_time_and_not_counted_as_a_dispatch() -> None:
    events = Events()
    told: list[tuple[Exception, int]] = []
    runs = ToldRuns(ring(Runnable()), events.dispatches("ab", ("k",)), lambda error, took_ns: told.append((error, took_ns)))
    with pytest.raises(NotImplementedError) as raised:  # what nothing was recorded of raises
        runs.run(timeout=1.0)
    assert [(error, took_ns >= 0) for error, took_ns in told] == [(raised.value, True)]
    assert (events.counts()[EventKind.DISPATCH], events.recent()) == (0, ())


@pytest.mark.parametrize("made", [ToldRuns.__new__(ToldRuns), BoundKernel.__new__(BoundKernel)])
def test_a_bound_kernel_that_was_never_bound_raises(made: ToldRuns) -> None:
    with pytest.raises(AttributeError):
        made.run()


def test_what_is_run_is_a_recording_of_the_layers() -> None:
    with pytest.raises(TypeError, match=re.escape("Cannot convert str to vyre_driver.vulkan.layer._layer.Runnable")):
        Ring().first = "no recording"
    runs = ToldRuns(ring(Runnable()), Events().dispatches(None, ("k",)), print)
    with pytest.raises(TypeError, match=re.escape("Cannot convert str to vyre_driver.runtime._runs.Ring")):
        runs._recordings = "no recordings"  # noqa: SLF001 -- what set() replaces


class EndedWork:
    """Stands for a Submission that has ended."""

    def ending(self, _: int, __: float | None = None) -> tuple[None]:
        time.sleep(0.001)  # so that all threads are here
        return (None,)


def test_the_end_of_submitted_work_is_one_event_from_its_submission_until_it_was_seen() -> None:
    events = Events()
    future = DispatchFuture(EndedWork(), 1, Observed(events, "ab" * 32, "a kernel"))  # type: ignore[arg-type]
    time.sleep(0.002)
    threads = [threading.Thread(target=future.result) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    begun, ended = events.recent()
    assert (begun.kind, begun.duration_ns, begun.key, begun.kernel) == (EventKind.DISPATCH, None, "ab" * 32, "a kernel")
    assert (ended.kind, ended.key, ended.kernel, ended.count) == (EventKind.COMPLETE, "ab" * 32, "a kernel", 1)
    assert (ended.duration_ns or 0) >= 3_000_000
    (counts,) = events.kernels()
    assert (counts.name, counts.dispatches, counts.total_ns) == ("a kernel", 1, ended.duration_ns)
