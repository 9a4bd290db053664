"""The cache under many processes, killed writers, a full disk and a hundred thousand entries; each ends with check() == []."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from vyre_driver.cache import DiskPipelineCache, PipelineEntry, Verdict
from vyre_driver.cache.entry import encode_entry
from vyre_driver.identity import PipelineCacheKey, PipelineFeatureFlags

if TYPE_CHECKING:
    from pathlib import Path

PROCESSES = 16
KILLS = 500
MANY = 100_000
HANGS_AFTER_S = 600

# A worker puts and gets for so many rounds; its entries differ from everybody else's, and a mixture of two would be seen.
WORKER = """
import sys
from vyre_driver.cache import DiskPipelineCache, PipelineEntry, Verdict
from vyre_driver.identity import PipelineCacheKey

root, mine, keys, rounds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
cache = DiskPipelineCache(root)
print("ready", flush=True)
sys.stdin.readline()
for turn in range(rounds):
    number = (turn * 7 + mine) % keys
    key = PipelineCacheKey(1, bytes(32), bytes(32), 0, (1, 1, 1), 0, "", b"manifest", number.to_bytes(32, "little"))
    entry = PipelineEntry(b"manifest", number.to_bytes(4, "little") + bytes([mine]) * (1000 + 997 * mine))
    assert cache.put(key, entry), cache.stats()
    found = cache.get(key)
    assert found.verdict is Verdict.HIT, (found, cache.stats())
    words = found.entry.spirv
    writer = words[4]
    assert words == number.to_bytes(4, "little") + bytes([writer]) * (1000 + 997 * writer)
cache.flush()
print(sorted(cache.stats()["counts"].items()))
"""

# The parent of the writers: it kills every other one when half of an entry is written, and the others at any time after so many
# puts as their number says.
KILLER = """
import os, signal, sys
from vyre_driver.cache import DiskPipelineCache, PipelineEntry, Verdict
from vyre_driver.identity import PipelineCacheKey

