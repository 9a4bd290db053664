"""Which buffer is what: roles, slots and sizes of a module's bindings, and the proof that arrays fit them.

Source: upstream's binding plan (roles, slots in binding order); element layout from the module's reflection.
"""

from __future__ import annotations

import enum
import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from vyre_driver.errors import InvalidInput
from vyre_driver.numbers import is_whole

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from vyre_driver.spirv.reflect import BufferInterface, Reflection
    from vyre_driver.spirv.types import Element


class BindingRole(enum.Enum):
    """What a dispatch does with a buffer."""

    INPUT = "input"
    OUTPUT = "output"
    INPUT_OUTPUT = "input_output"
    UNIFORM = "uniform"
    SHARED = "shared"
    PERSISTENT = "persistent"

    @property
    def consumes_input(self) -> bool:
        """Whether the caller brings its contents."""
        return self in {BindingRole.INPUT, BindingRole.INPUT_OUTPUT, BindingRole.UNIFORM}

    @property
    def produces_output(self) -> bool:
        """Whether the caller gets its contents back."""
        return self in {BindingRole.OUTPUT, BindingRole.INPUT_OUTPUT}


@dataclass(frozen=True, slots=True)
class Binding:
    """One buffer of the plan.

    ``header_bytes`` stand before the first element. ``element_count`` is 0 when the shader leaves it to run time, and then
    ``static_byte_len`` is None. ``input_index`` and ``output_index`` are its places among inputs and outputs, None without one.
    """

    name: str
    binding: int
    role: BindingRole
    header_bytes: int
    element: Element
    element_count: int
    input_index: int | None
    output_index: int | None

    @property
    def element_size(self) -> int:
        """Bytes from one element to the next."""
        return self.element.stride

    @property
    def static_byte_len(self) -> int | None:
        """Bytes of the whole buffer where the shader fixes them."""
        return self.header_bytes + self.element_count * self.element_size if self.element_count else None

    @property
    def dtype(self) -> np.dtype[np.generic] | None:
        """The numpy type its arrays must have; None takes any array as raw bytes."""
        scalar = self.element.scalar
        return np.dtype(scalar.dtype) if scalar is not None and not self.header_bytes else None

    def from_bytes(self, data: bytes) -> NDArray[Any]:
        """Return raw bytes as an array that fits this binding; read-only, sharing the bytes.

        Raises
        ------
        InvalidInput
            2201 if their number does not fit.
        """
        _check_byte_len(self, len(data))
        return np.frombuffer(data, np.uint8 if self.dtype is None else self.dtype)

    def zeros(self, count: int) -> NDArray[Any]:
        """Return an array of ``count`` zero elements after a zero header."""
        data = np.zeros(self.header_bytes + count * self.element_size, np.uint8)
        return data if self.dtype is None else data.view(self.dtype)


class Resident(Protocol):
    """What a resident buffer tells of itself."""

    nbytes: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]


@dataclass(frozen=True, slots=True)
class BufferArgument:
    """A checked argument of one dispatch.

    ``data`` is contiguous and exactly ``byte_len`` bytes, or None for a fresh output or a resident buffer; ``position`` is its
    place among the arrays of the call.
    """

    binding: Binding
    position: int | None
    data: NDArray[Any] | None
    byte_len: int
    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]

    @property
    def element_count(self) -> int:
        """Elements after the header."""
        return (self.byte_len - self.binding.header_bytes) // self.binding.element_size


@dataclass(frozen=True, slots=True)
class BindingPlan:
    """The bindings of a program in binding order; a value, with no device behind it."""

    bindings: tuple[Binding, ...]

    @classmethod
    def from_reflection(cls, reflection: Reflection) -> BindingPlan:
        """Plan a module's buffers: read-only is an input, write-only an output, both is both."""
        inputs, outputs = iter(range(len(reflection.buffers))), iter(range(len(reflection.buffers)))
        return cls(tuple(_bind(buffer, inputs, outputs) for buffer in reflection.buffers))

    def check_arguments(self, arrays: Sequence[object], out_counts: Mapping[str, int]) -> tuple[BufferArgument, ...]:
        """Match arrays to bindings and prove that each fits; one argument a binding, in binding order.

        ``arrays`` come in binding order. The array of an output may be left out when ``out_counts`` gives its elements, or
        when the shader fixes them. A non-contiguous array is copied.

        Raises
        ------
        InvalidInput
            2201 if the number of arrays is wrong, or an array's type or size does not fit.
        """
        counts = self._checked_counts(out_counts)
        takers = [binding for binding in self.bindings if binding.name not in counts]
        if len(arrays) != len(takers):
            takers = [binding for binding in takers if binding.role is not BindingRole.OUTPUT or not binding.element_count]
        if len(arrays) != len(takers):
            wanted = ", ".join(f"{binding.name!r} ({binding.role.value})" for binding in takers)
            raise InvalidInput(
                f"the shader takes {len(takers)} array(s), {wanted}, and got {len(arrays)}",
                fix="pass them in binding order; an output's may be left out when out_counts gives its elements",
                expected=len(takers),
                received=len(arrays),
            )
        given = {binding.name: position for position, binding in enumerate(takers)}
        return tuple(
            _check_array(binding, given[binding.name], arrays[given[binding.name]])
            if binding.name in given
            else _fresh_output(binding, counts.get(binding.name, binding.element_count))
            for binding in self.bindings
        )

    def check_resident(self, buffers: Sequence[Resident]) -> tuple[BufferArgument, ...]:
        """Prove that resident buffers fit, one for each binding in binding order.

        Raises
        ------
        InvalidInput
            2201 if their number is wrong, or one's type or size does not fit.
        """
        if len(buffers) != len(self.bindings):
            wanted = ", ".join(f"{binding.name!r} ({binding.role.value})" for binding in self.bindings)
            raise InvalidInput(
                f"the shader takes {len(self.bindings)} buffer(s), {wanted}, and got {len(buffers)}",
                fix="pass a buffer for each binding, in binding order",
                expected=len(self.bindings),
                received=len(buffers),
            )
        return tuple(_check_resident(binding, buffer) for binding, buffer in zip(self.bindings, buffers, strict=True))

    def _checked_counts(self, out_counts: Mapping[str, int]) -> dict[str, int]:
        outputs = {binding.name: binding for binding in self.bindings if binding.role is BindingRole.OUTPUT}
        for name, count in out_counts.items():
            if name not in outputs:
                raise InvalidInput(
                    f"out_counts names {name!r}, which is no write-only buffer of the shader",
                    fix=f"name one of {sorted(outputs)}" if outputs else "pass an array for every buffer",
                    binding=name,
                )
            fixed = outputs[name].element_count
            if not is_whole(count) or operator.index(count) < 1 or (fixed and count != fixed):
                wanted = f"{fixed}" if fixed else "1 or more"
                raise InvalidInput(
                    f"out_counts gives {name!r} {count!r} elements, and the shader wants {wanted}",
                    fix=f"give {wanted}",
                    binding=name,
                    count=count,
                )
        return {name: operator.index(count) for name, count in out_counts.items()}


