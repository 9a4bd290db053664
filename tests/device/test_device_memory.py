"""Where buffers lie: memory shared with the host, device memory that the host can write, and device memory that it cannot.

lavapipe's one memory type is all of these, so taking it for a discrete GPU walks the other ways with real memory.
"""

from __future__ import annotations

import contextlib
import dataclasses
import signal
import time

import numpy as np
import pytest

from vyre_driver import Driver, SpirvModule
from vyre_driver.errors import DeviceOutOfMemory
from vyre_driver.vulkan.layer import _layer, enable
from vyre_driver.vulkan.layer._layer import LONG_BYTES, SHORT_BYTES

pytestmark = pytest.mark.device

ADD = """#version 450
layout(local_size_x = 64) in;
layout(binding = 0) readonly buffer X { float x[]; };
layout(binding = 1) buffer Y { float y[]; };
void main() { uint i = gl_GlobalInvocationID.x; if (i < y.length()) y[i] = y[i] + x[i]; }
"""
PAST_THE_END = """#version 450
layout(local_size_x = 64) in;
layout(push_constant) uniform Push { uint end; };
layout(binding = 0) writeonly buffer Y { uint y[]; };
void main() { uint i = gl_GlobalInvocationID.x; if (i < end) y[i] = 7; }
"""


@pytest.fixture(scope="module")
def module() -> SpirvModule:
    return SpirvModule.from_glsl(ADD)


def test_a_buffer_lies_where_the_device_allows(place: tuple[Driver, bool, bool]) -> None:
    driver, is_mapped, is_shared = place
    memory = driver.empty(5, np.uint8).memory
    assert (memory.is_mapped, memory.is_shared) == (is_mapped, is_shared)


@pytest.mark.parametrize("length", [1, 64, 65])
def test_results_of_up_to_256_bytes_are_read_where_the_device_wrote_them_if_the_host_sees_that(
    place: tuple[Driver, bool, bool], module: SpirvModule, length: int
) -> None:
    driver, is_mapped, is_shared = place
    kernel, x = driver.compile(module), np.arange(length, dtype=np.float32)
    for turn, split in enumerate([False, True, False]):
        assert kernel(x, x + turn, split=split).tolist() == (2 * x + turn).tolist()
    recorded = kernel._array_calls.calls._latest[1].recorded  # type: ignore[index] # noqa: SLF001
    assert recorded is not None
    assert len(recorded._read_back) == (0 if is_shared or (is_mapped and length <= 64) else 1)  # noqa: SLF001


@pytest.mark.parametrize("split", [False, True])
def test_a_call_sees_what_it_was_given_and_no_earlier_call(
    place: tuple[Driver, bool, bool], module: SpirvModule, *, split: bool
) -> None:
    kernel = place[0].compile(module)
    for count in (1, 64, 1000):
        x = np.arange(count, dtype=np.float32)
        for factor in (1, 2, 3):
            np.testing.assert_array_equal(kernel(x, x * factor, split=split), x * (1 + factor))


def test_a_write_waits_for_work_that_was_submitted_before(place: tuple[Driver, bool, bool], module: SpirvModule) -> None:
    driver = place[0]
    kernel = driver.compile(module)
    count = 1 << 18
    x, y = driver.buffer(np.ones(count, np.float32)), driver.buffer(np.zeros(count, np.float32))
    bound = kernel.bind(x, y)
    seen = []
    for value in range(2, 12):
        future = bound.submit()
        x.write(np.full(count, value, np.float32))
        future.result()
        seen.append(np.unique(y.read()).tolist())
    # The n-th dispatch adds what was written before it was submitted: 1, then 2, 3, ...
    assert seen == [[float(sum(range(1, value)))] for value in range(2, 12)]


