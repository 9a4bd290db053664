"""Products without cooperative matrices: each invocation sums a patch of the result from numbers in shared memory.

It is for devices that have no such matrices, or not of these types: every layout, type and size that the other has. Operands
are read number by number, and shared as float32, or int32 where they are whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre_driver.matrices.interface import NumberBuffer
from vyre_driver.matrices.tiles import Tile, TiledProduct
from vyre_driver.spirv.builder import ModuleBuilder
from vyre_driver.spirv.instructions import Glsl, Ins
from vyre_driver.spirv.opcodes import Decoration, Op, StorageClass

if TYPE_CHECKING:
    from vyre_driver.matrices.description import Part, ProductDescription
    from vyre_driver.matrices.function import Index
    from vyre_driver.matrices.operand import Place


class ScalarProduct(TiledProduct):
    """Numbers, a patch of them for each invocation: rows and columns that lie as far apart as there are invocations."""

    def __init__(self, description: ProductDescription) -> None:
        """Declare what a product has, and shared memory."""
        super().__init__(description, ModuleBuilder())
        f, (m, n, k) = self.f, description.tiling.tile
        self._number = f.f32 if description.result.accumulator.is_float else f.i32
        self._a = NumberBuffer(f, "a", 0, description.operand, Decoration.NON_WRITABLE)
        self._b = NumberBuffer(f, "b", 1, description.operand, Decoration.NON_WRITABLE)
        self._shared_a, self._shared_b = f.shared(self._number, m * k), f.shared(self._number, n * k)
        down, across = description.tiling.patch
        self._sums = [f.variable(self._number) for _ in range(down * across)]
        self._y, self._x = self.lane // description.tiling.split[1], self.lane % description.tiling.split[1]

    def sum(self, tile: Tile) -> None:
        """Sum all products of a patch, step by step."""
        f, depth_of_step = self.f, self.d.tiling.tile[2]
        for total in self._sums:
            f.store(total, f.number(0) if self._number == f.f32 else f.module.constant(Op.ConstantNull, f.i32))
        self._start(tile)
        with f.repeat(tile.start, tile.stop, depth_of_step) as depth:
            at_a, at_b = self.places(tile, depth)
            self._keep(self._shared_a, self.d.a, self._fetch_a(at_a))
            self._keep(self._shared_b, self.d.b, self._fetch(self._b, self.d.b, at_b))
            f.barrier()
            with f.repeat(0, depth_of_step, 1) as one:
                self._multiply(one)
            f.barrier()

    def _start(self, tile: Tile) -> None:
        """Work out what does not change from step to step."""

    def _fetch_a(self, at: Place) -> list[int]:
        return self._fetch(self._a, self.d.a, at)

    def _fetch(self, buffer: NumberBuffer, part: Part, at: Place) -> list[int]:
        """Return the numbers that an invocation carries of a part; past the ends of the matrix they are zeros."""
        f, found = self.f, []
        for line, element in self._shares(part):
            y, x = at.line + line, at.element + element
            is_inside = f.both(f.is_below(y, at.lines), f.is_below(x, at.elements))
            found.append(self._read(buffer, is_inside, at.base + y * at.stride + x))
        return found

    def _read(self, buffer: NumberBuffer, is_inside: int, place: Index) -> int:
        """Return a number; 0 where a condition does not hold."""
        f = self.f
        safe = f.select(f.u32, is_inside, f.id_of(place), f.const(0))
        zero = f.module.constant(Op.ConstantNull, self._number)
        return f.select(self._number, is_inside, buffer.read(f.as_word(safe)), zero)

    def _keep(self, shared: int, part: Part, numbers: list[int]) -> None:
        """Store what ``_fetch`` returned, the numbers of one depth one after the other."""
        f, outer = self.f, part.lines if part.is_deep else part.width
        for (line, element), number in zip(self._shares(part), numbers, strict=True):
            place = element * outer + line if part.is_deep else line * outer + element
            pointer = f.at(StorageClass.WORKGROUP, self._number, shared, place)
            f.store(pointer, number)

    def _shares(self, part: Part) -> list[tuple[Index, Index]]:
        """Return line and element of each share of an invocation."""
        invocations = self.d.tiling.invocations
        places = [self.lane + first for first in range(0, part.lines * part.width, invocations)]
        return [(place // part.width, place % part.width) for place in places]

    def _multiply(self, depth: Index) -> None:
        """Add the products of one depth."""
        f, (m, n, _), (down, across) = self.f, self.d.tiling.tile, self.d.tiling.split
        of_a = [self._load(self._shared_a, depth * m + row) for row in self._along(self._y, m, down)]
        of_b = [self._load(self._shared_b, depth * n + column) for column in self._along(self._x, n, across)]
        for one, (x, y) in zip(self._sums, ((x, y) for x in of_a for y in of_b), strict=True):
            total = f.load(self._number, one)
            if self._number == f.f32:
                f.store(one, f.glsl(Glsl.Fma, f.f32, x, y, total))
            else:
                f.store(one, f.result(Ins.IAdd, f.i32, f.result(Ins.IMul, f.i32, x, y), total))

    def _load(self, shared: int, place: Index) -> int:
        return self.f.load(self._number, self.f.at(StorageClass.WORKGROUP, self._number, shared, place))

    @staticmethod
    def _along(first: Index, size: int, step: int) -> list[Index]:
        return [first + at for at in range(0, size, step)]

    def store(self, tile: Tile) -> None:
        """Store each sum that is within the result."""
        f, (m, n, _), (down, across) = self.f, self.d.tiling.tile, self.d.tiling.split
        rows, columns = self._along(self._y, m, down), self._along(self._x, n, across)
        places = [(tile.row + y, tile.column + x) for y in rows for x in columns]
        for (y, x), one in zip(places, self._sums, strict=True):
            with f.when(f.both(f.is_below(y, self.pushed["m"]), f.is_below(x, self.pushed["n"]))):
                self.epilogue.write(self.place(tile, y, x), x, f.load(self._number, one))
