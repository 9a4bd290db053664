"""A time-out counts from the call on, whatever the call has to wait for."""

from __future__ import annotations

import threading
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from kernels import TURNS, Spin, glsl

from vyre_driver import Driver
from vyre_driver.errors import DispatchTimeout, InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.device

ADD_ONE = """#version 450
layout(binding = 0) buffer Total { float total[]; };
void main() { total[0] += 1; }
"""


@pytest.fixture
def spin() -> Iterator[Spin]:
    """Work that outlasts a wait."""
    with Driver() as opened:
        yield Spin(opened, 0.3)


def test_a_call_waits_for_another_thread_s_call_of_its_kind_no_longer_than_it_was_told(spin: Spin) -> None:
    def call(timeout: float | None = None) -> int:
        zeros, ones = np.zeros(1, np.uint32), np.ones(1, np.uint32)
        return int(spin.kernel(zeros, ones, push_constants={"turns": TURNS}, workgroups=spin.grid, timeout=timeout)[0])

    found = [call()]
    busy = threading.Thread(target=lambda: found.append(call()))
    busy.start()
    while not spin.kernel._array_calls.calls._latest[1].recorded._submissions["all"]._works[-1].is_pending:  # type: ignore[index] # noqa: SLF001
        pass
    with pytest.raises(DispatchTimeout) as caught:
        call(timeout=0.05)
    still_runs = busy.is_alive()
    busy.join()
    assert (still_runs, caught.value.context["timeout_s"], found) == (True, 0.05, [spin.groups] * 2)
    assert "did not end in 0.05 s" in str(caught.value)
    assert call() == spin.groups


def test_a_read_and_a_write_wait_for_earlier_work_no_longer_than_they_were_told(spin: Spin) -> None:
    running = spin.bound.submit()
    counters = spin.ended
    found = []
    for transfer in (lambda: counters.read(timeout=0.05), lambda: counters.write(np.zeros(1, np.uint32), timeout=0.05)):
        with pytest.raises(DispatchTimeout, match=r"did not end in 0\.05 s") as caught:
            transfer()
        found.append(caught.value.context["timeout_s"])
    still_runs = not running.done()
    running.result()
    assert (still_runs, found) == (True, [0.05, 0.05])
    counters.write(np.array([7], np.uint32), timeout=60)
    assert counters.read(timeout=60).tolist() == [7]


@pytest.mark.parametrize("timeout", [-1, float("nan"), "1", True])
def test_a_read_and_a_write_refuse_what_is_no_number_of_seconds(spin: Spin, timeout: Any) -> None:  # noqa: ANN401 -- what is refused
    for transfer in (lambda: spin.ended.read(timeout), lambda: spin.ended.write(np.zeros(1, np.uint32), timeout)):
        with pytest.raises(InvalidInput, match="is not a number of seconds"):
            transfer()


@pytest.mark.parametrize(
    "timeout", [None, 5, 5.0, 5e300, float("inf"), 10**400, Fraction(11, 2), np.float32(5)], ids=lambda it: f"{it!r:.9}"
)
def test_a_bound_kernel_runs_with_every_number_of_seconds(driver: Driver, timeout: Any) -> None:  # noqa: ANN401 -- any number
    total = driver.buffer(np.zeros(1, np.float32))
    count = driver.compile(glsl(ADD_ONE)).bind(total, workgroups=(1,))
    for _ in range(3):
        count.run(timeout)
    assert total.read().tolist() == [3.0]


@pytest.mark.parametrize("timeout", [-1, -0.5, float("nan"), True, "1", -(10**400)], ids=lambda it: f"{it!r:.9}")
def test_a_bound_kernel_refuses_what_is_no_number_of_seconds_and_does_not_run(driver: Driver, timeout: Any) -> None:  # noqa: ANN401 -- any number
    total = driver.buffer(np.zeros(1, np.float32))
    count = driver.compile(glsl(ADD_ONE)).bind(total, workgroups=(1,))
    with pytest.raises(InvalidInput, match="timeout is"):
        count.run(timeout)
    assert total.read().tolist() == [0.0]
