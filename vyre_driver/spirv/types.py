"""Sizes and element types of SPIR-V types with an explicit layout, as buffers have it.

Source: SPIR-V 1.6, 2.16.2 (explicit layout decorations Offset, ArrayStride, MatrixStride).
"""

from __future__ import annotations

import operator
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from vyre_driver.spirv.declarations import invalid
from vyre_driver.spirv.opcodes import Decoration, Op

if TYPE_CHECKING:
    import array

    from vyre_driver.spirv.declarations import Declarations, Instruction

_MAX_NESTING = 32
_INT_BITS = frozenset({8, 16, 32, 64})
_FLOAT_BITS = frozenset({16, 32, 64})
_MIN_COMPONENTS, _MAX_COMPONENTS = 2, 16
_MAX_BYTES = 1 << 40


@dataclass(frozen=True, slots=True)
class Scalar:
    """A scalar type: ``kind`` is ``u``, ``i``, ``f`` or ``b`` (bool), ``bits`` its width (32 for bool)."""

    kind: str
    bits: int

    def __str__(self) -> str:
        """Return the short name, for example ``f32``."""
        return "bool" if self.kind == "b" else f"{self.kind}{self.bits}"

    @property
    def dtype(self) -> str | None:
        """The numpy type string of the scalar in a buffer, or None where numpy has none (bool has no layout)."""
        return None if self.kind == "b" else f"<{self.kind}{self.bits // 8}"

    def encode(self, value: object) -> int:
        """Return the 32 bits that stand for ``value``.

        Integers take whole numbers in range, floats any real number in range, bools only True and False.

        Raises
        ------
        TypeError
            If the value is of another kind (a float for an integer, a number for a bool).
        OverflowError
            If it is out of range.
        """
        if self.kind == "b":
            if not isinstance(value, (bool, np.bool_)):
                raise TypeError(f"{value!r} is not True or False")
            return int(value)
        if isinstance(value, (bool, np.bool_)):
            raise TypeError(f"{value!r} is a truth value, not a number")
        if self.kind == "f":
            if not isinstance(value, (int, float, np.integer, np.floating)):
                raise TypeError(f"{value!r} is not a real number")
            return int.from_bytes(struct.pack("<f", float(value)), "little")
        return self._encode_integer(operator.index(value))  # type: ignore[arg-type]

    def parse(self, text: str) -> int | float | bool:
        """Return the value that a user's text means: ``12``, ``0xff``, ``-1``, ``2.5``, ``true``.

        Raises
        ------
        ValueError
            If the text is no such value; its range is checked by ``encode``.
        """
        if self.kind == "b":
            if text.lower() not in {"true", "false", "1", "0"}:
                raise ValueError(f"{text!r} is not true or false")
            return text.lower() in {"true", "1"}
        return float(text) if self.kind == "f" else int(text, 0)

    def _encode_integer(self, value: int) -> int:
        low, high = (0, 2**32 - 1) if self.kind == "u" else (-(2**31), 2**31 - 1)
        if not low <= value <= high:
            raise OverflowError(f"{value} is not between {low} and {high}")
        return value & 0xFFFF_FFFF


@dataclass(frozen=True, slots=True)
class Element:
    """What one element of a buffer is.

    ``stride`` is bytes from one element to the next. ``scalar`` and ``components`` say that an element is so many tightly
    packed scalars; ``scalar`` is None for structures and padded types, which travel as raw bytes.
    """

    stride: int
    scalar: Scalar | None
    components: int


