"""What a store of names and bytes must be able to do, whatever it is reached by.

A store decides nothing: whether a value may be used, its signature says (envelope.py). No method tries twice. The waits of a
client library bound single reads only, so the caller keeps a deadline for the whole operation and calls ``close`` from
another thread when it has passed.

``FileStore`` is a folder that machines share, such as one on NFS. Values are files, published whole under names of their own.
Nothing is forgotten by itself: the folder's owner removes what was not used for long, by the time of its last change. Nothing
ends a call that a dead file server holds, so it is made where nobody waits for it. Links below the folder are not followed: who
may write to the store could lead a writer anywhere.
"""

from __future__ import annotations

import errno
import os
import secrets
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, runtime_checkable

from vyre_driver.cache.files import OPEN_TO_READ, read_bounded, write_all
from vyre_driver.process._opened import Opened
from vyre_driver.remote.names import name_of, path_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

FailureKind: TypeAlias = Literal["refused", "tls", "timed_out", "late", "cut", "denied", "full", "other"]


class StoreFailure(Exception):
    """A store did not do what it was asked for.

    ``kind``: ``refused`` no connection; ``tls`` one, but not under TLS; ``timed_out`` no answer in time; ``late`` not the whole
    of it in time (link.py); ``cut`` the connection ended within an answer; ``denied`` wrong password, certificate or rights;
    ``full`` no room; ``other`` anything else. The text has no secrets.
    """

    def __init__(self, kind: FailureKind, text: str) -> None:
        """Keep the kind beside the text."""
        super().__init__(text)
        self.kind: FailureKind = kind


class Store(Protocol):
    """Bytes by name. Every method but ``close`` raises StoreFailure, and is called by one thread at a time.

    Names are of ASCII letters, digits, ``:`` and ``-`` (names.py). ``address`` names the store without any secret.
    """

    address: str

    def fetch(self, names: Sequence[str], limit: int) -> list[bytes | None]:
        """Return the value of each name, None where there is none, in one round trip.

        Of a value over ``limit`` bytes come its first ``limit`` + 1. What has the name and is no value counts as empty.
        """

    def put_new(self, name: str, data: bytes, keep_s: int) -> bool:
        """Store a value whole unless the name is taken; returns whether it was free. What was there first stays.

        A store that forgets by itself keeps it for ``keep_s`` seconds; of others old values are removed by their owner.
        """

    def claim(self, name: str, owner: bytes, for_s: float) -> bool:
        """Take a name for ``for_s`` seconds unless somebody has it; returns whether it is ours. Then others may."""

    def fields(self, name: str, limit: int) -> dict[str, bytes]:
        """Return the fields below a name, none of them over ``limit`` bytes; at most 1024, and 16 MiB in all.

        Raises StoreFailure (``other``) where there is more.
        """

    def put_field(self, name: str, field: str, data: bytes, keep_s: int) -> None:
        """Store a field below a name, in the place of one that is there."""

    def names(self, prefix: str) -> Iterator[str]:
        """Yield the names of values that begin with a prefix of names.py, each once, in no order."""

    def touch(self, names: Sequence[str], keep_s: int) -> None:
        """Say that these were used: they are kept for ``keep_s`` seconds more, as far as we may say so."""

    def ping(self) -> None:
        """Return when the store has answered."""

    def close(self) -> None:
        """End the connection; callable from another thread, where it ends what waits. The next call makes a new one."""


@runtime_checkable
class Timed(Protocol):
    """A store that has a clock of its own."""

    def time_s(self) -> float:
        """Return its time in seconds since 1970; raises StoreFailure."""


MOST_FIELDS = 1024
MOST_FIELDS_BYTES = 16 << 20
MOST_OWNER_BYTES = 4096


def too_many_fields(address: str, found: str) -> StoreFailure:
    """Return the failure of a name with more below it than is read."""
    return StoreFailure("other", f"{address} has {found} below one name, where {MOST_FIELDS} fields and 16 MiB are the limit")


def claim_text(owner: bytes, for_s: float) -> bytes:
    """Return what a store without claims of its own keeps under a name that is taken for so long, by this machine's clock."""
    return f"{time.time() + for_s:.3f} ".encode() + owner


def claim_ends_at(claim: bytes) -> float:
    """Return when a claim runs out, in seconds since 1970; 0 for what is none."""
    try:
        return float(claim.partition(b" ")[0])
    except ValueError:
        return 0.0


_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_TEMPORARY = ".tmp-"
_FULL = {errno.ENOSPC, errno.EDQUOT}
_DENIED = {errno.EACCES, errno.EPERM, errno.EROFS}


