"""Files that are written whole or not at all: what was there before stays until the new contents are on the disk."""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

from vyre_driver.process._opened import Opened

_DESCRIPTORS = ("/dev/", "/proc/")  # what is open already, such as /dev/stdout
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


def write_whole(path: Path, data: bytes) -> None:
    """Write a file under another name beside its own, then rename it; a link goes on leading to it, and its mode stays.

    What is no regular file, such as a pipe, is written directly, and so is a file in a directory that takes no other.
    Raises OSError if it cannot be written.
    """
    mode = _mode_of(path)
    if (mode is not None and not stat.S_ISREG(mode)) or str(path).startswith(_DESCRIPTORS):
        path.write_bytes(data)
        return
    place = Path(os.path.realpath(path))
    temporary = place.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        opened = Opened(temporary, _NEW, 0o666)
    except PermissionError:
        path.write_bytes(data)
        return
    try:
        with opened as descriptor:
            if mode is not None:
                with suppress(PermissionError):  # a file system without modes
                    os.fchmod(descriptor, stat.S_IMODE(mode))
            left = memoryview(data)
            while left:
                left = left[os.write(descriptor, left) :]
        temporary.replace(place)
    except BaseException:
        with suppress(FileNotFoundError):  # renamed already
            temporary.unlink()
        raise


def _mode_of(place: Path) -> int | None:
    """Return type and mode of what is there, None if there is nothing."""
    try:
        return place.stat().st_mode
    except FileNotFoundError:
        return None
