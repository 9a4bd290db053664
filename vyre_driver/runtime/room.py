"""Memory that kernels keep for their next calls, and let go of where anything else of the driver needs it."""

from __future__ import annotations

import itertools
import time
import weakref
from typing import TYPE_CHECKING, Protocol, TypeVar

from vyre_driver.errors import DeviceOutOfMemory
from vyre_driver.kompute.unfinished import wait_for_one_end

if TYPE_CHECKING:
    from collections.abc import Callable

_Made = TypeVar("_Made")
_WAIT_S = 10.0


class Keeper(Protocol):
    """What keeps buffers between calls."""

    def oldest_use(self) -> int | None:
        """Return the least of the numbers that ``Room.uses`` gave to what it keeps, None if it keeps nothing."""

    def let_go(self) -> bool:
        """Drop what was not used for longest and is not in use; returns whether there was such, and never waits."""


class Room:
    """What makes room on one device: buffers that nobody uses just now, the least recently used first."""

    def __init__(self) -> None:
        """Know of nobody."""
        self._keepers: set[weakref.ref[Keeper]] = set()  # each step is one atomic operation: they may be collected at any time
        self.uses = itertools.count(1)
        """Numbers for uses, in their order."""

    def add(self, keeper: Keeper) -> None:
        """Have a keeper make room from now on, as long as it lives."""
        self._keepers.add(weakref.ref(keeper, self._keepers.discard))

    def make(self, make: Callable[[], _Made]) -> _Made:
        """Return what ``make`` returns, asked again each time that something was let go for it.

        Once nothing is left to let go it waits, up to 10 s, for work that still runs and whose objects are gone: that holds
        memory. ``make`` must hold no lock that a keeper takes, or its own buffers stay. Raises DeviceOutOfMemory if it does not
        fit even so.
        """
        try:
            return make()
        except DeviceOutOfMemory as raised:
            error = raised.with_traceback(None)  # which holds what was made until then
        return self.make_after(error, make)

    def make_after(self, error: DeviceOutOfMemory, make: Callable[[], _Made]) -> _Made:
        """As ``make``, for what was tried once and had no room."""
        ends = time.monotonic() + _WAIT_S
        while self._let_go() or wait_for_one_end(ends):
            try:
                return make()
            except DeviceOutOfMemory as raised:
                error = raised.with_traceback(None)
        raise error

    def _let_go(self) -> bool:
        keepers = [keeper for keeper in [one() for one in list(self._keepers)] if keeper is not None]
        uses = [(use, at) for at, use in enumerate(one.oldest_use() for one in keepers) if use is not None]
        return any(keepers[at].let_go() for _, at in sorted(uses))
