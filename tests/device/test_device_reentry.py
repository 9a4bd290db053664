"""Calls in the middle of calls, by listeners and signal handlers: they work or are refused, and none waits for itself."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from kernels import STEP, TURNS, Spin
from literals import refusal

from vyre_driver import kernels
from vyre_driver.errors import DispatchFailed
from vyre_driver.telemetry.events import Event, EventKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from conftest import CompileText

    from vyre_driver import Driver

pytestmark = pytest.mark.device
ONES = np.ones(4, np.uint32)
PUSH = {"factor": 3, "summand": 4}


class Caller:
    """A listener that calls once, at the first event of a kind, and remembers what came of it."""

    def __init__(self, kind: EventKind, call: Callable[[], object]) -> None:
        self.kind = kind
        self.call: Callable[[], object] | None = call
        self.found: list[Any] = []

    def on_event(self, event: Event) -> None:
        if event.kind is self.kind and self.call is not None:
            call, self.call = self.call, None
            try:
                self.found.append(call())
            except DispatchFailed as error:
                self.found.append(error.context["what"])


def ended(call: Callable[[], Any]) -> Any:  # noqa: ANN401 -- whatever it returns
    """Return what a call returns, if it ends within 20 s."""
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(call()), daemon=True)
    thread.start()
    thread.join(20)
    assert not thread.is_alive(), "it hangs"
    return found[0]


@pytest.mark.parametrize("way", ["call", "bind"])
def test_a_listener_may_call_the_kernel_whose_pipeline_it_is_told_of(driver: Driver, compiled: CompileText, way: str) -> None:
    kernel, buffer = compiled(STEP), driver.buffer(ONES)
    caller = Caller(EventKind.COMPILE, lambda: kernel(ONES, push_constants=PUSH).tolist())  # type: ignore[union-attr]
    driver.events.add_listener(caller)
    if way == "call":
        result = ended(lambda: kernel(ONES, push_constants=PUSH))
    else:
        ended(lambda: kernel.bind(buffer, push_constants=PUSH).run())
        result = buffer.read()
    assert (result.tolist(), caller.found, driver.events.listeners_dropped) == ([7] * 4, [[7] * 4], 0)


def test_a_shipped_kernel_called_by_a_listener_in_the_middle_of_a_call_leaves_that_ones_result_alone(driver: Driver) -> None:
    kernel = kernels.reduce_sum(driver)
    ones, twos = np.ones(1000, np.uint32), np.full(1000, 2, np.uint32)
    caller = Caller(EventKind.DISPATCH, lambda: kernel(twos).tolist())  # type: ignore[union-attr]
    driver.events.add_listener(caller)
    result = ended(lambda: kernel(ones))
    assert (result.tolist(), caller.found, kernel(twos).tolist()) == (1000, ["reduce_sum"], 2000)  # type: ignore[union-attr]


class Alarm:
    """Calls something in a signal handler, once, a while after ``set``; ``found`` is what came of it."""

    def __init__(self) -> None:
        self.found: object = None
        self.call: Callable[[], object] = lambda: None

    def handle(self, number: int, frame: object) -> None:
        del number, frame
        try:
            self.found = self.call()
        except DispatchFailed as error:
            self.found = str(error.context["what"])

    def set(self, call: Callable[[], object]) -> None:
        self.call = call
        signal.setitimer(signal.ITIMER_REAL, 0.05)


@pytest.fixture
def alarm() -> Iterator[Alarm]:
    """An alarm clock."""
    made = Alarm()
    before = signal.signal(signal.SIGALRM, made.handle)
    yield made
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def spin(alarm: Alarm, driver: Driver) -> Spin:
    """Work to be interrupted."""
    assert alarm.found is None
    return Spin(driver, 0.2)


def test_a_signal_handler_that_calls_the_kernel_that_it_interrupts_is_told_so(spin: Spin, alarm: Alarm) -> None:
    def call() -> object:
        return spin.kernel(np.zeros(1, np.uint32), np.ones(1, np.uint32), push_constants={"turns": TURNS}, workgroups=spin.grid)

    call()
    alarm.set(call)
    assert (int(call()[0]), alarm.found) == (spin.groups, "the kernel")  # type: ignore[index]


def test_a_signal_handler_that_runs_the_bound_kernel_that_it_interrupts_is_told_so(spin: Spin, alarm: Alarm) -> None:
    alarm.set(spin.bound.run)
    spin.bound.run()
    assert (spin.runs(), alarm.found) == (1, "the bound kernel")


def test_a_signal_handler_that_reads_the_buffer_that_it_interrupts_the_reading_of_is_told_so(spin: Spin, alarm: Alarm) -> None:
    spin.bound.submit()
    alarm.set(spin.ended.read)
    assert (int(spin.ended.read()[0]), alarm.found) == (spin.groups, "the buffer")


def test_a_signal_handler_that_asks_the_future_that_is_waited_for_is_answered(spin: Spin, alarm: Alarm) -> None:
    future = spin.bound.submit()
    alarm.set(future.done)
    future.result()
    assert (alarm.found, future.done()) == (False, True)


def test_a_signal_handler_that_closes_the_driver_that_it_interrupts_is_told_so(
    spin: Spin, alarm: Alarm, driver: Driver
) -> None:
    alarm.set(driver.close)
    spin.bound.run()
    name = repr(driver.device.name)
    assert (spin.runs(), alarm.found) == (1, name)
    driver.close()
    driver.close()


def test_a_finalizer_that_closes_the_driver_while_a_buffer_is_made_is_told_so(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[object] = []

    call = driver.context.device.call_kompute

    def making(what: str, run: Callable[[Any], object]) -> object:
        """Make a block of memory; a collection of garbage comes meanwhile."""

        def run_and_collect(manager: Any) -> object:  # noqa: ANN401 -- kp has no types
            try:
                found.append(driver.close())  # type: ignore[func-returns-value]
            except DispatchFailed as error:
                found.append(error.context["what"])
            return run(manager)

        return call(what, run_and_collect)

    monkeypatch.setattr(driver.context.device, "call_kompute", making)
    made = driver.empty(4, np.uint32)
    monkeypatch.undo()
    made.write(ONES)
    assert (found, made.read().tolist()) == ([repr(driver.device.name)], [1] * 4)


def test_a_handler_may_close_the_driver_that_is_being_closed(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    device = driver.context.device

    class Layer:
        """The layer's device; a signal handler runs before it waits."""

        @staticmethod
        def wait_idle() -> None:
            monkeypatch.undo()
            driver.close()

    monkeypatch.setattr(device, "layer", Layer)
    driver.close()
    assert refusal(driver.batch)[:2] == (DispatchFailed, 1005)
