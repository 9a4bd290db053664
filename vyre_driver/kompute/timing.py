"""Time a dispatch on the host's clock and on the device's.

Source: Vulkan 1.3 ``vkCmdWriteTimestamp``, ``timestampPeriod`` and ``timestampValidBits``.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vyre_driver.kompute.deadline import Deadline
from vyre_driver.kompute.recording import batch_label, record_in_order
from vyre_driver.telemetry.stages import Stage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vyre_driver.runtime.bound import BoundKernel
    from vyre_driver.vulkan.devices import PhysicalDevice


@dataclass(frozen=True, slots=True)
class DispatchTimes:
    """Nanoseconds of one or more runs: handing over, waiting, and on the device's clock (None where it has none)."""

    enqueue_ns: int
    wait_ns: int
    device_ns: int | None


class TimedDispatches:
    """Dispatches in order, recorded once and run as one; those that share no buffer may run side by side.

    With ``repeats`` all of them are recorded so often, one after the other. The times are of one run of all.
    """

    def __init__(self, dispatches: Sequence[BoundKernel], repeats: int = 1) -> None:
        """Record them; raises as ``Submission``."""
        self._device = dispatches[0].pipeline.device
        self._label = batch_label(dispatches)
        repeated = tuple(dispatches) * repeats
        self._submission = record_in_order(repeated, [one.push_words for one in repeated], timed=True)

    def run(self, timeout: float | Deadline | None = None) -> DispatchTimes:
        """Run them and wait; raises as ``Submission.wait``."""
        began = time.perf_counter_ns()
        generation = self._submission.submit()
        submitted = time.perf_counter_ns()
        self._submission.wait(generation, timeout)
        ended = time.perf_counter_ns()
        self._device.timeline.add(Stage.EXECUTE, began, self._label, ended_ns=ended)
        ticks = self._submission.ticks()
        device_ns = None if ticks is None else elapsed_ns(*ticks, self._device.physical)
        return DispatchTimes(submitted - began, ended - submitted, device_ns)

    def finish(self, timeout_s: float | None = None) -> None:
        """Return when nothing of it runs any more; raises as ``Submission.wait``."""
        self._submission.finish(timeout_s)


def run_timed(bound: BoundKernel, runs: int, timeout_s: float | None) -> DispatchTimes:
    """Run a bound kernel so often, one run after the other, within ``timeout_s`` seconds; raises as ``Submission.wait``."""
    deadline = Deadline(timeout_s, bound.pipeline.device.physical.name)
    timed = TimedDispatches([bound])
    enqueue_ns = wait_ns = 0
    device_ns: int | None = None
    for _ in range(runs):
        times = timed.run(deadline)
        enqueue_ns += times.enqueue_ns
        wait_ns += times.wait_ns
        if times.device_ns is not None:
            device_ns = (device_ns or 0) + times.device_ns
    return DispatchTimes(enqueue_ns, wait_ns, device_ns)


def elapsed_ns(first: int, last: int, device: PhysicalDevice) -> int:
    """Return the nanoseconds from the first to the last tick of a device's clock, which may have wrapped around once."""
    family = device.compute_family
    bits = 64 if family is None else family.timestamp_valid_bits
    return round(((last - first) % (1 << bits)) * device.limits.timestamp_period_ns)
