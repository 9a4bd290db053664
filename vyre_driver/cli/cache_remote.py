"""The actions of ``vyre-driver cache`` with the store that machines share: look at it, fill it, take from it, make keys."""

from __future__ import annotations

import datetime as dt
import os
import secrets
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from vyre_driver import settings
from vyre_driver.cache.entry import Verdict, decode_entry
from vyre_driver.cli.cache_entries import KEY_DIGITS, find_entry, ids_of, physical_devices, tell_taken
from vyre_driver.cli.options import human_bytes, human_measure, printable, progress, tell
from vyre_driver.display.line import count
from vyre_driver.errors import InvalidCommand, RemoteUnavailable
from vyre_driver.identity.keys import device_fields
from vyre_driver.remote.addresses import store_of_settings
from vyre_driver.remote.envelope import MAX_VALUE_BYTES, has_hmac, is_deadly, opened, pull, push, signed_at
from vyre_driver.remote.link import TimelyStore
from vyre_driver.remote.names import ENTRIES, WRITE_PROBE, device_name, device_name_of_manifest, entry_name, tombstone_name
from vyre_driver.remote.store import StoreFailure
from vyre_driver.remote.tier import breaker_of
from vyre_driver.remote.trust import is_name, make_key, signer_of_settings, trust_line, trust_of_settings

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator

    from vyre_driver.cache.disk import DiskPipelineCache
    from vyre_driver.cache.upkeep import StoredEntry
    from vyre_driver.remote.store import FailureKind, Store
    from vyre_driver.remote.trust import Signer, Trust
    from vyre_driver.vulkan.devices import PhysicalDevice

_FIXES: dict[FailureKind, str] = {
    "refused": "start the store, or correct VYRE_CACHE_REMOTE",
    "tls": "write redis:// if the server does not speak TLS, else see what it logged, or what keeps it busy",
    "timed_out": "see what keeps the store busy, or raise VYRE_CACHE_REMOTE_TIMEOUT",
    "late": "see what keeps the store or the network busy",
    "cut": "look at what the store logged, and try again",
    "denied": "correct the user, password or certificate (VYRE_CACHE_REMOTE_SECRET_FILE), or give that user the right",
    "full": "give the store more room, or let it forget what was not used (docs/fleet.md)",
    "other": "look at what the store logged",
}
_HMAC = (
    "signed with an HMAC, which 0.2 took. Fix: remove it from the store, and push it again with a key that vyre-driver cache "
    "keygen has made (VYRE_CACHE_SIGN_KEY_FILE)."
)
_NO_CODE = (
    "there is no compiled code to share: the Vulkan driver here gives none, as Mesa's CPU driver, so entries hold SPIR-V alone"
)


@contextmanager
def asked() -> Iterator[Store]:
    """Have the store of the settings within the block.

    Raises
    ------
    InvalidCommand
        If the settings name none.
    RemoteUnavailable
        If it fails.
    """
    named = store_of_settings()
    if named is None:
        switched_off = settings.text(settings.CACHE_REMOTE) is not None
        raise InvalidCommand(
            "the store is switched off by VYRE_CACHE_REMOTE_MODE" if switched_off else "no store is named",
            fix="set it to read or write" if switched_off else "set VYRE_CACHE_REMOTE to its URL (docs/fleet.md)",
        )
    store = TimelyStore(named)
    try:
        yield store
    except StoreFailure as error:
        raise RemoteUnavailable(str(error), fix=_FIXES[error.kind], address=store.address, kind=error.kind) from error
    finally:
        store.close()


def round_trip_s(store: Store) -> float:
    """Return how long the store takes for an answer once it is connected."""
    store.ping()
    began = time.perf_counter()
    store.ping()
    return time.perf_counter() - began


