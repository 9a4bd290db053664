"""The frame around a JSON document: magic, version and length before it, and a digest behind it."""

from __future__ import annotations

import struct
from typing import NamedTuple

from blake3 import blake3

from vyre_driver.artifacts.faults import refuse, whole_bytes

MAX_FRAME_BYTES = 64 << 20  # ours: a number of JSON takes up to four bytes for each byte that it stands for

_HEADER = struct.Struct("<4sHI")
_DIGEST_BYTES = 32


class Frame(NamedTuple):
    """How one kind of document is framed: its magic, the schema that is read, the domain of its digest, and its name."""

    magic: bytes
    version: int
    domain: bytes
    what: str

    @property
    def body_at(self) -> int:
        """The byte at which the document begins."""
        return _HEADER.size

    def unwrap(self, data: bytes) -> tuple[bytes, bytes]:
        """Return the document and its digest, which has been compared.

        Raises
        ------
        InvalidContainer
            If the bytes are not such a frame, and nothing else, or the digest is that of other bytes.
        """
        data = whole_bytes(data, self.what)
        if len(data) > MAX_FRAME_BYTES:
            refuse(self.what, f"it has {len(data)} bytes, over the limit of {MAX_FRAME_BYTES}")
        if len(data) < _HEADER.size + _DIGEST_BYTES:
            refuse(self.what, f"it has {len(data)} bytes, fewer than its frame of {_HEADER.size + _DIGEST_BYTES}")
        magic, version, length = _HEADER.unpack_from(data)
        if magic != self.magic:
            refuse(self.what, f"it begins with {magic!r}, not with {self.magic!r}")
        if version != self.version:
            refuse(self.what, f"it is of schema {version}, and this reads {self.version}", 4)
        if len(data) != _HEADER.size + length + _DIGEST_BYTES:
            refuse(self.what, f"its document takes {length} bytes and {len(data) - _HEADER.size - _DIGEST_BYTES} are there", 6)
        body, digest = data[_HEADER.size : -_DIGEST_BYTES], data[-_DIGEST_BYTES:]
        if self._digest(body) != digest:
            refuse(self.what, "its digest is that of another document", len(data) - _DIGEST_BYTES)
        return body, digest

    def wrap(self, body: bytes) -> bytes:
        """Return a document in its frame."""
        return _HEADER.pack(self.magic, self.version, len(body)) + body + self._digest(body)

    def _digest(self, body: bytes) -> bytes:
        return blake3(self.domain + b"\0" + struct.pack("<HQ", self.version, len(body)) + body).digest()
