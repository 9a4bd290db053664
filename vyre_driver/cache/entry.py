"""The bytes of one cache entry, and the verdict on bytes that claim to be one.

Layout, format version 1, little-endian:

| offset | size | field | protects against |
|---|---|---|---|
| 0 | 8 | magic ``VYREPIPE`` | another program's file |
| 8 | 4 | format version | reading a layout that has changed |
| 12 | 4 | manifest length | |
| 16 | 32 | key digest | right bytes under the wrong name |
| 48 | 8 | SPIR-V length | |
| 56 | 8 | native blob length | truncation and appended bytes, with the other lengths |
| 64 | 32 | BLAKE3 of bytes 0-63 and of all after byte 95 | every flipped bit |
| 96 | ... | manifest, SPIR-V, native blob | |

The digest tells corruption, not malice: who may write to the directory may write a valid entry, so the directory is trusted
only when nobody else can (disk.py).
"""

from __future__ import annotations

import enum
import struct
from dataclasses import dataclass

from blake3 import blake3

FORMAT_VERSION = 1
MAX_ENTRY_BYTES = 64 * 1024 * 1024

_MAGIC = b"VYREPIPE"
_FIXED = struct.Struct("<8sII32sQQ")
_DIGEST_BYTES = 32
HEADER_BYTES = _FIXED.size + _DIGEST_BYTES


class Verdict(enum.Enum):
    """What came of looking an entry up; everything but HIT is a miss."""

    HIT = "hit"
    MISS = "no entry"
    TRUNCATED = "the entry is shorter than it says"
    EXTENDED = "the entry is longer than it says"
    CORRUPT = "the entry's digest does not match its bytes"
    OUTDATED = "the entry has another format version"
    FOREIGN_KEY = "the entry belongs to another key"
    TOO_LARGE = "the entry is over 64 MiB"
    UNTRUSTED = "somebody else could have written the entry"
    IO_ERROR = "the entry could not be read"


@dataclass(frozen=True, slots=True)
class PipelineEntry:
    """What is kept for one key: its manifest, the SPIR-V, and the driver's compiled blob (empty without one)."""

    manifest: bytes
    spirv: bytes
    native: bytes = b""

    @property
    def byte_len(self) -> int:
        """Bytes of the encoded entry."""
        return HEADER_BYTES + len(self.manifest) + len(self.spirv) + len(self.native)


def encode_entry(key_digest: bytes, entry: PipelineEntry) -> bytes:
    """Return the file's bytes for an entry under a 32-byte key digest."""
    fixed = _FIXED.pack(_MAGIC, FORMAT_VERSION, len(entry.manifest), key_digest, len(entry.spirv), len(entry.native))
    body = entry.manifest + entry.spirv + entry.native
    return fixed + _digest(fixed, body) + body


def decode_entry(key_digest: bytes, data: bytes) -> tuple[Verdict, PipelineEntry | None]:
    """Return HIT and the entry, or the verdict that says why the bytes are not the entry of this key."""
    if len(data) < HEADER_BYTES:
        return Verdict.TRUNCATED, None
    magic, version, manifest_len, stored_key, spirv_len, native_len = _FIXED.unpack_from(data)
    if magic != _MAGIC:
        return Verdict.CORRUPT, None
    if version != FORMAT_VERSION:
        return Verdict.OUTDATED, None
    promised = HEADER_BYTES + manifest_len + spirv_len + native_len
    if len(data) != promised:
        return (Verdict.TRUNCATED if len(data) < promised else Verdict.EXTENDED), None
    body = data[HEADER_BYTES:]
    if _digest(data[: _FIXED.size], body) != data[_FIXED.size : HEADER_BYTES]:
        return Verdict.CORRUPT, None
    if stored_key != key_digest:
        return Verdict.FOREIGN_KEY, None
    spirv_end = manifest_len + spirv_len
    return Verdict.HIT, PipelineEntry(body[:manifest_len], body[manifest_len:spirv_end], body[spirv_end:])


def _digest(fixed: bytes, body: bytes) -> bytes:
    return blake3(fixed).update(body).digest()
