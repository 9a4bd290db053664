"""Make entries durable: track what was written and not yet flushed to disk.

Publishing a file does not wait for the disk: after a crash an entry may be empty or incomplete, which its lengths and
digest show. ``flush`` waits.
"""

from __future__ import annotations

import errno
import os
import threading
from typing import TYPE_CHECKING

from vyre_driver.process._opened import Opened

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

MAX_FLUSH_THREADS = 16


class PendingFlush:
    """Files and directories that were written since the last flush. May be used from several threads."""

    def __init__(self) -> None:
        """Start with nothing pending."""
        self._files: set[str] = set()
        self._directories: set[str] = set()
        self._lock = threading.Lock()

    def add(self, path: str) -> None:
        """Note a file that was written, its directory and the one above, in which that one may be new."""
        directory = os.path.dirname(path)  # noqa: PTH120 -- on the way of a put
        with self._lock:
            self._files.add(path)
            self._directories.add(directory)
            self._directories.add(os.path.dirname(directory))  # noqa: PTH120

    def flush(self) -> None:
        """Wait until everything pending is on the disk; files that are gone by then are ignored.

        The first failure is raised when all the others were tried; what failed stays pending, and nothing else.
        """
        files: set[str] = set()
        directories: set[str] = set()
        none_left: tuple[set[str], set[str]] = set(), set()
        try:
            with self._lock:
                files, directories = self._files, self._directories
                self._files, self._directories = none_left
            failed_files = _sync_all(files, os.fdatasync)
            failed_directories = _sync_all(directories, _sync_directory)
            self._keep(failed_files, {*failed_directories, *(os.path.dirname(path) for path in failed_files)})  # noqa: PTH120
        except BaseException:  # an interrupt: which of them are on the disk is not known
            self._keep(files, directories)
            raise
        for error in (*failed_files.values(), *failed_directories.values()):
            raise error

    def _keep(self, files: Iterable[str], directories: Iterable[str]) -> None:
        with self._lock:
            self._files.update(files)
            self._directories.update(directories)


def _sync_all(paths: Iterable[str], sync: Callable[[int], None]) -> dict[str, OSError]:
    """Sync every path on a bounded number of threads; returns the errors by path."""
    ordered = sorted(paths)
    workers = min(os.cpu_count() or 1, MAX_FLUSH_THREADS, len(ordered))
    if workers <= 1:
        errors = [_sync(path, sync) for path in ordered]
    else:
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(workers, "vyre-flush") as pool:
            errors = list(pool.map(lambda path: _sync(path, sync), ordered))
    return {path: error for path, error in zip(ordered, errors, strict=True) if error is not None}


def _sync(path: str, sync: Callable[[int], None]) -> OSError | None:
    try:
        with Opened(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK) as descriptor:
            sync(descriptor)
    except FileNotFoundError:
        return None
    except OSError as error:
        return error
    return None


def _sync_directory(descriptor: int) -> None:
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in {errno.EINVAL, errno.ENOTSUP}:  # some file systems cannot, and need not
            raise
