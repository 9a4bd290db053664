"""Entries from a store into a cache, and from a cache into a store: one that a driver asks for, or all of them at once.

What has a name in a store becomes an entry after its signature, its tombstone, and what every entry from elsewhere is asked.
Failures are raised: the caller of ``push`` and ``pull`` waits for the result.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Literal, TypeAlias

from blake3 import blake3

from vyre_driver.cache.admission import Admission, admit
from vyre_driver.cache.entry import Verdict, read_header
from vyre_driver.errors import InvalidKey
from vyre_driver.identity.keys import PipelineCacheKey
from vyre_driver.remote.envelope import ENVELOPE_BYTES, MAX_VALUE_BYTES, opened, opened_tombstone, sealed_entry
from vyre_driver.remote.names import ENTRIES, TOMBSTONES, device_name_of_manifest, entry_name, key_of_name

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from vyre_driver.cache.disk import DiskPipelineCache
    from vyre_driver.cache.entry import DeviceIds
    from vyre_driver.cache.upkeep import StoredEntry
    from vyre_driver.remote.store import Store
    from vyre_driver.remote.trust import Signer, Trust

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
