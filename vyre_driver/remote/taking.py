"""From the bytes under a name to an entry of the cache: signature, tombstone, then what every entry from elsewhere is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from blake3 import blake3

from vyre_driver.cache.admission import Admission, admit
from vyre_driver.cache.entry import read_header
from vyre_driver.remote.envelope import opened, opened_tombstone

if TYPE_CHECKING:
    from collections.abc import Collection

    from vyre_driver.cache.disk import DiskPipelineCache
    from vyre_driver.cache.entry import DeviceIds
    from vyre_driver.remote.trust import Trust

Taken: TypeAlias = "Admission | Literal['deadly']"


def take(  # noqa: PLR0913 -- what is there, and what is asked of it
    cache: DiskPipelineCache,
    digest: bytes,
    data: bytes,
    tombstone: bytes | None,
    *,
    trust: Trust,
    devices: Collection[DeviceIds] | None,
    spirv: bytes | None = None,
) -> tuple[Taken, str]:
    """Put what a store has under a key's name into the cache; returns what became of it, and who signed it.

    Beside the results of ``admit`` there is ``deadly``: a signed tombstone names its blob. An entry without a blob here is
    replaced.
    """
    verdict, entry_bytes, signer = opened(data, trust)
    if entry_bytes is None:
        return verdict, ""
    if tombstone is not None and is_deadly(digest, entry_bytes, tombstone, trust):
        return "deadly", signer
    return admit(cache, digest, entry_bytes, hmac_key=None, devices=devices, spirv=spirv, over_code=True), signer


def is_deadly(digest: bytes, entry_bytes: bytes, tombstone: bytes, trust: Trust) -> bool:
    """Whether a tombstone that somebody trusted has signed names the blob of an entry that is neither sealed nor imported."""
    _, blob_digest, _ = opened_tombstone(digest, tombstone, trust)
    header = read_header(entry_bytes)
    if blob_digest is None or header is None or not 0 < header.native_bytes <= len(entry_bytes):
        return False
    return blake3(memoryview(entry_bytes)[-header.native_bytes :]).digest() == blob_digest
