"""Wire containers put together by hand, whole ones and wrong ones."""

from __future__ import annotations

import struct

from blake3 import blake3

from vyre_driver.errors import InvalidProgram
from vyre_driver.ir.builders import store, u32
from vyre_driver.ir.program import Program
from vyre_driver.ir.wire.format import HEADER_BYTES, leb

SMALL = Program.wrapped([], (1, 1, 1), [store("o", 0, u32(1))]).to_wire()
PLAIN = b"\3\0\0"
"""The end of a buffer's metadata since format 6: unrestricted, no extraction, no predicate."""


def signed(body: bytes, version: int = 6) -> bytes:
    """A container around a body, with the digest that it must have."""
    return struct.pack("<4sHH", b"VYRE", version, 4) + blake3(body).digest() + body


def body_of(wire: bytes) -> bytes:
    """The body of a container."""
    return wire[HEADER_BYTES:]


def text(value: bytes) -> bytes:
    """A name as it stands in terms."""
    return struct.pack("<I", len(value)) + value


def record(op: bytes, payload: bytes) -> bytes:
    """A record of the table of nodes."""
    return leb(len(op)) + op + leb(len(payload)) + payload + b"\0"


def metadata(count: int = 0, buffers: bytes = b"") -> bytes:
    """The first record, of a program of workgroup size 1, with the rows of its buffers."""
    head = b"VYRE-META" + b"\0" + struct.pack("<III", 1, 1, 1) + b"\0"
    return record(b"vyre.program.metadata", head + leb(count) + buffers)


def buffer_row(name: bytes, end: bytes = PLAIN) -> bytes:
    """A buffer's row in the metadata: of no known count, no output, without hints."""
    return text(name) + bytes(4) + bytes(4) + bytes(3) + bytes(6) + end


def with_node(op: bytes, node: bytes, version: int = 6) -> bytes:
    """A whole container around one node."""
    return signed(leb(2) + metadata() + record(op, node) + leb(0) + leb(0), version)


def with_buffers(*ends: bytes, version: int = 6) -> bytes:
    """A whole container of buffers of u32, whose rows in the metadata end with these bytes."""
    rows = b"".join(buffer_row(b"%03x" % place, end) for place, end in enumerate(ends))
    shape, hints = leb(1) + leb(0), leb(6) + bytes(6)
    regions = b"".join(leb(place) + bytes((4, 0, 1, 0)) + shape + hints for place in range(len(ends)))
    return signed(leb(1) + metadata(len(ends), rows) + leb(len(ends)) + regions + leb(0), version)


def verdict(data: bytes) -> str | None:
    """Read hostile bytes: None when they are a program, else the message; any other exception goes through."""
    try:
        Program.from_wire(data)
    except InvalidProgram as error:
        return str(error) if error.fix else "no advice"
    return None
