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

``take``, ``push`` and ``pull`` move entries between a cache and a store: one that a driver asks for, or all of them at once.
What has a name in a store becomes an entry after its signature, its tombstone, and what every entry from elsewhere is asked.
Failures are raised: the caller of ``push`` and ``pull`` waits for the result.
"""

from __future__ import annotations

import struct
import time
from collections import Counter
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Literal, TypeAlias

from blake3 import blake3

from vyre_driver.cache.admission import Admission, admit
from vyre_driver.cache.entry import MAX_ENTRY_BYTES, PREFIX, DeviceIds, PipelineEntry, Verdict, encode_entry, read_header
from vyre_driver.errors import InvalidInput, InvalidKey
from vyre_driver.identity.keys import PipelineCacheKey
from vyre_driver.remote.names import ENTRIES, TOMBSTONES, device_name_of_manifest, entry_name, key_of_name

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from vyre_driver.cache.disk import DiskPipelineCache
    from vyre_driver.cache.upkeep import StoredEntry
    from vyre_driver.remote.store import Store
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


KEEP_S = 30 * 86400
"""How long a store that forgets by itself keeps what nobody uses, in seconds."""
_AT_ONCE = 16  # values that are no longer than 16 MiB together


@dataclass(slots=True)
class Pushed:
    """The outcome of a push: counts of entries, and those left out by the reason."""

    stored: int = 0
    known: int = 0
    left_out: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class Pulled:
    """The outcome of a pull: entries taken, by signer too, known before, and refused, by the reason."""

    taken: int = 0
    known: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    signers: Counter[str] = field(default_factory=Counter)


def push(
    cache: DiskPipelineCache,
    store: Store,
    signer: Signer,
    entries: Iterable[StoredEntry],
    progress: Callable[[int], object] = lambda _done: None,
) -> Pushed:
    """Store entries that were compiled here, signed; what the store has already stays. ``progress`` gets the number done.

    Left out are imported entries, those without a native blob, of which others gain nothing, and those over 16 MiB. The
    failure of the store goes through.

    Raises
    ------
    OSError
        If the cache cannot be read.
    """
    report = Pushed()
    for done, one in enumerate(entries, 1):
        try:
            key = PipelineCacheKey.from_manifest(one.manifest)
        except InvalidKey:
            report.left_out["not what its name says"] += 1
            continue
        entry = cache.peek(key).entry
        reason = "damaged" if entry is None or key.hex != one.key else ""
        if entry is not None and not reason:
            reason = _left_out(imported=entry.imported, native=entry.native, size=entry.byte_len)
        if reason or entry is None:
            report.left_out[reason] += 1
        elif store.put_new(
            entry_name(device_name_of_manifest(key.manifest), key.digest), sealed_entry(key.digest, entry, signer), KEEP_S
        ):
            report.stored += 1
        else:
            report.known += 1
        progress(done)
    return report


def put_absent(name: str, data: bytes, store: Store) -> bool:
    """Store a value unless the name is taken, in which case nothing is sent; returns whether it was free.

    The failure of the store goes through.
    """
    return store.fetch([name], 0)[0] is None and store.put_new(name, data, KEEP_S)


def _left_out(*, imported: bool, native: bytes, size: int) -> str:
    """Return why an entry is not pushed; empty where it is."""
    if imported:
        return "imported"
    if not native:
        return "without compiled code"
    return "over 16 MiB" if size + ENVELOPE_BYTES > MAX_VALUE_BYTES else ""


def pull(  # noqa: PLR0913 -- from where to where, and what of it
    cache: DiskPipelineCache,
    store: Store,
    trust: Trust,
    device_names: Iterable[str] | None,
    devices: Collection[DeviceIds] | None,
    progress: Callable[[int], object] = lambda _done: None,
) -> Pulled:
    """Take what a store has for these devices, by their names there and their ids; None for either takes all.

    The failure of the store goes through; what was taken before stays.

    Raises
    ------
    CacheUnusable
        If what is taken would not stay.
    """
    cache.require_changeable()
    here = {bytes.fromhex(one.key) for one in cache.entries() if one.header.native_bytes}
    report, done = Pulled(), 0
    for batch in _batches(_entry_names(store, device_names)):
        wanted = [name for name in batch if key_of_name(name) not in here]
        report.known += len(batch) - len(wanted)
        for name, data, tombstone in _fetched(store, wanted):
            outcome, signer = take(cache, key_of_name(name), data, tombstone, trust=trust, devices=devices)
            _count(report, outcome, signer)
        done += len(batch)
        progress(done)
    return report


def _fetched(store: Store, names: Sequence[str]) -> Iterator[tuple[str, bytes, bytes | None]]:
    """Yield the values that are there, with their names and tombstones; what is too long to come with others comes alone."""
    if not names:
        return
    limit = MAX_VALUE_BYTES // (2 * len(names))
    values = store.fetch([*names, *(TOMBSTONES + name.removeprefix(ENTRIES) for name in names)], limit)
    for name, found, tombstone in zip(names, values, values[len(names) :], strict=False):
        data = store.fetch([name], MAX_VALUE_BYTES)[0] if found is not None and len(found) > limit else found
        if data is not None:  # it may have gone since
            yield name, data, tombstone


def _count(report: Pulled, outcome: str | Verdict, signer: str) -> None:
    if isinstance(outcome, Verdict):
        report.refused[outcome.name] += 1
    elif outcome == "imported":
        report.taken += 1
        report.signers[signer] += 1
    elif outcome == "known":
        report.known += 1
    else:
        report.refused[outcome.upper()] += 1


def _entry_names(store: Store, device_names: Iterable[str] | None) -> Iterator[str]:
    prefixes = [ENTRIES] if device_names is None else [f"{ENTRIES}{one}:" for one in sorted(set(device_names))]
    for prefix in prefixes:
        yield from (name for name in store.names(prefix) if key_of_name(name))


def _batches(names: Iterator[str]) -> Iterator[list[str]]:
    while batch := list(islice(names, _AT_ONCE)):
        yield batch
