"""What a failed Vulkan call becomes."""

from __future__ import annotations

import pytest

from vyre_driver.errors import BackendError, DeviceLost, DeviceOutOfMemory, DispatchFailed, KernelCompileFailed
from vyre_driver.kompute.results import failure_error, lost_error
from vyre_driver.vulkan.layer._layer import Failure

LOST = (
    "'GPU' was lost: it stopped answering, and what was made on it is gone. "
    "Fix: make a new Driver, and look into the system log for the reason (a shader that never ends is the usual one)."
)
FREE = "Fix: free buffers, or pass smaller arrays in several calls."


def outcome(error: BackendError) -> tuple[type[BackendError], int, str]:
    return type(error), error.code, str(error)


@pytest.mark.parametrize("call", ["allocate", "submit", "wait", "create_pipeline"])
def test_a_lost_device_is_lost_whatever_was_asked_of_it(call: str) -> None:
    error = failure_error(Failure(call, -4, 64), "GPU", 1000, 3)
    assert outcome(error) == (DeviceLost, 2006, LOST)
    assert (error.stable_id, error.context) == (
        1008,
        {"backend": "kompute", "device": "GPU", "generation": 3, "message": f"{call} failed with VkResult -4"},
    )


def test_a_lost_device_is_said_the_same_everywhere() -> None:
    error = lost_error("GPU", 3)
    assert outcome(error) == (DeviceLost, 2006, LOST)
    assert error.context == {"backend": "kompute", "device": "GPU", "generation": 3, "message": "it was lost before"}


@pytest.mark.parametrize(
    ("call", "result"), [("allocate", -2), ("allocate", -99), ("map", -5), ("bind", -13), ("create_buffer", -1), ("submit", -2)]
)
def test_memory_that_is_not_there_is_an_out_of_memory_with_both_numbers(call: str, result: int) -> None:
    said = f"{call} failed on 'GPU' with VkResult {result}, asked for 64 bytes with about 1000 bytes left. {FREE}"
    assert outcome(failure_error(Failure(call, result, 64), "GPU", 1000, 1)) == (DeviceOutOfMemory, 1001, said)


@pytest.mark.parametrize("result", [-1, -2, -10])
def test_an_out_of_memory_without_a_size_names_none(result: int) -> None:
    said = f"create_pipeline failed on 'GPU' with VkResult {result}. {FREE}"
    assert outcome(failure_error(Failure("create_pipeline", result, 0), "GPU", 1000, 1)) == (DeviceOutOfMemory, 1001, said)


def test_a_pipeline_that_cannot_be_made_is_a_failed_compilation() -> None:
    said = (
        "create_pipeline failed on 'GPU' with VkResult -13. "
        "Fix: run spirv-val on the module, and report it with the driver's version if it passes."
    )
    assert outcome(failure_error(Failure("create_pipeline", -13, 0), "GPU", 0, 1)) == (KernelCompileFailed, 1004, said)


@pytest.mark.parametrize("call", ["submit", "wait"])
def test_any_other_failure_is_a_failed_dispatch(call: str) -> None:
    said = f"{call} failed on 'GPU' with VkResult -13. Fix: run the shader under the Khronos validation layer."
    assert outcome(failure_error(Failure(call, -13, 0), "GPU", 0, 1)) == (DispatchFailed, 1005, said)
