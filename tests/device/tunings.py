"""Tunings of a kernel whose cost is known: budgets, what came of its candidates, and what is left on the device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_driver.autotune import Budget, Status
from vyre_driver.autotune.measure.tune import TuningResult, tune
from vyre_driver.autotune.measure.tuned import TunedKernel

if TYPE_CHECKING:
    import pytest
    from made_kernels import TurningKernel
    from numpy.typing import NDArray

    from vyre_driver import Driver


SHORT = Budget(seconds=60, max_samples=40, min_samples=5, run_timeout=20)
FEW = (800, 100, 400, 1600)
SLOW, BEST = 5000, 100


def tuned(driver: Driver, definition: TurningKernel, **options: Any) -> TuningResult:  # noqa: ANN401 -- those of tune
    return tune(TunedKernel(driver, definition), **{"budget": SHORT, **options})


def statuses(result: TuningResult) -> dict[int, Status]:
    return {one.candidate["TURNS"]: one.status for one in result.outcomes}


def details(result: TuningResult) -> dict[int, str]:
    return {one.candidate["TURNS"]: one.detail for one in result.outcomes if one.status is not Status.DROPPED}


def memory_in_use(driver: Driver) -> int:
    """Bytes of buffers that live on the device."""
    return driver.context.device.allocated


def limit_memory(driver: Driver, byte_len: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the device have room for so many bytes of buffers."""
    memory = driver.context.device.memory
    memory.trim()
    monkeypatch.setattr(memory, "limit", byte_len)


def words(count: int) -> NDArray[np.uint32]:
    return np.arange(count, dtype=np.uint32)


def floats(count: int) -> NDArray[np.float32]:
    return np.arange(count, dtype=np.float32)
