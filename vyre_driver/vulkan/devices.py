"""Physical devices as plain facts: enumerated without creating a device, and without kompute.

Source: Vulkan 1.3 ``VkPhysicalDeviceProperties2`` and the structures chained to it.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

from vyre_driver.errors import VulkanUnavailable
from vyre_driver.vulkan import _vulkan

_VK_ERROR_INCOMPATIBLE_DRIVER = -9
_VK_QUEUE_COMPUTE_BIT = 0x2
_VK_MEMORY_HEAP_DEVICE_LOCAL_BIT = 0x1

_NO_DRIVER_FIX = (
    "install a Vulkan driver (on Debian mesa-vulkan-drivers brings a software one) "
    "or check what VK_DRIVER_FILES and VK_ICD_FILENAMES name"
)


class DeviceType(enum.Enum):
    """``VkPhysicalDeviceType``."""

    OTHER = 0
    INTEGRATED = 1
    DISCRETE = 2
    VIRTUAL = 3
    CPU = 4


@dataclass(frozen=True, slots=True)
class DeviceLimits:
    """The members of ``VkPhysicalDeviceLimits`` that compute work meets; sizes in bytes, counts in workgroups."""

    max_storage_buffer_range: int
    max_push_constants_size: int
    max_per_stage_descriptor_storage_buffers: int
    max_compute_shared_memory_size: int
    max_compute_work_group_count: tuple[int, int, int]
    max_compute_work_group_invocations: int
    max_compute_work_group_size: tuple[int, int, int]
    timestamp_compute_and_graphics: bool
    timestamp_period_ns: float


@dataclass(frozen=True, slots=True)
class QueueFamily:
    """One entry of ``vkGetPhysicalDeviceQueueFamilyProperties``; ``flags`` are ``VkQueueFlagBits``."""

    index: int
    flags: int
    count: int
    timestamp_valid_bits: int

    @property
    def computes(self) -> bool:
        """Whether compute work may be submitted to it."""
        return bool(self.flags & _VK_QUEUE_COMPUTE_BIT)


@dataclass(frozen=True, slots=True)
class PhysicalDevice:
    """One physical device as the loader shows it; ``index`` is its place in the loader's list.

    Texts and UUIDs are empty or zero where the device does not tell; ``api_version`` and ``driver_version`` are raw.
    ``features`` are the device features the layer knows, by Vulkan's names; ``loader_version`` is the loader's own.
    """

    index: int
    name: str
    device_type: DeviceType
    vendor_id: int
    device_id: int
    api_version: int
    driver_version: int
    driver_id: int
    driver_name: str
    driver_info: str
    conformance: tuple[int, int, int, int]
    driver_uuid: bytes
    device_uuid: bytes
    pipeline_cache_uuid: bytes
    pci: tuple[int, int, int, int] | None
    subgroup_size: int
    subgroup_stages: int
    subgroup_operations: int
    limits: DeviceLimits
    queue_families: tuple[QueueFamily, ...]
    memory_heaps: tuple[tuple[int, int], ...]
    extensions: frozenset[str]
    features: frozenset[str]
    loader_version: int

    @property
    def is_software(self) -> bool:
        """Whether the device is a CPU pretending (llvmpipe, SwiftShader)."""
        return self.device_type is DeviceType.CPU

    @property
    def api(self) -> str:
        """The Vulkan version as people write it, for example ``1.3.230``."""
        return format_version(self.api_version)

    @property
    def pci_address(self) -> str | None:
        """The PCI address as Linux writes it, for example ``0000:65:00.0``; None where the device does not tell."""
        if self.pci is None:
            return None
        domain, bus, device, function = self.pci
        return f"{domain:04x}:{bus:02x}:{device:02x}.{function:x}"

    @property
    def device_local_bytes(self) -> int:
        """Bytes in the largest device-local heap."""
        return max((size for size, flags in self.memory_heaps if flags & _VK_MEMORY_HEAP_DEVICE_LOCAL_BIT), default=0)

    @property
    def compute_family(self) -> QueueFamily | None:
        """The queue family for compute: a compute-only one if there is one, else the first that computes."""
        computing = [family for family in self.queue_families if family.computes and family.count > 0]
        return min(computing, key=lambda family: (family.flags & 0x1, family.index), default=None)


def format_version(version: int) -> str:
    """Return ``major.minor.patch`` of a packed Vulkan version number (Vulkan 1.3, "Version Numbers")."""
    return f"{version >> 22 & 0x7F}.{version >> 12 & 0x3FF}.{version & 0xFFF}"


def enumerate_devices() -> tuple[PhysicalDevice, ...]:
    """Every physical device, in the loader's order; never empty.

    Raises
    ------
    VulkanUnavailable
        2001 if libvulkan.so.1 cannot be opened, no driver is installed, or the drivers found no device.
    """
    try:
        loader_version, found = _vulkan.probe()
    except _vulkan.LoaderMissing as error:
        raise VulkanUnavailable(
            f"the Vulkan loader libvulkan.so.1 cannot be opened ({error})",
            fix="install the loader (on Debian: apt-get install libvulkan1)",
        ) from error
    except _vulkan.InstanceFailed as error:
        if error.result == _VK_ERROR_INCOMPATIBLE_DRIVER:
            raise VulkanUnavailable("the Vulkan loader found no driver", fix=_NO_DRIVER_FIX, result=error.result) from error
        raise VulkanUnavailable(
            f"{error.call} failed with VkResult {error.result}",
            fix="run vulkaninfo to see what the driver says",
            result=error.result,
        ) from error
    if not found:
        raise VulkanUnavailable("the Vulkan drivers found no device", fix=_NO_DRIVER_FIX)
    return tuple(_physical_device(index, loader_version, facts) for index, facts in enumerate(found))


def _physical_device(index: int, loader_version: int, facts: dict[str, Any]) -> PhysicalDevice:
    return PhysicalDevice(
        **{
            **facts,
            "index": index,
            "loader_version": loader_version,
            "device_type": DeviceType(min(facts["device_type"], DeviceType.CPU.value)),
            "limits": DeviceLimits(**facts["limits"]),
            "queue_families": tuple(QueueFamily(*family) for family in facts["queue_families"]),
            "memory_heaps": tuple(facts["memory_heaps"]),
        }
    )
