"""Dispatches one after the other, with the copies of those before and after them beside each.

One submission has the dispatch of one load, the upload of the next and the read-back of the one before; they touch nothing in
common, so that the bus moves both ways while the device computes. Two are under way at most: while one runs, the host takes
out what the one before it has read back, and puts in what the next one uploads.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_driver.kompute.memory import padded
from vyre_driver.kompute.results import VK_TIMEOUT
from vyre_driver.kompute.staging import Area
from vyre_driver.vulkan.layer import _layer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from vyre_driver.kompute.deadline import Deadline
    from vyre_driver.kompute.device import KomputeDevice
    from vyre_driver.kompute.memory import TensorBuffer
    from vyre_driver.kompute.pipeline import BoundPipeline
    from vyre_driver.kompute.transfers import Region

LOADS_UNDER_WAY = 4
"""How many loads are on their way when one arrives: uploaded, dispatched, read back and taken out."""
_AREA_STEP = 1 << 20


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
    areas: list[Area] = field(default_factory=list)
    taken_out: list[tuple[NDArray[np.uint8], NDArray[np.uint8]]] = field(default_factory=list)  # to where, from where


class Overlap:
    """The loads of one device that are under way. Who has it keeps other threads away, and holds ``KomputeDevice.in_use``.

    After a time-out or an interrupt ``finish`` may be called again.
    """

    def __init__(self, device: KomputeDevice) -> None:
        """Have nothing under way."""
        self._device = device
        self._line: deque[Load | None] = deque([None] * LOADS_UNDER_WAY, LOADS_UNDER_WAY)  # the last one to come first
        self._submitted: deque[_layer.Dispatch | None] = deque([None] * 2, 2)  # the last one to come first
        self._free: list[Area] = []
        device.keep_holder(self)

    @property
    def is_empty(self) -> bool:
        """Whether no load is under way."""
        return not any(self._line)

    def finish(self, deadline: Deadline) -> Load | None:
        """Return the load that is next to leave, with its results in their arrays; None if there is none.

        Raises
        ------
        DispatchTimeout
            If that takes longer than the deadline allows; it goes on.
        DeviceLost
            If the device was lost.
        DispatchFailed
            If it failed otherwise.
        """
        self._wait(self._submitted[-1], deadline)
        self._submitted[-1] = None
        leaving, uploaded = self._line[-1], self._line[1]
        if uploaded is not None:
            self._give_back(uploaded)
        if leaving is not None:
            _layer.copy_spans(leaving.taken_out)
            self._give_back(leaving)
        self._line[-1] = None
        return leaving

    def start(self, load: Load | None) -> None:
        """Upload a load, or none, beside the dispatch of the one before and the read-back of the one before that.

        ``finish`` comes before, each time.

        Raises
        ------
        DispatchFailed
            If it cannot be recorded or handed over; DeviceLost.
        DeviceOutOfMemory
            If there is no memory to be pinned for it.
        """
        running, ended = self._line[0], self._line[1]
        regions: list[Region] = []
        keep: list[object] = []
        if load is not None:
            _layer.copy_spans(self._uploads(load, regions, keep))
        if ended is not None:
            self._downloads(ended, regions, keep)
        self._submitted.appendleft(self._submit(running, regions, keep))
        self._line.appendleft(load)

    def wait(self, deadline: Deadline) -> None:
        """Return when the device touches no array any more; raises as ``finish``."""
        for one in reversed(self._submitted):
            self._wait(one, deadline)

    def _uploads(
        self, load: Load, regions: list[Region], keep: list[object]
    ) -> list[tuple[NDArray[np.uint8], NDArray[np.uint8] | None]]:
        """Add what the device copies to bring the arrays of a load; returns what the host copies before."""
        spans: list[tuple[NDArray[np.uint8], NDArray[np.uint8] | None]] = []
        for buffer, array in load.uploads:
            raw = None if array is None else array.reshape(-1).view(np.uint8)
            if buffer.is_shared:
                spans.append((buffer.visible(0, buffer.byte_len), raw))
                continue
            storage, keep_buffer = buffer.handles[0], buffer.tensor
            keep.append(keep_buffer)
            if raw is None:
                regions.append((None, 0, storage, 0, padded(buffer.byte_len)))
                continue
            handle, offset, where = self._place(buffer, raw, load, keep)
            regions.append((handle, offset, storage, 0, buffer.byte_len))
            if where is not None:
                spans.append((where, raw))
        return spans

    def _downloads(self, load: Load, regions: list[Region], keep: list[object]) -> None:
        """Add what the device copies to read a load back, and to the load what the host copies after that."""
        for buffer, array in load.downloads:
            raw = array.reshape(-1).view(np.uint8)
            if buffer.is_shared:
                load.taken_out.append((raw, buffer.visible(0, buffer.byte_len)))
                continue
            keep.append(buffer.tensor)
            handle, offset, where = self._place(buffer, raw, load, keep)
            regions.append((buffer.handles[0], 0, handle, offset, buffer.byte_len))
            if where is not None:
                load.taken_out.append((raw, where))

    def _place(
        self, buffer: TensorBuffer, raw: NDArray[np.uint8], load: Load, keep: list[object]
    ) -> tuple[int, int, NDArray[np.uint8] | None]:
        """Return where the device finds or leaves the bytes of an array, and that memory where it is not the array's own."""
        pinned = buffer.part_of_pinned(raw)
        if pinned is not None:
            keep.append(pinned.pages)
            return pinned.handle, pinned.offset, None
        if buffer.is_staged:
            return buffer.handles[1], 0, buffer.visible(0, buffer.byte_len)
        area = self._take_area(buffer.byte_len)
        load.areas.append(area)
        keep.append(area.pages)
        return area.handle, area.offset, area.bytes[: buffer.byte_len]

    def _take_area(self, byte_len: int) -> Area:
        fitting = [one for one in self._free if one.bytes.nbytes >= byte_len]
        if fitting:
            found = min(fitting, key=lambda one: one.bytes.nbytes)
            self._free.remove(found)
            return found
        if self._free:
            self._free.pop()  # too short: so there are never more than were wanted at once
        return Area(self._device, -(-byte_len // _AREA_STEP) * _AREA_STEP)

    def _give_back(self, load: Load) -> None:
        self._free += load.areas
        load.areas = []

    def _submit(self, running: Load | None, regions: list[Region], keep: list[object]) -> _layer.Dispatch | None:
        """Hand over a dispatch with regions beside it, or what there is of the two."""
        device = self._device
        layer = device.layer
        assert layer is not None  # noqa: S101 -- without it nothing goes on beside a dispatch
        made: _layer.Dispatch | _layer.Failure
        if running is not None:
            made = running.pipeline.recorded(layer, running.push_words, regions, keep)
        elif regions:
            made = _layer.record_dispatch(layer, None, (0, 0, 0), b"", None, False, (device.manager, keep), regions)
        else:
            return None
        if isinstance(made, _layer.Failure):
            raise device.error_of(made)
        device.raise_failure(made.submit())
        return made

    def _wait(self, submitted: _layer.Dispatch | None, deadline: Deadline) -> None:
        if submitted is None:
            return
        result = submitted.wait(deadline.left_ns())
        if result == VK_TIMEOUT:
            raise deadline.passed()
        self._device.check_result(result)
