"""What entries, tombstones, claims and tuning records are called in a store.

    vyre:e1:<device, 32 hex>:<key, 64 hex>       a signed entry; ``e1`` is the envelope's version
    vyre:d1:<device>:<key>                       a tombstone: the digest of a blob that killed a driver, signed
    vyre:w1:<device>:<key>                       the claim of one who compiles it for a warm-up
    vyre:t1:<device>:<digest, 64 hex>            a kernel's tuning records, each signed: a field for each identity

In a folder and in a bucket each ``:`` is a ``/``, and two digits of the last part stand before it as a folder of their own.

The device part is the digest of model and driver. It selects nothing, since the key covers all that: by it an operator lists
and removes what a new driver has made useless.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from vyre_driver.identity.keys import manifest_digest
from vyre_driver.identity.manifest import FieldValue, decode_manifest, encode_manifest

if TYPE_CHECKING:
    from vyre_driver.autotune.store.record import AutotuneKey

ENTRIES, TOMBSTONES, CLAIMS, TUNINGS = "vyre:e1:", "vyre:d1:", "vyre:w1:", "vyre:t1:"
WRITE_PROBE = f"{CLAIMS}probe:00"
"""The claim with which it is found out whether this user may write."""
DEVICE_DIGITS = 32
_FIRST_OF_DEVICE, _LAST_OF_DEVICE = "vendorID", "pointer bytes"
_PATH = re.compile(r"vyre/([a-z][0-9])/([0-9a-z]+)/([0-9a-f]{2})/([0-9a-f]+)")


def device_name(fields: list[tuple[str, FieldValue]]) -> str:
    """Return the 32 hex digits of a device, of what ``identity.device_fields`` says of it."""
    return manifest_digest(encode_manifest(fields)).hex()[:DEVICE_DIGITS]


def device_name_of_manifest(manifest: bytes) -> str:
    """Return the same of the device that an entry's manifest names; zeros where it names none.

    Raises
    ------
    ValueError
        If the bytes are not a manifest.
    """
    fields = list(decode_manifest(manifest))
    found = [name for name, _ in fields]
    if _FIRST_OF_DEVICE not in found or _LAST_OF_DEVICE not in found:
        return "0" * DEVICE_DIGITS
    return device_name(fields[found.index(_FIRST_OF_DEVICE) : found.index(_LAST_OF_DEVICE) + 1])


def entry_name(device: str, key: bytes) -> str:
    """Return the name of a key's signed entry; the key's digest is 32 bytes."""
    return f"{ENTRIES}{device}:{key.hex()}"


def tombstone_name(device: str, key: bytes) -> str:
    """Return the name of what says that a key's blob kills the driver."""
    return f"{TOMBSTONES}{device}:{key.hex()}"


def claim_name(device: str, key: bytes) -> str:
    """Return the name of the claim of one who compiles a key."""
    return f"{CLAIMS}{device}:{key.hex()}"


def tuning_name(device: str, key: AutotuneKey) -> str:
    """Return the name of a kernel's tuning records. Its key may hold any text, so a digest of both parts stands for it."""
    return f"{TUNINGS}{device}:{manifest_digest(encode_manifest([('key', key.key_hex), ('adapter', key.adapter_id)])).hex()}"


def key_of_name(name: str) -> bytes:
    """Return the last part of a name as bytes; empty where that is not 64 hex digits."""
    last = name.rpartition(":")[2]
    return bytes.fromhex(last) if re.fullmatch(r"[0-9a-f]{64}", last) else b""


def path_of(name: str) -> str:
    """Return the path of a name in a folder or a bucket."""
    root, kind, device, last = name.split(":")
    return f"{root}/{kind}/{device}/{last[:2]}/{last}"


def name_of(path: str) -> str | None:
    """Return the name of a path, or None for one that has none of ours."""
    match = _PATH.fullmatch(path)
    if match is None or not match[4].startswith(match[3]):
        return None
    return f"vyre:{match[1]}:{match[2]}:{match[4]}"
