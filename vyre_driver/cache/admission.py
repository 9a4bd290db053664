"""Which entries from elsewhere are taken: the one way into a cache for bundles and for stores that machines share."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal, TypeAlias

from vyre_driver.cache.entry import NO_DEVICE, DeviceIds, PipelineEntry, Verdict, decode_entry
from vyre_driver.errors import InvalidKey
from vyre_driver.identity.keys import PipelineCacheKey

if TYPE_CHECKING:
    from collections.abc import Collection

    from vyre_driver.cache.disk import DiskPipelineCache

Admission: TypeAlias = "Literal['imported', 'known', 'foreign', 'foreign_code'] | Verdict"


def admit(  # noqa: PLR0913 -- what is asked of an entry, by keyword
    cache: DiskPipelineCache,
    digest: bytes,
    data: bytes,
    *,
    hmac_key: bytes | None,
    devices: Collection[DeviceIds] | None,
    spirv: bytes | None = None,
    over_code: bool = False,
    kernel: str = "",
) -> Admission:
    """Put an entry into a cache, marked as imported, if it is what it is said to be.

    Parameters
    ----------
    digest, data
        The digest of the key whose entry the bytes are said to be, 32 bytes, and the bytes.
    hmac_key
        The key without whose seal the entry is refused; None where something else vouches for it.
    devices
        Whom it may be for; None takes all. An entry for no device is always taken.
    spirv
        What its SPIR-V must be, byte for byte; None where that is not known yet.
    over_code
        Whether it takes the place of an entry that has SPIR-V and no native blob.
    kernel
        The name of the kernel that it was compiled for; nothing vouches for it.

    Returns
    -------
    Admission
        ``imported``; ``known``: there is one already; ``foreign``: for none of the devices; ``foreign_code``: with other
        SPIR-V; or the verdict that says why it is refused, IO_ERROR where it could not be stored.
    """
    verdict, entry = decode_entry(digest, data, hmac_key=hmac_key)
    if entry is None:
        return verdict
    try:
        key = PipelineCacheKey.from_manifest(entry.manifest)
    except InvalidKey:
        return Verdict.FOREIGN_KEY
    if key.digest != digest:
        return Verdict.FOREIGN_KEY
    ids = DeviceIds.of_manifest(entry.manifest)
    if devices is not None and ids != NO_DEVICE and ids not in devices:
        return "foreign"
    if spirv is not None and entry.spirv != spirv:
        return "foreign_code"
    if _is_known(cache, key, entry, over_code=over_code):
        return "known"
    return "imported" if cache.put(key, replace(entry, imported=True), kernel=kernel) else Verdict.IO_ERROR


def _is_known(cache: DiskPipelineCache, key: PipelineCacheKey, entry: PipelineEntry, *, over_code: bool) -> bool:
    there = cache.peek(key).entry
    return there is not None and not (over_code and entry.native and not there.native)
