"""The device's clock before and after work: read twice, however many dispatches there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from vyre_driver.kompute.recording import record_in_order
from vyre_driver.kompute.timing import TimedDispatches
from vyre_driver.spirv.shipped import shipped_module
from vyre_driver.vulkan.layer import _layer

if TYPE_CHECKING:
    from vyre_driver import Driver
    from vyre_driver.runtime.bound import BoundKernel

pytestmark = pytest.mark.device


def saxpy(driver: Driver, count: int) -> BoundKernel:
    x, y = driver.zeros(count, np.float32), driver.zeros(count, np.float32)
    return driver.compile(shipped_module("saxpy")).bind(x, y, alpha=1.0, count=count)


def layer_of(driver: Driver) -> _layer.LayerDevice:
    return driver.context.device.layer


def test_the_clock_goes_on_from_the_first_dispatch_to_the_last(layered: Driver) -> None:
    first, second = saxpy(layered, 1000), saxpy(layered, 1000)
    submission = record_in_order([first, second, first], [first.push_words] * 3, timed=True)
    assert submission.ticks() is None
    found = []
    for _ in range(2):
        submission.wait(submission.submit())
        found.append(submission.ticks())
    (began, ended), (began_again, ended_again) = [one for one in found if one is not None]
    assert began < ended <= began_again < ended_again


def test_work_that_is_not_timed_has_no_ticks(layered: Driver) -> None:
    one = saxpy(layered, 10)
    submission = record_in_order([one], [one.push_words])
    submission.wait(submission.submit())
    assert submission.ticks() is None


def test_a_clock_is_taken_again_once_its_work_is_gone_and_where_none_is_left_work_runs_untimed(layered: Driver) -> None:
    taken = [_layer.take_clock(layer_of(layered)) for _ in range(1025)]
    assert taken[-1] is None
    work = TimedDispatches([saxpy(layered, 10)])
    assert work.run().device_ns is None
    taken.clear()
    work = TimedDispatches([saxpy(layered, 10)])
    assert (work.run().device_ns or 0) > 0


def test_a_clock_outlives_its_device(layered: Driver) -> None:
    clock = _layer.take_clock(layer_of(layered))
    assert clock is not None
    layered.close()
    assert clock.ticks is None


def test_a_clock_is_made_by_take_clock_alone() -> None:
    with pytest.raises(TypeError, match="take_clock makes a Clock"):
        _layer.Clock()
