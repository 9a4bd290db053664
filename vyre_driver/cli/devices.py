"""``vyre-driver devices``: the Vulkan devices of this machine, without kompute and without opening one."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from vyre_driver.cli.options import add_json, print_json
from vyre_driver.vulkan import enumerate_devices
from vyre_driver.vulkan.devices import format_version

if TYPE_CHECKING:
    import argparse

    from vyre_driver.vulkan import PhysicalDevice


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb."""
    parser = verbs.add_parser("devices", help="list the Vulkan devices", allow_abbrev=False)
    add_json(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """List the devices."""
    devices = enumerate_devices()
    if options.json:
        print_json({"devices": [_as_data(device) for device in devices]})
        return 0
    for device in devices:
        kind = "cpu (software)" if device.is_software else device.device_type.name.lower()
        print(f"{device.index}  {device.name}")
        print(f"   type {kind}, Vulkan {device.api}, memory {device.device_local_bytes / 2**30:.1f} GiB")
        print(f"   driver {f'{device.driver_name} {device.driver_info}'.strip()}")
        print(f"   uuid:{device.device_uuid.hex()}" + (f"  pci:{device.pci_address}" if device.pci_address else ""))
    return 0


def _as_data(device: PhysicalDevice) -> dict[str, object]:
    data = dataclasses.asdict(device)
    for name in ("driver_uuid", "device_uuid", "pipeline_cache_uuid"):
        data[name] = data[name].hex()
    data["device_type"] = device.device_type.name.lower()
    data["is_software"] = device.is_software
    data["api_version"] = device.api
    data["pci"] = device.pci_address
    data["extensions"] = sorted(device.extensions)
    data["features"] = sorted(device.features)
    data["loader_version"] = format_version(device.loader_version)
    return data
