"""The byte format of a cache entry, and the verdict on bytes that claim to be one.

Layout, format version 2, little-endian:

| offset | size | field | protects against |
|---|---|---|---|
| 0 | 8 | magic ``VYREPIPE`` | another program's file |
| 8 | 4 | format version | reading a layout that has changed |
| 12 | 4 | header bytes, 216 | the same |
| 16 | 32 | BLAKE3 of all bytes from 48 on | every flipped bit |
| 48 | 32 | key digest | right bytes under the wrong name |
| 80 | 4 | flags: bit 0 imported, bit 1 sealed | |
| 84 | 1 | pointer bytes | a blob of a 32-bit driver in a 64-bit process |
| 85 | 1 | byte order: 1 little, 2 big | SPIR-V words of the other order |
| 86 | 2 | zero | |
| 88 | 24 | vendorID (4), deviceID (4), pipelineCacheUUID (16) | a blob of another device |
| 112 | 24 | driverUUID (16), driverID (4), driverVersion (4) | |
| 136 | 32 | BLAKE3 of driverInfo | |
| 168 | 24 | the writer's name and version, ASCII, padded with NUL | |
| 192 | 4 | manifest length | |
| 196 | 4 | zero | |
| 200 | 8 | SPIR-V length | |
| 208 | 8 | native blob length | truncation and appended bytes, with the other lengths |
| 216 | ... | manifest, SPIR-V, native blob | |
| end - 32 | 32 | when sealed: HMAC-SHA-256 of all from 48 up to here (seal.py) | entries written without the key |

The digest tells corruption, not malice: writing to the directory is enough to write a valid entry, so the directory is trusted
only when no other user can (root.py).
"""

from __future__ import annotations

import enum
import struct
import sys
from dataclasses import dataclass

from blake3 import blake3

from vyre_driver._version import __version__
from vyre_driver.cache.seal import SEAL_BYTES, is_sealed_by, seal
from vyre_driver.checks import U32_MAX
from vyre_driver.identity.manifest import decode_manifest
from vyre_driver.vulkan.blob import device_header, is_blob_of

FORMAT_VERSION = 2
MAX_ENTRY_BYTES = 64 * 1024 * 1024
MAGIC = b"VYREPIPE"
WRITTEN_BY = f"vyre-driver {__version__}"

_PREFIX = struct.Struct("<8sII")
_JUDGED = struct.Struct("<32s32sI2s2x24s80xIIQQ")
_SIGNED = struct.Struct("<32sIBBH24s16sII32s24sIIQQ")
_SIGNED_AT = _PREFIX.size + 32
HEADER_BYTES = _SIGNED_AT + _SIGNED.size
PREFIX = _PREFIX.pack(MAGIC, FORMAT_VERSION, HEADER_BYTES)
"""What every entry of this format begins with."""

_IMPORTED, _SEALED = 1, 2
_UUID_BYTES = 16
_ABI = bytes([struct.calcsize("P"), 1 if sys.byteorder == "little" else 2])


class Verdict(enum.Enum):
    """The result of looking up an entry; everything but HIT is a miss."""

    HIT = "hit"
    MISS = "no entry"
    TRUNCATED = "the entry is shorter than it says"
    EXTENDED = "the entry is longer than it says"
    CORRUPT = "the entry's digest does not match its bytes"
    OUTDATED = "the entry has another format version"
    FOREIGN_KEY = "the entry belongs to another key"
    FOREIGN_DEVICE = "the entry's native blob belongs to another device or driver"
    TOO_LARGE = "the entry is over 64 MiB"
    UNTRUSTED = "somebody else could have written the entry"
    IO_ERROR = "the entry could not be read"

    def __init__(self, _text: str) -> None:
        """Keep the name under which it is counted: asking for it in lower case takes as long as a system call."""
        self.counted = self.name.lower()


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


@dataclass(frozen=True, slots=True)
class PipelineEntry:
    """What is kept for one key: its manifest, the SPIR-V, and the driver's compiled blob (empty without one).

    ``imported`` marks an entry that came out of a bundle and not out of a compilation here.
    """

    manifest: bytes
    spirv: bytes
    native: bytes = b""
    imported: bool = False

    @property
    def byte_len(self) -> int:
        """Bytes of the encoded entry."""
        return HEADER_BYTES + len(self.manifest) + len(self.spirv) + len(self.native)


def native_fits(native: bytes, ids: DeviceIds) -> bool:
    """Whether a blob is more than its Vulkan header, and that header names this device; an empty one always fits.

    Source: Vulkan 1.3, ``VkPipelineCacheHeaderVersionOne``: 32 bytes, little-endian whatever the host.
    """
    return not native or is_blob_of(native, ids.cache_header)


def unfit_reason(entry: PipelineEntry) -> str:
    """Say why an entry cannot be stored; empty when it can."""
    if entry.byte_len > MAX_ENTRY_BYTES:
        return f"the entry has {entry.byte_len} bytes, over the limit of {MAX_ENTRY_BYTES} bytes"
    if entry.native and not native_fits(entry.native, DeviceIds.of_manifest(entry.manifest)):
        return f"the native blob of {len(entry.native)} bytes is not one that the device in the manifest writes"
    return ""


