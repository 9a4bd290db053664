"""Arrays for buffers with padded elements: accepted only if their type has the layout that the shader reads.

In a buffer a ``vec3`` takes 16 bytes, of which 12 are values, and structures have gaps alike. An array of shape (n, 3) has
none: where its bytes happen to be whole elements, the shader would read other numbers than the caller gave.

Source: GLSL 4.60, 7.6.2.2 (std140 and std430); Vulkan 1.3, "Offset and Stride Assignment".
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_driver.errors import InvalidInput
from vyre_driver.spirv.layout import Vector

if TYPE_CHECKING:
    from vyre_driver.binding.plan import Binding
    from vyre_driver.spirv.layout import Padded


def check_padding(binding: Binding, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """Check that an array of the right size has the padding that the elements of its buffer have.

    It is where it is a row of bytes, where its last axes or its structures take what an element takes, or where it is a row of
    numbers for a buffer of fixed size: packed, they would be fewer. Raises InvalidInput where that cannot be determined.
    """
    padded = None if binding.element is None else binding.element.padded
    if padded is None or _shows_padding(binding, padded, shape, dtype):
        return
    gap = padded.stride - padded.value_bytes
    raise InvalidInput(
        f"{binding.described} holds {padded.type} with {padded.value_bytes} bytes of values, {padded.stride} bytes apart, and "
        f"got an array of shape {shape} and type {dtype}, which does not show where the {gap} other bytes are",
        fix=_fix(binding, padded),
        binding=binding.name,
        element_size=padded.stride,
        value_bytes=padded.value_bytes,
    )


def _shows_padding(binding: Binding, padded: Padded, shape: tuple[int, ...], dtype: np.dtype[Any]) -> bool:
    if dtype.kind == "V":
        return math.prod(shape) == 1 or (dtype.itemsize == padded.stride and not binding.header_bytes)
    scalar = None if padded.scalar is None else np.dtype(padded.scalar.dtype)
    is_row = len(shape) < 2
    if dtype == np.uint8 and is_row and (scalar is None or scalar.itemsize > 1):
        return True
    if scalar is not None and dtype not in {scalar, np.dtype(np.uint8)}:
        return False
    if is_row and binding.static_byte_len is not None:
        return True
    last_axes = (math.prod(shape[at:]) * dtype.itemsize for at in range(len(shape) + 1))
    return not binding.header_bytes and padded.stride in last_axes


def _fix(binding: Binding, padded: Padded) -> str:
    found, scalar = padded.type, padded.scalar
    if isinstance(found, Vector) and scalar is not None and not binding.header_bytes:
        narrow, wide = found.components, padded.stride // scalar.byte_len
        pad = f"numpy.pad(a, ((0, 0), (0, {wide - narrow})))"
        return f"pass {np.dtype(scalar.dtype)} of shape (n, {wide}), for example {pad} of an array a of shape (n, {narrow})"
    return (
        f"pass an array of a structured type of {padded.stride} bytes, or bytes, laid out as print(module) shows"
        if not binding.header_bytes
        else "pass bytes, or one row of uint8, laid out as print(module) shows"
    )
