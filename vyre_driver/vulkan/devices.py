"""Physical devices as plain facts: enumerated without creating a device, and without kompute.

Source: Vulkan 1.3 ``VkPhysicalDeviceProperties2`` and the structures chained to it.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any

from vyre_driver.display.line import facts, one_line, table
from vyre_driver.errors import VulkanUnavailable
from vyre_driver.vulkan import _vulkan
from vyre_driver.vulkan.matrices import CooperativeMatrix2Limits, CooperativeMatrixShape, FlexibleMatrixShape
from vyre_driver.vulkan.version import format_version

_VK_ERROR_INCOMPATIBLE_DRIVER = -9
_VK_SHADER_STAGE_COMPUTE_BIT = 0x20
_VK_QUEUE_GRAPHICS_BIT = 0x1
_VK_QUEUE_COMPUTE_BIT = 0x2
_VK_MEMORY_HEAP_DEVICE_LOCAL_BIT = 0x1
_DEVICE_LOCAL, _HOST_VISIBLE, _HOST_COHERENT, _HOST_CACHED = 0x1, 0x2, 0x4, 0x8

_NO_DRIVER_FIX = (
    "install a Vulkan driver (on Debian mesa-vulkan-drivers brings a software one) "
    "or check what VK_DRIVER_FILES and VK_ICD_FILENAMES name"
)
# A manifest that is no JSON is VK_ERROR_OUT_OF_HOST_MEMORY to some loaders: only they know what is wrong.
_INSTANCE_FIX = "run again with VK_LOADER_DEBUG=error to see why, and check what VK_DRIVER_FILES and VK_ICD_FILENAMES name"


class DeviceType(enum.Enum):
    """``VkPhysicalDeviceType``."""

    OTHER = 0
    INTEGRATED = 1
    DISCRETE = 2
    VIRTUAL = 3
    CPU = 4


@dataclass(frozen=True, slots=True)
class DeviceLimits:
    """The device limits that concern compute work: sizes in bytes, work group counts and sizes along x, y and z.

    From ``VkPhysicalDeviceLimits``; the last four from ``VkPhysicalDeviceMaintenance3Properties`` (two),
    ``VkPhysicalDeviceMaintenance4Properties`` and ``VkPhysicalDeviceRobustness2PropertiesEXT``, and 0 where it does not tell.
    """

    max_storage_buffer_range: int
    max_push_constants_size: int
    max_per_stage_descriptor_storage_buffers: int
    max_compute_shared_memory_size: int
    max_compute_work_group_count: tuple[int, int, int]
    max_compute_work_group_invocations: int
    max_compute_work_group_size: tuple[int, int, int]
    timestamp_compute_and_graphics: bool
    timestamp_period_ns: float
    min_storage_buffer_offset_alignment: int
    min_memory_map_alignment: int
    non_coherent_atom_size: int
    max_memory_allocation_count: int
    max_memory_allocation_size: int
    max_per_set_descriptors: int
    max_buffer_size: int
    robust_storage_buffer_access_size_alignment: int


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

    @property
    def compute_only(self) -> bool:
        """Whether it computes and does not draw: such queues run beside the drawing ones."""
        return self.computes and not self.flags & _VK_QUEUE_GRAPHICS_BIT


@dataclass(frozen=True, slots=True)
class SubgroupSizeControl:
    """``VkPhysicalDeviceSubgroupSizeControlProperties``: the sizes a pipeline may ask for, in invocations.

    ``required_size_stages`` are ``VkShaderStageFlagBits`` (0x20: compute) of the stages that may ask.
    """

    min_size: int
    max_size: int
    max_compute_workgroup_subgroups: int
    required_size_stages: int


@dataclass(frozen=True, slots=True)
class PipelineBinaryProperties:
    """``VkPhysicalDevicePipelineBinaryPropertiesKHR``, member by member."""

    internal_cache: bool
    internal_cache_control: bool
    prefers_internal_cache: bool
    precompiled_internal_cache: bool
    compressed_data: bool


@dataclass(frozen=True, slots=True)
class MemoryType:
    """One kind of memory: ``flags`` are ``VkMemoryPropertyFlagBits``, ``heap`` is an index into the device's heaps."""

    flags: int
    heap: int

    @property
    def device_local(self) -> bool:
        """Whether it is the device's own."""
        return bool(self.flags & _DEVICE_LOCAL)

    @property
    def host_visible(self) -> bool:
        """Whether the host can map it."""
        return bool(self.flags & _HOST_VISIBLE)

    @property
    def host_coherent(self) -> bool:
        """Whether host and device see each other's writes without flushing."""
        return bool(self.flags & _HOST_COHERENT)

    @property
    def host_cached(self) -> bool:
        """Whether host reads go through the host's caches."""
        return bool(self.flags & _HOST_CACHED)


