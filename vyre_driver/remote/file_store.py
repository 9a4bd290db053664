"""A folder that machines share as a store, such as one on NFS.

Values are files, published whole under names of their own. Nothing is forgotten by itself: the folder's owner removes what
was not used for long, by the time of its last change. Nothing ends a call that a dead file server holds, so it is made where
nobody waits for it.
"""

from __future__ import annotations

import errno
import os
import secrets
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from vyre_driver.cache.files import OPEN_TO_READ, read_bounded
from vyre_driver.process._opened import Opened
from vyre_driver.remote.names import name_of, path_of
from vyre_driver.remote.store import MOST_FIELDS, MOST_FIELDS_BYTES, StoreFailure, too_many_fields

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from vyre_driver.remote.store import FailureKind

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_TEMPORARY = ".tmp-"
_FULL = {errno.ENOSPC, errno.EDQUOT}
_DENIED = {errno.EACCES, errno.EPERM, errno.EROFS}
_MOST_OWNER_BYTES = 4096


class FileStore:
    """A store below a folder, which must be there."""

    def __init__(self, folder: Path) -> None:
        """Remember the absolute path; nothing is read or made."""
        self.address = f"file:{folder}"
        self._folder = folder

    def fetch(self, names: Sequence[str], limit: int) -> list[bytes | None]:
        """Return the values: see ``Store``."""
        return [self._read(self._folder / path_of(name), limit) for name in names]

    def put_new(self, name: str, data: bytes, keep_s: int) -> bool:  # noqa: ARG002 -- nothing here is forgotten by itself
        """Store a value unless the name is taken: see ``Store``."""
        return self._publish(self._folder / path_of(name), data, only_new=True)

    def claim(self, name: str, owner: bytes, for_s: float) -> bool:
        """Take a name for a while, by this machine's clock: see ``Store``.

        Two that take a claim which has run out at the same time may both get it, and then do the same work.
        """
        place = self._folder / path_of(name)
        mine = f"{time.time() + for_s:.3f} ".encode() + owner
        found = self._read(place, _MOST_OWNER_BYTES)
        if found is None:
            return self._publish(place, mine, only_new=True)
        if _ends_at(found) > time.time():
            return False
        self._publish(place, mine, only_new=False)
        return self._read(place, _MOST_OWNER_BYTES) == mine

    def fields(self, name: str, limit: int) -> dict[str, bytes]:
        """Return the fields below a name: see ``Store``."""
        place = self._folder / path_of(name)
        found = sorted(one for one in self._listed(place) if not one.startswith(_TEMPORARY))
        if len(found) > MOST_FIELDS:
            raise too_many_fields(self.address, f"{len(found)} fields")
        values = {field: self._read(place / field, limit) for field in found}
        fields = {field: value for field, value in values.items() if value is not None and len(value) <= limit}
        size = sum(map(len, fields.values()))
        if size > MOST_FIELDS_BYTES:
            raise too_many_fields(self.address, f"{size} bytes")
        return fields

    def put_field(self, name: str, field: str, data: bytes, keep_s: int) -> None:  # noqa: ARG002 -- as above
        """Store a field: see ``Store``."""
        self._publish(self._folder / path_of(name) / field, data, only_new=False)

    def names(self, prefix: str) -> Iterator[str]:
        """Yield the names: see ``Store``."""
        parts = prefix.split(":")
        place = self._folder.joinpath(*parts[:-1])
        for path in self._walked(place, 5 - len(parts)):
            name = name_of(path.relative_to(self._folder).as_posix())
            if name is not None and name.startswith(prefix):
                yield name

    def touch(self, names: Sequence[str], keep_s: int) -> None:  # noqa: ARG002 -- as above
        """Note the use in each file's own time, where it is ours: see ``Store``."""
        for name in names:
            with suppress(FileNotFoundError, PermissionError):
                self._tried(os.utime, self._folder / path_of(name), follow_symlinks=False)

    def ping(self) -> None:
        """Return when the folder could be looked at."""
        self._tried(os.stat, self._folder)

    def close(self) -> None:
        """Do nothing: there is no connection."""

    def _walked(self, place: Path, depth: int) -> Iterator[Path]:
        for one in self._listed(place):
            if depth:
                yield from self._walked(place / one, depth - 1)
            elif not one.startswith(_TEMPORARY):
                yield place / one

    def _listed(self, place: Path) -> list[str]:
        try:
            return os.listdir(place)  # noqa: PTH208 -- names alone
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise self._failure(error) from error

    def _read(self, place: Path, limit: int) -> bytes | None:
        """Return at most ``limit`` + 1 bytes of a regular file; what is none, such as a folder, counts as empty."""
        try:
            with Opened(place, OPEN_TO_READ) as descriptor:
                return read_bounded(descriptor, limit)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            if error.errno in {errno.ELOOP, errno.EISDIR, errno.EAGAIN}:
                return b""
            raise self._failure(error) from error

    def _publish(self, place: Path, data: bytes, *, only_new: bool) -> bool:
        """Write a file beside its place, then give it its name; returns False when that is taken and stays."""
        temporary = place.with_name(f"{_TEMPORARY}{secrets.token_hex(16)}")
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            with Opened(temporary, _NEW, 0o666) as descriptor:
                left = memoryview(data)
                while left:
                    left = left[os.write(descriptor, left) :]
                os.fsync(descriptor)
            return _named(temporary, place, only_new=only_new)
        except OSError as error:
            raise self._failure(error) from error
        finally:
            with suppress(OSError):
                temporary.unlink()

    def _tried(self, call: Callable[..., object], place: Path, **options: object) -> None:
        try:
            call(place, **options)
        except (FileNotFoundError, PermissionError) as error:
            if place == self._folder:
                raise self._failure(error) from error
            raise
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


def _named(temporary: Path, place: Path, *, only_new: bool) -> bool:
    """Give a file its name. Without hard links what came first stays only as far as one look can tell."""
    if only_new:
        try:
            os.link(temporary, place, follow_symlinks=False)
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno not in {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}:
                raise
            if os.path.lexists(place):
                return False
        else:
            return True
    temporary.replace(place)
    return True


def _ends_at(claim: bytes) -> float:
    """Return when a claim runs out, in seconds since 1970; 0 for what is none."""
    try:
        return float(claim.partition(b" ")[0])
    except ValueError:
        return 0.0
