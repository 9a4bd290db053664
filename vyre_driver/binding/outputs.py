"""Where results go and which shape they have: ``out`` and ``out_shapes`` of a call."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from vyre_driver.binding.arguments import as_array, sized_outputs
from vyre_driver.binding.conversions import same_bits
from vyre_driver.binding.tensors import is_tensor
from vyre_driver.binding.values import shows_padded_numbers
from vyre_driver.checks import integer, items_of
from vyre_driver.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from vyre_driver.binding.arguments import BufferArgument
    from vyre_driver.binding.plan import Binding, BindingPlan


class Named(Protocol):
    """What is written, as messages have it."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def described(self) -> str:
        """What it is, with its name."""


def targets_of(plan: BindingPlan, out: object) -> tuple[object, ...]:
    """Return what each output is written to, in binding order; as ``named_targets``."""
    return named_targets([one.name for one in plan.descriptors if one.output_index is not None], out, f"the {plan.subject}")


def named_targets(names: Sequence[str], out: object, subject: str) -> tuple[object, ...]:
    """Return what each of these outputs is written to, in their order: what ``out`` gives, None for a new array.

    Raises InvalidInput if ``out`` gives another number than the ``subject`` has outputs, or something that is no target.
    """
    if isinstance(out, Mapping):
        unknown = [name for name in out if name not in names]
        if unknown:
            raise InvalidInput(
                f"out names {unknown[0]!r}, which {subject} does not write",
                fix=f"name {', '.join(map(repr, names))}",
                name=unknown[0],
            )
        out = tuple([out.get(name) for name in names])
    found = out if isinstance(out, tuple | list) else (out,)
    if len(found) != len(names):
        raise InvalidInput(
            f"out gives {len(found)} array(s), and {subject} writes {len(names)}: {', '.join(map(repr, names))}",
            fix="give a tuple with an array, a buffer or None for each, in that order",
            expected=len(names),
            received=len(found),
        )
    for name, one in zip(names, found, strict=True):
        is_target = isinstance(one, np.ndarray) or hasattr(type(one), "overlaps") or is_tensor(one)
        if one is not None and not is_target:
            raise InvalidInput(
                f"out has something of type {type(one).__name__} for {name!r}",
                fix="give a numpy array or a buffer, which the result is written to, or None",
                binding=name,
            )
    return tuple(found)


def host_targets(given: Sequence[object]) -> tuple[object, ...]:
    """Return targets with tensors of PyTorch as arrays in their memory; raises InvalidInput where that cannot be."""
    return tuple([as_array(one, "out=") if is_tensor(one) else one for one in given])


def array_targets(plan: BindingPlan, out: object) -> tuple[object, ...]:
    """Return what each output is written to, as ``targets_of``, with tensors as arrays in their memory.

    A tensor of a type that numpy does not have is seen as words where the buffer holds its bits as such.
    """
    given = targets_of(plan, out)
    bindings = [one for one in plan.descriptors if one.output_index is not None]
    found: list[object] = []
    for target, one, binding in zip(host_targets(given), given, bindings, strict=True):
        is_view = isinstance(target, np.ndarray) and target is not one
        has_bits = is_view and binding.dtype is not None and same_bits(binding.dtype, target.dtype)  # type: ignore[attr-defined]
        found.append(target.view(binding.dtype) if has_bits else target)  # type: ignore[attr-defined] # an array
    return tuple(found)


def with_tensors(results: Sequence[Any], given: Sequence[object]) -> list[Any]:
    """Return the results of a call with the caller's tensors in the place of the arrays that ``host_targets`` made of them."""
    return [target if is_tensor(target) else result for result, target in zip(results, given, strict=True)]


def as_given(plan: BindingPlan, results: list[Any], out: object) -> list[Any]:
    """Return the results of a call with the caller's tensors in ``out`` as such."""
    return results if out is None else with_tensors(results, targets_of(plan, out))


def wanted_shapes(plan: BindingPlan, out_shapes: object, targets: tuple[object, ...]) -> dict[str, tuple[int, ...]]:
    """Return the shape of each output that brings no array, by name: as ``out_shapes`` says, else as its target has it.

    Raises
    ------
    InvalidInput
        If ``out_shapes`` is no mapping, names what the caller does not size, or gives what is no shape.
    """
    given: Any = {} if out_shapes is None else out_shapes
    outputs = sized_outputs(plan, given)
    found = {name: _shape(outputs[name], shape) for name, shape in given.items()}
    written = [one for one in plan.descriptors if one.output_index is not None]
    for binding, target in zip(written, targets or [None] * len(written), strict=True):
        # An array is as long as what comes back, which may be a part; a buffer is the whole.
        is_whole = binding.output_byte_range is None or not isinstance(target, np.ndarray)
        if target is not None and is_whole and binding.name in outputs and hasattr(target, "shape"):
            found.setdefault(binding.name, _shape_of_target(binding, target))
    return found


