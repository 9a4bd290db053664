"""Seals: an HMAC that shows an entry was written by a holder of the key.

An entry's digest shows damage, not malice. Where others may write (a group's directory, a bundle, a base image), a key that is
kept elsewhere shows who wrote it: HMAC-SHA-256 over all that the digest covers. A cache with a key seals what it stores, and
takes nothing without a seal of that key. Files of keys are read only where nobody else may write them, and secret ones where
nobody else may read them.

Source: RFC 2104, FIPS 198-1.
"""

from __future__ import annotations

import hmac
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from vyre_driver import settings
from vyre_driver.cache.files import read_bounded
from vyre_driver.errors import InvalidSetting
from vyre_driver.process._opened import Opened

if TYPE_CHECKING:
    from vyre_driver.settings import Setting

_TO_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK  # a FIFO in its place must not hang the reader


def read_key_file(  # noqa: PLR0913 -- the last two by keyword
    setting: Setting, path: Path, sizes: tuple[int, int], fix: str, *, root: Path | None = None, is_secret: bool = True
) -> bytes:
    """Return the bytes of a file that a setting names, at least and at most so many as ``sizes`` says.

    What is not ``is_secret``, such as public keys, may be read by everybody, and changed by nobody else either.

    Raises
    ------
    InvalidSetting
        If it cannot be read, is too short or too long, may be written or, where it is secret, read by others, or lies in
        the cache's ``root``. None of its bytes are in the message.
    """
    least, most = sizes
    data, problem = b"", _problem_of_place(path, root)
    if not problem:
        try:
            with Opened(path, _TO_READ) as descriptor:
                problem = _problem_of_file(os.fstat(descriptor), is_secret=is_secret)
                data = b"" if problem else read_bounded(descriptor, most)
        except OSError as error:
            problem = f"it cannot be read ({error.strerror})"
    if not problem and least <= len(data) <= most:
        return data
    problem = problem or f"it has {len(data)} bytes, where {least} to {most} are wanted"
    raise unfit_key_file(setting, path, problem, fix)


def unfit_key_file(setting: Setting, path: Path, problem: str, fix: str) -> InvalidSetting:
    """Return the error that says what is wrong with the file that a setting names."""
    return InvalidSetting(
        f"{setting.variable} names {str(path)!r}: {problem}", fix=fix, variable=setting.variable, value=str(path)
    )


def _problem_of_place(path: Path, root: Path | None) -> str:
    """Say why a key may not lie there; empty when it may."""
    inside = root is not None and Path(os.path.realpath(path)).is_relative_to(os.path.realpath(root))
    return "it lies in the cache itself, where whoever writes entries could read it" if inside else ""


def _problem_of_file(found: os.stat_result, *, is_secret: bool) -> str:
    if not stat.S_ISREG(found.st_mode):
        return "it is not a regular file"
    if found.st_uid not in {os.geteuid(), 0}:
        return f"it belongs to user {found.st_uid}"
    if found.st_mode & (stat.S_IWGRP | (stat.S_IRWXO if is_secret else stat.S_IWOTH)):
        return f"others may {'read or ' if is_secret else ''}change it (mode {stat.S_IMODE(found.st_mode):o})"
    return ""


SEAL_BYTES = 32
LEAST_KEY_BYTES, MOST_KEY_BYTES = 32, 4096
_DOMAIN = b"vyre-driver entry seal 1\0"


def seal(key: bytes, signed: bytes) -> bytes:
    """Return the 32-byte seal of an entry's bytes from its key digest on."""
    return hmac.digest(key, _DOMAIN + signed, "sha256")


def is_sealed_by(key: bytes, signed: bytes, found: bytes) -> bool:
    """Whether a seal is that of these bytes; takes as long for a wrong one."""
    return hmac.compare_digest(seal(key, signed), found)


def read_hmac_key(path: Path, root: Path | None) -> bytes:
    """Return the key in a file: its bytes as they are, 32 to 4096 of them.

    Raises
    ------
    InvalidSetting
        If it cannot be read, is too short or too long, may be read or written by others, or lies in the cache's
        ``root``.
    """
    fix = "name a file of 32 random bytes of your own, mode 600, outside the cache (head -c 32 /dev/urandom > FILE)"
    return read_key_file(settings.CACHE_HMAC_KEY_FILE, path, (LEAST_KEY_BYTES, MOST_KEY_BYTES), fix, root=root)
