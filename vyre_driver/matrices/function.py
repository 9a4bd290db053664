"""The one function of a kernel, written instruction by instruction: numbers, structured blocks, memory, inputs, and fragments.

A whole number is a Python int where it is known when the kernel is emitted, else a :class:`Word`; what follows from ints alone
is worked out at once. Drivers find common subexpressions themselves. From outside a kernel has storage buffers in descriptor
set 0, and push constants, both by name.

Fragments are matrices that a subgroup holds in registers, each invocation some elements, nobody knows which. What is the same
for all elements is done to each where it is; what depends on the row or column takes a fragment that holds the row's or
column's number in all its places. Such fragments come from an array in memory, read with a stride of 0.

Source: SPIR-V 1.6, 2.11 (structured control flow), 3.25 (memory semantics), 3.26 (memory operands of the Vulkan memory model);
SPV_KHR_cooperative_matrix.
"""

from __future__ import annotations

import struct
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from vyre_driver.matrices.elements import VECTOR_BYTES
from vyre_driver.spirv.builder import FunctionBody
from vyre_driver.spirv.opcodes import (
    ENTRY_POINT,
    GL_COMPUTE,
    LOOP_CONTROL_UNROLL,
    MODE_LOCAL_SIZE,
    BuiltIn,
    Decoration,
    Glsl,
    Ins,
    Op,
    Scope,
    Semantics,
    StorageClass,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vyre_driver.matrices.elements import ElementType
    from vyre_driver.spirv.builder import ModuleBuilder


LOOP_CONTROL_DONT_UNROLL = 2
_ALL_BITS = 0xFFFF_FFFF
# Declared first, so that kernels, and the keys of their pipelines, are those of earlier releases.
_TYPES = ((Op.TypeVoid,), (Op.TypeBool,), (Op.TypeInt, 32, 0), (Op.TypeInt, 32, 1), (Op.TypeFloat, 32))
_ALL_IN_INTERFACE = 0x0001_0400  # the version from which on an entry point names all global variables


class Word:
    """A u32 that is known when the kernel runs. Operators emit instructions; all are modulo 2**32."""

    __slots__ = ("_function", "id")

    def __init__(self, function: Function, number: int) -> None:
        """Be the value of this id."""
        self._function = function
        self.id = number

    def __add__(self, other: Index) -> Index:
        """Return the sum."""
        return self if _is(other, 0) else self._function.word(Ins.IAdd, self, other)

    __radd__ = __add__

    def __sub__(self, other: Index) -> Index:
        """Return the difference."""
        return self if _is(other, 0) else self._function.word(Ins.ISub, self, other)

    def __rsub__(self, other: int) -> Index:
        """Return the difference."""
        return self._function.word(Ins.ISub, other, self)

    def __mul__(self, other: Index) -> Index:
        """Return the product."""
        if _is(other, 0):
            return 0
        return self if _is(other, 1) else self._function.word(Ins.IMul, self, other)

    __rmul__ = __mul__

    def __floordiv__(self, other: Index) -> Index:
        """Return the quotient; undefined for 0."""
        return self if _is(other, 1) else self._function.word(Ins.UDiv, self, other)

    def __rfloordiv__(self, other: int) -> Index:
        """Return the quotient; undefined for 0."""
        return self._function.word(Ins.UDiv, other, self)

    def __rmod__(self, other: int) -> Index:
        """Return the remainder; undefined for 0."""
        return self._function.word(Ins.UMod, other, self)

    def __mod__(self, other: Index) -> Index:
        """Return the remainder; undefined for 0."""
        return 0 if _is(other, 1) else self._function.word(Ins.UMod, self, other)


Index: TypeAlias = "int | Word"


def _is(other: Index, number: int) -> bool:
    return isinstance(other, int) and other == number


def ceil_div(x: Index, by: int) -> Index:
    """Return the quotient, rounded up; the sum of both is below 2**32."""
    return (x + (by - 1)) // by


class Function(FunctionBody):
    """The body of ``main``."""

    def __init__(self, module: ModuleBuilder) -> None:
        """Begin with an empty block."""
        for opcode, *operands in _TYPES:
            module.type(opcode, *operands)
        super().__init__(module)
        self._interface: list[int] = []
        self._inputs: dict[BuiltIn, int] = {}

    # Values

    def const(self, number: int) -> int:
        """Return the id of a u32."""
        return self.module.constant(Op.Constant, self.u32, number & _ALL_BITS)

    def number(self, value: float) -> int:
        """Return the id of a float32."""
        return self.module.constant(Op.Constant, self.f32, *struct.unpack("<I", struct.pack("<f", value)))

    def id_of(self, index: Index) -> int:
        """Return the id of a whole number."""
        return self.const(index) if isinstance(index, int) else index.id

    def as_word(self, number: int) -> Word:
        """Return the u32 of an id."""
        return Word(self, number)

    def word(self, opcode: int, *operands: Index) -> Word:
        """Return the u32 that an instruction makes of whole numbers."""
        return Word(self, self.result(opcode, self.u32, *map(self.id_of, operands)))

    def least(self, x: Index, y: Index) -> Index:
        """Return the smaller of two whole numbers."""
        if isinstance(x, int) and isinstance(y, int):
            return min(x, y)
        return Word(self, self.glsl(Glsl.UMin, self.u32, self.id_of(x), self.id_of(y)))

    def is_below(self, x: Index, y: Index) -> int:
        """Return the condition that the first is smaller."""
        return self.result(Ins.ULessThan, self.bool, self.id_of(x), self.id_of(y))

    def both(self, one: int, other: int) -> int:
        """Return the condition that two conditions hold."""
        return self.result(Ins.LogicalAnd, self.bool, one, other)

    def fails(self, condition: int) -> int:
        """Return the condition that one does not hold."""
        return self.result(Ins.LogicalNot, self.bool, condition)

    def select(self, type_id: int, condition: int, yes: int, no: int) -> int:
        """Return one value or the other."""
        return self.result(Ins.Select, type_id, condition, yes, no)

    # Memory

    def global_variable(self, storage: int, type_id: int) -> int:
        """Declare a variable outside the function."""
        result = self.module.global_variable(self.pointer(storage, type_id), storage)
        if storage == StorageClass.INPUT or self.module.version >= _ALL_IN_INTERFACE:
            self._interface.append(result)
        return result

    def shared(self, element: int, count: int) -> int:
        """Declare an array that a workgroup shares."""
        return self.global_variable(StorageClass.WORKGROUP, self.module.array_type(Op.TypeArray, element, self.const(count)))

    def variable(self, type_id: int, initial: int = 0, number: int = 0) -> int:
        """Return a variable of each invocation, whose id comes before that of its pointer's type."""
        return super().variable(type_id, initial, number or self.module.new_id())

    def built_in(self, number: BuiltIn) -> Word:
        """Return a u32 that the device gives."""
        return Word(self, self.load(self.u32, self._input(number, self.u32)))

    def built_in_vector(self, number: BuiltIn) -> tuple[Word, Word, Word]:
        """Return three u32 that the device gives."""
        vector = self.module.type(Op.TypeVector, self.u32, 3)
        loaded = self.load(vector, self._input(number, vector))
        x, y, z = (Word(self, self.result(Ins.CompositeExtract, self.u32, loaded, axis)) for axis in range(3))
        return x, y, z

    def _input(self, number: BuiltIn, type_id: int) -> int:
        if number not in self._inputs:
            made = self._inputs[number] = self.global_variable(StorageClass.INPUT, type_id)
            self.module.decorate(made, Decoration.BUILT_IN, number)
        return self._inputs[number]

    def load(self, type_id: int, pointer: int, *memory: int) -> int:
        """Return what a pointer refers to; ``memory`` are memory operands, none of what no other invocation writes."""
        return self.result(Ins.Load, type_id, pointer, *memory)

    def store(self, pointer: int, value: int) -> None:
        """Write a value."""
        self.effect(Ins.Store, pointer, value)

    def at(self, storage: int, element: int, base: int, *indices: Index) -> int:
        """Return a pointer to an element of a variable."""
        return self.result(Ins.AccessChain, self.pointer(storage, element), base, *map(self.id_of, indices))

    def barrier(self, scope: Scope = Scope.WORKGROUP) -> None:
        """Wait for all invocations of a scope, which see each other's shared memory from then on."""
        at = self.const(scope)
        self.effect(Ins.ControlBarrier, at, at, self.const(Semantics.ACQUIRE_RELEASE | Semantics.WORKGROUP_MEMORY))

    # Blocks

    @contextmanager
    def when(self, condition: int) -> Iterator[None]:
        """Do what is emitted inside where a condition holds."""
        merge = self.begin_branch(condition)
        yield
        self.end_block(merge)

    @contextmanager
    def repeat(self, start: Index, stop: Index, step: int, *, is_unrolled: bool = False) -> Iterator[Word]:
        """Repeat what is emitted inside with a u32 from ``start`` while below ``stop``, which no step may pass by 2**32.

        The driver is asked not to unroll the loop, or to do so where ``is_unrolled``.
        """
        loop = self.new_loop()
        index = Word(self, loop.counter)
        self.begin_loop(loop, self.id_of(start), LOOP_CONTROL_UNROLL if is_unrolled else LOOP_CONTROL_DONT_UNROLL)
        self.enter_loop(loop, self.is_below(index, stop))
        yield index
        self.end_loop(loop, self.const(step))

    def finish(self, workgroup: tuple[int, int, int]) -> None:
        """End the function, and make it the entry point for workgroups of so many invocations along each axis."""
        main = self.module.new_id()
        self.module.entry_point(GL_COMPUTE, main, ENTRY_POINT, self._interface)
        self.module.execution_mode(main, MODE_LOCAL_SIZE, *workgroup)
        self.end(main)


_WORD_BYTES = 4
_UPPER_HALF = 1 << 16
_QUIET = 0x40  # of a NaN in bfloat16
_MAGNITUDE, _INFINITY = 0x7FFF_FFFF, 0x7F80_0000  # the bits of a float32 without its sign, and those of infinity


def vector_type(function: Function) -> int:
    """Return the type of 16 bytes, as words."""
    return function.module.type(Op.TypeVector, function.u32, VECTOR_BYTES // _WORD_BYTES)


class StorageBuffer:
    """A buffer of elements without an end that the kernel knows."""

    def __init__(self, function: Function, name: str, binding: int, element: int, stride: int, access: Decoration) -> None:  # noqa: PLR0913 -- made in one place
        """Declare it; ``element`` is the id of their type, ``stride`` their bytes, ``access`` NON_WRITABLE or NON_READABLE."""
        self._f = function
        self._element = element
        module = function.module
        block = module.block((name, module.array_type(Op.TypeRuntimeArray, element, stride=stride), 0))
        module.member_decorate(block, 0, access)
        self._variable = function.global_variable(StorageClass.STORAGE_BUFFER, block)
        module.decorate(self._variable, Decoration.DESCRIPTOR_SET, 0)
        module.decorate(self._variable, Decoration.BINDING, binding)
        module.decorate(self._variable, Decoration.RESTRICT)
        module.name(self._variable, name)

    def at(self, place: Index) -> int:
        """Return a pointer to an element."""
        return self._f.at(StorageClass.STORAGE_BUFFER, self._element, self._variable, 0, place)

    def load(self, place: Index) -> int:
        """Return an element."""
        return self._f.load(self._element, self.at(place))


class NumberBuffer(StorageBuffer):
    """A buffer of numbers that are computed with as float32, or int32 where they are whole.

    It asks for 16 or 8 bits in buffers, and for no arithmetic of so few: bfloat16 is taken as its bits.
    """

    def __init__(self, function: Function, name: str, binding: int, element: ElementType, access: Decoration) -> None:
        """Declare it."""
        for capability in element.stored:
            function.module.capability(capability)
        if element.byte_len == 1:
            function.module.extension("SPV_KHR_8bit_storage")
        self._number = element
        self._bits = function.module.type(Op.TypeInt, 16, 0) if element.is_bfloat else 0
        stored = self._bits or function.module.type(*element.declaration)
        super().__init__(function, name, binding, stored, element.byte_len, access)

    def read(self, place: Index) -> int:
        """Return a number as float32 or int32."""
        f, element, found = self._f, self._number, self.load(place)
        if element.is_bfloat:
            high = f.as_word(f.result(Ins.UConvert, f.u32, found)) * _UPPER_HALF
            return f.result(Ins.Bitcast, f.f32, f.id_of(high))
        if element.byte_len == _WORD_BYTES:
            return found
        return f.result(Ins.FConvert, f.f32, found) if element.is_float else f.result(Ins.SConvert, f.i32, found)

    def write(self, place: Index, number: int) -> None:
        """Store a float32 or int32, rounded to what the buffer has."""
        f, element = self._f, self._number
        if element.is_bfloat:
            number = f.result(Ins.UConvert, self._bits, f.id_of(self._rounded(number)))
        elif element.byte_len < _WORD_BYTES:
            convert = Ins.FConvert if element.is_float else Ins.SConvert
            number = f.result(convert, self._element, number)
        f.store(self.at(place), number)

    def _rounded(self, number: int) -> Word:
        """Return the bits of a float32 rounded to bfloat16, to the nearest and to even; a NaN stays one."""
        f = self._f
        bits = f.as_word(f.result(Ins.Bitcast, f.u32, number))
        near = (bits + (bits // _UPPER_HALF % 2 + (_UPPER_HALF // 2 - 1))) // _UPPER_HALF
        quiet = f.word(Ins.BitwiseOr, bits // _UPPER_HALF, _QUIET)
        # By its bits: NVIDIA's compiler takes a number for equal to itself.
        magnitude = f.word(Ins.BitwiseAnd, bits, _MAGNITUDE)
        is_nan = f.result(Ins.UGreaterThan, f.bool, f.id_of(magnitude), f.id_of(_INFINITY))
        return f.as_word(f.select(f.u32, is_nan, quiet.id, f.id_of(near)))


def push_constants(function: Function, names: tuple[str, ...]) -> dict[str, Word]:
    """Declare u32 that are pushed, one after the other, and return them by name."""
    module = function.module
    block = module.block(*((name, function.u32, _WORD_BYTES * member) for member, name in enumerate(names)))
    variable = function.global_variable(StorageClass.PUSH_CONSTANT, block)
    places = {
        name: function.at(StorageClass.PUSH_CONSTANT, function.u32, variable, member) for member, name in enumerate(names)
    }
    return {name: Word(function, function.load(function.u32, place)) for name, place in places.items()}


def float_of(function: Function, bits: Word) -> int:
    """Return the float32 that is pushed as its bits."""
    return function.result(Ins.Bitcast, function.f32, bits.id)


USE_A, USE_B, USE_SUM = 0, 1, 2
ROW_MAJOR, COLUMN_MAJOR = 0, 1
WRITTEN, READ = 0x28, 0x30  # NonPrivatePointer with MakePointerAvailable, with MakePointerVisible
_ALL_SIGNED = 0xF
_TYPE_MATRIX, _LOAD, _STORE, _MUL_ADD, _LENGTH = 4456, 4457, 4458, 4459, 4460


class Kind(NamedTuple):
    """The ids of a type of fragments and of its elements."""

    id: int
    element: int


class Floats:
    """Arithmetic of float32, and of whole fragments of them."""

    def __init__(self, function: Function) -> None:
        """Declare the type."""
        self._f = function
        self.type = function.f32

    def const(self, number: float) -> int:
        """Return the id of a number, rounded to float32."""
        return self._f.number(number)

    def of(self, opcode: int, *numbers: int, kind: int | None = None) -> int:
        """Return what an instruction makes of numbers, or of fragments of a type."""
        return self._f.result(opcode, self.type if kind is None else kind, *numbers)

    def glsl(self, number: int, *numbers: int) -> int:
        """Return what an instruction of GLSL.std.450 makes of numbers."""
        return self._f.glsl(number, self.type, *numbers)

    def is_above(self, x: int, y: int) -> int:
        """Return the condition that the first is larger; it fails for a NaN."""
        return self._f.result(Ins.FOrdGreaterThan, self._f.bool, x, y)

    def bits(self, number: int) -> int:
        """Return the bits of a number as a u32."""
        return self._f.result(Ins.Bitcast, self._f.u32, number)

    def from_bits(self, bits: int) -> int:
        """Return the number of a u32's bits."""
        return self._f.result(Ins.Bitcast, self.type, bits)

    def largest(self, numbers: list[int]) -> int:
        """Return the largest of some numbers, leaving NaN out."""
        found, *others = numbers
        for one in others:
            found = self.glsl(Glsl.NMax, found, one)
        return found

    def total(self, numbers: list[int]) -> int:
        """Return the sum of some numbers."""
        found, *others = numbers
        for one in others:
            found = self.of(Ins.FAdd, found, one)
        return found


class Fragments:
    """The instructions of fragments."""

    def __init__(self, function: Function, count: int | None = None) -> None:
        """Emit them into a function; ``count`` is how many elements of one an invocation holds, None if that is asked."""
        self._f, self._count = function, count

    def kind(self, element: ElementType, rows: int, columns: int, use: int) -> Kind:
        """Return a type of fragments."""
        f = self._f
        component = element.declared(f.module)
        sizes = f.const(Scope.SUBGROUP), f.const(rows), f.const(columns), f.const(use)
        return Kind(f.module.type(_TYPE_MATRIX, component, *sizes), component)

    def multiplied(self, kind: Kind, a: int, b: int, added: int, *, is_float: bool = True) -> int:
        """Return a product and a sum; all of them are signed where they are whole."""
        return self._f.result(_MUL_ADD, kind.id, a, b, added, *(() if is_float else (_ALL_SIGNED,)))

    def read(self, kind: Kind, pointer: int, stride: Index, scope: Scope, layout: int = ROW_MAJOR) -> int:
        """Return a fragment of shared memory that others of a scope have stored."""
        f = self._f
        return f.result(_LOAD, kind.id, pointer, f.const(layout), f.id_of(stride), READ, f.const(scope))

    def of_rows(self, kind: Kind, pointer: int) -> int:
        """Return a fragment with a number for each row in all its columns; a subgroup has stored them."""
        return self.read(kind, pointer, 0, Scope.SUBGROUP, COLUMN_MAJOR)

    def of_columns(self, kind: Kind, pointer: int) -> int:
        """Return a fragment with a number for each column in all its rows; a subgroup has stored them."""
        return self.read(kind, pointer, 0, Scope.SUBGROUP, ROW_MAJOR)

    def share(self, pointer: int, fragment: int, stride: Index) -> None:
        """Store a fragment where the others of a subgroup will read it."""
        f = self._f
        f.effect(_STORE, pointer, fragment, f.const(ROW_MAJOR), f.id_of(stride), WRITTEN, f.const(Scope.SUBGROUP))

    def write(self, pointer: int, fragment: int, stride: Index) -> None:
        """Store a fragment that nobody reads."""
        self._f.effect(_STORE, pointer, fragment, self._f.const(ROW_MAJOR), self._f.id_of(stride), 0)

    def length(self, kind: Kind) -> Word:
        """Return how many elements an invocation has."""
        return self._f.as_word(self._f.result(_LENGTH, self._f.u32, kind.id))

    def elements(self, kind: Kind) -> Iterator[Index]:
        """Yield the number of an element, once, in a loop that does what is emitted meanwhile for each; or one after the other.

        What is emitted has to be whole before the next one is asked for: no ``break``.
        """
        if self._count is not None:
            yield from range(self._count)
            return
        with self._f.repeat(0, self.length(kind), 1, is_unrolled=True) as number:
            yield number

    def at(self, kind: Kind, variable: int, number: Index) -> int:
        """Return the pointer to an element of a variable."""
        return self._f.at(StorageClass.FUNCTION, kind.element, variable, number)

    def element(self, kind: Kind, variable: int, number: Index) -> int:
        """Return an element of a variable."""
        return self._f.load(kind.element, self.at(kind, variable, number))
