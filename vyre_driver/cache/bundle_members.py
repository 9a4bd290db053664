"""Read the members of a bundle block by block from an untrusted tar archive.

``tarfile`` reads a header record (a pax or GNU record with a long name) of whatever size it claims. No member of a bundle needs
one: a short record is skipped, a long one is refused, and nothing is read that has not been judged by its header first.

Source: POSIX.1-2017, pax, "ustar Interchange Format".
"""

from __future__ import annotations

import re
import tarfile
from typing import TYPE_CHECKING

from vyre_driver.cache.entry import MAX_ENTRY_BYTES
from vyre_driver.errors import InvalidBundle

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

LIST_NAME = "vyre-bundle.json"
MAX_LIST_BYTES = 64 << 20
_BLOCK = tarfile.BLOCKSIZE
_MAX_RECORD_BYTES = 64 << 10
_ENTRY_NAME = re.compile(r"entries/([0-9a-f]{64})\.bin")
_FILES = (tarfile.REGTYPE, tarfile.AREGTYPE)
_RECORDS = (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK)


def members(source: BinaryIO) -> Iterator[tuple[str, bytes]]:
    """Yield name and bytes of each member: the list, then entries, none over its limit.

    Raises InvalidBundle at the first member that belongs in no bundle, or where the archive ends without the mark of its end.
    """
    place = 0
    while (member := _header(source)) is not None:
        if member.type in _RECORDS:
            if not 0 <= member.size <= _MAX_RECORD_BYTES:
                raise refused(f"it has a header record of {member.size} bytes, over the limit of {_MAX_RECORD_BYTES} bytes")
            _content(source, member.size)
            continue
        name, size = member.name, member.size
        if place == 0 and name != LIST_NAME:
            raise refused(f"it does not begin with {LIST_NAME}")
        is_known = place == 0 or _ENTRY_NAME.fullmatch(name) is not None
        limit = MAX_ENTRY_BYTES if place else MAX_LIST_BYTES
        if member.type not in _FILES or not is_known or not 0 <= size <= limit:
            raise refused(f"its member {place} is {name[:80]!r}, of {size} bytes, which belongs in none")
        yield name, _content(source, size)
        place += 1
    if place == 0:
        raise refused(f"it does not begin with {LIST_NAME}")


def refused(problem: str) -> InvalidBundle:
    """Return the error that says why a file is not a bundle."""
    return InvalidBundle(f"the file is not a bundle of cache entries: {problem}", fix="export the bundle anew")


def _header(source: BinaryIO) -> tarfile.TarInfo | None:
    """Return the next header, or None at the block of zeros that ends an archive."""
    block = _exactly(source, _BLOCK)
    if not any(block):
        return None
    try:
        return tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    except (tarfile.TarError, ValueError) as error:
        raise refused(f"it is not a tar archive, or a part of one: {error}") from error


def _content(source: BinaryIO, size: int) -> bytes:
    """Return the bytes after a header, without those that fill the last block."""
    return _exactly(source, -(-size // _BLOCK) * _BLOCK)[:size]


def _exactly(source: BinaryIO, size: int) -> bytes:
    parts, left = [], size
    while left:
        part = source.read(left)
        if not part:
            raise refused(f"it is not a tar archive, or a part of one: it ends {left} bytes too early")
        parts.append(part)
        left -= len(part)
    return b"".join(parts)
