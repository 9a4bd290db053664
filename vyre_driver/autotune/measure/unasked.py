"""Tuning that only ``VYRE_AUTOTUNE`` asked for: short, and what goes wrong is a warning."""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING

from vyre_driver.autotune.measure.tune import tune
from vyre_driver.autotune.search.outcomes import Budget
from vyre_driver.autotune.store.records import TuningMode
from vyre_driver.autotune.store.store import AutotuneWarning
from vyre_driver.errors import VyreError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vyre_driver.autotune.measure.definition import Size
    from vyre_driver.autotune.measure.tuned import TunedKernel
    from vyre_driver.driver import Driver

UNASKED = Budget(seconds=30)


def tune_unasked(kernel: TunedKernel, size: Size) -> None:
    """Tune a kernel for a size, in half a minute; what goes wrong is a warning: the call goes on."""
    with warned():
        tune(kernel, size, budget=UNASKED, replace=is_forced(kernel.driver))


def is_forced(driver: Driver) -> bool:
    """Whether a record that another process has saved meanwhile is replaced too."""
    return driver.tuning.mode is TuningMode.FORCE


@contextmanager
def warned() -> Iterator[None]:
    """Make a warning of what goes wrong: nobody asked for it, and what the device cannot do fails in the call itself too."""
    try:
        yield
    except (VyreError, MemoryError) as error:  # the arrays of an example may not fit beside those of the call
        warnings.warn(f"tuning did not come to its end: {error}", AutotuneWarning, stacklevel=5)
