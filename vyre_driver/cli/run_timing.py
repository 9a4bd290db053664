"""``vyre-driver run --time``: how long a call takes as a whole, and how long on the device's own clock."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_driver.cli.progress import human_bytes, human_count, human_measure
from vyre_driver.errors import InvalidInput
from vyre_driver.kompute.submission import NoDispatch
from vyre_driver.kompute.timing import TimedDispatches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from vyre_driver.runtime.bound import BoundKernel

_BUSY_S = 0.1  # the clock of an idle device is low, and rises while it works
_SPENT_S = 1.0
_LEAST, _MOST = 3, 1000


def timed(call: Callable[[], object], bound: BoundKernel, runs: int, moved_bytes: int) -> dict[str, Any]:
    """Return medians and minima in ns of so many calls, and of so many runs on the device's clock (None where it has none).

    ``bound`` is the same dispatch on resident buffers. With ``runs`` 0 there are as many as take about a second, 3 at least and
    1000 at most. Before either the device is kept busy for 0.1 s. Raises InvalidInput if nothing runs.
    """
    if isinstance(bound.pipeline, NoDispatch):
        raise InvalidInput(
            "--time has nothing to time: there are 0 invocations, or a buffer has no elements", fix="leave --time out"
        )
    on_device = TimedDispatches([bound])
    _keep_busy(on_device)
    first_ns = _ns_of(call)
    runs = runs or min(max(round(_SPENT_S * 1e9 / first_ns), _LEAST), _MOST)
    calls = [_ns_of(call) for _ in range(runs)]
    _keep_busy(on_device)
    ticks = [one for one in (on_device.run().device_ns for _ in range(runs)) if one is not None]
    return {"runs": runs, "bytes": moved_bytes, "call": _summary(calls, moved_bytes), "device": _summary(ticks, moved_bytes)}


def lines(found: dict[str, Any]) -> Iterator[str]:
    """Yield the lines that show what ``timed`` returned."""
    yield f"time: {human_count(found['runs'], 'run')}, {human_bytes(found['bytes'])} in and out"
    for name, what in (("call", "whole call"), ("device", "on the device")):
        one = found[name]
        if one is None:
            yield f"  {what}: the device has no clock"
            continue
        median, least = (human_measure(one[key] / 1e9, "s") for key in ("median_ns", "min_ns"))
        rate = f", {human_measure(one['bytes_per_s'], 'B/s')}" if one["bytes_per_s"] else ""
        yield f"  {what}: median {median}, minimum {least}{rate}"


def _keep_busy(dispatches: TimedDispatches) -> None:
    until = time.monotonic() + _BUSY_S
    while time.monotonic() < until:
        dispatches.run()


def _ns_of(call: Callable[[], object]) -> int:
    began = time.perf_counter_ns()
    call()
    return time.perf_counter_ns() - began


def _summary(times: list[int], moved_bytes: int) -> dict[str, float] | None:
    if not times:
        return None
    median = float(np.median(times))
    rate = round(moved_bytes * 1e9 / median, 1) if median else 0.0
    return {"median_ns": round(median), "min_ns": min(times), "bytes_per_s": rate}
