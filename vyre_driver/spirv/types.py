"""The types and constants of a module as values: the layout of buffers, the size of shared memory, numbers and formulas.

A formula gives what depends on specialization constants: it is a list of steps, each on numbers that earlier ones gave; the
last gives the result. Steps that a module shares are shared, so its size is bounded by the module's. What is undefined
(division by 0, shifts by the width or more) gives 0, which no size may be.

Every question about a bad type raises InvalidModule: types that are none, that contain themselves, that lack their layout. One
about a float of an encoding that this driver does not know raises UnsupportedFeature.
Source: SPIR-V 1.6, 2.16.2 (explicit layout), 3.42.6 (types), 3.42.7 (constants), 3.42.13 (arithmetic);
Vulkan 1.3, "Standard Storage Buffer Layout".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from vyre_driver.errors import UnsupportedFeature
from vyre_driver.spirv.declarations import Constant, Declarations, Instruction, invalid
from vyre_driver.spirv.layout import Address, Array, Matrix, Member, MemoryType, Scalar, Struct, Vector
from vyre_driver.spirv.opcodes import Decoration, Ins, Op, StorageClass

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


# Steps of our own beside SPIR-V's opcodes: a number, a specialization constant, and the arithmetic of sizes, which never wraps.
NUMBER, CONSTANT, PRODUCT, SUM, ALIGNED = -1, -2, -3, -4, -5


class Step(NamedTuple):
    """An operation, the bits of its operands and of its result (0: unbounded), and its operands.

    Operands are places of earlier steps; of ``NUMBER`` the number, of ``CONSTANT`` the SpecId and the default.
    """

    op: int
    operand_bits: int
    bits: int
    operands: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Formula:
    """The steps to a number."""

    steps: tuple[Step, ...]

    @property
    def is_specialized(self) -> bool:
        """Whether a specialization constant has a part in it."""
        return any(step.op == CONSTANT for step in self.steps)

    def value(self, words: Sequence[int] = ()) -> int:
        """Return the number, given the constants' bits by SpecId; those that are left out have their defaults."""
        found: list[int] = []
        for step in self.steps:
            if step.op == CONSTANT:
                spec_id, default = step.operands
                found.append(words[spec_id] if spec_id < len(words) else default)
            else:
                found.append(_apply(step, step.operands if step.op == NUMBER else [found[at] for at in step.operands]))
        return found[-1]


def _apply(step: Step, numbers: Sequence[int]) -> int:
    result = numbers[0] if step.op == NUMBER else _MEANING[step.op](step.operand_bits, *numbers)
    return result & (1 << step.bits) - 1 if step.bits else result


class FormulaBuilder:
    """Collects the steps of one module; the same step is there once."""

    def __init__(self) -> None:
        """Start without any."""
        self._steps: list[Step] = []
        self._places: dict[Step, int] = {}

    def add(self, op: int, operands: Sequence[int], operand_bits: int = 0, bits: int = 0) -> int:
        """Return the place of a step; one on numbers alone is worked out at once."""
        step = Step(op, operand_bits, bits, tuple(operands))
        if op not in {NUMBER, CONSTANT} and all(self._steps[at].op == NUMBER for at in operands):
            step = Step(NUMBER, 0, 0, (_apply(step, [self._steps[at].operands[0] for at in operands]),))
        place = self._places.setdefault(step, len(self._steps))
        if place == len(self._steps):
            self._steps.append(step)
        return place

    def formula(self, place: int) -> Formula:
        """Return the steps that lead to a place."""
        needed, waiting = set[int](), [place]
        while waiting:
            at = waiting.pop()
            if at not in needed:
                needed.add(at)
                waiting.extend(self._steps[at].operands if self._steps[at].op not in {NUMBER, CONSTANT} else ())
        moved = {at: number for number, at in enumerate(sorted(needed))}
        return Formula(tuple(self._moved(self._steps[at], moved) for at in sorted(needed)))

    def _moved(self, step: Step, moved: Mapping[int, int]) -> Step:
        own = step.op in {NUMBER, CONSTANT}
        return step if own else step._replace(operands=tuple(moved[at] for at in step.operands))


def _signed(bits: int, number: int) -> int:
    return number - (1 << bits) if bits and number >> bits - 1 else number


def _divided(a: int, b: int) -> int:
    """Towards zero, as SPIR-V divides signed numbers."""
    return (abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1) if b else 0


def _signed_rule(rule: Callable[[int, int], int]) -> Callable[[int, int, int], int]:
    return lambda bits, a, b: rule(_signed(bits, a), _signed(bits, b))


