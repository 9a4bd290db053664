"""Crash markers: a compiled blob that has crashed the driver twice is never loaded again.

A blob is input that a driver trusts, and a driver that chokes on one takes the process with it. So before this machine gives
one to its driver for the first time, a marker is written and made durable: a file in ``root/marks``, named by the key, which
holds the blob's digest and is locked (flock) as long as its process lives. It is removed when the driver has loaded the blob. A
marker that no process holds was left by a process that died in between: the entry is set aside, and its blob is suspected. A
process may be killed at any moment, for want of memory or by hand, and the driver would compile the same bytes again: only when
another one dies with that blob is it never used again here.

Blobs that were loaded without a crash are remembered by machine, as digests in one file that is read when a blob is first used
in a process. Dispatches, and compiled kernels that have made a pipeline, touch nothing of this.
"""

from __future__ import annotations

import os
import re
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from blake3 import blake3

from vyre_driver.cache.files import OPEN_TO_LOCK, OPEN_TO_READ, lock_opened
from vyre_driver.process._opened import Opened

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from vyre_driver.cache.disk import DiskPipelineCache
    from vyre_driver.identity.keys import PipelineCacheKey

MARKS = "marks"
_DIGEST_BYTES = 32
_MOST_OWN = 65_536  # blobs that this process made or has tried
_LONGEST_LIST_BYTES = 1 << 20
_MARKER_NAME = re.compile(r"([0-9a-f]{64})\.mark")
_MACHINE_ID = "/etc/machine-id"
# Taking a blob is a matter of milliseconds: a driver that another process has given it for so long may never come back.
_LONGEST_WAIT_S = 5.0
_LOOK_S = 0.005
_LISTS_KEPT_S = 90 * 24 * 3600
_DEADLY = "the driver has died on this blob twice"


