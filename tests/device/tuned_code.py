"""Modules and programs to tune on a call."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from vyre_driver.autotune import Budget

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vyre_driver import Kernel
    from vyre_driver.ir import Program

EXAMPLES = Path(__file__).parents[2] / "examples"
FEW = Budget(seconds=60, max_samples=8, run_timeout=20)
COUNT = 3000
X = np.arange(COUNT, dtype=np.uint32)


def key(kernel: Kernel) -> str:
    return kernel.trace.key


def example(name: str, *arguments: object) -> Program:
    made: Program = runpy.run_path(str(EXAMPLES / f"{name}.py"))[name](*arguments)
    return made


def saxpy() -> Program:
    return example("saxpy", 2.5)


def floats(count: int, seed: int) -> NDArray[np.float32]:
    return np.random.default_rng(seed).random(count, np.float32)
