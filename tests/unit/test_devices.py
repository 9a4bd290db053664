"""Devices as plain facts, and what is said when there are none."""

from __future__ import annotations

from dataclasses import asdict, astuple, replace
from typing import TYPE_CHECKING, Any

import pytest
from literals import DEVICE, device, refusal

from vyre_driver.errors import VulkanUnavailable
from vyre_driver.vulkan import (
    CooperativeMatrix2Limits,
    CooperativeMatrixShape,
    FlexibleMatrixShape,
    MemoryBudget,
    MemoryType,
    _vulkan,
    enumerate_devices,
)
from vyre_driver.vulkan.devices import DeviceLimits, DeviceType, PhysicalDevice, QueueFamily
from vyre_driver.vulkan.version import format_version

if TYPE_CHECKING:
    from collections.abc import Callable

GRAPHICS, COMPUTE, TRANSFER = 1, 2, 4
# As Vulkan numbers the shape of literals.DEVICE: float16 is 0, float32 is 1, a subgroup is scope 3.
MATRICES = [(16, 16, 16, 0, 0, 1, 1, 0, 3)]
FLEXIBLE = [(16, 16, 16, 0, 0, 1, 1, 0, 2, 128)]
DRIVER_FIX = (
    "install a Vulkan driver (on Debian mesa-vulkan-drivers brings a software one) "
    "or check what VK_DRIVER_FILES and VK_ICD_FILENAMES name"
)
LOADER_FIX = "run again with VK_LOADER_DEBUG=error to see why, and check what VK_DRIVER_FILES and VK_ICD_FILENAMES name"


def facts(given: PhysicalDevice) -> dict[str, Any]:
    """A device as the probe tells it: plain data, and no index."""
    plain = asdict(given)
    del plain["index"]
    families = [(one.index, one.flags, one.count, one.timestamp_valid_bits) for one in given.queue_families]
    return {
        **plain,
        "device_type": given.device_type.value,
        "queue_families": families,
        "memory_heaps": list(given.memory_heaps),
        "memory_types": [astuple(one) for one in given.memory_types],
        "memory_budget": [astuple(one) for one in given.memory_budget],
        "subgroup_size_control": astuple(given.subgroup_size_control) if given.subgroup_size_control else None,
        "pipeline_binary": astuple(given.pipeline_binary) if given.pipeline_binary else None,
        "cooperative_matrices": MATRICES if given.cooperative_matrices else [],
        "flexible_matrices": FLEXIBLE if given.flexible_matrices else [],
        "cooperative_matrix2": astuple(given.cooperative_matrix2) if given.cooperative_matrix2 else None,
    }


def enumerated(monkeypatch: pytest.MonkeyPatch, **changes: object) -> PhysicalDevice:
    """The device that the example's facts with these changes become."""
    monkeypatch.setattr(_vulkan, "probe", lambda: (DEVICE.loader_version, [{**facts(DEVICE), **changes}]))
    return enumerate_devices()[0]


def raiser(error: Exception) -> Callable[[], object]:
    def probe() -> object:
        raise error

    return probe


def test_enumerated_devices_are_what_the_probe_tells_in_its_order(monkeypatch: pytest.MonkeyPatch) -> None:
    devices = (DEVICE, device(index=1, name="Other GPU", pci=None))
    monkeypatch.setattr(_vulkan, "probe", lambda: (DEVICE.loader_version, [facts(one) for one in devices]))
    assert enumerate_devices() == devices


@pytest.mark.parametrize(("number", "expected"), [(0, DeviceType.OTHER), (3, DeviceType.VIRTUAL), (4, DeviceType.CPU)])
def test_a_device_type_is_vulkans_number(monkeypatch: pytest.MonkeyPatch, number: int, expected: DeviceType) -> None:
    monkeypatch.setattr(_vulkan, "probe", lambda: (1 << 22, [{**facts(DEVICE), "device_type": number}]))
    assert enumerate_devices()[0].device_type is expected


