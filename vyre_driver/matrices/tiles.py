"""What every product's kernel is made of: where a workgroup's tile is, and which parts of the operands a step reads."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, NamedTuple

from vyre_driver.matrices.epilogue import Epilogue
from vyre_driver.matrices.function import Function, ceil_div
from vyre_driver.matrices.interface import float_of, push_constants
from vyre_driver.matrices.operand import Place
from vyre_driver.spirv.opcodes import BuiltIn, Capability

if TYPE_CHECKING:
    from vyre_driver.matrices.description import Part, ProductDescription
    from vyre_driver.matrices.function import Index, Word
    from vyre_driver.spirv.builder import ModuleBuilder

PUSHED = ("m", "n", "k", "a_stride", "b_stride", "c_stride", "a_batch", "b_batch", "c_batch", "parts", "k_part", "scale")
"""The push constants, all u32.

Sizes, elements from a line to the next one and from a matrix to the next one of the batch, in how many parts k is summed and
how much of it a part has; the bits of the factor of sums, a float32.
"""
_RESULT = 2  # the binding, after those of a and b
GLSL450 = 1


class Tile(NamedTuple):
    """Where a workgroup's tile begins in the result, of which matrices, and from where on and up to where k is summed."""

    row: Index
    column: Index
    batch: Index
    result: Word
    start: Index
    stop: Index


class TiledProduct(ABC):
    """A kernel whose workgroups make a tile of the result each.

    Tiles of one matrix lie along x and y of the grid, row by row of the grid; along z are the parts of k, of one matrix of the
    batch after the other, and each part has a result of its own.
    """

    names: tuple[str, ...] = PUSHED
    """Those of its push constants."""

    def __init__(self, description: ProductDescription, module: ModuleBuilder, memory_model: int = GLSL450) -> None:
        """Declare buffers and push constants in an empty module."""
        self.d = description
        self.module = module
        module.capability(Capability.Shader)
        module.memory_model(0, memory_model)
        self.f = Function(module)
        self.pushed = push_constants(self.f, self.names)
        self.scale = float_of(self.f, self.pushed["scale"])
        self.epilogue = Epilogue(self.f, description.result, _RESULT, self.scale)
        self.lane = self.f.built_in(BuiltIn.LOCAL_INVOCATION_INDEX)

    @abstractmethod
    def sum(self, tile: Tile) -> None:
        """Sum all products of a tile."""

    @abstractmethod
    def store(self, tile: Tile) -> None:
        """Store the sums of a tile."""

    def build(self) -> bytes:
        """Return the module."""
        f, tiling = self.f, self.d.tiling
        across, down = (ceil_div(self.pushed[name], size) for name, size in (("n", tiling.tile[1]), ("m", tiling.tile[0])))
        x, y, result = f.built_in_vector(BuiltIn.WORKGROUP_ID)
        width, _, _ = f.built_in_vector(BuiltIn.NUM_WORKGROUPS)
        number = y * width + x
        with f.when(f.is_below(number, across * down)):
            tile = self._tile(number, across, down, result)
            self.sum(tile)
            self.store(tile)
        f.finish((tiling.invocations, 1, 1))
        return self.module.build()

    def places(self, tile: Tile, depth: Index) -> tuple[Place, Place]:
        """Return where the parts of a and b are that a step from this depth on reads."""
        return (
            self._place("a", self.d.a, tile, (tile.row, "m"), depth),
            self._place("b", self.d.b, tile, (tile.column, "n"), depth),
        )

    def place(self, tile: Tile, row: Index, column: Index) -> Index:
        """Return where a number of the result is."""
        return tile.result * self.pushed["c_batch"] + row * self.pushed["c_stride"] + column

    def _place(self, name: str, part: Part, tile: Tile, outer: tuple[Index, str], depth: Index) -> Place:
        first, size = outer
        ends = self.pushed[size], tile.stop
        (line, element), (lines, elements) = ((first, depth), ends) if part.is_deep else ((depth, first), ends[::-1])
        base = tile.batch * self.pushed[f"{name}_batch"]
        return Place(line, element, lines, elements, self.pushed[f"{name}_stride"], base)

    def _tile(self, number: Index, across: Index, down: Index, result: Word) -> Tile:
        f, tiling = self.f, self.d.tiling
        in_band = across * tiling.band
        above = number // in_band * tiling.band
        height = f.least(down - above, tiling.band)
        within = number % in_band
        start = result % self.pushed["parts"] * self.pushed["k_part"]
        stop = f.least(self.pushed["k"], start + self.pushed["k_part"])
        row, column = (above + within % height) * tiling.tile[0], within // height * tiling.tile[1]
        return Tile(row, column, result // self.pushed["parts"], result, start, stop)
