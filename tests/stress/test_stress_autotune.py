"""The tuning store under many processes and threads, and under processes that are killed while they save."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from vyre_driver.autotune import AutotuneStore

if TYPE_CHECKING:
    from pathlib import Path

PROCESSES, THREADS, ROUNDS = 8, 4, 2_000
KILLS = 500
HANGS_AFTER_S = 900

# Four threads share a store; every one adds a key of its own a round, and saves with whatever the others have added.
WORKER = """
import sys, threading
from vyre_driver.autotune import AutotuneKey, AutotuneRecord, AutotuneStore

path, mine, threads, rounds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
store, failed = AutotuneStore(), []

def add(thread):
    try:
        for turn in range(rounds):
            key = AutotuneKey(f"{mine:08x}{thread:08x}{turn:016x}", "gpu")
            store.put(key, AutotuneRecord((64, 1, 1), turn, (0, 0, 0), "2026-11-21"))
            store.save_if_dirty(path, wait_s=600)
    except BaseException as error:
        failed.append(error)

running = [threading.Thread(target=add, args=(one,)) for one in range(threads)]
for one in running:
    one.start()
for one in running:
    one.join()
assert not failed, failed
"""

# Reads all the time, until its input ends: every state that it sees has no fewer records than the one before.
READER = """
import select, sys
from vyre_driver.autotune import AutotuneStore

known = reads = 0
while not select.select([sys.stdin], [], [], 0)[0]:
    found = len(AutotuneStore.load(sys.argv[1]))
    assert found >= known, (found, known)
    known, reads = found, reads + 1
print(reads)
"""

# A writer counts up, fifty keys in turn, and says each number when it is saved; the parent kills it at any moment and looks.
KILLER = """
import os, random, signal, sys, time
from vyre_driver.autotune import AutotuneKey, AutotuneRecord, AutotuneStore

path, dice, said = sys.argv[1], random.Random(7), 0
AutotuneStore().save_if_dirty(path)
import filelock  # once, not in every writer
for turn in range(int(sys.argv[2])):
    reading, writing = os.pipe()
    writer = os.fork()
    while writer == 0:
        said += 1
        store = AutotuneStore()
        store.put(AutotuneKey(f"{said % 50:032x}", "gpu"), AutotuneRecord((1, 1, 1), 1, (0, 0, 0), samples=said))
        store.save_if_dirty(path)
        os.write(writing, said.to_bytes(4, "little"))
    os.close(writing)
    said = int.from_bytes(os.read(reading, 4), "little")
    time.sleep(dice.uniform(0, 0.01))
    os.kill(writer, signal.SIGKILL)
    assert os.waitpid(writer, 0)[1] == signal.SIGKILL
    while more := os.read(reading, 4):
        said = int.from_bytes(more, "little")
    os.close(reading)
    found = {record.samples for record in AutotuneStore.load(path).records().values()}
    assert max(found) in (said, said + 1), (turn, said, max(found))
    said = max(found)
    assert found == set(range(max(1, said - 49), said + 1)), (turn, said, sorted(found))
print(turn + 1, said > turn)
"""


def test_of_eight_processes_with_four_threads_each_no_record_is_lost_and_a_reader_always_reads(tmp_path: Path) -> None:
    path = tmp_path / "autotune.toml"
    rounds = ROUNDS // (PROCESSES * THREADS)
    reader = subprocess.Popen(
        [sys.executable, "-c", READER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
    )
    command = [sys.executable, "-c", WORKER, str(path)]
    workers = [subprocess.Popen([*command, str(one), str(THREADS), str(rounds)]) for one in range(PROCESSES)]
    ended = [worker.wait(HANGS_AFTER_S) for worker in workers]
    stdout, _ = reader.communicate(timeout=HANGS_AFTER_S)
    found = [key.key_hex for key, _ in AutotuneStore.load(path).records()]
    expected = [
        f"{process:08x}{thread:08x}{turn:016x}"
        for process in range(PROCESSES)
        for thread in range(THREADS)
        for turn in range(rounds)
    ]
    assert (ended, reader.returncode, int(stdout) > 0, found) == ([0] * PROCESSES, 0, True, expected)
    assert {one.name for one in tmp_path.iterdir()} - {"autotune.toml.lock", "home"} == {"autotune.toml"}


def test_of_five_hundred_killed_savers_none_loses_what_was_saved_before(tmp_path: Path) -> None:
    command = [sys.executable, "-c", KILLER, str(tmp_path / "autotune.toml"), str(KILLS)]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=HANGS_AFTER_S, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{KILLS} True\n", "")
