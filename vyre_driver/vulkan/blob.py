"""The header of a pipeline cache blob, compared with the device before a driver gets the blob.

Source: Vulkan 1.3, ``VkPipelineCacheHeaderVersionOne``: little-endian whatever the host, 32 bytes.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vyre_driver.vulkan.devices import PhysicalDevice

_HEADER_BYTES = 32
_BEGINNING = struct.pack("<II", _HEADER_BYTES, 1)  # its own length, and version one
_DEVICE = struct.Struct("<II16s")


def device_header(vendor_id: int, device_id: int, pipeline_cache_uuid: bytes) -> bytes:
    """Return the 24 bytes of a header that name the device."""
    return _DEVICE.pack(vendor_id, device_id, pipeline_cache_uuid)


def is_blob_of(blob: bytes, device: bytes) -> bool:
    """Whether the blob is more than a header, and its header names the device of a ``device_header``."""
    return len(blob) > _HEADER_BYTES and blob.startswith(_BEGINNING + device)


def blob_fits(blob: bytes, device: PhysicalDevice) -> bool:
    """Whether the blob is more than a header, and its header is the one that this device's driver writes."""
    return is_blob_of(blob, device_header(device.vendor_id, device.device_id, device.pipeline_cache_uuid))
