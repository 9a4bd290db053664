"""Every fact of a device on its way from the driver to the JSON, on a loader that is made for it."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from conftest import RunChild

SOURCE = Path(__file__).with_name("made_loader.c")

SUBGROUP_SIZES = {
    "min_size": 221,
    "max_size": 222,
    "max_compute_workgroup_subgroups": 223,
    "required_size_stages": 224,
}
OLD: dict[str, Any] = {
    "index": 2,
    "name": "Made old",
    "device_type": "discrete",
    "vendor_id": 12,
    "device_id": 13,
    "api_version": "1.0.68",
    "driver_version": 11,
    "driver_id": 0,
    "driver_name": "",
    "driver_info": "",
    "conformance": [0, 0, 0, 0],
    "driver_uuid": "00" * 16,
    "device_uuid": "00" * 16,
    "pipeline_cache_uuid": "14" * 16,
    "pci": None,
    "subgroup_size": 0,
    "subgroup_stages": 0,
    "subgroup_operations": 0,
    "subgroup_size_control": None,
    "compute_units": 0,
    "limits": {
        "max_storage_buffer_range": 101,
        "max_push_constants_size": 102,
        "max_per_stage_descriptor_storage_buffers": 103,
        "max_compute_shared_memory_size": 104,
        "max_compute_work_group_count": [105, 106, 107],
        "max_compute_work_group_invocations": 108,
        "max_compute_work_group_size": [109, 110, 111],
        "timestamp_compute_and_graphics": True,
        "timestamp_period_ns": 0.5,
        "min_storage_buffer_offset_alignment": 112,
        "min_memory_map_alignment": 113,
        "non_coherent_atom_size": 114,
        "max_memory_allocation_count": 115,
        "max_memory_allocation_size": 0,
        "max_per_set_descriptors": 0,
        "max_buffer_size": 0,
        "robust_storage_buffer_access_size_alignment": 0,
    },
    "queue_families": [
        {"index": 0, "flags": 15, "count": 16, "timestamp_valid_bits": 64, "compute_only": False},
        {"index": 1, "flags": 6, "count": 8, "timestamp_valid_bits": 36, "compute_only": True},
    ],
    "memory_heaps": [[2**37, 1], [2**36, 0]],
    "memory_types": [{"flags": 1, "heap": 0}, {"flags": 6, "heap": 1}, {"flags": 14, "heap": 1}],
    "memory_budget": [],
    "cooperative_matrix_stages": 0,
    "cooperative_matrices": [],
    "flexible_matrices": [],
    "cooperative_matrix2": None,
    "pipeline_binary": None,
    "float_controls": [],
    "extensions": [],
    "features": ["shaderInt64"],
    "loader_version": "1.4.300",
    "is_software": False,
    "rank": 3,
    "why": "behind device 0 of the same type, which the loader lists first",
}
MIDDLE: dict[str, Any] = {
    **OLD,
    "index": 1,
    "name": "Made middle",
    "rank": 2,
    "api_version": "1.1.5",
    "driver_uuid": "22" * 16,
    "device_uuid": "21" * 16,
    "subgroup_size": 201,
    "subgroup_stages": 202,
    "subgroup_operations": 203,
    "subgroup_size_control": SUBGROUP_SIZES,
    "compute_units": 243,
    "limits": {**OLD["limits"], "max_memory_allocation_size": 2**41, "max_per_set_descriptors": 211},
    "extensions": ["VK_AMD_shader_core_properties2", "VK_EXT_subgroup_size_control"],
}
NEW: dict[str, Any] = {
    **MIDDLE,
    "index": 0,
    "name": "Made new",
    "rank": 1,
    "why": "taken when none is named: the first of type discrete",
    "api_version": "1.4.312",
    "driver_id": 4,
    "driver_name": "Made driver",
    "driver_info": "580.1",
    "conformance": [1, 4, 1, 3],
    "pci": "0001:02:03.4",
    "compute_units": 241,
    "limits": {**MIDDLE["limits"], "max_buffer_size": 2**42, "robust_storage_buffer_access_size_alignment": 231},
    "memory_budget": [{"budget_bytes": 3 * 2**35, "used_bytes": 2**35}, {"budget_bytes": 2**36, "used_bytes": 0}],
    "cooperative_matrix_stages": 251,
    "cooperative_matrices": [
        {
            "m": 16,
            "n": 8,
            "k": 32,
            "a": "sint8",
            "b": "uint8",
            "c": "sint32",
            "result": "uint32",
            "saturating": True,
            "scope": "subgroup",
        },
        {
            "m": 64,
            "n": 32,
            "k": 16,
            "a": "float16",
            "b": "bfloat16",
            "c": "float32",
            "result": "float64",
            "saturating": False,
            "scope": "workgroup",
        },
    ],
    "flexible_matrices": [
        {
            "m": 16,
            "n": 8,
            "k": 32,
            "a": "float8_e4m3",
            "b": "float8_e5m2",
            "c": "float32",
            "result": "float16",
            "saturating": True,
            "scope": "workgroup",
            "workgroup_invocations": 271,
        },
    ],
    "cooperative_matrix2": {
        "workgroup_scope_max_workgroup_size": 261,
        "flexible_dimensions_max_dimension": 262,
        "workgroup_scope_reserved_shared_memory": 263,
    },
    "pipeline_binary": {
        "internal_cache": True,
        "internal_cache_control": False,
        "prefers_internal_cache": True,
        "precompiled_internal_cache": True,
        "compressed_data": False,
    },
    "float_controls": ["roundingModeIndependence", "shaderDenormFlushToZeroFloat32", "shaderSignedZeroInfNanPreserveFloat16"],
    "extensions": [
        "VK_EXT_memory_budget",
        "VK_EXT_pci_bus_info",
        "VK_EXT_robustness2",
        "VK_KHR_cooperative_matrix",
        "VK_KHR_pipeline_binary",
        "VK_NV_cooperative_matrix2",
        "VK_NV_shader_sm_builtins",
    ],
    "features": [
        "cooperativeMatrix",
        "cooperativeMatrixWorkgroupScope",
        "nullDescriptor",
        "pipelineBinaries",
        "shaderBFloat16Type",
        "shaderFloat8",
        "shaderInt64",
        "storageBuffer16BitAccess",
        "synchronization2",
        "vulkanMemoryModelAvailabilityVisibilityChains",
    ],
}
TEXT = """\
0  Made new
   type discrete, Vulkan 1.4.312, conformance 1.4.1.3, memory 128.0 GiB (64.0 GiB left)
   driver Made driver 580.1
   subgroups of 201 (221 to 222), 241 compute units, queue family 1 computes only, 2 cooperative matrix shapes, 1 flexible ones
   uuid:21212121212121212121212121212121  pci:0001:02:03.4
   taken when none is named: the first of type discrete
