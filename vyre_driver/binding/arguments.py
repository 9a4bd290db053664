"""Read the caller's arguments as arrays, and match them to the bindings of a plan.

Arguments are never written to: what a kernel changes comes back in a new array, so read-only arrays are
accepted. An array whose elements are not one after the other is copied; everything else is read where it is.

Source: Python's buffer protocol (PEP 3118), numpy's ``__array_interface__`` (version 3), DLPack's Python protocol.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from vyre_driver.binding.faults import check_byte_len
from vyre_driver.binding.padding import check_padding
from vyre_driver.checks import integer, items_of
from vyre_driver.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from vyre_driver.binding.plan import Binding, BindingPlan

_ON_CPU = 1  # DLPack's kDLCPU
_BYTE_FORMATS = frozenset({"B", "<B", "c", "<c"})
_TEXT = frozenset("US")
_USER_DEFINED = 2  # what numpy says of a type that another package registered, as ml_dtypes does
_FIX = "pass a numpy array, or an object with the buffer protocol, __array_interface__ or DLPack"
_NO_ARRAY = (ValueError, TypeError, RuntimeError, BufferError, AttributeError)  # what converters raise


class Resident(Protocol):
    """The properties of a resident buffer."""

    nbytes: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]


@dataclass(frozen=True, slots=True)
class BufferArgument:
    """A checked argument of one dispatch.

    ``given`` is exactly ``byte_len`` bytes, contiguous or not, or None for a fresh output or a resident buffer; ``position`` is
    its place among the arrays of the call.
    """

    binding: Binding
    position: int | None
    given: NDArray[Any] | None
    byte_len: int
    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]

    @property
    def data(self) -> NDArray[Any] | None:
        """The argument as a contiguous array, copied if it is not one; check its size first."""
        return None if self.given is None else np.ascontiguousarray(self.given)

    @property
    def element_count(self) -> int:
        """Elements after the header."""
        return (self.byte_len - self.binding.header_bytes) // self.binding.stride


def raw_bytes(given: object) -> NDArray[np.uint8] | None:
    """Return the bytes of what holds nothing else (bytes, bytearray, a memory view of bytes), or None.

    Such a thing has no element type, so it is taken as the elements of the buffer it is given for. An array never counts, nor
    does a memory view that was released.
    """
    if isinstance(given, (np.ndarray, np.generic)):
        return None
    try:
        view = memoryview(given)  # type: ignore[arg-type]
    except (TypeError, BufferError, ValueError):
        return None
    return np.ascontiguousarray(view).reshape(-1).view(np.uint8) if view.format in _BYTE_FORMATS else None


def as_array(given: object, what: str = "a buffer") -> NDArray[Any]:
    """Return an argument as an array, sharing its memory where possible.

    An array, anything with the buffer protocol, ``__array_interface__``, ``__array__`` or DLPack in the memory of the CPU, or
    nested sequences of numbers. Bytes become an array of uint8.

    Raises
    ------
    InvalidInput
        If it is none of these, or lies in the memory of a device; ``what`` names it.
    """
    return given if isinstance(given, np.ndarray) else _read(given, what)[0]


def _read(given: object, what: str) -> tuple[NDArray[Any], bool]:
    """Return an array, and whether it is of bytes that have no type of their own."""
    try:
        kind = int(given.__dlpack_device__()[0]) if hasattr(given, "__dlpack_device__") else _ON_CPU
        found = raw_bytes(given) if kind == _ON_CPU else None
        if found is not None:
            return found, True
        if kind == _ON_CPU:
            is_dlpack = hasattr(given, "__dlpack__") and not _speaks_numpy(given)
            return np.from_dlpack(given) if is_dlpack else np.asarray(given), False  # type: ignore[arg-type]
    except _NO_ARRAY as error:
        raise InvalidInput(f"{what} got something that is not an array ({error})", fix=_FIX) from error
    raise InvalidInput(
        f"{what} got an array of type {type(given).__name__} on a DLPack device of type {kind}, and takes the CPU's memory "
        f"(type {_ON_CPU})",
        fix="copy it to the CPU first, for example with .cpu() or .get()",
        device_type=kind,
    )


def byte_len(given: object) -> int:
    """Return the bytes of an array or a buffer; raises InvalidInput for anything else, Python's lists and numbers too."""
    has_memory = _speaks_numpy(given) or hasattr(given, "__dlpack__") or raw_bytes(given) is not None
    array = as_array(given, "an input") if has_memory else None
    if array is None or array.dtype.hasobject:
        raise InvalidInput(f"an input is of type {type(given).__name__}, which holds no bytes of numbers", fix=_FIX)
    return array.nbytes


