"""``vyre-driver devices``: list the Vulkan devices in the order of acquisition, without kompute and without opening one."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from vyre_driver import settings
from vyre_driver.cli.options import add_json, printable, tell
from vyre_driver.vulkan import enumerate_devices
from vyre_driver.vulkan.selection import rank_devices
from vyre_driver.vulkan.version import format_version

if TYPE_CHECKING:
    import argparse

    from vyre_driver.vulkan import PhysicalDevice


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the verb takes."""
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    """List the devices."""
    devices = enumerate_devices()
    ranked = rank_devices(devices, allow_software=settings.switch(settings.ALLOW_SOFTWARE))
    ranks = {one.device.index: {"rank": one.rank, "why": one.why} for one in ranked}
    data = [device_as_data(device) | ranks[device.index] for device in devices]
    tell(options, {"devices": data}, *("\n   ".join([*_lines(one.device), one.why]) for one in ranked))
    return 0


def _lines(device: PhysicalDevice) -> list[str]:
    conformance = f", conformance {device.conformance_version}" if device.conformance_version else ""
    left = device.device_local_left_bytes
    memory = f"{device.device_local_bytes / 2**30:.1f} GiB" + (f" ({left / 2**30:.1f} GiB left)" if left is not None else "")
    lines = [
        f"{device.index}  {device.name}",
        f"type {device.kind}, Vulkan {device.api}{conformance}, memory {memory}",
        f"driver {device.driver or 'unknown'}",
        ", ".join(_compute_facts(device)),
        f"uuid:{device.device_uuid.hex()}" + (f"  pci:{device.pci_address}" if device.pci_address else ""),
    ]
    return [printable(line) for line in lines if line]


def _compute_facts(device: PhysicalDevice) -> list[str]:
    facts = []
    sizes = device.subgroup_size_control
    if device.subgroup_size:
        varying = f" ({sizes.min_size} to {sizes.max_size})" if sizes and sizes.min_size != sizes.max_size else ""
        facts.append(f"subgroups of {device.subgroup_size}{varying}")
    if sizes and sizes.max_compute_workgroup_subgroups * sizes.min_size < device.limits.max_compute_work_group_invocations:
        facts.append(f"{sizes.max_compute_workgroup_subgroups} of them at most in a workgroup that requires their size")
    if device.compute_units:
        facts.append(f"{device.compute_units} compute units")
    facts += [f"queue family {family.index} computes only" for family in device.queue_families if family.compute_only]
    if device.cooperative_matrices:
        facts.append(f"{len(device.cooperative_matrices)} cooperative matrix shapes")
    if device.flexible_matrices:
        facts.append(f"{len(device.flexible_matrices)} flexible ones")
    return facts


def device_as_data(device: PhysicalDevice) -> dict[str, object]:
    """Return all facts of a device as plain data."""
    data = dataclasses.asdict(device)
    for name in ("driver_uuid", "device_uuid", "pipeline_cache_uuid"):
        data[name] = data[name].hex()
    data["device_type"] = device.device_type.name.lower()
    data["is_software"] = device.is_software
    data["api_version"] = device.api
    data["pci"] = device.pci_address
    data["extensions"] = sorted(device.extensions)
    data["features"] = sorted(device.features)
    data["float_controls"] = sorted(device.float_controls)
    for family, as_data in zip(device.queue_families, data["queue_families"], strict=True):
        as_data["compute_only"] = family.compute_only
    data["loader_version"] = format_version(device.loader_version)
    return data