def needed_signer(cache: DiskPipelineCache) -> Signer:
    """Return what signs; raises InvalidCommand without a key."""
    signer = signer_of_settings(cache.root)
    if signer is None:
        raise InvalidCommand(
            "there is no key to sign with",
            fix="set VYRE_CACHE_SIGN_KEY_FILE to a key that vyre-driver cache keygen FILE has made",
        )
    return signer


def needed_trust() -> Trust:
    """Return whose signatures are taken; raises InvalidCommand where that is nobody."""
    trust = trust_of_settings()
    if not trust:
        raise InvalidCommand(
            "nobody is trusted, so nothing would be taken",
            fix="set VYRE_CACHE_TRUST_FILE to a file of the signers' public keys (docs/fleet.md)",
        )
    return trust


def run_remote(cache: DiskPipelineCache, options: argparse.Namespace) -> int:
    """Tell what the store is, how long it takes, whether this user may write to it, and what it has for the devices here."""
    trust, signer = trust_of_settings(), signer_of_settings(cache.root)
    with asked() as store:
        took_s = round_trip_s(store)
        may_write = _may_write(store)
        counts = [(one.name, sum(1 for _ in store.names(f"{ENTRIES}{_store_name(one)}:"))) for one in physical_devices()]
    left_alone = _left_alone(cache)
    trusted = sorted({key.name for key in trust.keys.values()})
    tell(
        options,
        {
            "store": store.address,
            "round_trip_s": took_s,
            "may_write": may_write,
            "trusted": trusted,
            "signs": signer is not None,
            "left_alone": left_alone or None,
            "devices": [{"device": name, "entries": number} for name, number in counts],
        },
        f"{store.address}: answers in {human_measure(took_s, 's')}, and this user may {'' if may_write else 'not '}write",
        f"taken: what is signed by {', '.join(trusted)}" if trusted else "taken: nothing, since nobody is trusted",
        *([f"drivers on this machine leave it alone for now: {left_alone}"] if left_alone else []),
        *([] if signer else ["there is no key to sign with"]),
        *(f"{count(number, 'entry')} for {printable(name)}" for name, number in counts),
        *_nothing_to_share(cache.entries()),
    )
    return 0


def _nothing_to_share(entries: Iterable[StoredEntry]) -> list[str]:
    """Return the line that says that no entry has code to share; no line where one has, or where there are no entries."""
    sizes = [entry.header.native_bytes for entry in entries if not entry.imported]
    return [_NO_CODE] if sizes and not any(sizes) else []


def _left_alone(cache: DiskPipelineCache) -> str:
    """Return why the drivers of this machine do not ask the store now; empty where they do."""
    breaker = breaker_of(cache, settings.text(settings.CACHE_REMOTE) or "")
    return breaker.reason.replace("_", " ") if breaker.is_open() else ""


def _may_write(store: Store) -> bool:
    try:
        store.claim(WRITE_PROBE, secrets.token_bytes(16), 1.0)
    except StoreFailure as error:
        if error.kind not in {"denied", "full"}:
            raise
        return False
    return True


def _store_name(device: PhysicalDevice) -> str:
    return device_name(device_fields(device))


def run_push(cache: DiskPipelineCache, options: argparse.Namespace) -> int:
    """Store what was compiled here, signed."""
    signer = needed_signer(cache)
    entries = [find_entry(cache, one) for one in options.keys] or sorted(cache.entries(), key=lambda one: one.key)
    with asked() as store, progress("pushing", len(entries)) as step:
        report = push(cache, store, signer, entries, step)
    left_out = dict(sorted(report.left_out.items()))
    tell(
        options,
        {"store": store.address, "stored": report.stored, "known": report.known, "left_out": left_out},
        f"{count(report.stored, 'entry')} stored in {store.address}, {report.known} known already",
        *(f"{number} left out: {reason}" for reason, number in left_out.items()),
        *_nothing_to_share(entries),
    )
    return 0