class TypeTable:
    """Answers about the types of one module; every question about a bad type raises InvalidModule."""

    def __init__(self, declarations: Declarations, source: str) -> None:
        """Look types up in ``declarations``; ``source`` names the module in errors."""
        self._declarations = declarations
        self._source = source
        self._byte_lens: dict[tuple[int, int, bool], int] = {}

    def instruction(self, type_id: int) -> Instruction:
        """Return the instruction that declares the type."""
        found = self._declarations.types.get(type_id)
        if found is None:
            raise invalid(self._source, f"%{type_id} is used as a type and is none")
        return found

    def constant(self, constant_id: int) -> int:
        """Return a 32-bit scalar constant's value; a specialization constant gives its default."""
        found = self._declarations.constants.get(constant_id)
        if found is None or found.op not in {Op.Constant, Op.SpecConstant}:
            raise invalid(self._source, f"%{constant_id} is used as a number and is no scalar constant")
        return found.operands[0]

    def is_specialized(self, constant_id: int) -> bool:
        """Whether a constant's value may be another than ``constant`` tells."""
        found = self._declarations.constants.get(constant_id)
        return found is not None and found.op not in {Op.Constant, Op.ConstantTrue, Op.ConstantFalse, Op.ConstantComposite}

    def array_length(self, constant_id: int) -> int:
        """Return the number of elements that a length constant gives an array, at least 1."""
        length = self.constant(constant_id)
        if length < 1:
            raise invalid(self._source, f"%{constant_id} gives an array no elements")
        return length

    def scalar(self, type_id: int) -> Scalar | None:
        """Return the scalar that the type is, or None."""
        op, operands = self.instruction(type_id)
        if op == Op.TypeInt:
            self._check_width(type_id, operands[0], _INT_BITS)
            return Scalar("i" if operands[1] else "u", operands[0])
        if op == Op.TypeFloat:
            self._check_width(type_id, operands[0], _FLOAT_BITS)
            return Scalar("f", operands[0])
        return Scalar("b", 32) if op == Op.TypeBool else None

    def packed(self, type_id: int, depth: int = 0) -> tuple[Scalar, int] | None:
        """Return (scalar, how many) when the type is nothing but tightly packed scalars of one kind, else None."""
        self._check_depth(depth)
        scalar = self.scalar(type_id)
        if scalar is not None:
            return scalar, 1
        op, operands = self.instruction(type_id)
        if op == Op.TypeVector:
            inner = self.packed(operands[0], depth + 1)
            return None if inner is None else (inner[0], inner[1] * self._width_of(type_id, operands[1]))
        if op == Op.TypeArray:
            inner = self.packed(operands[0], depth + 1)
            if inner is None or self.array_stride(type_id) * 8 != inner[0].bits * inner[1]:
                return None
            return inner[0], inner[1] * self.array_length(operands[1])
        return None

    def byte_len(self, type_id: int, matrix_stride: int = 0, depth: int = 0, *, row_major: bool = False) -> int:
        """Return the bytes a value of the type takes; a run-time array counts as none.

        ``matrix_stride`` and ``row_major`` are the decorations of the member that holds it.
        """
        self._check_depth(depth)
        known = self._byte_lens.get((type_id, matrix_stride, row_major))
        if known is not None:
            return known
        size = self._measure(type_id, matrix_stride, depth, row_major=row_major)
        if size > _MAX_BYTES:
            raise invalid(self._source, f"type %{type_id} takes {size} bytes, more than any device has")
        self._byte_lens[type_id, matrix_stride, row_major] = size
        return size

    def _measure(self, type_id: int, matrix_stride: int, depth: int, *, row_major: bool) -> int:
        scalar = self.scalar(type_id)
        if scalar is not None:
            return scalar.bits // 8
        op, operands = self.instruction(type_id)
        match op:
            case Op.TypeVector:
                return self._width_of(type_id, operands[1]) * self.byte_len(operands[0], 0, depth + 1)
            case Op.TypeMatrix:
                columns = self._width_of(type_id, operands[1])
                column = self.instruction(operands[0]).operands
                rows = column[1] if len(column) > 1 else 1
                packed_row = self.byte_len(operands[0], 0, depth + 1)
                return (rows if row_major else columns) * max(matrix_stride, 0 if row_major else packed_row)
            case Op.TypeArray:
                return self.array_length(operands[1]) * self.array_stride(type_id)
            case Op.TypeRuntimeArray:
                return 0
            case Op.TypeStruct:
                return self._struct_byte_len(type_id, operands, depth)
        raise invalid(self._source, f"type %{type_id} has no size in a buffer")

    def array_stride(self, type_id: int) -> int:
        """Return the ArrayStride of an array type in bytes, at least 1."""
        decoration = self._declarations.decorations.get(type_id, {}).get(Decoration.ARRAY_STRIDE)
        if not decoration or decoration[0] == 0:
            raise invalid(self._source, f"array type %{type_id} in a buffer has no stride")
        return decoration[0]

    def member_offset(self, struct_id: int, member: int) -> int:
        """Return the Offset of a structure's member in bytes."""
        decoration = self._declarations.member_decorations.get((struct_id, member), {}).get(Decoration.OFFSET)
        if not decoration:
            raise invalid(self._source, f"member {member} of structure %{struct_id} in a buffer has no offset")
        return decoration[0]

    def element(self, array_id: int) -> Element:
        """Return what one element of an array type is."""
        stride = self.array_stride(array_id)
        packed = self.packed(self.instruction(array_id).operands[0])
        if packed is None or packed[0].dtype is None or packed[0].bits * packed[1] != stride * 8:
            return Element(stride, None, stride)
        return Element(stride, *packed)

    def _struct_byte_len(self, type_id: int, operands: array.array[int], depth: int) -> int:
        end = 0
        for member, member_type in enumerate(operands):
            decorations = self._declarations.member_decorations.get((type_id, member), {})
            stride = decorations.get(Decoration.MATRIX_STRIDE)
            row_major = Decoration.ROW_MAJOR in decorations
            size = self.byte_len(member_type, stride[0] if stride else 0, depth + 1, row_major=row_major)
            end = max(end, self.member_offset(type_id, member) + size)
        return end

    def _check_width(self, type_id: int, bits: int, allowed: frozenset[int]) -> None:
        if bits not in allowed:
            raise invalid(self._source, f"type %{type_id} is a number of {bits} bits")

    def _width_of(self, type_id: int, components: int) -> int:
        if not _MIN_COMPONENTS <= components <= _MAX_COMPONENTS:
            raise invalid(self._source, f"type %{type_id} has {components} components")
        return components

    def _check_depth(self, depth: int) -> None:
        if depth > _MAX_NESTING:
            raise invalid(self._source, f"its types nest deeper than {_MAX_NESTING}")
