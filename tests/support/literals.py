"""Literal values that many unit tests start from, and how a refusal is compared whole."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from vyre_driver.errors import VyreError
from vyre_driver.identity import PipelineCacheKey, PipelineFeatureFlags, device_fields
from vyre_driver.identity.manifest import encode_manifest
from vyre_driver.spirv.interface import LocalSize
from vyre_driver.spirv.layout import Element, Scalar
from vyre_driver.spirv.reflection import BufferInterface, Reflection
from vyre_driver.vulkan.devices import (
    DeviceLimits,
    DeviceType,
    MemoryBudget,
    MemoryType,
    PhysicalDevice,
    PipelineBinaryProperties,
    QueueFamily,
    SubgroupSizeControl,
)
from vyre_driver.vulkan.matrices import CooperativeMatrix2Limits, CooperativeMatrixShape, FlexibleMatrixShape

if TYPE_CHECKING:
    from collections.abc import Callable

U32 = Scalar("u", 32)
I32 = Scalar("i", 32)
F32 = Scalar("f", 32)
BOOL = Scalar("b", 32)

FLOATS = Element(4, F32, 1)
UINTS = Element(4, U32, 1)

LIMITS = DeviceLimits(
    max_storage_buffer_range=2**27,
    max_push_constants_size=128,
    max_per_stage_descriptor_storage_buffers=8,
    max_compute_shared_memory_size=32768,
    max_compute_work_group_count=(65535, 65534, 65533),
    max_compute_work_group_invocations=512,
    max_compute_work_group_size=(1024, 512, 64),
    timestamp_compute_and_graphics=True,
    timestamp_period_ns=1.0,
    min_storage_buffer_offset_alignment=16,
    min_memory_map_alignment=64,
    non_coherent_atom_size=64,
    max_memory_allocation_count=4096,
    max_memory_allocation_size=2**32 - 1,
    max_per_set_descriptors=1024,
    max_buffer_size=2**40,
    robust_storage_buffer_access_size_alignment=4,
)

# The least that Vulkan promises, a CPU device, a large GPU.
SMALLEST = replace(
    LIMITS,
    max_compute_work_group_size=(128, 128, 64),
    max_compute_work_group_invocations=128,
    max_compute_shared_memory_size=16384,
)
SOFTWARE = replace(LIMITS, max_compute_work_group_size=(1024, 1024, 1024), max_compute_work_group_invocations=1024)
LARGE = replace(SOFTWARE, max_compute_shared_memory_size=49152)

DEVICE = PhysicalDevice(
    index=0,
    name="Example GPU 9000",
    device_type=DeviceType.DISCRETE,
    vendor_id=0x10DE,
    device_id=0x2330,
    api_version=1 << 22 | 3 << 12 | 230,
    driver_version=0x2230_0000,
    driver_id=4,
    driver_name="Example",
    driver_info="545.29.06",
    conformance=(1, 3, 6, 0),
    driver_uuid=bytes(range(16)),
    device_uuid=bytes(range(16, 32)),
    pipeline_cache_uuid=bytes(range(32, 48)),
    pci=(0, 0x65, 0, 0),
    subgroup_size=32,
    subgroup_stages=0x20,
    subgroup_operations=0xFF,
    subgroup_size_control=SubgroupSizeControl(32, 64, 16, 0x20),
    compute_units=132,
    limits=LIMITS,
    queue_families=(QueueFamily(0, 0xF, 16, 64), QueueFamily(1, 0x6, 8, 64)),
    memory_heaps=((80 << 30, 1), (64 << 30, 0)),
    memory_types=(MemoryType(0x1, 0), MemoryType(0xE, 1)),
    memory_budget=(MemoryBudget(78 << 30, 1 << 30), MemoryBudget(64 << 30, 0)),
    cooperative_matrix_stages=0x20,
    cooperative_matrices=(
        CooperativeMatrixShape(16, 16, 16, "float16", "float16", "float32", "float32", saturating=False, scope="subgroup"),
    ),
    flexible_matrices=(FlexibleMatrixShape(16, 16, 16, "float16", "float16", "float32", "float32", False, "workgroup", 128),),
    cooperative_matrix2=CooperativeMatrix2Limits(1024, 256, 2048),
    pipeline_binary=PipelineBinaryProperties(
        internal_cache=True,
        internal_cache_control=False,
        prefers_internal_cache=True,
        precompiled_internal_cache=False,
        compressed_data=True,
    ),
    float_controls=frozenset({"shaderDenormFlushToZeroFloat32", "denormBehaviorIndependence"}),
    extensions=frozenset({"VK_EXT_pci_bus_info"}),
    features=frozenset(),
    loader_version=1 << 22 | 3 << 12,
)


def device(**changes: object) -> PhysicalDevice:
    return replace(DEVICE, **changes)  # type: ignore[arg-type]


def buffer(name: str, binding: int = 0, access: str = "rw", **changes: object) -> BufferInterface:
    """A run-time sized buffer of floats; ``access`` is ``r``, ``w`` or ``rw``."""
    found = BufferInterface(name, binding, "r" in access, "w" in access, 0, FLOATS, None)
    return replace(found, **changes)  # type: ignore[arg-type]


def reflection(*buffers: BufferInterface, **changes: object) -> Reflection:
    """The contract of a shader with 64 invocations a workgroup and nothing but these buffers, by default one."""
    size = (LocalSize(64), LocalSize(1), LocalSize(1))
    return replace(Reflection((1, 3), (1,), buffers or (buffer("y"),), (), 0, (), size), **changes)  # type: ignore[arg-type]


def key(number: int) -> PipelineCacheKey:
    """A cache key with a digest that is easy to see in a path."""
    return cache_key(bytes([number]) * 32)


def cache_key(digest: bytes, manifest: bytes = b"manifest") -> PipelineCacheKey:
    """A cache key with this digest, which need not be that of the manifest."""
    return PipelineCacheKey(1, bytes(32), bytes(32), 0, (1, 1, 1), PipelineFeatureFlags(0), "kompute", manifest, digest)


def device_manifest(**changes: object) -> bytes:
    """A manifest that names the example device, or one like it, and nothing else."""
    return encode_manifest(device_fields(device(**changes)))


def native_blob(code: bytes = b"compiled", **changes: object) -> bytes:
    """What the driver of the example device, or of one like it, would write."""
    made = device(**changes)
    return struct.pack("<IIII16s", 32, 1, made.vendor_id, made.device_id, made.pipeline_cache_uuid) + code


def refusal(action: Callable[[], object]) -> tuple[type[VyreError], int, str]:
    """The class, the code and the whole message of the error that an action raises."""
    with pytest.raises(VyreError) as error:
        action()
    return type(error.value), error.value.code, str(error.value)
