"""Buffers of a shader, their plan, and what comes of arrays for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from literals import F32, buffer, reflection

from vyre_driver.binding import Binding, BindingPlan
from vyre_driver.errors import InvalidInput
from vyre_driver.spirv.layout import Element

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vyre_driver.binding.arguments import BufferArgument
    from vyre_driver.spirv.reflection import BufferInterface

X = buffer("x", 0, "r")
Y = buffer("y", 2, "rw")
Z = buffer("z", 5, "w")
FIXED = buffer("fixed", 7, "w", count=3)
HEADED = buffer("headed", 0, "rw", header_bytes=8)
VECTORS = buffer("vectors", 0, "w", element=Element(16, F32, 4))
RAW = buffer("raw", 0, "w", element=Element(12, None, 12))
BY_VALUE = "convert it with .astype(numpy.float32)"


def plan(*buffers: BufferInterface) -> BindingPlan:
    return BindingPlan.from_reflection(reflection(*buffers))


def only(given: BufferInterface) -> Binding:
    (found,) = plan(given).bindings
    return found


def check(buffers: Sequence[BufferInterface], *arrays: object, **counts: int) -> tuple[BufferArgument, ...]:
    return plan(*buffers).check_arguments(arrays, counts)


def summary(arguments: Sequence[BufferArgument]) -> list[tuple[object, ...]]:
    """Name, contents as a list or None, bytes, shape and type of each argument."""
    return [
        (one.binding.name, None if one.data is None else one.data.tolist(), one.byte_len, one.shape, str(one.dtype))
        for one in arguments
    ]


def floats(*values: float) -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.array(values, np.float32)


def invalid(problem: str, fix: str) -> tuple[type[InvalidInput], int, str]:
    return InvalidInput, 2201, f"{problem}. Fix: {fix}."
