"""The tuning store of a user: one file that any number of processes and threads add to without losing records.

What is read is never half a file, and takes no lock: a file is replaced whole. Saving locks, reads what others have saved
since, joins it with what changed here, and writes it durably. docs/autotune-format.md says what stands in the file and what
the original does with it.

The lock is a file of its own beside it, which dies with its process. The original locks the file itself and writes over it in
place, so a saver here waits for that lock too before it reads.

Source: spec item 2.4.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import stat
import threading
import time
import warnings
import weakref
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, TypeAlias

from blake3 import blake3

from vyre_driver._loading import missing_is_named
from vyre_driver.autotune.store.text import SCHEMA, AutotuneText, format_text, parse
from vyre_driver.display.line import count, one_line
from vyre_driver.errors import FileUnusable, InvalidAutotuneFile
from vyre_driver.process._opened import Opened
from vyre_driver.process.threads import start_all

if TYPE_CHECKING:
    from collections.abc import Iterator
    from collections.abc import Set as AbstractSet

    from vyre_driver.autotune.store.record import AutotuneKey, AutotuneRecord

MAX_BYTES = 64 << 20
_LOOK_S = 0.01
# O_NONBLOCK: a FIFO in the file's place must not hang the reader.
_TO_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def read_file(path: str | os.PathLike[str]) -> AutotuneText:
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
        """Return what it says, once no writer of the original's holds it; raises as :func:`read_file`.

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


DEFAULT_WAIT_S = 10.0
_Forgotten: TypeAlias = "tuple[AutotuneKey, str | None]"  # a key, and one identity or all of them


class AutotuneWarning(UserWarning):
    """Something in an autotune file is not used as it stands, and why."""


