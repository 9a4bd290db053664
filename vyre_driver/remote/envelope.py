"""Signed envelopes: who vouches for an entry, for a tombstone or for a tuning record.

Layout, version 1, little-endian, before what it vouches for:

| offset | size | field |
|---|---|---|
| 0 | 8 | magic: ``VYRESIGN`` an entry, ``VYREDEAD`` a tombstone, ``VYRETUNE`` a tuning record |
| 8 | 4 | version, 1 |
| 12 | 4 | scheme: 2, Ed25519 (1 was HMAC-SHA-256, until 0.2) |
| 16 | 8 | BLAKE3 of the public key, its first 8 bytes |
| 24 | 8 | when it was signed, seconds since 1970, by the signer's clock |
| 32 | 64 | signature over a text of its kind, the 32 bytes above, and what is vouched for |

What is signed is short: of an entry its first 80 bytes, which hold a digest of all the others; of a tombstone its 64 bytes; of
a record the BLAKE3 of its text. Nothing behind an envelope is looked at before the signature is known to be good.
"""

from __future__ import annotations

import struct
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from blake3 import blake3

from vyre_driver.cache.entry import MAX_ENTRY_BYTES, PREFIX, Verdict, encode_entry, read_header
from vyre_driver.errors import InvalidInput

if TYPE_CHECKING:
    from vyre_driver.cache.entry import PipelineEntry
    from vyre_driver.remote.trust import Signer, Trust

ENVELOPE_VERSION = 1
ENVELOPE_BYTES = 96
MAX_VALUE_BYTES = 16 << 20
"""The longest value that is taken from a store: one more byte and it is refused."""
MAX_RECORD_BYTES = 64 << 10
_HEAD = struct.Struct("<8sII8sQ")
_HMAC, _ED25519 = 1, 2
_SIGNED_OF_ENTRY = 80
_DIGEST_BYTES = 32


@dataclass(frozen=True, slots=True)
class _Kind:
    """What an envelope is before: its magic, the text that begins what is signed, and how much it may hold."""

    magic: bytes
    domain: bytes
    limit: int


_ENTRY = _Kind(b"VYRESIGN", b"vyre-driver entry signature 1\0", MAX_ENTRY_BYTES)
_TOMBSTONE = _Kind(b"VYREDEAD", b"vyre-driver tombstone signature 1\0", ENVELOPE_BYTES + 2 * _DIGEST_BYTES)
_RECORD = _Kind(b"VYRETUNE", b"vyre-driver tuning signature 1\0", MAX_RECORD_BYTES)


def sealed_entry(key_digest: bytes, entry: PipelineEntry, signer: Signer, *, now_s: int | None = None) -> bytes:
    """Return an entry that this machine's driver compiled, signed.

    Raises
    ------
    InvalidInput
        If it came from elsewhere: signing it would pass on whatever its maker was made to take.
    """
    if entry.imported:
        raise InvalidInput(
            f"the entry {key_digest.hex()} was imported, and only what was compiled here is signed",
            fix="leave it out, or compile it here",
        )
    return signed(encode_entry(key_digest, entry), signer, now_s=now_s)


def signed(entry_bytes: bytes, signer: Signer, *, now_s: int | None = None) -> bytes:
    """Return the bytes of an entry, neither sealed nor marked as imported, behind an envelope.

    ``now_s`` is when, in seconds since 1970; the clock's time without it.
    """
    return _envelope(_ENTRY, entry_bytes[:_SIGNED_OF_ENTRY], signer, now_s) + entry_bytes


def opened(data: bytes, trust: Trust, limit: int = MAX_VALUE_BYTES) -> tuple[Verdict, bytes | None, str]:
    """Return HIT, the entry's bytes and who signed them; or the verdict that says why they are not taken, and nothing else.

    Only the signature is checked: the entry is to be decoded under the key that it was asked for by.
    """
    if len(data) > limit:
        return Verdict.TOO_LARGE, None, ""
    verdict, name = _judged(_ENTRY, data, data[ENVELOPE_BYTES : ENVELOPE_BYTES + _SIGNED_OF_ENTRY], _SIGNED_OF_ENTRY, trust)
    if verdict is not Verdict.HIT:
        return verdict, None, ""
    entry_bytes = data[ENVELOPE_BYTES:]
    if not entry_bytes.startswith(PREFIX):
        return Verdict.OUTDATED, None, ""
    header = read_header(entry_bytes)
    if header is not None and (header.imported or header.is_sealed):  # nobody who keeps the rules signs such a one
        return Verdict.UNTRUSTED, None, ""
    return Verdict.HIT, entry_bytes, name


