"""The capabilities of a backend on one device, for selection, validation and tuning, and what a program may ask of a device.

A capability is True only if a program may rely on it, and a number is 0 where it is unknown.

Source: upstream's DeviceProfile and DeviceTimingQuality (field names, conservative values, projections); the Vulkan members are
named field by field below.
"""

from __future__ import annotations

import enum
import functools
import operator
from dataclasses import asdict, dataclass, replace
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


class DeviceTimingQuality(enum.Enum):
    """How well a backend can time a dispatch; the values are upstream's names, the order is that of ``score``."""

    HOST_ONLY = "host_only"
    HOST_ENQUEUE_WAIT = "host_enqueue_wait"
    DEVICE_TIMESTAMPS = "device_timestamps"
    HARDWARE_COUNTERS = "hardware_counters"

    @property
    def score(self) -> int:
        """0 for the coarsest to 3 for the finest."""
        return list(DeviceTimingQuality).index(self)


@dataclass(frozen=True, slots=True)
class DeviceProfile:
    """Capabilities, limits and hints of one backend on one device; the defaults are the conservative profile.

    What ``from_physical_device`` fills from Vulkan ("features" are those switched on), and what Vulkan does not tell:

    ================================= ==================================================================================
    backend                           given by the backend; ``unknown`` without
    supports_subgroup_ops             supportedOperations has basic, arithmetic, ballot and shuffle, for the compute
                                      stage
    supports_indirect_dispatch        False: Vulkan has vkCmdDispatchIndirect, kompute records none
    supports_distributed_collectives  False: one device is one rank
    supports_specialization_constants True: core since Vulkan 1.0
    supports_f16                      features shaderFloat16 and storageBuffer16BitAccess
    supports_bf16                     features shaderBFloat16Type (VK_KHR_shader_bfloat16) and storageBuffer16BitAccess
    supports_f64                      feature shaderFloat64
    supports_trap_propagation         False: SPIR-V has no trap that the host learns of
    supports_tensor_cores             feature cooperativeMatrix, for the compute stage, with at least one shape
    has_mul_high                      True: OpUMulExtended and OpSMulExtended are core SPIR-V
    has_dual_issue_fp32_int32         False: unknown
    has_subgroup_shuffle              supportedOperations has basic and shuffle, for the compute stage
    has_shared_memory                 maxComputeSharedMemorySize is not 0
    max_native_int_width              64 bits with feature shaderInt64, else 32
    max_workgroup_size                maxComputeWorkGroupSize, invocations along x, y, z
    max_invocations_per_workgroup     maxComputeWorkGroupInvocations
    max_shared_memory_bytes           maxComputeSharedMemorySize
    max_storage_buffer_binding_size   maxStorageBufferRange, bytes
    subgroup_size                     subgroupSize, invocations; 0 before Vulkan 1.1
    compute_units                     shaderSMCount (VK_NV_shader_sm_builtins) or activeComputeUnitCount
                                      (VK_AMD_shader_core_properties2); 0 elsewhere
    regs_per_thread_max               0: unknown
    l1_cache_bytes, l2_cache_bytes    0: unknown
    mem_bw_gbps                       0: unknown; GB/s
    timing_quality                    DEVICE_TIMESTAMPS with supports_device_timestamps, else HOST_ENQUEUE_WAIT:
                                      submitting and waiting are two calls
    supports_device_timestamps        timestampValidBits of the queue family for compute and timestampPeriod are not 0
    supports_hardware_counters        False: VK_KHR_performance_query is not used
    ideal_unroll_depth                0: unknown
    ideal_vector_pack_bits            0: unknown
    ideal_workgroup_tile              (0, 0, 0): unknown
    shared_memory_bank_count          0: unknown
    shared_memory_bank_width_bytes    0: unknown
    ================================= ==================================================================================
    """

    backend: str = "unknown"
    supports_subgroup_ops: bool = False
    supports_indirect_dispatch: bool = False
    supports_distributed_collectives: bool = False
    supports_specialization_constants: bool = False
    supports_f16: bool = False
    supports_bf16: bool = False
    supports_trap_propagation: bool = False
    supports_tensor_cores: bool = False
    has_mul_high: bool = False
    has_dual_issue_fp32_int32: bool = False
    has_subgroup_shuffle: bool = False
    has_shared_memory: bool = False
    max_native_int_width: int = 32
    max_workgroup_size: tuple[int, int, int] = (1, 1, 1)
    max_invocations_per_workgroup: int = 1
    max_shared_memory_bytes: int = 0
    max_storage_buffer_binding_size: int = 0
    subgroup_size: int = 0
    compute_units: int = 0
    regs_per_thread_max: int = 0
    l1_cache_bytes: int = 0
    l2_cache_bytes: int = 0
    mem_bw_gbps: int = 0
    timing_quality: DeviceTimingQuality = DeviceTimingQuality.HOST_ONLY
    supports_device_timestamps: bool = False
    supports_hardware_counters: bool = False
    ideal_unroll_depth: int = 0
    ideal_vector_pack_bits: int = 0
    ideal_workgroup_tile: tuple[int, int, int] = (0, 0, 0)
    shared_memory_bank_count: int = 0
    shared_memory_bank_width_bytes: int = 0
    supports_f64: bool = False

    @classmethod
    def conservative(cls, backend: str = "unknown") -> DeviceProfile:
        """Return the profile of a backend of which nothing is known."""
        return cls(backend)

    def of_lowered_programs(self) -> DeviceProfile:
        """Return what a program may ask for that is lowered."""
        return replace(self, **LOWERED)

    @classmethod
    def from_physical_device(
        cls, device: PhysicalDevice, enabled_features: Collection[str] = (), *, backend: str = "unknown"
    ) -> DeviceProfile:
        """Return the profile of a Vulkan device, from the probe's facts alone.

        ``enabled_features`` are the features that are, or would be, switched on, by Vulkan's names; one that the device lacks
        does not count. Without any, types that need a feature (16-bit floats, 64-bit integers, matrices) are not there.
        """
        limits, family = device.limits, device.compute_family
        timestamps = family is not None and bool(family.timestamp_valid_bits and limits.timestamp_period_ns)
        return cls(
            backend=backend,
            **capabilities_of(device, enabled_features)._asdict(),
            supports_specialization_constants=True,
            supports_tensor_cores=PipelineFeatureFlags.TENSOR_CORES in feature_flags(device, enabled_features),
            has_mul_high=True,
            has_subgroup_shuffle=device.has_subgroup_operations(SUBGROUP_SHUFFLES),
            subgroup_size=device.subgroup_size,
            compute_units=device.compute_units,
            timing_quality=DeviceTimingQuality.DEVICE_TIMESTAMPS if timestamps else DeviceTimingQuality.HOST_ENQUEUE_WAIT,
            supports_device_timestamps=timestamps,
        )

    def validation_capabilities(self) -> dict[str, bool]:
        """Return what validation of a program asks, under upstream's names."""
        return {
            "native_f16": self.supports_f16,
            "warp_shuffle": self.has_subgroup_shuffle,
            "tensor_int": self.supports_tensor_cores,
            "transcendental_polynomial": True,
        }

    def adapter_caps(self) -> dict[str, int | tuple[int, int, int]]:
        """Return the numeric fields by name: what tuning asks."""
        return {name: value for name, value in asdict(self).items() if type(value) in {int, tuple}}
