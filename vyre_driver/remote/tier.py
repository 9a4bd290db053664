"""One driver's view of the store that machines share: what is asked there, taken from there, and sent there.

Asked only after a local miss, and only by the background thread (worker.py). What is taken has to be signed by somebody who is
trusted, to be of this key and device, and to have our own SPIR-V byte for byte: the blob alone is left to trust. Only what this
process's driver compiled is signed and sent; what was imported never is, for signing it again would vouch for it.
"""

from __future__ import annotations

import logging
import secrets
import threading
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from blake3 import blake3

from vyre_driver import settings
from vyre_driver.cache.entry import DeviceIds, PipelineEntry, Verdict
from vyre_driver.cache.flight import FlightLock, MachineLock
from vyre_driver.errors import InvalidSetting
from vyre_driver.identity.keys import PipelineCacheKey, device_fields
from vyre_driver.identity.manifest import encode_manifest
from vyre_driver.process.clock import SYSTEM, Clock
from vyre_driver.remote.addresses import DEFAULT_TIMEOUT_S, MODES, checked_address, open_store
from vyre_driver.remote.breaker import Breaker
from vyre_driver.remote.envelope import MAX_VALUE_BYTES, put_absent, sealed_entry, signed_tombstone, take
from vyre_driver.remote.names import claim_name, device_name, entry_name, tombstone_name
from vyre_driver.remote.trust import Signer, Trust, signer_of_settings, trust_of_settings
from vyre_driver.remote.tuning import SharedRecords
from vyre_driver.remote.worker import Answer, Question, StoreWorker
from vyre_driver.telemetry.events import EventKind, Events

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from vyre_driver.cache.disk import DiskPipelineCache
    from vyre_driver.remote.store import Store
    from vyre_driver.vulkan.devices import PhysicalDevice


class Fetch(Answer):
    """A key that is looked for. ``code`` is our SPIR-V of it, which an entry must have; it is let go with the answer.

    The outcome is ``hit``, ``miss``, ``elsewhere`` (another process asks), ``refused_VERDICT``, or why it was not asked.
    """

    def __init__(self, key: PipelineCacheKey, code: bytes, clock: Clock = SYSTEM) -> None:
        """Begin without an answer."""
        super().__init__(clock)
        self.key, self.code = key, code
        self.began = clock.now()
        self.signer = ""
        self.is_taken = False
        self.taking = threading.Lock()
        """Held while the entry is put into the cache, and until ``is_taken`` and ``signer`` say so."""
        self.is_given_up = False
        """Whether the waiting thread has gone on without it."""

    def finish(self, outcome: str, signer: str = "") -> None:
        """Give the outcome, and who has signed what was taken."""
        self.signer, self.code = signer, b""
        super().finish(outcome)

    def wait(self, patience_s: float) -> str:
        """Return the outcome; empty if there is none in so many seconds, and it is given up then."""
        found = super().wait(patience_s)
        self.is_given_up = not found
        return found


_MOST_REMEMBERED = 4096
_LOOK_S = 0.002
LONGEST_CLAIM_S = 5.0
TURN, _TURN_S = "warm-up", 0.005
SEAT = "remote"  # beside those of flight.py, which compile


