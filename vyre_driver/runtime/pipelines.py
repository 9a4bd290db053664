"""The first pipeline of a compiled module: made of the entry's blob, or compiled, by as few processes as can be.

This is the expensive step of a cold start, the driver's own compiler. Pipelines that follow are made of what it gave.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vyre_driver import settings
from vyre_driver.cache.entry import PipelineEntry
from vyre_driver.cache.flight import SingleFlight
from vyre_driver.cache.marker import CrashMarkers
from vyre_driver.errors import CacheNotWarm
from vyre_driver.identity.keys import PipelineCacheKey, PipelineFeatureFlags, device_fields, layout_digest, manifest_digest
from vyre_driver.identity.manifest import encode_manifest
from vyre_driver.process.clock import SYSTEM
from vyre_driver.vulkan.blob import blob_fits

if TYPE_CHECKING:
    from collections.abc import Callable

    from vyre_driver.cache.disk import DiskPipelineCache
    from vyre_driver.kompute.device import KomputeDevice
    from vyre_driver.kompute.pipeline import BoundPipeline
    from vyre_driver.lowering.source import KernelSource, PipelineSource
    from vyre_driver.process.clock import Clock
    from vyre_driver.remote.tier import RemoteTier
    from vyre_driver.telemetry.events import Events
    from vyre_driver.vulkan.devices import PhysicalDevice

LEAST_COMPILE_S = 0.05  # what compiles faster is neither asked for nor sent
LONGEST_PATIENCE_S = 5.0
STORED_SINCE = "another has compiled it since"


def pipeline_key(device: KomputeDevice, source: KernelSource) -> PipelineCacheKey:
    """Return the key of a kernel's pipeline on an open device: all of code, constants, bindings and device that changes it."""
    flags = PipelineFeatureFlags.SUBGROUP_OPS if source.uses_subgroups else PipelineFeatureFlags(0)
    if source.push_constant_bytes:
        flags |= PipelineFeatureFlags.PUSH_CONSTANTS
    return PipelineCacheKey.new(
        source.digest,
        layout_digest(source.plan),
        source.push_constant_bytes,
        source.workgroup,
        flags,
        device.backend_id,
        backend_flavour=device.api.flavour,
        specialization=source.specialization,
        device=device.physical,
        config=source.config,
        emitter_version=0 if source.target is None else source.target.emitter_version,
        emitter_options=None if source.target is None else source.target.options(),
        enabled_features=source.features,
    )


def shared_store(cache: DiskPipelineCache, device: PhysicalDevice, events: Events) -> RemoteTier | None:
    """Return the store of entries that machines share, for one driver; None where VYRE_CACHE_REMOTE names none.

    Raises InvalidSetting if a variable of it is not valid.
    """
    if settings.text(settings.CACHE_REMOTE) is None:
        return None
    from vyre_driver.remote.tier import open_tier  # late: a process without a store never has any of it

    return open_tier(cache, device, events)


@dataclass(frozen=True, slots=True)
class FirstPipeline:
    """What was made, the blob to make more of (empty without one), and what the trace is to say of it."""

    made: BoundPipeline
    native: bytes
    reason: str


