"""Decide which directories a cache may trust, create them, and read, publish and move aside the files in them.

Private (the rule): a real directory, ours or root's, to which no other user may write. Shared (only when asked for): a
directory of a group that we are in, to which no user outside the group may write; every member is then trusted like ourselves.
In both, no parent directory may be writable by every user, unless it is sticky as /tmp is.

A judgement of the root holds as long as it is the same directory, with the same owner, group and mode, which every call sees
anew: a root that is replaced under a running process is judged before it is used.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from vyre_driver.cache._read import Judged
from vyre_driver.errors import InvalidInput
from vyre_driver.process._opened import Opened

if TYPE_CHECKING:
    from vyre_driver.cache._read import DirectoryFacts

CACHEDIR_TAG = (
    "Signature: 8a477f597d28d172789f06886806bc55\n# Compiled GPU pipelines of vyre_driver. Safe to delete at any time.\n"
)
TAG_NAME = "CACHEDIR.TAG"

_OPEN_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class CacheRoot:
    """One directory of entries: whether it may be used, and its sub-directories."""

    def __init__(self, path: str, *, shared: bool = False) -> None:
        """Remember the absolute path; nothing is read or made."""
        self.path = path
        self.shared = shared
        self.directory_mode = 0o2770 if shared else 0o700
        self.file_mode = 0o660 if shared else 0o600
        self._forbidden = stat.S_IWOTH if shared else stat.S_IWGRP | stat.S_IWOTH
        self._trusted: tuple[DirectoryFacts, int] | None = None
        self.judged: Judged | None = None

    def untrusted_reason(self) -> str:
        """Return why the directory may not be used now, or an empty text when it may; FileNotFoundError if it is not there."""
        found = os.lstat(self.path)
        return self.untrusted_reason_of((found.st_mode, found.st_uid, found.st_gid, found.st_ino, found.st_dev))

    def untrusted_reason_of(self, facts: DirectoryFacts) -> str:
        """Return why a directory with these facts may not be used, or an empty text when it may."""
        judged = (facts, os.geteuid())
        if judged != self._trusted:
            self._trusted = self.judged = None
            reason = _elevated() or self._untrusted_directory_reason(facts) or _untrusted_ancestor_reason(self.path)
            if reason:
                return reason
            self._trusted = judged
            self.judged = Judged(*judged, self._forbidden)
        return ""

    def trusts_shard(self, name: str) -> bool:
        """Whether a sub-directory may be used; call it after ``untrusted_reason``. FileNotFoundError if it is not there."""
        return self.trusts_directory(os.lstat(f"{self.path}/{name}"))

    def trusts_directory(self, found: os.stat_result) -> bool:
        """Whether a sub-directory of which this is known may be used; call it after ``untrusted_reason``."""
        return self.trusts_directory_facts((found.st_mode, found.st_uid, found.st_gid))

    def trusts_directory_facts(self, facts: tuple[int, ...]) -> bool:
        """Tell the same of a directory's mode, user and group."""
        return not self._untrusted_directory_reason(facts)

    def trusts_file(self, found: os.stat_result) -> bool:
        """Whether a file is regular and only those whom we trust could have written it; call it after ``untrusted_reason``."""
        return self.trusts_facts(found.st_mode, found.st_uid, found.st_gid)

    def trusts_facts(self, mode: int, user: int, group: int) -> bool:
        """Tell the same of a file's mode, user and group."""
        if not stat.S_ISREG(mode) or mode & self._forbidden:
            return False
        if user == os.geteuid() or user == 0:
            return True
        return self.shared and self._trusted is not None and group == self._trusted[0][2]

    def make(self) -> bool:
        """Make the directory with its parents and say in it that it is a cache; returns whether it was not there.

        One that was there is left as it is: it may hold other things, and backups must not skip those.
        """
        os.makedirs(os.path.dirname(self.path), mode=0o700, exist_ok=True)  # noqa: PTH103, PTH120 -- no Path on the way of a put
        return make_directory(self.path, self.directory_mode, shared=self.shared)

    def make_shard(self, name: str) -> None:
        """Make a sub-directory unless it is there."""
        make_directory(f"{self.path}/{name}", self.directory_mode, shared=self.shared)

    def tag(self) -> None:
        """Write the tag that tells backup programs to skip the directory."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        with Opened(f"{self.path}/{TAG_NAME}", flags, self.file_mode) as descriptor:
            os.write(descriptor, CACHEDIR_TAG.encode("ascii"))

    def _untrusted_directory_reason(self, facts: tuple[int, ...]) -> str:
        mode, user, group = facts[:3]
        if not stat.S_ISDIR(mode):
            return "it is not a directory"
        if mode & self._forbidden:
            return f"others may write to it (mode {stat.S_IMODE(mode):o})"
        if user == os.geteuid() or user == 0:
            return ""
        if not self.shared:
            return f"it belongs to user {user}"
        if group not in {os.getegid(), *os.getgroups()}:
            return f"it belongs to user {user} and group {group}, neither of them ours"
        return ""


def make_directory(path: str, mode: int, *, shared: bool) -> bool:
    """Make a directory unless it is there, group rights and all where they are wanted; returns whether it was not there."""
    try:
        os.mkdir(path, mode)  # noqa: PTH102 -- no Path on the way of a put
    except FileExistsError:
        return False
    if shared:
        # The umask takes group rights away and mkdir ignores setgid; fchmod on a descriptor follows no link put in its place.
        with Opened(path, _OPEN_DIRECTORY) as descriptor:
            os.fchmod(descriptor, mode)
    return True


def unmakeable_reason(path: str) -> str:
    """Return why this user cannot make a file or directory that is not there, or an empty text."""
    place = path
    while not os.path.lexists(place) and place != os.path.dirname(place):  # noqa: PTH120 -- of a text
        place = os.path.dirname(place)  # noqa: PTH120
    may_write = os.access(place, os.W_OK | os.X_OK, effective_ids=True)
    return "" if may_write else f"it is not there, and this user may not write to {place}"


def _elevated() -> str:
    """Say that the process runs with the rights of another user than its own: its environment must not choose its files."""
    if os.geteuid() != os.getuid():
        return f"the process runs as user {os.geteuid()} for user {os.getuid()}"
    if os.getegid() != os.getgid():
        return f"the process runs as group {os.getegid()} for group {os.getgid()}"
    return ""


def _untrusted_ancestor_reason(path: str) -> str:
    """Say which parent directory any user may change. Links are followed: a home often is one."""
    parent = os.path.dirname(os.path.realpath(path))  # noqa: PTH120 -- on the way of a get
    while True:
        mode = os.lstat(parent).st_mode
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            return f"everybody may write to {parent} (mode {stat.S_IMODE(mode):o})"
        if parent == os.path.dirname(parent):  # noqa: PTH120
            return ""
        parent = os.path.dirname(parent)  # noqa: PTH120


def given_directory(given: object) -> Path | None:
    """Return the directory that a caller names as text or Path, None if he names none.

    Raises
    ------
    InvalidInput
        If it is neither, or holds a NUL character.
    """
    try:
        place = None if given is None else Path(given)  # type: ignore[arg-type]
    except TypeError as error:
        raise InvalidInput(
            f"cache is of type {type(given).__name__}", fix="pass a DiskPipelineCache, or a directory as text or Path"
        ) from error
    if place is not None and "\0" in str(place):
        raise InvalidInput(f"the cache's directory {str(place)!r} holds a NUL character", fix="leave it out")
    return place


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
