"""Each trap of kompute, reached for through the package in a process of its own: an error of ours, or a right result.

| kompute | here |
|---|---|
| crashes on empty, odd, truncated SPIR-V, on too few tensors, on an entry point that is not main | test_device_misuse.py |
| crashes on a bad queue index | the device's own family is given, never a number of the caller's |
| crashes when used after destroy() | use_after_close |
| hangs after a fork | test_device_lifetime.py, a_fork_uses_everything |
| crashes at exit, or with work under way | test_device_lifetime.py, threads_at_exit |
| `data()` reads memory that has gone | views_that_outlive_the_memory |
| float64 becomes float32, other types words | types_that_kompute_converts |
| 4 GiB wraps to 0; an allocation that fails crashes | sizes_that_wrap, a_heap_that_is_too_small |
| no error for a grid over the limit, or an output that is too small | a_grid_over_the_limit, test_device_misuse.py |
| retypes specialization constants to float | constants_of_another_type, test_device_calls.py |
| crashes on too many push constants | oversize_push_constants |
| crashes on more operations than timestamps | too_many_operations |
| forgets work whose wait timed out | work_that_outlives_its_wait |
| no barrier between dispatches | test_device_order.py, too_many_operations |
| ignores what Vulkan calls failed with | test_device_faults.py |
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from vyre_driver.errors import with_article
from vyre_driver.vulkan.devices import DeviceType

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import RunChild

    from vyre_driver.vulkan import PhysicalDevice

pytestmark = pytest.mark.device

USES = ("call", "bind", "run", "submit", "result", "batch", "batch submit", "read", "write", "buffer", "empty")
TYPES = ("float64", "float16", "int8", "uint8", "int16", "int64", "uint64", "bool", "complex128", "V3")
FLOAT64 = [
    "InvalidInput",
    ("input 'x' holds float32 and got an array of float64. Fix: convert it with .astype(numpy.float32)."),
]


def over(device: PhysicalDevice, name: str, byte_len: int) -> list[str]:
    said = f"{name} has {byte_len} bytes, and {device.name!r} allows {2**32 - 4} bytes a buffer. Fix: pass it in parts."
    return ["LimitExceeded", said]


def shapeless(shape: str) -> list[str]:
    said = f"the shape of a buffer is {shape}, which is not integers of at least 0. "
    return ["InvalidInput", said + "Fix: give the number of elements, or a tuple of such numbers."]


def full(device: PhysicalDevice, byte_len: int) -> list[str]:
    """What is said of buffers of so many bytes: with their staging copies, where host and device do not share memory."""
    needed = byte_len if device.device_type in {DeviceType.CPU, DeviceType.INTEGRATED} else 2 * byte_len
    said = f"the buffers need {needed} bytes on {device.name!r}, which has 500 bytes left of 500 bytes. "
    return ["DeviceOutOfMemory", said + "Fix: pass smaller arrays, in several calls."]


def grid(device: PhysicalDevice, count: int) -> list[str]:
    limit = device.limits.max_compute_work_group_count[0]
    return [
        "LimitExceeded",
        (
            f"the grid has {count} workgroups along x, and the device allows {limit}. "
            "Fix: start fewer workgroups, and let an invocation do several elements."
        ),
    ]


def pushed(device: PhysicalDevice, byte_len: int) -> list[str]:
    limit = device.limits.max_push_constants_size
    said = f"the shader's push constants take {byte_len} bytes, the last of them 'wide', and the device allows {limit} bytes. "
    return ["LimitExceeded", said + "Fix: move some of them into a buffer."]


def constant(name: str, kind: str, said: str) -> list[str]:
    return [
        "InvalidSpecialization",
        f"specialization constant {name!r} is {with_article(kind)}, and {said}. Fix: give {with_article(kind)}.",
    ]


def wrapped(device: PhysicalDevice) -> object:
    return {
        "empty": over(device, "a resident buffer", 2**32 + 4),
        "exactly": over(device, "a resident buffer", 2**32),
        "out_shapes": over(device, "buffer 'a'", 2**32 + 4),
        "16 bytes in 64 bits": over(device, "a resident buffer", 2**66 + 16),
        "negative": shapeless("-4"),
        "negative twice": shapeless("(-2, -2)"),
        "half": shapeless("(2.5,)"),
        "allocated": False,
    }


def pushes(device: PhysicalDevice) -> object:
    most = device.limits.max_push_constants_size
    return {"0": [most // 4 - 1], "1": pushed(device, most + 4), "16384": pushed(device, 2**16)}


def grids(device: PhysicalDevice) -> object:
    above = device.limits.max_compute_work_group_count[0] + 1
    return {"call": grid(device, above), "bind": grid(device, above), "wraps to 1": grid(device, 2**32 + 1)}


CONSTANTS = {
    "an integer for a float": [3.0],
    "numpy's float64 for a float": [0.5],
    "text for a float": constant("F", "f32", "'1' is not a real number"),
    "a number for a bool": constant("B", "bool", "2 is not True or False"),
    "too much for a float": constant("F", "f32", "float too large to pack with f format"),
}
TRAPS: dict[str, Callable[[PhysicalDevice], object]] = {
    "use_after_close": lambda device: {
        key: ["DispatchFailed", f"{device.name!r} is closed. Fix: make a new Driver."] if key != "result" else None
        for key in USES
    },
    "a_fork_uses_everything": lambda _: {
        "in the child": dict.fromkeys(USES, "ForkError") | {"result": "right"},  # it was known before
        "in the parent": dict.fromkeys(USES, "right"),
    },
    "views_that_outlive_the_memory": lambda _: [True] * 4,
    "types_that_kompute_converts": lambda _: {
        "kept": dict.fromkeys(TYPES, True),
        "refused": FLOAT64,
        "resident": FLOAT64,
    },
    "sizes_that_wrap": wrapped,
    "a_heap_that_is_too_small": lambda device: {
        "call": full(device, 800),
        "buffer": full(device, 504),
        "allocated": False,
        "fits": [0, 3],
    },
    "too_many_operations": lambda _: [3000],
    "oversize_push_constants": pushes,
    "a_grid_over_the_limit": grids,
    "constants_of_another_type": lambda _: CONSTANTS,
    "work_that_outlives_its_wait": lambda _: ["DispatchTimeout", True],
    "threads_at_exit": lambda _: "exits",
}


@pytest.mark.parametrize("trap", TRAPS)
def test_a_trap_of_kompute_is_an_error_or_a_right_result(
    run_forked: RunChild, children: Path, physical_device: PhysicalDevice, trap: str
) -> None:
    done = run_forked(str(children / "traps.py"), trap)
    assert (done.status, done.stderr) == (0, "")
    assert json.loads(done.stdout) == TRAPS[trap](physical_device)
