"""Copies that the device makes for one holder of its memory: submitted one after the other, and waited for in that order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_driver.kompute.results import VK_TIMEOUT
from vyre_driver.vulkan.layer import _layer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vyre_driver.kompute.deadline import Deadline
    from vyre_driver.kompute.device import KomputeDevice

    # (from, offset, to, offset, bytes), or (None, word, to, offset, bytes): _layer.Transfer
    Region = tuple[int | None, int, int, int, int]


class Transfers:
    """What was submitted and has not been seen to end; the thread that has it keeps others away.

    After a time-out or an interrupt the device may still be at it, and the next who settles waits for that.
    """

    __slots__ = ("_device", "_pending")

    def __init__(self, device: KomputeDevice) -> None:
        """Have submitted nothing."""
        self._device = device
        self._pending: list[_layer.Transfer] = []  # few: a deque takes longer to make

    @property
    def are_pending(self) -> bool:
        """Whether the end of one has not been seen."""
        return bool(self._pending) and self._pending[-1].is_pending

    def submit(self, regions: Sequence[Region], keep: object) -> None:
        """Hand regions to the device, which copies them one after the other; ``keep`` is held until they are copied.

        ``keep`` must not hold this object: what waits for its end when it goes must not be collected with what it waits for.
        """
        device = self._device
        made = _layer.Transfer(device.layer, regions, (device.manager, keep))
        device.raise_failure(made.submit())
        self._pending.append(made)

    def settle(self, deadline: Deadline, left: int = 0) -> None:
        """Wait until no more than ``left`` of them are under way; raises as ``Submission.wait``."""
        while len(self._pending) > left:
            result = self._pending[0].wait(deadline.left_ns())
            if result == VK_TIMEOUT:
                raise deadline.passed()
            self._device.check_result(result)
            del self._pending[0]
