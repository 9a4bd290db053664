"""The names of kernels beside the entries: kept when an entry is put, listed with it, and never in its way."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from literals import device_manifest, key

from vyre_driver.cache import DiskPipelineCache, PipelineEntry, kernel_names
from vyre_driver.cache.files import CacheRoot
from vyre_driver.cache.upkeep import CacheUsage

if TYPE_CHECKING:
    from pathlib import Path

ENTRY = PipelineEntry(device_manifest(), b"SPIR-V words")
ONE, TWO, THREE = "01" * 32, "02" * 32, "03" * 32
HEADER = "vyre-driver kernel names 1"

ADD = """
import sys
from vyre_driver.cache import DiskPipelineCache, PipelineEntry, kernel_names
from vyre_driver.identity import PipelineCacheKey

kernel_names.MAX_NAMES_BYTES = int(sys.argv[3])
cache, first = DiskPipelineCache(sys.argv[1]), int(sys.argv[2])
print("ready", flush=True)
sys.stdin.readline()
for number in range(first, first + 60):
    key = PipelineCacheKey(1, bytes(32), bytes(32), 0, (1, 1, 1), 0, "", b"manifest", bytes([number]) * 32)
    assert cache.put(key, PipelineEntry(b"manifest", b"words"), kernel=f"kernel {number} of process {first}")
print(cache.stats()["counts"])
"""

# The parent of a writer that dies when it has written half of a record.
KILL_IN_A_RECORD = """
import os, signal, sys
from vyre_driver.cache import DiskPipelineCache, PipelineEntry
from vyre_driver.identity import PipelineCacheKey

