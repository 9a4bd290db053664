"""Products in tiles: where a workgroup's is, which parts of the operands a step reads, and how they are multiplied.

On cooperative matrices a step's parts of the operands go through registers to shared memory, those of the next step while this
one is multiplied; a subgroup keeps the sums of its patch in fragments. For devices that have no such matrices, or not of these
types, each invocation sums a patch of the result from numbers in shared memory: every layout, type and size that the other has.
Operands are read number by number then, and shared as float32, or int32 where they are whole.

Source: SPV_KHR_cooperative_matrix; Vulkan 1.4, ``VK_KHR_cooperative_matrix``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from vyre_driver.matrices import function
from vyre_driver.matrices.description import STAGES
from vyre_driver.matrices.epilogue import Epilogue
from vyre_driver.matrices.operand import Edges, Operand, Place, UnalignedOperand
from vyre_driver.spirv.builder import ModuleBuilder
from vyre_driver.spirv.opcodes import BuiltIn, Capability, Decoration, Glsl, Ins, Op, Scope, StorageClass

if TYPE_CHECKING:
    from collections.abc import Callable

    from vyre_driver.matrices.description import Part, ProductDescription


PUSHED = ("m", "n", "k", "a_stride", "b_stride", "c_stride", "a_batch", "b_batch", "c_batch", "parts", "k_part", "scale")
"""The push constants, all u32.

