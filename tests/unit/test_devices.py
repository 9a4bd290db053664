"""Devices as plain facts, and what is said when there are none."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import pytest
from literals import DEVICE, device, refusal

from vyre_driver.errors import VulkanUnavailable
from vyre_driver.vulkan import _vulkan, enumerate_devices
from vyre_driver.vulkan.devices import DeviceType, PhysicalDevice, QueueFamily, format_version

if TYPE_CHECKING:
    from collections.abc import Callable

GRAPHICS, COMPUTE, TRANSFER = 1, 2, 4
DRIVER_FIX = (
    "install a Vulkan driver (on Debian mesa-vulkan-drivers brings a software one) "
    "or check what VK_DRIVER_FILES and VK_ICD_FILENAMES name"
)


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
    }


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
            "run vulkaninfo to see what the driver says",
        ),
        (
            _vulkan.InstanceFailed("vkEnumeratePhysicalDevices", -1),
            "vkEnumeratePhysicalDevices failed with VkResult -1",
            "run vulkaninfo to see what the driver says",
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
