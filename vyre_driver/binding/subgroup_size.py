"""Check that a device can give a pipeline subgroups of the size that is asked for, all of them full.

Source: Vulkan 1.3, VkPipelineShaderStageRequiredSubgroupSizeCreateInfo and VkPipelineShaderStageCreateInfo, their valid usage.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from vyre_driver.errors import InvalidDispatchConfig, LimitExceeded, UnsupportedFeature

if TYPE_CHECKING:
    from collections.abc import Collection

    from vyre_driver.vulkan.devices import PhysicalDevice, SubgroupSizeControl

SUBGROUP_FEATURES = ("subgroupSizeControl", "computeFullSubgroups")
_COMPUTE = 0x20  # VK_SHADER_STAGE_COMPUTE_BIT


def check_subgroup_size(
    size: int, workgroup: tuple[int, int, int], device: PhysicalDevice, features: Collection[str], what: str
) -> None:
    """Check that a pipeline may require full subgroups of so many invocations.

    Parameters
    ----------
    size
        Invocations of a subgroup, a power of two (VUID 02760), from minSubgroupSize (02761) to maxSubgroupSize (02762).
    workgroup
        Invocations along x, y, z: in all at most ``size`` times maxComputeWorkgroupSubgroups (02756), and along x a multiple of
        ``size`` (02757).
    device
        Must take required sizes in the compute stage: requiredSubgroupSizeStages (02755).
    features
        Those that are on: subgroupSizeControl (02755) and computeFullSubgroups (02785) must be.
    what
        The kernel, for messages.

    Raises
    ------
    UnsupportedFeature
        If a feature is not on, or the compute stage takes no size.
    LimitExceeded
        If the size is not one of the device's, or a workgroup has more subgroups than the device allows.
    InvalidDispatchConfig
        If the workgroup does not fill its subgroups.
    """
    offered = _offered(size, device, features)
    least, most = offered.min_size, offered.max_size
    if not least <= size <= most:
        sizes = str(least) if least == most else f"{least} to {most}"
        raise LimitExceeded(
            f"the configuration asks for subgroups of {size} invocations, and those of {device.name!r} have {sizes}",
            fix=f"give a subgroup_size of {sizes}",
            value=size,
            limit=most if size > most else least,
        )
    invocations, allowed = math.prod(workgroup), size * offered.max_compute_workgroup_subgroups
    if invocations > allowed:
        raise LimitExceeded(
            f"a workgroup of {what} has {invocations} invocations, and the device allows {allowed}: "
            f"{offered.max_compute_workgroup_subgroups} subgroups of {size}",
            fix="choose a smaller workgroup" if size == most else "choose a smaller workgroup, or a larger subgroup_size",
            value=invocations,
            limit=allowed,
        )
    if workgroup[0] % size:
        raise InvalidDispatchConfig(
            f"a workgroup of {what} has {workgroup[0]} invocations along x, which fill no whole subgroups of {size}",
            fix=f"choose a workgroup whose x is a multiple of {size}",
            field="subgroup_size",
            value=size,
        )


def _offered(size: int, device: PhysicalDevice, features: Collection[str]) -> SubgroupSizeControl:
    """Return what the device offers; raises UnsupportedFeature where it offers nothing, or that is not on."""
    asked = f"the configuration asks for subgroups of {size} invocations"
    for feature in SUBGROUP_FEATURES:
        if feature in features:
            continue
        is_there = feature in device.features
        raise UnsupportedFeature(
            f"{asked}, and {feature} is not switched on"
            if is_there
            else f"{asked}, and {device.name!r} does not have {feature}",
            fix="leave subgroup_size out",
            feature=feature,
        )
    offered = device.subgroup_size_control
    if offered is None or not offered.required_size_stages & _COMPUTE:
        raise UnsupportedFeature(
            f"{asked}, and {device.name!r} takes no required size in compute shaders (requiredSubgroupSizeStages)",
            fix="leave subgroup_size out",
            feature="requiredSubgroupSizeStages",
        )
    return offered
