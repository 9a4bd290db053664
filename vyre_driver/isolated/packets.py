"""Messages between a driver and its child: whole ones, told apart by their numbers, and how the next one is waited for.

A socket of packets keeps where each begins, so that a caller interrupted in the middle of an exchange asks once more under
another number and passes over what comes before: no exchange leaves half a message behind. Each is sent in packets of a number
(8 bytes), whether another follows (1 byte) and a part of the message.

A message is waited for by asking for it over and over for a short time, and asleep only then. To wake a thread takes longer
than many calls do, most of all on a core that went to sleep with it. Polling keeps a core busy meanwhile: so it is short, one
thread of a process does it at a time, and a connection where it did not pay lately goes without.

Source: unix(7), SOCK_SEQPACKET.
"""

from __future__ import annotations

import os
import select
import socket
import struct
import time
from typing import TYPE_CHECKING

from vyre_driver.process.call_lock import call_lock

if TYPE_CHECKING:
    from collections.abc import Callable

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


# Longer than a call takes whose both sides sleep (100 to 170 us on a virtual machine): once both poll, they go on with it.
LONGEST_NS = 200_000
MOST_PASSED_OVER = 1023
one_thread = call_lock("the polling of an isolated driver")


class Polling:
    """How one connection waits for what is read from it next. Used by one thread at a time."""

    __slots__ = ("_passed_over", "_to_pass_over", "poll")

    def __init__(self, end: socket.socket) -> None:
        """Be that of one end of a connection, which stays open as long as this is used."""
        poll = select.poll()
        poll.register(end, select.POLLIN)
        # On a single core it would keep the other side from its work.
        self.poll = poll.poll if len(os.sched_getaffinity(0)) > 1 else None
        self._passed_over = self._to_pass_over = 0

    def wait(self) -> None:
        """Return when there is something to read, at the latest after 200 us; at once where polling did not pay lately.

        After one wait in vain the next is passed over, after another in vain the next three, and so on up to 1023; one that
        pays halves that number.
        """
        if self.poll is None:
            return
        if self._passed_over < self._to_pass_over:
            self._passed_over += 1
            return
        with one_thread.attempt() as is_mine:
            if is_mine:
                self._passed_over = 0
                if comes_soon(self.poll):
                    self._to_pass_over >>= 1
                else:
                    self._to_pass_over = min(2 * self._to_pass_over + 1, MOST_PASSED_OVER)


def comes_soon(poll: Callable[[int], object]) -> bool:
    """Return whether ``poll`` finds something within 200 us."""
    until = time.perf_counter_ns() + LONGEST_NS
    while not poll(0):
        if time.perf_counter_ns() > until:
            return False
        os.sched_yield()  # to who else wants the core, which may be a thread of the device
    return True