def test_a_device_type_that_is_newer_than_this_package_needs_the_permission_of_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_vulkan, "probe", lambda: (1 << 22, [{**facts(DEVICE), "device_type": 7}]))
    assert enumerate_devices()[0].is_software is True


@pytest.mark.parametrize(
    ("error", "problem", "fix"),
    [
        (
            _vulkan.LoaderMissing("libvulkan.so.1: cannot open shared object file"),
            "the Vulkan loader libvulkan.so.1 cannot be opened (libvulkan.so.1: cannot open shared object file)",
            "install the loader (on Debian: apt-get install libvulkan1)",
        ),
        (_vulkan.InstanceFailed("vkCreateInstance", -9), "the Vulkan loader found no driver", DRIVER_FIX),
        (
            _vulkan.InstanceFailed("vkCreateInstance", -3),
            "vkCreateInstance failed with VkResult -3",
            LOADER_FIX,
        ),
        (
            _vulkan.InstanceFailed("vkEnumeratePhysicalDevices", -1),
            "vkEnumeratePhysicalDevices failed with VkResult -1",
            LOADER_FIX,
        ),
    ],
)
def test_a_probe_that_fails_is_said_with_what_helps(
    monkeypatch: pytest.MonkeyPatch, error: Exception, problem: str, fix: str
) -> None:
    monkeypatch.setattr(_vulkan, "probe", raiser(error))
    assert refusal(enumerate_devices) == (VulkanUnavailable, 2001, f"{problem}. Fix: {fix}.")


def test_a_probe_that_finds_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_vulkan, "probe", lambda: (1 << 22, []))
    message = f"the Vulkan drivers found no device. Fix: {DRIVER_FIX}."
    assert refusal(enumerate_devices) == (VulkanUnavailable, 2001, message)


def test_a_failed_instance_tells_its_call_and_result() -> None:
    error = _vulkan.InstanceFailed("vkCreateInstance", -3)
    assert (error.call, error.result, str(error)) == ("vkCreateInstance", -3, "vkCreateInstance returned -3")


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        (0, "0.0.0"),
        (1 << 22, "1.0.0"),
        (1 << 22 | 3 << 12 | 230, "1.3.230"),
        (127 << 22 | 1023 << 12 | 4095, "127.1023.4095"),
        (1 << 29 | 1 << 22 | 2 << 12 | 3, "1.2.3"),
    ],
)
def test_a_version_is_written_as_people_write_it(version: int, expected: str) -> None:
    assert format_version(version) == expected


def test_a_device_writes_its_api_version() -> None:
    assert DEVICE.api == "1.3.230"


@pytest.mark.parametrize(
    ("pci", "expected"),
    [
        ((0, 0x65, 0, 0), "0000:65:00.0"),
        ((0x1234, 0xAB, 0x1F, 7), "1234:ab:1f.7"),
        ((0x12345, 0, 0, 0), "12345:00:00.0"),
        (None, None),
    ],
)
def test_a_pci_address_is_written_as_linux_writes_it(pci: tuple[int, int, int, int] | None, expected: str | None) -> None:
    assert device(pci=pci).pci_address == expected


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ([GRAPHICS | COMPUTE | TRANSFER, COMPUTE | TRANSFER], 1),
        ([COMPUTE, GRAPHICS | COMPUTE], 0),
        ([TRANSFER, GRAPHICS | COMPUTE, GRAPHICS | COMPUTE], 1),
        ([GRAPHICS | COMPUTE, COMPUTE, COMPUTE], 1),
        ([GRAPHICS, TRANSFER], None),
        ([], None),
    ],
)
def test_the_compute_family_is_a_compute_only_one_else_the_first_that_computes(flags: list[int], expected: int | None) -> None:
    families = tuple(QueueFamily(index, one, 1, 64) for index, one in enumerate(flags))
    found = device(queue_families=families).compute_family
    assert found == (None if expected is None else families[expected])


