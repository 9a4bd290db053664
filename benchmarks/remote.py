"""The store that machines share: what it costs where it is not asked, and how long an entry takes to come from it.

python -m benchmarks.remote [--json]; a redis-server from .venv/bin (make setup) is started on a unix socket and on loopback.
Entries are made up, as a driver would write them; they are signed, fetched by the background thread, verified, and stored.
"""

from __future__ import annotations

import os
import secrets
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.timing import interleave, parser, print_rows, time_call
from vyre_driver.cache.disk import DiskPipelineCache
from vyre_driver.cache.entry import PipelineEntry
from vyre_driver.identity import PipelineCacheKey, device_fields, encode_manifest
from vyre_driver.remote.addresses import open_store
from vyre_driver.remote.breaker import Breaker
from vyre_driver.remote.envelope import sealed_entry
from vyre_driver.remote.names import device_name, entry_name
from vyre_driver.remote.tier import RemoteTier
from vyre_driver.remote.trust import Trust, make_key, trust_line
from vyre_driver.remote.worker import StoreWorker
from vyre_driver.telemetry.events import Events
from vyre_driver.vulkan import enumerate_devices, select_device

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from vyre_driver.vulkan.devices import PhysicalDevice

SERVER = Path(__file__).resolve().parents[1] / ".venv/bin/redis-server"
SIZES = {"16 KiB": 16 << 10, "128 KiB": 128 << 10, "1 MiB": 1 << 20}
SPIRV = b"\x03\x02\x23\x07" + bytes(1020)
WAITS_S = 20.0
PULLED = 100
SETTLING_S = 1.1  # as in benchmarks.disk
LEAVING = """
import sys, time
from functools import partial
from vyre_driver.cache import DiskPipelineCache
from vyre_driver.remote.addresses import open_store
from vyre_driver.remote.breaker import Breaker
from vyre_driver.remote.envelope import put_absent
from vyre_driver.remote.worker import StoreWorker
worker = StoreWorker(lambda: open_store(sys.argv[1]), Breaker(DiskPipelineCache(None), "0" * 16), address="", may_write=True)
worker.wake()
while worker._link._store is None:
    time.sleep(0.001)
for number in range(32):
    worker.uploads.add(partial(put_absent, f"vyre:e1:{number}", bytes(1 << 20)), 1 << 20, lambda _what: None)
worker.wake()
print(time.time(), flush=True)
"""


@contextmanager
def server(place: Path) -> Iterator[tuple[subprocess.Popen[bytes], dict[str, str]]]:
    """Run a redis-server, and give it and its addresses."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    path = place / "redis.sock"
    command = [
        str(SERVER),
        "--port",
        str(port),
        "--bind",
        "127.0.0.1",
        "--unixsocket",
        str(path),
        "--save",
        "",
        "--dir",
        str(place),
    ]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        try:
            while not path.exists():
                time.sleep(0.01)
            yield process, {"unix socket": f"unix:{path}", "loopback": f"redis://127.0.0.1:{port}"}
        finally:
            process.kill()


class Reader:
    """A machine that takes entries from a store, with a root of its own."""

    def __init__(self, url: str, root: Path | None, device: PhysicalDevice, trust: Trust) -> None:
        self.cache = DiskPipelineCache(root)
        breaker = Breaker(self.cache, "0" * 16, spread=lambda: 0.0)
        worker = StoreWorker(partial(open_store, url), breaker, address=url, may_write=False)
        self.tier = RemoteTier(worker, cache=self.cache, device=device, events=Events(), trust=trust, signer=None)

    def take(self, key: PipelineCacheKey) -> bytes:
        """Return the blob of a key that is in the store only."""
        self.tier.ask(key, SPIRV)
        entry = self.cache.get_uncounted(key).entry if self.tier.wait(key, WAITS_S) else None
        if entry is None:
            raise RuntimeError(self.cache.stats())
        return entry.native

    def forget(self, key: PipelineCacheKey) -> None:
        path = self.cache.entry_path(key)
        if path is not None:
            path.unlink(missing_ok=True)


class Made:
    """Keys on a device, and their signed entries, whose blobs have so many bytes."""

    def __init__(self, device: PhysicalDevice, place: Path) -> None:
        self.device, self._signer = device, make_key(place / "key")
        (place / "trusted").write_text(trust_line("builder", self._signer), "utf-8")
        self.trust = Trust.read(place / "trusted")
        header = struct.pack("<IIII16s", 32, 1, device.vendor_id, device.device_id, device.pipeline_cache_uuid)
        self._header = header

    def key(self, number: int) -> PipelineCacheKey:
        return self.key_on(self.device, number)

    @staticmethod
    def key_on(device: PhysicalDevice, number: int) -> PipelineCacheKey:
        fields: list[Any] = [("key version", 1), ("shader", number.to_bytes(32, "little")), ("binding layout", bytes(32))]
        fields += [("push constant bytes", 0), *((f"workgroup {axis}", 1) for axis in "xyz"), ("feature flags", 0)]
        return PipelineCacheKey.from_manifest(encode_manifest([*fields, ("backend", "kompute"), *device_fields(device)]))

    def put(self, url: str, number: int, size: int) -> PipelineCacheKey:
        key = self.key(number)
        entry = PipelineEntry(key.manifest, SPIRV, self._header + secrets.token_bytes(size - len(self._header)))
        store = open_store(url)
        store.put_new(
            entry_name(device_name(device_fields(self.device)), key.digest), sealed_entry(key.digest, entry, self._signer), 600
        )
        store.close()
        return key


def take_again(reader: Reader, key: PipelineCacheKey) -> Callable[[], float]:
    """Return what measures queue to usable blob, of an entry that is forgotten before each time."""

    def measured(repeats: int = 25) -> float:
        times = []
        for _ in range(repeats):
            reader.forget(key)
            began = time.perf_counter_ns()
            reader.take(key)
            times.append(time.perf_counter_ns() - began)
        return sorted(times)[repeats // 2] / 1000

    return measured


def pull(url: str, made: Made, keys: list[PipelineCacheKey], folder: Path) -> float:
    """Return the microseconds in which a new root takes many entries, from the first question on; the store is connected to."""
    with tempfile.TemporaryDirectory(dir=folder) as root:
        reader = Reader(url, Path(root) / "root", made.device, made.trust)
        reader.take(keys[0])
        began = time.perf_counter_ns()
        done = 1
        while done < len(keys):
            batch = keys[done : done + 60]
            for key in batch:
                reader.tier.ask(key, SPIRV)
            for key in batch:
                reader.take(key)
            done += len(batch)
        return (time.perf_counter_ns() - began) / 1000


def first_answer(url: str, made: Made) -> float:
    """Return the microseconds until a question to a store that does not answer has ended."""
    reader = Reader(url, None, made.device, made.trust)
    reader.tier.worker._prepare()  # noqa: SLF001 -- the client's import is another figure
    key = made.key(1 << 20)
    began = time.perf_counter_ns()
    reader.tier.ask(key, SPIRV)
    reader.tier.wait(key, WAITS_S)
    return (time.perf_counter_ns() - began) / 1000


def miss_rows(made: Made, given: Any) -> list[Any]:
    """Time a local miss without a store, and with one that is left alone."""
    cache = DiskPipelineCache(None)
    reader = Reader("unix:/nowhere", None, made.device, made.trust)
    reader.tier.worker.breaker.failed("refused")
    reader.tier.worker.breaker._until += 250  # noqa: SLF001 -- for the length of this
    key, worker = made.key(1 << 21), reader.tier.worker

    def without() -> object:
        return cache.get(key)

    def left_alone() -> object:
        found = cache.get(key)
        return worker.is_open() and found

    contenders = {
        name: partial(time_call, call, given.repeats) for name, call in [("no store", without), ("left alone", left_alone)]
    }
    return interleave("local miss in memory", contenders, given.rounds)


def hit_rows(made: Made, folder: Path, given: Any) -> list[Any]:
    """Time a local hit of 16 KiB without a store, and with one."""
    key, caches = made.key(1 << 22), {}
    for name in ("no store", "a store"):
        caches[name] = DiskPipelineCache(folder / name)
        if name == "a store":
            caches[name] = Reader("unix:/nowhere", folder / name, made.device, made.trust).cache
        caches[name].put(key, PipelineEntry(key.manifest, secrets.token_bytes(16 << 10)))
    time.sleep(SETTLING_S)
    contenders = {name: partial(time_call, partial(cache.get, key), given.repeats) for name, cache in caches.items()}
    return interleave("local hit of 16 KiB", contenders, given.rounds)


def leaving(url: str) -> float:
    """Return the microseconds from a process's last line to its end, with 32 MiB to send."""
    done = subprocess.run([sys.executable, "-c", LEAVING, url], stdout=subprocess.PIPE, text=True, check=True)
    return (time.time() - float(done.stdout)) * 1e6


