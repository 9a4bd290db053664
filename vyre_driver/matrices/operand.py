"""Operands on their way: from their buffer to registers, to shared memory, to fragments.

Source: SPIR-V 1.6, 3.26 (memory operands of the Vulkan memory model).
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from vyre_driver.matrices.description import PHASE, STAGES
from vyre_driver.matrices.elements import VECTOR_BYTES
from vyre_driver.matrices.function import COLUMN_MAJOR, ROW_MAJOR, WRITTEN, Fragments, StorageBuffer, vector_type
from vyre_driver.spirv.opcodes import Capability, Decoration, Ins, Op, Scope, StorageClass

if TYPE_CHECKING:
    from vyre_driver.matrices.description import Part
    from vyre_driver.matrices.function import Function, Index, Kind


_WORD_BYTES = 4


class Head(NamedTuple):
    """Where a head begins in its buffer, how far its lines lie apart, both in elements, and how many there are."""

    base: Index
    stride: Index
    lines: Index


def vector_buffer(function: Function, name: str, binding: int) -> StorageBuffer:
    """Declare a buffer that is read in vectors of 16 bytes."""
    return StorageBuffer(function, name, binding, vector_type(function), VECTOR_BYTES, Decoration.NON_WRITABLE)


class Lines:
    """Shared memory for lines of a part, which a workgroup loads in equal shares; one array or, for steps in turn, several."""

    _shared: list[int]

    def __init__(self, function: Function, part: Part, invocations: int) -> None:
        """Prepare for lines of this part; what is derived declares the memory."""
        self._f, self.part, self._invocations = function, part, invocations
        self._vector = vector_type(function)

    def _declare_shared(self, stages: int) -> None:
        """Declare an array for each stage: the compiler sees that reading one has nothing to do with writing another."""
        self._shared = [self._f.shared(self._vector, self.part.lines * self.part.stride) for _ in range(stages)]

    def keep(self, lane: Index, vectors: list[int], stage: int = 0) -> None:
        """Store in shared memory what an invocation has fetched."""
        f = self._f
        for (line, vector), found in zip(self._shares(lane), vectors, strict=True):
            pointer = self._pointer(stage, line * self.part.stride + vector)
            f.effect(Ins.Store, pointer, found, WRITTEN, f.const(Scope.WORKGROUP))

    def _shares(self, lane: Index) -> list[tuple[Index, Index]]:
        """Return line and vector of each share of an invocation."""
        vectors = self.part.vectors
        places = [lane + first for first in range(0, self.part.lines * vectors, self._invocations)]
        return [(at // vectors, at % vectors) for at in places]

    def _pointer(self, stage: int, place: Index) -> int:
        return self._f.at(StorageClass.WORKGROUP, self._vector, self._shared[stage], place)


class HeadLines(Lines):
    """Lines of a head on their way: from their buffer to registers, to shared memory, to fragments."""

    def __init__(self, function: Function, part: Part, invocations: int) -> None:
        """Declare shared memory for them."""
        super().__init__(function, part, invocations)
        self._declare_shared(1)

    def fetch(self, lane: Index, buffer: StorageBuffer, head: Head, first: Index) -> list[int]:
        """Return an invocation's share of the lines from ``first`` on; past the end of the head the last one again.

        Nothing comes of those: queries that are not there are not stored, keys are hidden, and their values weigh nothing. Were
        the last value a NaN, the product has that one in the same step anyway. Zeros would take more instructions.
        """
        f, per, found = self._f, self.part.element.in_vector, []
        for line, vector in self._shares(lane):
            inside = f.least(first + line, head.lines - 1)
            found.append(buffer.load(head.base // per + inside * (head.stride // per) + vector))
        return found

    def fragment(self, fragments: Fragments, kind: Kind, line: Index, element: int, *, is_turned: bool = False) -> int:
        """Return the fragment that begins at an element of a line; its columns are lines where ``is_turned``, else its rows."""
        place = line * self.part.stride + element // self.part.element.in_vector
        layout = COLUMN_MAJOR if is_turned else ROW_MAJOR
        return fragments.read(kind, self._pointer(0, place), self.part.stride, Scope.WORKGROUP, layout)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a step's part begins in a buffer: its first line and element, how many there are of both, and the matrix's layout.

    ``stride`` is from a line to the next one, ``base`` where the matrix begins; both in elements.
    """

    line: Index
    element: Index
    lines: Index
    elements: Index
    stride: Index
    base: Index


class Edges(enum.Enum):
    """Where parts may reach past the ends of a matrix: nowhere, along m and n, or along k too."""

    NONE = enum.auto()
    OUTER = enum.auto()
    ALL = enum.auto()


