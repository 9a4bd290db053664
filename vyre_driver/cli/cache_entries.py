"""The cache that a command is about, its entries, and the devices here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_driver.cache.disk import DiskPipelineCache
from vyre_driver.cache.entry import DeviceIds
from vyre_driver.errors import InvalidCommand, VulkanUnavailable

if TYPE_CHECKING:
    import argparse

    from vyre_driver.cache.walk import StoredEntry


def open_cache(options: argparse.Namespace) -> DiskPipelineCache:
    """Return the cache that the settings and ``--dir`` ask for."""
    return DiskPipelineCache.from_settings(options.dir)


def find(cache: DiskPipelineCache, beginning: str) -> StoredEntry:
    """Return the one entry whose key begins so.

    Raises
    ------
    InvalidCommand
        If there is none, or more than one.
    """
    found = [one for one in cache.entries() if one.key.startswith(beginning.lower())]
    if len(found) != 1:
        problem = "no entry's key begins" if not found else f"the keys of {len(found)} entries begin"
        raise InvalidCommand(f"{problem} with {beginning!r}", fix="give more or other digits (vyre-driver cache list)")
    return found[0]


def devices_here() -> list[tuple[str, DeviceIds]]:
    """Name and identity of each device; none where there is no Vulkan."""
    from vyre_driver.identity.keys import device_fields  # late: few actions look at devices
    from vyre_driver.identity.manifest import encode_manifest
    from vyre_driver.vulkan import enumerate_devices

    try:
        found = enumerate_devices()
    except VulkanUnavailable:
        return []
    return [(device.name, DeviceIds.of_manifest(encode_manifest(device_fields(device)))) for device in found]
