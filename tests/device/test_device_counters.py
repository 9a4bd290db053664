"""What the layer saves, in its own numbers: fences, memory and pipelines used again, barriers only where they are needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from kernels import SHIFT, STEP, glsl

from vyre_driver import Driver

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from vyre_driver import Kernel
    from vyre_driver.kompute.buffer import Buffer
    from vyre_driver.runtime.batch import Batch
    from vyre_driver.runtime.bound import BoundKernel

pytestmark = pytest.mark.device


@pytest.fixture
def driver() -> Iterator[Driver]:
    """A driver under the layer, which counts."""
    with Driver() as opened:
        layer = opened.context.device.layer
        layer.wait_idle()
        counters(opened)  # which ends its first submission, where that took longer than opening waits
        yield opened


@pytest.fixture
def kernel(driver: Driver) -> Kernel:
    """A kernel that works in place."""
    return driver.compile(glsl(STEP))


def counters(driver: Driver) -> dict[str, int]:
    layer = driver.report()["layer"]
    assert isinstance(layer, dict)
    return dict(layer["counters"])


def changes(driver: Driver, call: Callable[[], object]) -> dict[str, int]:
    """Return the counters that ``call`` changes, by how much; what a wait took is left to chance."""
    before = counters(driver)
    call()
    after = counters(driver)
    return {name: after[name] - before[name] for name in after if after[name] != before[name] and "waits" not in name}


def blocks(driver: Driver) -> int:
    """Return how many blocks of memory a buffer takes: with memory of the device's own a second one, for staging."""
    return 1 if driver.context.device.shares_memory else 2


def bind(kernel: Kernel, buffer: Buffer) -> BoundKernel:
    return kernel.bind(buffer, push_constants={"factor": 1, "summand": 1})


def test_a_thousand_runs_take_turns_with_two_fences_and_opening_the_device_made_one(driver: Driver, kernel: Kernel) -> None:
    bound = bind(kernel, driver.empty(4, np.uint32))

    def run() -> None:
        for _ in range(1000):
            bound.run()

    assert changes(driver, run) == {"fences_created": 1, "fences_reused": 1000}
    assert changes(driver, run) == {"fences_reused": 1000}


def test_submitting_again_takes_a_fence_that_is_free_or_another_of_64(driver: Driver, kernel: Kernel) -> None:
    buffer = driver.empty(20_000, np.uint32)
    bound = bind(kernel, buffer)

    def submit() -> None:
        for _ in range(100):
            bound.submit()

    found = changes(driver, submit)
    assert (found["fences_created"] + found["fences_reused"], found["fences_created"] <= 64) == (100, True)
    assert found["work_pending"] <= 64


def test_fences_are_as_many_as_run_at_once(driver: Driver, kernel: Kernel) -> None:
    bound = [bind(kernel, driver.empty(4, np.uint32)) for _ in range(10)]

    def run() -> None:
        for _ in range(100):
            for future in [one.submit() for one in bound]:
                future.result()

    assert changes(driver, run) == {"fences_created": 9, "fences_reused": 991}


def test_each_wait_is_counted(driver: Driver, kernel: Kernel) -> None:
    bound = bind(kernel, driver.empty(4, np.uint32))
    before = counters(driver)
    for _ in range(100):
        bound.run()
    after = counters(driver)
    waits = sum(after[name] - before[name] for name in ("waits_polled", "waits_blocked"))
    assert 100 <= waits < 200  # a wait of more than 50 ms, as on a busy machine, is several


def test_memory_that_was_closed_is_taken_again(driver: Driver) -> None:
    driver.empty(1000, np.uint32).close()

    def make_and_close() -> None:
        for _ in range(100):
            driver.empty(1000, np.uint32).close()

    assert changes(driver, make_and_close) == {"memory_reused": 100 * blocks(driver)}


def test_memory_is_a_range_of_a_block_that_is_there(driver: Driver) -> None:
    driver.empty(1000, np.uint32).close()
    kept = []
    found = changes(driver, lambda: kept.append(driver.empty(100_000, np.uint32)))
    size = found.pop("memory_live_bytes")
    found.pop("memory_peak_bytes")
    assert (found, 400_000 <= size <= 400_256) == ({"memory_reused": 1, "memory_cached_bytes": -size}, True)


def test_live_and_cached_bytes_are_the_same_bytes(driver: Driver) -> None:
    buffers = [driver.empty(1000 * (number + 1), np.uint32) for number in range(10)]
    live = counters(driver)["memory_live_bytes"]

    def close() -> None:
        for buffer in buffers:
            buffer.close()

    assert changes(driver, close) == {"memory_live_bytes": -live, "memory_cached_bytes": live}


def test_a_buffer_that_is_bound_stays_live_until_the_bound_kernel_goes(driver: Driver, kernel: Kernel) -> None:
    buffer = driver.empty(1000, np.uint32)
    held = [bind(kernel, buffer)]
    live = counters(driver)["memory_live_bytes"]
    closed = changes(driver, buffer.close)
    dropped = changes(driver, held.clear)
    assert (closed, dropped) == ({}, {"memory_live_bytes": -live, "memory_cached_bytes": live})


