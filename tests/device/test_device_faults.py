"""Vulkan calls that fail, one at a time: the right error, no leak, and the driver works on, unless the device is lost."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from vyre_driver import Driver
from vyre_driver.errors import DeviceOutOfMemory
from vyre_driver.spirv.shipped import shipped_module
from vyre_driver.vulkan import DeviceType
from vyre_driver.vulkan.layer import _layer

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import RunChild

    from vyre_driver.vulkan import PhysicalDevice

pytestmark = [pytest.mark.device, pytest.mark.usefixtures("_nothing_fails_any_more")]

BYTES = 400
RESULTS = (-1, -2, -3, -4, -5, -10, -13)
SOME_RESULTS = (-4, -13)
# The code of each error by the call that fails, in the order of RESULTS.
CODES = {
    "allocate": (1001, 1001, 1001, 2006, 1001, 1001, 1001),
    "map": (1001, 1001, 1001, 2006, 1001, 1001, 1001),
    "bind": (1001, 1001, 1001, 2006, 1001, 1001, 1001),
    "create_buffer": (1001, 1001, 1001, 2006, 1001, 1001, 1001),
    "submit": (1001, 1001, 1005, 2006, 1005, 1001, 1005),
    "wait": (1001, 1001, 1005, 2006, 1005, 1001, 1005),
    "create_pipeline": (1001, 1001, 1004, 2006, 1004, 1001, 1004),
}
CLASSES = {1001: "DeviceOutOfMemory", 1004: "KernelCompileFailed", 1005: "DispatchFailed", 2006: "DeviceLost"}
FIXES = {
    1001: "free buffers, or pass smaller arrays in several calls",
    1004: "run spirv-val on the module, and report it with the driver's version if it passes",
    1005: "run the shader under the Khronos validation layer",
    2006: "make a new Driver, and look into the system log for the reason (a shader that never ends is the usual one)",
}
WAYS = ("by_call", "by_call_in_stages", "by_bound_run", "by_awaited_future", "by_batch")


def calls_made(device: PhysicalDevice, way: str) -> dict[str, int]:
    """How often the way makes each call.

    The first buffer is asked for twice, before there is a block and after. A device with memory of its own has staging memory
    too, and copies results there in a submission. Where the host cannot write all of the device's memory, uploads are copied as
    well.
    """
    shared = device.device_type in {DeviceType.CPU, DeviceType.INTEGRATED}
    largest = max(heap for heap, flags in device.memory_heaps if flags & 1)
    written_directly = shared or any(
        one.device_local and one.host_visible and one.host_coherent and device.memory_heaps[one.heap][0] == largest
        for one in device.memory_types
    )
    uploads = 0 if written_directly else 1 if way == "by_call_in_stages" else 2
    submissions = 1 if way == "by_call" else uploads + 1 + (0 if shared else 1)
    staged = 0 if shared else 2 if way.startswith("by_call") and written_directly else 3
    taken = 3 + staged
    made = {"allocate": taken, "map": 1 if shared or not written_directly else 2, "bind": taken, "create_buffer": taken}
    return made | {"submit": submissions, "wait": submissions, "create_pipeline": 1}


def lost(device: PhysicalDevice) -> str:
    return f"{device.name!r} was lost: it stopped answering, and what was made on it is gone. Fix: {FIXES[2006]}."


def message(device: PhysicalDevice, call: str, result: int, context: dict[str, int]) -> str:
    code = CODES[call][RESULTS.index(result)]
    if code == 2006:
        return lost(device)
    said = f"{call} failed on {device.name!r} with VkResult {result}"
    if call in {"allocate", "create_buffer"}:
        said += f", asked for {context['requested_bytes']} bytes with about {context['available_bytes']} bytes left"
    return f"{said}. Fix: {FIXES[code]}."


def check_context(device: PhysicalDevice, way: str, failing: tuple[str, int, int], context: dict[str, Any]) -> None:
    """An out of memory tells what was asked for, and what the heap has left of it and of all that was asked for before."""
    call, nth, result = failing
    code = CODES[call][RESULTS.index(result)]
    if code == 2006:
        message = f"{call} failed with VkResult {result}"
        lost = {"backend": "kompute", "device": device.name, "generation": context["generation"], "message": message}
        assert context == lost
        return
    if code != 1001:
        assert context == {"result": result}
        return
    after_all = call == "create_pipeline" or (call in {"submit", "wait"} and way.startswith("by_call"))
    is_taken = call in {"allocate", "bind", "create_buffer"}
    buffers = 2 if after_all else min(2, max(0, nth - 2)) if is_taken else 0 if call == "map" else 1
    asked = context["requested_bytes"]
    assert asked >= BYTES if call in {"allocate", "create_buffer"} else asked == 0
    assert context == {"requested_bytes": asked, "available_bytes": device.device_local_bytes - BYTES * buffers}


@pytest.mark.parametrize("way", WAYS)
def test_every_call_that_can_fail_fails_with_its_error_and_the_driver_works_on(
    run_python: RunChild, children: Path, physical_device: PhysicalDevice, way: str
) -> None:
    done = run_python(str(children / "injected.py"), "failures", way, hangs_after_s=300)  # it opens 120 drivers
    assert (done.status, done.stderr) == (0, "")
    results = RESULTS if way == "by_call" else SOME_RESULTS
    made = calls_made(physical_device, way)
    # A wait on a busy machine is several calls, each of 50 ms at most.
    found = [one for one in json.loads(done.stdout) if one["failing"][0] != "wait" or one["failing"][1] <= made["wait"]]
    assert [tuple(one["failing"]) for one in found] == [
        (call, nth, result)
        for call in made
        for result in results
        for nth in range(1, made[call] + 1)
        if call != "map" or CODES[call][RESULTS.index(result)] != 1001  # a block that is too long is tried shorter
    ]
    for one in found:
        call, nth, result = one["failing"]
        name, code, said, context = one["error"]
        expected = CODES[call][RESULTS.index(result)]
        assert (name, code, said) == (CLASSES[expected], expected, message(physical_device, call, result, context))
        check_context(physical_device, way, (call, nth, result), context)
        again = f'DeviceLost("{lost(physical_device)}")' if code == 2006 else "None"
        assert (one["again"], one["memory is back"]) == ([again, again], True), one["failing"]


def test_a_device_lost_in_any_call_stays_lost_and_a_new_driver_works(
    run_python: RunChild, children: Path, physical_device: PhysicalDevice
) -> None:
    calls = [call for call in _layer.CALLS[1:] if call != "export"]  # which test_device_cuda.py has
    done = run_python(str(children / "injected.py"), "lost", *calls)
    assert (done.status, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    said = f'DeviceLost("{lost(physical_device)}")'
    uses = [use for use in found["wait"]["then"] if not use.startswith("close")]
    expected = {"first": said, "then": {**dict.fromkeys(uses, said), "close": "None", "close again": "None"}}
    assert (len(uses), found) == (16, dict.fromkeys(calls, expected))


def test_a_failed_allocation_drops_the_buffers_of_earlier_sizes_and_is_tried_again() -> None:
    x = np.arange(300, dtype=np.float32)
    with Driver() as driver:
        kernel = driver.compile(shipped_module("saxpy"))
        for count in (100, 200):
            kernel(x[:count], x[:count], push_constants={"alpha": 2, "count": count})
        _layer.inject("allocate", 1, -2)
        got = kernel(x, x, push_constants={"alpha": 2, "count": 300})
        np.testing.assert_array_equal(got, 3 * x, strict=True)
        counters = driver.context.device.layer.counters()
    assert counters["failures_recorded"] >= 1


def test_freed_memory_is_kept_for_the_next_buffers_until_it_is_trimmed() -> None:
    with Driver() as driver:
        driver.empty(1 << 16, np.uint8).close()
        layer = driver.context.device.layer
        kept = layer.counters()["memory_cached_bytes"]
        driver.context.device.memory.trim()
        assert (kept >= 1 << 16, layer.counters()["memory_cached_bytes"]) == (True, 0)


def test_a_failure_is_raised_once() -> None:
    with Driver() as driver:
        _layer.inject("allocate", 1, -2)
        with pytest.raises(DeviceOutOfMemory, match=re.escape("allocate failed on")):
            driver.empty(8, np.float32)
        assert driver.buffer(np.arange(8)).read().tolist() == list(range(8))
