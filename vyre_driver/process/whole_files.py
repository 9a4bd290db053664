"""Files that are written whole or not at all: what was there before stays until the new contents are on the disk."""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from vyre_driver.process._opened import Opened

if TYPE_CHECKING:
    from collections.abc import Iterator

_DESCRIPTORS = ("/dev/", "/proc/")  # what is open already, such as /dev/stdout
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


def write_whole(path: Path, data: bytes) -> None:
    """Write bytes to a file as :func:`whole_file` does; raises OSError if it cannot be written."""
    with whole_file(path) as file:
        file.write(data)


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """Open a file under another name beside its own, and rename it at the end; an exception removes it instead.

    A link goes on leading to the file, whose mode stays. What is no regular file, such as a pipe, is written directly, and so
    is a file in a directory that takes no other. Raises OSError if it cannot be written.
    """
    mode = _mode_of(path)
    place = Path(os.path.realpath(path))
    temporary = place.with_name(f".{secrets.token_hex(8)}.tmp")
    is_special = (mode is not None and not stat.S_ISREG(mode)) or str(path).startswith(_DESCRIPTORS)
    opened = None if is_special else _opened_new(temporary)
    if opened is None:
        with path.open("wb") as file:
            yield file
        return
    try:
        with opened as descriptor:
            if mode is not None:
                with suppress(PermissionError):  # a file system without modes
                    os.fchmod(descriptor, stat.S_IMODE(mode))
            with open(descriptor, "wb", closefd=False) as file:
                yield file
        temporary.replace(place)
    except BaseException:
        with suppress(FileNotFoundError):  # renamed already
            temporary.unlink()
        raise


def _opened_new(place: Path) -> Opened | None:
    """Return a new file, None if its directory takes none."""
    try:
        return Opened(place, _NEW, 0o666)
    except PermissionError:
        return None


def _mode_of(place: Path) -> int | None:
    """Return type and mode of what is there, None if there is nothing."""
    try:
        return place.stat().st_mode
    except FileNotFoundError:
        return None