@dataclass(frozen=True, slots=True)
class MemoryBudget:
    """``VK_EXT_memory_budget``: bytes of a heap at the probe, what this process may have in all, and what it has already."""

    budget_bytes: int
    used_bytes: int

    @property
    def left_bytes(self) -> int:
        """Bytes that may still be allocated; other processes may take them first."""
        return max(0, self.budget_bytes - self.used_bytes)


@dataclass(frozen=True, slots=True, repr=False)
class PhysicalDevice:
    """One physical device as the loader shows it; ``index`` is its place in the loader's list.

    Texts and UUIDs are empty or zero where the device does not tell; ``api_version`` and ``driver_version`` are raw.
    ``features`` are the device features the layer knows, by Vulkan's names; ``loader_version`` is the loader's own.
    ``memory_heaps`` are pairs of bytes and ``VkMemoryHeapFlagBits``. ``memory_budget`` has one entry a heap, or none where the
    device does not tell; it changes from moment to moment and takes no part in comparisons. ``compute_units`` are streaming
    multiprocessors or their like, 0 where unknown. ``float_controls`` are the members of
    ``VkPhysicalDeviceFloatControlsProperties`` that are true, the two independences where they are not NONE.
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
    subgroup_size_control: SubgroupSizeControl | None
    compute_units: int
    limits: DeviceLimits
    queue_families: tuple[QueueFamily, ...]
    memory_heaps: tuple[tuple[int, int], ...]
    memory_types: tuple[MemoryType, ...]
    memory_budget: tuple[MemoryBudget, ...] = field(compare=False)
    cooperative_matrix_stages: int
    cooperative_matrices: tuple[CooperativeMatrixShape, ...]
    flexible_matrices: tuple[FlexibleMatrixShape, ...]
    cooperative_matrix2: CooperativeMatrix2Limits | None
    pipeline_binary: PipelineBinaryProperties | None
    float_controls: frozenset[str]
    extensions: frozenset[str]
    features: frozenset[str]
    loader_version: int

    def __repr__(self) -> str:
        """Return its index, name, kind, driver and UUID as one line."""
        parts = [f"{self.index}: {self.name!r}", self.kind, f"Vulkan {self.api}", f"driver {self.driver!r}"]
        return one_line("PhysicalDevice", *parts, f"uuid:{self.device_uuid.hex()}")

    def _repr_html_(self) -> str:
        return facts(self.name, dict(zip(_HEADINGS, _cells(self), strict=True)))

    @property
    def kind(self) -> str:
        """Its type in a word: ``discrete``; a CPU says that it is software."""
        return "cpu (software)" if self.is_software else self.device_type.name.lower()

    @property
    def driver(self) -> str:
        """Name and version of its driver, as the driver tells them."""
        return f"{self.driver_name} {self.driver_info}".strip()

    @property
    def is_software(self) -> bool:
        """Whether the device is a CPU pretending (llvmpipe, SwiftShader)."""
        return self.device_type is DeviceType.CPU

    @property
    def api(self) -> str:
        """The Vulkan version as people write it, for example ``1.3.230``."""
        return format_version(self.api_version)

    @property
    def conformance_version(self) -> str | None:
        """The version of the conformance tests that the driver passed, for example ``1.3.6.0``; None if it reports none."""
        return ".".join(map(str, self.conformance)) if any(self.conformance) else None

    @property
    def pci_address(self) -> str | None:
        """The PCI address as Linux writes it, for example ``0000:65:00.0``; None if the device does not report it."""
        if self.pci is None:
            return None
        domain, bus, device, function = self.pci
        return f"{domain:04x}:{bus:02x}:{device:02x}.{function:x}"

    def has_subgroup_operations(self, operations: int) -> bool:
        """Whether compute shaders have all of these subgroup operations (``VkSubgroupFeatureFlagBits``)."""
        in_compute = self.subgroup_stages & _VK_SHADER_STAGE_COMPUTE_BIT != 0
        return in_compute and self.subgroup_operations & operations == operations

    @property
    def has_cooperative_matrices(self) -> bool:
        """Whether compute shaders have a shape of cooperative matrices."""
        return bool(self.cooperative_matrices) and self.cooperative_matrix_stages & _VK_SHADER_STAGE_COMPUTE_BIT != 0

    def matrix_shapes(self, *, flexible: bool) -> tuple[CooperativeMatrixShape | FlexibleMatrixShape, ...]:
        """Return the shapes that compute shaders multiply, those of flexible sizes too where these are switched on."""
        if not self.cooperative_matrix_stages & _VK_SHADER_STAGE_COMPUTE_BIT:
            return ()
        return (*self.cooperative_matrices, *self.flexible_matrices) if flexible else self.cooperative_matrices

    @property
    def device_local_bytes(self) -> int:
        """Bytes in the largest device-local heap."""
        return max((size for size, flags in self.memory_heaps if flags & _VK_MEMORY_HEAP_DEVICE_LOCAL_BIT), default=0)

    @property
    def device_local_left_bytes(self) -> int | None:
        """Bytes of the largest device-local heap that were left at the probe; None if the device does not report it."""
        heaps = zip(self.memory_heaps, self.memory_budget, strict=False)
        local = [(size, budget.left_bytes) for (size, flags), budget in heaps if flags & _VK_MEMORY_HEAP_DEVICE_LOCAL_BIT]
        return max(local)[1] if local else None

    @property
    def compute_family(self) -> QueueFamily | None:
        """The queue family for compute: a compute-only one if there is one, else the first that computes."""
        computing = [family for family in self.queue_families if family.computes and family.count > 0]
        return min(computing, key=lambda family: (not family.compute_only, family.index), default=None)


class Devices(tuple[PhysicalDevice, ...]):
    """Devices in the loader's order: a tuple that shows them as lines, and in a notebook as a table."""

    __slots__ = ()

    def __repr__(self) -> str:
        """Return a line for each."""
        return f"({', '.join(map(repr, self))}{',' if len(self) == 1 else ''})".replace(">, <", ">,\n <")

    def _repr_html_(self) -> str:
        return table(map(_cells, self), head=_HEADINGS)


