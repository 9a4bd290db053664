"""The readable list of everything that a key is the digest of: named fields that cannot run into each other.

A manifest is stored with its entry, so that a miss can be explained (docs/cache-format.md).
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

FieldValue = int | str | bytes


def encode_manifest(fields: Iterable[tuple[str, FieldValue]]) -> bytes:
    """Encode named fields, in the order given.

    Each field is: u32 name length, name in UTF-8, one byte of kind (``u`` integer, ``s`` text, ``b`` bytes), u32 value
    length, value (a number as u64); all little-endian.
    """
    return b"".join(_encode_field(name, value) for name, value in fields)


def _encode_field(name: str, value: FieldValue) -> bytes:
    if isinstance(value, int):
        kind, payload = b"u", struct.pack("<Q", value)
    elif isinstance(value, str):
        kind, payload = b"s", value.encode()
    else:
        kind, payload = b"b", value
    encoded = name.encode()
    return struct.pack("<I", len(encoded)) + encoded + kind + struct.pack("<I", len(payload)) + payload


def decode_manifest(manifest: bytes) -> tuple[tuple[str, FieldValue], ...]:
    """Return the fields of a manifest, in order.

    Raises
    ------
    ValueError
        If the bytes are not a manifest.
    """
    fields = []
    at = 0
    try:
        while at < len(manifest):
            name, at = _take(manifest, at)
            kind = manifest[at : at + 1]
            payload, at = _take(manifest, at + 1)
            fields.append((name.decode(), _decode_value(kind, payload)))
    except struct.error as error:
        raise ValueError(f"the manifest ends inside a field, at byte {at}") from error
    return tuple(fields)


def _take(manifest: bytes, at: int) -> tuple[bytes, int]:
    (length,) = struct.unpack_from("<I", manifest, at)
    end = at + 4 + length
    if end > len(manifest):
        raise ValueError(f"a field of the manifest runs to byte {end} of {len(manifest)}")
    return manifest[at + 4 : end], end


def _decode_value(kind: bytes, payload: bytes) -> FieldValue:
    match kind:
        case b"u":
            return int(struct.unpack("<Q", payload)[0])
        case b"s":
            return payload.decode()
        case b"b":
            return payload
    raise ValueError(f"a field of the manifest has the unknown kind {kind!r}")
