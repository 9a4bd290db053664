"""Bundles: cache entries in one file for another machine, a tar archive with a list of its members.

docs/cache-format.md has the members. The entries are copied as they lie on disk, under names made of their keys, so that
nothing depends on where the bundle was made. An importer trusts none of it; the list only says which entries to expect. Each
entry is verified like one of the cache's own, its key must be the digest of its manifest, and it is taken only with the seal of
a key that both sides hold (seal.py), signed by somebody whom the importer trusts (format 2), or when the importing user says to
trust the bundle. What is taken is marked as imported.
A bundle that was cut off has no end, or fewer entries than its list.

The archive is read block by block: ``tarfile`` reads a header record (a pax or GNU record with a long name) of whatever size it
claims. No member of a bundle needs one: a short record is skipped, a long one is refused, and nothing is read that has not been
judged by its header first.

Source: POSIX.1-2017, pax, "ustar Interchange Format".
"""

from __future__ import annotations

import io
import json
import re
import tarfile
from collections import Counter
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from vyre_driver.cache.admission import admit
from vyre_driver.cache.entry import MAX_ENTRY_BYTES, WRITTEN_BY, DeviceIds, PipelineEntry, Verdict, encode_entry
from vyre_driver.checks import U64_MAX, key_integer
from vyre_driver.errors import InvalidBundle, InvalidKey
from vyre_driver.identity.keys import PipelineCacheKey
from vyre_driver.identity.manifest import decode_manifest

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from typing import BinaryIO

    from vyre_driver.cache.disk import DiskPipelineCache
    from vyre_driver.cache.upkeep import StoredEntry

LIST_NAME = "vyre-bundle.json"
MAX_LIST_BYTES = 64 << 20
_BLOCK = tarfile.BLOCKSIZE
_MAX_RECORD_BYTES = 64 << 10
_ENTRY_NAME = re.compile(r"entries/([0-9a-f]{64})\.bin")
_FILES = (tarfile.REGTYPE, tarfile.AREGTYPE)
_RECORDS = (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK)


def members(source: BinaryIO) -> Iterator[tuple[str, bytes]]:
    """Yield name and bytes of each member: the list, then entries, none over its limit.

    Raises InvalidBundle at the first member that belongs in no bundle, or where the archive ends without the mark of its end.
    """
    place = 0
    while (member := _header(source)) is not None:
        if member.type in _RECORDS:
            if not 0 <= member.size <= _MAX_RECORD_BYTES:
                raise refused(f"it has a header record of {member.size} bytes, over the limit of {_MAX_RECORD_BYTES} bytes")
            _content(source, member.size)
            continue
        name, size = member.name, member.size
        if place == 0 and name != LIST_NAME:
            raise refused(f"it does not begin with {LIST_NAME}")
        is_known = place == 0 or _ENTRY_NAME.fullmatch(name) is not None
        limit = MAX_ENTRY_BYTES if place else MAX_LIST_BYTES
        if member.type not in _FILES or not is_known or not 0 <= size <= limit:
            raise refused(f"its member {place} is {name[:80]!r}, of {size} bytes, which belongs in none")
        yield name, _content(source, size)
        place += 1
    if place == 0:
        raise refused(f"it does not begin with {LIST_NAME}")


def refused(problem: str) -> InvalidBundle:
    """Return the error that says why a file is not a bundle."""
    return InvalidBundle(f"the file is not a bundle of cache entries: {problem}", fix="export the bundle anew")


def _header(source: BinaryIO) -> tarfile.TarInfo | None:
    """Return the next header, or None at the block of zeros that ends an archive."""
    block = _exactly(source, _BLOCK)
    if not any(block):
        return None
    try:
        return tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    except (tarfile.TarError, ValueError) as error:
        raise refused(f"it is not a tar archive, or a part of one: {error}") from error


