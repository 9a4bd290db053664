"""How drivers and kernels live together and end: closed, collected, forked, or left to the interpreter's exit."""

from __future__ import annotations

import json
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np
import pytest

from vyre_driver import Driver
from vyre_driver.errors import DeviceOutOfMemory, DispatchFailed
from vyre_driver.spirv.shipped import shipped_module

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import RunChild

    from vyre_driver import Kernel
    from vyre_driver.vulkan import PhysicalDevice

pytestmark = pytest.mark.device

THREADS = 8


def run_saxpy(kernel: Kernel, count: int = 100, alpha: float = 2) -> bool:
    x = np.arange(count, dtype=np.float32)
    return bool(np.array_equal(kernel(x, x, push_constants={"alpha": alpha, "count": count}), np.float32(alpha) * x + x))


def test_two_drivers_at_once_do_not_disturb_each_other() -> None:
    with Driver() as one, Driver() as other:
        kernels = [driver.compile(shipped_module("saxpy")) for driver in (one, other, one)]
        assert [run_saxpy(kernel) for kernel in kernels * 2] == [True] * 6


def test_closing_one_driver_leaves_another_working() -> None:
    with Driver() as one, Driver() as other:
        kernel = other.compile(shipped_module("saxpy"))
        one.close()
        assert run_saxpy(kernel)


def test_130_drivers_are_open_at_once(run_python: RunChild, children: Path, physical_device: PhysicalDevice) -> None:
    """Hardware may have a limit of its own, which is told; 300 are opened by ``make stress``."""
    done = run_python(str(children / "many_drivers.py"), "130")
    assert (done.status, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    opened = found["opened"] if not physical_device.is_software and found["refusal"] else 130
    expected = {"opened": opened, "right": opened, "usable": True}
    assert found == {**expected, "refusal": None if opened == 130 else found["refusal"]}


def test_one_kernel_may_be_called_from_eight_threads(saxpy: Kernel) -> None:
    barrier = threading.Barrier(THREADS)

    def call(thread: int) -> bool:
        barrier.wait()
        return all(run_saxpy(saxpy, 50 + thread, alpha) for alpha in range(20))

    with ThreadPoolExecutor(THREADS) as pool:
        assert list(pool.map(call, range(THREADS))) == [True] * THREADS


def test_eight_threads_may_compile_and_call_on_one_driver(driver: Driver) -> None:
    barrier = threading.Barrier(THREADS)

    def call(thread: int) -> bool:
        barrier.wait()
        return all(run_saxpy(driver.compile(shipped_module("saxpy")), 50 + thread) for _ in range(5))

    with ThreadPoolExecutor(THREADS) as pool:
        assert list(pool.map(call, range(THREADS))) == [True] * THREADS


def test_eight_threads_may_have_a_driver_each() -> None:
    barrier = threading.Barrier(THREADS)

    def call(thread: int) -> bool:
        barrier.wait()
        with Driver() as driver:
            return run_saxpy(driver.compile(shipped_module("saxpy")), 50 + thread)

    with ThreadPoolExecutor(THREADS) as pool:
        assert list(pool.map(call, range(THREADS))) == [True] * THREADS


def test_eight_threads_may_count_memory_at_once(driver: Driver) -> None:
    """Many tiny steps, with the interpreter changing threads as often as it can."""
    device, interval = driver.context.device, sys.getswitchinterval()

    def count(_: int) -> None:
        for _ in range(20_000):
            held = device.memory.take(4, "")
            del held
            device.check_available(4)

    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(count, range(THREADS)))
    finally:
        sys.setswitchinterval(interval)
    with pytest.raises(DeviceOutOfMemory) as refused:
        device.check_available(2**60)
    assert refused.value.context["available_bytes"] == driver.device.device_local_bytes


def test_a_kernel_of_a_closed_driver_is_refused(driver: Driver, saxpy: Kernel) -> None:
    run_saxpy(saxpy)
    driver.close()
    with pytest.raises(DispatchFailed) as refused:
        run_saxpy(saxpy)
    assert str(refused.value) == f"{driver.device.name!r} is closed. Fix: make a new Driver."


def test_a_kernel_that_was_never_called_before_its_driver_closed_is_refused(driver: Driver, saxpy: Kernel) -> None:
    driver.close()
    with pytest.raises(DispatchFailed) as refused:
        run_saxpy(saxpy)
    assert str(refused.value) == f"{driver.device.name!r} is closed. Fix: make a new Driver."


def test_leaving_the_with_block_closes_the_driver() -> None:
    with Driver() as driver:
        kernel = driver.compile(shipped_module("saxpy"))
    with pytest.raises(DispatchFailed):
        run_saxpy(kernel)


def test_a_second_close_does_nothing(driver: Driver) -> None:
    driver.close()
    driver.close()
    assert driver.report()["device"] == driver.device.name


@pytest.mark.parametrize(
    "case",
    [
        "driver_dies_first",
        "kernel_dies_first",
        "driver_is_closed_and_dies_before_its_kernel",
        "kernel_dies_after_the_driver_is_closed",
        "kernel_dies_before_the_driver_is_closed",
        "both_die_in_one_cycle",
        "both_die_in_one_cycle_after_the_driver_is_closed",
        "both_die_in_another_thread",
        "kernel_dies_while_memory_is_counted",
        "closed_driver_refuses_calls_of_kernels_made_before",
        "driver_is_closed_while_work_runs",
        "driver_dies_while_work_runs",
        "a_future_dies_while_its_work_runs",
        "all_die_in_one_cycle_while_work_runs",
        "all_die_in_one_cycle_while_a_copy_runs",
        "all_die_one_by_one_while_a_copy_runs",
        "driver_is_closed_while_a_copy_runs",
        "exits_while_work_runs",
        "exits_while_a_copy_runs",
        "exits_with_an_uncollected_cycle_while_work_runs",
        "exits_without_closing",
        "exits_with_an_uncollected_cycle",
        "exits_with_a_kernel_used_at_exit",
        "exits_with_a_kernel_used_by_a_finalizer",
        "exits_with_a_daemon_thread_that_keeps_calling",
        "forked_child_gets_an_error_and_the_parent_works_on",
        "forked_child_exits",
        "forked_child_ends_without_the_exit_handlers_of_its_parents_libraries",
        "forked_child_drops_what_it_inherited",
        "forked_child_drops_a_copy_that_runs",
        "forked_child_closes_the_driver",
        "forked_child_opens_a_driver_of_its_own",
        "forked_child_is_refused_hardware",
        "forked_child_compiles_and_calls",
        "forked_while_another_thread_calls",
        "forked_while_other_threads_open_drivers_and_look_for_devices",
        "forked_with_a_handler_that_another_library_registered",
        "forked_child_is_refused_before_hardware_is_looked_at",
    ],
)
def test_a_process_ends_cleanly_when(run_forked: RunChild, children: Path, case: str) -> None:
    script = "lifetime_forks.py" if case.startswith("forked_") else "lifetime.py"
    done = run_forked(str(children / script), case)
    assert (done.status, done.stdout, done.stderr) == (0, "", "")