class RemoteTier:
    """What ``FirstPipelines`` asks, on behalf of one cache and device. May be used from several threads."""

    def __init__(  # noqa: PLR0913 -- what the parts of a driver are, by keyword
        self,
        worker: StoreWorker,
        *,
        cache: DiskPipelineCache,
        device: PhysicalDevice,
        events: Events,
        trust: Trust,
        signer: Signer | None,
    ) -> None:
        """Ask nothing yet."""
        self.worker = worker
        self._cache, self._events = cache, events
        self._trust, self._signer = trust, signer
        self.records = SharedRecords(worker, device, trust, signer, cache.note)
        """Tuning records there."""
        self._device = device_name(device_fields(device))
        self._ids = DeviceIds.of_manifest(encode_manifest(device_fields(device)))
        self._asked: dict[bytes, Fetch] = {}
        self._waited_in_vain = False  # for its turn
        self.sends_at_once = False
        """Whether others wait for what is compiled here, as in a warm-up."""
        cache.tell_uses(self.used)

    def ask(self, key: PipelineCacheKey, code: bytes) -> None:
        """Have a key looked for that has our SPIR-V ``code``, unless that is being done, or was in vain half a minute ago."""
        worker, name = self.worker, entry_name(self._device, key.digest)
        asked = self._asked.get(key.digest)
        if not self._trust or (asked is not None and not asked.outcome) or name in worker.absent:
            return
        fetch = self._asked[key.digest] = Fetch(key, code, worker.clock)
        if len(self._asked) > _MOST_REMEMBERED:
            self._asked.pop(next(iter(self._asked)), None)
        if not worker.ask(_Question(self, fetch, (tombstone_name(self._device, key.digest), name))):
            self._asked.pop(key.digest, None)
            self._cache.note("remote_shed")

    def wait(self, key: PipelineCacheKey, patience_s: float) -> bool:
        """Wait for the answer about a key for so many seconds at most; returns whether its entry has been taken.

        Where another process of this machine asks, it is waited for instead.
        """
        fetch = self._asked.get(key.digest)
        if fetch is None:
            return False
        clock = self.worker.clock
        until = clock.now() + patience_s
        outcome = fetch.wait(patience_s)
        if outcome == "elsewhere":
            seat = self.seat(key)
            while not (is_free := seat.take()) and clock.now() < until:
                clock.sleep(_LOOK_S)
            if is_free:
                seat.release()
            return is_free  # what the other has found is in the cache, or it has found nothing
        return outcome == "hit"

    def origin(self, key: PipelineCacheKey) -> str:
        """Return in words where the entry of a key was taken from; empty if it was not taken from the store by this driver."""
        fetch = self._asked.get(key.digest)
        if fetch is None:
            return ""
        with fetch.taking:  # an entry is in the cache a moment before those who wait for the answer go on
            return f"taken from the store, signed by {fetch.signer}" if fetch.is_taken else ""

    def compiled(self, key: PipelineCacheKey, code: bytes, blob: bytes) -> None:
        """Have others get what this process's driver has just compiled."""
        if self._signer is None or not self.worker.may_write:
            return
        data = sealed_entry(key.digest, PipelineEntry(key.manifest, code, blob), self._signer)
        if len(data) > MAX_VALUE_BYTES:  # which nobody would take
            self._cache.note("remote_put_shed")
        else:
            self._send(entry_name(self._device, key.digest), data)

    def claim(self, key: PipelineCacheKey, for_s: float) -> bool:
        """Return whether this process is to compile a key; False where somebody else has said so, for so many seconds.

        Where the store cannot say, or nothing is sent there, it is.
        """
        if self._signer is None or not self.worker.may_write:
            return True
        claim = _Waited(self.worker.clock, partial(_claim, claim_name(self._device, key.digest), for_s))
        with self.turn():
            is_answered = self.worker.ask(claim) and claim.wait(LONGEST_CLAIM_S)
        return not is_answered or claim.values[0] is not None

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Within it this process asks what a warm-up asks; the others of this machine wait, for 5 s at most.

        All processes of a fleet that starts ask at once, more than a server answers within a first answer's time; and what one
        has taken the others need not ask for. After 5 s in vain, for a process that is stopped, say, the wait is over.
        """
        clock, lock = self.worker.clock, MachineLock(self._cache, TURN)
        until = clock.now() + LONGEST_CLAIM_S
        while not (self.worker.is_open() or lock.take() or self._waited_in_vain):
            clock.sleep(_TURN_S)
            self._waited_in_vain = clock.now() >= until
        try:
            yield
        finally:
            lock.release()

    def look(self, keys: Sequence[PipelineCacheKey]) -> list[str]:
        """Return of each key, in one round trip, whether its entry is ``there``, or else ``claimed``; empty if neither.

        Where the store cannot say, all are empty. What is there is asked for anew, if it was absent before.
        """
        entries = [entry_name(self._device, key.digest) for key in keys]
        claims = [claim_name(self._device, key.digest) for key in keys]
        look = _Waited(self.worker.clock, lambda store: store.fetch([*entries, *claims], 0))
        if self.worker.is_open() or not self.worker.ask(look) or not look.wait(LONGEST_CLAIM_S):
            return [""] * len(keys)
        for name, value in zip(entries, look.values, strict=False):
            if value is not None:
                self.worker.absent.drop(name)
        found = zip(look.values, look.values[len(keys) :], strict=False)
        return [
            "claimed" if entry is None and claim is not None else "" if entry is None else "there" for entry, claim in found
        ]

    def ask_again(self, key: PipelineCacheKey) -> None:
        """Forget that a key was absent: somebody has said that he compiles it."""
        self.worker.absent.drop(entry_name(self._device, key.digest))

    def bury(self, key_digest: bytes, blob_digest: bytes) -> None:
        """Have others never take a blob on which the driver has died here twice."""
        if self._signer is not None and self.worker.may_write:
            data = signed_tombstone(key_digest, blob_digest, self._signer)
            self._send(tombstone_name(self._device, key_digest), data)

    def used(self, key_digest: bytes) -> None:
        """Have the store told, when it is next spoken to, that an entry which is here too is in use."""
        self.worker.uploads.touch(entry_name(self._device, key_digest))

    def facts(self) -> dict[str, object]:
        """Return the state of the store for this process, as plain data."""
        worker = self.worker
        return {
            "address": worker.address,
            "usable": not worker.is_open(),
            "reason": worker.problem or worker.breaker.reason,
            "may_write": self._signer is not None and worker.may_write,
            "seconds": worker.spent_s,
            "bytes_read": worker.bytes_read,
            "bytes_written": worker.bytes_written,
        }

    def _send(self, name: str, data: bytes) -> None:
        """Have a value sent, unless somebody else's is there by then."""
        if self.worker.uploads.add(partial(put_absent, name, data), len(data), self._cache.note, at_once=self.sends_at_once):
            self.worker.wake()
        else:
            self._cache.note("remote_put_shed")

    def answer(self, fetch: Fetch, name: str, values: Sequence[bytes | None]) -> bool | None:
        """Take an entry if it may be, and tell waiting threads; returns whether it was refused, None where there is none."""
        tombstone, data = values
        with fetch.taking:
            outcome, signer = ("miss", "") if data is None else self._take(fetch, tombstone, data)
            fetch.signer, fetch.is_taken = signer, outcome == "hit"
        if outcome != "hit":
            self.worker.absent.add(name)
        self._finish(fetch, outcome, signer)
        return None if data is None else outcome != "hit"

    def fail(self, fetch: Fetch, outcome: str) -> None:
        """Tell the waiting threads to go on without."""
        if outcome == "open":
            fetch.finish(outcome)
        else:
            self._finish(fetch, outcome)

    def seat(self, key: PipelineCacheKey) -> FlightLock:
        """Return the lock that the one process of this machine holds which asks for a key."""
        return FlightLock(self._cache, key, SEAT)

    def has_blob(self, key: PipelineCacheKey) -> bool:
        """Whether the entry of a key is here by now, compiled code and all."""
        entry = self._cache.get_uncounted(key).entry
        return entry is not None and bool(entry.native)

    def _finish(self, fetch: Fetch, outcome: str, signer: str = "") -> None:
        """Count and report what came of a question, then tell the waiting threads."""
        self._cache.note("remote_late" if outcome == "hit" and fetch.is_given_up else f"remote_{outcome}")
        duration_ns = round((self.worker.clock.now() - fetch.began) * 1e9)
        fetch.finish(outcome, signer)
        detail = f"hit, signed by {signer}" if signer else outcome
        self._events.emit(EventKind.FETCH, duration_ns, fetch.key.hex, detail=detail)

    def _take(self, fetch: Fetch, tombstone: bytes | None, data: bytes) -> tuple[str, str]:
        """Judge what a store had under a name; returns the outcome, and who signed it if it was taken."""
        digest, ids = fetch.key.digest, {self._ids}
        found, signer = take(self._cache, digest, data, tombstone, trust=self._trust, devices=ids, spirv=fetch.code)
        if found in {"imported", "known"}:
            return "hit", signer
        return f"refused_{found.counted if isinstance(found, Verdict) else found}", ""


