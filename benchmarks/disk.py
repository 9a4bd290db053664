"""The cache on disk beside plain files, sqlite3, diskcache and lmdb: what a hit, a miss, a put and an open cost.

python -m benchmarks.disk [--json] [--entries N]; diskcache and lmdb are measured where they are installed. All keep 16 KiB a
key in one directory, hot in the page cache, and none waits for the disk; only ours verifies what it reads.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
import tempfile
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.timing import interleave, parser, print_rows, time_call
from vyre_driver.cache.disk import DiskPipelineCache
from vyre_driver.cache.entry import PipelineEntry
from vyre_driver.identity import PipelineCacheKey, encode_manifest

if TYPE_CHECKING:
    from collections.abc import Callable

PAYLOAD_BYTES = 16 * 1024
KEYS = 64
SETTLING_S = 1.1  # a root that has changed within a second is asked for its sub-directories on every get, for one lstat more


def pipeline(number: int) -> PipelineCacheKey:
    fields: list[tuple[str, int | str | bytes]] = [
        ("key version", 1),
        ("shader", number.to_bytes(32, "little")),
        ("binding layout", bytes(32)),
        ("push constant bytes", 0),
        *((f"workgroup {axis}", 1) for axis in "xyz"),
        ("feature flags", 0),
        ("backend", "kompute"),
        ("driverInfo", "Example 1.0"),
    ]
    return PipelineCacheKey.from_manifest(encode_manifest(fields))


class Ours:
    """The pipeline cache."""

    def __init__(self, folder: Path) -> None:
        self.cache = DiskPipelineCache(folder / "ours")
        self.keys = [pipeline(number) for number in range(2 * KEYS)]
        self.payload = secrets.token_bytes(PAYLOAD_BYTES)

    def put(self, number: int) -> None:
        key = self.keys[number]
        self.cache.put(key, PipelineEntry(key.manifest, self.payload))

    def get(self, number: int) -> object:
        return self.cache.get(self.keys[number]).entry


class Plain:
    """A file a key, written under another name and renamed, read without a look at it."""

    def __init__(self, folder: Path) -> None:
        self.paths = [f"{folder}/plain/{number:064x}.bin" for number in range(2 * KEYS)]
        (folder / "plain").mkdir()
        self.payload = secrets.token_bytes(PAYLOAD_BYTES)

    def put(self, number: int) -> None:
        path = self.paths[number]
        descriptor = os.open(f"{path}.tmp", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.write(descriptor, self.payload)
        os.close(descriptor)
        os.replace(f"{path}.tmp", path)  # noqa: PTH105 -- what it costs is measured

    def get(self, number: int) -> bytes | None:
        try:
            descriptor = os.open(self.paths[number], os.O_RDONLY)
        except FileNotFoundError:
            return None
        data = os.read(descriptor, PAYLOAD_BYTES + 1)
        os.close(descriptor)
        return data


class PlainOpen(Plain):
    """The same through Python's file objects."""

    def __init__(self, folder: Path) -> None:
        (folder / "files").mkdir()
        super().__init__(folder / "files")

    def get(self, number: int) -> bytes | None:
        try:
            with open(self.paths[number], "rb") as file:  # noqa: PTH123 -- the usual way is what is measured
                return file.read()
        except FileNotFoundError:
            return None


class Sqlite:
    """sqlite3 in write-ahead mode, not waiting for the disk."""

    def __init__(self, folder: Path) -> None:
        self.base = sqlite3.connect(folder / "cache.sqlite", isolation_level=None)
        self.base.execute("pragma journal_mode = wal")
        self.base.execute("pragma synchronous = off")
        self.base.execute("create table entries (key blob primary key, data blob)")
        self.keys = [number.to_bytes(32, "big") for number in range(2 * KEYS)]
        self.payload = secrets.token_bytes(PAYLOAD_BYTES)

    def put(self, number: int) -> None:
        self.base.execute("insert or replace into entries values (?, ?)", (self.keys[number], self.payload))

    def get(self, number: int) -> object:
        return self.base.execute("select data from entries where key = ?", (self.keys[number],)).fetchone()


class Diskcache:
    """diskcache, as it comes."""

    def __init__(self, folder: Path) -> None:
        import diskcache

        self.cache = diskcache.Cache(str(folder / "diskcache"))
        self.payload = secrets.token_bytes(PAYLOAD_BYTES)

    def put(self, number: int) -> None:
        self.cache.set(number.to_bytes(32, "big"), self.payload)

    def get(self, number: int) -> object:
        return self.cache.get(number.to_bytes(32, "big"))


class Lmdb:
    """lmdb, not waiting for the disk."""

    def __init__(self, folder: Path) -> None:
        import lmdb

        self.base = lmdb.open(str(folder / "lmdb"), map_size=1 << 30, sync=False)
        self.payload = secrets.token_bytes(PAYLOAD_BYTES)

    def put(self, number: int) -> None:
        with self.base.begin(write=True) as transaction:
            transaction.put(number.to_bytes(32, "big"), self.payload)

    def get(self, number: int) -> object:
        with self.base.begin() as transaction:
            return transaction.get(number.to_bytes(32, "big"))


def rotating(call: Callable[[int], object], first: int) -> Callable[[], object]:
    """Return a call that takes the next of KEYS numbers from ``first`` on."""
    turn = iter(range(1 << 60))
    return lambda: call(first + next(turn) % KEYS)


def failed_open(path: str) -> None:
    with suppress(FileNotFoundError):
        os.open(path, os.O_RDONLY)


def fill(root: Path, count: int) -> None:
    """Make a root with so many entries."""
    cache = DiskPipelineCache(root)
    for number in range(count):
        key = pipeline(1000 + number)
        cache.put(key, PipelineEntry(key.manifest, b"s"))


def open_and_get(root: Path, key: PipelineCacheKey) -> None:
    DiskPipelineCache(root).get(key)


def main() -> None:
    """Run every case."""
    options = parser(__doc__)
    options.add_argument("--entries", type=int, default=100_000, help="entries of the large root (default 100,000)")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        stores: dict[str, Any] = {}
        for kind in (Ours, Plain, PlainOpen, Sqlite, Diskcache, Lmdb):
            with suppress(ImportError):
                stores[kind.__name__.lower()] = kind(folder)
        for store in stores.values():
            for number in range(KEYS):
                store.put(number)
        time.sleep(SETTLING_S)
        time_it = lambda call: partial(time_call, call, given.repeats)  # noqa: E731 -- of this loop only
        rows = []
        for what, verb, first in [("hit of 16 KiB", "get", 0), ("miss", "get", KEYS), ("put of 16 KiB", "put", 0)]:
            contenders = {name: time_it(rotating(getattr(store, verb), first)) for name, store in stores.items()}
            if what == "miss":
                contenders["failed open"] = time_it(partial(failed_open, f"{folder}/plain/none.bin"))
            rows += interleave(what, contenders, given.rounds)
        began = time.perf_counter()
        fill(folder / "large", given.entries)
        filled_s = time.perf_counter() - began
        case = {"ours": time_it(partial(open_and_get, folder / "large", pipeline(1000)))}
        rows += interleave(f"open of {given.entries:,} entries, first hit", case, given.rounds)
        hit = {"ours": time_it(partial(DiskPipelineCache(folder / "large").get, pipeline(1000 + given.entries // 2)))}
        rows += interleave(f"hit among {given.entries:,} entries", hit, given.rounds)
        facts = {"filled at, entries a second": round(given.entries / filled_s)}
    print_rows(rows, facts, as_json=given.json)


if __name__ == "__main__":
    main()
