"""Values for a buffer of a shader, packed by the reflected layout: mappings, structured arrays, arrays of vectors and matrices.

What is taken as values is what can be nothing else: mappings by the names of members; structured arrays by the names of fields;
arrays of the very type of the numbers whose last axes are those of an element that does not lie in memory as numpy would place
it, a ``vec3`` or a matrix. Everything else is memory as it is (padding.py), or refused.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sized
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from vyre_driver.binding.packing import Naming, ValueWriter, field_misfit, form_of
from vyre_driver.binding.padding import shows_elements
from vyre_driver.binding.structure import ResultForm, misfit_of
from vyre_driver.errors import InvalidInput
from vyre_driver.spirv.layout import Scalar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from vyre_driver.binding.plan import Binding
    from vyre_driver.binding.structure import BufferLayout, Elements
    from vyre_driver.spirv.layout import MemoryType


class Packed(NamedTuple):
    """Values as the bytes of a buffer; ``elements`` makes values of shape and type of them again, None where they are bytes."""

    memory: NDArray[np.uint8]
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    elements: Elements | None


def packed_items(binding: Binding, given: object) -> Packed | None:
    """Return a mapping of a buffer's members, or a sequence of mappings of its structures, packed; None if it is neither.

    Raises
    ------
    InvalidInput
        If a name is unknown or missing, or a value does not fit its type or its shape.
    """
    if isinstance(given, Mapping):
        return None if binding.layout is None else _packed_mapping(binding, binding.layout, given)
    if isinstance(given, (list, tuple)) and given and isinstance(given[0], Mapping):
        return None if binding.layout is None else _packed_list(binding, binding.layout, given)
    return None


def _packed_list(binding: Binding, layout: BufferLayout, given: Sequence[object]) -> Packed | None:
    if layout.header_bytes:
        return None
    elements = layout.elements
    memory = np.zeros(len(given) * elements.stride, np.uint8)
    writer = ValueWriter(memory.data, _naming(binding))
    for at, one in enumerate(given):
        writer.write(at * elements.stride, f"[{at}]", elements.type, one)
    return Packed(memory, (len(given), *elements.shape), elements.dtype, elements)


def _packed_mapping(binding: Binding, layout: BufferLayout, given: Mapping[str, object]) -> Packed:
    count = layout.count
    if count is None:
        items = given.get(layout.block.members[-1].name, ())
        items = items if isinstance(items, Sized) and not isinstance(items, np.ndarray) else np.asarray(items)
        count = 1 if isinstance(items, np.ndarray) and not items.ndim else len(items)
    memory = np.zeros(layout.header_bytes + count * layout.elements.stride, np.uint8)
    ValueWriter(memory.data, _naming(binding)).write_members(0, "", layout.sized(count).members, given)
    return Packed(memory, *_fresh(layout, count))


def _fresh(layout: BufferLayout, count: int) -> tuple[tuple[int, ...], np.dtype[Any], Elements | None]:
    """Return shape and type of so many elements as a caller gets them, and what unpacks them."""
    elements = layout.elements
    if layout.is_one_array:
        return (count, *elements.shape), elements.dtype, elements
    whole = layout.whole(count)
    if whole is None:
        return (layout.header_bytes + count * elements.stride,), np.dtype(np.uint8), None
    return (), whole.dtype, whole


def fresh_form(binding: Binding, count: int) -> tuple[tuple[int, ...], np.dtype[Any], Elements | None]:
    """Return shape and type of an output that nothing was given for, and the values in it; None where it is bytes."""
    if binding.layout is None:
        return (binding.header_bytes + count * binding.stride,), np.dtype(np.uint8), None
    return _fresh(binding.layout, count)


def result_form(
    binding: Binding, byte_len: int, shape: tuple[int, ...], dtype: np.dtype[Any], elements: Elements | None
) -> ResultForm:
    """Return how a buffer is read that comes back as values of this shape and type."""
    if elements is None or _lies_as_memory(elements, dtype):
        return ResultForm(shape, dtype)
    return ResultForm(raw_shape(binding, byte_len), np.dtype(np.uint8), elements, (shape, dtype))


def packed_array(binding: Binding, array: NDArray[Any]) -> Packed | None:
    """Return an array of values packed; None for an array that is memory as it is, or may be either.

    Raises
    ------
    InvalidInput
        If the fields of a structured array are not those of the structure, or an array may be both values and memory.
    """
    layout = binding.layout
    if layout is None:
        return None
    elements = _values_in(binding, layout, array.shape, array.dtype)
    if elements is None or (not binding.holds_plain_numbers and _lies_as_memory(elements, array.dtype)):
        return None
    return Packed(elements.pack(array.view(np.ndarray)), array.shape, array.dtype, elements)


def refuse_values(binding: Binding, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """Check that a resident buffer, whose bytes are bound as they are, does not hold values that need packing.

    Raises
    ------
    InvalidInput
        If it does.
    """
    layout = binding.layout
    elements = None if layout is None else _values_in(binding, layout, shape, dtype)
    if elements is None or _lies_as_memory(elements, dtype):
        return
    raise InvalidInput(
        f"{binding.described} is a buffer of shape {shape} and type {dtype}, which does not lie as the shader reads it: "
        f"{elements.type} every {elements.stride} bytes",
        fix=f"make the buffer of kernel.plan.pack({binding.name!r}, a), where a is the array",
        binding=binding.name,
        element_size=elements.stride,
    )


def _lies_as_memory(elements: Elements, dtype: np.dtype[Any]) -> bool:
    return elements.is_memory and dtype == elements.dtype


def _values_in(binding: Binding, layout: BufferLayout, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Elements | None:
    """Return the values that an array holds, packed or not; None if it holds memory."""
    elements = layout.elements
    if dtype.names is not None:
        return _structures_in(binding, layout, shape, dtype)
    if elements.is_structure or elements.is_memory or layout.header_bytes or dtype != elements.dtype:
        return None
    count = math.prod(shape[: len(shape) - len(elements.shape)])
    if shape[len(shape) - len(elements.shape) :] != elements.shape or layout.count not in {None, count}:
        return None
    if layout.count is None and elements.shape:
        _refuse_both(binding, elements, shape, count)
    return None if shows_padded_numbers(binding, shape) else elements


def shows_padded_numbers(binding: Binding, shape: tuple[int, ...]) -> bool:
    """Return whether the last axis of an array is a single number with its padding, in a buffer of any length.

    It is in shape (n, 4) for a std140 ``float[]``; an array of any other shape holds values.
    """
    padded = None if binding.element is None else binding.element.padded
    if padded is None or not isinstance(padded.type, Scalar) or binding.static_byte_len is not None:
        return False
    return shows_elements(padded, shape, padded.type.byte_len)


def _refuse_both(binding: Binding, elements: Elements, shape: tuple[int, ...], count: int) -> None:
    """Check that the axes after the first, with those of an element, do not take what an element takes in memory."""
    size = math.prod(elements.shape) * elements.dtype.itemsize
    if size == elements.stride or count == 0:
        return
    outer = shape[: len(shape) - len(elements.shape)]
    if any(math.prod(outer[at:]) * size == elements.stride for at in range(1, len(outer))):
        raise InvalidInput(
            f"{binding.described} holds {elements.type}, {elements.stride} bytes apart, and got an array of shape {shape}: "
            f"{count} of them or {count * size // elements.stride} with their padding",
            fix=f"pass it with fewer axes, or as {{{_name_of(binding)!r}: array}}",
            binding=binding.name,
            element_size=elements.stride,
        )


def _structures_in(binding: Binding, layout: BufferLayout, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Elements | None:
    """Return the structures that a structured array holds; None where the shader has none and the array shows its padding."""
    elements: Elements | None = layout.elements
    if layout.header_bytes or not layout.elements.is_structure:
        names = {member.name for member in layout.block.members}
        if math.prod(shape) != 1 or set(dtype.names or ()) != names:
            return None
        elements = layout.whole(_items_of(layout, dtype))
    wrong = None if elements is None else misfit_of(elements.type, dtype)
    if wrong is None:
        return elements
    if wrong.path:
        raise field_misfit("", wrong, _naming(binding))
    raise InvalidInput(
        f"{binding.described} has {wrong.expected}, and got an array of {wrong.received}",
        fix="name the fields as the shader names its members, or pass bytes with .view(numpy.uint8)",
        binding=binding.name,
    )


def _items_of(layout: BufferLayout, dtype: np.dtype[Any]) -> int:
    """Return how many elements the last field of a structured type has."""
    fields: Mapping[str, Any] = dtype.fields or {}
    items = fields[layout.block.members[-1].name][0].shape
    return layout.count or (items[0] if items else 0)


def raw_shape(binding: Binding, byte_len: int) -> tuple[int, ...]:
    """Return the shape of bytes that show how they are laid out: a row for each element, or one row if there is a header."""
    return (byte_len,) if binding.header_bytes else (byte_len // binding.stride, binding.stride)


def _name_of(binding: Binding) -> str:
    return binding.layout.block.members[-1].name if binding.layout is not None else binding.name


@functools.lru_cache(256)
def _naming_of(described: str, name: str) -> Naming:
    def refused(message: str, fix: str, path: str, **data: object) -> InvalidInput:
        return InvalidInput(message, fix=fix, binding=name, member=path, **data)

    def asked(_: str, found: MemoryType) -> str:
        return f"give it, {form_of(found)}"

    return Naming("member", described, f" of {described}", refused, asked)


def _naming(binding: Binding) -> Naming:
    return _naming_of(binding.described, binding.name)
