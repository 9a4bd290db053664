"""A fleet of real processes that start together, each a machine with a root of its own, and the store that they share.

python -m benchmarks.remote_fleet [--json] [--machines N] [--pipelines K] [--compile-ms MS]: what compiles sleeps, all else is
what drivers do. As they come, all go through the pipelines in the order of the program, wait for the store, and nobody claims;
warmed, each goes its own way and claims what it compiles (vyre_driver.runtime.warming). Told is how often the fleet compiled,
and how long a machine took.
"""

from __future__ import annotations

import argparse
import json
import secrets
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from benchmarks.remote import SPIRV, Made, server
from benchmarks.timing import Row, print_rows
from vyre_driver.cache.disk import DiskPipelineCache
from vyre_driver.lowering.source import PipelineSource
from vyre_driver.remote.addresses import open_store
from vyre_driver.remote.breaker import Breaker
from vyre_driver.remote.tier import RemoteTier
from vyre_driver.remote.trust import Trust, read_signer
from vyre_driver.remote.worker import StoreWorker
from vyre_driver.runtime.pipelines import FirstPipelines
from vyre_driver.runtime.warming import make_ready
from vyre_driver.telemetry.events import Events
from vyre_driver.vulkan import enumerate_devices, select_device
from vyre_driver.vulkan.layer import _layer

if TYPE_CHECKING:
    from vyre_driver.identity import PipelineCacheKey
    from vyre_driver.vulkan.devices import PhysicalDevice

BLOB_BYTES = 16 << 10


class Machine:
    """What a driver has on one machine, and a compiler that sleeps."""

    def __init__(self, url: str, root: Path, place: Path, device: PhysicalDevice, compile_s: float) -> None:
        self._compile_s, self.compiled = compile_s, 0
        self._header = struct.pack("<IIII16s", 32, 1, device.vendor_id, device.device_id, device.pipeline_cache_uuid)
        cache = DiskPipelineCache(root)
        worker = StoreWorker(partial(open_store, url), Breaker(cache, "0" * 16), address=url, may_write=True)
        trust, signer = Trust.read(place / "trusted"), read_signer(place / "key")
        remote = RemoteTier(worker, cache=cache, device=device, events=Events(), trust=trust, signer=signer)
        self.first = FirstPipelines(cache, device, remote=remote)
        self.first._flights.learn(len(SPIRV), round(compile_s * 1e9), has_blob=True)  # noqa: SLF001 -- as after a first run

    def make(self, blob: bytes) -> Any:
        began = time.perf_counter_ns()
        if not blob:
            time.sleep(self._compile_s)
            self.compiled += 1
        made = blob or self._header + secrets.token_bytes(BLOB_BYTES)
        took_ns = time.perf_counter_ns() - began
        facts = _layer.PipelineFacts(created=True, shared=False, cache_hit=bool(blob), compile_ns=took_ns, blob=made)
        return SimpleNamespace(facts=facts)

    def call(self, key: PipelineCacheKey) -> None:
        """Do what compile and the first call of a kernel do."""
        self.first.look_elsewhere(key, SPIRV)
        self.first.make(key, PipelineSource(SPIRV, (), 0, b"", 0), "no entry", self.make)

    def kernel(self, key: PipelineCacheKey) -> Any:
        return SimpleNamespace(has_code=False, key=key, spirv=SPIRV, warm=partial(self.call, key))


def be_a_machine(given: argparse.Namespace) -> None:
    """Start when told, get all pipelines, and tell how often this machine compiled and how long it took."""
    url, root, place, begin = given.child
    device = select_device(enumerate_devices(), allow_software=True)
    machine = Machine(url, Path(root), Path(place), device, given.compile_ms / 1000)
    machine.first.remote.worker._prepare()  # type: ignore[union-attr]  # noqa: SLF001 -- imports are not what is measured
    keys = [Made.key_on(device, number) for number in range(given.pipelines)]
    print("ready", flush=True)
    sys.stdin.readline()
    began = time.perf_counter()
    if begin == "warmed":
        make_ready(machine.first, [machine.kernel(key) for key in keys])
    else:
        for key in keys:
            machine.call(key)
    print(json.dumps({"compiled": machine.compiled, "seconds": time.perf_counter() - began}), flush=True)


def fleet(how: str, given: argparse.Namespace) -> tuple[int, list[float]]:
    """Run a fleet against an empty store; returns how often it compiled, and the seconds of each machine."""
    device = select_device(enumerate_devices(), allow_software=True)
    with tempfile.TemporaryDirectory(prefix="vyre-fleet-") as name, server(Path(name)) as (_, urls):
        place = Path(name)
        Made(device, place)
        options = ["--machines", "1", "--pipelines", str(given.pipelines), "--compile-ms", str(given.compile_ms)]
        machines = []
        for number in range(given.machines):
            child = ["--child", urls["loopback"], str(place / f"root-{number}"), name, how]
            command = [sys.executable, "-m", "benchmarks.remote_fleet", *options, *child]
            machines.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        if [one.stdout.readline() for one in machines if one.stdout] != ["ready\n"] * len(machines):
            raise RuntimeError("a machine did not start")
        for one in machines:
            if one.stdin is not None:
                one.stdin.write("go\n")
                one.stdin.flush()
        told = [json.loads(one.communicate()[0]) for one in machines]
    return sum(one["compiled"] for one in told), [one["seconds"] for one in told]


def main() -> None:
    """Run both fleets."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--json", action="store_true", help="print data instead of a table")
    options.add_argument("--machines", type=int, default=50)
    options.add_argument("--pipelines", type=int, default=20)
    options.add_argument("--compile-ms", type=int, default=500)
    options.add_argument("--child", nargs=4, help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.child:
        be_a_machine(given)
        return
    rows, facts = [], {"machines": given.machines, "pipelines": given.pipelines, "compile_ms": given.compile_ms}
    for how in ("as they come", "warmed"):
        compiled, seconds = fleet(how, given)
        facts[f"compiled {how}"] = compiled
        ordered = sorted(seconds)
        tenth = len(ordered) // 10
        times = [1e6 * one for one in (statistics.median(ordered), ordered[tenth], ordered[-1 - tenth])]
        rows.append(Row("all pipelines of a machine", how, *times))
    print_rows(rows, facts, as_json=given.json)


if __name__ == "__main__":
    main()
