"""Read the caller's arguments as arrays, and match them to the bindings of a plan.

Arguments are never written to: what a kernel changes comes back in a new array, so read-only arrays are
accepted. An array whose elements are not one after the other is copied; everything else is read where it is.

Source: Python's buffer protocol (PEP 3118), numpy's ``__array_interface__`` (version 3), DLPack's Python protocol.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from vyre_driver.binding.conversions import check_dtype
from vyre_driver.binding.faults import check_byte_len
from vyre_driver.binding.packing import is_masked
from vyre_driver.binding.padding import check_padding
from vyre_driver.binding.tensors import bits_as_array, fix_of
from vyre_driver.binding.values import fresh_form, packed_array, packed_items, refuse_values, result_form
from vyre_driver.checks import integer, items_of
from vyre_driver.errors import InvalidInput, VyreError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from vyre_driver.binding.plan import Binding, BindingPlan
    from vyre_driver.binding.structure import Elements, ResultForm
    from vyre_driver.binding.values import Packed


def check_aliases(plan: BindingPlan, buffers: Sequence[object]) -> None:
    """Check that no two of the buffers, one for each descriptor, are the same or overlap where the shader forbids that."""
    for (one, first), (other, second) in itertools.combinations(zip(plan.descriptors, buffers, strict=True), 2):
        if first is second:
            _check_aliased(one, other, "are the same buffer")
        elif hasattr(first, "overlaps") and first.overlaps(second):
            _check_aliased(one, other, "share memory")


def _check_aliased(one: Binding, other: Binding, how: str) -> None:
    """Check that both may have the same memory: neither is written, or neither is declared ``restrict``."""
    declared = next((binding for binding in (one, other) if binding.restrict), None)
    if declared is not None and (one.role.produces_output or other.role.produces_output):
        raise InvalidInput(
            f"{one.described} (binding {one.binding}) and {other.described} (binding {other.binding}) {how}, and "
            f"the {one.subject} declares {declared.name!r} restrict",
            fix="bind a copy, or drop restrict from the shader",
            binding=declared.name,
            bindings=(one.name, other.name),
        )


_ON_CPU = 1  # DLPack's kDLCPU
_BYTE_FORMATS = frozenset({"B", "<B", "c", "<c"})
_FIX = "pass a numpy array, or an object with the buffer protocol, __array_interface__ or DLPack"


class Resident(Protocol):
    """The properties of a resident buffer."""

    @property
    def nbytes(self) -> int: ...  # noqa: D102 -- as numpy's
    @property
    def shape(self) -> tuple[int, ...]: ...  # noqa: D102
    @property
    def dtype(self) -> np.dtype[Any]: ...  # noqa: D102


class BufferArgument(NamedTuple):
    """A checked argument of one dispatch.

    ``given`` is exactly ``byte_len`` bytes, contiguous or not, or None for a fresh output or a resident buffer; ``position`` is
    its place among the arrays of the call. ``shape`` and ``dtype`` are those of the caller's array, ``elements`` the values
    in it where it is no memory as it is. ``is_packed`` says that ``given`` was made of the caller's values, as it has to be for
    each call, even for one of the same types and shapes.
    """

    binding: Binding
    position: int | None
    given: NDArray[Any] | None
    byte_len: int
    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]
    is_packed: bool = False
    elements: Elements | None = None

    @property
    def result(self) -> ResultForm:
        """How the buffer is read and made into the caller's array."""
        return result_form(self.binding, self.byte_len, self.shape, self.dtype, self.elements)

    @property
    def is_empty(self) -> bool:
        """Whether it has no elements: there is nothing to do for it."""
        return self.element_count == 0

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
    nested sequences of numbers. Bytes become an array of uint8, a tensor of torch.bfloat16 one of ml_dtypes' bfloat16.

    Raises
    ------
    InvalidInput
        If it is none of these, or lies in the memory of a device; ``what`` names it.
    """
    if isinstance(given, np.ndarray):
        _refuse_masked(given, what)
        return given
    if isinstance(given, Mapping):
        raise InvalidInput(
            f"{what} got a mapping, and only a shader knows how its values lie",
            fix="pass it to the kernel's call, or make a buffer of kernel.plan.pack(name, mapping)",
        )
    return _read(given, what)[0]


def _refuse_masked(array: NDArray[Any], what: str) -> None:
    """Check that no element of an array counts as missing: a buffer has no place for that."""
    if is_masked(array):
        raise InvalidInput(
            f"{what} got a masked array with elements that are missing",
            fix="pass array.filled(value), with what they stand for",
        )


def _read(given: object, what: str) -> tuple[NDArray[Any], bool]:
    """Return an array, and whether it is of bytes that have no type of their own."""
    try:
        kind = int(given.__dlpack_device__()[0]) if hasattr(given, "__dlpack_device__") else _ON_CPU
        found = raw_bytes(given) if kind == _ON_CPU else None
        if found is not None:
            return found, True
        bits = bits_as_array(given)
        if bits is not None:
            return bits, False
        if kind == _ON_CPU:
            is_dlpack = hasattr(given, "__dlpack__") and not _speaks_numpy(given)
            return np.from_dlpack(given) if is_dlpack else np.asarray(given), False  # type: ignore[arg-type]
    except (VyreError, MemoryError):
        raise
    except Exception as error:  # whatever an object's own protocol raises
        fix = fix_of(given) or _FIX
        raise InvalidInput(f"{what} got something that is not an array ({error})", fix=fix) from error
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


def check_arguments(
    plan: BindingPlan, arrays: Sequence[object], out_shapes: Mapping[str, int], *, of_kernel: bool = False
) -> tuple[BufferArgument, ...]:
    """Match arrays to bindings and prove that each fits; one argument a descriptor, in binding order.

    ``arrays`` come in binding order. The array of an output may be left out when ``out_shapes`` gives its elements, or when
    the shader fixes them. In a call ``of_kernel`` resident buffers may be among them, whose contents are not looked at, and
    buffers may have no elements where run time decides their number: such a dispatch has nothing to run on.

    Raises
    ------
    InvalidInput
        If the number of arrays is wrong, or an array's type or size does not fit.
    """
    arrays = listed_inputs(arrays)
    bindings = plan.descriptors
    _refuse_persistent(plan)
    counts = _checked_counts(plan, out_shapes, least=0 if of_kernel else 1)
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
        _check_given(binding, given[place], arrays[given[place]], of_kernel=of_kernel)
        if place in given
        else fresh_output(binding, counts.get(binding.name, binding.element_count))
        for place, binding in enumerate(bindings)
    )


def check_resident(plan: BindingPlan, buffers: Sequence[Resident], *, allow_empty: bool = False) -> tuple[BufferArgument, ...]:
    """Prove that resident buffers fit, one for each descriptor in binding order; ``allow_empty`` as for ``check_arguments``.

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
    check_aliases(plan, buffers)
    both = zip(bindings, buffers, strict=True)
    return tuple(_check_resident(binding, buffer, allow_empty=allow_empty) for binding, buffer in both)


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