def imported() -> float:
    """Return the microseconds that a process needs to import what reaches Redis and checks signatures."""
    modules = "vyre_driver.remote.tier, vyre_driver.remote.redis_store, cryptography.hazmat.primitives.asymmetric.ed25519"
    code = (
        f"from time import perf_counter as now; from vyre_driver import Driver; a = now(); import {modules}; print(now() - a)"
    )
    return float(subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True).stdout) * 1e6


def main() -> None:
    """Run every case."""
    given = parser(__doc__).parse_args()
    device = select_device(enumerate_devices(), given.device, allow_software=True)
    with tempfile.TemporaryDirectory(prefix="vyre-remote-") as name, server(Path(name)) as (process, urls):
        folder = Path(name)
        made = Made(device, folder)
        rows = [*hit_rows(made, folder, given), *miss_rows(made, given)]
        numbers = iter(range(1, 1 << 20))
        for what, size in SIZES.items():
            key = made.put(urls["loopback"], next(numbers), size)
            readers = {where: Reader(url, folder / f"{where}-{size}", device, made.trust) for where, url in urls.items()}
            contenders = {where: take_again(reader, key) for where, reader in readers.items()}
            rows += interleave(f"{what}, queue to usable blob", contenders, given.rounds)
        keys = [made.put(urls["loopback"], next(numbers), 16 << 10) for _ in range(PULLED)]
        rows += interleave(
            f"{PULLED} entries of 16 KiB", {"loopback": partial(pull, urls["loopback"], made, keys, folder)}, given.rounds
        )
        rows += interleave(
            "a server that is down", {"socket": partial(first_answer, f"unix:{folder}/none", made)}, given.rounds
        )
        rows += interleave("a process's end, 32 MiB to send", {"loopback": partial(leaving, urls["loopback"])}, given.rounds)
        process.send_signal(signal.SIGSTOP)
        rows += interleave(
            "a server that says nothing", {"loopback": partial(first_answer, urls["loopback"], made)}, given.rounds
        )
        rows += interleave("a process's end, nothing is taken", {"loopback": partial(leaving, urls["loopback"])}, given.rounds)
        process.send_signal(signal.SIGCONT)
        rows += interleave("import of all that a store needs", {"once a process": imported}, given.rounds)
    print_rows(rows, {"cores": os.cpu_count(), "device": device.name}, as_json=given.json)


if __name__ == "__main__":
    main()
