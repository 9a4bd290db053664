"""Binding the same buffers again: what is remembered, and for how long."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from kernels import SHIFT, STEP, glsl

from vyre_driver.kompute.pipeline import BoundPipeline
from vyre_driver.runtime.bound import ResidentDispatch

if TYPE_CHECKING:
    from conftest import CompileText

    from vyre_driver import Driver
    from vyre_driver.kompute.buffer import Buffer

pytestmark = pytest.mark.device


def test_the_same_buffers_groups_and_constants_give_what_was_recorded_for_them(driver: Driver, compiled: CompileText) -> None:
    kernel = compiled(STEP)
    one, other = (driver.buffer(np.arange(1, 5, dtype=np.uint32)) for _ in range(2))
    first = kernel.bind(one, push_constants={"factor": 2, "summand": 1})
    again = {
        "as before": kernel.bind(one, push_constants={"factor": 2, "summand": 1}),
        "other groups": kernel.bind(one, push_constants={"factor": 2, "summand": 1}, workgroups=(2,)),
        "other constants": kernel.bind(one, push_constants={"factor": 1, "summand": 2}),
        "another buffer": kernel.bind(other, push_constants={"factor": 2, "summand": 1}),
        "another kernel": compiled(STEP).bind(one, push_constants={"factor": 2, "summand": 1}),
    }
    assert {name: bound.pipeline is first.pipeline for name, bound in again.items()} == {
        "as before": True,
        "other groups": False,
        "other constants": False,
        "another buffer": False,
        "another kernel": False,
    }


def test_buffers_in_another_order_are_another_binding(driver: Driver, compiled: CompileText) -> None:
    kernel = compiled(SHIFT)
    one, other = (driver.buffer(np.arange(200, dtype=np.uint32)) for _ in range(2))
    expected = np.arange(200, dtype=np.uint32)
    for _ in range(3):
        for pair in ((one, other), (other, one)):
            kernel.bind(*pair).run()
            expected = 3 * np.roll(expected, -67) + np.uint32(1)
    np.testing.assert_array_equal(one.read(), expected, strict=True)


def test_what_is_remembered_is_bounded_and_the_last_used_stays(driver: Driver, compiled: CompileText) -> None:
    kernel, buffer = compiled(STEP), driver.empty(4, np.uint32)
    pushes = [{"factor": 1, "summand": summand} for summand in range(32)]
    bound = [weakref.ref(kernel.bind(buffer, push_constants=push).pipeline) for push in pushes]
    kernel.bind(buffer, push_constants={"factor": 1, "summand": 0})
    for summand in range(32, 40):
        kernel.bind(buffer, push_constants={"factor": 1, "summand": summand})
    gc.collect()
    assert [one() is not None for one in bound] == [True] + [False] * 8 + [True] * 23


@pytest.mark.parametrize("ending", ["closed", "dropped", "dropped in a cycle"])
def test_a_remembered_binding_goes_with_its_buffer(driver: Driver, compiled: CompileText, ending: str) -> None:
    kernel = compiled(SHIFT)
    kept, gone = driver.empty(4, np.uint32), driver.empty(4, np.uint32)
    bound = weakref.ref(kernel.bind(kept, gone).pipeline)
    memory = weakref.ref(gone.memory)
    if ending == "closed":
        gone.close()
    elif ending == "dropped":
        del gone
    else:
        cycle: list[object] = [gone]
        cycle.append(cycle)
        del gone, cycle
        gc.collect()
    assert (bound(), memory()) == (None, None)


@pytest.mark.parametrize("number", [0, 1])
def test_what_work_in_a_cycle_uses_goes_after_its_end(layered: Driver, number: int) -> None:
    layer = layered.context.device.layer
    kernel, push = layered.compile(glsl(STEP)), {"factor": 1, "summand": 1}
    # kompute makes the pipeline of the first buffer, the layer binds the others to it.
    bound = [kernel.bind(layered.empty(4, np.uint32), push_constants=push) for _ in range(2)][number]
    pipeline = bound.pipeline
    assert isinstance(pipeline, BoundPipeline)
    used = [pipeline.buffers[0].allocation, *([] if number else [pipeline._algorithm])]  # noqa: SLF001
    pending: list[int] = []
    watched = [weakref.ref(one, lambda _: pending.append(layer.counters()["work_pending"])) for one in used]
    cycle: list[object] = [bound.submit(), bound, kernel]
    cycle.append(cycle)
    del bound, pipeline, used, kernel
    assert layer.counters()["work_pending"] == 1
    del cycle
    gc.collect()
    assert pending == [0] * len(watched)


def test_a_bound_kernel_outlives_what_was_remembered_of_it(driver: Driver, compiled: CompileText) -> None:
    kernel = compiled(STEP)

    def bind_and_drop() -> tuple[object, Buffer]:
        buffer = driver.buffer(np.ones(4, np.uint32))
        return kernel.bind(buffer, push_constants={"factor": 3, "summand": 4}), buffer

    bound, buffer = bind_and_drop()
    watch = weakref.ref(buffer.memory)
    del buffer
    gc.collect()
    bound.run()  # type: ignore[attr-defined]
    assert watch() is not None


def test_a_dropped_kernel_drops_what_it_remembered(driver: Driver, compiled: CompileText) -> None:
    buffer, kernel = driver.empty(4, np.uint32), compiled(STEP)
    bound = weakref.ref(kernel.bind(buffer, push_constants={"factor": 1, "summand": 1}).pipeline)
    assert bound() is not None
    del kernel
    gc.collect()
    assert bound() is None


def test_a_buffer_closed_while_it_is_being_bound_leaves_nothing_that_a_later_buffer_could_be_taken_for(
    driver: Driver, compiled: CompileText, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = compiled(SHIFT)
    source, ones = driver.buffer(np.ones(64, np.uint32)), np.ones(64, np.uint32)

    def closed_by_another_thread(*made: Any) -> ResidentDispatch:  # noqa: ANN401 -- as ResidentDispatch
        bound = ResidentDispatch(*made)
        closer = threading.Thread(target=made[4][1].close)  # the second buffer
        closer.start()
        closer.join()
        return bound

    for _ in range(8):
        with monkeypatch.context() as patch:
            patch.setattr("vyre_driver.runtime.resident.ResidentDispatch", closed_by_another_thread)
            kernel.bind(source, driver.buffer(ones))
        later = driver.buffer(ones)
        kernel.bind(source, later).run()
        np.testing.assert_array_equal(later.read(), 4 * ones, strict=True)
