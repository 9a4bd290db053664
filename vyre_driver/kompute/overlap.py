"""Dispatches one after the other, with the copies of those before and after them beside each.

A step of a mover has the dispatch of one load, the upload of the next and the read-back of the one before; they touch nothing
in common, so that the bus moves both ways while the device computes. The mover goes on while nobody waits for it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vyre_driver.kompute.results import VK_SUCCESS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from vyre_driver.kompute.deadline import Deadline
    from vyre_driver.kompute.device import KomputeDevice
    from vyre_driver.kompute.memory import TensorBuffer
    from vyre_driver.kompute.pipeline import BoundPipeline
    from vyre_driver.vulkan.layer import _layer

LOADS_UNDER_WAY = 4
"""How many loads are on their way when one arrives: uploaded, dispatched, read back and taken out."""


@dataclass(eq=False, slots=True)
class Load:
    """One dispatch, with the arrays that go to its buffers before it (None: zeros), and those that get what they hold then.

    All are contiguous, and as long as their buffers, which no other load has at the same time. What it only reads may be
    shared, and what is written by several loads is written in their order.
    """

    pipeline: BoundPipeline
    push_words: tuple[int, ...]
    uploads: Sequence[tuple[TensorBuffer, NDArray[Any] | None]]
    downloads: Sequence[tuple[TensorBuffer, NDArray[Any]]]
    dispatch: _layer.Dispatch | None = None  # once it was started


class Overlap:
    """The loads of one device that are under way. The thread that has it keeps others away, and holds ``KomputeDevice.in_use``.

    After a time-out or an interrupt of ``finish`` that may be called again.
    """

    def __init__(self, device: KomputeDevice) -> None:
        """Have nothing under way."""
        self._device = device
        self._line: deque[Load | None] = deque([None] * LOADS_UNDER_WAY, LOADS_UNDER_WAY)  # the last one to come first
        self._steps: deque[int] = deque([0] * 2, 2)  # of the mover's, the last one first
        self._mover: _layer.Mover | None = None

    def finish(self, deadline: Deadline) -> Load | None:
        """Return the load that is next to leave, with its results in their arrays; None if there is none.

        Raises
        ------
        DispatchTimeout
            If that takes longer than the deadline allows; it goes on.
        DeviceLost
            If the device was lost.
        LoopCut
            If the driver has cut a loop of the load's.
        DispatchFailed
            If it failed otherwise.
        """
        if self._mover is not None:
            self._device.movers.wait(self._mover, self._steps[-1], deadline)
        leaving, self._line[-1] = self._line[-1], None
        if leaving is not None and leaving.dispatch is not None and leaving.dispatch.take_cut():
            raise leaving.pipeline.cut_error()
        return leaving

    def start(self, load: Load | None) -> None:
        """Upload a load, or none, beside the dispatch of the one before and the read-back of the one before that.

        ``finish`` comes before, each time.

        Raises
        ------
        DispatchFailed
            If it cannot be recorded; DeviceLost.
        DeviceOutOfMemory
            If there is no memory to be pinned for it, or no thread.
        """
        movers = self._device.movers
        running, ended = self._line[0], self._line[1]
        if load is None and running is None and ended is None:
            self._steps.appendleft(self._steps[0])
            self._line.appendleft(None)
            return
        if self._mover is None:
            self._mover = movers.take()
        moves = [] if load is None else [buffer.move(array) for buffer, array in load.uploads]
        if ended is not None:
            moves += [buffer.move(array, is_down=True) for buffer, array in ended.downloads]
        dispatch = None if running is None else self._recorded(running)
        self._steps.appendleft(movers.put(self._mover, moves, dispatch, (load, ended), is_beside=True))
        self._line.appendleft(load)

    def end(self) -> None:
        """Let go of all loads: from its return on no thread touches their arrays.

        Where some are still under way the device may be at pinned ones, until ``Movers.settle``.
        """
        is_over = not any(self._line)
        self._line.extend([None] * LOADS_UNDER_WAY)
        if self._mover is None:
            return
        mover, self._mover = self._mover, None
        if is_over and mover.is_usable and mover.wait(self._steps[0]) == VK_SUCCESS:  # which moves nothing
            self._device.movers.give_back(mover)
        else:
            self._device.movers.abandon(mover)

    def _recorded(self, load: Load) -> _layer.Dispatch:
        load.dispatch = load.pipeline.recorded(self._device.layer, load.push_words, is_alone=True)
        return load.dispatch