# Opcode -> its meaning: of the operands' width, then the operands as unsigned numbers; the result is cut to its width.
_MEANING: dict[int, Callable[..., int]] = {
    PRODUCT: lambda _, a, b: a * b,
    SUM: lambda _, a, b: a + b,
    ALIGNED: lambda _, a, b: -(-a // b) * b,
    113: lambda _, a: a,
    114: _signed,
    126: lambda _, a: -a,
    128: lambda _, a, b: a + b,
    130: lambda _, a, b: a - b,
    132: lambda _, a, b: a * b,
    134: lambda _, a, b: a // b if b else 0,
    135: _signed_rule(_divided),
    137: lambda _, a, b: a % b if b else 0,
    138: _signed_rule(lambda a, b: a - b * _divided(a, b)),
    139: _signed_rule(lambda a, b: a % b if b else 0),
    164: lambda _, a, b: a == b,
    165: lambda _, a, b: a != b,
    166: lambda _, a, b: a | b,
    167: lambda _, a, b: a & b,
    168: lambda _, a: not a,
    169: lambda _, which, a, b: a if which else b,
    170: lambda _, a, b: a == b,
    171: lambda _, a, b: a != b,
    172: lambda _, a, b: a > b,
    173: _signed_rule(lambda a, b: a > b),
    174: lambda _, a, b: a >= b,
    175: _signed_rule(lambda a, b: a >= b),
    176: lambda _, a, b: a < b,
    177: _signed_rule(lambda a, b: a < b),
    178: lambda _, a, b: a <= b,
    179: _signed_rule(lambda a, b: a <= b),
    194: lambda bits, a, b: a >> b if b < bits else 0,
    195: lambda bits, a, b: _signed(bits, a) >> b if b < bits else 0,
    196: lambda bits, a, b: a << b if b < bits else 0,
    197: lambda _, a, b: a | b,
    198: lambda _, a, b: a ^ b,
    199: lambda _, a, b: a & b,
    200: lambda _, a: ~a,
}
OPERANDS = {op: 3 if op == 169 else 1 if op in {113, 114, 126, 168, 200} else 2 for op in _MEANING if op > 0}


_DEEPEST_CONSTANT = 64
_PLAIN = frozenset({Op.Constant, Op.ConstantTrue, Op.ConstantFalse, Op.ConstantComposite})
_COMPOSITES = frozenset({Op.ConstantComposite, Op.SpecConstantComposite})
_TRUTHS = {Op.ConstantTrue: 1, Op.ConstantFalse: 0, Op.SpecConstantTrue: 1, Op.SpecConstantFalse: 0}
_WORD_BITS = 32


def scalar_bits(found: Constant, width: int) -> int | None:
    """Return the bits of a scalar or truth value; None for all else, and for one of fewer words than its type's width takes."""
    if found.op in _TRUTHS:
        return _TRUTHS[Op(found.op)]
    if found.op not in {Op.Constant, Op.SpecConstant} or len(found.operands) * _WORD_BITS < width:
        return None
    return sum(word << _WORD_BITS * at for at, word in enumerate(found.operands)) & (1 << width) - 1


class ConstantTable:
    """Answers about the constants of one module; a bad one raises InvalidModule."""

    def __init__(self, declarations: Declarations, source: str) -> None:
        """Look constants up in ``declarations``; ``source`` names the module in errors."""
        self._in = declarations
        self._constant = declarations.constant
        self._source = source
        self._found: dict[int, int | None] = {}
        self.builder = FormulaBuilder()

    def number(self, constant_id: int) -> int:
        """Return a 32-bit scalar constant's value; a specialization constant gives its default."""
        found = self._constant(constant_id)
        if found is None or found.op not in {Op.Constant, Op.SpecConstant}:
            raise invalid(self._source, f"%{constant_id} is used as a number and is not a scalar constant")
        return found.operands[0]

    def formula(self, constant_id: int) -> Formula | None:
        """Return how a computed constant follows from others; None if it is none, or does not follow from integers."""
        found = self._constant(constant_id)
        place = self.place(constant_id) if found is not None and found.op == Op.SpecConstantOp else None
        return None if place is None else self.builder.formula(place)

    def is_specialized(self, constant_id: int) -> bool:
        """Whether a constant's value may differ from ``number``."""
        found = self._constant(constant_id)
        return found is not None and found.op not in _PLAIN

    def array_length(self, constant_id: int) -> int | None:
        """Return the number of elements that a length constant gives an array, at least 1.

        One that is computed is of the defaults, and None where it does not follow from integers.
        """
        found = self._constant(constant_id)
        if found is not None and found.op == Op.SpecConstantOp:
            formula = self.formula(constant_id)
            length = None if formula is None else formula.value()
        else:
            length = self.number(constant_id)
        if length is not None and length < 1:
            raise invalid(self._source, f"%{constant_id} gives an array no elements")
        return length

    def place(self, constant_id: int, depth: int = 0) -> int | None:
        """Return the step of ``builder`` that gives an integer or truth value; None for all else."""
        if constant_id not in self._found:
            found = self._constant(constant_id)
            self._found[constant_id] = None if found is None else self._placed(constant_id, found, depth)
        return self._found[constant_id]

    def _placed(self, constant_id: int, found: Constant, depth: int) -> int | None:
        bits = self._bits(found.type_id)
        if bits is None or depth > _DEEPEST_CONSTANT:
            return None
        if found.op == Op.SpecConstantOp:
            return self._computed(found, bits, depth)
        value = scalar_bits(found, bits)
        if value is None:
            return None
        spec_id = self._in.decorations.get(constant_id, {}).get(Decoration.SPEC_ID)
        if spec_id and found.op not in _PLAIN:
            return self.builder.add(CONSTANT, (spec_id[0], value))
        return self.builder.add(NUMBER, (value,))

    def _computed(self, found: Constant, bits: int, depth: int) -> int | None:
        opcode, *operands = found.operands
        if opcode == Ins.CompositeExtract:
            return self._extracted(operands, depth)
        if OPERANDS.get(opcode) != len(operands):
            return None
        places = [self.place(one, depth + 1) for one in operands]
        last = self._constant(operands[-1])  # of a selection the first operand has another type
        operand_bits = None if last is None or opcode in _SHIFTS else self._bits(last.type_id)
        known = [place for place in places if place is not None]
        if len(known) < len(places):
            return None
        return self.builder.add(opcode, known, operand_bits or bits, bits)

    def _extracted(self, operands: Sequence[int], depth: int) -> int | None:
        """Return the number at a place in a composite constant."""
        if not operands:
            return None
        at, *path = operands
        for index in path:
            found = self._constant(at)
            if found is None or found.op not in _COMPOSITES or index >= len(found.operands):
                return None
            at = found.operands[index]
        return self.place(at, depth + 1)

    def _bits(self, type_id: int) -> int | None:
        """Return the width of a type of integers, 1 for truth values; None for other types."""
        found = self._in.type(type_id)
        if found is None or found.op not in {Op.TypeInt, Op.TypeBool}:
            return None
        return 1 if found.op == Op.TypeBool else found.operands[0]


_SHIFTS = frozenset({194, 195, 196})  # shifted by a number of any width


_MAX_NESTING = 32
_INT_BITS = frozenset({8, 16, 32, 64})
_FLOAT_BITS = frozenset({16, 32, 64})
# FP encoding -> kind of scalar and width (SPV_KHR_bfloat16; SPV_EXT_float8); without an operand it is IEEE 754's.
_ENCODINGS = {0: ("bf", 16), 4214: ("e4m3", 8), 4215: ("e5m2", 8)}
_MIN_COMPONENTS, _MAX_COMPONENTS = 2, 16
_MAX_BYTES = 1 << 40
_MAX_PARTS = 1 << 16


class TypeTable:
    """Answers about the types of one module."""

    def __init__(self, declarations: Declarations, source: str) -> None:
        """Look types up in ``declarations``; ``source`` names the module in errors."""
        self._in = declarations
        self._source = source
        self.constants = ConstantTable(declarations, source)
        self._layouts: dict[tuple[int, int, bool], tuple[MemoryType, int]] = {}
        self._shared: dict[int, tuple[int, int]] = {}
        self._sized: dict[int, bool] = {}
        self._places: dict[int, int | None] = {}

    def instruction(self, type_id: int) -> Instruction:
        """Return the instruction that declares the type."""
        found = self._in.type(type_id)
        if found is None:
            raise invalid(self._source, f"%{type_id} is used as a type and is none")
        return found

    def scalar(self, type_id: int) -> Scalar | None:
        """Return the scalar that the type is, or None."""
        op, operands = self.instruction(type_id)
        if op == Op.TypeInt:
            self._check_width(type_id, operands[0], _INT_BITS)
            return Scalar("i" if operands[1] else "u", operands[0])
        if op == Op.TypeFloat:
            return self._float(type_id, *operands[:2])
        return Scalar("b", 32) if op == Op.TypeBool else None

    def _float(self, type_id: int, bits: int, encoding: int | None = None) -> Scalar:
        if encoding is None:
            self._check_width(type_id, bits, _FLOAT_BITS)
            return Scalar("f", bits)
        if encoding not in _ENCODINGS:
            raise UnsupportedFeature(
                f"{self._source} has floats of {bits} bits in FP encoding {encoding}, which this driver does not know",
                fix="keep them as unsigned integers of their width",
                source=self._source,
            )
        kind, width = _ENCODINGS[encoding]
        self._check_width(type_id, bits, frozenset({width}))
        return Scalar(kind, bits)

    def struct(self, type_id: int) -> Struct:
        """Return a structure with the layout of its members."""
        found = self._layout(type_id, 0, 0, row_major=False)[0]
        if not isinstance(found, Struct):
            raise invalid(self._source, f"type %{type_id} is used as a structure and is none")
        return found

    def _layout(self, type_id: int, matrix_stride: int, depth: int, *, row_major: bool) -> tuple[MemoryType, int]:
        """Return the type with its layout, and of how many parts it consists with all that they hold.

        ``matrix_stride`` and ``row_major`` are the decorations of the member that holds it.
        """
        self._check_depth(depth)
        key = type_id, matrix_stride, row_major
        found = self._layouts.get(key)
        if found is None:
            found = self._lay_out(type_id, matrix_stride, depth, row_major=row_major)
            if found[0].byte_len > _MAX_BYTES:
                raise invalid(self._source, f"type %{type_id} takes {found[0].byte_len} bytes, more than any device has")
            if found[1] > _MAX_PARTS:
                raise invalid(self._source, f"type %{type_id} consists of {found[1]} parts, more than {_MAX_PARTS}")
            self._layouts[key] = found
        return found

    def _lay_out(self, type_id: int, matrix_stride: int, depth: int, *, row_major: bool) -> tuple[MemoryType, int]:
        scalar = self.scalar(type_id)
        if scalar is not None:
            return scalar, 1
        op, operands = self.instruction(type_id)
        match op:
            case Op.TypeVector:
                return Vector(self._component(operands[0], depth), self._width_of(type_id, operands[1])), 1
            case Op.TypeMatrix:
                return self._matrix(type_id, operands, matrix_stride, depth, row_major=row_major), 1
            case Op.TypeArray:
                element, parts = self._layout(operands[0], matrix_stride, depth + 1, row_major=row_major)
                is_specialized = self.constants.is_specialized(operands[1])
                count = self.constants.array_length(operands[1])
                return Array(element, count, self._array_stride(type_id), is_specialized), parts + 1
            case Op.TypeRuntimeArray:
                element, parts = self._layout(operands[0], matrix_stride, depth + 1, row_major=row_major)
                return Array(element, None, self._array_stride(type_id)), parts + 1
            case Op.TypeStruct:
                return self._struct(type_id, operands, depth)
            case Op.TypePointer if operands[0] == StorageClass.PHYSICAL_STORAGE_BUFFER:
                return Address(), 1
        raise invalid(self._source, f"type %{type_id} has no size in a buffer")

    def _component(self, type_id: int, depth: int) -> Scalar:
        self._check_depth(depth + 1)
        scalar = self.scalar(type_id)
        if scalar is None:
            raise invalid(self._source, f"%{type_id} is the type of a vector's components and is not a scalar")
        return scalar

    def _matrix(self, type_id: int, operands: Sequence[int], stride: int, depth: int, *, row_major: bool) -> Matrix:
        columns = self._width_of(type_id, operands[1])
        column, _ = self._layout(operands[0], 0, depth + 1, row_major=False)
        if not isinstance(column, Vector):
            raise invalid(self._source, f"matrix type %{type_id} has columns that are not vectors")
        rows = column.components
        stride = max(stride, 0 if row_major else column.byte_len)
        if self._in.stores_rows_as_columns:
            columns, rows, row_major = rows, columns, not row_major
        return Matrix(column.scalar, columns, rows, stride, row_major)

    def _struct(self, type_id: int, operands: Sequence[int], depth: int) -> tuple[Struct, int]:
        members = []
        total, end = 1, 0
        for at, member_type in enumerate(operands):
            decorations = self._in.member_decorations.get((type_id, at), {})
            stride = decorations.get(Decoration.MATRIX_STRIDE)
            row_major = Decoration.ROW_MAJOR in decorations
            found, parts = self._layout(member_type, stride[0] if stride else 0, depth + 1, row_major=row_major)
            offset = self._member_offset(type_id, at)
            total, end = total + parts, max(end, offset + found.byte_len)
            members.append(
                Member(
                    self._in.member_names.get((type_id, at)) or f"member_{at}",
                    offset,
                    found,
                    readable=Decoration.NON_READABLE not in decorations,
                    writable=Decoration.NON_WRITABLE not in decorations,
                )
            )
        return Struct(self._in.names.get(type_id, ""), tuple(members), end), total

    def _array_stride(self, type_id: int) -> int:
        decoration = self._in.decorations.get(type_id, {}).get(Decoration.ARRAY_STRIDE)
        if not decoration or decoration[0] == 0:
            raise invalid(self._source, f"array type %{type_id} in a buffer has no stride")
        return decoration[0]

    def _member_offset(self, struct_id: int, member: int) -> int:
        decoration = self._in.member_decorations.get((struct_id, member), {}).get(Decoration.OFFSET)
        if not decoration:
            raise invalid(self._source, f"member {member} of structure %{struct_id} in a buffer has no offset")
        return decoration[0]

    def shared_size(self, type_id: int, depth: int = 0) -> tuple[int, int]:
        """Return (bytes, alignment) of a value in workgroup memory by the rules of storage buffers, truth values as words.

        Lengths that specialization constants decide count by their defaults.
        """
        self._check_depth(depth)
        found = self._shared.get(type_id)
        if found is None:
            found = self._measure_shared(type_id, depth)
            if found[0] > _MAX_BYTES:
                raise invalid(self._source, f"type %{type_id} takes {found[0]} bytes, more than any device has")
            self._shared[type_id] = found
        return found

    def _measure_shared(self, type_id: int, depth: int) -> tuple[int, int]:
        scalar = self.scalar(type_id)
        if scalar is not None:
            return scalar.byte_len, scalar.byte_len
        op, operands = self.instruction(type_id)
        match op:
            case Op.TypeVector:
                size = self._component(operands[0], depth).byte_len
                width = self._width_of(type_id, operands[1])
                return size * width, size * (2 if width == _MIN_COMPONENTS else 4)
            case Op.TypeMatrix:
                size, alignment = self.shared_size(operands[0], depth + 1)
                return _aligned(size, alignment) * self._width_of(type_id, operands[1]), alignment
            case Op.TypeArray:
                size, alignment = self.shared_size(operands[0], depth + 1)
                return _aligned(size, alignment) * (self.constants.array_length(operands[1]) or 0), alignment
            case Op.TypeStruct:
                end, widest = 0, 1
                for member in operands:
                    size, alignment = self.shared_size(member, depth + 1)
                    end, widest = _aligned(end, alignment) + size, max(widest, alignment)
                return _aligned(end, widest), widest
        raise invalid(self._source, f"type %{type_id} has no size in workgroup memory")

    def shared_formula(self, type_id: int) -> Formula | None:
        """Return how the bytes that ``shared_size`` tells follow from constants; None where no integers give a length."""
        place = self._shared_place(type_id)
        return None if place is None else self.constants.builder.formula(place)

    def _shared_place(self, type_id: int) -> int | None:
        """The types were measured before: they nest within bounds."""
        if type_id not in self._places:
            self._places[type_id] = self._sum_shared(type_id)
        return self._places[type_id]

    def _sum_shared(self, type_id: int) -> int | None:
        add = self.constants.builder.add
        size, widest = self.shared_size(type_id)
        if not self.is_sized_by_constants(type_id):
            return add(NUMBER, (size,))
        op, operands = self.instruction(type_id)
        if op == Op.TypeArray:
            element, count = self._shared_place(operands[0]), self.constants.place(operands[1])
            alignment = add(NUMBER, (self.shared_size(operands[0])[1],))
            return None if element is None or count is None else add(PRODUCT, (add(ALIGNED, (element, alignment)), count))
        end = add(NUMBER, (0,))
        for member in operands:
            inner, alignment = self._shared_place(member), add(NUMBER, (self.shared_size(member)[1],))
            if inner is None:
                return None
            end = add(SUM, (add(ALIGNED, (end, alignment)), inner))
        return add(ALIGNED, (end, add(NUMBER, (widest,))))

    def is_sized_by_constants(self, type_id: int, depth: int = 0) -> bool:
        """Whether specialization constants decide the length of an array in the type."""
        self._check_depth(depth)
        found = self._sized.get(type_id)
        if found is None:
            op, operands = self.instruction(type_id)
            inner = operands if op == Op.TypeStruct else operands[:1] if op == Op.TypeArray else ()
            found = op == Op.TypeArray and self.constants.is_specialized(operands[1])
            found = found or any(self.is_sized_by_constants(one, depth + 1) for one in inner)
            self._sized[type_id] = found
        return found

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


def _aligned(offset: int, alignment: int) -> int:
    return -(-offset // alignment) * alignment
