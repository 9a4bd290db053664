"""Zeros, which are what comes of arrays without elements: their sums and counts, and products of no columns with no rows."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from vyre_driver.autotune.measure.definition import Operand, Plan, Step
from vyre_driver.spirv.shipped import shipped_module

if TYPE_CHECKING:
    import numpy as np

_FILLING = 128  # the workgroup of shaders/fill_words.comp
_MOST_FILLING = 1024


def zeros_step(name: str, words: int) -> Step:
    """Return the dispatch that sets so many words of a buffer to 0; it runs nothing where there are none."""
    filling = max(min(-(-words // _FILLING), _MOST_FILLING), 1)
    return Step(shipped_module("fill_words"), (name,), (filling, 1, 1), push_constants={"count": words, "value": 0})


def zeros_plan(name: str, shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> Plan:
    """Return the plan whose one output is all zeros: of numbers of 4 bytes, or of any where its shape has no elements."""
    return Plan((zeros_step(name, math.prod(shape)),), {name: Operand(shape, dtype)})
