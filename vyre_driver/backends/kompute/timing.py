"""A dispatch with the times it took: on the host's clock, and on the device's.

Source: Vulkan 1.3 ``vkCmdWriteTimestamp``, ``timestampPeriod`` and ``timestampValidBits``.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vyre_driver.backends.kompute.deadline import Deadline
from vyre_driver.backends.kompute.submission import Submission

if TYPE_CHECKING:
    from vyre_driver.bound import BoundKernel
    from vyre_driver.vulkan.devices import PhysicalDevice

_NS_PER_S = 1_000_000_000


@dataclass(frozen=True, slots=True)
class DispatchTimes:
    """Nanoseconds of one or more runs: handing over, waiting, and on the device's clock (None where it has none)."""

    enqueue_ns: int
    wait_ns: int
    device_ns: int | None


def run_timed(bound: BoundKernel, runs: int, timeout_s: float | None) -> DispatchTimes:
    """Run a bound kernel so often, one run after the other, within ``timeout_s`` seconds; raises as ``Submission.wait``."""
    pipeline = bound.pipeline
    device = pipeline.device
    deadline = Deadline(timeout_s, device.physical.name)
    operations = [[pipeline.dispatch(bound.push_words)]]
    timed = device.is_timed
    submission = Submission(device, operations, keep=bound, device_only=not device.shares_memory, timed=timed)
    enqueue_ns = wait_ns = device_ns = 0
    for _ in range(runs):
        began = time.perf_counter_ns()
        generation = submission.submit()
        submitted = time.perf_counter_ns()
        left_ns = deadline.left_ns()
        submission.wait(generation, None if left_ns is None else left_ns / _NS_PER_S)
        wait_ns += time.perf_counter_ns() - submitted
        enqueue_ns += submitted - began
        if timed:
            device_ns += elapsed_ns(submission.ticks(), device.physical)
    return DispatchTimes(enqueue_ns, wait_ns, device_ns if timed else None)


def elapsed_ns(ticks: list[int], device: PhysicalDevice) -> int:
    """Return the nanoseconds from the first to the last tick of a device's clock, which may have wrapped around once."""
    family = device.compute_family
    bits = 64 if family is None else family.timestamp_valid_bits
    return round(((ticks[-1] - ticks[0]) % (1 << bits)) * device.limits.timestamp_period_ns)