key = PipelineCacheKey(1, bytes(32), bytes(32), 0, (1, 1, 1), 0, "", b"manifest", bytes(32))
whole, write = set(), os.write
for number in range(int(sys.argv[2])):
    entry = PipelineEntry(b"manifest", bytes([number % 256]) * 300_000)
    reading, writing = os.pipe()
    never, kept = os.pipe()
    writer = os.fork()

    def write_half(descriptor, data):
        write(descriptor, data[: len(data) // 2])
        write(writing, b".")
        os.read(never, 1)

    while writer == 0:
        if number % 2:
            os.write = write_half
        else:
            write(writing, b".")
        DiskPipelineCache(sys.argv[1]).put(key, entry)
    for _ in range(1 if number % 2 else 1 + number % 3):
        os.read(reading, 1)
    os.kill(writer, signal.SIGKILL)
    assert os.waitpid(writer, 0)[1] == signal.SIGKILL
    for descriptor in (reading, writing, never, kept):
        os.close(descriptor)
    whole.add(entry.spirv)
    found = DiskPipelineCache(sys.argv[1]).get(key)
    assert found.verdict is Verdict.MISS or found.entry.spirv in whole, found.verdict
print(found.verdict.name)
"""

# On a file system of 256 KiB: what fits is whole, what does not is dropped and counted, and room makes it work again.
FULL_DISK = """
import os, sys
from vyre_driver.cache import DiskPipelineCache, PipelineEntry
from vyre_driver.identity import PipelineCacheKey

cache = DiskPipelineCache(sys.argv[1] + "/root")
def key(number):
    return PipelineCacheKey(1, bytes(32), bytes(32), 0, (1, 1, 1), 0, "", b"manifest", bytes([number]) * 32)
entry = PipelineEntry(b"manifest", bytes(20_000))
stored = [cache.put(key(number), entry) for number in range(40)]
found = [cache.get(key(number)).entry == entry for number in range(40)]
assert stored == found and 0 < sum(stored) < 40, (stored, found)
assert cache.stats()["counts"]["put_failed"] == 40 - sum(stored), cache.stats()
assert not [name for _, _, names in os.walk(sys.argv[1]) for name in names if name.endswith(".tmp")]
assert cache.check() == [], cache.check()
print(cache.stats()["last_error"], cache.prune(max_bytes=60_000).entries > 0, cache.put(key(50), entry), cache.check())
"""


def key(number: int) -> PipelineCacheKey:
    digest = number.to_bytes(4, "little") * 8
    return PipelineCacheKey(1, bytes(32), bytes(32), 0, (1, 1, 1), PipelineFeatureFlags(0), "", b"manifest", digest)


@pytest.mark.parametrize(("keys", "rounds"), [(1, 300), (1000, 1000)])
def test_16_processes_see_only_whole_entries(tmp_path: Path, keys: int, rounds: int) -> None:
    root = tmp_path / "root"
    arguments = [str(keys), str(rounds)]
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", WORKER, str(root), str(number), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(PROCESSES)
    ]
    assert [worker.stdout.readline() for worker in workers if worker.stdout] == ["ready\n"] * PROCESSES
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("go\n")
        worker.stdin.flush()
    said = [worker.communicate(timeout=HANGS_AFTER_S)[0] for worker in workers]
    assert said == [f"[('hit', {rounds}), ('put', {rounds})]\n"] * PROCESSES
    cache = DiskPipelineCache(root)
    assert (cache.check(), cache.usage().entries, cache.usage().temporaries) == ([], keys, 0)


def test_500_killed_writers_leave_whole_entries_and_temporary_files_that_are_swept(tmp_path: Path) -> None:
    root = tmp_path / "root"
    DiskPipelineCache(root).put(
        key(1), PipelineEntry(b"manifest", b"words")
    )  # a writer killed while it makes the root leaves none
    done = subprocess.run(
        [sys.executable, "-c", KILLER, str(root), str(KILLS)],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        timeout=HANGS_AFTER_S,
    )
    cache = DiskPipelineCache(root)
    left = cache.usage().temporaries
    assert (done.stdout, cache.check(), left >= KILLS // 2) == ("HIT\n", [], True)
    for path in root.glob("??/.*.tmp"):
        os.utime(path, (1e9, 1e9))
    assert ({problem.kind for problem in cache.check()}, cache.prune().temporaries) == ({"temporary"}, left)
    assert cache.check() == []


def test_a_full_disk_drops_puts_and_nothing_else(tmp_path: Path) -> None:
    unshare, mount = shutil.which("unshare"), shutil.which("mount")
    if unshare is None or mount is None:
        pytest.skip("not installed: unshare, mount")
    place = tmp_path / "small"
    place.mkdir(mode=0o700)
    script = f'{mount} -t tmpfs -o size=256k,mode=700 tmpfs "$0" && exec "$@"'
    command = [unshare, "--mount", "sh", "-c", script, str(place), sys.executable, "-c", FULL_DISK, str(place)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=HANGS_AFTER_S)
    if done.returncode != 0 and "denied" in done.stderr + done.stdout:
        pytest.skip("no file system may be mounted here")
    assert (done.stdout, done.returncode) == ("put: [Errno 28] No space left on device True True []\n", 0), done.stderr


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with 100,000 entries, laid out by hand."""
    root = tmp_path_factory.mktemp("crowded") / "root"
    DiskPipelineCache(root).put(key(0), PipelineEntry(b"manifest", b"words"))
    for number in range(MANY):
        name = key(number).digest.hex()
        shard = root / name[:2]
        if not shard.exists():
            shard.mkdir(mode=0o700)
        path = shard / f"{name}.bin"
        path.write_bytes(encode_entry(key(number).digest, PipelineEntry(b"manifest", number.to_bytes(4, "little"))))
        path.chmod(0o600)
        os.utime(path, (1.7e9 + number, 1.7e9 + number))
    return root


def median_us(cache: DiskPipelineCache, numbers: range) -> float:
    """Microseconds that a get takes."""
    times = []
    for number in numbers:
        began = time.perf_counter_ns()
        cache.get(key(number))
        times.append(time.perf_counter_ns() - began)
    return statistics.median(times) / 1000


def test_among_100000_entries_a_get_takes_what_it_takes_among_few_and_a_prune_is_quick(crowded: Path, tmp_path: Path) -> None:
    """Flat is within five times: what grows with the number of entries would be a thousand times as slow."""
    few = DiskPipelineCache(tmp_path / "few")
    for number in range(100):
        few.put(key(number), PipelineEntry(b"manifest", b"words"))
    began = time.perf_counter()
    many = DiskPipelineCache(crowded, readonly=True)
    first = many.get(key(1))
    opened_s = time.perf_counter() - began
    assert first.verdict is Verdict.HIT
    slow, fast = median_us(many, range(0, MANY, 37)), median_us(few, range(100))
    assert slow < 5 * fast + 50, (slow, fast)
    cache = DiskPipelineCache(crowded)
    began = time.perf_counter()
    report = cache.prune(max_bytes=4096 * (MANY // 2), max_age_s=1e12)
    pruned_s = time.perf_counter() - began
    assert (report.entries, report.kept, pruned_s < HANGS_AFTER_S) == (MANY // 2, MANY // 2, True), (report, pruned_s)
    assert (cache.get(key(MANY - 1)).verdict, cache.get(key(5)).verdict) == (Verdict.HIT, Verdict.MISS)
    assert cache.check() == []
    told = (
        f"get {slow:.1f} us among many, {fast:.1f} us among few; opened in {opened_s * 1e3:.2f} ms; pruned in {pruned_s:.2f} s"
    )
    sys.stdout.write(f"{told}\n")
