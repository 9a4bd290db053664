"""What the actions of ``vyre-driver cache`` ask alike: which entry is meant, which devices are here, what was taken."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_driver.cache.entry import DeviceIds
from vyre_driver.cli.options import say, tell
from vyre_driver.errors import InvalidCommand, VulkanUnavailable

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from vyre_driver.cache.disk import DiskPipelineCache
    from vyre_driver.cache.upkeep import StoredEntry
    from vyre_driver.vulkan.devices import PhysicalDevice

KEY_DIGITS = 12  # of a key in a list; any beginning that only one has will do


def find_entry(cache: DiskPipelineCache, beginning: str) -> StoredEntry:
    """Return the one entry whose key begins so; raises InvalidCommand if there is none, or more than one."""
    found = [one for one in cache.entries() if one.key.startswith(beginning.lower())]
    if len(found) != 1:
        problem = "no entry's key begins" if not found else f"the keys of {len(found)} entries begin"
        raise InvalidCommand(f"{problem} with {beginning!r}", fix="give more or other digits (vyre-driver cache list)")
    return found[0]


def physical_devices() -> list[PhysicalDevice]:
    """Return the devices here; none where there is no Vulkan."""
    from vyre_driver.vulkan import enumerate_devices

    try:
        return list(enumerate_devices())
    except VulkanUnavailable:
        return []


def devices_here() -> list[tuple[str, DeviceIds]]:
    """Name and identity of each device; none where there is no Vulkan."""
    return [(device.name, ids_of(device)) for device in physical_devices()]


def ids_of(device: PhysicalDevice) -> DeviceIds:
    """Return what an entry's header says of a device."""
    from vyre_driver.identity.keys import device_fields
    from vyre_driver.identity.manifest import encode_manifest

    return DeviceIds.of_manifest(encode_manifest(device_fields(device)))


def tell_taken(options: argparse.Namespace, facts: Mapping[str, object], taken: str, refused: Mapping[str, int]) -> int:
    """Print what was taken, and what was refused for which reasons; returns the status, 1 if something was."""
    ordered = dict(sorted(refused.items()))
    tell(options, {**facts, "refused": ordered}, taken)
    if not options.json:
        for reason, number in ordered.items():
            say(f"{number} refused: {reason}", on_stderr=True)
    return 1 if refused else 0
