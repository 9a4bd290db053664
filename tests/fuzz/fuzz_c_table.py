"""Call the C table with random arguments: ``python tests/fuzz/fuzz_c_table.py SECONDS`` (``make fuzz``).

Every answer is compared with the plain twin's; one that differs ends the run. Arrays lie at the end of their memory, so that a
byte read or written after one is seen where memory is watched (valgrind, or a guard page here).
"""

from __future__ import annotations

import argparse
import ctypes
import mmap
import random
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

import c_table
import twins

EXTREMES = [0, 1, 2, 3, 4, 8, 64, 255, 256, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**64 - 1]
PAGE = mmap.PAGESIZE


class Guarded:
    """Memory of which the page after the last byte may not be touched."""

    def __init__(self) -> None:
        """Map some pages, and close the last."""
        self._pages = mmap.mmap(-1, 17 * PAGE)
        self._base = ctypes.addressof(ctypes.c_char.from_buffer(self._pages))
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.mprotect(ctypes.c_void_p(self._base + 16 * PAGE), ctypes.c_size_t(PAGE), 0):
            raise OSError(ctypes.get_errno(), "mprotect")

    def at_the_end(self, size: int) -> int:
        """The address of ``size`` bytes that end where the closed page begins."""
        return self._base + 16 * PAGE - size

    def copy(self, data: bytes) -> int:
        """Put bytes at the end; returns their address."""
        ctypes.memmove(self.at_the_end(len(data)), data, len(data))
        return self.at_the_end(len(data))


def whole(rng: random.Random, bits: int) -> int:
    """A number of so many bits, often an extreme one."""
    return (rng.choice(EXTREMES) if rng.random() < 0.7 else rng.getrandbits(bits)) % 2**bits


def try_plan(rng: random.Random, vyre: c_table.Table) -> None:
    declared = [
        twins.Declared(
            whole(rng, 64) if rng.random() < 0.2 else rng.randrange(9),
            rng.randrange(5) if rng.random() < 0.8 else whole(rng, 32),
            rng.randrange(5) if rng.random() < 0.8 else whole(rng, 32),
            rng.choice([0, 0, 1, 4, 64, 2**31]) if rng.random() < 0.95 else whole(rng, 32),
            rng.randrange(5) if rng.random() < 0.97 else rng.randrange(256),
            rng.randrange(7) if rng.random() < 0.97 else rng.randrange(256),
            is_output=rng.random() < 0.3,
            pipeline_live_out=rng.random() < 0.3,
        )
        for _ in range(rng.randrange(12))
    ]
    lengths = [whole(rng, 64) for _ in range(rng.randrange(8))]
    if c_table.plan(vyre, declared, lengths) != twins.build_plan(declared, lengths):
        raise AssertionError(f"plan_build differs for {declared} and {lengths}")


def try_lengths(rng: random.Random, vyre: c_table.Table) -> None:
    count = rng.randrange(10)
    indices = [rng.choice([None, place, place, whole(rng, 63)]) for place in range(count)]
    bindings = [
        twins.Measured(whole(rng, 64), whole(rng, 64), whole(rng, 64), rng.choice([None, whole(rng, 64)]), index)
        for index in indices
    ]
    lengths = [whole(rng, 64) for _ in range(rng.randrange(10))]
    if c_table.verdict(vyre, bindings, lengths) != twins.validate_lengths(bindings, lengths):
        raise AssertionError(f"validate_lengths differs for {bindings} and {lengths}")


def try_texts(rng: random.Random, vyre: c_table.Table, source: Guarded, target: Guarded) -> None:
    data = rng.randbytes(rng.randrange(3000))
    vyre.hex(source.copy(data), len(data), target.at_the_end(2 * len(data)))
    if ctypes.string_at(target.at_the_end(2 * len(data)), 2 * len(data)).decode() != twins.hex_text(data):
        raise AssertionError(f"hex differs for {data.hex()}")
    digest = rng.randbytes(32)
    vyre.shard_path(source.copy(digest), target.at_the_end(71))
    if ctypes.string_at(target.at_the_end(71), 71).decode() != twins.shard_path(digest):
        raise AssertionError(f"shard_path differs for {digest.hex()}")
    key = [whole(rng, 64) for _ in range(3)], tuple(whole(rng, 32) for _ in range(3))
    vyre.autotune_key(c_table.SpecCacheKey(*key[0], key[1]), target.at_the_end(32))
    shader, binding, spec = key[0]
    if ctypes.string_at(target.at_the_end(32), 32).decode() != twins.autotune_key_hex(shader, binding, key[1], spec):
        raise AssertionError(f"autotune_key differs for {key}")


def try_map(rng: random.Random, vyre: c_table.Table, source: Guarded) -> None:
    rows = [(rng.randbytes(rng.randrange(20)), whole(rng, 64)) for _ in range(rng.randrange(20))]
    entries = c_table.entries(rows)
    if rows:  # the last name ends at the closed page
        entries[len(rows) - 1].name = ctypes.cast(source.copy(rows[-1][0]), ctypes.c_char_p)
    if vyre.spec_map_hash(entries, len(rows)) != twins.spec_map_hash(rows):
        raise AssertionError(f"spec_map_hash differs for {rows}")


def try_cache(rng: random.Random, vyre: c_table.Table, source: Guarded, cache: int | None) -> None:
    manifest = rng.randbytes(rng.randrange(200))
    entry, digest = c_table.CacheEntry(), ctypes.create_string_buffer(32)
    at = source.copy(manifest)
    if vyre.cache_lookup(cache, at, len(manifest), entry) not in {-1, 1} or not entry.reason or entry.owner:
        raise AssertionError(f"cache_lookup takes {manifest.hex()} for a manifest")
    vyre.cache_release(entry)
    if vyre.pipeline_key(at, len(manifest), digest):
        raise AssertionError(f"pipeline_key fails for {manifest.hex()}")


def main() -> None:
    """Run for the seconds given, and print how many calls there were."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("seconds", type=float, nargs="?", default=300)
    options.add_argument("--seed", type=int, default=1)
    given = options.parse_args()
    rng = random.Random(given.seed)  # noqa: S311 -- no secret
    vyre, source, target = c_table.table(), Guarded(), Guarded()
    cache = vyre.cache_open(b"/nonexistent/vyre", None)
    rounds, end = 0, time.monotonic() + given.seconds
    while time.monotonic() < end:
        try_plan(rng, vyre)
        try_lengths(rng, vyre)
        try_texts(rng, vyre, source, target)
        try_map(rng, vyre, source)
        if rounds % 20 == 0:
            try_cache(rng, vyre, source, cache)
        rounds += 1
    vyre.cache_close(cache)
    print(f"{rounds} rounds of all functions, every answer the twin's")


if __name__ == "__main__":
    main()
