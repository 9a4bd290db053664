"""Fragments: matrices that a subgroup holds in registers, each invocation some elements, nobody knows which; and float32.

What is the same for all elements is done to each where it is; what depends on the row or column takes a fragment that holds
the row's or column's number in all its places. Such fragments come from an array in memory, read with a stride of 0.

Source: SPV_KHR_cooperative_matrix; SPIR-V 1.6, 3.26 (memory operands of the Vulkan memory model).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from vyre_driver.spirv.instructions import Glsl, Ins, Scope
from vyre_driver.spirv.opcodes import StorageClass

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vyre_driver.matrices.elements import ElementType
    from vyre_driver.matrices.function import Function, Index, Word

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