key = PipelineCacheKey(1, bytes(32), bytes(32), 0, (1, 1, 1), 0, "", b"manifest", b"\\x02" * 32)
writer = os.fork()
if writer == 0:
    write = os.write
    def write_half(descriptor, data):
        if not bytes(data).startswith(b"\\nhalf"):
            return write(descriptor, data)
        write(descriptor, data[: len(data) // 2])
        os.kill(os.getpid(), signal.SIGKILL)
    os.write = write_half
    DiskPipelineCache(sys.argv[1]).put(key, PipelineEntry(b"manifest", b"words"), kernel="half a name")
assert os.waitpid(writer, 0)[1] == signal.SIGKILL
"""


@pytest.fixture
def cache(root: Path) -> DiskPipelineCache:
    return DiskPipelineCache(root)


@pytest.fixture
def file(root: Path) -> Path:
    return root / "kernels.names"


def put(cache: DiskPipelineCache, number: int, kernel: str = "") -> None:
    assert cache.put(key(number), ENTRY, kernel=kernel)


def listed(cache: DiskPipelineCache) -> dict[str, str]:
    return {entry.key: entry.kernel for entry in cache.entries()}


def counts(cache: DiskPipelineCache) -> object:
    return cache.stats()["counts"]


def test_an_entry_is_listed_with_the_name_that_it_was_put_with(cache: DiskPipelineCache, file: Path) -> None:
    put(cache, 1, "saxpy")
    put(cache, 2)
    put(cache, 3, "größer als")
    assert listed(cache) == {ONE: "saxpy", TWO: "", THREE: "größer als"}
    assert file.read_text() == f"{HEADER}\nsaxpy {ONE}\ngrößer als {THREE}"
    assert (file.stat().st_mode & 0o777, counts(cache)) == (0o600, {"put": 3})


def test_an_entry_that_is_put_anew_has_its_last_name(cache: DiskPipelineCache) -> None:
    put(cache, 1, "first")
    put(cache, 1, "second")
    put(cache, 1)
    assert listed(cache) == {ONE: "second"}


def test_looking_entries_up_leaves_the_names_alone(cache: DiskPipelineCache, root: Path, file: Path) -> None:
    put(cache, 1, "saxpy")
    file.unlink()
    assert DiskPipelineCache(root).get(key(1)).entry == ENTRY
    assert (file.exists(), listed(cache)) == (False, {ONE: ""})


def test_names_of_a_base_are_listed_too_and_those_of_the_root_come_first(tmp_path: Path, root: Path) -> None:
    below = DiskPipelineCache(tmp_path / "base")
    put(below, 1, "in the base")
    put(below, 2, "in the base")
    cache = DiskPipelineCache(root, base=tmp_path / "base")
    put(cache, 1)
    put(cache, 2, "in the root")
    put(cache, 3, "in the root")
    assert listed(cache) == {ONE: "in the base", TWO: "in the root", THREE: "in the root"}


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("two\nlines " + THREE, r"two\nlines " + THREE),
        ("\x1b[2Jgone\r\u2028", r"\x1b[2Jgone\r\u2028"),
        ("lone \udcff", r"lone \udcff"),
        ("x" * 200, "x" * 200),
        ("x" * 201, "x" * 197 + "..."),
        ("\0" * 100_000, r"\x00" * 49 + "\\..."),
        ("\U0001f600" * 300, "\U0001f600" * 197 + "..."),
        (" ", " "),
    ],
)
def test_a_hostile_name_is_one_printable_line_of_200_characters_at_most(
    cache: DiskPipelineCache, file: Path, name: str, kept: str
) -> None:
    put(cache, 1, name)
    put(cache, 2, "next")
    assert listed(cache) == {ONE: kept, TWO: "next"}
    assert file.read_text().count("\n") == 2


def test_lines_that_are_no_records_are_left_out(cache: DiskPipelineCache, file: Path) -> None:
    put(cache, 1, "saxpy")
    put(cache, 2)
    put(cache, 3)
    lines = [f"\x1b[2J {TWO}", f"{'x' * 201} {TWO}", f"{TWO} {TWO[:-1]}", TWO, f" {TWO}", f"x {'AB' * 32}", "", f"last {THREE}"]
    with file.open("ab") as opened:
        opened.write(b"\n" + "\n".join(lines).encode() + b"\n\xff\0\xfe " + TWO.encode())
    assert listed(cache) == {ONE: "saxpy", TWO: "", THREE: "last"}


@pytest.mark.parametrize("there", [b"", b"vyre-driver kernel names 2\nother " + ONE.encode(), bytes(2 << 20), b"\xff"])
def test_a_file_of_another_format_is_not_read_and_makes_way(cache: DiskPipelineCache, file: Path, there: bytes) -> None:
    put(cache, 1)
    file.write_bytes(there)
    file.chmod(0o600)
    assert listed(cache) == {ONE: ""}
    put(cache, 2, "saxpy")
    assert (listed(cache), file.read_text()) == ({ONE: "", TWO: "saxpy"}, f"{HEADER}\nsaxpy {TWO}")


def test_a_file_that_would_pass_1_mib_keeps_the_names_of_entries_that_are_there(cache: DiskPipelineCache, file: Path) -> None:
    put(cache, 1, "here")
    gone = f"\ngone {'f' * 64}"
    with file.open("a") as opened:
        opened.write(gone * (((1 << 20) - file.stat().st_size) // len(gone)))
    put(cache, 2, "saxpy")
    assert (listed(cache), file.read_text()) == ({ONE: "here", TWO: "saxpy"}, f"{HEADER}\nhere {ONE}\nsaxpy {TWO}")


def test_where_half_of_the_file_cannot_hold_all_names_those_added_last_stay(
    cache: DiskPipelineCache, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_names, "MAX_NAMES_BYTES", 400)
    for number in range(1, 6):
        put(cache, number, "kernel")
    assert (file.stat().st_size, set(listed(cache).values())) == (26 + 5 * 72, {"kernel"})
    put(cache, 6, "kernel")
    assert [entry for entry, name in sorted(listed(cache).items()) if name] == [f"{number:02x}" * 32 for number in (4, 5, 6)]
    assert file.stat().st_size == 26 + 3 * 72


def test_a_name_that_is_added_between_the_reading_and_the_renaming_stays(
    cache: DiskPipelineCache, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(cache, 1, "first")
    put(cache, 2)
    publish = kernel_names.publish
    with file.open("ab", buffering=0) as opened:
        opened.write(f"\ngone {'f' * 64}".encode() * 2)

        def publish_late(directory: str, name: str, data: bytes, mode: int, *, shared: bool) -> None:
            opened.write(f"\nmeanwhile {TWO}".encode())
            publish(directory, name, data, mode, shared=shared)

        monkeypatch.setattr(kernel_names, "publish", publish_late)
        monkeypatch.setattr(kernel_names, "MAX_NAMES_BYTES", 300)
        put(cache, 3, "third")
    assert file.read_text() == f"{HEADER}\nfirst {ONE}\nmeanwhile {TWO}\nthird {THREE}"


def test_a_name_that_is_added_to_a_file_that_was_just_replaced_is_added_to_the_new_one(
    cache: DiskPipelineCache, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(cache, 1, "first")
    write, replaced = os.write, list[str]()

    def write_late(descriptor: int, data: bytes) -> int:
        if not replaced:
            replaced.append("once")
            kernel_names.publish(str(file.parent), file.name, HEADER.encode(), 0o600)
        return write(descriptor, data)

    put(cache, 2)
    monkeypatch.setattr(os, "write", write_late)
    kernel_names.add_name(CacheRoot(str(cache.root)), THREE, "third")
    assert file.read_text() == f"{HEADER}\nthird {THREE}"


@pytest.mark.parametrize("gone", [0, 900])
def test_4_processes_lose_no_name_also_where_one_of_them_replaces_the_file(root: Path, file: Path, gone: int) -> None:
    """Of 64 KiB, 900 names of entries that are gone leave room for few."""
    put(DiskPipelineCache(root), 255, "before")
    with file.open("a") as opened:
        opened.write(f"\ngone {'f0' * 32}" * gone)
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", ADD, str(root), str(first), str(64 << 10)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for first in (0, 60, 120, 180)
    ]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("\n")
        writer.stdin.flush()
    told = [(writer.communicate()[0], writer.returncode) for writer in writers]
    assert told == [("{'put': 60}\n", 0)] * 4
    right = {f"{number:02x}" * 32: f"kernel {number} of process {number // 60 * 60}" for number in range(240)}
    assert listed(DiskPipelineCache(root)) == {**right, "ff" * 32: "before"}
    assert ("gone" in file.read_text(), file.stat().st_size < 64 << 10) == (False, True)


def test_a_process_that_is_killed_within_a_record_spoils_no_other(cache: DiskPipelineCache, root: Path, file: Path) -> None:
    put(cache, 1, "before")
    subprocess.run([sys.executable, "-c", KILL_IN_A_RECORD, str(root)], check=True)
    assert file.read_text().endswith("\nhalf a name " + "02" * 12 + "0")
    put(cache, 3, "after")
    assert listed(cache) == {ONE: "before", TWO: "", THREE: "after"}


def test_a_full_disk_costs_the_name_and_is_counted(cache: DiskPipelineCache, monkeypatch: pytest.MonkeyPatch) -> None:
    put(cache, 1, "saxpy")
    write = os.write

    def write_on_full_disk(descriptor: int, data: bytes) -> int:
        return write(descriptor, data[:9] if bytes(data).startswith(b"\nlost") else data)

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", write_on_full_disk)
        put(cache, 2, "lost")
    put(cache, 3, "later")
    assert counts(cache) == {"kernel_names_failed": 1, "put": 3}
    assert cache.stats()["last_error"] == "kernel_names: [Errno 28] No space left on device: 'kernels.names'"
    assert listed(cache) == {ONE: "saxpy", TWO: "", THREE: "later"}


def test_a_read_only_cache_writes_no_name_and_lists_those_that_are_there(root: Path, file: Path) -> None:
    put(DiskPipelineCache(root), 1, "saxpy")
    before = file.read_bytes()
    cache = DiskPipelineCache(root, readonly=True)
    put(cache, 2, "in memory")
    assert (listed(cache), file.read_bytes(), counts(cache)) == ({ONE: "saxpy"}, before, {"put": 1})


def test_a_file_that_is_not_ours_alone_is_neither_read_nor_written(cache: DiskPipelineCache, root: Path, file: Path) -> None:
    put(cache, 1, "saxpy")
    elsewhere = root.parent / "elsewhere"
    elsewhere.write_text("theirs")

    def told() -> tuple[dict[str, str], object]:
        put(cache, 2, "more")
        return listed(cache), cache.stats()["last_error"]

    file.chmod(0o622)
    assert told() == ({ONE: "", TWO: ""}, "kernel_names: [Errno 1] it is not a regular file of ours alone: 'kernels.names'")
    file.unlink()
    file.symlink_to(elsewhere)
    assert told() == ({ONE: "", TWO: ""}, f"kernel_names: [Errno 40] Too many levels of symbolic links: {str(file)!r}")
    file.unlink()
    os.mkfifo(file)
    assert told() == ({ONE: "", TWO: ""}, "kernel_names: [Errno 1] it is not a regular file of ours alone: 'kernels.names'")
    assert elsewhere.read_text() == "theirs"


def test_the_names_are_no_entry_and_go_with_what_is_cleared(cache: DiskPipelineCache, file: Path) -> None:
    put(cache, 1, "saxpy")
    put(cache, 2)
    assert cache.usage() == CacheUsage(entries=2, allocated_bytes=8192)
    assert (cache.check(), cache.prune().kept) == ([], 2)
    assert (cache.clear(), file.exists(), listed(cache)) == (2, False, {})


def test_a_file_that_a_killed_process_left_of_the_names_goes_after_an_hour(cache: DiskPipelineCache, root: Path) -> None:
    put(cache, 1, "saxpy")
    left, new = root / f".{'0' * 32}.tmp", root / f".{'1' * 32}.tmp"
    left.write_text(HEADER)
    new.write_text(HEADER)
    os.utime(left, (0, 0))
    report = cache.prune()
    assert (report.temporaries, report.kept, left.exists(), new.exists()) == (1, 1, False, True)
    assert listed(cache) == {ONE: "saxpy"}


def test_a_shared_root_lets_the_group_add_names(root: Path) -> None:
    umask = os.umask(0o077)
    try:
        put(DiskPipelineCache(root, shared=True), 1, "saxpy")
    finally:
        os.umask(umask)
    assert (root / "kernels.names").stat().st_mode & 0o777 == 0o660
