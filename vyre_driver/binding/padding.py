"""Arrays that are the memory of a buffer as they are: accepted only if they show the layout that the shader reads.

In a buffer a ``vec3`` takes 16 bytes, of which 12 are values, and structures have gaps alike. An array that does not show them,
and is none of the values that values.py packs, would be read as other numbers than the caller gave.

Source: GLSL 4.60, 7.6.2.2 (std140 and std430); Vulkan 1.3, "Offset and Stride Assignment".
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_driver.binding.packing import form_of
from vyre_driver.errors import InvalidInput
from vyre_driver.spirv.layout import Array, Matrix, Struct, Vector, packed, scalars_of, shown

if TYPE_CHECKING:
    from vyre_driver.binding.plan import Binding
    from vyre_driver.binding.structure import BufferLayout
    from vyre_driver.spirv.layout import MemoryType, Padded


def check_padding(binding: Binding, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """Check that an array that is memory as it is, of the right size, has the padding that the elements of its buffer have.

    A row of bytes has it, and structures of the size of an element; numbers have it where the axes after the first are those
    of an element in memory, and in a buffer of fixed size, where packed ones would be fewer. Without padding it is an array of
    the type of all numbers. Raises InvalidInput where that cannot be determined.
    """
    padded = None if binding.element is None else binding.element.padded
    if (padded is None and binding.holds_plain_numbers) or 0 in shape:
        return
    if padded is None:
        _check_numbers(binding, shape, dtype)
        return
    if _shows_padding(binding, padded, shape, dtype):
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


def _check_numbers(binding: Binding, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """Check that an array for a buffer without padding is of the type of all its numbers, or of bytes."""
    layout = binding.layout
    if layout is None or dtype.kind == "V" or dtype == np.uint8 or _is_of_bits(layout):
        return
    count = layout.count or 1
    value_bytes, kinds = scalars_of(layout.sized(count))
    is_tight = value_bytes == layout.header_bytes + count * layout.elements.stride
    if is_tight and [np.dtype(one.dtype) for one in kinds] == [dtype]:
        return
    raise InvalidInput(
        f"{binding.described} holds {shown(layout.block.text)} and got an array of shape {shape} and type {dtype}, which does "
        "not tell which of its numbers is which",
        fix=f"pass {_values(binding, layout)}, or bytes laid out as print(module) shows",
        binding=binding.name,
    )


def _is_of_bits(layout: BufferLayout) -> bool:
    """Whether elements are structures of one unsigned member, as shaders declare that move the bits of any type."""
    found = layout.elements.type
    inner = packed(found.members[0].type) if isinstance(found, Struct) and len(found.members) == 1 else None
    return inner is not None and inner[0].kind == "u"


def _shows_padding(binding: Binding, padded: Padded, shape: tuple[int, ...], dtype: np.dtype[Any]) -> bool:
    if dtype.kind == "V":
        return math.prod(shape) == 1 or (dtype.itemsize == padded.stride and not binding.header_bytes)
    scalar = None if padded.scalar is None else np.dtype(padded.scalar.dtype)
    is_row = len(shape) < 2
    if dtype == np.uint8 and is_row and (scalar is None or scalar.itemsize > 1 or binding.header_bytes):
        return True
    if scalar is not None and dtype not in {scalar, np.dtype(np.uint8)}:
        return False
    if is_row and binding.static_byte_len is not None:
        return True
    if binding.header_bytes:
        return False
    if binding.static_byte_len is not None:
        return padded.stride in (math.prod(shape[at:]) * dtype.itemsize for at in range(len(shape) + 1))
    return shows_elements(padded, shape, dtype.itemsize)


def shows_elements(padded: Padded, shape: tuple[int, ...], itemsize: int) -> bool:
    """Return whether an array has the axes of padded elements in memory, after one axis or more that count the elements.

    An array of shape (n, 4) for a ``vec3[]`` does. A row of 4 numbers does not, as a row of 3 or 5 does not.
    """
    if isinstance(padded.type, Struct):  # whose values are never an array of plain numbers
        return any(math.prod(shape[at:]) * itemsize == padded.stride for at in range(1, len(shape)))
    element_axes = {(padded.stride,), _axes_in_memory(padded.type, padded.stride)}
    return any(
        len(shape) > len(axes) and (*shape[-len(axes) : -1], shape[-1] * itemsize) == axes for axes in element_axes if axes
    )


def _axes_in_memory(found: MemoryType, stride: int) -> tuple[int, ...]:
    """Return the axes of an element of numbers in memory, the last one in bytes; empty if it has gaps between its parts."""
    match found:
        case Matrix(_, columns, rows, inner, row_major):
            axes: tuple[int, ...] = (rows if row_major else columns, inner)
        case Array(element, int(count), inner):
            last = _axes_in_memory(element, inner)
            axes = (count, *last) if last else ()
        case _:
            return (stride,)
    return axes if axes and axes[0] * inner == stride else ()


def _fix(binding: Binding, padded: Padded) -> str:
    layout, found, scalar = binding.layout, padded.type, padded.scalar
    if layout is None:
        return "pass bytes, or one row of uint8, laid out as print(module) shows"
    if isinstance(found, Vector) and scalar is not None and layout.is_one_array:
        wide = padded.stride // scalar.byte_len
        return f"pass {np.dtype(scalar.dtype)} of shape (n, {found.components}), or of shape (n, {wide}) with the padding in it"
    return f"pass {_values(binding, layout)}, or bytes laid out as print(module) shows"


def _values(binding: Binding, layout: BufferLayout) -> str:
    """Say what is given as values."""
    elements = layout.elements
    if layout.header_bytes or not (elements.is_structure or elements.shape):
        return form_of(layout.block)
    if elements.is_structure:
        many = "a structured array of" if layout.is_one_array else "one structured value of"
        return f"{form_of(elements.type)}, or {many} kernel.plan.element_dtype({binding.name!r})"
    axes = [*(["n"] if layout.is_one_array else []), *map(str, elements.shape)]
    return f"{elements.dtype} of shape ({', '.join(axes)})"
