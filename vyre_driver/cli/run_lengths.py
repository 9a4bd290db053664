"""How much of its inputs an included shader reads: it takes their lengths by push constants, and reads past a shorter array."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from vyre_driver.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

# By the first word of a shader's name and by buffer: the push constants whose product is the number of elements read. Shaders
# of attention and of quantized weights are not here: several of their numbers depend on each other and on constants.
_READ_SO_FAR: dict[str, dict[str, tuple[str, ...]]] = {
    "saxpy": dict.fromkeys(("x", "y", "xv", "yv"), ("count",)),
    "copy": {"from": ("count",)},
    "byte": {"words": ("byte_count",)},
    "histogram": {"x": ("count",)},
    "reduce": {"x": ("count",)},
    "scan": {"x": ("count",)},
    "softmax": {"x": ("rows", "columns")},
    "layernorm": {"x": ("rows", "columns"), "weight": ("columns",), "bias": ("columns",)},
    "rmsnorm": {"x": ("rows", "columns"), "weight": ("columns",)},
    "matmul": {"a": ("m", "k"), "b": ("k", "n"), "parts": ("elements", "count")},
    "transpose": {"a": ("m", "n")},
}


def check_lengths(shader: str, push: Mapping[str, object], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Check that an included shader reads past none of the arrays, by buffer; raises InvalidInput."""
    each = 1 if shader.startswith("byte_") else 2 if "_f16" in shader else 4
    unit = "bytes" if each == 1 else "elements"
    for name, constants in _READ_SO_FAR.get(shader.partition("_")[0], {}).items():
        values = [push.get(constant) for constant in constants]
        numbers = [value for value in values if isinstance(value, int)]
        read = math.prod(numbers)
        if name not in arrays or len(numbers) < len(values) or arrays[name].nbytes >= read * each:
            continue
        given = " and ".join(f"--push {constant}={value}" for constant, value in zip(constants, values, strict=True))
        fix = f"give {constants[0]} the length of the shortest array" if len(constants) == 1 else "give smaller numbers"
        raise InvalidInput(
            f"{name} of {shader} has {arrays[name].nbytes // each} {unit}, and {given} {'has' if len(values) == 1 else 'have'} "
            f"it read {read}",
            fix=f"{fix}, or {name} {read} {unit}",
            binding=name,
        )
