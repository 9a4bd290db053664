"""What a product is to be: types, layouts, and how it is cut into tiles and fragments; a module is made of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vyre_driver.matrices.elements import VECTOR_BYTES

if TYPE_CHECKING:
    from vyre_driver.matrices.elements import ElementType

PHASE = 8
"""Invocations whose accesses of 16 bytes a device serves at once: 128 bytes, all banks of shared memory."""
STAGES = 2


@dataclass(frozen=True, slots=True)
class Tiling:
    """How the work is divided.

    A workgroup makes a tile of ``tile[0]`` x ``tile[1]`` sums, ``tile[2]`` products of each in a step. Its subgroups, of
    ``subgroup_size`` invocations, lie in ``split[0]`` rows and ``split[1]`` columns; each makes a patch of whole fragments,
    ``fragment`` being the (m, n, k) of one instruction. Workgroups take ``band`` rows of tiles column by column, so that
    those that run at once read the same rows and columns.
    """

    tile: tuple[int, int, int]
    split: tuple[int, int]
    fragment: tuple[int, int, int]
    subgroup_size: int
    band: int = 8

    @property
    def invocations(self) -> int:
        """Invocations of a workgroup."""
        return self.subgroup_size * self.split[0] * self.split[1]

    @property
    def patch(self) -> tuple[int, int]:
        """Rows and columns of fragments that a subgroup makes."""
        return self.tile[0] // self.split[0] // self.fragment[0], self.tile[1] // self.split[1] // self.fragment[1]


@dataclass(frozen=True, slots=True)
class Part:
    """A step's part of an operand: ``lines`` of ``width`` elements, which run along k where ``is_deep``.

    In shared memory each line is followed by 16 bytes that nothing uses, so that equal places of lines lie in other banks.
    """

    lines: int
    width: int
    is_deep: bool
    element: ElementType

    @property
    def vectors(self) -> int:
        """Vectors of 16 bytes of a line."""
        return self.width // self.element.in_vector

    @property
    def stride(self) -> int:
        """Vectors from a line to the next one in shared memory."""
        return self.vectors + 1

    @property
    def shared_bytes(self) -> int:
        """Bytes of shared memory of one stage."""
        return self.lines * self.stride * VECTOR_BYTES


@dataclass(frozen=True, slots=True)
class ProductDescription:
    """``c[m, n] = a[m, k] @ b[k, n]`` for each of a batch, summed as ``accumulator`` and stored as ``out``.

    With ``a_transposed`` a is stored as [k, m], with ``b_transposed`` b as [n, k]. Buffers hold the operands as vectors of 16
    bytes where ``is_aligned``: the lines of all matrices begin at such. ``is_exact`` leaves the edges out: m and n are
    multiples of the tile, k of two steps.
    """

    operand: ElementType
    accumulator: ElementType
    out: ElementType
    tiling: Tiling
    a_transposed: bool = False
    b_transposed: bool = False
    is_aligned: bool = True
    is_exact: bool = False

    @property
    def a(self) -> Part:
        """What a step reads of a."""
        return _part(self.tiling.tile[0], self.tiling.tile[2], self.operand, is_deep=not self.a_transposed)

    @property
    def b(self) -> Part:
        """What a step reads of b."""
        return _part(self.tiling.tile[1], self.tiling.tile[2], self.operand, is_deep=self.b_transposed)

    @property
    def edge_bytes(self) -> int:
        """Shared memory for fragments at an edge: one for each subgroup."""
        rows, columns, _ = self.tiling.fragment
        subgroups = self.tiling.split[0] * self.tiling.split[1]
        return 0 if self.is_exact else subgroups * rows * columns * self.out.byte_len

    @property
    def shared_bytes(self) -> int:
        """Bytes of shared memory that a workgroup takes."""
        return STAGES * (self.a.shared_bytes + self.b.shared_bytes) + self.edge_bytes

    def problem(self) -> str | None:
        """Return why there is no such kernel, None if there is."""
        tiling = self.tiling
        for axis, (size, parts, fragment) in enumerate(zip(tiling.tile, (*tiling.split, 1), tiling.fragment, strict=True)):
            if size % (parts * fragment):
                return f"{size} along {'mnk'[axis]} are not {parts} times whole fragments of {fragment}"
        for name, part in (("a", self.a), ("b", self.b)):
            if part.width % self.operand.in_vector or part.lines % PHASE:
                return f"the part of {name}, {part.lines} lines of {part.width}, has no whole vectors, or no groups of 8 lines"
            if part.lines * part.vectors % tiling.invocations:
                vectors = part.lines * part.vectors
                return f"{tiling.invocations} invocations cannot load {vectors} vectors of {name} in equal shares"
            inner = tiling.fragment[2] if part.is_deep else tiling.fragment[0 if name == "a" else 1]
            if inner % self.operand.in_vector:
                return f"fragments of {inner} along a line of {name} do not begin at vectors of {self.operand.in_vector}"
        return None


def _part(outer: int, depth: int, element: ElementType, *, is_deep: bool) -> Part:
    return Part(outer, depth, is_deep, element) if is_deep else Part(depth, outer, is_deep, element)
