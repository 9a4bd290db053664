"""Messages between a driver and its child: whole ones, told apart by their numbers.

A socket of packets keeps where each begins, so that a caller interrupted in the middle of an exchange asks once more under
another number and passes over what comes before: no exchange leaves half a message behind. Each is sent in packets of a number
(8 bytes), whether another follows (1 byte) and a part of the message.

Source: unix(7), SOCK_SEQPACKET.
"""

from __future__ import annotations

import socket
import struct

_HEADER = struct.Struct("<QB")
_PART_BYTES = 1 << 16  # well below what a socket takes at once by default


class End(socket.socket):
    """One end of a connection. It is closed when it is collected, which the other end sees as the end of the stream."""

    def __del__(self) -> None:
        """Close it, without the warning that other sockets give."""
        self.close()


def pair() -> tuple[End, End]:
    """Return the two ends of a connection; neither goes to a process that is started but for what passes it on."""
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    return End(fileno=here.detach()), End(fileno=there.detach())


def send(end: socket.socket, number: int, message: bytes, flags: int = 0) -> None:
    """Send a message under a number; raises OSError as ``socket.send``."""
    if len(message) <= _PART_BYTES:
        end.send(_HEADER.pack(number, 0) + message, flags)
        return
    for begin in range(0, len(message), _PART_BYTES):
        more = begin + _PART_BYTES < len(message)
        end.send(_HEADER.pack(number, more) + message[begin : begin + _PART_BYTES], flags)


def receive(end: socket.socket, wanted: int | None = None, flags: int = 0) -> tuple[int, bytes]:
    """Return the next message and its number; those of other numbers than ``wanted`` are passed over.

    Raises EOFError when the other end is closed, OSError as ``socket.recv``.
    """
    parts: list[bytes] = []
    latest = -1
    while True:
        packet = end.recv(_PART_BYTES + _HEADER.size, flags)
        if not packet:
            raise EOFError
        number, more = _HEADER.unpack_from(packet)
        if number != latest:  # what was sent before this was broken off
            parts.clear()
            latest = number
        if wanted is not None and number != wanted:
            continue
        if not more and not parts:
            return number, packet[_HEADER.size :]
        parts.append(packet[_HEADER.size :])
        if not more:
            return number, b"".join(parts)