class FirstPipelines:
    """How one driver gets them.

    ``is_usual`` is False where pipelines capture statistics, for which a driver may give no blobs, or compile for longer: other
    drivers on the device learn nothing of that.
    """

    def __init__(
        self,
        cache: DiskPipelineCache,
        device: PhysicalDevice,
        *,
        is_usual: bool = True,
        remote: RemoteTier | None = None,
        clock: Clock = SYSTEM,
    ) -> None:
        """Set aside what a driver has died on, and remember the rest; ``remote`` is the store that machines share."""
        self._cache = cache
        self._device = device
        self._is_usual = is_usual
        self.device_digest = manifest_digest(encode_manifest(device_fields(device)))
        """32 bytes that another driver version changes too."""
        self._flights = SingleFlight(cache, self.device_digest, clock)
        self.clock = clock
        self.remote = remote
        self._markers = CrashMarkers(cache) if remote is None else CrashMarkers(cache, remote.bury)
        self._crashed = self._markers.sweep()
        self.must_be_warm = False
        """Whether to raise CacheNotWarm instead of compiling; VYRE_ASSERT_WARM asks for it too."""

    def miss_reason(self, key: PipelineCacheKey, reason: str) -> str:
        """Return why there is no entry: the lookup's reason, and the crash that it was set aside for.

        Raises CacheNotWarm if nothing may be compiled.
        """
        crash = self._crashed.get(key.digest)
        said = reason if crash is None else f"{reason}: {crash}"
        if self._is_warm_wanted():
            near = self._cache.explain(key).nearest_in_words
            self._refuse_to_compile(key, f"{said}; {near}" if near else said)
        return said

    def missed(self, key: PipelineCacheKey, reason: str, lower: Callable[[], bytes]) -> tuple[PipelineEntry, str]:
        """Return the entry to go on with where the lookup found none, and what the trace is to say: SPIR-V that is lowered now.

        Where nothing may be compiled, the store that machines share is waited for, and its whole entry returned; raises
        CacheNotWarm if there is none.
        """
        if self.remote is not None and self._is_warm_wanted():
            self._from_store(key, lower(), b"")
            found = self._cache.get_uncounted(key).entry
            if found is not None and found.native:
                return found, f"{reason}; {self.remote.origin(key) or STORED_SINCE}"
        said = self.miss_reason(key, reason)
        return PipelineEntry(key.manifest, lower()), said

    def look_elsewhere(self, key: PipelineCacheKey, code: bytes) -> bool:
        """Have the store that machines share asked for a key, if that may save a compilation of 50 ms; nothing waits for it."""
        if self.remote is None or self.remote.worker.is_open() or self._flights.gives_no_blobs():
            return False
        if self._flights.expected_s(len(code)) < LEAST_COMPILE_S and not self._is_warm_wanted():
            return False
        self.remote.ask(key, code)
        return True

    def make(
        self,
        key: PipelineCacheKey,
        source: PipelineSource,
        reason: str,
        make: Callable[[bytes], BoundPipeline],
    ) -> FirstPipeline:
        """Make the first pipeline with ``make``, which takes a blob (empty without one); it may wait for another process's.

        ``source`` has the SPIR-V and the blob that came with the entry; ``reason`` is what the lookup said. Raises CacheNotWarm
        if it had to be compiled, and nothing may be.
        """
        code, native = source.code, source.native
        if native:
            found = self._of_blob(key, native, reason, make)
            if isinstance(found, FirstPipeline):
                return found
            reason = f"{reason}; compiled afresh: {found}"
        if self._flights.gives_no_blobs():
            return self._compile(key, code, reason, make)
        if self._is_warm_wanted():
            stored = self._stored_since(key, native) or self._from_store(key, code, native)
            return self._shared(key, code, stored, reason, make)
        with self._flights.acquire(key, len(code), lambda: self._stored_since(key, native)) as since:
            stored = self._from_store(key, code, native) if since is None else since
            if stored is None:
                return self._compile(key, code, reason, make)
        return self._shared(key, code, stored, reason, make)

    @property
    def gives_no_code(self) -> bool:
        """Whether the device gives no compiled code away, as far as is known, so that each process compiles anew."""
        return self._flights.gives_no_blobs()

    def is_here(self, key: PipelineCacheKey) -> bool:
        """Whether the cache has the compiled code of a key by now; nobody else is asked."""
        return self._stored_since(key, b"") is not None

    def was_taken(self, key: PipelineCacheKey) -> bool:
        """Whether this driver has what is here of a key from the store; what is being taken is waited for."""
        return self.remote is not None and self.remote.wait(key, LONGEST_PATIENCE_S)

    def has_arrived(self, key: PipelineCacheKey, code: bytes) -> bool:
        """Whether the store that machines share has given the compiled code of a key; it is asked, and waited for."""
        return self._from_store(key, code, b"") is not None

    def expected_s(self, code: bytes) -> float:
        """Return how long the driver is expected to compile a module, in seconds."""
        return self._flights.expected_s(len(code))

    def may_compile(self, key: PipelineCacheKey, code: bytes) -> bool:
        """Claim a key of all machines, for twice as long as compiling is expected to take; returns False if another has it.

        The store is asked anew when the key is next looked for.
        """
        expected_s = self.expected_s(code)
        if self.remote is None or expected_s < LEAST_COMPILE_S:
            return True
        is_ours = self.remote.claim(key, 2 * expected_s)
        self.remote.ask_again(key)
        return is_ours

    def _from_store(self, key: PipelineCacheKey, code: bytes, refused: bytes) -> bytes | None:
        """Return the blob that the store of all machines has, waiting for it no longer than half of what compiling takes."""
        if self.remote is None or not self.look_elsewhere(key, code):
            return None
        patience_s = LONGEST_PATIENCE_S
        if not self._is_warm_wanted():
            patience_s = min(patience_s, self._flights.expected_s(len(code)) / 2)
        return self._stored_since(key, refused) if self.remote.wait(key, patience_s) else None

    def keep(self, key: PipelineCacheKey, code: bytes, blob: bytes, given: bytes = b"") -> bool:
        """Store the driver's compiled blob with the entry; returns whether it is one that may be used again.

        A driver that was ``given`` another blob hands out that one's contents too: where those were imported, so is this.
        """
        if not blob_fits(blob, self._device) or self._markers.is_deadly(blob):
            return False
        there = self._cache.peek(key).entry if given else None
        if given and (there is None or there.native != given):
            return False  # where the other came from is not known any more
        is_imported = there is not None and there.imported
        if not is_imported:
            self._markers.made_here(blob)
        self._cache.put(key, PipelineEntry(key.manifest, code, blob, imported=is_imported))
        return True

    def _stored_since(self, key: PipelineCacheKey, refused: bytes) -> bytes | None:
        """Return the blob that another has stored since, if it is none that was refused."""
        entry = self._cache.get_uncounted(key).entry
        blob = b"" if entry is None else entry.native
        return blob if blob != refused and blob_fits(blob, self._device) else None

    def _shared(
        self,
        key: PipelineCacheKey,
        code: bytes,
        blob: bytes | None,
        reason: str,
        make: Callable[[bytes], BoundPipeline],
    ) -> FirstPipeline:
        """Make it of what another has stored; compile where that cannot be."""
        if blob is not None:
            origin = self.remote.origin(key) if self.remote is not None else ""
            found = self._of_blob(key, blob, f"{reason}; {origin or STORED_SINCE}", make)
            if isinstance(found, FirstPipeline):
                return found
            reason = f"{reason}; compiled afresh: {found}"
        return self._compile(key, code, reason, make)

    def _of_blob(
        self, key: PipelineCacheKey, blob: bytes, reason: str, make: Callable[[bytes], BoundPipeline]
    ) -> FirstPipeline | str:
        """Make it of a blob; returns why that must not be, if so."""
        with self._markers.first_use(key, blob) as refused:
            if refused:
                return refused
            made = make(blob)
        facts = made.facts
        if facts.created and not facts.shared and facts.cache_hit is False:
            self._refuse_to_compile(key, f"{reason}; the driver did not find its pipeline in the blob of {len(blob)} bytes")
        return FirstPipeline(made, blob, reason)

    def _compile(
        self, key: PipelineCacheKey, code: bytes, reason: str, make: Callable[[bytes], BoundPipeline]
    ) -> FirstPipeline:
        """Let the driver compile, and store what it gives."""
        if not self._flights.gives_no_blobs():
            self._refuse_to_compile(key, reason)
        made = make(b"")
        facts = made.facts
        if facts.created and not facts.shared and self._is_usual:
            self._flights.learn(len(code), facts.compile_ns, has_blob=facts.blob is not None)
        blob = facts.blob if facts.blob is not None and self.keep(key, code, facts.blob) else b""
        is_ours = facts.created and not facts.shared and self._is_usual
        if blob and self.remote is not None and is_ours and facts.compile_ns >= LEAST_COMPILE_S * 1e9:
            self.remote.compiled(key, code, blob)
        return FirstPipeline(made, blob, reason)

    def _is_warm_wanted(self) -> bool:
        return self.must_be_warm or settings.switch(settings.ASSERT_WARM)

    def _refuse_to_compile(self, key: PipelineCacheKey, reason: str) -> None:
        if self._is_warm_wanted():
            raise CacheNotWarm(
                f"pipeline {key.hex} would have to be compiled: {reason}",
                fix="fill the cache with a run that may compile, on this device and driver, before this one",
                key=key.hex,
                reason=reason,
            )