def listed_inputs(given: object) -> list[object] | tuple[object, ...]:
    """Return the inputs of a dispatch as a sequence; raises InvalidInput for what is not a sequence."""
    if isinstance(given, (list, tuple)):
        return given
    found = items_of(given)
    if found is None:
        raise InvalidInput(
            f"the inputs of a dispatch came as {type(given).__name__}",
            fix="pass a list of arrays, in the order of the bindings",
        )
    return found


def check_switch(name: str, given: object) -> None:
    """Check that a switch is True, False or None, and raise InvalidInput otherwise: any text would count as true, "no" too."""
    if given is not None and not isinstance(given, (bool, np.bool_)):
        raise InvalidInput(
            f"{name} is {given!r}, which is neither True nor False",
            fix="give True or False, or None to do as the environment says",
        )


def _speaks_numpy(given: object) -> bool:
    return any(hasattr(given, name) for name in ("__array_interface__", "__array_struct__", "__array__"))


def check_arguments(plan: BindingPlan, arrays: Sequence[object], out_counts: Mapping[str, int]) -> tuple[BufferArgument, ...]:
    """Match arrays to bindings and prove that each fits; one argument a descriptor, in binding order.

    ``arrays`` come in binding order. The array of an output may be left out when ``out_counts`` gives its elements, or when
    the shader fixes them.

    Raises
    ------
    InvalidInput
        If the number of arrays is wrong, or an array's type or size does not fit.
    """
    arrays = listed_inputs(arrays)
    bindings = plan.descriptors
    _refuse_persistent(plan)
    counts = _checked_counts(plan, out_counts)
    takers = [place for place, binding in enumerate(bindings) if binding.name not in counts]
    if len(arrays) != len(takers):
        takers = [place for place in takers if not starts_empty(bindings[place]) or not bindings[place].element_count]
    if len(arrays) != len(takers):
        raise InvalidInput(
            f"the {plan.subject} takes {len(takers)} array(s), {_listed([bindings[place] for place in takers])}, and got "
            f"{len(arrays)}",
            fix="pass them in binding order; an output's may be left out when out_shapes gives its shape",
            expected=len(takers),
            received=len(arrays),
        )
    given = {place: position for position, place in enumerate(takers)}
    return tuple(
        _check_array(binding, given[place], arrays[given[place]])
        if place in given
        else _fresh_output(binding, counts.get(binding.name, binding.element_count))
        for place, binding in enumerate(bindings)
    )


def check_resident(plan: BindingPlan, buffers: Sequence[Resident]) -> tuple[BufferArgument, ...]:
    """Prove that resident buffers fit, one for each descriptor in binding order.

    Raises
    ------
    InvalidInput
        If their number is wrong, one's type or size does not fit, or one buffer is given where the shader forbids that.
    """
    bindings = plan.descriptors
    if len(buffers) != len(bindings):
        raise InvalidInput(
            f"the {plan.subject} takes {len(bindings)} buffer(s), {_listed(bindings)}, and got {len(buffers)}",
            fix="pass a buffer for each binding, in binding order",
            expected=len(bindings),
            received=len(buffers),
        )
    for place, buffer in enumerate(buffers):
        for other in range(place):
            if buffers[other] is buffer:
                _check_aliased(bindings[other], bindings[place])
    return tuple(_check_resident(binding, buffer) for binding, buffer in zip(bindings, buffers, strict=True))


def _check_aliased(one: Binding, other: Binding) -> None:
    """Check that one buffer may be bound to both: neither is written, or neither is declared ``restrict``."""
    declared = next((binding for binding in (one, other) if binding.restrict), None)
    if declared is not None and (one.role.produces_output or other.role.produces_output):
        raise InvalidInput(
            f"{one.described} (binding {one.binding}) and {other.described} (binding {other.binding}) are the same buffer, and "
            f"the {one.subject} declares {declared.name!r} restrict",
            fix="bind a copy, or drop restrict from the shader",
            binding=declared.name,
            bindings=(one.binding, other.binding),
        )


def starts_empty(binding: Binding) -> bool:
    """Whether a call brings no contents of a buffer: what is only written."""
    return binding.role.produces_output and not binding.role.consumes_input


def _refuse_persistent(plan: BindingPlan) -> None:
    for binding in plan.descriptors:
        if not binding.role.consumes_input and not binding.role.produces_output:
            raise InvalidInput(
                f"{binding.described} stays on the device between dispatches, and a call with arrays has none for it",
                fix="bind resident buffers",
                binding=binding.name,
            )


def _listed(bindings: Sequence[Binding]) -> str:
    return ", ".join(f"{binding.name!r} ({binding.role.value})" for binding in bindings)