class Operand(Lines):
    """The parts of one operand."""

    def __init__(  # noqa: PLR0913 -- made in one place
        self, function: Function, name: str, binding: int, part: Part, invocations: int, layout: int
    ) -> None:
        """Declare shared memory for its parts, twice; ``layout`` is that of its fragments there."""
        super().__init__(function, part, invocations)
        self._layout = layout
        self._fragments = Fragments(function)
        self._zeros = function.module.constant(Op.ConstantNull, self._vector)
        self._buffer = self._declare(name, binding)
        self._declare_shared(STAGES)

    def _declare(self, name: str, binding: int) -> StorageBuffer:
        return StorageBuffer(self._f, name, binding, self._vector, VECTOR_BYTES, Decoration.NON_WRITABLE)

    @property
    def at_once(self) -> int:
        """How many elements one load brings."""
        return self.part.element.in_vector

    def start(self, lane: Index, at: Place) -> None:
        """Work out what does not change from step to step; the first one is at this place."""

    def fetch(self, lane: Index, at: Place, edges: Edges) -> list[int]:
        """Return the vectors that an invocation carries of a part; past the end of k they are zeros."""
        read = {Edges.NONE: self._inside, Edges.OUTER: self._clamped, Edges.ALL: self._guarded}[edges]
        shares = [(line, at.element + vector * self.part.element.in_vector) for line, vector in self._shares(lane)]
        return [read(at, at.line + line, element) for line, element in shares]

    def _inside(self, at: Place, line: Index, element: Index) -> int:
        """Return the vector that begins at an element of a line, which is within the matrix."""
        per = self.part.element.in_vector
        return self._buffer.load(at.base // per + line * (at.stride // per) + element // per)

    def _clamped(self, at: Place, line: Index, element: Index) -> int:
        """Return the vector, of rows and columns past the last one what the last has, which comes into no result."""
        f = self._f
        if self.part.is_deep:
            return self._inside(at, f.least(line, at.lines - 1), element)
        return self._inside(at, line, f.least(element, at.elements - self.part.element.in_vector))

    def _guarded(self, at: Place, line: Index, element: Index) -> int:
        """Return the vector that begins at an element of a line, zeros where that is past the matrix's ends."""
        f, per = self._f, self.part.element.in_vector
        is_inside = f.both(f.is_below(line, at.lines), f.is_below(element, at.elements))
        return self._read(is_inside, at.base // per + line * (at.stride // per) + element // per)

    def _read(self, is_inside: int, place: Index) -> int:
        """Return what one load brings from a place, counted in such loads; zeros where a condition does not hold."""
        f = self._f
        safe = f.select(f.u32, is_inside, f.id_of(place), f.const(0))
        return f.select(self._vector, is_inside, self._buffer.load(f.as_word(safe)), self._zeros)

    def _packed(self, loaded: list[int]) -> int:
        """Return the vector that loads have brought."""
        (vector,) = loaded
        return vector

    def _shares(self, lane: Index) -> list[tuple[Index, Index]]:
        """Return line and vector of each share of an invocation.

        The invocations that are served at once store lines that lie apart: neighbours would meet in the same banks.
        """
        part = self.part
        together = max(PHASE // part.vectors, 1)
        shares = []
        for number in range(part.lines * part.vectors // self._invocations):
            at = lane + number * self._invocations
            line = at // part.vectors
            if together > 1:
                within = line % PHASE
                line = line // PHASE * PHASE + within % together * (PHASE // together) + within // together
            shares.append((line, at % part.vectors))
        return shares

    def first(self, outer: Index) -> Index:
        """Return where the rows or columns of the result from ``outer`` on begin in shared memory."""
        return outer * self.part.stride if self.part.is_deep else outer // self.part.element.in_vector

    def fragment(self, kind: Kind, stage: int, first: Index, outer: int, depth: int) -> int:
        """Return a fragment of a type, ``outer`` rows or columns and ``depth`` products after ``first``."""
        part = self.part
        line, element = (outer, depth) if part.is_deep else (depth, outer)
        pointer = self._pointer(stage, first + (line * part.stride + element // part.element.in_vector))
        return self._fragments.read(kind, pointer, part.stride, Scope.WORKGROUP, self._layout)


class UnalignedOperand(Operand):
    """An operand whose lines begin anywhere: its buffer is read element by element."""

    def _declare(self, name: str, binding: int) -> StorageBuffer:
        element = self.part.element
        for capability in (*element.stored, Capability.Int16 if element.byte_len == 2 else Capability.Int8):
            self._f.module.capability(capability)
        self._bits = self._f.module.type(Op.TypeInt, 8 * element.byte_len, 0)
        self._no_bits = self._f.module.constant(Op.ConstantNull, self._bits)
        return StorageBuffer(self._f, name, binding, self._bits, element.byte_len, Decoration.NON_WRITABLE)

    @property
    def at_once(self) -> int:
        """One."""
        return 1

    def _inside(self, at: Place, line: Index, element: Index) -> int:
        return self._guarded(at, line, element)

    def _clamped(self, at: Place, line: Index, element: Index) -> int:
        return self._guarded(at, line, element)

    def _guarded(self, at: Place, line: Index, element: Index) -> int:
        f, is_line = self._f, self._f.is_below(line, at.lines)
        places = [element + number for number in range(self.part.element.in_vector)]
        return self._packed(
            [self._read(f.both(is_line, f.is_below(one, at.elements)), at.base + line * at.stride + one) for one in places]
        )

    def _read(self, is_inside: int, place: Index) -> int:
        f = self._f
        safe = f.select(f.u32, is_inside, f.id_of(place), f.const(0))
        return f.select(self._bits, is_inside, self._buffer.load(f.as_word(safe)), self._no_bits)

    def _packed(self, loaded: list[int]) -> int:
        f, size = self._f, self.part.element.byte_len
        packed = f.module.type(Op.TypeVector, self._bits, _WORD_BYTES // size)
        words = []
        for first in range(0, len(loaded), _WORD_BYTES // size):
            word = f.result(Ins.CompositeConstruct, packed, *loaded[first : first + _WORD_BYTES // size])
            words.append(f.result(Ins.Bitcast, f.u32, word))
        return f.result(Ins.CompositeConstruct, self._vector, *words)