def test_a_family_without_queues_is_passed_over() -> None:
    families = (QueueFamily(0, GRAPHICS | COMPUTE, 1, 64), QueueFamily(1, COMPUTE, 0, 64))
    assert device(queue_families=families).compute_family == families[0]


@pytest.mark.parametrize(
    ("heaps", "expected"),
    [(((80, 1), (64, 0)), 80), (((80, 1), (200, 0), (90, 3)), 90), (((64, 0),), 0), ((), 0)],
)
def test_device_local_memory_is_the_largest_local_heap(heaps: tuple[tuple[int, int], ...], expected: int) -> None:
    assert device(memory_heaps=heaps).device_local_bytes == expected


def test_a_device_of_vulkan_1_0_without_extensions_has_nothing_that_came_later(monkeypatch: pytest.MonkeyPatch) -> None:
    later = {
        "max_memory_allocation_size": 0,
        "max_per_set_descriptors": 0,
        "max_buffer_size": 0,
        "robust_storage_buffer_access_size_alignment": 0,
    }
    old: dict[str, Any] = {
        "api_version": 1 << 22,
        "driver_id": 0,
        "driver_name": "",
        "driver_info": "",
        "conformance": (0, 0, 0, 0),
        "driver_uuid": bytes(16),
        "device_uuid": bytes(16),
        "pci": None,
        "subgroup_size": 0,
        "subgroup_stages": 0,
        "subgroup_operations": 0,
        "subgroup_size_control": None,
        "compute_units": 0,
        "cooperative_matrix_stages": 0,
        "cooperative_matrix2": None,
        "pipeline_binary": None,
        "extensions": frozenset(),
        "features": frozenset({"shaderInt64"}),
    }
    plain: dict[str, Any] = {"limits": {**asdict(DEVICE.limits), **later}, "memory_budget": [], "cooperative_matrices": []}
    plain["flexible_matrices"] = []
    found = enumerated(monkeypatch, **old, **plain)
    limits = DeviceLimits(**plain["limits"])
    expected = device(**old, limits=limits, cooperative_matrices=(), flexible_matrices=())
    assert (found, found.memory_budget, found.api, found.conformance_version, found.pci_address) == (
        expected,
        (),
        "1.0.0",
        None,
        None,
    )


def test_memory_types_and_budget_are_the_devices_own(monkeypatch: pytest.MonkeyPatch) -> None:
    found = enumerated(monkeypatch, memory_types=[(0x1, 0), (0x6, 1)], memory_budget=[(100, 40), (10, 20)])
    assert (found.memory_types, found.memory_budget) == (
        (MemoryType(0x1, 0), MemoryType(0x6, 1)),
        (MemoryBudget(100, 40), MemoryBudget(10, 20)),
    )


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (0x0, (False, False, False, False)),
        (0x1, (True, False, False, False)),
        (0x2, (False, True, False, False)),
        (0x4, (False, False, True, False)),
        (0x8, (False, False, False, True)),
        (0xF0, (False, False, False, False)),
    ],
)
def test_a_memory_type_says_what_its_flags_say(flags: int, expected: tuple[bool, ...]) -> None:
    found = MemoryType(flags, 0)
    assert (found.device_local, found.host_visible, found.host_coherent, found.host_cached) == expected


@pytest.mark.parametrize(("budget", "used", "left"), [(100, 40, 60), (100, 100, 0), (10, 20, 0), (0, 0, 0)])
def test_what_is_left_of_a_budget_is_never_below_nothing(budget: int, used: int, left: int) -> None:
    assert MemoryBudget(budget, used).left_bytes == left


def test_a_device_is_the_same_whatever_is_left_of_its_memory() -> None:
    busy = replace(DEVICE, memory_budget=(MemoryBudget(1, 1),))
    assert (busy == DEVICE, hash(busy) == hash(DEVICE)) == (True, True)