def run_pull(cache: DiskPipelineCache, options: argparse.Namespace) -> int:
    """Take what the store has for the devices here; status 1 when some were refused."""
    trust = needed_trust()
    here = physical_devices()
    names = None if options.any_device else [_store_name(one) for one in here]
    ids = None if options.any_device else {ids_of(one) for one in here}
    with asked() as store, progress("pulling") as step:
        report = pull(cache, store, trust, names, ids, step)
    signers = dict(sorted(report.signers.items()))
    by = f" (signed by {', '.join(f'{name}: {number}' for name, number in signers.items())})" if signers else ""
    facts = {"store": store.address, "taken": report.taken, "known": report.known, "signers": signers}
    taken = f"{count(report.taken, 'entry')} taken from {store.address}{by}, {report.known} known already"
    return tell_taken(options, facts, taken, report.refused)


def run_why(cache: DiskPipelineCache, options: argparse.Namespace) -> int:
    """Tell what the store has under a key, who signed it, and whether it would be taken."""
    key, names = _asked_for(cache, options.key)
    trust = trust_of_settings()
    with asked() as store:
        values = store.fetch(
            [*(entry_name(one, key) for one in names), *(tombstone_name(one, key) for one in names)], MAX_VALUE_BYTES
        )
    found = next((pair for pair in zip(values, values[len(names) :], strict=False) if pair[0] is not None), (None, None))
    data, stone = found
    signer, at_s, deadly, verdict = "", 0, False, Verdict.MISS
    if data is not None:
        verdict, entry_bytes, signer = opened(data, trust)
        if entry_bytes is not None:
            verdict, at_s = decode_entry(key, entry_bytes)[0], signed_at(data)
            deadly = stone is not None and is_deadly(key, entry_bytes, stone, trust)
    size = 0 if data is None else len(data)
    told = [f"signed by {signer} on {_day(at_s)}"] if signer else []
    told += [] if verdict is Verdict.HIT else [verdict.value]
    told += ["its blob kills the driver, says a tombstone"] if deadly else []
    told += [human_bytes(size)] if size else []
    told += [_HMAC] if data is not None and has_hmac(data) else []
    tell(
        options,
        {
            "key": key.hex(),
            "store": store.address,
            "verdict": verdict.name,
            "signer": signer or None,
            "signed_at": at_s or None,
            "deadly": deadly,
            "bytes": size,
        },
        f"{key.hex()[:KEY_DIGITS]} in {store.address}: {', '.join(told)}",
    )
    return 0


def _day(at_s: int) -> str:
    """Return a day of UTC; a signer may have named a time that has none."""
    try:
        return dt.datetime.fromtimestamp(at_s, dt.timezone.utc).date().isoformat()
    except (ValueError, OverflowError, OSError):
        return f"second {at_s}"


def _asked_for(cache: DiskPipelineCache, beginning: str) -> tuple[bytes, list[str]]:
    """Return the digest of a key, and the names of the devices that it may stand under: its own where it is in the cache."""
    digits = beginning.lower()
    if len(digits) == 64 and not any(one.key == digits for one in cache.entries()):
        try:
            return bytes.fromhex(digits), [_store_name(one) for one in physical_devices()]
        except ValueError:
            pass
    entry = find_entry(cache, beginning)
    return bytes.fromhex(entry.key), [device_name_of_manifest(entry.manifest)]


def run_keygen(_cache: DiskPipelineCache, options: argparse.Namespace) -> int:
    """Make a private key, and print the line with which others trust it."""
    path = Path(options.file)
    name = options.name or path.stem
    if not is_name(name):
        raise InvalidCommand(
            f"{name!r} cannot be a signer's name", fix="give --name 1 to 64 letters, digits and ._@-, a letter or digit first"
        )
    line = trust_line(name, make_key(Path(os.path.abspath(path))))  # noqa: PTH100 -- links stay as they are named
    tell(options, {"file": str(path), "name": name, "trust_line": line}, line)
    return 0