_HEADINGS = ("index", "name", "type", "Vulkan", "driver", "memory", "uuid")


def _cells(device: PhysicalDevice) -> tuple[object, ...]:
    memory = f"{device.device_local_bytes / 2**30:.1f} GiB"
    return device.index, device.name, device.kind, device.api, device.driver, memory, device.device_uuid.hex()


def loader_fix(said: str) -> str:
    """Return what helps where the dynamic linker has found no loader, or one that it cannot load."""
    file = said.partition(": ")[0]
    if file.startswith("/"):
        return f"remove {file} or its folder from LD_LIBRARY_PATH, or install the loader anew (on Debian: libvulkan1)"
    return "install the loader (on Debian: apt-get install libvulkan1)"


def enumerate_devices() -> tuple[PhysicalDevice, ...]:
    """Every physical device, in the loader's order; never empty.

    Raises
    ------
    VulkanUnavailable
        If libvulkan.so.1 cannot be opened, no driver is installed, or the drivers found no device.
    """
    try:
        loader_version, found = _vulkan.probe()
    except _vulkan.LoaderMissing as error:
        raise VulkanUnavailable(
            f"the Vulkan loader libvulkan.so.1 cannot be opened ({error})",
            fix=loader_fix(str(error)),
        ) from error
    except _vulkan.InstanceFailed as error:
        if error.result == _VK_ERROR_INCOMPATIBLE_DRIVER:
            raise VulkanUnavailable("the Vulkan loader found no driver", fix=_NO_DRIVER_FIX, result=error.result) from error
        raise VulkanUnavailable(
            f"{error.call} failed with VkResult {error.result}",
            fix=_INSTANCE_FIX,
            result=error.result,
        ) from error
    if not found:
        raise VulkanUnavailable("the Vulkan drivers found no device", fix=_NO_DRIVER_FIX)
    return Devices(_physical_device(index, loader_version, facts) for index, facts in enumerate(found))


def _physical_device(index: int, loader_version: int, facts: dict[str, Any]) -> PhysicalDevice:
    sizes, binary, matrix2 = facts["subgroup_size_control"], facts["pipeline_binary"], facts["cooperative_matrix2"]
    return PhysicalDevice(
        **{
            **facts,
            "index": index,
            "loader_version": loader_version,
            "device_type": DeviceType(min(facts["device_type"], DeviceType.CPU.value)),
            "subgroup_size_control": None if sizes is None else SubgroupSizeControl(*sizes),
            "limits": DeviceLimits(**facts["limits"]),
            "queue_families": tuple(QueueFamily(*family) for family in facts["queue_families"]),
            "memory_heaps": tuple(facts["memory_heaps"]),
            "memory_types": tuple(MemoryType(*one) for one in facts["memory_types"]),
            "memory_budget": tuple(MemoryBudget(*one) for one in facts["memory_budget"]),
            "cooperative_matrices": tuple(CooperativeMatrixShape.from_vulkan(one) for one in facts["cooperative_matrices"]),
            "flexible_matrices": tuple(FlexibleMatrixShape.from_vulkan(one) for one in facts["flexible_matrices"]),
            "cooperative_matrix2": None if matrix2 is None else CooperativeMatrix2Limits(*matrix2),
            "pipeline_binary": None if binary is None else PipelineBinaryProperties(*binary),
        }
    )
