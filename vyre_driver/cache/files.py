"""Read, publish and move aside single files of the cache."""

from __future__ import annotations

import fcntl
import os
import secrets
from contextlib import suppress
from typing import TYPE_CHECKING

from vyre_driver.cache.root import make_directory
from vyre_driver.process._opened import Opened

if TYPE_CHECKING:
    from vyre_driver.cache.root import CacheRoot

QUARANTINE = "quarantine"

# O_NONBLOCK: a FIFO in a file's place must not hang the reader.
OPEN_TO_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
OPEN_TO_LOCK = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_OPEN_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_OPEN_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def read_bounded(descriptor: int, size: int) -> bytes:
    """Return the bytes of a file of ``size`` bytes, and one more if it has grown: it must not pass for whole."""
    data = os.read(descriptor, size + 1)
    if len(data) == size:  # a file that is read short of its end is judged by its lengths and its digest all the same
        return data
    parts = [data]
    left = size + 1 - len(data)
    while left > 0 and parts[-1]:
        parts.append(os.read(descriptor, left))
        left -= len(parts[-1])
    return b"".join(parts)


def write_all(descriptor: int, data: bytes) -> None:
    """Write every byte: one call may take only some of them."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def lock_opened(descriptor: int) -> bool | None:
    """Lock a file; returns False when another process has it, None when its last holder has removed it meanwhile."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True if os.fstat(descriptor).st_nlink else None


def publish(  # noqa: PLR0913 -- all but four by keyword
    directory: str, name: str, data: bytes, mode: int, *, shared: bool = False, only_new: bool = False
) -> None:
    """Write a file under an unpredictable name beside its own, then rename it: a reader sees all of it or nothing.

    With ``shared`` the umask takes nothing from the mode; with ``only_new`` a file that has the name already keeps it. If it
    fails nothing is left behind, unless removing that fails too.

    Everything goes through one descriptor of the directory, so nothing is written elsewhere if that is moved meanwhile.
    """
    with Opened(directory, _OPEN_DIRECTORY) as opened:
        temporary = f".{secrets.token_hex(16)}.tmp"
        try:
            _write_new(temporary, data, mode, opened, shared=shared)
            if not (only_new and _link_new(temporary, name, opened)):
                os.replace(temporary, name, src_dir_fd=opened, dst_dir_fd=opened)
        except BaseException:
            with suppress(FileNotFoundError):  # not made yet, or renamed already
                os.unlink(temporary, dir_fd=opened)
            raise


def _link_new(temporary: str, name: str, directory: int) -> bool:
    """Give a file its name unless that is taken; returns False, with nothing done, where there are no hard links."""
    try:
        os.link(temporary, name, src_dir_fd=directory, dst_dir_fd=directory, follow_symlinks=False)
    except FileExistsError:
        pass
    except OSError:
        return False  # renaming does, or says what is wrong
    os.unlink(temporary, dir_fd=directory)
    return True


def _write_new(name: str, data: bytes, mode: int, directory: int, *, shared: bool) -> None:
    """Write every byte to a new file and close it; closing may be what fails."""
    with Opened(name, _OPEN_NEW, mode, dir_fd=directory) as descriptor:
        if shared:
            os.fchmod(descriptor, mode)
        write_all(descriptor, data)


def set_aside(root: CacheRoot, shard: str, name: str, judged: tuple[int, int, int]) -> bool:
    """Move a file to ``quarantine``; returns False when it is no more the one judged (inode, bytes, ns of its last change)."""
    path = f"{root.path}/{shard}/{name}"
    now = os.lstat(path)
    if (now.st_ino, now.st_size, now.st_mtime_ns) != judged:
        return False
    make_directory(f"{root.path}/{QUARANTINE}", root.directory_mode, shared=root.shared)
    if not root.trusts_shard(QUARANTINE):
        raise NotADirectoryError(f"{root.path}/{QUARANTINE} is not a directory of ours")
    os.replace(path, f"{root.path}/{QUARANTINE}/{name}")  # noqa: PTH105
    return True
