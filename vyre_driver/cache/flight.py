"""Single flight: of all processes and threads that miss the same key, one compiles, and the others use its result.

A flight is a lock, one file a key in ``root/flight``, held by an open descriptor (flock): it dies with its process. A process
that finds it taken waits until the entry or the lock is there, at most for as long as compiling is expected to take twice. Then
one more may compile, on a second lock, because a hanging owner must not block the others for ever, and the rest wait once more.
Nothing here is needed to get or put: without a lock a process compiles at once, and that is counted.

How long compiling takes is estimated from the size of the SPIR-V, at the slowest pace that this device and driver have shown.
``root/flight`` keeps it, one small file a device, which also records that a device returns no compiled code: there no process
waits, for there would be no result to use.
"""

from __future__ import annotations

import os
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from vyre_driver.cache.files import OPEN_TO_LOCK, OPEN_TO_READ, lock_opened, publish
from vyre_driver.process._lock import Seat
from vyre_driver.process._opened import Opened
from vyre_driver.process.clock import SYSTEM, Clock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from vyre_driver.cache.disk import DiskPipelineCache
    from vyre_driver.identity.keys import PipelineCacheKey

_Found = TypeVar("_Found")

FLIGHTS = "flight"
# The slowest driver measured, unrolling loops (docs/performance.md): what holds before this device was measured.
UNKNOWN_PACE_NS = 50_000
_PATIENCE = 2.0
_LONGEST_WAIT_S = 60.0
# Waiting polls, and a lock costs system calls: below this, compiling is cheaper.
_LEAST_WAIT_S = 0.002
_LOOKS_A_WAIT = 40
_LOOK_S = (0.001, 0.05)
_ABANDONED_AFTER_S = 3600
_NO_BLOBS = b"none"

# SingleFlight of this process: threads would each get a lock file of their own, and memory has none.
_taken: dict[tuple[object, ...], object] = {}
os.register_at_fork(after_in_child=_taken.clear)  # a fork does not copy the threads that were compiling