class FileStore:
    """A store below a folder, which must be there."""

    def __init__(self, folder: Path) -> None:
        """Remember the absolute path; nothing is read or made."""
        self.address = f"file:{folder}"
        self._folder = folder
        self._is_ended = False

    def fetch(self, names: Sequence[str], limit: int) -> list[bytes | None]:
        """Return the values: see ``Store``."""
        return [self._read(_parts(name), limit) for name in names]

    def put_new(self, name: str, data: bytes, keep_s: int) -> bool:  # noqa: ARG002 -- nothing here is forgotten by itself
        """Store a value unless the name is taken: see ``Store``."""
        return self._publish(_parts(name), data, only_new=True)

    def claim(self, name: str, owner: bytes, for_s: float) -> bool:
        """Take a name for a while, by this machine's clock: see ``Store``.

        Two that take a claim which has run out at the same time may both get it, and then do the same work.
        """
        parts = _parts(name)
        mine = claim_text(owner, for_s)
        found = self._read(parts, MOST_OWNER_BYTES)
        if found is None:
            return self._publish(parts, mine, only_new=True)
        if claim_ends_at(found) > time.time():
            return False
        self._publish(parts, mine, only_new=False)
        return self._read(parts, MOST_OWNER_BYTES) == mine

    def fields(self, name: str, limit: int) -> dict[str, bytes]:
        """Return the fields below a name: see ``Store``."""
        parts = _parts(name)
        found = sorted(one for one in self._listed(parts) if not one.startswith(_TEMPORARY))
        if len(found) > MOST_FIELDS:
            raise too_many_fields(self.address, f"{len(found)} fields")
        values = {field: self._read((*parts, field), limit) for field in found}
        fields = {field: value for field, value in values.items() if value is not None and len(value) <= limit}
        size = sum(map(len, fields.values()))
        if size > MOST_FIELDS_BYTES:
            raise too_many_fields(self.address, f"{size} bytes")
        return fields

    def put_field(self, name: str, field: str, data: bytes, keep_s: int) -> None:  # noqa: ARG002 -- as above
        """Store a field: see ``Store``."""
        self._publish((*_parts(name), field), data, only_new=False)

    def names(self, prefix: str) -> Iterator[str]:
        """Yield the names: see ``Store``."""
        self._is_ended = False
        *folders, _ = prefix.split(":")
        for path in self._walked(tuple(folders), 4 - len(folders)):
            name = name_of("/".join(path))
            if name is not None and name.startswith(prefix):
                yield name

    def touch(self, names: Sequence[str], keep_s: int) -> None:  # noqa: ARG002 -- as above
        """Note the use in each file's own time, where it is ours: see ``Store``."""
        for name in names:
            *folders, last = _parts(name)
            try:
                with self._directory(folders) as directory:
                    os.utime(last, dir_fd=directory, follow_symlinks=False)
            except (FileNotFoundError, NotADirectoryError, PermissionError):
                continue
            except OSError as error:
                raise self._failure(error) from error

    def ping(self) -> None:
        """Return when the folder could be looked at."""
        self._directory(()).close()

    def close(self) -> None:
        """End a list that is being read, which stops at the next folder: there is no connection."""
        self._is_ended = True

    def _walked(self, folders: tuple[str, ...], depth: int) -> Iterator[tuple[str, ...]]:
        for name in self._listed(folders):
            if self._is_ended:
                raise StoreFailure("late", f"{self.address}: the list was ended")
            if depth:
                yield from self._walked((*folders, name), depth - 1)
            elif not name.startswith(_TEMPORARY):
                yield (*folders, name)

    def _directory(self, folders: Sequence[str], *, make: bool = False) -> Opened:
        """Return an open folder below the store's own, which is opened step by step, without following a link.

        Raises
        ------
        StoreFailure
            If the store's own folder is not there, or cannot be opened.
        OSError
            If another one cannot be opened; NotADirectoryError for a link.
        """
        try:
            found = Opened(self._folder, _OPEN_FOLDER)
        except OSError as error:
            raise self._failure(error) from error
        for name in folders:
            with found as above:
                if make:
                    with suppress(FileExistsError):
                        os.mkdir(name, dir_fd=above)
                found = Opened(name, _OPEN_FOLDER | os.O_NOFOLLOW, dir_fd=above)
        return found

    def _listed(self, folders: Sequence[str]) -> list[str]:
        try:
            with self._directory(folders) as directory:
                return os.listdir(directory)  # noqa: PTH208 -- of a descriptor
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise self._failure(error) from error

    def _read(self, parts: Sequence[str], limit: int) -> bytes | None:
        """Return at most ``limit`` + 1 bytes of a regular file; what is none, such as a folder, counts as empty."""
        *folders, last = parts
        try:
            with self._directory(folders) as directory, Opened(last, OPEN_TO_READ, dir_fd=directory) as descriptor:
                return read_bounded(descriptor, limit)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            if error.errno in {errno.ELOOP, errno.EISDIR, errno.EAGAIN}:
                return b""
            raise self._failure(error) from error

    def _publish(self, parts: Sequence[str], data: bytes, *, only_new: bool) -> bool:
        """Write a file beside its place, then give it its name; returns False when that is taken and stays."""
        *folders, last = parts
        temporary = f"{_TEMPORARY}{secrets.token_hex(16)}"
        try:
            with self._directory(folders, make=True) as directory:
                try:
                    with Opened(temporary, _NEW, 0o666, dir_fd=directory) as descriptor:
                        write_all(descriptor, data)
                        os.fsync(descriptor)
                    return _named(temporary, last, directory, only_new=only_new)
                finally:
                    with suppress(OSError):
                        os.unlink(temporary, dir_fd=directory)
        except OSError as error:
            raise self._failure(error) from error

    def _failure(self, error: OSError) -> StoreFailure:
        kind: FailureKind = "other"
        if error.errno in _FULL:
            kind = "full"
        elif error.errno in _DENIED:
            kind = "denied"
        elif error.errno == errno.ENOENT:
            kind = "refused"
        return StoreFailure(kind, f"{self.address}: {error.strerror}")


def _parts(name: str) -> tuple[str, ...]:
    """Return the folders below the store's own that a name stands for, and the file."""
    return tuple(path_of(name).split("/"))


def _named(temporary: str, name: str, directory: int, *, only_new: bool) -> bool:
    """Give a file its name. Without hard links what came first stays only as far as one look can tell."""
    if only_new:
        try:
            os.link(temporary, name, src_dir_fd=directory, dst_dir_fd=directory, follow_symlinks=False)
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno not in {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}:
                raise
            with suppress(FileNotFoundError):
                os.stat(name, dir_fd=directory, follow_symlinks=False)
                return False
        else:
            return True
    os.replace(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
    return True