Sizes, elements from a line to the next one and from a matrix to the next one of the batch, in how many parts k is summed and
how much of it a part has; the bits of the factor of sums, a float32.
"""
_RESULT = 2  # the binding, after those of a and b
GLSL450 = 1


class Tile(NamedTuple):
    """Where a workgroup's tile begins in the result, of which matrices, and from where on and up to where k is summed."""

    row: function.Index
    column: function.Index
    batch: function.Index
    result: function.Word
    start: function.Index
    stop: function.Index


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
        self.f = function.Function(module)
        self.pushed = function.push_constants(self.f, self.names)
        self.scale = function.float_of(self.f, self.pushed["scale"])
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
        across, down = (
            function.ceil_div(self.pushed[name], size) for name, size in (("n", tiling.tile[1]), ("m", tiling.tile[0]))
        )
        x, y, result = f.built_in_vector(BuiltIn.WORKGROUP_ID)
        width, _, _ = f.built_in_vector(BuiltIn.NUM_WORKGROUPS)
        number = y * width + x
        with f.when(f.is_below(number, across * down)):
            tile = self._tile(number, across, down, result)
            self.sum(tile)
            self.store(tile)
        f.finish((tiling.invocations, 1, 1))
        return self.module.build()

    def places(self, tile: Tile, depth: function.Index) -> tuple[Place, Place]:
        """Return where the parts of a and b are that a step from this depth on reads."""
        return (
            self._place("a", self.d.a, tile, (tile.row, "m"), depth),
            self._place("b", self.d.b, tile, (tile.column, "n"), depth),
        )

    def place(self, tile: Tile, row: function.Index, column: function.Index) -> function.Index:
        """Return where a number of the result is."""
        return tile.result * self.pushed["c_batch"] + row * self.pushed["c_stride"] + column

    def _place(self, name: str, part: Part, tile: Tile, outer: tuple[function.Index, str], depth: function.Index) -> Place:
        first, size = outer
        ends = self.pushed[size], tile.stop
        (line, element), (lines, elements) = ((first, depth), ends) if part.is_deep else ((depth, first), ends[::-1])
        base = tile.batch * self.pushed[f"{name}_batch"]
        return Place(line, element, lines, elements, self.pushed[f"{name}_stride"], base)

    def _tile(self, number: function.Index, across: function.Index, down: function.Index, result: function.Word) -> Tile:
        f, tiling = self.f, self.d.tiling
        in_band = across * tiling.band
        above = number // in_band * tiling.band
        height = f.least(down - above, tiling.band)
        within = number % in_band
        start = result % self.pushed["parts"] * self.pushed["k_part"]
        stop = f.least(self.pushed["k"], start + self.pushed["k_part"])
        row, column = (above + within % height) * tiling.tile[0], within // height * tiling.tile[1]
        return Tile(row, column, result // self.pushed["parts"], result, start, stop)


_SPIRV_1_6, _VULKAN = 0x0001_0600, 3
_MOST_UNROLLED = 8


class MatrixProduct(TiledProduct):
    """Fragments of matrices, each of a subgroup."""

    def __init__(self, description: ProductDescription) -> None:
        """Declare what a product has, fragments and shared memory."""
        super().__init__(description, ModuleBuilder(_SPIRV_1_6), _VULKAN)
        for one in (Capability.VulkanMemoryModel, Capability.GroupNonUniform, Capability.CooperativeMatrixKHR):
            self.module.capability(one)
        self.module.extension("SPV_KHR_cooperative_matrix")
        f, result = self.f, description.result
        rows, columns, depth = description.tiling.fragment
        self._fragments = fragments = function.Fragments(f)
        self._of_a = fragments.kind(description.operand, rows, depth, function.USE_A)
        self._of_b = fragments.kind(description.operand, depth, columns, function.USE_B)
        self._of_sum = fragments.kind(result.accumulator, rows, columns, function.USE_SUM)
        self._of_out = fragments.kind(result.out, rows, columns, function.USE_SUM) if description.stores_matrices else None
        self._a, self._b = self._operand_a(), self._operand("b", 1, description.b, is_transposed=description.b_transposed)
        down, across = description.tiling.patch
        self._sums = [f.variable(self._of_sum.id) for _ in range(down * across)]
        self._subgroup = f.built_in(BuiltIn.SUBGROUP_ID)
        self._number = f.f32 if result.accumulator.is_float else f.i32
        staged = description.staged_bytes // result.accumulator.byte_len
        self._staged = f.shared(self._number, staged) if staged else None

    def _operand_a(self) -> Operand:
        return self._operand("a", 0, self.d.a, is_transposed=self.d.a_transposed)

    def _operand(self, name: str, binding: int, part: Part, *, is_transposed: bool) -> Operand:
        kind = Operand if self.d.is_aligned else UnalignedOperand
        layout = function.COLUMN_MAJOR if is_transposed else function.ROW_MAJOR
        return kind(self.f, name, binding, part, self.d.tiling.invocations, layout)

    def sum(self, tile: Tile) -> None:
        """Sum all products of a patch: pairs of whole steps, then what is left of k."""
        f, pair = self.f, STAGES * self.d.tiling.tile[2]
        zeros = self.module.constant(Op.ConstantNull, self._of_sum.id)
        for one in self._sums:
            f.store(one, zeros)
        outer = Edges.NONE if self.d.has_whole_tiles else Edges.OUTER
        if self.d.has_whole_steps:
            self._sum_pairs(tile, tile.stop, outer)
        elif self.d.is_convolution or not self.d.is_aligned:
            self._sum_pairs(tile, tile.stop, Edges.ALL)
        else:
            whole = tile.start + (tile.stop - tile.start) // pair * pair
            with f.when(f.is_below(tile.start, whole)):
                self._sum_pairs(tile, whole, outer)
            self._sum_rest(tile, whole)

    def _sum_pairs(self, tile: Tile, stop: function.Index, edges: Edges) -> None:
        """Sum up to a depth, two steps in turn, so that each stage of shared memory is one array."""
        f, step = self.f, self.d.tiling.tile[2]
        # Past the end of whole steps nothing is left to read: the last one is loaded again, which nothing multiplies.
        last = stop if edges is Edges.ALL else stop - step
        self._a.start(self.lane, self.places(tile, tile.start)[0])
        self._keep(self._fetch(tile, tile.start, edges), 0)
        f.barrier()
        with f.repeat(tile.start, stop, STAGES * step) as depth:
            for stage in range(STAGES):
                fetched = self._fetch(tile, f.least(depth + (stage + 1) * step, last), edges)
                self._multiply(stage)
                self._keep(fetched, 1 - stage)
                f.barrier()

    def _sum_rest(self, tile: Tile, start: function.Index) -> None:
        """Sum from a depth on, which is two steps at most: zeros come after the end of k."""
        f, step = self.f, self.d.tiling.tile[2]
        with f.repeat(start, tile.stop, step) as depth:
            self._keep(self._fetch(tile, depth, Edges.ALL), 0)
            f.barrier()
            self._multiply(0)
            f.barrier()

    def _fetch(self, tile: Tile, depth: function.Index, edges: Edges) -> tuple[list[int], list[int]]:
        at_a, at_b = self.places(tile, depth)
        return self._a.fetch(self.lane, at_a, edges), self._b.fetch(self.lane, at_b, edges)

    def _keep(self, fetched: tuple[list[int], list[int]], stage: int) -> None:
        self._a.keep(self.lane, fetched[0], stage)
        self._b.keep(self.lane, fetched[1], stage)

    def _patch(self) -> tuple[function.Index, function.Index]:
        """Return where the subgroup's patch begins in the tile."""
        (tile_m, tile_n, _), (down, across) = self.d.tiling.tile, self.d.tiling.split
        return self._subgroup // across * (tile_m // down), self._subgroup % across * (tile_n // across)

    def _multiply(self, stage: int) -> None:
        f, tiling = self.f, self.d.tiling
        (down, across), (rows, columns, depth) = tiling.patch, tiling.fragment
        row, column = self._patch()
        first_a, first_b = self._a.first(row), self._b.first(column)
        is_float = self.d.operand.is_float
        for at in range(0, tiling.tile[2], depth):
            of_a = [self._a.fragment(self._of_a, stage, first_a, i * rows, at) for i in range(down)]
            for j in range(across):
                of_b = self._b.fragment(self._of_b, stage, first_b, j * columns, at)
                for i in range(down):
                    one = self._sums[i * across + j]
                    added = f.load(self._of_sum.id, one)
                    f.store(one, self._fragments.multiplied(self._of_sum, of_a[i], of_b, added, is_float=is_float))

    def store(self, tile: Tile) -> None:
        """Store each fragment: as a matrix where that will do for all of the tile, else number by number.

        It is one for all subgroups, since some devices have a barrier of one subgroup wait for the others.
        """
        f, (rows, columns, _) = self.f, self.d.tiling.tile
        if not self.d.stores_matrices:
            self._store_each(tile, partial(self._store_numbers, unrolled=True))
        elif self.d.has_whole_tiles:
            self._store_each(tile, self._store_whole)
        else:
            is_whole = f.both(
                f.is_below(tile.row + (rows - 1), self.pushed["m"]), f.is_below(tile.column + (columns - 1), self.pushed["n"])
            )
            with f.when(is_whole):
                self._store_each(tile, self._store_whole)
            with f.when(f.fails(is_whole)):
                self._store_each(tile, partial(self._store_numbers, unrolled=False))

    def _store_each(self, tile: Tile, store: Callable[[Tile, int, function.Index, function.Index], None]) -> None:
        (down, across), (rows, columns, _) = self.d.tiling.patch, self.d.tiling.fragment
        first_row, first_column = self._patch()
        for i in range(down):
            for j in range(across):
                found = self.f.load(self._of_sum.id, self._sums[i * across + j])
                store(tile, found, tile.row + first_row + i * rows, tile.column + first_column + j * columns)

    def _store_whole(self, tile: Tile, found: int, row: function.Index, column: function.Index) -> None:
        f, result = self.f, self.d.result
        assert self._of_out is not None  # noqa: S101 -- stores_matrices
        found = self.epilogue.scaled(self._of_sum.id, found)
        if result.out != result.accumulator:
            found = f.result(Ins.FConvert, self._of_out.id, found)
        self._fragments.write(self.epilogue.c.at(self.place(tile, row, column)), found, self.pushed["c_stride"])

    def _store_numbers(self, tile: Tile, found: int, row: function.Index, column: function.Index, *, unrolled: bool) -> None:
        """Store what of a fragment is within the result, number by number from shared memory."""
        f, (rows, columns, _), lanes = self.f, self.d.tiling.fragment, self.d.tiling.subgroup_size
        assert self._staged is not None  # noqa: S101 -- staged_bytes has room for it
        first = self._subgroup * (rows * columns)
        at = f.at(StorageClass.WORKGROUP, self._number, self._staged, first)
        self._fragments.share(at, found, columns)
        f.barrier(Scope.SUBGROUP)
        lane, count = f.built_in(BuiltIn.SUBGROUP_LOCAL_INVOCATION_ID), rows * columns
        if unrolled and count % lanes == 0 and count // lanes <= _MOST_UNROLLED:
            for number in range(0, count, lanes):
                self._store_number(tile, first, lane + number, (row, column))
        else:
            with f.repeat(lane, count, lanes) as one:
                self._store_number(tile, first, one, (row, column))
        f.barrier(Scope.SUBGROUP)

    def _store_number(
        self, tile: Tile, first: function.Index, one: function.Index, corner: tuple[function.Index, function.Index]
    ) -> None:
        f, columns = self.f, self.d.tiling.fragment[1]
        y, x = corner[0] + one // columns, corner[1] + one % columns
        with f.when(f.both(f.is_below(y, self.pushed["m"]), f.is_below(x, self.pushed["n"]))):
            assert self._staged is not None  # noqa: S101 -- as above
            place = f.at(StorageClass.WORKGROUP, self._number, self._staged, first + one)
            value = f.load(self._number, place, function.READ, f.const(Scope.SUBGROUP))
            self.epilogue.write(self.place(tile, y, x), x, value)


class ScalarProduct(TiledProduct):
    """Numbers, a patch of them for each invocation: rows and columns that lie as far apart as there are invocations."""

    def __init__(self, description: ProductDescription) -> None:
        """Declare what a product has, and shared memory."""
        super().__init__(description, ModuleBuilder())
        f, (m, n, k) = self.f, description.tiling.tile
        self._number = f.f32 if description.result.accumulator.is_float else f.i32
        self._a = function.NumberBuffer(f, "a", 0, description.operand, Decoration.NON_WRITABLE)
        self._b = function.NumberBuffer(f, "b", 1, description.operand, Decoration.NON_WRITABLE)
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

    def _fetch(self, buffer: function.NumberBuffer, part: Part, at: Place) -> list[int]:
        """Return the numbers that an invocation carries of a part; past the ends of the matrix they are zeros."""
        f, found = self.f, []
        for line, element in self._shares(part):
            y, x = at.line + line, at.element + element
            is_inside = f.both(f.is_below(y, at.lines), f.is_below(x, at.elements))
            found.append(self._read(buffer, is_inside, at.base + y * at.stride + x))
        return found

    def _read(self, buffer: function.NumberBuffer, is_inside: int, place: function.Index) -> int:
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

    def _shares(self, part: Part) -> list[tuple[function.Index, function.Index]]:
        """Return line and element of each share of an invocation."""
        invocations = self.d.tiling.invocations
        places = [self.lane + first for first in range(0, part.lines * part.width, invocations)]
        return [(place // part.width, place % part.width) for place in places]

    def _multiply(self, depth: function.Index) -> None:
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

    def _load(self, shared: int, place: function.Index) -> int:
        return self.f.load(self._number, self.f.at(StorageClass.WORKGROUP, self._number, shared, place))

    @staticmethod
    def _along(first: function.Index, size: int, step: int) -> list[function.Index]:
        return [first + at for at in range(0, size, step)]

    def store(self, tile: Tile) -> None:
        """Store each sum that is within the result."""
        f, (m, n, _), (down, across) = self.f, self.d.tiling.tile, self.d.tiling.split
        rows, columns = self._along(self._y, m, down), self._along(self._x, n, across)
        places = [(tile.row + y, tile.column + x) for y in rows for x in columns]
        for (y, x), one in zip(places, self._sums, strict=True):
            with f.when(f.both(f.is_below(y, self.pushed["m"]), f.is_below(x, self.pushed["n"]))):
                self.epilogue.write(self.place(tile, y, x), x, f.load(self._number, one))
