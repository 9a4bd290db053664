"""Raise the failures that the layer recorded and kompute ignored."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_driver.errors import BackendError, DeviceLost, DeviceOutOfMemory, DispatchFailed, KernelCompileFailed, LoopCut
from vyre_driver.vulkan.manifests import installed_layers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vyre_driver.vulkan.layer._layer import Failure

VK_SUCCESS = 0
VK_TIMEOUT = 2
VK_ERROR_DEVICE_LOST = -4
_VK_ERROR_OUT_OF_HOST_MEMORY = -1
_VK_ERROR_OUT_OF_DEVICE_MEMORY = -2
_VK_ERROR_TOO_MANY_OBJECTS = -10
_OUT_OF_MEMORY = frozenset({_VK_ERROR_OUT_OF_HOST_MEMORY, _VK_ERROR_OUT_OF_DEVICE_MEMORY, _VK_ERROR_TOO_MANY_OBJECTS})
_MEMORY_CALLS = frozenset({"allocate", "map", "bind", "create_buffer", "bind_buffers"})
FIXES: dict[type[BackendError], str] = {
    KernelCompileFailed: "run spirv-val on the module, and report it with the driver's version if it passes",
    DispatchFailed: "run the shader under the Khronos validation layer",
}


def opening_error(device_name: str, error: RuntimeError) -> DispatchFailed:
    """Return the error of a device that kompute cannot open; it names the layers that may have refused it."""
    problem = f"kompute cannot open {device_name!r} ({error})"
    layers = [layer.name for layer in installed_layers() if layer.is_active]
    if not layers:
        return DispatchFailed(problem, fix="run vulkaninfo to see whether the device works")
    return DispatchFailed(
        f"{problem}; other Vulkan layers are active, which may have refused it: {', '.join(layers)}",
        fix="switch off the layer at fault: vyre-driver doctor lists all, and tries it without them "
        "(VK_LOADER_LAYERS_DISABLE=~implicit~, and no VK_INSTANCE_LAYERS)",
        layers=layers,
    )


def failure_error(failure: Failure, device_name: str, available_bytes: int, generation: int) -> BackendError:
    """Return the exception that a recorded failure stands for; ``available_bytes`` is what the device's heap has left."""
    what = f"{failure.call} failed on {device_name!r} with VkResult {failure.result}"
    if failure.result == VK_ERROR_DEVICE_LOST:
        return lost_error(device_name, generation, f"{failure.call} failed with VkResult {failure.result}")
    if failure.result in _OUT_OF_MEMORY or failure.call in _MEMORY_CALLS:
        asked = f", asked for {failure.bytes} bytes with about {available_bytes} bytes left" if failure.bytes else ""
        return DeviceOutOfMemory(
            f"{what}{asked}",
            fix="free buffers, or pass smaller arrays in several calls",
            requested_bytes=failure.bytes,
            available_bytes=available_bytes,
        )
    if failure.call == "create_pipeline":
        return KernelCompileFailed(what, fix=FIXES[KernelCompileFailed], result=failure.result)
    return DispatchFailed(what, fix=FIXES[DispatchFailed], result=failure.result)


def cut_error(what: str, device_name: str, limit: int) -> LoopCut:
    """Return the error of work in which the driver has cut a loop; ``what`` it was, ``limit`` its turns."""
    return LoopCut(
        f"the driver of {device_name!r} has ended a loop of {what} before its condition failed, and the results are wrong: it "
        f"leaves every loop once all loops of an invocation have made {limit:,} turns together, where those of the invocations "
        "beside it count, and those that %, // and math.fmod are made of",
        fix="have each invocation make fewer turns, by several calls or more invocations for parts of the range, or use "
        "another device",
        limit=limit,
    )


def lost_error(device_name: str, generation: int, message: str = "it was lost before") -> DeviceLost:
    """Return the error of a device that is gone, the ``generation``-th that this process has opened."""
    return DeviceLost(
        f"{device_name!r} was lost: it stopped answering, and what was made on it is gone",
        fix="make a new Driver, and look into the system log for the reason (a shader that never ends is the usual one)",
        backend="kompute",
        device=device_name,
        generation=generation,
        message=message,
    )


def no_room_error(
    device: str, needed: int, available: int, limit: int, holders: Sequence[tuple[str, tuple[int, int]]]
) -> DeviceOutOfMemory:
    """Return the error of buffers that need so many bytes of a device's memory, which has so many left.

    ``holders``: the name, number and bytes of those that have most of it, the largest first.
    """
    held = ", ".join(f"{name or 'without a name'}: {byte_len} bytes in {number}" for name, (number, byte_len) in holders)
    return DeviceOutOfMemory(
        f"the buffers need {needed} bytes on {device!r}, which has {available} bytes left of {limit} bytes"
        + (f" (most is in buffers {held})" if held else ""),
        fix="pass smaller arrays, in several calls",
        requested_bytes=needed,
        available_bytes=available,
    )
