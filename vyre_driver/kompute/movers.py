"""Movers of one device: threads, and a little pinned memory, through which long arrays travel that are not pinned themselves.

They are used again, for making one takes as long as moving some hundred MB. Its user gives it back once all of its
steps are over, or abandons it: then it touches no array any more, and is closed when the device has ended what it was given.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from vyre_driver.errors import DeviceOutOfMemory
from vyre_driver.kompute.pinned import pinned_pages
from vyre_driver.kompute.results import VK_SUCCESS, VK_TIMEOUT
from vyre_driver.vulkan.layer import _layer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vyre_driver.kompute.deadline import Deadline
    from vyre_driver.kompute.device import KomputeDevice
    from vyre_driver.vulkan.layer._layer import Move

_AREA_BYTES = 4 << 24  # four areas of 16 MiB: they stay in the caches of a server, and hold 0.3 ms of the bus each
_MOST_IDLE = 2


class Movers:
    """The movers of one device that nobody uses just now, and those that were abandoned."""

    def __init__(self, device: KomputeDevice) -> None:
        """Have none; each is made when it is needed first."""
        self._device = device
        self._idle: list[_layer.Mover] = []
        self._abandoned: set[_layer.Mover] = set()  # of which two threads may find one ended at once
        self._all: set[weakref.ref[_layer.Mover]] = set()

    @property
    def can_be_made(self) -> bool:
        """Whether the device can have any: it shares the host's memory, or can be given pinned memory."""
        return self._device.shares_memory or _layer.can_pin(self._device.layer)

    def take(self) -> _layer.Mover:
        """Return a mover that nobody else uses.

        Raises
        ------
        DeviceOutOfMemory
            If there is no memory to be pinned for it, or no thread.
        """
        self.close_ended()
        try:
            return self._idle.pop()
        except IndexError:
            return self._made()

    def give_back(self, mover: _layer.Mover) -> None:
        """Keep a mover, all of whose steps are over, for the next."""
        self._idle.append(mover)
        if len(self._idle) > _MOST_IDLE:
            self._idle.pop(0).close()

    def abandon(self, mover: _layer.Mover) -> None:
        """Return when a mover touches no array of the host's any more; the device may still be at pinned ones."""
        mover.cancel()
        if self._device.is_lost:  # all that it has been given has ended
            mover.close()
        self._abandoned.add(mover)
        self.close_ended()

    def move(self, moves: Iterable[Move], deadline: Deadline, keep: object) -> None:
        """Move arrays after all work that was submitted before, and wait for the end; raises as ``Submission.wait``."""
        mover = self.take()
        try:
            self.wait(mover, self.put(mover, moves, keep=keep), deadline)
        except BaseException:
            self.abandon(mover)
            raise
        self.give_back(mover)

    def put(
        self,
        mover: _layer.Mover,
        moves: Iterable[Move],
        dispatch: _layer.Dispatch | None = None,
        keep: object = None,
        *,
        is_beside: bool = False,
    ) -> int:
        """As ``Mover.put``; raises DeviceOutOfMemory where that has no memory or no thread."""
        try:
            return mover.put(moves, dispatch, keep, is_beside=is_beside)
        except MemoryError:
            raise DeviceOutOfMemory(
                "this process gets no memory or no thread to move arrays with",
                fix="raise the limits of its memory and its threads (ulimit -v, ulimit -u)",
            ) from None

    def wait(self, mover: _layer.Mover, number: int, deadline: Deadline) -> None:
        """Wait for the end of a step; raises as ``Submission.wait``."""
        result = mover.wait(number, deadline.left_ns())
        if result == VK_TIMEOUT:
            raise deadline.passed()
        if result < VK_SUCCESS:
            raise self._device.error_of(_layer.Failure("move", result, 0))

    def settle(self, deadline: Deadline) -> None:
        """Wait until the device has ended what abandoned movers had given it; raises as ``Submission.wait``."""
        for mover in list(self._abandoned):
            if mover.settle(deadline.left_ns()) == VK_TIMEOUT:
                raise deadline.passed()
        self.close_ended()

    def close(self) -> None:
        """End all of them, before the device is closed: nobody uses one. Ctrl-C is heard meanwhile."""
        for mover in [one() for one in list(self._all)]:
            if mover is not None:
                mover.cancel()
                mover.settle()
                mover.close()
        self._idle.clear()
        self._abandoned.clear()

    def _made(self) -> _layer.Mover:
        device = self._device
        pages = None if device.shares_memory else pinned_pages(device, _AREA_BYTES)
        mover = _layer.Mover(device.layer, pages, device.manager)
        device.keep_holder(mover)
        self._all.add(weakref.ref(mover, self._all.discard))
        return mover

    def close_ended(self) -> None:
        """Close abandoned movers whose work has ended, which gives its memory back; never waits for it."""
        for mover in list(self._abandoned):
            if mover.settle(0) == VK_SUCCESS:
                self._abandoned.discard(mover)
                mover.close()