class CrashMarkers:
    """The markers of one cache, and what is known of blobs on this machine."""

    def __init__(
        self, cache: DiskPipelineCache, found_deadly: Callable[[bytes, bytes], object] = lambda _key, _blob: None
    ) -> None:
        """Remember the cache; nothing is read or made. ``found_deadly`` gets the digests of a key and of its deadly blob."""
        self._cache = cache
        self._found_deadly = found_deadly
        self._own: set[bytes] = set()
        machine = blake3(_machine()).hexdigest()[:16]
        self._good_name, self._deadly_name = f"{machine}.good", f"{machine}.deadly"
        self._suspect_name = f"{machine}.suspect"

    def sweep(self) -> dict[bytes, str]:
        """Set aside the entries whose marker no process holds; return why, by key digest. Cheap without markers."""
        found: dict[bytes, str] = {}
        directory = None if self._cache.readonly else self._cache.own_directory(MARKS, create=False)
        if directory is None:
            return found
        try:
            for path in directory.iterdir():
                key = _MARKER_NAME.fullmatch(path.name)
                if key is None:
                    self._drop_old_list(path)
                    continue
                reason = self._check_leftover(path, bytes.fromhex(key[1]))
                if reason:
                    found[bytes.fromhex(key[1])] = reason
        except OSError as error:
            self._cache.note("marks", error)
        return found

    @contextmanager
    def first_use(self, key: PipelineCacheKey, blob: bytes) -> Iterator[str]:
        """Yield why a blob must not be given to the driver, or nothing: it is to be used within the block then.

        Where no marker can be written the blob is used without one, and that is counted.
        """
        digest = blake3(blob).digest()
        directory = None if digest in self._own else self._cache.own_directory(MARKS, create=False)
        if digest in self._own or (directory is not None and self._lists(directory, self._good_name, digest)):
            yield ""
            return
        directory = self._cache.own_directory(MARKS)
        if directory is None:
            yield _DEADLY if self.is_deadly(blob) else ""
            return
        path = directory / f"{key.hex}.mark"
        marker, reason = self._take(path, key.digest)
        # Asked only now: the previous holder of the marker has found out.
        if not reason and self._lists(directory, self._deadly_name, digest):
            reason = _DEADLY
        is_known = bool(reason) or self._lists(directory, self._good_name, digest)
        if marker is None or is_known:
            if marker is not None:
                self._drop(path, marker)
            yield reason
            return
        try:
            self._write(marker, directory, digest)
            yield ""
            self._remember(digest)
            self._add(directory, self._good_name, digest)
        finally:
            self._drop(path, marker)

    def is_deadly(self, blob: bytes) -> bool:
        """Whether a driver has died on this blob twice on this machine."""
        directory = self._cache.own_directory(MARKS, create=False)
        return directory is not None and self._lists(directory, self._deadly_name, blake3(blob).digest())

    def made_here(self, blob: bytes) -> None:
        """Remember that this process's driver has written a blob: it may have it back without a marker."""
        self._remember(blake3(blob).digest())

    def _remember(self, digest: bytes) -> None:
        if len(self._own) >= _MOST_OWN:
            self._own.clear()  # the lists on disk are asked again
        self._own.add(digest)

    def _take(self, path: Path, key_digest: bytes) -> tuple[Opened | None, str]:
        """Return the marker, locked and empty, or why the blob must not be used; neither if an error was ignored."""
        until = time.monotonic() + _LONGEST_WAIT_S
        try:
            while True:
                marker = Opened(path, OPEN_TO_LOCK | os.O_CREAT, self._cache.file_mode)
                left = self._lock(marker.descriptor)
                if left == b"":
                    marker.is_emptied = True  # if the process dies now, the marker says so
                    return marker, ""
                with marker:
                    if left:
                        return None, self._quarantine(path, key_digest, left)
                if time.monotonic() >= until:
                    return None, f"another process gave the driver this blob over {_LONGEST_WAIT_S:g} s ago"
                time.sleep(_LOOK_S)
        except OSError as error:
            self._cache.note("marker", error)
            return None, ""

    def _check_leftover(self, path: Path, key_digest: bytes) -> str:
        """Return why an entry was set aside for its marker; empty when a living process holds that, or nothing was used."""
        try:
            marker = Opened(path, OPEN_TO_LOCK)
        except FileNotFoundError:
            return ""
        with marker as descriptor:
            left = self._lock(descriptor)
            if left:
                return self._quarantine(path, key_digest, left)
            if left == b"":
                path.unlink(missing_ok=True)
            return ""

    @staticmethod
    def _lock(descriptor: int) -> bytes | None:
        """Lock a marker and return what it holds; None if another process holds it, or has removed it."""
        return os.pread(descriptor, 2 * _DIGEST_BYTES, 0) if lock_opened(descriptor) else None

    def _quarantine(self, path: Path, key_digest: bytes, left: bytes) -> str:
        """Set the entry aside, and never use its blob again if this is the second death; returns what happened in words."""
        self._cache.set_aside(key_digest)
        if len(left) >= _DIGEST_BYTES:
            digest = left[:_DIGEST_BYTES]
            is_second = self._lists(path.parent, self._suspect_name, digest)
            self._add(path.parent, self._deadly_name if is_second else self._suspect_name, digest)
            if is_second:
                self._found_deadly(key_digest, digest)
        path.unlink(missing_ok=True)
        self._cache.note("crashed")
        return "a process died when the driver was given its compiled blob"

    def _write(self, marker: Opened, directory: Path, digest: bytes) -> None:
        """Make the marker durable: a driver may take the machine with it."""
        try:
            os.write(marker.descriptor, digest)
            os.fsync(marker.descriptor)
            with Opened(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC) as above:
                os.fsync(above)
        except OSError as error:
            self._cache.note("marker", error)

    def _drop(self, path: Path, marker: Opened) -> None:
        """Remove it. Where that cannot be, or an interruption comes first, it is at least empty: it does not report a crash."""
        try:
            with marker:
                path.unlink(missing_ok=True)
        except OSError as error:
            self._cache.note("marker", error)

    def _lists(self, directory: Path, name: str, digest: bytes) -> bool:
        """Whether a list holds a digest, wherever in it: a record cut off by a crash moves all that follow."""
        try:
            with Opened(directory / name, OPEN_TO_READ) as descriptor:
                return digest in os.read(descriptor, _LONGEST_LIST_BYTES + _DIGEST_BYTES)
        except FileNotFoundError:
            return False
        except OSError as error:
            self._cache.note("marks", error)
            return False

    def _add(self, directory: Path, name: str, digest: bytes) -> None:
        """Append a digest to a list; a full one starts afresh, which costs a marker for each blob again."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        try:
            with Opened(directory / name, flags, self._cache.file_mode) as descriptor:
                if os.fstat(descriptor).st_size >= _LONGEST_LIST_BYTES:
                    os.ftruncate(descriptor, 0)
                os.write(descriptor, digest)
        except OSError as error:
            self._cache.note("marks", error)

    def _drop_old_list(self, path: Path) -> None:
        """Remove what a machine left that was not seen for long: containers have many names."""
        found = path.lstat()
        if path.suffix in {".good", ".suspect", ".deadly"} and time.time() - found.st_mtime > _LISTS_KEPT_S:
            path.unlink(missing_ok=True)


def _machine() -> bytes:
    """Name this machine; another name costs a marker for each blob, no more."""
    try:
        found = Path(_MACHINE_ID).read_bytes().strip()
    except OSError:
        found = b""
    return found + b"\0" + os.uname().nodename.encode("utf-8", "surrogateescape")
