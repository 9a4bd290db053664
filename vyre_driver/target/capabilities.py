"""What a program may ask of a Vulkan device, by the features that are switched on.

Source: upstream's DeviceProfile (field names and meaning); docs/devices.md.
"""

from __future__ import annotations

import functools
import operator
from typing import TYPE_CHECKING, Any

from vyre_driver.identity.keys import PipelineFeatureFlags
from vyre_driver.ir.validation.profile_rules import DeviceCapabilities

if TYPE_CHECKING:
    from collections.abc import Collection

    from vyre_driver.vulkan.devices import PhysicalDevice

# VkSubgroupFeatureFlagBits: all that upstream's SubgroupReduce, SubgroupBallot and SubgroupShuffle need; a program asks for
# subgroup operations as a whole.
_SUBGROUP_BASIC, _SUBGROUP_ARITHMETIC, _SUBGROUP_BALLOT, _SUBGROUP_SHUFFLE = 0x1, 0x4, 0x8, 0x10
_SUBGROUP_OPS = _SUBGROUP_BASIC | _SUBGROUP_ARITHMETIC | _SUBGROUP_BALLOT | _SUBGROUP_SHUFFLE
SUBGROUP_SHUFFLES = _SUBGROUP_BASIC | _SUBGROUP_SHUFFLE
LOWERED: dict[str, Any] = {"max_native_int_width": 64, "supports_f16": True, "supports_bf16": True}
"""What a program has that is lowered, on any device: 64 bits become pairs of words, halves are copied as their bits."""


def capabilities_of(device: PhysicalDevice, enabled_features: Collection[str] = ()) -> DeviceCapabilities:
    """Return what a device has itself, with these features switched on; one that it lacks does not count."""
    limits = device.limits
    features = device.features & frozenset(enabled_features)
    flags = feature_flags(device, enabled_features)
    return DeviceCapabilities(
        max_workgroup_size=limits.max_compute_work_group_size,
        max_invocations_per_workgroup=limits.max_compute_work_group_invocations,
        has_shared_memory=limits.max_compute_shared_memory_size > 0,
        max_shared_memory_bytes=limits.max_compute_shared_memory_size,
        max_storage_buffer_binding_size=limits.max_storage_buffer_range,
        max_native_int_width=64 if "shaderInt64" in features else 32,
        supports_f16=PipelineFeatureFlags.F16 in flags,
        supports_bf16=PipelineFeatureFlags.BF16 in flags,
        supports_f64="shaderFloat64" in features,
        supports_subgroup_ops=PipelineFeatureFlags.SUBGROUP_OPS in flags,
        supports_indirect_dispatch=False,  # kompute records none
        supports_trap_propagation=False,  # SPIR-V has no trap that the host learns of
        supports_distributed_collectives=False,  # one device is one rank
    )


def feature_flags(device: PhysicalDevice, enabled_features: Collection[str] = ()) -> PipelineFeatureFlags:
    """Return what a pipeline on the device may rely on, with these features switched on.

    ASYNC_COMPUTE: work goes to a queue family that computes and does not draw. INDIRECT_DISPATCH, SPECULATIVE and
    PERSISTENT_THREAD are not facts of a Vulkan device that is driven through kompute, and never there.
    """
    features = device.features & frozenset(enabled_features)
    family = device.compute_family
    found = {
        PipelineFeatureFlags.SUBGROUP_OPS: device.has_subgroup_operations(_SUBGROUP_OPS),
        PipelineFeatureFlags.F16: features >= {"shaderFloat16", "storageBuffer16BitAccess"},
        PipelineFeatureFlags.BF16: features >= {"shaderBFloat16Type", "storageBuffer16BitAccess"},
        PipelineFeatureFlags.TENSOR_CORES: "cooperativeMatrix" in features and device.has_cooperative_matrices,
        PipelineFeatureFlags.ASYNC_COMPUTE: family is not None and family.compute_only,
        PipelineFeatureFlags.PUSH_CONSTANTS: device.limits.max_push_constants_size > 0,
    }
    return functools.reduce(operator.or_, (flag for flag, there in found.items() if there), PipelineFeatureFlags(0))
