"""Seals: an HMAC that shows an entry was written by a holder of the key.

An entry's digest shows damage, not malice. Where others may write (a group's directory, a bundle, a base image), a key that is
kept elsewhere shows who wrote it: HMAC-SHA-256 over all that the digest covers. A cache with a key seals what it stores, and
takes nothing without a seal of that key.

Source: RFC 2104, FIPS 198-1.
"""

from __future__ import annotations

import hmac
import os
import stat
from pathlib import Path

from vyre_driver.errors import InvalidSetting
from vyre_driver.process._opened import Opened

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
    problem = _problem_of_place(path, root)
    if not problem:
        try:
            with Opened(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK) as descriptor:
                problem = _problem_of_file(os.fstat(descriptor))
                key = b"" if problem else os.read(descriptor, MOST_KEY_BYTES + 1)
        except OSError as error:
            problem, key = f"it cannot be read ({error.strerror})", b""
        if not problem and LEAST_KEY_BYTES <= len(key) <= MOST_KEY_BYTES:
            return key
        problem = problem or f"it has {len(key)} bytes, where {LEAST_KEY_BYTES} to {MOST_KEY_BYTES} are wanted"
    raise InvalidSetting(
        f"VYRE_CACHE_HMAC_KEY_FILE names {str(path)!r}: {problem}",
        fix="name a file of 32 random bytes of your own, mode 600, outside the cache (head -c 32 /dev/urandom > FILE)",
        variable="VYRE_CACHE_HMAC_KEY_FILE",
        value=str(path),
    )


def _problem_of_place(path: Path, root: Path | None) -> str:
    """Say why a key may not lie there; empty when it may."""
    inside = root is not None and Path(os.path.realpath(path)).is_relative_to(os.path.realpath(root))
    return "it lies in the cache itself, where whoever writes entries could read it" if inside else ""


def _problem_of_file(found: os.stat_result) -> str:
    if not stat.S_ISREG(found.st_mode):
        return "it is not a regular file"
    if found.st_uid not in {os.geteuid(), 0}:
        return f"it belongs to user {found.st_uid}"
    if found.st_mode & (stat.S_IWGRP | stat.S_IRWXO):
        return f"others may read or change it (mode {stat.S_IMODE(found.st_mode):o})"
    return ""
