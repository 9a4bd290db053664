"""What kernels keep for their next calls makes room for anything else of the driver, while nobody uses it."""

from __future__ import annotations

import copy
import dataclasses
from typing import TYPE_CHECKING

import numpy as np
import pytest
from kernels import TURNS, Spin

import vyre_driver.driver
from vyre_driver import Buffer, Driver, kernels
from vyre_driver.errors import DeviceOutOfMemory, DispatchTimeout
from vyre_driver.spirv.shipped import shipped_module
from vyre_driver.vulkan import enumerate_devices

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vyre_driver import Kernel

pytestmark = pytest.mark.device


@pytest.fixture
def small_driver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Driver]:
    """A driver whose device says it has 100,000 bytes of its own."""
    found = tuple(dataclasses.replace(one, memory_heaps=((100_000, 1), (10**9, 0))) for one in enumerate_devices())
    monkeypatch.setattr(vyre_driver.driver, "enumerate_devices", lambda: found)
    with Driver() as opened:
        yield opened


@pytest.fixture
def layered_spin() -> Iterator[Spin]:
    """Work that outlasts a wait."""
    with Driver() as opened:
        yield Spin(opened, 0.5)


def run_saxpy(kernel: Kernel, count: int) -> bool:
    x = np.arange(count, dtype=np.float32)
    return bool(np.array_equal(kernel(x, x, push_constants={"alpha": 2, "count": count}), 3 * x))


def test_idle_buffers_of_any_kernel_make_room_for_another_kernel_and_for_a_buffer(small_driver: Driver) -> None:
    one, other = (small_driver.compile(shipped_module("saxpy")) for _ in range(2))
    tuned = kernels.saxpy(small_driver)
    x = np.arange(6000, dtype=np.float32)
    found = [run_saxpy(one, 8000), run_saxpy(other, 8001), run_saxpy(one, 2000)]
    found.append(np.array_equal(tuned(x, x, alpha=2.0), 3 * x))  # type: ignore[arg-type] # 72,000 bytes
    found += [run_saxpy(other, 8002), np.array_equal(tuned(x, x, alpha=1.0), 2 * x)]  # type: ignore[arg-type]
    held = small_driver.buffer(np.ones(24_000, np.float32))
    assert (found, held.read().sum()) == ([True] * 6, 24_000)
    with pytest.raises(DeviceOutOfMemory):
        run_saxpy(one, 8000)
    held.close()
    assert run_saxpy(one, 8000)


def recorded(kernel: Kernel, counts: Sequence[int]) -> list[int]:
    """Which of the counts a kernel was called with keep their buffers."""
    sizes = {4 * count: count for count in counts}
    return sorted(sizes[one.byte_len] for call in kernel._array_calls.calls._recorded.values() for one in call._inputs[:1])  # noqa: SLF001 -- nothing else tells


def test_idle_buffers_of_a_kernel_make_room_for_the_copy_of_a_buffer(small_driver: Driver) -> None:
    kernel, held = small_driver.compile(shipped_module("saxpy")), small_driver.buffer(np.ones(10_000, np.float32))
    assert run_saxpy(kernel, 4000)  # 32,000 bytes are kept beside 40,000
    assert copy.copy(held).read().sum() == 10_000
    assert recorded(kernel, (4000,)) == []


def test_what_was_not_called_for_longest_makes_room_first_whoever_keeps_it(small_driver: Driver) -> None:
    one, other = (small_driver.compile(shipped_module("saxpy")) for _ in range(2))
    counts = (2000, 2001, 2002, 2003, 2004)
    for kernel, count in ((one, 2000), (other, 2001), (one, 2002), (other, 2003), (one, 2000)):
        run_saxpy(kernel, count)
    before = recorded(one, counts), recorded(other, counts)
    small_driver.buffer(np.ones(10_000, np.float32))  # 64,048 of 100,000 bytes are kept
    small = recorded(one, counts), recorded(other, counts)
    assert (before, small) == (([2000, 2002], [2001, 2003]), ([2000, 2002], [2003]))


def test_buffers_that_a_call_is_using_do_not_make_room(layered_spin: Spin, monkeypatch: pytest.MonkeyPatch) -> None:
    context, kernel = layered_spin.kernel._context, layered_spin.kernel  # noqa: SLF001 -- the one it was made on

    def call() -> int:
        return int(
            kernel(
                np.zeros(1, np.uint32), np.ones(1, np.uint32), push_constants={"turns": TURNS}, workgroups=layered_spin.grid
            )[0]
        )

    with pytest.raises(DispatchTimeout):
        kernel(
            np.zeros(1, np.uint32),
            np.ones(1, np.uint32),
            push_constants={"turns": TURNS},
            workgroups=layered_spin.grid,
            timeout=0.01,
        )
    monkeypatch.setattr(context.device.memory, "limit", 0)
    with pytest.raises(DeviceOutOfMemory):
        context.room.make(lambda: Buffer(context.device, 1 << 24, np.float32))
    monkeypatch.undo()
    assert len(kernel._array_calls.calls._recorded) == 1  # noqa: SLF001 -- nothing else tells
    assert call() == layered_spin.groups