def encode_entry(
    key_digest: bytes, entry: PipelineEntry, *, written_by: str = WRITTEN_BY, hmac_key: bytes | None = None
) -> bytes:
    """Return the file's bytes for an entry under a 32-byte key digest, sealed when there is a key.

    ``written_by`` has at most 24 ASCII characters.
    """
    ids = DeviceIds.of_manifest(entry.manifest)
    signed = _SIGNED.pack(
        key_digest,
        (_IMPORTED if entry.imported else 0) | (0 if hmac_key is None else _SEALED),
        _ABI[0],
        _ABI[1],
        0,
        ids.cache_header,
        ids.driver_uuid,
        ids.driver_id,
        ids.driver_version,
        ids.driver_info_digest,
        written_by.encode("ascii"),
        len(entry.manifest),
        0,
        len(entry.spirv),
        len(entry.native),
    )
    parts = [signed, entry.manifest, entry.spirv, entry.native]
    if hmac_key is not None:
        parts.append(seal(hmac_key, b"".join(parts)))
    digest = blake3()
    for part in parts:  # one by one: a blob may be long, and joining it once is half of the time
        digest.update(part)
    return b"".join((PREFIX, digest.digest(), *parts))


def decode_entry(key_digest: bytes, data: bytes, *, hmac_key: bytes | None = None) -> tuple[Verdict, PipelineEntry | None]:
    """Return HIT and the entry, or the verdict that says why the bytes are not the entry of this key on this machine.

    With a key, an entry without the seal of that key is UNTRUSTED.
    """
    if len(data) < HEADER_BYTES or not data.startswith(PREFIX):
        return _judge_prefix(data), None
    digest, found_key, flags, abi, device, manifest_len, _, spirv_len, native_len = _JUDGED.unpack_from(data, _PREFIX.size)
    spirv_at = HEADER_BYTES + manifest_len
    native_at = spirv_at + spirv_len
    native_end = native_at + native_len
    end = native_end + (SEAL_BYTES if flags & _SEALED else 0)
    if len(data) != end:
        return (Verdict.TRUNCATED if len(data) < end else Verdict.EXTENDED), None
    if blake3(memoryview(data)[_SIGNED_AT:]).digest() != digest:
        return Verdict.CORRUPT, None
    if found_key != key_digest:
        return Verdict.FOREIGN_KEY, None
    if flags & ~(_IMPORTED | _SEALED):
        return Verdict.OUTDATED, None
    if hmac_key is not None and not (
        flags & _SEALED and is_sealed_by(hmac_key, data[_SIGNED_AT:native_end], data[native_end:])
    ):
        return Verdict.UNTRUSTED, None
    native = data[native_at:native_end]
    if abi != _ABI or (native and not is_blob_of(native, device)):
        return Verdict.FOREIGN_DEVICE, None
    return Verdict.HIT, PipelineEntry(data[HEADER_BYTES:spirv_at], data[spirv_at:native_at], native, bool(flags & _IMPORTED))


def _judge_prefix(data: bytes) -> Verdict:
    """Say what is wrong with bytes that do not begin with a whole header of this format."""
    if len(data) < _PREFIX.size or data.startswith(PREFIX):
        return Verdict.TRUNCATED
    magic, version, _ = _PREFIX.unpack_from(data)
    return Verdict.OUTDATED if magic == MAGIC and version != FORMAT_VERSION else Verdict.CORRUPT


@dataclass(frozen=True, slots=True)
class EntryHeader:
    """What the first bytes of an entry say; nothing of it is verified."""

    key_digest: bytes
    imported: bool
    is_sealed: bool
    written_by: str
    manifest_bytes: int
    spirv_bytes: int
    native_bytes: int
    ids: DeviceIds


def read_header(data: bytes) -> EntryHeader | None:
    """Return what at least ``HEADER_BYTES`` of a file say, or None when they are not the beginning of an entry."""
    if len(data) < HEADER_BYTES or data[: _PREFIX.size] != PREFIX:
        return None
    digest, flags, _, _, _, cache_header, uuid, driver_id, version, info, writer, manifest_len, _, spirv_len, native_len = (
        _SIGNED.unpack_from(data, _SIGNED_AT)
    )
    ids = DeviceIds(cache_header, uuid, driver_id, version, info) if any(cache_header) else NO_DEVICE
    name = writer.rstrip(b"\0").decode("ascii", "replace")
    return EntryHeader(digest, bool(flags & _IMPORTED), bool(flags & _SEALED), name, manifest_len, spirv_len, native_len, ids)


def claims_to_be_entry(data: bytes) -> bool:
    """Whether the first 16 bytes of a file are those of an entry, of any format, with at most one of their halves damaged.

    What is not is a raw blob (upstream.py), of which nothing can be verified.
    """
    return data[:8] == MAGIC or data[8:16] == PREFIX[8:]