def _checked_counts(plan: BindingPlan, out_counts: Mapping[str, int]) -> dict[str, int]:
    outputs = {binding.name: binding for binding in plan.descriptors if starts_empty(binding)}
    if not isinstance(out_counts, Mapping):
        raise InvalidInput(
            f"out_counts is of type {type(out_counts).__name__}, and counts are given by name",
            fix="pass a dictionary from names to numbers of elements",
        )
    for name, count in out_counts.items():
        if name not in outputs:
            raise InvalidInput(
                f"out_counts names {name!r}, which is not a write-only buffer of the {plan.subject}",
                fix=f"name one of {sorted(outputs)}" if outputs else "pass an array for every buffer",
                binding=name,
            )
        fixed = outputs[name].element_count
        if (integer(count) or 0) < 1 or (fixed and count != fixed):
            wanted = f"{fixed}" if fixed else "1 or more"
            raise InvalidInput(
                f"out_counts gives {name!r} {count!r} elements, and the {plan.subject} wants {wanted}",
                fix=f"give {wanted}",
                binding=name,
                count=count,
            )
    return {name: operator.index(count) for name, count in out_counts.items()}


def _fresh_output(binding: Binding, count: int) -> BufferArgument:
    size = binding.header_bytes + count * binding.stride
    if size < binding.view_byte_len:
        check_byte_len(binding, size)
    dtype = binding.dtype
    if dtype is None:
        return BufferArgument(binding, None, None, size, (size,), np.dtype(np.uint8))
    components = binding.stride // dtype.itemsize
    return BufferArgument(binding, None, None, size, (count,) if components == 1 else (count, components), dtype)


def _check_resident(binding: Binding, buffer: Resident) -> BufferArgument:
    _check_dtype(binding, buffer.dtype)
    check_padding(binding, buffer.shape, buffer.dtype)
    check_byte_len(binding, buffer.nbytes)
    return BufferArgument(binding, None, None, buffer.nbytes, buffer.shape, buffer.dtype)


def _check_array(binding: Binding, position: int, given: object) -> BufferArgument:
    if hasattr(given, "lifetime") and hasattr(given, "memory"):  # a Buffer, whose module needs this one
        raise InvalidInput(
            f"{binding.described} got a resident buffer, and a call takes arrays",
            fix="bind the kernel to buffers (kernel.bind), or pass buffer.read()",
            binding=binding.name,
        )
    is_array = isinstance(given, np.ndarray)
    array, is_raw = (given, False) if isinstance(given, np.ndarray) else _read(given, binding.described)
    if is_raw:
        check_byte_len(binding, array.nbytes)
        array = array.view(binding.dtype or np.uint8)
    _check_dtype(binding, array.dtype, None if is_array else given)
    if not is_raw:
        check_padding(binding, array.shape, array.dtype)
    check_byte_len(binding, array.nbytes)
    return BufferArgument(binding, position, array, array.nbytes, array.shape, array.dtype)


def _check_dtype(binding: Binding, dtype: np.dtype[Any], given: object = None) -> None:
    """Check that a binding takes arrays of a type; ``given`` is what numpy converted, None for an array or a buffer."""
    wanted = binding.dtype
    if dtype.hasobject or (wanted is None and dtype.kind in _TEXT):
        what = "Python objects" if dtype.hasobject else "text"
        raise InvalidInput(f"{binding.described} got an array of {what}", fix="pass an array of numbers", binding=binding.name)
    if wanted is not None and dtype != wanted and not _same_bits(wanted, dtype):
        raise InvalidInput(
            f"{binding.described} holds {wanted} and got an array of {dtype}",
            fix=_conversion(wanted, dtype, given),
            binding=binding.name,
            expected=str(wanted),
            received=str(dtype),
        )


def _conversion(wanted: np.dtype[Any], dtype: np.dtype[Any], given: object) -> str:
    """Say how to get the wanted type: by value, or by the bits where one stands for the other."""
    if dtype.kind in _TEXT:
        return "pass an array of numbers"
    name = f"numpy.{wanted}" if wanted.isbuiltin != _USER_DEFINED else f"{wanted.type.__module__}.{wanted}"
    if given is not None and not hasattr(given, "astype"):
        return f"pass numpy.asarray(..., {name})"
    by_value = f"convert it with .astype({name})"
    if dtype.kind == "c" and dtype.itemsize == 2 * wanted.itemsize and wanted.kind == "f":
        return f"pass real and imaginary parts one after the other with .view({name})"
    if dtype.kind not in "biuf" or dtype.itemsize != wanted.itemsize or not dtype.isnative or dtype.kind == wanted.kind:
        return by_value
    return f"{by_value}, which keeps the numbers, or with .view({name}), which keeps the bits"


def _same_bits(wanted: np.dtype[Any], given: np.dtype[Any]) -> bool:
    """Return whether one is a type that numpy learnt from another package and the other the unsigned word of its bits."""
    kinds = {(wanted.isbuiltin == _USER_DEFINED, wanted.kind == "u"), (given.isbuiltin == _USER_DEFINED, given.kind == "u")}
    return kinds == {(True, False), (False, True)} and wanted.itemsize == given.itemsize and wanted.isnative and given.isnative