def _content(source: BinaryIO, size: int) -> bytes:
    """Return the bytes after a header, without those that fill the last block."""
    return _exactly(source, -(-size // _BLOCK) * _BLOCK)[:size]


def _exactly(source: BinaryIO, size: int) -> bytes:
    parts, left = [], size
    while left:
        part = source.read(left)
        if not part:
            raise refused(f"it is not a tar archive, or a part of one: it ends {left} bytes too early")
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


BUNDLE_FORMAT, SIGNED_FORMAT = 1, 2
_MOST_ENVELOPE_BYTES = 96
_DEVICE_FIELDS = (("vendorID", int), ("deviceID", int), ("driverName", str), ("driverInfo", str))


@dataclass(frozen=True, slots=True)
class BundledEntry:
    """What the list of a bundle says of an entry, unverified: key in hex, bytes of its parts, its device and its kernel."""

    key: str
    spirv_bytes: int
    native_bytes: int
    vendorID: int = 0  # noqa: N815 -- Vulkan's names, as in the manifest
    deviceID: int = 0  # noqa: N815
    driverName: str = ""  # noqa: N815
    driverInfo: str = ""  # noqa: N815
    kernel: str = ""


@dataclass(frozen=True, slots=True)
class ImportReport:
    """The result of an import in entries: taken, known before, for none of the devices, and refused, by verdict."""

    imported: int
    known: int
    foreign: int
    refused: dict[str, int]


def export_bundle(
    cache: DiskPipelineCache,
    target: BinaryIO,
    keys: Collection[str] | None = None,
    progress: Callable[[int, int], object] = lambda _done, _of: None,
    sign: Callable[[bytes, PipelineEntry], bytes] | None = None,
) -> tuple[BundledEntry, ...]:
    """Write the entries with these keys in hex, or all, as a bundle; returns them in the order of their keys.

    Entries that do not verify are left out; one removed meanwhile is an empty member, which an import counts as refused.
    ``progress`` gets the number done and that of all. With ``sign``, which returns the signed bytes of a key's digest and its
    entry, the bundle has format 2, and imported entries are left out: only what was compiled here is signed.

    Raises
    ------
    OSError
        If the cache cannot be read, or the bundle cannot be written.
    """
    wanted = sorted((one for one in cache.entries() if keys is None or one.key in keys), key=lambda one: one.key)
    found, listed = [], []
    for one in wanted:
        entry = _stored(cache, one.manifest)
        if entry is not None and (sign is None or _is_signable(entry)):
            found.append((one.key, one.manifest))
            listed.append(_listed(one, entry))
    with tarfile.open(fileobj=target, mode="w|", format=tarfile.PAX_FORMAT) as archive:
        entries = [asdict(one) for one in listed]
        listing = {"format": BUNDLE_FORMAT if sign is None else SIGNED_FORMAT, "written_by": WRITTEN_BY, "entries": entries}
        _add(archive, LIST_NAME, json.dumps(listing, indent=1).encode())
        for done, (key, manifest) in enumerate(found, 1):
            entry = _stored(cache, manifest)
            data, digest = b"", bytes.fromhex(key)
            if entry is not None and sign is not None:
                data = sign(digest, entry) if _is_signable(entry) else b""
            elif entry is not None:
                data = encode_entry(digest, replace(entry, imported=False), hmac_key=cache.hmac_key)
            _add(archive, f"entries/{key}.bin", data)
            progress(done, len(found))
    return tuple(listed)


def _is_signable(entry: PipelineEntry) -> bool:
    return not entry.imported and entry.byte_len + _MOST_ENVELOPE_BYTES <= MAX_ENTRY_BYTES


def _stored(cache: DiskPipelineCache, manifest: bytes) -> PipelineEntry | None:
    try:
        return cache.peek(PipelineCacheKey.from_manifest(manifest)).entry
    except InvalidKey:
        return None


def _listed(stored: StoredEntry, entry: PipelineEntry) -> BundledEntry:
    fields = dict(decode_manifest(entry.manifest))
    device: dict[str, Any] = {name: fields[name] for name, kind in _DEVICE_FIELDS if isinstance(fields.get(name), kind)}
    return BundledEntry(stored.key, len(entry.spirv), len(entry.native), **device, kernel=stored.kernel)


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    """Add a member that says nothing of who wrote it, or when."""
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(data), 0o600
    archive.addfile(member, io.BytesIO(data))


def list_bundle(source: BinaryIO) -> tuple[BundledEntry, ...]:
    """Return what a bundle says is in it; nothing of that is verified.

    Raises
    ------
    InvalidBundle
        If it is not a bundle of this format.
    OSError
        If it cannot be read.
    """
    return _read_list(next(members(source))[1])[1]


def _read_list(data: bytes) -> tuple[int, tuple[BundledEntry, ...]]:
    """Return the format and the entries."""
    try:
        listing = json.loads(data)
        found, entries = listing["format"], tuple(_listed_entry(one) for one in listing["entries"])
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise refused(f"its list cannot be read: {error!r}") from error
    if found not in {BUNDLE_FORMAT, SIGNED_FORMAT} or type(found) is not int:
        raise refused(f"it has format {found!r}, and this reads formats {BUNDLE_FORMAT} and {SIGNED_FORMAT}")
    return found, entries


def _listed_entry(one: dict[str, Any]) -> BundledEntry:
    """Return a line of the list with the types and ranges that it should have; ValueError, TypeError or KeyError otherwise."""
    numbers = {name: key_integer(one[name], U64_MAX, name) for name in ("spirv_bytes", "native_bytes", "vendorID", "deviceID")}
    texts = {name: one[name].encode().decode() for name in ("key", "driverName", "driverInfo")}  # no lone surrogates
    kernel = one.get("kernel", "")  # 0.2 wrote none
    if not isinstance(kernel, str):
        raise TypeError(f"a kernel's name is a text, not {kernel!r:.80}")
    return BundledEntry(**texts, **numbers, kernel=kernel)  # type: ignore[arg-type]


def import_bundle(  # noqa: PLR0913 -- all but two by keyword
    cache: DiskPipelineCache,
    source: BinaryIO,
    *,
    trust: bool = False,
    devices: Collection[DeviceIds] | None = None,
    progress: Callable[[int], object] = lambda _done: None,
    opened: Callable[[bytes], tuple[Verdict, bytes | None]] | None = None,
) -> ImportReport:
    """Put the entries of a bundle into the cache.

    Parameters
    ----------
    trust
        Take entries without the seal of the cache's key. A blob is input that a driver trusts: only say so of a bundle that you
        or your build made.
    devices
        Leave out what is for none of these; None takes all. Entries for no device are always taken.
    progress
        Gets the number done.
    opened
        Returns HIT and the entry's bytes of what somebody trusted has signed, or another verdict: for bundles of format 2.

    Raises
    ------
    InvalidBundle
        If it is not a bundle, or nothing vouches for it: no key or ``opened``, and no trust. Entries before the place where a
        bundle is damaged, or was cut off, are verified like all others, and stay.
    CacheUnusable
        If what is taken would not stay: the cache has no directory, or may not write to it.
    OSError
        If it cannot be read.
    """
    counts: Counter[str | Verdict] = Counter()
    held = members(source)
    (found, listed), done = _read_list(next(held)[1]), 0
    is_signed = found == SIGNED_FORMAT
    _check_vouched(is_signed=is_signed, vouched=trust or (opened if is_signed else cache.hmac_key) is not None)
    cache.require_changeable()
    hmac_key = None if trust or is_signed else cache.hmac_key
    kernels = {one.key: one.kernel for one in listed}
    for done, (name, data) in enumerate(held, 1):
        verdict, entry_bytes = opened(data) if opened is not None and is_signed else (Verdict.HIT, data)
        if entry_bytes is None:
            counts[verdict] += 1
        else:
            key = name[-68:-4]
            kernel = kernels.get(key, "")
            counts[admit(cache, bytes.fromhex(key), entry_bytes, hmac_key=hmac_key, devices=devices, kernel=kernel)] += 1
        progress(done)
    if done != len(listed):
        raise refused(f"it lists {len(listed)} entries and holds {done}, of which {counts['imported']} were taken")
    refusals = sorted((outcome.name, count) for outcome, count in counts.items() if isinstance(outcome, Verdict))
    return ImportReport(counts["imported"], counts["known"], counts["foreign"], dict(refusals))


def _check_vouched(*, is_signed: bool, vouched: bool) -> None:
    """Refuse a bundle for which nothing vouches."""
    if vouched:
        return
    if is_signed:
        raise InvalidBundle(
            "nothing vouches for the bundle: its entries are signed, and nobody is trusted here",
            fix="set VYRE_CACHE_TRUST_FILE to a file with the signer's line, or trust it (--trust) if you made it",
        )
    raise InvalidBundle(
        "nothing vouches for the bundle: this cache has no key to check its seals with",
        fix="set VYRE_CACHE_HMAC_KEY_FILE to the key it was made with, or trust it (trust=True, --trust) if you made it",
    )
