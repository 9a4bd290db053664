"""What a bound kernel's run tells, and refuses, where there is no device: one that fails, and one of nothing."""

from __future__ import annotations

import re

import pytest

from vyre_driver.runtime._runs import Ring, ToldRuns
from vyre_driver.runtime.bound import BoundKernel
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
