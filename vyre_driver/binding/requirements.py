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
    FLOAT_ALTERNATIVES,
    FLOAT_CONTROL_WIDTHS,
    FLOAT_CONTROLS,
    SUBGROUP_CAPABILITIES,
    capability_name,
    float_control,
)
from vyre_driver.vulkan.version import API_1_2, known_minor

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from vyre_driver.spirv.interface import FloatControl
    from vyre_driver.spirv.reflection import Reflection
    from vyre_driver.vulkan.devices import DeviceLimits, PhysicalDevice

# Of Vulkan 1.0 to 1.3.
_MAX_SPIRV_VERSION = {0: (1, 0), 1: (1, 3), 2: (1, 5), 3: (1, 6)}


def check_requirements(reflection: Reflection, device: PhysicalDevice, features: Collection[str], api_version: int) -> None:
    """Check that the device, opened with these features for this packed Vulkan version, can run the module.

    Raises
    ------
    UnsupportedFeature
        If the SPIR-V version, a capability, a subgroup operation or a float control is not there.
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
    _check_float_controls(reflection, device, api_version)
    for capability in reflection.capabilities:
        if capability not in FLOAT_CONTROLS.values():
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


def _check_float_controls(reflection: Reflection, device: PhysicalDevice, api_version: int) -> None:
    """Check the execution modes by their widths; a capability by itself asks for any of its widths."""
    controls = reflection.float_controls
    declared = [one for one in FLOAT_CONTROLS.values() if one in reflection.capabilities]
    if (controls or declared) and api_version < API_1_2:
        raise UnsupportedFeature(
            f"the shader needs {controls[0] if controls else declared[0].name}, and the device is open for Vulkan "
            f"1.{known_minor(api_version)}, which has float controls by an extension only that this driver does not switch on",
            fix="run it on a device and a Vulkan loader of version 1.2 or newer",
        )
    for control in controls:
        _check_control(control, control.capability, [control.member], device)
    for capability in declared:
        members = [float_control(capability, width) for width in FLOAT_CONTROL_WIDTHS]
        _check_control(capability.name, capability, members, device)
    _check_independence(controls, device)


def _check_control(needed: object, capability: int, members: list[str], device: PhysicalDevice) -> None:
    if device.float_controls.isdisjoint(members):
        raise UnsupportedFeature(
            f"the shader needs {needed}, and {device.name!r} does not have {' or '.join(members)}",
            fix="rewrite it without, or choose another device",
            capability=capability,
            feature=members[0],
        )


def _check_independence(controls: Sequence[FloatControl], device: PhysicalDevice) -> None:
    """Check that what holds for all widths alike on the device is not stated differently for two of them.

    The probe does not tell 32_BIT_ONLY from ALL, so that 16 and 64 bits differ is left to the device.
    """
    for alternatives, independence in FLOAT_ALTERNATIVES.items():
        stated = {control.capability: control for control in controls if control.capability in alternatives}
        if len(stated) > 1 and independence not in device.float_controls:
            one, other = stated.values()
            raise UnsupportedFeature(
                f"the shader needs {one} and {other}, and {device.name!r} takes one of the two for all widths: its "
                f"{independence} is VK_SHADER_FLOAT_CONTROLS_INDEPENDENCE_NONE",
                fix="state the same for all widths, or choose another device",
                feature=independence,
            )


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
    fix = "rewrite it without, or choose another device"
    if feature is None:
        problem, fix = "this driver switches no such feature on", "rewrite it without that capability"
    elif feature in device.features:
        problem = f"{feature} is not switched on"
    else:
        problem = f"{device.name!r} does not have {feature}"
    raise UnsupportedFeature(f"the shader needs {name}, and {problem}", fix=fix, capability=capability, feature=feature)