def _shape_of_target(binding: Binding, target: Any) -> tuple[int, ...]:  # noqa: ANN401 -- an array or a buffer
    """Return the shape of what is written to a target: its own, or that of the elements in a buffer of their bytes."""
    is_of_bytes = binding.dtype is None and not isinstance(target, np.ndarray) and target.dtype == np.uint8
    if not is_of_bytes:
        return tuple(target.shape)
    return _shape(binding, max(0, target.nbytes - binding.header_bytes) // binding.stride)


def _shape(binding: Binding, given: object) -> tuple[int, ...]:
    """Return the shape of an output: as given, or of so many elements."""
    count = integer(given)
    if count is not None:
        given = (count, *_element_axes(binding))
    axes = [integer(axis) for axis in items_of(given) or []]
    if items_of(given) is None or any(axis is None or axis < 0 for axis in axes):
        raise InvalidInput(
            f"out_shapes gives {binding.name!r} {given!r}, which is not a shape",
            fix="give the number of elements, or a tuple of such numbers",
            binding=binding.name,
        )
    return tuple(map(int, axes))  # type: ignore[arg-type] # none is None


def checked_arguments(plan: BindingPlan, arrays: Sequence[object], out_shapes: object) -> tuple[BufferArgument, ...]:
    """Match arrays to bindings as ``check_arguments``, with the outputs of the shapes that are wanted."""
    shapes = wanted_shapes(plan, out_shapes, ())
    by_name = {one.name: one for one in plan.descriptors}
    counts = {name: count_of(by_name[name], shape) for name, shape in shapes.items()}
    found = plan.check_arguments(arrays, counts, of_kernel=True)
    return tuple(_reshaped(one, shapes.get(one.binding.name)) for one in found)


def _reshaped(argument: BufferArgument, shape: tuple[int, ...] | None) -> BufferArgument:
    """Return an output with the shape that is wanted, where its elements have one: not of bytes, nor behind a header."""
    if shape is None or math.prod(shape) != math.prod(argument.shape):
        return argument
    return argument._replace(shape=shape)


def _element_axes(binding: Binding) -> tuple[int, ...]:
    """Return the axes of one element, which are the last ones of an array of them; none of a number or a structure."""
    if binding.dtype is not None:
        components = binding.stride // binding.dtype.itemsize
        return () if components == 1 else (components,)
    layout = binding.layout
    return layout.elements.shape if layout is not None and layout.is_one_array else ()


def returned_form(
    binding: Binding, shape: tuple[int, ...], dtype: np.dtype[np.generic]
) -> tuple[tuple[int, ...], np.dtype[np.generic]]:
    """Return shape and type of what comes back of an output of a shape and type: its ``output_byte_range``."""
    if binding.output_byte_range is None:
        return shape, dtype
    start, length = binding.readback_slice(math.prod(shape) * dtype.itemsize)
    if start % dtype.itemsize or length % dtype.itemsize:
        return (length,), np.dtype(np.uint8)
    return (length // dtype.itemsize,), dtype


def trimmed_output(binding: Binding, array: NDArray[Any]) -> NDArray[Any]:
    """Return what comes back of an output: its ``output_byte_range``, as elements where it cuts none, else as bytes."""
    if binding.output_byte_range is None:
        return array
    start, length = binding.readback_slice(array.nbytes)
    part = array.reshape(-1).view(np.uint8)[start : start + length].copy()
    return part.view(array.dtype) if not (start % array.itemsize or length % array.itemsize) else part


def check_apart(written: Sequence[tuple[Named, object]]) -> None:
    """Check that no two outputs share memory, arrays or buffers: nobody knows which of them would be last."""
    for place, (one, target) in enumerate(written):
        for other, earlier in written[:place]:
            if _share(target, earlier):
                raise InvalidInput(
                    f"{other.described} and {one.described} would be written to memory that overlaps",
                    fix="give each output memory of its own",
                    bindings=(other.name, one.name),
                )


def _share(one: object, other: object) -> bool:
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return np.shares_memory(one, other)
    return hasattr(one, "overlaps") and type(one) is type(other) and bool(one.overlaps(other))


def count_of(binding: Binding, shape: tuple[int, ...]) -> int:
    """Return the elements of an output of a shape, whose last axis counts the components of those that have several.

    Raises InvalidInput if there is no such axis, if the count is not the one that is fixed, or if another kernel would read an
    array of that shape as numbers with their padding.
    """
    axes = _element_axes(binding)
    if axes and shape[-len(axes) :] != axes:
        raise InvalidInput(
            f"{binding.described} has elements of shape {axes}, and is to have shape {shape}",
            fix=f"give a shape that ends in {', '.join(map(str, axes))}, or the number of elements",
            binding=binding.name,
        )
    count = math.prod(shape[: len(shape) - len(axes)])
    if shows_padded_numbers(binding, shape):
        raise InvalidInput(
            f"{binding.described} has numbers {binding.stride} bytes apart, and an array of shape {shape} holds "
            f"{math.prod(shape[:-1])} of them with their padding",
            fix=f"give the number of values, {count}, and reshape the result",
            binding=binding.name,
            count=count,
        )
    if binding.element_count and count != binding.element_count:
        raise InvalidInput(
            f"{binding.described} is to have {count} elements, and the {binding.subject} fixes {binding.element_count}",
            fix=f"give a shape of {binding.element_count} elements",
            binding=binding.name,
            count=count,
        )
    return count