class _Question(Question):
    """A question of a tier, as the worker asks it: within its block no other process of the machine asks for the same."""

    def __init__(self, tier: RemoteTier, fetch: Fetch, names: Sequence[str]) -> None:
        self.names = names
        self._tier, self._fetch = tier, fetch
        self._seat = tier.seat(fetch.key)

    def __enter__(self) -> bool:
        is_ours = self._seat.take() and not self._tier.has_blob(self._fetch.key)
        if not is_ours:
            self._fetch.finish("elsewhere")
        return is_ours

    def __exit__(self, *raised: object) -> None:
        self._seat.release()

    def ask(self, store: Store) -> Sequence[bytes | None]:
        return store.fetch(self.names, MAX_VALUE_BYTES)

    def answered(self, values: Sequence[bytes | None]) -> bool | None:
        return self._tier.answer(self._fetch, self.names[-1], values)

    def failed(self, outcome: str) -> None:
        self._tier.fail(self._fetch, outcome)


class _Waited(Question):
    """What ``fetch`` returns of a store, asked by the worker while a thread waits for it."""

    def __init__(self, clock: Clock, fetch: Callable[[Store], Sequence[bytes | None]]) -> None:
        self.values: Sequence[bytes | None] = ()
        self._fetch, self._answer = fetch, Answer(clock)

    def ask(self, store: Store) -> Sequence[bytes | None]:
        return self._fetch(store)

    def answered(self, values: Sequence[bytes | None]) -> None:
        self.values = values
        self._answer.finish("answered")

    def failed(self, outcome: str) -> None:
        del outcome
        self._answer.finish("failed")

    def wait(self, patience_s: float) -> bool:
        """Whether there is an answer, in so many seconds."""
        return self._answer.wait(patience_s) == "answered"


