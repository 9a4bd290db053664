"""Modules and programs to tune on a call."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from example_programs import example

from vyre_driver.autotune import Budget

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vyre_driver import Kernel
    from vyre_driver.ir import Program

FEW = Budget(seconds=60, max_samples=8, run_timeout=20)
COUNT = 3000
X = np.arange(COUNT, dtype=np.uint32)


def key(kernel: Kernel) -> str:
    return kernel.trace.key


def saxpy() -> Program:
    return example("saxpy", 2.5)


def floats(count: int, seed: int) -> NDArray[np.float32]:
    return np.random.default_rng(seed).random(count, np.float32)
