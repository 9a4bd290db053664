"""Independent work over several devices: two drivers on one device stand for two GPUs."""

from __future__ import annotations

import gc
import json
import threading
import time
import weakref
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import vyre_driver
from vyre_driver import DriverPool
from vyre_driver.errors import DeviceNotFound, DispatchFailed, InvalidInput, InvalidModule
from vyre_driver.spirv import SpirvModule
from vyre_driver.spirv.shipped import shipped_module
from vyre_driver.vulkan import enumerate_devices

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from conftest import RunChild

    from vyre_driver import Driver
    from vyre_driver.vulkan import PhysicalDevice

pytestmark = pytest.mark.device
X = np.arange(100, dtype=np.float32)
WAITS_S = 60.0


def push(alpha: int) -> dict[str, int]:
    return {"alpha": alpha, "count": 100}


@pytest.fixture
def name(physical_device: PhysicalDevice) -> str:
    return f"uuid:{physical_device.device_uuid.hex()}"


@pytest.fixture
def pool(name: str) -> Iterator[DriverPool]:
    """Two devices."""
    with DriverPool([name, name]) as opened:
        yield opened


def test_devices_are_told_without_opening_one() -> None:
    assert vyre_driver.devices() == enumerate_devices()


def test_results_come_back_in_the_order_of_the_calls(pool: DriverPool) -> None:
    kernel = pool.compile(shipped_module("saxpy"))
    found = kernel.map([(X, X + number) for number in range(20)], push_constants=push(2))
    assert [one.tolist() for one in found] == [(3 * X + number).tolist() for number in range(20)]  # type: ignore[union-attr]


def test_work_runs_on_both_devices_at_once(pool: DriverPool) -> None:
    both = threading.Barrier(2)

    def meet(driver: Driver) -> Driver:
        both.wait(WAITS_S)
        return driver

    found = {future.result(WAITS_S) for future in (pool.submit(meet), pool.submit(meet))}
    assert (found, [one["done"] for one in pool.report()]) == (set(pool.drivers), [1, 1])


def test_work_goes_to_the_device_that_has_least_to_do(pool: DriverPool) -> None:
    held = threading.Event()
    busy = pool.submit(lambda driver: (held.wait(WAITS_S), driver)[1])
    others = {pool.submit(lambda driver: driver).result(WAITS_S) for _ in range(5)}
    held.set()
    assert ({busy.result(WAITS_S)} | others, others & {busy.result()}) == (set(pool.drivers), set())


def test_the_devices_share_one_cache(pool: DriverPool) -> None:
    first, second = pool.drivers
    assert first.cache is second.cache


def test_a_kernel_is_compiled_once_for_each_device_that_gets_a_call(pool: DriverPool) -> None:
    kernel = pool.compile(shipped_module("saxpy"))
    held = threading.Event()
    busy = pool.submit(lambda driver: (held.wait(WAITS_S), driver)[1])
    for _ in range(3):
        kernel(X, X, push_constants=push(2)).result(WAITS_S)
    held.set()
    busy.result(WAITS_S)
    counts: Any = pool.drivers[0].cache.stats()["counts"]
    assert (counts["miss"], counts["hit"]) == (1, 1)  # and one put, or two where the driver gives its code away


def test_what_a_call_raises_is_its_futures_and_stops_nothing_else(pool: DriverPool) -> None:
    kernel = pool.compile(shipped_module("saxpy"))
    bad, good = kernel(X, push_constants=push(2)), kernel(X, X, push_constants=push(2))
    assert (type(bad.exception(WAITS_S)), np.array_equal(good.result(WAITS_S), 3 * X)) == (InvalidInput, True)  # type: ignore[arg-type]


def test_a_module_that_cannot_be_compiled_is_refused_at_once(pool: DriverPool) -> None:
    with pytest.raises(InvalidModule):
        pool.compile(SpirvModule.from_bytes(bytes(20)))


