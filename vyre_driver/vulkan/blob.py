"""The header of a pipeline cache blob, compared with the device before a driver sees the blob.

Source: Vulkan 1.3, ``VkPipelineCacheHeaderVersionOne``: little-endian whatever the host, 32 bytes.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vyre_driver.vulkan.devices import PhysicalDevice

_HEADER = struct.Struct("<IIII16s")
_VERSION_ONE = 1


def blob_fits(blob: bytes, device: PhysicalDevice) -> bool:
    """Whether the blob is more than a header, and its header is the one that this device's driver writes."""
    if len(blob) <= _HEADER.size:
        return False
    size, version, vendor_id, device_id, uuid = _HEADER.unpack_from(blob)
    return (size, version, vendor_id, device_id, uuid) == (
        _HEADER.size,
        _VERSION_ONE,
        device.vendor_id,
        device.device_id,
        device.pipeline_cache_uuid,
    )
