"""What a flush waits for, forgives, and tries again."""

from __future__ import annotations

import errno
import os
import shutil
import threading
from typing import TYPE_CHECKING

import pytest
from literals import key
from numbered_entries import fill, path_of

from vyre_driver.cache import PipelineEntry

if TYPE_CHECKING:
    from pathlib import Path


def synced(monkeypatch: pytest.MonkeyPatch, code: int = 0) -> list[str]:
    """Note the names that are synced; with a code, let files under 01 fail."""
    names: list[str] = []
    lock = threading.Lock()

    def note(descriptor: int) -> None:
        name = os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}"))  # noqa: PTH119, PTH115
        with lock:
            names.append(name)
        if code and name.startswith("0101"):
            raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "fdatasync", note)
    monkeypatch.setattr(os, "fsync", note)
    return names


def test_a_flush_waits_for_each_file_and_directory_once(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = fill(root, {1: 0, 2: 0})
    fill(root, {3: 0})
    cache.put(key(1), PipelineEntry(b"", b"again"))
    names = synced(monkeypatch)
    cache.flush()
    assert sorted(names) == ["01", "01" * 32 + ".bin", "02", "02" * 32 + ".bin", "root"]
    cache.flush()
    assert len(names) == 5


def test_a_flush_forgives_entries_and_roots_that_are_gone(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = fill(root, {1: 0, 2: 0})
    path_of(root, 1).unlink()
    names = synced(monkeypatch)
    cache.flush()
    assert sorted(names) == ["01", "02", "02" * 32 + ".bin", "root"]
    cache.put(key(3), PipelineEntry(b"", b""))
    shutil.rmtree(root)
    cache.flush()
    assert len(names) == 4


def test_only_what_failed_to_be_flushed_is_tried_again(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = fill(root, {1: 0, 2: 0})
    with pytest.MonkeyPatch.context() as patch:
        names = synced(patch, errno.EIO)
        with pytest.raises(OSError, match="Input/output error"):
            cache.flush()
    assert len(names) == 5
    names = synced(monkeypatch)
    cache.flush()
    assert sorted(names) == ["01", "01" * 32 + ".bin"]


def test_a_file_system_that_cannot_sync_directories_is_forgiven(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = fill(root, {1: 0})

    def fail(_: int) -> None:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    monkeypatch.setattr(os, "fsync", fail)
    cache.flush()


def test_what_an_interrupted_flush_did_not_get_to_stays_pending(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = fill(root, {1: 0})

    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fdatasync", interrupt)
        with pytest.raises(KeyboardInterrupt):
            cache.flush()
    names = synced(monkeypatch)
    cache.flush()
    assert sorted(names) == ["01", "01" * 32 + ".bin", "root"]


def test_many_files_are_flushed_on_no_more_than_16_threads(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = fill(root, dict.fromkeys(range(100), 0.0))
    threads: set[str] = set()
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    monkeypatch.setattr(os, "fdatasync", lambda _: threads.add(threading.current_thread().name))
    cache.flush()
    assert 1 <= len(threads) <= 16
