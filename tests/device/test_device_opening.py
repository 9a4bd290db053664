"""Opening a driver: what other threads and their children see of it meanwhile, and what an interrupt leaves behind."""

from __future__ import annotations

import os
import sys
import threading
from typing import TYPE_CHECKING

import numpy as np
import pytest

from vyre_driver import Driver
from vyre_driver.errors import DeviceLost, DispatchFailed
from vyre_driver.kompute.results import VK_TIMEOUT
from vyre_driver.spirv.shipped import shipped_module
from vyre_driver.vulkan.layer import _layer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vyre_driver.vulkan import PhysicalDevice

pytestmark = pytest.mark.device

X = np.arange(64, dtype=np.float32)
VARIABLES = (b"VK_ADD_LAYER_PATH", b"VK_LAYER_PATH", b"VK_INSTANCE_LAYERS", b"VK_LOADER_LAYERS_ENABLE")


@pytest.fixture(autouse=True)
def _no_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in VARIABLES:
        monkeypatch.delenv(os.fsdecode(variable), raising=False)


@pytest.fixture
def _switching() -> Iterator[None]:
    """The interpreter changes threads as often as it can."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def variables() -> tuple[bytes | None, ...]:
    """What a child process would inherit."""
    return tuple(map(_layer.environment_variable, VARIABLES))


@pytest.mark.usefixtures("_switching")
def test_no_other_thread_ever_sees_the_loaders_variables_while_drivers_are_opened() -> None:
    seen, looks, ends = set(), 0, threading.Event()

    def look() -> None:
        nonlocal looks
        while not ends.is_set():
            seen.add(variables())
            looks += 1

    thread = threading.Thread(target=look)
    thread.start()
    for _ in range(10):
        Driver().close()
    ends.set()
    thread.join()
    assert (seen, looks > 100) == ({(None,) * len(VARIABLES)}, True)


@pytest.mark.usefixtures("witness")
def test_a_device_that_the_vulkan_driver_refuses_is_a_failed_dispatch(
    monkeypatch: pytest.MonkeyPatch, physical_device: PhysicalDevice
) -> None:
    """kompute does not look at the result and goes on with no device, which the loader aborts the process for."""
    for _ in range(3):
        monkeypatch.setenv("WITNESS_REFUSES", "1")
        with pytest.raises(DispatchFailed) as refused:
            Driver()
        monkeypatch.delenv("WITNESS_REFUSES")
        told = f"kompute cannot open {physical_device.name!r} (vkCreateDevice returned -8)"
        assert str(refused.value).startswith(told)
        with Driver() as driver:
            kernel = driver.compile(shipped_module("saxpy"))
            right = np.array_equal(kernel(X, X, push_constants={"alpha": 2, "count": X.size}), 3 * X)
            assert right


@pytest.mark.usefixtures("_nothing_fails_any_more")
@pytest.mark.parametrize("call", ["submit", "wait"])
@pytest.mark.parametrize(("result", "error"), [(-4, DeviceLost), (-13, DispatchFailed)])
def test_a_device_that_takes_no_work_is_not_opened_and_the_next_one_is(
    call: str, result: int, error: type[DispatchFailed]
) -> None:
    _layer.inject(call, 1, result)
    with pytest.raises(DispatchFailed) as refused:
        Driver(allow_software=True)
    assert type(refused.value) is error
    with Driver(allow_software=True) as driver:
        assert driver.compile(shipped_module("saxpy"))(X, X, alpha=2.0, count=64).tolist() == (3 * X).tolist()


def test_a_device_that_others_keep_busy_is_opened_with_its_first_submission_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    busy = [True]

    class Busy(_layer.Transfer):
        def wait(self, timeout_ns: int | None = None) -> int:
            return VK_TIMEOUT if busy and timeout_ns is not None else super().wait(timeout_ns)

    monkeypatch.setattr(_layer, "Transfer", Busy)
    with Driver(allow_software=True) as driver:
        device = driver.context.device
        assert driver.compile(shipped_module("saxpy"))(X, X, alpha=2.0, count=64).tolist() == (3 * X).tolist()
        assert [device.counters()["work_pending"] for _ in range(2)] == [1, 1]
        busy.clear()  # it has ended before the call did
        assert device.counters()["work_pending"] == 0
