"""Devices, and what the command line says where there are none."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from literals import device

from vyre_driver.cli import devices as verb
from vyre_driver.vulkan import DeviceType, enumerate_devices
from vyre_driver.vulkan.devices import SubgroupSizeControl

if TYPE_CHECKING:
    from conftest import Refused, RunChild

    from vyre_driver.vulkan import PhysicalDevice

RUN = ("run", "saxpy.spv", "--in", "x=x.npy", "--in", "y=y.npy", "--push", "alpha=2", "--push", "count=8")
NO_ICD = {"VK_DRIVER_FILES": "/nonexistent/icd.json", "VK_ICD_FILENAMES": "/nonexistent/icd.json"}
NO_DRIVER = (
    "2001: the Vulkan loader found no driver. "
    "Fix: install a Vulkan driver (on Debian mesa-vulkan-drivers brings a software one) "
    "or check what VK_DRIVER_FILES and VK_ICD_FILENAMES name."
)
VERBS = pytest.mark.parametrize("arguments", [("devices",), ("devices", "--json"), RUN], ids=["devices", "as JSON", "run"])


def names(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()}


def complaint(line: str) -> str:
    """A line that is JSON as the text that it would be otherwise."""
    if not line.startswith("{"):
        return line
    error = json.loads(line)["error"]
    return f"{error['code']}: {error['problem']}. Fix: {error['fix']}."


@VERBS
def test_without_a_vulkan_loader_it_is_refused(refused: Refused, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    library = tmp_path / "libvulkan.so.1"
    library.write_text("This is not an ELF file, though it is long enough for the header of one.\n")
    assert complaint(refused(*arguments, env={"LD_LIBRARY_PATH": str(tmp_path)})) == (
        f"2001: the Vulkan loader libvulkan.so.1 cannot be opened ({library}: invalid ELF header). "
        f"Fix: remove {library} or its folder from LD_LIBRARY_PATH, or install the loader anew (on Debian: libvulkan1)."
    )


@pytest.mark.device
@VERBS
def test_without_a_vulkan_driver_it_is_refused(refused: Refused, arguments: tuple[str, ...]) -> None:
    assert complaint(refused(*arguments, env=NO_ICD)) == NO_DRIVER


@pytest.mark.device
@pytest.mark.parametrize("broken", ["manifest", "library"])
def test_a_broken_vulkan_driver_is_refused(refused: Refused, tmp_path: Path, broken: str) -> None:
    manifest, library = tmp_path / "icd.json", tmp_path / "driver.so"
    library.write_bytes(bytes(4096))
    told = json.dumps({"file_format_version": "1.0.0", "ICD": {"library_path": str(library), "api_version": "1.3.0"}})
    manifest.write_text(told if broken == "library" else told[:20], "utf-8")
    said = refused("devices", env={"VK_DRIVER_FILES": str(manifest), "VK_ICD_FILENAMES": str(manifest)})
    # Of a manifest that is cut off, some loaders say nothing and others that memory ran out.
    out_of_memory = (
        "2001: vkCreateInstance failed with VkResult -1. Fix: run again with VK_LOADER_DEBUG=error to see why, "
        "and check what VK_DRIVER_FILES and VK_ICD_FILENAMES name."
    )
    assert said in ({NO_DRIVER} if broken == "library" else {NO_DRIVER, out_of_memory})


@pytest.mark.device
def test_without_kp_run_is_refused(run_python: RunChild, work: Path) -> None:
    hide = "import sys; sys.modules['kp'] = sys.modules['vyre_driver.kompute.bundled.kp'] = None"
    code = f"{hide}; from vyre_driver.cli import main; sys.exit(main(sys.argv[1:]))"
    before = names(work)
    done = run_python("-c", code, *RUN, "--out", "y=out.npy")
    line = (
        "vyre-driver: error 2004: kp (kompute) cannot be imported (import of kp halted; None in sys.modules). "
        "Fix: install vyre_driver from a wheel for this Python, or run scripts/setup in a checkout."
    )
    assert (done.status, done.stdout, done.complaint, names(work)) == (2, "", [line], before)


def listed(devices: tuple[PhysicalDevice, ...]) -> str:
    return ", ".join(f"{device.index} {device.name!r} uuid:{device.device_uuid.hex()}" for device in devices)


@pytest.mark.device
@pytest.mark.parametrize("wanted", ["name:nobody has this", "99", "uuid:00", "pci:ff:ff.7", "type:none", "9" * 5000])
def test_a_device_that_is_not_there_is_refused_with_those_that_are(refused_here: Refused, wanted: str) -> None:
    devices = enumerate_devices()
    assert refused_here(*RUN, "--device", wanted) == (
        f"2002: {wanted!r} names no device; there are {len(devices)} ({listed(devices)}). Fix: name one of those."
    )


@pytest.mark.device
@pytest.mark.parametrize("wanted", ["llvmpipe", "-1", "name:", "colour:red"])
def test_a_text_that_does_not_say_which_device_is_refused(refused_here: Refused, wanted: str) -> None:
    assert refused_here(*RUN, f"--device={wanted}") == (
        f"2002: {wanted!r} does not say which device. Fix: write uuid:, pci:, name: or type: and a value, or an index."
    )


@pytest.mark.device
def test_an_unknown_device_in_the_environment_is_refused(refused_here: Refused) -> None:
    devices = enumerate_devices()
    assert refused_here(*RUN, env={"VYRE_DEVICE": "99"}) == (
        f"2002: '99' names no device; there are {len(devices)} ({listed(devices)}). Fix: name one of those."
    )


@pytest.fixture
def cpu() -> PhysicalDevice:
    """The first CPU device."""
    found = [device for device in enumerate_devices() if device.device_type is DeviceType.CPU]
    if not found:
        pytest.skip("no Vulkan device of type CPU")
    return found[0]


@pytest.mark.device
@pytest.mark.parametrize("value", [None, "", "0"])
def test_a_cpu_device_that_nobody_allowed_is_refused(refused_here: Refused, cpu: PhysicalDevice, value: str | None) -> None:
    line = refused_here(*RUN, "--device", str(cpu.index), env={"VYRE_ALLOW_SOFTWARE": value})
    assert line == (
        f"2003: the only device that fits, {cpu.name!r}, is a CPU (software) device and none was allowed. "
        "Fix: pass allow_software=True, give --allow-software, or set VYRE_ALLOW_SOFTWARE=1."
    )


@pytest.mark.device
def test_a_cpu_device_that_the_option_allows_is_used(run_saxpy_here: RunChild, cpu: PhysicalDevice) -> None:
    done = run_saxpy_here("--device", str(cpu.index), "--allow-software", "--json", env={"VYRE_ALLOW_SOFTWARE": None})
    report = json.loads(done.stdout)
    assert (done.status, report["device"], report["is_software"]) == (0, cpu.name, True)


@pytest.mark.device
def test_devices_lists_every_device(run_cli: RunChild) -> None:
    done = run_cli("devices")
    expected = [f"{device.index}  {device.name}" for device in enumerate_devices()]
    lines = done.stdout.splitlines()
    assert (done.status, done.complaint, [line for line in lines if line[:1].isdigit()]) == (0, [], expected)


@pytest.mark.device
def test_devices_as_json_gives_every_device_with_its_facts(run_cli: RunChild) -> None:
    done = run_cli("devices", "--json")
    found = json.loads(done.stdout)
    facts = [(one["index"], one["name"], one["device_type"], one["api_version"]) for one in found["devices"]]
    expected = [(one.index, one.name, one.device_type.name.lower(), one.api) for one in enumerate_devices()]
    assert (done.status, done.complaint, list(found), found["schema"], facts) == (0, [], ["schema", "devices"], 1, expected)


@pytest.mark.device
def test_devices_needs_no_kp(run_python: RunChild) -> None:
    hide = "import sys; sys.modules['kp'] = sys.modules['vyre_driver.kompute.bundled.kp'] = None"
    code = f"{hide}; from vyre_driver.cli import main; sys.exit(main(['devices', '--json']))"
    done = run_python("-c", code)
    assert (done.status, len(json.loads(done.stdout)["devices"])) == (0, len(enumerate_devices()))


@pytest.mark.device
def test_devices_opens_none_and_makes_no_file(run_cli: RunChild, work: Path) -> None:
    before = names(work)
    run_cli("devices")
    assert names(work) == before


@pytest.mark.parametrize(
    ("most", "said"), [(32, ", 32 of them at most in a workgroup that requires their size"), (64, ""), (2**32 - 1, "")]
)
def test_the_most_subgroups_are_told_where_they_are_fewer_than_the_invocations_allow(most: int, said: str) -> None:
    offered = SubgroupSizeControl(min_size=8, max_size=8, max_compute_workgroup_subgroups=most, required_size_stages=0x20)
    one = device(
        subgroup_size=8,
        subgroup_size_control=offered,
        compute_units=0,
        cooperative_matrices=(),
        flexible_matrices=(),
        queue_families=(),
    )
    assert ", ".join(verb._compute_facts(one)) == "subgroups of 8" + said  # noqa: SLF001 -- what a line says


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
