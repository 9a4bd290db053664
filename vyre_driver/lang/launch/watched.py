"""What a strict call found, in the words of the kernel."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_driver.errors import InputChanged, OutputNotWritten

if TYPE_CHECKING:
    from collections.abc import Mapping


def found_in(
    kernel: str, error: OutputNotWritten | InputChanged, shapes: Mapping[str, tuple[int, ...]]
) -> OutputNotWritten | InputChanged:
    """Return what a strict call found as an error of a kernel, whose arrays have these shapes."""
    facts: dict[str, Any] = dict(error.context)
    name, first, count = str(facts["binding"]), int(facts["first_index"]), int(facts["count"])
    shape, elements = shapes.get(name, ()), int(facts["elements"])
    at = tuple(map(int, np.unravel_index(first, shape))) if math.prod(shape) == elements else (first,)
    of_them = f"{count:,} of the {elements:,} elements of {name}, the first at {name}[{', '.join(map(str, at))}]"
    if isinstance(error, InputChanged):
        return InputChanged(f"{kernel} changed {of_them}", fix=f"annotate {name} as InOut", **facts)
    return OutputNotWritten(
        f"{kernel} did not write {of_them}",
        fix="write each of them, say how far it goes with .over(...) or .groups(...), or annotate "
        f"{name} as InOut, which keeps the others",
        **facts,
    )