def _bind(buffer: BufferInterface, inputs: Iterator[int], outputs: Iterator[int]) -> Binding:
    written = BindingRole.INPUT_OUTPUT if buffer.readable else BindingRole.OUTPUT
    role = written if buffer.writable else BindingRole.INPUT
    return Binding(
        name=buffer.name,
        binding=buffer.binding,
        role=role,
        header_bytes=buffer.header_bytes,
        element=buffer.element,
        element_count=buffer.count or 0,
        input_index=next(inputs) if role.consumes_input else None,
        output_index=next(outputs) if role.produces_output else None,
    )


def _fresh_output(binding: Binding, count: int) -> BufferArgument:
    byte_len = binding.header_bytes + count * binding.element_size
    dtype = binding.dtype
    if dtype is None:
        return BufferArgument(binding, None, None, byte_len, (byte_len,), np.dtype(np.uint8))
    components = binding.element.components
    return BufferArgument(binding, None, None, byte_len, (count,) if components == 1 else (count, components), dtype)


def _check_resident(binding: Binding, buffer: Resident) -> BufferArgument:
    _check_dtype(binding, buffer.dtype)
    _check_byte_len(binding, buffer.nbytes)
    return BufferArgument(binding, None, None, buffer.nbytes, buffer.shape, buffer.dtype)


def _check_array(binding: Binding, position: int, given: object) -> BufferArgument:
    try:
        array = np.asarray(given)
    except ValueError as error:
        raise InvalidInput(
            f"{binding.role.value} {binding.name!r} got something that is no array ({error})",
            fix="pass a numpy array",
            binding=binding.name,
        ) from error
    _check_dtype(binding, array.dtype)
    _check_byte_len(binding, array.nbytes)
    return BufferArgument(binding, position, np.ascontiguousarray(array), array.nbytes, array.shape, array.dtype)


def _check_dtype(binding: Binding, dtype: np.dtype[Any]) -> None:
    if dtype.hasobject:
        raise InvalidInput(
            f"{binding.role.value} {binding.name!r} got an array of Python objects", fix="pass an array of numbers"
        )
    if binding.dtype is not None and dtype != binding.dtype:
        raise InvalidInput(
            f"{binding.role.value} {binding.name!r} holds {binding.dtype} and got an array of {dtype}",
            fix=f"convert it with .astype(numpy.{binding.dtype}), or reinterpret it with .view(numpy.{binding.dtype})",
            binding=binding.name,
            expected=str(binding.dtype),
            received=str(dtype),
        )


def _check_byte_len(binding: Binding, byte_len: int) -> None:
    what = f"{binding.role.value} {binding.name!r}"
    fixed = binding.static_byte_len
    if fixed is not None and byte_len != fixed:
        raise InvalidInput(
            f"{what} has {byte_len} bytes, and the shader fixes it at {fixed} bytes ({binding.element_count} elements of "
            f"{binding.element_size} bytes)",
            fix=f"pass {fixed} bytes",
            binding=binding.name,
            expected_bytes=fixed,
            received_bytes=byte_len,
        )
    if byte_len < binding.header_bytes + binding.element_size:
        raise InvalidInput(
            f"{what} has {byte_len} bytes, less than the {binding.header_bytes + binding.element_size} bytes of one element",
            fix="pass at least one element",
            binding=binding.name,
            received_bytes=byte_len,
        )
    if (byte_len - binding.header_bytes) % binding.element_size:
        after = f" after a header of {binding.header_bytes} bytes" if binding.header_bytes else ""
        raise InvalidInput(
            f"{what} has {byte_len} bytes, which is not a whole number of {binding.element_size}-byte elements{after}",
            fix="pass whole elements",
            binding=binding.name,
            element_size=binding.element_size,
            received_bytes=byte_len,
        )
