"""What a backend can do on a device, out of the probe's facts."""

from __future__ import annotations

import dataclasses
from dataclasses import replace

import pytest
from literals import DEVICE, LIMITS, device

from vyre_driver.identity import PipelineFeatureFlags
from vyre_driver.target.profile import DeviceProfile, DeviceTimingQuality, feature_flags
from vyre_driver.vulkan.devices import QueueFamily
from vyre_driver.vulkan.layer.enable import wanted_features

ALL_FEATURES = frozenset(
    {"shaderFloat16", "storageBuffer16BitAccess", "shaderBFloat16Type", "shaderInt64", "cooperativeMatrix", "shaderFloat64"}
)
FULL = device(features=ALL_FEATURES)
GRAPHICS_COMPUTE, COMPUTE = 0x3, 0x2
BASIC, VOTE, ARITHMETIC, BALLOT, SHUFFLE = 0x1, 0x2, 0x4, 0x8, 0x10

CONSERVATIVE = {
    "backend": "unknown",
    "supports_subgroup_ops": False,
    "supports_indirect_dispatch": False,
    "supports_distributed_collectives": False,
    "supports_specialization_constants": False,
    "supports_f16": False,
    "supports_bf16": False,
    "supports_trap_propagation": False,
    "supports_tensor_cores": False,
    "has_mul_high": False,
    "has_dual_issue_fp32_int32": False,
    "has_subgroup_shuffle": False,
    "has_shared_memory": False,
    "max_native_int_width": 32,
    "max_workgroup_size": (1, 1, 1),
    "max_invocations_per_workgroup": 1,
    "max_shared_memory_bytes": 0,
    "max_storage_buffer_binding_size": 0,
    "subgroup_size": 0,
    "compute_units": 0,
    "regs_per_thread_max": 0,
    "l1_cache_bytes": 0,
    "l2_cache_bytes": 0,
    "mem_bw_gbps": 0,
    "timing_quality": DeviceTimingQuality.HOST_ONLY,
    "supports_device_timestamps": False,
    "supports_hardware_counters": False,
    "ideal_unroll_depth": 0,
    "ideal_vector_pack_bits": 0,
    "ideal_workgroup_tile": (0, 0, 0),
    "shared_memory_bank_count": 0,
    "shared_memory_bank_width_bytes": 0,
    "supports_f64": False,
}
NUMERIC = {
    "max_native_int_width": 64,
    "max_workgroup_size": (1024, 512, 64),
    "max_invocations_per_workgroup": 512,
    "max_shared_memory_bytes": 32768,
    "max_storage_buffer_binding_size": 2**27,
    "subgroup_size": 32,
    "compute_units": 132,
    "regs_per_thread_max": 0,
    "l1_cache_bytes": 0,
    "l2_cache_bytes": 0,
    "mem_bw_gbps": 0,
    "ideal_unroll_depth": 0,
    "ideal_vector_pack_bits": 0,
    "ideal_workgroup_tile": (0, 0, 0),
    "shared_memory_bank_count": 0,
    "shared_memory_bank_width_bytes": 0,
}


def test_a_profile_that_is_told_nothing_is_conservative() -> None:
    assert (dataclasses.asdict(DeviceProfile()), list(dataclasses.asdict(DeviceProfile()))) == (
        CONSERVATIVE,
        list(CONSERVATIVE),
    )


def test_the_conservative_profile_of_a_backend_differs_by_its_name_alone() -> None:
    assert (DeviceProfile.conservative(), DeviceProfile.conservative("null")) == (
        DeviceProfile(),
        DeviceProfile(backend="null"),
    )


def test_a_profile_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        DeviceProfile().backend = "other"  # type: ignore[misc]


def test_timing_qualities_have_upstreams_names_and_scores() -> None:
    assert {quality.value: quality.score for quality in DeviceTimingQuality} == {
        "host_only": 0,
        "host_enqueue_wait": 1,
        "device_timestamps": 2,
        "hardware_counters": 3,
    }


