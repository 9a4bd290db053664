"""The device and driver that a manifest names, as the fixed-size fields of an entry's header."""

from __future__ import annotations

from dataclasses import dataclass

from blake3 import blake3

from vyre_driver.checks import U32_MAX
from vyre_driver.identity.manifest import decode_manifest
from vyre_driver.vulkan.blob import device_header

_UUID_BYTES = 16


@dataclass(frozen=True, slots=True)
class DeviceIds:
    """Device and driver: ``cache_header`` is vendorID, deviceID (u32 each) and pipelineCacheUUID as Vulkan's blobs have them.

    All is zero where the manifest names no device.
    """

    cache_header: bytes
    driver_uuid: bytes
    driver_id: int
    driver_version: int
    driver_info_digest: bytes

    @classmethod
    def of_manifest(cls, manifest: bytes) -> DeviceIds:
        """Return what a manifest names; a field that is missing or of another kind, size or range counts as zero."""
        try:
            fields = dict(decode_manifest(manifest))
        except ValueError:
            return NO_DEVICE
        cache_header = device_header(
            _u32(fields.get("vendorID")), _u32(fields.get("deviceID")), _uuid(fields.get("pipelineCacheUUID"))
        )
        info = fields.get("driverInfo")
        return cls(
            cache_header,
            _uuid(fields.get("driverUUID")),
            _u32(fields.get("driverID")),
            _u32(fields.get("driverVersion")),
            blake3(info.encode()).digest() if isinstance(info, str) else bytes(32),
        )


def _u32(value: object) -> int:
    return value if isinstance(value, int) and 0 <= value <= U32_MAX else 0


def _uuid(value: object) -> bytes:
    return value if isinstance(value, bytes) and len(value) == _UUID_BYTES else bytes(_UUID_BYTES)


NO_DEVICE = DeviceIds(bytes(24), bytes(_UUID_BYTES), 0, 0, bytes(32))
