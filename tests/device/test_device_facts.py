"""What real devices tell the probe: what Vulkan promises of any, what kompute reads of the same one, what lavapipe says."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from lacking_devices import lack_features

from vyre_driver import Driver
from vyre_driver.identity import PipelineFeatureFlags
from vyre_driver.spirv.shipped import shipped_module
from vyre_driver.target.profile import DeviceProfile, DeviceTimingQuality, feature_flags
from vyre_driver.vulkan import enumerate_devices
from vyre_driver.vulkan.layer import enable

if TYPE_CHECKING:
    from collections.abc import Callable

    from vyre_driver.vulkan import PhysicalDevice

pytestmark = pytest.mark.device

LAVAPIPE = 13
X, Y = np.array([1, 2], np.float32), np.array([3, 4], np.float32)
API_1_1 = 1 << 22 | 1 << 12


@pytest.fixture
def lavapipe() -> PhysicalDevice:
    """The software device of Mesa."""
    found = [device for device in enumerate_devices() if device.driver_id == LAVAPIPE]
    if not found:
        pytest.skip("no lavapipe")
    return found[0]


def power_of_two(number: int) -> int:
    """The number, which must be one."""
    assert number > 0
    assert number & (number - 1) == 0
    return number


def test_the_devices_are_the_same_each_time_they_are_asked() -> None:
    assert enumerate_devices() == enumerate_devices()


def broken(checks: dict[str, bool]) -> list[str]:
    """The promises that do not hold."""
    return [promise for promise, holds in checks.items() if not holds]


def memory_promises(device: PhysicalDevice) -> dict[str, bool]:
    kinds = device.memory_types
    return {
        "types are of heaps that exist": all(kind.heap < len(device.memory_heaps) for kind in kinds),
        "one type is visible and coherent": any(kind.host_visible and kind.host_coherent for kind in kinds),
        "one type is device local": any(kind.device_local for kind in kinds),
        "a budget is of all heaps": len(device.memory_budget) in {0, len(device.memory_heaps)},
        "a heap is device local": device.device_local_bytes > 0,
    }


def limit_promises(device: PhysicalDevice) -> dict[str, bool]:
    limits = device.limits
    since_1_1 = device.api_version >= API_1_1
    return {
        "storage buffer": limits.max_storage_buffer_range >= 2**27,
        "push constants": limits.max_push_constants_size >= 128,
        "storage buffers a stage": limits.max_per_stage_descriptor_storage_buffers >= 4,
        "shared memory": limits.max_compute_shared_memory_size >= 16384,
        "workgroups": min(limits.max_compute_work_group_count) >= 65535,
        "invocations": limits.max_compute_work_group_invocations >= 128,
        "allocations": limits.max_memory_allocation_count >= 4096,
        "allocation": limits.max_memory_allocation_size >= 2**30 or not since_1_1,
        "descriptors a set": limits.max_per_set_descriptors >= 1024 or not since_1_1,
        "mapped memory": limits.min_memory_map_alignment >= 64,
        "offsets": power_of_two(limits.min_storage_buffer_offset_alignment) <= 256,
        "atoms": power_of_two(limits.non_coherent_atom_size) <= 256,
    }


def subgroup_promises(device: PhysicalDevice) -> dict[str, bool]:
    sizes = device.subgroup_size_control
    if sizes is None:
        return {}
    return {
        "within bounds": sizes.min_size <= device.subgroup_size <= sizes.max_size,
        "at most 128": 1 <= power_of_two(sizes.min_size) <= power_of_two(sizes.max_size) <= 128,
        "several a workgroup": sizes.max_compute_workgroup_subgroups > 0,
    }


def matrix_promises(device: PhysicalDevice) -> dict[str, bool]:
    has = "cooperativeMatrix" in device.features
    return {
        "shapes": bool(device.cooperative_matrices) is has,
        "stages": bool(device.cooperative_matrix_stages) is has,
    }


@pytest.mark.parametrize("promises", [memory_promises, limit_promises, subgroup_promises, matrix_promises])
def test_every_device_keeps_what_vulkan_promises(promises: Callable[[PhysicalDevice], dict[str, bool]]) -> None:
    devices = enumerate_devices()
    assert {device.name: broken(promises(device)) for device in devices} == {device.name: [] for device in devices}


def test_kompute_reads_the_same_facts_of_the_device_that_it_opened(driver: Driver) -> None:
    told = driver.context.device.manager.get_device_properties()
    device = driver.device
    profile = DeviceProfile.from_physical_device(device, driver.context.device.features, backend="kompute")
    assert (
        device.name,
        device.limits.max_compute_work_group_count,
        profile.max_invocations_per_workgroup,
        profile.max_workgroup_size,
    ) == (
        told["device_name"],
        tuple(told["max_work_group_count"]),
        told["max_work_group_invocations"],
        tuple(told["max_work_group_size"]),
    )


def test_lavapipe_tells_this_of_itself(lavapipe: PhysicalDevice) -> None:
    assert (
        lavapipe.vendor_id,
        lavapipe.device_id,
        lavapipe.is_software,
        lavapipe.driver_name,
        lavapipe.driver_uuid,
        lavapipe.pci,
        lavapipe.compute_units,
        [(family.flags & 0x7, family.count, family.timestamp_valid_bits) for family in lavapipe.queue_families],
        len(lavapipe.memory_heaps),
        lavapipe.limits.timestamp_period_ns,
    ) == (0x10005, 0, True, "llvmpipe", b"llvmpipeUUID\0\0\0\0", None, 0, [(0x7, 1, 64)], 1, 1.0)


def test_lavapipe_gives_this_profile(lavapipe: PhysicalDevice) -> None:
    features = enable.wanted_features(lavapipe)
    expected = DeviceProfile(
        backend="kompute",
        supports_subgroup_ops=True,
        supports_specialization_constants=True,
        supports_f16=True,
        supports_f64=True,
        supports_tensor_cores="cooperativeMatrix" in features,  # since Mesa 24 or so
        has_mul_high=True,
        has_subgroup_shuffle=True,
        has_shared_memory=True,
        max_native_int_width=64,
        max_workgroup_size=(1024, 1024, 1024),
        max_invocations_per_workgroup=1024,
        max_shared_memory_bytes=32768,
        max_storage_buffer_binding_size=lavapipe.limits.max_storage_buffer_range,
        subgroup_size=lavapipe.subgroup_size,
        timing_quality=DeviceTimingQuality.DEVICE_TIMESTAMPS,
        supports_device_timestamps=True,
    )
    flags = PipelineFeatureFlags.SUBGROUP_OPS | PipelineFeatureFlags.F16 | PipelineFeatureFlags.PUSH_CONSTANTS
    if "cooperativeMatrix" in features:
        flags |= PipelineFeatureFlags.TENSOR_CORES
    found = DeviceProfile.from_physical_device(lavapipe, features, backend="kompute")
    assert (found, feature_flags(lavapipe, features)) == (expected, flags)


def test_a_profile_has_no_types_that_need_a_feature_of_another_device(monkeypatch: pytest.MonkeyPatch) -> None:
    lack_features(monkeypatch)
    with Driver() as opened:
        found = DeviceProfile.from_physical_device(opened.device, opened.context.device.features)
    asked = (found.supports_f16, found.supports_bf16, found.supports_f64, found.supports_tensor_cores)
    assert (asked, found.max_native_int_width) == ((False,) * 4, 32)


def test_features_of_an_extension_are_switched_on_when_they_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = ("robustBufferAccess", "robustBufferAccess2", "nullDescriptor")
    monkeypatch.setattr(enable, "SHADER_FEATURES", asked)
    monkeypatch.setattr(enable, "CLOCK_FEATURES", ())
    with Driver() as opened:
        if not {"robustBufferAccess2", "nullDescriptor"} <= opened.device.features:
            pytest.skip("no VK_EXT_robustness2")
        report = opened.context.device.report()
        out = opened.compile(shipped_module("saxpy"))(X, Y, push_constants={"alpha": 2, "count": 2})
        assert (report["features"], report["counters"]["features_enabled"], list(out)) == (sorted(asked), 3, [5.0, 8.0])
