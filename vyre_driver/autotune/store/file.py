"""An autotune file on disk: read without a lock, replaced whole under one.

The lock is a file of its own beside it, which dies with its process. The original locks the file itself and writes over it in
place, so a saver here waits for that lock too before it reads.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import stat
import threading
import time
import weakref
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING

from blake3 import blake3

from vyre_driver._loading import missing_is_named
from vyre_driver.autotune.store.text import AutotuneText, format_text, parse
from vyre_driver.errors import FileUnusable, InvalidAutotuneFile
from vyre_driver.process._opened import Opened
from vyre_driver.process.threads import start_all

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_BYTES = 64 << 20
_LOOK_S = 0.01
# O_NONBLOCK: a FIFO in the file's place must not hang the reader.
_TO_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def read(path: str | os.PathLike[str]) -> AutotuneText:
    """Return the contents of a file, empty if there is none.

    Raises
    ------
    FileUnusable
        If it cannot be read, is not a regular file or is longer than 64 MiB.
    InvalidAutotuneFile
        If it is not an autotune file.
    """
    try:
        opened = Opened(path, _TO_READ)
    except FileNotFoundError:
        return AutotuneText()
    except OSError as error:
        raise _unusable(path, "cannot be read", error) from error
    with opened as descriptor:
        return _parsed(path, descriptor)


class LockedFile:
    """An autotune file under its lock: no other process saves to it meanwhile."""

    def __init__(self, path: Path, wait_s: float) -> None:
        """Have its real path, and how long the original's lock is waited for."""
        self.path = path
        self._until = time.monotonic() + wait_s

    def read(self, known: AutotuneText | None = None) -> AutotuneText:
        """Return what it says, once no writer of the original's holds it; raises as :func:`read`.

        That is ``known``, and nothing is parsed, if the bytes are still those that this was read from or written as.
        """
        try:
            opened = Opened(self.path, _TO_READ)
        except FileNotFoundError:
            return AutotuneText()
        except OSError as error:
            raise _unusable(self.path, "cannot be read", error) from error
        with opened as descriptor:
            self._wait_for_original(descriptor)
            return _parsed(self.path, descriptor, known)

    def write(self, content: AutotuneText) -> AutotuneText:
        """Replace it by this content, durably: a reader finds the old or the new file, also after a power failure.

        Returns the content with the digest of what was written.

        Raises
        ------
        FileUnusable
            If it cannot be written; the old file is still there.
        """
        data = format_text(content).encode()
        try:
            with Opened(self.path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC) as directory:
                self._replace(directory, data)
                os.fsync(directory)
        except OSError as error:
            raise _unusable(self.path, "cannot be written", error) from error
        return replace(content, digest=blake3(data).digest())

    def move_aside(self) -> Path:
        """Give it another name, and return that; raises FileUnusable."""
        aside = self.path.with_name(f"{self.path.name}.unreadable-{secrets.token_hex(4)}")
        try:
            self.path.rename(aside)
        except OSError as error:
            raise _unusable(self.path, "cannot be moved aside", error) from error
        return aside

    def _replace(self, directory: int, data: bytes) -> None:
        temporary = f".{self.path.name}.tmp"  # only the lock's holder writes one: any other was left by a killed process
        try:
            with suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=directory)
            with Opened(temporary, _NEW, 0o666, dir_fd=directory) as descriptor:
                with suppress(FileNotFoundError):
                    os.fchmod(descriptor, stat.S_IMODE(os.stat(self.path.name, dir_fd=directory).st_mode))
                left = memoryview(data)
                while left:
                    left = left[os.write(descriptor, left) :]
                os.fsync(descriptor)
            os.replace(temporary, self.path.name, src_dir_fd=directory, dst_dir_fd=directory)
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=directory)
            raise

    def _wait_for_original(self, descriptor: int) -> None:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= self._until:
                    raise _locked(self.path) from None
                time.sleep(_LOOK_S)
            except OSError:
                return  # a file system without such locks: the original cannot hold one either
            else:
                return