def test_a_device_with_all_features_on_gives_this_profile() -> None:
    expected = DeviceProfile(
        backend="kompute",
        supports_subgroup_ops=True,
        supports_specialization_constants=True,
        supports_f16=True,
        supports_bf16=True,
        supports_f64=True,
        supports_tensor_cores=True,
        has_mul_high=True,
        has_subgroup_shuffle=True,
        has_shared_memory=True,
        max_native_int_width=64,
        max_workgroup_size=(1024, 512, 64),
        max_invocations_per_workgroup=512,
        max_shared_memory_bytes=32768,
        max_storage_buffer_binding_size=2**27,
        subgroup_size=32,
        compute_units=132,
        timing_quality=DeviceTimingQuality.DEVICE_TIMESTAMPS,
        supports_device_timestamps=True,
    )
    assert DeviceProfile.from_physical_device(FULL, ALL_FEATURES, backend="kompute") == expected


def test_features_that_are_not_switched_on_do_not_count() -> None:
    everything = DeviceProfile.from_physical_device(FULL, ALL_FEATURES)
    nothing = replace(
        everything,
        supports_f16=False,
        supports_bf16=False,
        supports_f64=False,
        supports_tensor_cores=False,
        max_native_int_width=32,
    )
    assert DeviceProfile.from_physical_device(FULL) == nothing


def test_features_that_the_device_lacks_do_not_count() -> None:
    assert DeviceProfile.from_physical_device(DEVICE, ALL_FEATURES) == DeviceProfile.from_physical_device(FULL)


def test_a_device_of_which_vulkan_tells_nothing_gives_little_more_than_the_conservative_profile() -> None:
    limits = replace(
        LIMITS,
        max_compute_shared_memory_size=0,
        max_compute_work_group_size=(1, 1, 1),
        max_compute_work_group_invocations=1,
        max_storage_buffer_range=0,
        timestamp_period_ns=0.0,
    )
    bare = device(
        limits=limits,
        queue_families=(),
        subgroup_size=0,
        subgroup_stages=0,
        subgroup_operations=0,
        compute_units=0,
        cooperative_matrices=(),
        cooperative_matrix_stages=0,
    )
    assert DeviceProfile.from_physical_device(bare, ALL_FEATURES) == DeviceProfile(
        supports_specialization_constants=True,
        has_mul_high=True,
        timing_quality=DeviceTimingQuality.HOST_ENQUEUE_WAIT,
    )


@pytest.mark.parametrize(
    ("family", "period_ns", "expected"),
    [
        (QueueFamily(0, COMPUTE, 1, 64), 1.0, (True, DeviceTimingQuality.DEVICE_TIMESTAMPS)),
        (QueueFamily(0, COMPUTE, 1, 0), 1.0, (False, DeviceTimingQuality.HOST_ENQUEUE_WAIT)),
        (QueueFamily(0, COMPUTE, 1, 64), 0.0, (False, DeviceTimingQuality.HOST_ENQUEUE_WAIT)),
    ],
)
def test_timestamps_need_bits_in_the_queue_for_compute_and_a_period(
    family: QueueFamily,
    period_ns: float,
    expected: tuple[bool, DeviceTimingQuality],
) -> None:
    timed = device(queue_families=(family,), limits=replace(LIMITS, timestamp_period_ns=period_ns))
    found = DeviceProfile.from_physical_device(timed)
    assert (found.supports_device_timestamps, found.timing_quality) == expected


@pytest.mark.parametrize(
    ("operations", "stages", "expected"),
    [
        (0xFF, 0x20, (True, True)),
        (BASIC | ARITHMETIC | BALLOT | SHUFFLE, 0x20, (True, True)),
        (BASIC | ARITHMETIC | BALLOT, 0x20, (False, False)),
        (BASIC | VOTE | SHUFFLE, 0x20, (False, True)),
        (SHUFFLE, 0x20, (False, False)),
        (0xFF, 0x10, (False, False)),
        (0, 0x20, (False, False)),
    ],
)
def test_subgroup_operations_count_whole_and_in_the_compute_stage(
    operations: int, stages: int, expected: tuple[bool, bool]
) -> None:
    found = DeviceProfile.from_physical_device(device(subgroup_operations=operations, subgroup_stages=stages))
    assert (found.supports_subgroup_ops, found.has_subgroup_shuffle) == expected


