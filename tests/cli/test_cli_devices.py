"""Devices, and what the command line says where there are none."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from literals import device

from vyre_driver.cli import devices as verb
from vyre_driver.vulkan import DeviceType, enumerate_devices
from vyre_driver.vulkan.devices import SubgroupSizeControl

if TYPE_CHECKING:
    from pathlib import Path

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