def _claim(name: str, for_s: float, store: Store) -> list[bytes | None]:
    """Claim a name for so many seconds; returns a value, which is None where somebody else has."""
    return [b"" if store.claim(name, secrets.token_bytes(16), for_s) else None]


_LOG = logging.getLogger("vyre_driver.remote")
_workers: dict[tuple[object, ...], StoreWorker] = {}


def open_tier(cache: DiskPipelineCache, device: PhysicalDevice, events: Events) -> RemoteTier | None:
    """Return the store that VYRE_CACHE_REMOTE names, as one driver asks it; None without one. Nothing is connected to.

    Drivers of one process that have the same store and cache share a connection.

    Raises
    ------
    InvalidSetting
        If a variable is not valid, or a file of keys may not be used.
    BackendUnavailable
        If signatures are to be made or checked, and ``cryptography`` is not installed.
    """
    url, mode = settings.text(settings.CACHE_REMOTE), settings.choice(settings.CACHE_REMOTE_MODE, MODES)
    if url is None or mode == "off":
        return None
    address = checked_address(url)
    timeout_s = settings.seconds(settings.CACHE_REMOTE_TIMEOUT) or DEFAULT_TIMEOUT_S
    secret_file = settings.absolute_path(settings.CACHE_REMOTE_SECRET_FILE)
    trust, signer = trust_of_settings(), signer_of_settings(cache.root)
    if mode == "write" and signer is None:
        variable = settings.CACHE_REMOTE_MODE.variable
        raise InvalidSetting(
            f"{variable} is write, and there is no key to sign with",
            fix=f"name one by {settings.CACHE_SIGN_KEY_FILE.variable} (vyre-driver cache keygen makes it), or read only",
            variable=variable,
            value=mode,
        )
    if not trust:
        fix = f"name a file of public keys by {settings.CACHE_TRUST_FILE.variable}"
        _LOG.warning("nothing is taken from the shared cache, because nobody is trusted. Fix: %s.", fix)
    name = url, timeout_s, secret_file, cache.root
    worker = _workers.get(name)
    if worker is None:
        opening = partial(open_store, url, timeout_s=timeout_s, secret_file=secret_file)
        breaker = breaker_of(cache, url)
        worker = _workers.setdefault(name, StoreWorker(opening, breaker, address=address, may_write=True))
    may_sign = None if mode == "read" else signer
    worker.wake()  # it imports what reaches the store while the driver opens its device
    return RemoteTier(worker, cache=cache, device=device, events=events, trust=trust, signer=may_sign)


def breaker_of(cache: DiskPipelineCache, url: str) -> Breaker:
    """Return what knows whether the drivers of this machine leave the store at a URL alone."""
    return Breaker(cache, blake3(url.encode()).hexdigest()[:16])
