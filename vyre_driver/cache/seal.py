"""Seals: an HMAC that shows an entry was written by a holder of the key.

An entry's digest shows damage, not malice. Where others may write (a group's directory, a bundle, a base image), a key that is
kept elsewhere shows who wrote it: HMAC-SHA-256 over all that the digest covers. A cache with a key seals what it stores, and
takes nothing without a seal of that key.

Source: RFC 2104, FIPS 198-1.
"""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING

from vyre_driver import settings
from vyre_driver.cache.key_files import read_key_file

if TYPE_CHECKING:
    from pathlib import Path

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