NEEDS = {
    PipelineFeatureFlags.F16: {"shaderFloat16", "storageBuffer16BitAccess"},
    PipelineFeatureFlags.BF16: {"shaderBFloat16Type", "storageBuffer16BitAccess"},
    PipelineFeatureFlags.TENSOR_CORES: {"cooperativeMatrix"},
}
PLAIN = PipelineFeatureFlags.SUBGROUP_OPS | PipelineFeatureFlags.ASYNC_COMPUTE | PipelineFeatureFlags.PUSH_CONSTANTS


@pytest.mark.parametrize("flag", NEEDS)
def test_a_flag_is_there_with_all_the_features_it_needs_and_not_with_one_less(flag: PipelineFeatureFlags) -> None:
    less = [feature_flags(FULL, NEEDS[flag] - {feature}) for feature in sorted(NEEDS[flag])]
    assert (feature_flags(FULL, NEEDS[flag]), less) == (PLAIN | flag, [PLAIN] * len(NEEDS[flag]))


def test_what_the_layer_switches_on_has_the_number_types_of_its_profile() -> None:
    extensions = frozenset({"VK_KHR_shader_bfloat16", "VK_KHR_cooperative_matrix"})
    having = replace(FULL, extensions=extensions)
    found = DeviceProfile.from_physical_device(having, wanted_features(having))
    assert (found.supports_f16, found.supports_bf16, found.supports_f64, found.supports_tensor_cores) == (True,) * 4


@pytest.mark.parametrize("lack", [{"cooperative_matrices": ()}, {"cooperative_matrix_stages": 0x10}])
def test_a_matrix_feature_without_shapes_for_compute_gives_no_tensor_cores(lack: dict[str, object]) -> None:
    without = device(features=ALL_FEATURES, **lack)
    found = DeviceProfile.from_physical_device(without, ALL_FEATURES).supports_tensor_cores
    assert (feature_flags(without, {"cooperativeMatrix"}), found) == (PLAIN, False)


@pytest.mark.parametrize(
    ("families", "expected"),
    [
        ((QueueFamily(0, GRAPHICS_COMPUTE, 1, 64),), False),
        ((QueueFamily(0, GRAPHICS_COMPUTE, 1, 64), QueueFamily(1, COMPUTE, 1, 64)), True),
        ((), False),
    ],
)
def test_compute_is_asynchronous_on_a_queue_that_does_not_draw(families: tuple[QueueFamily, ...], expected: bool) -> None:  # noqa: FBT001 -- a parameter of the test
    found = feature_flags(device(queue_families=families))
    assert (PipelineFeatureFlags.ASYNC_COMPUTE in found) is expected


def test_a_device_without_push_constants_has_no_such_flag() -> None:
    without = device(limits=replace(LIMITS, max_push_constants_size=0))
    assert feature_flags(without) == PLAIN & ~PipelineFeatureFlags.PUSH_CONSTANTS


def test_what_validation_asks_comes_out_of_the_profile() -> None:
    full, none = DeviceProfile.from_physical_device(FULL, ALL_FEATURES), DeviceProfile()
    assert (full.validation_capabilities(), none.validation_capabilities()) == (
        {"native_f16": True, "warp_shuffle": True, "tensor_int": True, "transcendental_polynomial": True},
        {"native_f16": False, "warp_shuffle": False, "tensor_int": False, "transcendental_polynomial": True},
    )


def test_what_tuning_asks_are_the_numbers_of_the_profile() -> None:
    assert DeviceProfile.from_physical_device(FULL, ALL_FEATURES).adapter_caps() == NUMERIC
