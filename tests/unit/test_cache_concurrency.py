"""Many threads, many processes, and writers that are killed: a reader sees a whole entry or none."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from literals import key

from vyre_driver.cache import DiskPipelineCache, PipelineEntry, Verdict

if TYPE_CHECKING:
    from pathlib import Path

KEY = key(0xAB)
NAME = "ab" * 32 + ".bin"

# Each writer puts entries of its own size and its own byte, so that a mixture of two would be seen.
PUT_AND_GET = """
import sys
from vyre_driver.cache import DiskPipelineCache, PipelineEntry, Verdict
from vyre_driver.identity import PipelineCacheKey

cache = DiskPipelineCache(sys.argv[1])
key = PipelineCacheKey(1, bytes(32), bytes(32), 0, (1, 1, 1), 0, "", b"manifest", b"\\xab" * 32)
mine = int(sys.argv[2])
whole = {(bytes([number]) * (4096 * number)) for number in range(1, 5)}
print("ready", flush=True)
sys.stdin.readline()
for _ in range(300):
    assert cache.put(key, PipelineEntry(b"manifest", bytes([mine]) * (4096 * mine))), cache.stats()
    found = cache.get(key)
    assert found.verdict is Verdict.HIT and found.entry.spirv in whole, found.verdict
print(sorted(cache.stats()["counts"].items()))
"""

# The parent of the writers: it kills each one after so many puts as its number says, in the midst of the next.
KILL_ANY_TIME = """
import os, signal, sys
from vyre_driver.cache import DiskPipelineCache, PipelineEntry, Verdict
from vyre_driver.identity import PipelineCacheKey

key = PipelineCacheKey(1, bytes(32), bytes(32), 0, (1, 1, 1), 0, "", b"manifest", b"\\xab" * 32)
entries = [PipelineEntry(b"manifest", bytes([number]) * (1 << 20)) for number in range(30)]
for number, entry in enumerate(entries):
    reading, writing = os.pipe()
    writer = os.fork()
    while writer == 0:
        os.write(writing, b".")
        DiskPipelineCache(sys.argv[1]).put(key, entry)
    for _ in range(1 + number % 4):
        os.read(reading, 1)
    os.kill(writer, signal.SIGKILL)
    assert os.waitpid(writer, 0)[1] == signal.SIGKILL
    found = DiskPipelineCache(sys.argv[1]).get(key)
    assert found.verdict is Verdict.MISS or found.entry in entries[: number + 1], found.verdict
print("whole", found.verdict.name)
"""

# As above, but each writer is killed after just so many pieces of 40,000 bytes as its number says; an entry has 27 of them.
KILL_IN_A_WRITE = """
import os, signal, sys
from vyre_driver.cache import DiskPipelineCache, PipelineEntry
from vyre_driver.identity import PipelineCacheKey

key = PipelineCacheKey(1, bytes(32), bytes(32), 0, (1, 1, 1), 0, "", b"manifest", b"\\xab" * 32)
write = os.write
for number in range(1, 31):
    reading, writing = os.pipe()
    never, _ = os.pipe()
    writer = os.fork()
    pieces = []

    def write_a_piece(descriptor, data):
        if len(pieces) == number:
            write(writing, b".")
            os.read(never, 1)
        pieces.append(write(descriptor, data[:40_000]))
        return pieces[-1]

    while writer == 0:
        os.write = write_a_piece
        DiskPipelineCache(sys.argv[1]).put(key, PipelineEntry(b"manifest", bytes([number]) * (1 << 20)))
    os.read(reading, 1)
    os.kill(writer, signal.SIGKILL)
    assert os.waitpid(writer, 0)[1] == signal.SIGKILL
    found = DiskPipelineCache(sys.argv[1]).get(key)
    print(number, found.verdict.name, found.entry and (len(found.entry.spirv), set(found.entry.spirv)))