def sized_outputs(plan: BindingPlan, out_shapes: object) -> dict[str, Binding]:
    """Return the outputs that may have a shape in ``out_shapes``, by name, once nothing else has one there.

    Raises InvalidInput if ``out_shapes`` is no mapping, or names another buffer.
    """
    outputs = {binding.name: binding for binding in plan.descriptors if starts_empty(binding)}
    if not isinstance(out_shapes, Mapping):
        raise InvalidInput(
            f"out_shapes is of type {type(out_shapes).__name__}, and shapes are given by name",
            fix="pass a dictionary from names to shapes",
        )
    for name in out_shapes:
        if name not in outputs:
            raise InvalidInput(
                f"out_shapes names {name!r}, which is not a write-only buffer of the {plan.subject}",
                fix=f"name one of {sorted(outputs)}" if outputs else "pass an array for every buffer",
                binding=name,
            )
    return outputs


def _checked_counts(plan: BindingPlan, out_shapes: Mapping[str, int], least: int) -> dict[str, int]:
    outputs = sized_outputs(plan, out_shapes)
    for name, count in out_shapes.items():
        fixed = outputs[name].element_count
        number = integer(count)
        if number is None or number < least or (fixed and count != fixed):
            wanted = f"{fixed}" if fixed else f"{least} or more"
            raise InvalidInput(
                f"out_shapes gives {name!r} {count!r} elements, and the {plan.subject} wants {wanted}",
                fix=f"give {wanted}",
                binding=name,
                count=count,
            )
    return {name: operator.index(count) for name, count in out_shapes.items()}


