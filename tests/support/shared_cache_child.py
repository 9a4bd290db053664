"""A process with eight threads that get pipelines, from a shared store where they may: told is what each of them got.

python shared_cache_child.py URL ROOT KEYS-FOLDER SEED; the blob of a pipeline follows from its number, so who gets another one
sees it.
"""

from __future__ import annotations

import hashlib
import json
import random
import struct
import sys
import threading
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from vyre_driver.cache import DiskPipelineCache
from vyre_driver.identity import PipelineCacheKey, device_fields, encode_manifest
from vyre_driver.lowering.source import PipelineSource
from vyre_driver.remote import breaker
from vyre_driver.remote.addresses import open_store
from vyre_driver.remote.tier import RemoteTier, breaker_of
from vyre_driver.remote.trust import Trust, read_signer
from vyre_driver.remote.worker import StoreWorker
from vyre_driver.runtime.pipelines import FirstPipelines
from vyre_driver.telemetry.events import Events
from vyre_driver.vulkan import PhysicalDevice, enumerate_devices, select_device
from vyre_driver.vulkan.layer import _layer

SPIRV = b"\x03\x02\x23\x07" + bytes(60)
NUMBERS, THREADS, CALLS = 64, 8, 24
_COMPILES_S, _EXPECTED_NS = 0.02, 400_000_000


def the_device() -> PhysicalDevice:
    return select_device(enumerate_devices(), allow_software=True)


def key_of(device: PhysicalDevice, number: int) -> PipelineCacheKey:
    fields: list[Any] = [("key version", 1), ("shader", number.to_bytes(32, "little")), ("binding layout", bytes(32))]
    fields += [("push constant bytes", 0), *((f"workgroup {axis}", 1) for axis in "xyz"), ("feature flags", 0)]
    return PipelineCacheKey.from_manifest(encode_manifest([*fields, ("backend", "kompute"), *device_fields(device)]))


def blob_of(device: PhysicalDevice, number: int) -> bytes:
    """Return what compiling the pipeline gives, 32 bytes and some up to 128 KiB."""
    header = struct.pack("<IIII16s", 32, 1, device.vendor_id, device.device_id, device.pipeline_cache_uuid)
    return header + hashlib.shake_128(number.to_bytes(4, "little")).digest(16 << number % 14)


def main(url: str, root: str, place: str, seed: str) -> None:
    breaker.FIRST_S, breaker.LONGEST_S = 0.2, 1.0  # else the store would be left alone nearly all the time
    device, cache, wrong, compiled, done = the_device(), DiskPipelineCache(Path(root)), list[str](), list[int](), list[int]()
    worker = StoreWorker(partial(open_store, url), breaker_of(cache, url), address=url, may_write=True)
    trust, signer = Trust.read(Path(place) / "trusted"), read_signer(Path(place) / "key")
    remote = RemoteTier(worker, cache=cache, device=device, events=Events(), trust=trust, signer=signer)
    first = FirstPipelines(cache, device, remote=remote)
    first._flights.learn(len(SPIRV), _EXPECTED_NS, has_blob=True)  # noqa: SLF001 -- as after a first run

    def get(number: int) -> None:
        def make(blob: bytes) -> Any:  # noqa: ANN401 -- a pipeline
            if not blob:
                time.sleep(_COMPILES_S)
                compiled.append(number)
            facts = _layer.PipelineFacts(
                created=True, shared=False, cache_hit=bool(blob), compile_ns=_EXPECTED_NS, blob=blob or blob_of(device, number)
            )
            return SimpleNamespace(facts=facts)

        key = key_of(device, number)
        first.look_elsewhere(key, SPIRV)
        got = first.make(key, PipelineSource(SPIRV, (), 0, b"", 0), "no entry", make)
        if got.made.facts.blob != blob_of(device, number):
            wrong.append(f"{number}: {got.reason}")

    def be_a_thread(which: int) -> None:
        chance = random.Random(f"{seed} {which}")  # noqa: S311 -- no secret
        for _ in range(CALLS):
            get(chance.randrange(NUMBERS))
        done.append(which)

    threads = [threading.Thread(target=be_a_thread, args=(one,)) for one in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    counts = cache.stats()["counts"]
    assert isinstance(counts, dict)
    taken, refused = (
        counts.get("remote_hit", 0),
        sum(many for what, many in counts.items() if what.startswith("remote_refused")),
    )
    print(json.dumps([len(done), wrong, len(compiled), taken, refused]), flush=True)  # noqa: T201 -- what the test reads


if __name__ == "__main__":
    main(*sys.argv[1:])