def test_a_read_sees_work_that_was_submitted_before(place: tuple[Driver, bool, bool], module: SpirvModule) -> None:
    driver = place[0]
    count = 1 << 18
    x, y = driver.buffer(np.ones(count, np.float32)), driver.buffer(np.zeros(count, np.float32))
    bound = driver.compile(module).bind(x, y)
    seen = []
    for _ in range(10):
        bound.submit()
        seen.append(np.unique(y.read()).tolist())
    assert seen == [[float(turn)] for turn in range(1, 11)]


def test_buffers_give_their_memory_back(place: tuple[Driver, bool, bool]) -> None:
    driver = place[0]

    def live() -> object:
        layer = driver.report()["layer"]
        return layer["counters"].get("memory_live_bytes") if isinstance(layer, dict) else None

    before = live()
    for _ in range(3):
        buffers = [driver.buffer(np.ones(count, np.uint32)) for count in (1, 300, 70_000)]
        for buffer in buffers:
            buffer.close()
    assert live() == before


def test_an_error_that_is_kept_keeps_no_memory_counted() -> None:
    with Driver(allow_software=True) as driver:

        def available() -> object:
            with pytest.raises(DeviceOutOfMemory) as refused:
                driver.context.device.check_available(2**60)
            return refused.value.context["available_bytes"]

        before = available()
        _layer.inject("allocate", 1, -2)
        with pytest.raises(DeviceOutOfMemory) as kept:
            driver.empty(1 << 20, np.uint8)
        _layer.inject("allocate", 0, 0)
        assert (available(), kept.value.code) == (before, 1001)


