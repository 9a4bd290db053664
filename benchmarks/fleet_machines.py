"""Simulated machines: what a driver has of a store, all its own code, and a compiler that takes simulated time."""

from __future__ import annotations

import secrets
import struct
from functools import cached_property, partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from vyre_driver.cache.disk import DiskPipelineCache
from vyre_driver.cache.entry import PipelineEntry
from vyre_driver.identity import PipelineCacheKey, device_fields, encode_manifest
from vyre_driver.lowering.source import PipelineSource
from vyre_driver.remote import worker as workers
from vyre_driver.remote.breaker import Breaker
from vyre_driver.remote.envelope import sealed_entry
from vyre_driver.remote.names import device_name, entry_name
from vyre_driver.remote.tier import RemoteTier
from vyre_driver.remote.worker import StoreWorker
from vyre_driver.runtime.pipelines import FirstPipelines
from vyre_driver.runtime.warming import make_ready
from vyre_driver.telemetry.events import Events
from vyre_driver.vulkan.layer import _layer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benchmarks.fleet_clock import Simulation
    from benchmarks.fleet_store import SimulatedStore
    from vyre_driver.remote.trust import Signer, Trust
    from vyre_driver.vulkan.devices import PhysicalDevice

SPIRV = b"\x03\x02\x23\x07" + bytes(1020)
_EPOCH_S = 1.8e9


class Fleet:
    """What all machines have: the pipelines that they need, whom they trust, and how long compiling takes."""

    def __init__(self, device: PhysicalDevice, trust: Trust, signer: Signer, pipelines: int, compile_s: float) -> None:
        """Make the keys."""
        self.device, self.trust, self.signer, self.compile_s = device, trust, signer, compile_s
        self.keys = [self._key(number) for number in range(pipelines)]

    def _key(self, number: int) -> PipelineCacheKey:
        fields: list[Any] = [("key version", 1), ("shader", number.to_bytes(32, "little")), ("binding layout", bytes(32))]
        fields += [("push constant bytes", 0), *((f"workgroup {axis}", 1) for axis in "xyz"), ("feature flags", 0)]
        return PipelineCacheKey.from_manifest(encode_manifest([*fields, ("backend", "kompute"), *device_fields(self.device)]))

    @cached_property
    def blob_header(self) -> bytes:
        """What the blobs of the device begin with."""
        device = self.device
        return struct.pack("<IIII16s", 32, 1, device.vendor_id, device.device_id, device.pipeline_cache_uuid)

    def blob(self) -> bytes:
        """Return compiled code, another each time."""
        return self.blob_header + secrets.token_bytes(32)

    def name(self, key: PipelineCacheKey) -> str:
        """Return what a key's entry is called in a store."""
        return entry_name(device_name(device_fields(self.device)), key.digest)

    def sealed(self, key: PipelineCacheKey, blob: bytes, signer: Signer) -> bytes:
        """Return the entry of a key, signed."""
        return sealed_entry(key.digest, PipelineEntry(key.manifest, SPIRV, blob), signer)


class _Worker(StoreWorker):
    """A worker whose thread is an actor, and whose connection is simulated."""

    def __init__(self, clock: Simulation, store: SimulatedStore, breaker: Breaker) -> None:
        self._simulation, self._store = clock, store
        self._woken = clock.condition()
        self._is_started = self._is_woken = False
        super().__init__(lambda: store, breaker, address=store.address, may_write=True, clock=clock)
        workers._workers.remove(self)  # noqa: SLF001 -- which are those that a process's end waits for

    def begin(self) -> None:
        super().begin()
        self._link = self._store  # type: ignore[assignment] -- all that a worker asks of a link

    def wake(self) -> bool:
        self._is_woken = True
        if self._is_started:
            self._woken.notify_all()
        else:
            self._is_started = True
            self._simulation.start(self._act, counts=False)
        return True

    def _act(self) -> None:
        while True:
            self._is_woken = False
            rest_s = self._serve_all()
            if not self._is_woken:
                self._woken.wait(rest_s)


class Machine:
    """A cache and a breaker, which all processes of a machine share; in memory, where they share them as they do a root."""

    def __init__(self, fleet: Fleet, clock: Simulation) -> None:
        """Have nothing."""
        self.fleet, self.clock = fleet, clock
        self.cache = DiskPipelineCache(None)
        self.breaker = Breaker(self.cache, "0" * 16, lambda: _EPOCH_S + clock.now())
        self.compiled = self.wrong = 0
        self.took_s: list[float] = []

    def process(self, store: SimulatedStore | None, program: Callable[[Process], object]) -> None:
        """Run a program as one more process, by an actor."""
        process = Process(self, store)
        began = self.clock.now()
        program(process)
        self.took_s.append(self.clock.now() - began)


class Process:
    """One process of a machine: the driver's own policy, with nobody's device."""

    def __init__(self, machine: Machine, store: SimulatedStore | None) -> None:
        """Have a worker of its own where there is a store."""
        self.machine, fleet = machine, machine.fleet
        remote = None
        if store is not None:
            worker = _Worker(machine.clock, store, machine.breaker)
            remote = RemoteTier(
                worker, cache=machine.cache, device=fleet.device, events=Events(), trust=fleet.trust, signer=fleet.signer
            )
        self.first = FirstPipelines(machine.cache, fleet.device, remote=remote, clock=machine.clock)
        self.first._flights.learn(len(SPIRV), round(fleet.compile_s * 1e9), has_blob=True)  # noqa: SLF001 -- as after a first run

    def warm(self) -> None:
        """Do what ``driver.warm`` does with all kernels."""
        kernels = [
            SimpleNamespace(has_code=False, key=key, spirv=SPIRV, warm=partial(self.call, key))
            for key in self.machine.fleet.keys
        ]
        make_ready(self.first, kernels)  # type: ignore[arg-type] -- all that it asks of a kernel

    def in_order(self) -> None:
        """Do what calls in the order of the program do."""
        for key in self.machine.fleet.keys:
            self.call(key)

    def call(self, key: PipelineCacheKey) -> None:
        """Do what compile and the first call of a kernel do."""
        self.first.look_elsewhere(key, SPIRV)
        self.first.make(key, PipelineSource(SPIRV, (), 0, b"", 0), "no entry", self._make)

    def _make(self, blob: bytes) -> Any:
        machine = self.machine
        if not blob:
            machine.compiled += 1
            machine.clock.sleep(machine.fleet.compile_s)
        elif not blob.startswith(machine.fleet.blob_header) or blob.endswith(POISON):
            machine.wrong += 1
        made = blob or machine.fleet.blob()
        took_ns = 0 if blob else round(machine.fleet.compile_s * 1e9)
        facts = _layer.PipelineFacts(created=True, shared=False, cache_hit=bool(blob), compile_ns=took_ns, blob=made)
        return SimpleNamespace(facts=facts)


POISON = b"poison" * 4


def ended(machines: Sequence[Machine]) -> list[float]:
    """Return how long each process took, in ascending order."""
    return sorted(took for machine in machines for took in machine.took_s)
