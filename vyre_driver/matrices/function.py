"""The one function of a kernel, written instruction by instruction: u32 arithmetic, structured blocks, memory.

A whole number is a Python int where it is known when the kernel is emitted, else a :class:`Word`; what follows from ints alone
is worked out at once. Drivers find common subexpressions themselves.

Source: SPIR-V 1.6, 2.11 (structured control flow), 3.25 (memory semantics).
"""

from __future__ import annotations

import struct
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

from vyre_driver.spirv.body import FunctionBody
from vyre_driver.spirv.instructions import LOOP_CONTROL_UNROLL, Glsl, Ins, Scope, Semantics
from vyre_driver.spirv.opcodes import ENTRY_POINT, GL_COMPUTE, MODE_LOCAL_SIZE, BuiltIn, Decoration, Op, StorageClass

if TYPE_CHECKING:
    from collections.abc import Iterator

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