@pytest.mark.parametrize(
    ("heaps", "budget", "expected"),
    [
        (((80, 1), (64, 0)), [(70, 10), (64, 0)], 60),
        (((80, 1), (64, 0), (90, 1)), [(70, 10), (64, 0), (50, 1)], 49),
        (((64, 0),), [(64, 0)], None),
        (((80, 1), (64, 0)), [], None),
    ],
)
def test_what_is_left_of_device_local_memory_is_that_of_the_largest_local_heap(
    heaps: tuple[tuple[int, int], ...], budget: list[tuple[int, int]], expected: int | None
) -> None:
    told = tuple(MemoryBudget(*one) for one in budget)
    assert device(memory_heaps=heaps, memory_budget=told).device_local_left_bytes == expected


def test_matrix_shapes_are_named_in_vulkans_order(monkeypatch: pytest.MonkeyPatch) -> None:
    shapes = [(16, 8, 32, 3, 7, 5, 9, 1, 3), (1, 2, 3, 0, 1, 2, 4, 0, 2), (4, 4, 4, 6, 8, 10, 1_000_141_000, 0, 1)]
    eights = [(8, 8, 8, 1_000_491_002, 1_000_491_003, 11, 1, 0, 5), (1, 1, 1, 0, 0, 0, 0, 0, 4)]
    assert enumerated(monkeypatch, cooperative_matrices=shapes + eights).cooperative_matrices == (
        CooperativeMatrixShape(16, 8, 32, "sint8", "uint8", "sint32", "uint32", saturating=True, scope="subgroup"),
        CooperativeMatrixShape(1, 2, 3, "float16", "float32", "float64", "sint16", saturating=False, scope="workgroup"),
        CooperativeMatrixShape(4, 4, 4, "sint64", "uint16", "uint64", "bfloat16", saturating=False, scope="device"),
        CooperativeMatrixShape(
            8, 8, 8, "float8_e4m3", "float8_e5m2", "component type 11", "float32", saturating=False, scope="queue family"
        ),
        CooperativeMatrixShape(1, 1, 1, "float16", "float16", "float16", "float16", saturating=False, scope="scope 4"),
    )


def test_flexible_shapes_and_their_limits_are_named_in_vulkans_order(monkeypatch: pytest.MonkeyPatch) -> None:
    told = [(16, 8, 32, 3, 7, 5, 9, 1, 2, 128), (1, 2, 3, 1_000_491_002, 1_000_141_000, 1, 0, 0, 3, 0)]
    found = enumerated(monkeypatch, flexible_matrices=told, cooperative_matrix2=(1024, 512, 4096))
    assert found.flexible_matrices == (
        FlexibleMatrixShape(16, 8, 32, "sint8", "uint8", "sint32", "uint32", True, "workgroup", 128),
        FlexibleMatrixShape(1, 2, 3, "float8_e4m3", "bfloat16", "float32", "float16", False, "subgroup", 0),
    )
    assert found.cooperative_matrix2 == CooperativeMatrix2Limits(
        workgroup_scope_max_workgroup_size=1024,
        flexible_dimensions_max_dimension=512,
        workgroup_scope_reserved_shared_memory=4096,
    )


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (COMPUTE | TRANSFER, True),
        (COMPUTE, True),
        (GRAPHICS | COMPUTE, False),
        (TRANSFER, False),
        (GRAPHICS, False),
        (0, False),
    ],
)
def test_a_compute_only_family_computes_and_does_not_draw(flags: int, expected: bool) -> None:  # noqa: FBT001 -- a parameter of the test
    assert QueueFamily(0, flags, 1, 64).compute_only is expected


@pytest.mark.parametrize(("conformance", "expected"), [((1, 3, 6, 0), "1.3.6.0"), ((0, 0, 0, 1), "0.0.0.1"), ((0,) * 4, None)])
def test_a_conformance_version_is_written_with_dots(conformance: tuple[int, int, int, int], expected: str | None) -> None:
    assert device(conformance=conformance).conformance_version == expected