def test_no_interrupt_loses_bytes_that_are_given_back(driver: Driver) -> None:
    """Signals every 50 us or so, each a Ctrl-C, while buffers are counted and forgotten."""

    def interrupt(*_: object) -> None:
        nonlocal is_wanted
        if is_wanted:
            is_wanted = False
            raise KeyboardInterrupt

    def reserve_until_interrupted() -> None:  # a jump back in a block of `with` is not of that block in Python 3.13
        nonlocal is_wanted
        is_wanted = True
        while is_wanted:
            driver.context.device.memory.take(4096, "")

    is_wanted, heard, ends = False, 0, time.monotonic() + 1
    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 5e-5, 5e-5)
    try:
        while time.monotonic() < ends:
            with contextlib.suppress(KeyboardInterrupt):
                heard += 1
                reserve_until_interrupted()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)  # one that is on its way is heard by `interrupt`, which lets it pass
        signal.signal(signal.SIGALRM, before)
    driver.context.device.check_available(driver.device.device_local_bytes // 2)
    assert (driver.context.device.allocated, heard > 100) == (0, True)


def test_idle_blocks_are_kept_within_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(enable, "MEMORY_CACHE_BYTES", 1 << 25)
    with Driver() as driver:
        memory = driver.context.device.memory
        small = [driver.empty(1 << 16, np.uint8) for _ in range(4)]
        large = [driver.empty(LONG_BYTES + 1, np.uint8) for _ in range(2)]
        assert (memory.facts.blocks, memory.facts.used) == (3, 4 * (1 << 16) + 2 * (LONG_BYTES + 4))
        large[0].close()
        assert memory.facts.blocks == 2
        for one in small:
            one.close()
        assert memory.facts.blocks == 2  # the first is idle, and less than the bound
        large[1].close()
        assert (memory.facts.blocks, memory.facts.used, memory.trim()) == (1, 0, True)
        assert (memory.facts.blocks, memory.facts.reserved) == (0, 0)


def test_a_driver_tells_of_its_memory_and_gives_idle_blocks_back() -> None:
    with Driver() as driver:
        one, two = driver.empty(1000, np.uint8, "one"), driver.empty(2000, np.uint8, "two")
        held = driver.memory
        assert (held.used, held.by_name) == (3000, {"one": (1, 1000), "two": (1, 2000)})
        assert (held.blocks, held.reserved >= held.peak >= 3000, held.fragmentation) == (1, True, 0.0)
        one.close()
        assert driver.memory.fragmentation > 0
        driver.trim()
        assert driver.memory.blocks == 1
        two.close()
        driver.trim()
        after = driver.memory
        assert (after.blocks, after.used, after.reserved, after.by_name) == (0, 0, 0, {})


def test_memory_over_the_limit_is_refused_and_the_error_names_who_holds_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VYRE_MEMORY_LIMIT", "4M")
    with Driver() as driver:
        held = [driver.empty(1 << 20, np.uint8, name) for name in ("weights", "weights", "state")]
        with pytest.raises(DeviceOutOfMemory) as refused:
            driver.empty(2 << 20, np.uint8)
        assert str(refused.value) == (
            f"the buffers need 2097152 bytes on {driver.device.name!r}, which has 1048576 bytes left of 4194304 bytes "
            "(most is in buffers weights: 2097152 bytes in 2, state: 1048576 bytes in 1). "
            "Fix: pass smaller arrays, in several calls."
        )
        held.pop().close()
        assert driver.empty(2 << 20, np.uint8).nbytes == 2 << 20


def test_one_allocation_serves_thousands_of_buffers(driver: Driver) -> None:
    before = driver.context.device.counters()["memory_allocated"]
    kept = [driver.empty(1024, np.float32) for _ in range(5000)]
    assert driver.context.device.counters()["memory_allocated"] - before == 10
    assert len({buffer.memory.handle for buffer in kept}) == 5000


def test_memory_that_others_had_is_zero_where_zeros_are_promised(place: tuple[Driver, bool, bool]) -> None:
    driver = place[0]
    partly = driver.compile(SpirvModule.from_glsl(PAST_THE_END))
    for length in (1, 1000, 300_001):
        dirty = [driver.empty(length, np.uint32) for _ in range(8)]
        for buffer in dirty:
            buffer.fill(0xFFFFFFFF)
        del buffer
        dirty.clear()
        zeros = [driver.zeros(length, np.uint32) for _ in range(4)]
        output = partly(out_shapes={"y": length}, push_constants={"end": 1}, workgroups=(1,))
        assert [(buffer.read() != 0).sum() for buffer in zeros] == [0] * 4
        assert output.tolist() == [7] + [0] * (length - 1)


def test_a_write_past_the_end_of_a_buffer_changes_no_other_of_its_block(place: tuple[Driver, bool, bool]) -> None:
    driver = place[0]
    kernel = driver.compile(SpirvModule.from_glsl(PAST_THE_END))
    buffers = [driver.zeros(64, np.uint32) for _ in range(32)]
    for buffer in buffers[::2]:
        kernel(buffer, push_constants={"end": 64 * 1000}, workgroups=(1000,))
    assert [buffer.read().tolist() for buffer in buffers] == [[7] * 64, [0] * 64] * 16


def test_blocks_for_longer_buffers_grow_once_there_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    with Driver() as driver:
        physical = driver.context.device.physical
        few = dataclasses.replace(physical, limits=dataclasses.replace(physical.limits, max_memory_allocation_count=256))
        monkeypatch.setattr(driver.context.device, "physical", few)
        kept = [driver.empty(SHORT_BYTES + 1, np.uint8) for _ in range(600)]
        facts = driver.memory
        assert (facts.blocks < 256, facts.reserved < 1.1 * facts.used, len(kept)) == (True, True, 600)


def test_a_short_buffer_lies_among_longer_ones_where_nothing_else_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VYRE_MEMORY_LIMIT", "8M")
    with Driver() as driver:
        long = [driver.empty(2 << 20, np.uint8) for _ in range(4)]
        long.pop().close()
        kept = [driver.empty(1500 << 10, np.uint8), driver.empty(300 << 10, np.uint8)]
        assert (driver.memory.blocks, driver.memory.reserved, len(kept)) == (4, 8 << 20, 2)