class SingleFlight:
    """Single flight for one cache on one device: ``device`` is 32 bytes that another driver changes too."""

    def __init__(self, cache: DiskPipelineCache, device: bytes, clock: Clock = SYSTEM) -> None:
        """Remember them; nothing is read or created."""
        self._cache, self._clock = cache, clock
        self._pace_name = f"{device.hex()}.pace"
        self._pace: bytes = b""
        self._is_swept = False

    @contextmanager
    def acquire(self, key: PipelineCacheKey, code_bytes: int, find: Callable[[], _Found | None]) -> Iterator[_Found | None]:
        """Yield what another has stored for a key, or None to the one that is to compile it, within the block.

        ``find`` looks into the cache. The one that compiles must put the entry before the block ends; if the block ends without
        one, because it raised or its process died, one of those who wait compiles.
        """
        locks = [FlightLock(self._cache, key, which) for which in ("first", "second")]
        try:
            yield self._wait(locks, code_bytes, find)
        finally:
            for lock in locks:
                lock.release()

    def gives_no_blobs(self) -> bool:
        """Whether the device is known to give no compiled code away."""
        return self._read_pace() == _NO_BLOBS

    def learn(self, code_bytes: int, compile_ns: int, *, has_blob: bool) -> None:
        """Remember how long the driver compiled so many bytes of SPIR-V, and whether it gave the result away."""
        known = self._read_pace()
        pace = str(compile_ns // max(1, code_bytes)).encode("ascii") if has_blob else _NO_BLOBS
        if has_blob and known != _NO_BLOBS and _number(known) >= _number(pace):
            return
        if known == pace:
            return
        self._pace = pace
        directory = self._cache.own_directory(FLIGHTS)
        if directory is not None:
            try:
                publish(str(directory), self._pace_name, pace, self._cache.file_mode)
            except OSError as error:
                self._cache.note("pace", error)

    def expected_s(self, code_bytes: int) -> float:
        """Estimate how long the driver compiles so many bytes of SPIR-V, in seconds."""
        return code_bytes * (_number(self._read_pace()) or UNKNOWN_PACE_NS) / 1e9

    def _wait(self, locks: list[FlightLock], code_bytes: int, find: Callable[[], _Found | None]) -> _Found | None:
        patience_s = min(_PATIENCE * self.expected_s(code_bytes), _LONGEST_WAIT_S)
        for lock in locks:
            has_lock, found = self._wait_for(lock, patience_s, find)
            if has_lock:
                self._sweep()
                return find()
            if found is not None or self.gives_no_blobs():
                return found
            self._cache.note("flight_overdue")
        return None

    def _wait_for(self, lock: FlightLock, patience_s: float, find: Callable[[], _Found | None]) -> tuple[bool, _Found | None]:
        """Wait for the lock or the entry, whichever comes first, or until it is known that there will be none."""
        least, most = _LOOK_S
        look_s = min(most, max(least, patience_s / _LOOKS_A_WAIT))
        until = self._clock.now() + (patience_s if patience_s >= _LEAST_WAIT_S else 0)
        seen: object = ()
        while not lock.take():
            now = lock.entry_state()
            if now is None or now != seen:
                found = find()
                if found is not None:
                    self._cache.note("flight_shared")
                    return False, found
                seen = now
            if self._clock.now() >= until or self.gives_no_blobs():
                return False, None
            self._clock.sleep(look_s)
        return True, None

    def _read_pace(self) -> bytes:
        """Return what is known of the device; another process may know more than this one."""
        directory = self._cache.own_directory(FLIGHTS, create=False)
        if directory is None:
            return self._pace
        try:
            with Opened(directory / self._pace_name, OPEN_TO_READ) as descriptor:
                self._pace = os.read(descriptor, 32)
        except FileNotFoundError:
            return self._pace
        except OSError as error:
            self._cache.note("pace", error)
        return self._pace

    def _sweep(self) -> None:
        """Remove, once, what killed processes have left behind: an hour old, and held by no process."""
        directory = None if self._is_swept or self._cache.readonly else self._cache.own_directory(FLIGHTS, create=False)
        self._is_swept = True
        if directory is None:
            return
        try:
            with os.scandir(directory) as found:
                old = time.time() - _ABANDONED_AFTER_S
                left = [one.path for one in found if one.stat(follow_symlinks=False).st_mtime < old]
            for path in left:
                if path.endswith(".tmp"):
                    os.unlink(path)  # noqa: PTH108 -- os.scandir's
                elif path.endswith(".lock"):
                    _remove_unheld(path)
        except FileNotFoundError:
            return  # another process sweeps too
        except OSError as error:
            self._cache.note("sweep", error)


class MachineLock:
    """A lock by name: among the threads of this process always, among processes of the machine where the root allows it."""

    def __init__(self, cache: DiskPipelineCache, name: str) -> None:
        """Take nothing yet."""
        self._cache = cache
        # A thread that is interrupted before it gives the seat back gives it back by ending.
        self._seat = Seat(_taken, (id(cache) if cache.root is None else str(cache.root), name))
        self._name = f"{name}.lock"
        self._file: Opened | None = None
        self._path = Path()

    def take(self) -> bool:
        """Take it if it is free. A lock file that cannot be made or locked counts as free."""
        is_taken = False
        try:
            is_taken = self._seat.take() and self._take_file()
        finally:
            if not is_taken:
                self._seat.leave()
        return is_taken

    def _take_file(self) -> bool:
        directory = self._cache.own_directory(FLIGHTS)
        if directory is None:
            return True
        path = directory / self._name
        try:
            while True:
                file = Opened(path, OPEN_TO_LOCK | os.O_CREAT, self._cache.file_mode)
                with suppress(PermissionError):  # of another member of the group's: it has its rights
                    os.fchmod(file.descriptor, self._cache.file_mode)
                is_locked = lock_opened(file.descriptor)
                if is_locked:
                    self._file, self._path = file, path
                if is_locked is not None:
                    return is_locked
        except OSError as error:
            self._cache.note("lock", error)
        return True

    def release(self) -> None:
        """Release the lock; its file is removed first, which a waiter that has it open notices.

        Nothing happens if it was not taken.
        """
        try:
            if self._file is not None:
                with self._file:
                    self._path.unlink(missing_ok=True)
        except OSError as error:
            self._cache.note("lock", error)
        finally:
            self._file = None
            self._seat.leave()


class FlightLock(MachineLock):
    """The lock of one key.

    ``which`` is ``first`` or ``second`` of those who compile, and ``remote`` of the process that asks a store for it.
    """

    def __init__(self, cache: DiskPipelineCache, key: PipelineCacheKey, which: str) -> None:
        """Take nothing yet."""
        super().__init__(cache, f"{key.hex}.{which}")
        self._entry = cache.entry_path(key)

    def entry_state(self) -> object:
        """Return what changes when the entry does; None when only looking can tell."""
        if self._entry is None:
            return None
        try:
            found = self._entry.lstat()
        except OSError:
            return ""
        return found.st_ino, found.st_mtime_ns, found.st_size


def _remove_unheld(path: str) -> None:
    with Opened(path, OPEN_TO_LOCK) as descriptor:
        if lock_opened(descriptor):
            os.unlink(path)  # noqa: PTH108 -- os.scandir's


def _number(pace: bytes) -> int:
    """Nanoseconds a byte; 0 when nothing is known, or the file holds something else."""
    return int(pace) if pace.isdigit() else 0