1  Made middle
   type discrete, Vulkan 1.1.5, memory 128.0 GiB
   driver unknown
   subgroups of 201 (221 to 222), 243 compute units, queue family 1 computes only
   uuid:21212121212121212121212121212121
   behind device 0 of the same type, which the loader lists first
2  Made old
   type discrete, Vulkan 1.0.68, memory 128.0 GiB
   driver unknown
   queue family 1 computes only
   uuid:00000000000000000000000000000000
   behind device 0 of the same type, which the loader lists first
"""


@pytest.fixture(scope="module")
def made_loader(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment in which the made loader is the Vulkan loader."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("not installed: cc")
    directory = tmp_path_factory.mktemp("loader")
    command = [compiler, "-shared", "-fPIC", "-Wall", "-Werror", "-o", str(directory / "libvulkan.so.1"), str(SOURCE)]
    subprocess.run(command, check=True)
    return {"LD_LIBRARY_PATH": str(directory)}


def test_devices_as_json_carries_every_fact_that_the_driver_told(run_cli: RunChild, made_loader: dict[str, str]) -> None:
    done = run_cli("devices", "--json", env=made_loader)
    assert (done.status, done.stderr) == (0, "")
    assert json.loads(done.stdout) == {"schema": 1, "devices": [NEW, MIDDLE, OLD]}


def test_devices_as_text_says_what_there_is_and_leaves_out_what_is_not_known(
    run_cli: RunChild, made_loader: dict[str, str]
) -> None:
    done = run_cli("devices", env=made_loader)
    assert (done.status, done.stdout, done.stderr) == (0, TEXT, "")