def test_binding_again_makes_no_pipeline(driver: Driver, kernel: Kernel) -> None:
    held = [bind(kernel, driver.empty(4, np.uint32))]
    buffers = [driver.empty(number + 1, np.uint32) for number in range(50)]
    found = changes(driver, lambda: held.extend(bind(kernel, buffer) for buffer in buffers))
    created = [one.pipeline.facts.shared for one in held]
    assert (found, created) == ({"pipelines_shared": 50, "barriers_added": 50}, [False] + [True] * 50)


def test_another_compilation_of_the_same_shader_shares_the_pipeline(driver: Driver, kernel: Kernel) -> None:
    held = [bind(kernel, driver.empty(4, np.uint32))]
    other, buffer = driver.compile(glsl(STEP)), driver.empty(4, np.uint32)
    found = changes(driver, lambda: held.append(bind(other, buffer)))
    assert found == {"pipelines_shared": 1, "barriers_added": 1}


def test_a_pipeline_is_kept_for_a_while_when_nobody_uses_it(driver: Driver, kernel: Kernel) -> None:
    bind(kernel, driver.empty(4, np.uint32)).run()
    found = changes(driver, lambda: bind(kernel, driver.empty(4, np.uint32)))
    assert (found["pipelines_shared"], "pipelines_created" in found) == (1, False)


def batch_of(driver: Driver, bound: BoundKernel) -> Batch:
    """Return a recorded batch: kompute makes a command pool for it."""
    batch = driver.batch()
    batch.add(bound)
    batch.run()
    return batch


def test_the_command_pools_of_batches_that_went_are_taken_again_as_many_as_16(driver: Driver, kernel: Kernel) -> None:
    bound = bind(kernel, driver.empty(4, np.uint32))
    held = [batch_of(driver, bound) for _ in range(20)]
    held.clear()
    found = changes(driver, lambda: held.extend(batch_of(driver, bound) for _ in range(20)))
    assert (found["command_pools_reused"], found["command_pools_created"]) == (16, 4)


def test_what_was_recorded_in_a_pool_that_is_taken_again_does_not_run_again(driver: Driver, kernel: Kernel) -> None:
    old, new = driver.zeros(4, np.uint32), driver.zeros(4, np.uint32)
    held = [batch_of(driver, bind(kernel, old))]
    held.clear()
    found = changes(driver, lambda: held.append(batch_of(driver, bind(kernel, new))))
    assert found["command_pools_reused"] == 1
    assert (old.read().tolist(), new.read().tolist()) == ([1] * 4, [1] * 4)


def test_another_shader_gets_a_pipeline_of_its_own(driver: Driver, kernel: Kernel) -> None:
    bind(kernel, driver.empty(4, np.uint32))
    other = driver.compile(glsl(SHIFT))
    buffers = driver.empty(4, np.uint32), driver.empty(4, np.uint32)
    found = changes(driver, lambda: other.bind(*buffers))
    assert (found["pipelines_created"], "pipelines_shared" in found) == (1, False)


def barriers_of(driver: Driver, bound: list[BoundKernel]) -> int:
    """Return the barriers between the operations of a batch; the one before the first comes always."""
    batch = driver.batch()
    for one in bound:
        batch.add(one)
    return changes(driver, batch.submit)["barriers_added"] - 1


def test_independent_operations_have_no_barrier_between_them(driver: Driver, kernel: Kernel) -> None:
    assert barriers_of(driver, [bind(kernel, driver.empty(4, np.uint32)) for _ in range(100)]) == 0


def test_each_operation_on_the_result_of_the_one_before_has_a_barrier(driver: Driver, kernel: Kernel) -> None:
    assert barriers_of(driver, [bind(kernel, driver.empty(4, np.uint32))] * 100) == 99


def test_two_chains_side_by_side_have_a_barrier_for_each_link_of_both(driver: Driver, kernel: Kernel) -> None:
    one, other = (bind(kernel, driver.empty(4, np.uint32)) for _ in range(2))
    assert barriers_of(driver, [one, other] * 50) == 49


def test_readers_of_one_buffer_have_no_barrier_between_them_but_one_before_it_is_overwritten(driver: Driver) -> None:
    shift = driver.compile(glsl(SHIFT))
    source, unrelated, *copies = (driver.empty(4, np.uint32) for _ in range(12))
    readers = [shift.bind(source, copy) for copy in copies]
    overwrites = shift.bind(unrelated, source)
    assert (barriers_of(driver, readers), barriers_of(driver, [*readers, overwrites])) == (0, 1)


def test_two_writers_of_one_buffer_have_a_barrier_between_them(driver: Driver) -> None:
    shift = driver.compile(glsl(SHIFT))
    target, *sources = (driver.empty(4, np.uint32) for _ in range(3))
    assert barriers_of(driver, [shift.bind(source, target) for source in sources]) == 1


def test_replaying_a_batch_adds_no_barrier(driver: Driver, kernel: Kernel) -> None:
    batch, bound = driver.batch(), bind(kernel, driver.empty(4, np.uint32))
    batch.add(bound)
    batch.add(bound)
    batch.run()
    assert changes(driver, batch.run) == {"fences_reused": 1}