def fresh_output(binding: Binding, count: int) -> BufferArgument:
    """Return the argument of an output of so many elements that brings no array; raises InvalidInput if they are too few."""
    size = binding.header_bytes + count * binding.stride
    if count and size < binding.view_byte_len:
        check_byte_len(binding, size)
    dtype = binding.dtype
    if dtype is None:
        shape, dtype, elements = fresh_form(binding, count)
        return BufferArgument(binding, None, None, size, shape, dtype, elements=elements)
    components = binding.stride // dtype.itemsize
    shape = (count,) if components == 1 else (count, components)
    return BufferArgument(binding, None, None, size, shape, dtype)


def _check_resident(binding: Binding, buffer: Resident, *, allow_empty: bool) -> BufferArgument:
    check_dtype(binding, buffer.dtype)
    refuse_values(binding, buffer.shape, buffer.dtype)
    check_padding(binding, buffer.shape, buffer.dtype)
    check_byte_len(binding, buffer.nbytes, allow_empty=allow_empty)
    return BufferArgument(binding, None, None, buffer.nbytes, buffer.shape, buffer.dtype)


def _check_given(binding: Binding, position: int, given: object, *, of_kernel: bool) -> BufferArgument:
    if not of_kernel:
        refuse_resident(binding, given)
    elif _is_resident(given):
        return _check_resident(binding, given, allow_empty=True)._replace(position=position)  # type: ignore[arg-type]
    return check_array(binding, position, given, allow_empty=of_kernel)


def _is_resident(given: object) -> bool:
    """Whether it is a Buffer, whose module needs this one."""
    kind = type(given)
    return kind is not np.ndarray and hasattr(kind, "lifetime") and hasattr(kind, "overlaps")


def refuse_resident(binding: Binding, given: object) -> None:
    """Check that it is no resident buffer: its contents are not looked at, and would be taken for zeros."""
    if _is_resident(given):
        raise InvalidInput(
            f"{binding.described} got a resident buffer, which a kernel's call and bind alone take",
            fix="pass buffer.read(), or call a kernel that the buffer's driver has compiled",
            binding=binding.name,
        )


def check_array(binding: Binding, position: int, given: object, *, allow_empty: bool) -> BufferArgument:
    """Prove that values or memory of the host fit a binding; raises InvalidInput otherwise."""
    is_array = isinstance(given, np.ndarray)
    packed = None if is_array else packed_items(binding, given)
    if packed is not None:
        return _packed_argument(binding, position, packed, allow_empty=allow_empty)
    array, is_raw = (given, False) if isinstance(given, np.ndarray) else _read(given, binding.described)
    if type(array) is not np.ndarray:
        _refuse_masked(array, binding.described)
    is_plain = binding.holds_plain_numbers
    if is_raw:
        check_byte_len(binding, array.nbytes, allow_empty=allow_empty)
        array = array.view(binding.dtype or np.uint8)
    elif not is_plain or array.dtype.names is not None:
        packed = packed_array(binding, array)
        if packed is not None:
            return _packed_argument(binding, position, packed, allow_empty=allow_empty)
    check_dtype(binding, array.dtype, None if is_array else given)
    if not is_raw and not is_plain:
        check_padding(binding, array.shape, array.dtype)
    check_byte_len(binding, array.nbytes, allow_empty=allow_empty)
    return BufferArgument(binding, position, array, array.nbytes, array.shape, array.dtype)


def _packed_argument(binding: Binding, position: int, packed: Packed, *, allow_empty: bool) -> BufferArgument:
    memory, shape, dtype, elements = packed
    check_byte_len(binding, memory.nbytes, allow_empty=allow_empty)
    form = result_form(binding, memory.nbytes, shape, dtype, elements)
    as_read = memory.view(form.dtype).reshape(form.shape)
    return BufferArgument(binding, position, as_read, memory.nbytes, shape, dtype, is_packed=True, elements=elements)
