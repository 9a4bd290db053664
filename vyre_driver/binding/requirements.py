"""Check what a module requires against the device and the features enabled when it was opened.

A feature that the device has but that was not enabled is refused: using it would be undefined.
Source: Vulkan 1.3, appendix "Vulkan Environment for SPIR-V".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_driver.errors import LimitExceeded, UnsupportedFeature
from vyre_driver.spirv.opcodes import (
    CORE_CAPABILITIES,
    FEATURE_OF_CAPABILITY,
    SUBGROUP_CAPABILITIES,
    capability_name,
)
from vyre_driver.vulkan.version import known_minor

if TYPE_CHECKING:
    from collections.abc import Collection

    from vyre_driver.spirv.reflection import Reflection
    from vyre_driver.vulkan.devices import DeviceLimits, PhysicalDevice

# Of Vulkan 1.0 to 1.3.
_MAX_SPIRV_VERSION = {0: (1, 0), 1: (1, 3), 2: (1, 5), 3: (1, 6)}


def check_requirements(reflection: Reflection, device: PhysicalDevice, features: Collection[str], api_version: int) -> None:
    """Check that the device, opened with these features for this packed Vulkan version, can run the module.

    Raises
    ------
    UnsupportedFeature
        If the SPIR-V version, a capability or a subgroup operation is not there.
    LimitExceeded
        If there are more buffers, push-constant bytes or bytes of shared memory than the device allows.
    """
    minor = known_minor(api_version)
    if reflection.version > _MAX_SPIRV_VERSION[minor]:
        raise UnsupportedFeature(
            f"the module is SPIR-V {_dotted(reflection.version)}, and the device is open for Vulkan 1.{minor}, which takes "
            f"at most {_dotted(_MAX_SPIRV_VERSION[minor])}",
            fix=f"compile it for Vulkan 1.{minor} (glslangValidator --target-env vulkan1.{minor})",
        )
    for capability in reflection.capabilities:
        _check_capability(capability, device, features)
    _check_limits(reflection, device.limits)


def _check_limits(reflection: Reflection, limits: DeviceLimits) -> None:
    slots = max(buffer.binding for buffer in reflection.buffers) + 1
    if slots > limits.max_per_stage_descriptor_storage_buffers:
        most = limits.max_per_stage_descriptor_storage_buffers
        first = next(buffer.name for buffer in reflection.buffers if buffer.binding >= most)
        raise LimitExceeded(
            f"the shader binds {slots} storage buffers, and the device allows {most}: {first!r} is one too many",
            fix="use fewer buffers",
            value=slots,
            limit=most,
            binding=first,
        )
    if reflection.push_constant_bytes > limits.max_push_constants_size:
        ends = {one.offset + one.type.byte_len: one.name for one in reflection.push_constants}
        last = ends[max(ends)] if ends else ""
        raise LimitExceeded(
            f"the shader's push constants take {reflection.push_constant_bytes} bytes, the last of them {last!r}, and the "
            f"device allows {limits.max_push_constants_size} bytes",
            fix="move some of them into a buffer",
            value=reflection.push_constant_bytes,
            limit=limits.max_push_constants_size,
            constant=last,
        )
    if reflection.shared_bytes > limits.max_compute_shared_memory_size:
        raise LimitExceeded(
            f"the shader's workgroups share {reflection.shared_bytes} bytes, the largest part of them in "
            f"{reflection.largest_shared!r}, and the device allows {limits.max_compute_shared_memory_size} bytes",
            fix="use smaller shared arrays",
            variable=reflection.largest_shared,
            value=reflection.shared_bytes,
            limit=limits.max_compute_shared_memory_size,
        )


def _dotted(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


def _check_capability(capability: int, device: PhysicalDevice, features: Collection[str]) -> None:
    if capability in CORE_CAPABILITIES:
        return
    name = capability_name(capability)
    bit = SUBGROUP_CAPABILITIES.get(capability)
    if bit is not None:
        if device.has_subgroup_operations(bit):
            return
        raise UnsupportedFeature(
            f"the shader needs {name}, and {device.name!r} has no such subgroup operations",
            fix="rewrite it without them, or choose another device",
            capability=capability,
        )
    feature = FEATURE_OF_CAPABILITY.get(capability)
    if feature in features:
        return
    if feature is None:
        problem, fix = "this driver switches no such feature on", "rewrite it without that capability"
    elif feature in device.features:
        problem, fix = f"{feature} is not switched on", "run with the vyre layer and its features hook (VYRE_LAYER)"
    else:
        problem, fix = f"{device.name!r} does not have {feature}", "rewrite it without, or choose another device"
    raise UnsupportedFeature(f"the shader needs {name}, and {problem}", fix=fix, capability=capability, feature=feature)