def signed_tombstone(key_digest: bytes, blob_digest: bytes, signer: Signer, *, now_s: int | None = None) -> bytes:
    """Return what says that a key's blob, by its BLAKE3, kills the driver; both digests are 32 bytes."""
    body = key_digest + blob_digest
    return _envelope(_TOMBSTONE, body, signer, now_s) + body


def opened_tombstone(key_digest: bytes, data: bytes, trust: Trust) -> tuple[Verdict, bytes | None, str]:
    """Return HIT, the digest of the blob of a key that must not be used, and who says so; or why nothing of it counts."""
    body = data[ENVELOPE_BYTES:]
    verdict, name = _judged(_TOMBSTONE, data, body, 2 * _DIGEST_BYTES, trust)
    if verdict is Verdict.HIT and body[:_DIGEST_BYTES] != key_digest:
        verdict = Verdict.FOREIGN_KEY
    return (Verdict.HIT, body[_DIGEST_BYTES:], name) if verdict is Verdict.HIT else (verdict, None, "")


def signed_record(text: bytes, signer: Signer, *, now_s: int | None = None) -> bytes:
    """Return the text of a tuning record behind an envelope."""
    return _envelope(_RECORD, blake3(text).digest(), signer, now_s) + text


def opened_record(data: bytes, trust: Trust) -> tuple[Verdict, bytes | None, str]:
    """Return HIT, the text of a tuning record and who signed it; or the verdict that says why it is not taken."""
    text = data[ENVELOPE_BYTES:]
    verdict, name = _judged(_RECORD, data, blake3(text).digest(), _DIGEST_BYTES, trust)
    return (verdict, text, name) if verdict is Verdict.HIT else (verdict, None, "")


def signed_at(data: bytes) -> int:
    """Return the time that an envelope names, seconds since 1970; 0 for what is none. It is true where its verdict is HIT."""
    return int(_HEAD.unpack_from(data)[4]) if len(data) >= ENVELOPE_BYTES else 0


def has_hmac(data: bytes) -> bool:
    """Return whether an entry's envelope has an HMAC, as those of 0.2 may have, and no signature of a named key."""
    return data.startswith(_ENTRY.magic) and len(data) >= ENVELOPE_BYTES and int(_HEAD.unpack_from(data)[2]) == _HMAC


def _envelope(kind: _Kind, body: bytes, signer: Signer, now_s: int | None) -> bytes:
    at_s = int(time.time()) if now_s is None else now_s
    head = _HEAD.pack(kind.magic, ENVELOPE_VERSION, _ED25519, signer.key_id, at_s)
    return head + signer.sign(kind.domain + head + body)


def _judged(kind: _Kind, data: bytes, body: bytes, body_bytes: int, trust: Trust) -> tuple[Verdict, str]:
    """Return HIT and who signed, or another verdict and nothing."""
    if len(data) > kind.limit:
        return Verdict.TOO_LARGE, ""
    if not data.startswith(kind.magic):  # also an entry without an envelope: nobody vouches for it
        return (Verdict.TRUNCATED if kind.magic.startswith(data) else Verdict.UNTRUSTED), ""
    if len(data) < ENVELOPE_BYTES or len(body) < body_bytes:
        return Verdict.TRUNCATED, ""
    _, version, scheme, key, at_s = _HEAD.unpack_from(data)
    if version != ENVELOPE_VERSION or scheme == _HMAC:
        return Verdict.OUTDATED, ""
    if scheme != _ED25519:
        return Verdict.UNTRUSTED, ""
    name = trust.signer_of(key, at_s, kind.domain + data[: _HEAD.size] + body, data[_HEAD.size : ENVELOPE_BYTES])
    return (Verdict.HIT, name) if name else (Verdict.UNTRUSTED, "")
