"""Keep the names of the kernels that entries were compiled for: one text file beside the entries, for those who list them.

Nothing that compiles or runs a kernel reads it. Any number of processes may add at once: each name is one write behind the end
of the file. A record begins with its line feed and ends in its key, so one that was cut off is no record, and spoils no other.
"""

from __future__ import annotations

import errno
import os
import re
from contextlib import suppress

from vyre_driver.cache.files import OPEN_TO_READ, CacheRoot, lock_opened, publish
from vyre_driver.display.line import escaped
from vyre_driver.process._opened import Opened

NAMES = "kernels.names"
MAX_NAMES_BYTES = 1 << 20
MAX_NAME_CHARACTERS = 200
_HEADER = b"vyre-driver kernel names 1"
_RECORD = re.compile(rf"(.{{1,{MAX_NAME_CHARACTERS}}}) ([0-9a-f]{{64}})")
_OPEN_TO_ADD = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_TRIES = 4  # each but the last finds no file, or one that another process has replaced meanwhile


def add_name(root: CacheRoot, key: str, kernel: str) -> None:
    """Add the name of an entry's kernel, made printable and cut to 200 characters, in a root that is usable.

    A file that would pass 1 MiB, or has another format, is replaced first: see ``_replace``.

    Raises
    ------
    OSError
        If it cannot be written, or is not a file that only those whom we trust may write.
    """
    record = _record(key, kernel)
    for _ in range(_TRIES):
        try:
            with Opened(f"{root.path}/{NAMES}", _OPEN_TO_ADD) as descriptor:
                if _has_added(root, descriptor, record):
                    return
        except FileNotFoundError:
            publish(root.path, NAMES, _HEADER, root.file_mode, shared=root.shared, only_new=True)
    raise BlockingIOError(errno.EAGAIN, "other processes replace it again and again", f"{root.path}/{NAMES}")


def read_names(root: CacheRoot) -> dict[str, str]:
    """Return the names of kernels by the keys of entries, of which some may be gone; none where there is no file of ours.

    Raises
    ------
    OSError
        If it cannot be read, or is not a file that only those whom we trust may write.
    """
    try:
        with Opened(f"{root.path}/{NAMES}", OPEN_TO_READ) as descriptor:
            _trusted_size(root, descriptor)
            return _names_of(_content(descriptor))
    except FileNotFoundError:
        return {}


def remove_names(root: CacheRoot) -> None:
    """Remove the file, if it is there."""
    with suppress(FileNotFoundError):
        os.unlink(f"{root.path}/{NAMES}")  # noqa: PTH108


def _record(key: str, kernel: str) -> bytes:
    name = escaped(kernel[: MAX_NAME_CHARACTERS + 1])
    if len(name) > MAX_NAME_CHARACTERS:
        name = f"{name[: MAX_NAME_CHARACTERS - 3]}..."
    return f"\n{name} {key}".encode()


def _has_added(root: CacheRoot, descriptor: int, record: bytes) -> bool:
    """Add a record to the opened file; returns False where the file has been replaced, so that another one is to have it."""
    size = _trusted_size(root, descriptor)
    is_ours = os.pread(descriptor, len(_HEADER) + 1, 0).rstrip(b"\n") == _HEADER
    if not is_ours or size + len(record) > MAX_NAMES_BYTES:
        is_locked = lock_opened(descriptor)
        if is_locked:
            _replace(root, descriptor)
        if is_locked is not False:
            return False
        if size > 2 * MAX_NAMES_BYTES:  # who replaces it is stopped
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), NAMES)
    if os.write(descriptor, record) < len(record):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), NAMES)
    return os.fstat(descriptor).st_nlink > 0


def _replace(root: CacheRoot, descriptor: int) -> None:
    """Write the file anew, with the names of entries that are there; where those are over 512 KiB, the ones added last.

    To be called with the file locked. What others add between the reading and the renaming is added to the new file too; who
    adds later sees that the file has no name any more.
    """
    data = _content(descriptor)
    kept, left = list[bytes](), MAX_NAMES_BYTES // 2
    for key, name in reversed(_names_of(data).items()):
        record = _record(key, name)
        if len(record) > left:
            break
        if os.path.lexists(f"{root.path}/{key[:2]}/{key}.bin"):
            kept.append(record)
            left -= len(record)
    publish(root.path, NAMES, b"".join([_HEADER, *reversed(kept)]), root.file_mode, shared=root.shared)
    added_since = os.pread(descriptor, MAX_NAMES_BYTES, len(data))
    if added_since:
        with Opened(f"{root.path}/{NAMES}", _OPEN_TO_ADD) as new:
            os.write(new, added_since)


def _trusted_size(root: CacheRoot, descriptor: int) -> int:
    """Return the size of an opened file in bytes; raises PermissionError if others than those whom we trust may write it."""
    found = os.fstat(descriptor)
    if not root.trusts_file(found):
        raise PermissionError(errno.EPERM, "it is not a regular file of ours alone", NAMES)
    return found.st_size


def _content(descriptor: int) -> bytes:
    return os.pread(descriptor, 2 * MAX_NAMES_BYTES, 0)


def _names_of(data: bytes) -> dict[str, str]:
    """Return the names by key, those added last at the end; what is no record of ours is left out."""
    header, *lines = data.split(b"\n")
    names: dict[str, str] = {}
    for line in lines if header == _HEADER else ():
        match = _RECORD.fullmatch(line.decode("utf-8", "replace"))
        if match is not None and match[1].isprintable():
            names.pop(match[2], None)
            names[match[2]] = match[1]
    return names
