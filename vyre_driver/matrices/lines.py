"""Lines of a head on their way: from their buffer to registers, to shared memory, to fragments."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from vyre_driver.matrices.elements import VECTOR_BYTES
from vyre_driver.matrices.fragments import COLUMN_MAJOR, ROW_MAJOR, WRITTEN
from vyre_driver.matrices.interface import StorageBuffer, vector_type
from vyre_driver.spirv.instructions import Ins, Scope
from vyre_driver.spirv.opcodes import Decoration, StorageClass

if TYPE_CHECKING:
    from vyre_driver.matrices.description import Part
    from vyre_driver.matrices.fragments import Fragments, Kind
    from vyre_driver.matrices.function import Function, Index


class Head(NamedTuple):
    """Where a head begins in its buffer, how far its lines lie apart, both in elements, and how many there are."""

    base: Index
    stride: Index
    lines: Index


def vector_buffer(function: Function, name: str, binding: int) -> StorageBuffer:
    """Declare a buffer that is read in vectors of 16 bytes."""
    return StorageBuffer(function, name, binding, vector_type(function), VECTOR_BYTES, Decoration.NON_WRITABLE)


class Lines:
    """Shared memory for some lines, which a workgroup loads in equal shares."""

    def __init__(self, function: Function, part: Part, invocations: int, lane: Index) -> None:
        """Declare it."""
        self._f, self._part, self._invocations, self._lane = function, part, invocations, lane
        self._vector = vector_type(function)
        self._shared = function.shared(self._vector, part.lines * part.stride)

    def fetch(self, buffer: StorageBuffer, head: Head, first: Index) -> list[int]:
        """Return an invocation's share of the lines from ``first`` on; past the end of the head the last one again.

        Nothing comes of those: queries that are not there are not stored, keys are hidden, and their values weigh nothing. Were
        the last value a NaN, the product has that one in the same step anyway. Zeros would take more instructions.
        """
        f, per, found = self._f, self._part.element.in_vector, []
        for line, vector in self._share():
            inside = f.least(first + line, head.lines - 1)
            found.append(buffer.load(head.base // per + inside * (head.stride // per) + vector))
        return found

    def keep(self, vectors: list[int]) -> None:
        """Store in shared memory what ``fetch`` returned."""
        f = self._f
        for (line, vector), found in zip(self._share(), vectors, strict=True):
            f.effect(Ins.Store, self._pointer(line * self._part.stride + vector), found, WRITTEN, f.const(Scope.WORKGROUP))

    def _share(self) -> list[tuple[Index, Index]]:
        vectors = self._part.vectors
        places = [self._lane + at for at in range(0, self._part.lines * vectors, self._invocations)]
        return [(at // vectors, at % vectors) for at in places]

    def fragment(self, fragments: Fragments, kind: Kind, line: Index, element: int, *, is_turned: bool = False) -> int:
        """Return the fragment that begins at an element of a line; its columns are lines where ``is_turned``, else its rows."""
        place = line * self._part.stride + element // self._part.element.in_vector
        layout = COLUMN_MAJOR if is_turned else ROW_MAJOR
        return fragments.read(kind, self._pointer(place), self._part.stride, Scope.WORKGROUP, layout)

    def _pointer(self, place: Index) -> int:
        return self._f.at(StorageClass.WORKGROUP, self._vector, self._shared, place)