@contextmanager
def locked(path: str | os.PathLike[str], wait_s: float) -> Iterator[LockedFile]:
    """Lock a file, which need not exist, against other writers; its directory is created.

    Raises
    ------
    FileUnusable
        If the lock cannot be acquired within ``wait_s`` seconds.
    """
    real = Path(os.path.realpath(path))  # a link stays one: what it points to is replaced
    until = time.monotonic() + wait_s
    held = [_Held()]  # in a list, to be emptied: a tracer's copy of the local names keeps what Python 3.10 has deleted
    answers: SimpleQueue[BaseException | None] = SimpleQueue()
    ended: SimpleQueue[object] = SimpleQueue()
    holding = weakref.ref(held[0], ended.put)
    try:
        start_all([threading.Thread(target=_hold, args=(real, wait_s, holding, ended, answers), daemon=True)])
    except RuntimeError as error:
        raise FileUnusable(
            f"the autotune file {real} cannot be locked, for which a thread is needed: {error}",
            fix="save before the interpreter shuts down, end other threads, or raise the process's limit of them (ulimit -u)",
            path=str(real),
        ) from error
    failure = answers.get()
    if failure is not None:
        raise failure
    try:
        yield LockedFile(real, max(0.0, until - time.monotonic()))
    finally:
        held.clear()
        failure = answers.get()
    if failure is not None:
        raise failure


class _Held:
    """Lives as long as a file is to be locked."""


def _hold(
    real: Path, wait_s: float, _: weakref.ref[_Held], ended: SimpleQueue[object], answers: SimpleQueue[BaseException | None]
) -> None:
    """Lock a file, say so, and let it go at the end of what the reference is to: its callback, in C, puts it on ``ended``.

    This is a thread's, for no interrupt comes there. The lock and its finalizer are functions of Python, and would be left
    halfway.
    """
    with missing_is_named():
        from filelock import Timeout, UnixFileLock

    answer: BaseException | None = None
    try:
        real.parent.mkdir(parents=True, exist_ok=True)
        mode = _lock_mode(real)
        with UnixFileLock(f"{real}.lock", timeout=wait_s, mode=mode, thread_local=False, fallback_to_soft=False):
            answers.put(None)
            ended.get()
    except Timeout:
        answer = _locked(real)
    except (OSError, NotImplementedError) as error:
        answer = _unusable(real, "cannot be locked", error)
    except BaseException as error:  # noqa: BLE001 -- the waiter raises it
        answer = error
    answers.put(answer)


def _lock_mode(path: Path) -> int:
    """Return the mode of the lock: users that may write the file may lock it."""
    try:
        return stat.S_IMODE(path.stat().st_mode) & 0o666
    except OSError:
        return 0o600


def _parsed(path: str | os.PathLike[str], descriptor: int, known: AutotuneText | None = None) -> AutotuneText:
    try:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode):
            raise _unusable(path, "is not a regular file", None)
        if facts.st_size > MAX_BYTES:
            raise _unusable(path, f"has {facts.st_size} bytes, and {MAX_BYTES} bytes are read at most", None)
        with open(descriptor, "rb", closefd=False) as opened:
            data = opened.read(MAX_BYTES + 1)
    except OSError as error:
        if isinstance(error, FileUnusable):
            raise
        raise _unusable(path, "cannot be read", error) from error
    digest = blake3(data).digest()
    if known is not None and known.digest == digest:
        return known
    try:
        return replace(parse(data.decode()), digest=digest)
    except ValueError as error:
        raise InvalidAutotuneFile(
            f"{os.fspath(path)} is not an autotune file: {error}",
            fix="correct it or move it away",
            path=os.fspath(path),
        ) from error


def _unusable(path: str | os.PathLike[str], problem: str, error: BaseException | None) -> FileUnusable:
    why = "" if error is None else f": {error}"
    return FileUnusable(
        f"the autotune file {os.fspath(path)} {problem}{why}",
        fix="name another file (VYRE_AUTOTUNE_FILE), or make this one a file that can be read and written",
        path=os.fspath(path),
    )


def _locked(path: Path) -> FileUnusable:
    return FileUnusable(
        f"the autotune file {path} is locked by another process", fix="save again later, or wait longer", path=str(path)
    )