"""


def entry_of(number: int) -> PipelineEntry:
    return PipelineEntry(b"manifest", bytes([number]) * (4096 * (number + 1)))


def names_below(root: Path) -> list[str]:
    """Every name but that of the note of the last prune, which the second cache on a root makes."""
    return sorted({path.name for path in root.rglob("*")} - {".pruned"})


@pytest.mark.parametrize("is_shared", [True, False])
def test_8_threads_that_put_and_get_one_key_see_only_whole_entries(tmp_path: Path, is_shared: bool) -> None:  # noqa: FBT001 -- both ways
    shared = DiskPipelineCache(tmp_path / "root")
    whole = [entry_of(number) for number in range(8)]

    def work(number: int) -> list[bool]:
        cache = shared if is_shared else DiskPipelineCache(tmp_path / "root")
        done = []
        for _ in range(50):
            done += [cache.put(KEY, whole[number]), cache.get(KEY).entry in whole]
        return done

    with ThreadPoolExecutor(8) as pool:
        assert [all(done) for done in pool.map(work, range(8))] == [True] * 8
    assert names_below(tmp_path / "root") == ["CACHEDIR.TAG", "ab", NAME]


def test_every_call_of_8_threads_is_counted(tmp_path: Path) -> None:
    cache = DiskPipelineCache(tmp_path / "root")

    def work(number: int) -> None:
        for _ in range(50):
            cache.put(KEY, entry_of(number))
            cache.get(KEY)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert cache.stats()["counts"] == {"hit": 400, "put": 400}


def test_8_threads_in_memory_lose_no_entry() -> None:
    cache = DiskPipelineCache(None)

    def work(number: int) -> list[bool]:
        mine = entry_of(number)
        return [cache.put(key(number), mine) and cache.get(key(number)).entry == mine for _ in range(200)]

    with ThreadPoolExecutor(8) as pool:
        assert [all(done) for done in pool.map(work, range(8))] == [True] * 8
    assert cache.stats()["counts"] == {"hit": 1600, "put": 1600}


def test_4_processes_that_put_and_get_one_key_see_only_whole_entries(tmp_path: Path) -> None:
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", PUT_AND_GET, str(tmp_path / "root"), str(number)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(1, 5)
    ]
    # All of them are let go when the last is ready; a time-out only ends a hang.
    assert [writer.stdout.readline() for writer in writers if writer.stdout] == ["ready\n"] * 4
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    said = [writer.communicate(timeout=100)[0] for writer in writers]
    assert said == ["[('hit', 300), ('put', 300)]\n"] * 4
    assert names_below(tmp_path / "root") == ["CACHEDIR.TAG", "ab", NAME]


def names_after(script: str, root: Path) -> tuple[str, list[str]]:
    """Run a parent of writers; return what it said, and the names in the shard with temporary ones as ``tmp``."""
    done = subprocess.run([sys.executable, "-c", script, str(root)], check=True, stdout=subprocess.PIPE, text=True, timeout=100)
    names = [path.name for path in (root / "ab").iterdir()]
    return done.stdout, sorted("tmp" if name.startswith(".") and name.endswith(".tmp") else name for name in names)


def test_writers_killed_at_any_time_leave_whole_entries_or_temporary_files(tmp_path: Path) -> None:
    said, names = names_after(KILL_ANY_TIME, tmp_path / "root")
    assert (said, set(names) - {"tmp"}) == ("whole HIT\n", {NAME})


def test_writers_killed_within_a_write_leave_the_entry_before_and_a_temporary_file(tmp_path: Path) -> None:
    said, names = names_after(KILL_IN_A_WRITE, tmp_path / "root")
    killed_in_the_first_put = [f"{number} MISS None" for number in range(1, 27)]
    killed_in_the_second = [f"{number} HIT ({1 << 20}, {{{number}}})" for number in range(27, 31)]
    assert said.splitlines() == killed_in_the_first_put + killed_in_the_second
    assert names == [NAME] + ["tmp"] * 30


def test_temporary_files_of_killed_writers_change_nothing(tmp_path: Path) -> None:
    cache = DiskPipelineCache(tmp_path / "root")
    cache.put(KEY, entry_of(1))
    for number in range(3):
        (tmp_path / "root" / "ab" / f".{number:032x}.tmp").write_bytes(b"half")
    assert (cache.get(KEY).entry, cache.put(KEY, entry_of(2)), cache.get(KEY).entry) == (entry_of(1), True, entry_of(2))


def test_a_reader_keeps_its_entry_while_writers_replace_it(tmp_path: Path) -> None:
    cache = DiskPipelineCache(tmp_path / "root")
    cache.put(KEY, entry_of(0))

    def write(number: int) -> bool:
        return all(cache.put(KEY, entry_of(number)) for _ in range(100))

    with ThreadPoolExecutor(4) as pool:
        writing = [pool.submit(write, number) for number in range(4)]
        verdicts = {cache.get(KEY).verdict for _ in range(300)}
        assert ([done.result() for done in writing], verdicts) == ([True] * 4, {Verdict.HIT})
