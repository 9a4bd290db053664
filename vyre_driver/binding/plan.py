"""Binding plans: the roles, slots and sizes of the buffers of a program or a shader.

One plan serves both: a program's comes from its declarations, a shader's from the reflection of its module.

Source: spec item 2.2, in the form that upstream's 0.4.1 has (docs/binding.md).
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_driver import _fast
from vyre_driver.binding import arguments, contents, faults
from vyre_driver.binding.rules import RULES_0_4_1, PlanRules
from vyre_driver.binding.structure import layout_of
from vyre_driver.checks import U64_MAX
from vyre_driver.errors import InvalidInput, InvalidProgram

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from vyre_driver.binding.arguments import BufferArgument, Resident
    from vyre_driver.binding.structure import BufferLayout
    from vyre_driver.ir.dtypes import DataType
    from vyre_driver.ir.program import Program
    from vyre_driver.spirv.layout import Element, Struct
    from vyre_driver.spirv.reflection import BufferInterface, Reflection

_WORD_BYTES = 4


class BindingRole(enum.Enum):
    """The role of a buffer in a dispatch."""

    INPUT = "input"
    OUTPUT = "output"
    INPUT_OUTPUT = "input_output"
    UNIFORM = "uniform"
    SHARED = "shared"
    PERSISTENT = "persistent"

    @property
    def consumes_input(self) -> bool:
        """Whether the caller provides its contents."""
        return self._value_ in ("input", "input_output", "uniform")  # a member's hash is a function of Python

    @property
    def produces_output(self) -> bool:
        """Whether the caller gets its contents back."""
        return self._value_ in ("output", "input_output")


_ROLES = tuple(BindingRole)  # in the order of vyre_binding_role


@dataclass(frozen=True, slots=True)
class Binding:
    """One buffer of a plan; sizes are in bytes.

    ``buffer_index`` is its place among the declarations. ``element_count`` is 0 when it is left to run time, and
    ``static_byte_len`` is None then. ``input_index`` and ``output_index`` are its places among inputs and outputs, None without
    one. A shader's buffer has its ``element``, and ``header_bytes`` before the first one; ``view_byte_len`` is what the largest
    of several variables takes at least that share it, ``views`` shows these, and ``restrict`` is as the shader declares it;
    ``block`` is its structure, None where the variables that share it have different ones. A program's has its ``data_type``,
    ``output_byte_range`` as (start, end) where only so much is read back, and ``is_pushed`` where it is a push constant.
    """

    name: str
    binding: int
    buffer_index: int
    role: BindingRole
    element_size: int
    preferred_alignment: int
    element_count: int
    static_byte_len: int | None
    input_index: int | None
    output_index: int | None
    header_bytes: int = 0
    element: Element | None = None
    data_type: DataType | None = None
    output_byte_range: tuple[int, int] | None = None
    view_byte_len: int = 0
    restrict: bool = False
    block: Struct | None = field(default=None, compare=False, repr=False)
    is_pushed: bool = False
    views: str = field(default="", compare=False, repr=False)

    @property
    def least_byte_len(self) -> int:
        """Bytes that a shader's buffer has at least: its header and an element, or what the largest of its views takes."""
        return max(self.header_bytes + self.stride, self.view_byte_len)

    @property
    def stride(self) -> int:
        """Bytes from one element to the next; 1 where the type fixes none."""
        return self.element_size or 1

    @property
    def subject(self) -> str:
        """What declares it, for a message: the shader or the program."""
        return "program" if self.element is None else "shader"

    @property
    def described(self) -> str:
        """Role and name, for a message."""
        return f"{self.role.value} {self.name!r}"

    @property
    def dtype(self) -> np.dtype[np.generic] | None:
        """The numpy type its arrays must have, of one component for a vector; None takes any array as raw bytes."""
        if self.data_type is not None:
            from vyre_driver.ir.dtypes import numpy_element  # late: most need no programs

            found = numpy_element(self.data_type)
            if found is None or found.form.name == "RAW" or found.packed or found.dtype.itemsize != self.element_size:
                return None
            return np.dtype(found.dtype.base)
        scalar = self.element.scalar if self.element is not None else None
        return np.dtype(scalar.dtype) if scalar is not None and not self.header_bytes else None

    @property
    def holds_plain_numbers(self) -> bool:
        """Whether it is numbers of one type, and nothing before or between them; so is each buffer of a program."""
        return self.element is None or (self.element.scalar is not None and not self.header_bytes)

    @property
    def layout(self) -> BufferLayout | None:
        """Where its values lie; None where only bytes will do, and of a program's buffer."""
        return None if self.block is None else layout_of(self.block)

    def from_bytes(self, data: bytes) -> NDArray[Any]:
        """Return raw bytes as an array that fits this binding; read-only, sharing the bytes.

        Raises
        ------
        InvalidInput
            If their number does not fit.
        """
        faults.check_byte_len(self, len(data))
        return np.frombuffer(data, np.uint8 if self.dtype is None else self.dtype)

    def zeros(self, count: int) -> NDArray[Any]:
        """Return an array of ``count`` zero elements after a zero header."""
        data = np.zeros(self.header_bytes + count * self.stride, np.uint8)
        return data if self.dtype is None else data.view(self.dtype)

    def padded_byte_len(self, byte_len: int | None = None) -> int:
        """Return the bytes to allocate: whole 32-bit words, and a multiple of ``preferred_alignment``.

        ``byte_len`` is what the contents take; None takes the static length.

        Raises
        ------
        InvalidProgram
            If it is left to run time and not given.
        LimitExceeded
            If the padded length passes 2**64 - 1.
        """
        size = self._sized(byte_len)
        step = math.lcm(_WORD_BYTES, self.preferred_alignment)
        padded = -(-size // step) * step
        if padded > U64_MAX:
            raise faults.padding_error(self, size, padded)
        return padded

    def readback_slice(self, byte_len: int | None = None) -> tuple[int, int]:
        """Return (start, length) in bytes of what comes back of an output: its ``output_byte_range``, else all.

        ``byte_len`` is what the buffer takes; None takes the static length.

        Raises
        ------
        InvalidProgram
            If it is not an output, if the length is left to run time and not given, or if the range runs backwards or
            past the end.
        """
        if self.output_index is None:
            raise InvalidProgram(
                f"{self.described} is not an output, and nothing of it comes back", fix="read back an output", binding=self.name
            )
        size = self._sized(byte_len)
        start, end = (0, size) if self.output_byte_range is None else self.output_byte_range
        if not start <= end <= size:
            raise faults.readback_error(self, start, end, size)
        return start, end - start

    def _sized(self, byte_len: int | None) -> int:
        size = self.static_byte_len if byte_len is None else byte_len
        if size is None:
            raise faults.no_length_error(self)
        return size


@dataclass(frozen=True, slots=True)
class BindingPlan:
    """The buffers of a program or a shader in the order of their binding numbers; a value, with no device behind it.

    The three tuples hold buffer indices: of what the caller brings, of what comes back, and of workgroup memory, each in the
    order that the ``rules`` number them in, by default that of the bindings. ``subject`` is what declares the buffers, in
    messages: ``program`` or ``shader``.
    """

    bindings: tuple[Binding, ...]
    input_indices: tuple[int, ...]
    output_indices: tuple[int, ...]
    shared_indices: tuple[int, ...]
    subject: str = "program"
    rules: PlanRules = field(default=RULES_0_4_1, repr=False)
    _inputs: _fast.InputLengths | None = field(default=None, init=False, repr=False, compare=False)

    @classmethod
    def build(cls, program: Program, rules: str = RULES_0_4_1.version) -> BindingPlan:
        """Plan a program's buffers; its inputs are not checked.

        ``rules`` are those of upstream's "0.4.1", which the driver runs programs by, or of its "0.7", for exchange with it.

        Raises
        ------
        InvalidProgram
            If a buffer counts elements of a type without a size, takes more than 2**64 - 1 bytes, or asks for an
            alignment that is not a power of two, or by the rules of 0.7 if its type cannot be laid out; the first such in
            the order of the bindings.
        InvalidInput
            If there are no such rules.
        """
        return cls._planned(program, (), PlanRules.of(rules))

    @classmethod
    def from_program(cls, program: Program, inputs: Iterable[object], rules: str = RULES_0_4_1.version) -> BindingPlan:
        """Plan a program's buffers and prove that the inputs fit; what is left to run time counts the input's elements.

        ``inputs`` as in :meth:`validate_inputs`, ``rules`` as in :meth:`build`.

        Raises
        ------
        InvalidProgram
            If the buffers cannot be planned, as for ``build``, or an input does not fit.
        InvalidInput
            If an input holds no bytes, or there are no such rules.
        """
        lengths = _fast.byte_lengths(arguments.listed_inputs(inputs), np.ndarray, arguments.byte_len)
        plan = cls._planned(program, lengths, PlanRules.of(rules))
        cls._check(plan, lengths, may_be_longer=False)
        return plan

    @classmethod
    def _planned(cls, program: Program, lengths: tuple[int, ...], rules: PlanRules) -> BindingPlan:
        status, *planned = _fast.build_plan(program.buffers, lengths, Binding, _ROLES, rules)
        if status:
            raise faults.plan_error(program.buffers[planned[0]], status, is_packed=rules.packed)
        bindings, inputs, outputs, shared = planned
        return cls(bindings, inputs, outputs, shared, rules=rules)

    @classmethod
    def from_reflection(cls, reflection: Reflection) -> BindingPlan:
        """Plan a module's buffers: read-only is an input, write-only an output, both is both."""
        inputs, outputs = iter(range(len(reflection.buffers))), iter(range(len(reflection.buffers)))
        bindings = tuple(_bind(place, buffer, inputs, outputs) for place, buffer in enumerate(reflection.buffers))
        takers = tuple(one.buffer_index for one in bindings if one.input_index is not None)
        givers = tuple(one.buffer_index for one in bindings if one.output_index is not None)
        return cls(bindings, takers, givers, (), "shader")

    @property
    def descriptors(self) -> tuple[Binding, ...]:
        """The buffers without workgroup memory and what is pushed; the place of each descriptor is its dense slot."""
        return tuple([one for one in self.bindings if one.role is not BindingRole.SHARED and not one.is_pushed])

    def descriptor_slots(self) -> dict[int, int]:
        """Return the dense slot, from 0, of each binding number that has a descriptor.

        Raises
        ------
        InvalidProgram
            If two descriptors have one number; the validator refuses such a program too.
        """
        slots: dict[int, int] = {}
        for slot, one in enumerate(self.descriptors):
            if one.binding in slots:
                raise faults.same_number_error(self.descriptors[slots[one.binding]], one)
            slots[one.binding] = slot
        return slots

    def validate_inputs(self, inputs: Iterable[object]) -> None:
        """Prove that the inputs have the right number and sizes; ``check_arguments`` checks their types.

        ``inputs`` come in the order of ``input_indices``: bytes, arrays, or what ``arguments.as_array`` reads.

        Raises
        ------
        InvalidProgram
            If there are too few or too many, or one is not a whole number of elements or not as long as it is fixed.
        InvalidInput
            If one holds no bytes; for the plan of a shader, instead of InvalidProgram.
        """
        fault = (self._inputs or self._measured()).check(inputs)
        if fault is not None:
            raise faults.lengths_error(self, *fault)

    def validate_input_byte_lengths(self, lengths: Sequence[int]) -> None:
        """Prove that inputs of these lengths in bytes would fit; by the rules of 0.7 they may be longer than the static ones.

        Raises
        ------
        InvalidProgram
            If their number is wrong, or one of them is not the length that its buffer needs.
        InvalidInput
            If a length is not an integer from 0 to 2**64 - 1.
        """
        self._check(lengths, may_be_longer=self.rules.allows_longer_residents)

    def _check(self, lengths: Sequence[int], *, may_be_longer: bool) -> None:
        inputs = self._least_lengths() if may_be_longer else self._inputs or self._measured()
        try:
            fault = inputs.check_lengths(tuple(lengths))
        except (TypeError, OverflowError) as error:
            raise InvalidInput(
                f"the lengths of the inputs are {lengths!r} ({error})", fix="give integers from 0 to 2**64 - 1, in bytes"
            ) from error
        if fault is not None:
            raise faults.lengths_error(self, *fault)

    def _measured(self) -> _fast.InputLengths:
        least = tuple([one.least_byte_len if one.element is not None else 0 for one in self.bindings])
        result = _fast.InputLengths(self.bindings, least, np.ndarray, arguments.byte_len)
        object.__setattr__(self, "_inputs", result)  # a thread that makes another meanwhile makes the same
        return result

    def _least_lengths(self) -> _fast.InputLengths:
        least = tuple([binding.static_byte_len or 0 for binding in self.bindings])
        unfixed = tuple([replace(binding, static_byte_len=None) for binding in self.bindings])
        return _fast.InputLengths(unfixed, least, np.ndarray, arguments.byte_len)

    def check_arguments(
        self, arrays: Sequence[object], out_shapes: Mapping[str, int], *, of_kernel: bool = False
    ) -> tuple[BufferArgument, ...]:
        """Match arrays to bindings and prove that each fits; see :func:`vyre_driver.binding.arguments.check_arguments`."""
        return arguments.check_arguments(self, arrays, out_shapes, of_kernel=of_kernel)

    def check_resident(self, buffers: Sequence[Resident], *, allow_empty: bool = False) -> tuple[BufferArgument, ...]:
        """Prove that resident buffers fit; see :func:`vyre_driver.binding.arguments.check_resident`."""
        return arguments.check_resident(self, buffers, allow_empty=allow_empty)

    def element_dtype(self, name: str) -> np.dtype[Any] | None:
        """Return the type of a structure in a buffer, laid out as the shader has it, or of a number; None if bytes must do."""
        binding = self._named(name)
        return binding.dtype if binding.layout is None else binding.layout.elements.dtype

    def pack(self, name: str, values: object) -> NDArray[Any]:
        """Return the memory of a buffer that holds these values, which are given as in a call; see ``contents.pack``."""
        return contents.pack(self._named(name), values)

    def unpack(self, name: str, memory: object) -> NDArray[Any]:
        """Return the values in the bytes of a buffer; see ``contents.unpack``."""
        return contents.unpack(self._named(name), memory)

    def _named(self, name: str) -> Binding:
        found = next((one for one in self.bindings if one.name == name), None)
        if found is None:
            names = [one.name for one in self.bindings]
            raise InvalidInput(f"the {self.subject} has no buffer {name!r}", fix=f"name one of {names}", binding=name)
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the public values."""
        parts = (self.bindings, self.input_indices, self.output_indices, self.shared_indices, self.subject, self.rules)
        return BindingPlan, parts


def _bind(place: int, buffer: BufferInterface, inputs: Iterator[int], outputs: Iterator[int]) -> Binding:
    written = BindingRole.INPUT_OUTPUT if buffer.readable else BindingRole.OUTPUT
    role = written if buffer.writable else BindingRole.INPUT
    return Binding(
        name=buffer.name,
        binding=buffer.binding,
        buffer_index=place,
        role=role,
        element_size=buffer.element.stride,
        preferred_alignment=max(buffer.element.stride, 1),
        element_count=buffer.count or 0,
        static_byte_len=buffer.header_bytes + buffer.count * buffer.element.stride if buffer.count else None,
        input_index=next(inputs) if role.consumes_input else None,
        output_index=next(outputs) if role.produces_output else None,
        header_bytes=buffer.header_bytes,
        element=buffer.element,
        view_byte_len=buffer.least_bytes,
        restrict=buffer.restrict,
        block=buffer.block,
        views=buffer.views,
    )
