"""Waiting for a message: for a short time by asking for it over and over, and asleep only then.

To wake a thread takes longer than many calls do, most of all on a core that went to sleep with it. Polling keeps a core busy
meanwhile: so it is short, one thread of a process does it at a time, and a connection where it did not pay lately goes without.
"""

from __future__ import annotations

import os
import select
import time
from typing import TYPE_CHECKING

from vyre_driver.process.call_lock import call_lock

if TYPE_CHECKING:
    from collections.abc import Callable
    from socket import socket

# Longer than a call takes whose both sides sleep (100 to 170 us on a virtual machine): once both poll, they go on with it.
LONGEST_NS = 200_000
MOST_PASSED_OVER = 1023
one_thread = call_lock("the polling of an isolated driver")


class Polling:
    """How one connection waits for what is read from it next. Used by one thread at a time."""

    __slots__ = ("_passed_over", "_to_pass_over", "poll")

    def __init__(self, end: socket) -> None:
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