class AutotuneStore:
    """Records by key and identity, in memory; ``load`` and ``save_if_dirty`` are the way to and from a file.

    Safe for threads. ``len`` counts records; different identities under one of upstream's keys are different records.
    """

    def __init__(self) -> None:
        """Begin empty and clean."""
        self._content = AutotuneText()
        self._on_file = AutotuneText()  # what was read or written last: another save need not parse it again
        self._newest: dict[AutotuneKey, AutotuneRecord] = {}
        # What changed here since the last save: what was forgotten goes before what was put.
        self._changes: dict[tuple[AutotuneKey, str], AutotuneRecord] = {}
        self._forgotten: set[_Forgotten] = set()
        self._changing = threading.Lock()
        self._saving = threading.Lock()

    def __repr__(self) -> str:
        """Return how many records it has as one line."""
        return one_line("AutotuneStore", f"of {count(len(self), 'record')}", "not saved" if self.is_dirty else "")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> AutotuneStore:
        """Return the records of a file, none if there is no file. Records that are not valid are warned of and left out.

        Raises
        ------
        FileUnusable
            If it cannot be read.
        InvalidAutotuneFile
            If it is not an autotune file; saving to it moves it aside first.
        """
        store = cls()
        store._on_file = read_file(path)
        store._take(_without(store._on_file, frozenset()))
        for _, why in store._content.unreadable:
            warnings.warn(f"a record of {path} is left out, and kept in the file: {why}", AutotuneWarning, stacklevel=2)
        return store

    def get(self, key: AutotuneKey, identity: str | None = None) -> AutotuneRecord | None:
        """Return the record of a key with just this identity; without one whichever was put last, as a suggestion."""
        if identity is None:
            return self._newest.get(key)
        return self._content.records.get((key, identity))

    def put(self, key: AutotuneKey, record: AutotuneRecord) -> None:
        """Add a record, in the place of one with the same key and identity.

        A better measured one that the file has when this is saved stays: to replace that, forget it first.
        """
        with self._changing:
            self._put(key, record)

    def put_better(self, key: AutotuneKey, record: AutotuneRecord) -> bool:
        """Add a record unless there is one as well measured with the same key and identity; returns whether it was added."""
        with self._changing:
            there = self._content.records.get((key, record.identity))
            if there is not None and not record.supersedes(there):
                return False
            self._put(key, record)
            return True

    def forget(self, key: AutotuneKey, identity: str | None = None) -> bool:
        """Remove every record of a key, or the one with this identity, here and, when saved, from the file.

        Returns whether there was one here.
        """
        with self._changing:
            gone = [at for at in self._content.records if at[0] == key and identity in {None, at[1]}]
            if not gone:
                return False
            forgotten = {(key, identity)}
            self._take(_without(self._content, forgotten))
            self._changes = {at: record for at, record in self._changes.items() if at not in gone}
            self._forgotten |= forgotten
            return True

    def of(self, key: AutotuneKey) -> list[AutotuneRecord]:
        """Return every record of a key, in the order of their identities."""
        if key not in self._newest:
            return []
        return [record for (at, _), record in self.records().items() if at == key]

    def records(self) -> dict[tuple[AutotuneKey, str], AutotuneRecord]:
        """Return all of them by key and identity, in their order."""
        with self._changing:
            return dict(sorted(self._content.records.items(), key=lambda item: item[0]))

    def __len__(self) -> int:
        """Count the records."""
        return len(self._content.records)

    @property
    def is_empty(self) -> bool:
        """Whether there is no record."""
        return not self._content.records

    @property
    def is_dirty(self) -> bool:
        """Whether something changed since the last load or save."""
        return bool(self._changes or self._forgotten)

    def save_if_dirty(self, path: str | os.PathLike[str], *, wait_s: float = DEFAULT_WAIT_S) -> bool:
        """Join what changed with what the file has, durably; returns False, with nothing done, where nothing has changed.

        The directory is made. Of two records with one key and identity the better measured stays
        (:meth:`AutotuneRecord.supersedes`). Others may save for ``wait_s`` seconds first. After a failure the store is
        still dirty. A file that is not an autotune file is moved aside, with a warning.

        Raises
        ------
        FileUnusable
            If it cannot be locked in time, read or written.
        InvalidAutotuneFile
            If a newer version wrote it: then it is not written to.
        """
        with self._saving:
            with self._changing:
                changes, forgotten = dict(self._changes), frozenset(self._forgotten)
            if not changes and not forgotten:
                return False
            with locked(path, wait_s) as target:
                content = _joined(self._on_disk(target), changes, forgotten)
                self._on_file = content = target.write(content)
            with self._changing:
                self._changes = {at: new for at, new in self._changes.items() if changes.get(at) is not new}
                self._forgotten -= forgotten
                self._take(_joined(content, self._changes, self._forgotten))
            return True

    @staticmethod
    def check_savable(path: str | os.PathLike[str], *, wait_s: float = DEFAULT_WAIT_S) -> None:
        """Check that records could be saved to a file now, before a long measurement; nothing is written to it.

        Raises
        ------
        FileUnusable
            If the file cannot be read or written, or stays locked.
        InvalidAutotuneFile
            If the file holds no tuning records.
        """
        with locked(path, wait_s) as target:
            try:
                content = target.read()
            except InvalidAutotuneFile:  # it would be moved aside
                return
            _check_schema(target.path, content)

    def _put(self, key: AutotuneKey, record: AutotuneRecord) -> None:
        self._content.records[key, record.identity] = record
        self._newest[key] = record
        self._changes[key, record.identity] = record

    def _on_disk(self, target: LockedFile) -> AutotuneText:
        try:
            content = target.read(self._on_file)
        except InvalidAutotuneFile as error:
            aside = target.move_aside()
            warnings.warn(f"{error} It is {aside} now", AutotuneWarning, stacklevel=3)
            return AutotuneText()
        _check_schema(target.path, content)
        return replace(content, schema=SCHEMA)

    def _take(self, content: AutotuneText) -> None:
        self._content = content
        self._newest = {key: record for (key, _), record in content.records.items()}


def _check_schema(path: Path, content: AutotuneText) -> None:
    if content.schema > SCHEMA:
        raise InvalidAutotuneFile(
            f"{path} has schema {content.schema}, and this version writes schema {SCHEMA}",
            fix="save to another file, or use the version that wrote it",
            path=str(path),
            schema=content.schema,
        )


def _without(content: AutotuneText, forgotten: AbstractSet[_Forgotten]) -> AutotuneText:
    """Return a copy with neither records nor additions of what was forgotten."""
    if not forgotten:
        return replace(content, records=dict(content.records), unknown_of=dict(content.unknown_of))
    gone = {at for at in content.records if at in forgotten or (at[0], None) in forgotten}
    records = {at: record for at, record in content.records.items() if at not in gone}
    return replace(content, records=records, unknown_of={at: one for at, one in content.unknown_of.items() if at not in gone})


def _joined(
    content: AutotuneText,
    changes: dict[tuple[AutotuneKey, str], AutotuneRecord],
    forgotten: AbstractSet[_Forgotten],
) -> AutotuneText:
    """Return a file's content with what changed: first what was forgotten goes, then the better measured of two stays."""
    result = _without(content, forgotten)
    for at, record in changes.items():
        there = result.records.get(at)
        if there is None or record.supersedes(there):
            result.records[at] = record
            result.unknown_of.pop(at, None)  # what others have added was said of another record
    return result
