"""What a module needs against what the device has and kompute switches on.

kompute asks for Vulkan 1.1 and enables no device feature, so what needs either is refused although the device may have it.
Source: Vulkan 1.3, appendix "Vulkan Environment for SPIR-V".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_driver.errors import LimitExceeded, UnsupportedFeature
from vyre_driver.spirv.opcodes import CORE_CAPABILITIES, SUBGROUP_CAPABILITIES, capability_name

if TYPE_CHECKING:
    from vyre_driver.spirv.reflect import Reflection
    from vyre_driver.vulkan.devices import PhysicalDevice

MAX_SPIRV_VERSION = (1, 3)  # of Vulkan 1.1
_COMPUTE_STAGE = 0x20


def check_requirements(reflection: Reflection, device: PhysicalDevice) -> None:
    """Return if the device, as kompute opens it, can run the module.

    Raises
    ------
    UnsupportedFeature
        1002 if the SPIR-V version, a capability or a subgroup operation is not there.
    LimitExceeded
        2104 if there are more buffers or push-constant bytes than the device allows.
    """
    if reflection.version > MAX_SPIRV_VERSION:
        raise UnsupportedFeature(
            "the module is SPIR-V {}.{}, and kompute's Vulkan 1.1 takes at most {}.{}".format(
                *reflection.version, *MAX_SPIRV_VERSION
            ),
            fix="compile it for Vulkan 1.1 (glslangValidator --target-env vulkan1.1)",
        )
    for capability in reflection.capabilities:
        _check_capability(capability, device)
    limits = device.limits
    slots = max(buffer.binding for buffer in reflection.buffers) + 1
    if slots > limits.max_per_stage_descriptor_storage_buffers:
        raise LimitExceeded(
            f"the shader binds {slots} storage buffers, and the device allows "
            f"{limits.max_per_stage_descriptor_storage_buffers}",
            fix="use fewer buffers",
            value=slots,
            limit=limits.max_per_stage_descriptor_storage_buffers,
        )
    if reflection.push_constant_bytes > limits.max_push_constants_size:
        raise LimitExceeded(
            f"the shader's push constants take {reflection.push_constant_bytes} bytes, and the device allows "
            f"{limits.max_push_constants_size} bytes",
            fix="move some of them into a buffer",
            value=reflection.push_constant_bytes,
            limit=limits.max_push_constants_size,
        )


def _check_capability(capability: int, device: PhysicalDevice) -> None:
    if capability in CORE_CAPABILITIES:
        return
    bit = SUBGROUP_CAPABILITIES.get(capability)
    if bit is not None:
        if device.subgroup_operations & bit and device.subgroup_stages & _COMPUTE_STAGE:
            return
        raise UnsupportedFeature(
            f"the shader needs {capability_name(capability)}, and {device.name!r} has no such subgroup operations",
            fix="rewrite it without them, or choose another device",
            capability=capability,
        )
    raise UnsupportedFeature(
        f"the shader needs {capability_name(capability)}, and kompute enables no device features",
        fix="rewrite it without that capability",
        capability=capability,
    )