def test_work_that_waits_can_be_taken_back(pool: DriverPool) -> None:
    held = threading.Event()
    busy = [pool.submit(lambda _: held.wait(WAITS_S)) for _ in range(2)]
    ran: list[int] = []
    waiting = pool.submit(lambda _: ran.append(1))
    assert waiting.cancel()
    held.set()
    assert [one.result(WAITS_S) for one in busy] == [True, True]
    with pytest.raises(CancelledError):
        waiting.result(WAITS_S)
    assert ran == []


def test_closing_waits_for_what_was_given_and_refuses_more(name: str) -> None:
    pool = DriverPool([name, name])
    kernel = pool.compile(shipped_module("saxpy"))
    futures = [kernel(X, X, push_constants=push(2)) for _ in range(10)]
    pool.close()
    pool.close()
    assert all(one.done() and np.array_equal(one.result(), 3 * X) for one in futures)  # type: ignore[arg-type]
    with pytest.raises(DispatchFailed, match="the pool is closed"):
        kernel(X, X, push_constants=push(2))


def serving() -> int:
    return sum(thread.name.startswith("vyre_driver device") for thread in threading.enumerate())


def end_of_serving() -> int:
    """Wait until no thread of a pool is left; returns how many are after a while."""
    until = time.monotonic() + WAITS_S
    while serving() and time.monotonic() < until:
        time.sleep(0.001)
    return serving()


def test_a_pool_that_is_dropped_does_what_it_was_given_and_ends(name: str) -> None:
    opened = DriverPool([name, name])
    futures = [opened.compile(shipped_module("saxpy"))(X, X, push_constants=push(2)) for _ in range(5)]
    drivers = [weakref.ref(one) for one in opened.drivers]
    del opened
    results = [future.result(WAITS_S) for future in futures]
    del futures
    assert ([one.tolist() for one in results], end_of_serving()) == ([(3 * X).tolist()] * 5, 0)  # type: ignore[union-attr]
    gc.collect()
    assert [one() for one in drivers] == [None, None]


def test_a_pool_whose_block_was_interrupted_before_it_was_closed_ends(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: DriverPool) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt), DriverPool([name, name]):
        patched.setattr(DriverPool, "close", interrupted)
    gc.collect()
    assert end_of_serving() == 0


def test_without_names_every_gpu_is_opened_or_the_cpu_that_is_allowed() -> None:
    gpus = [one.device_uuid for one in enumerate_devices() if not one.is_software]
    with DriverPool() as pool:
        opened = [one.device.device_uuid for one in pool.drivers]
    assert opened == gpus or (gpus == [] and len(opened) == 1)


def test_a_device_that_cannot_be_opened_closes_those_that_were(name: str) -> None:
    before = threading.active_count()
    with pytest.raises(DeviceNotFound):
        DriverPool([name, "uuid:00"])
    with pytest.raises(DispatchFailed, match="the pool has no devices"):
        DriverPool([])
    assert threading.active_count() == before


def lose(run_python: RunChild, children: Path, name: str, what: str) -> dict[str, Any]:
    done = run_python(str(children / "losing.py"), name, what)
    assert done.status == 0, done.stderr
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def test_when_a_device_is_lost_its_work_goes_to_the_other(run_python: RunChild, children: Path, name: str) -> None:
    found = lose(run_python, children, name, "one")
    lost = [one["lost"] for one in found["report"]]
    assert (found["hold"], found["futures"], sorted(lost), found["after"]) == (True, [True] * 21, [False, True], True)


def test_work_that_loses_two_devices_is_not_given_a_third(run_python: RunChild, children: Path, name: str) -> None:
    found = lose(run_python, children, name, "poison")
    lost = [one["lost"] for one in found["report"]]
    assert (found["futures"], lost, found["after"]) == ([["DeviceLost", 2006]], [False, True, True], True)


def test_when_every_device_is_lost_nothing_waits_for_ever(run_python: RunChild, children: Path, name: str) -> None:
    found = lose(run_python, children, name, "all")
    said = "all 2 devices of the pool were lost. Fix: make a new pool, and look into the system log for the reason."
    assert (found["hold"], found["futures"], found["after"]) == (
        True,
        [["DeviceLost", 2006]] * 21,
        ["DeviceLost", said],
    )
