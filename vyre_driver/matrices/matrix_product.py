"""Products on cooperative matrices.

A step's parts of the operands go through registers to shared memory, those of the next step while this one is multiplied; a
subgroup keeps the sums of its patch in fragments.

Source: SPV_KHR_cooperative_matrix; Vulkan 1.4, ``VK_KHR_cooperative_matrix``.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from vyre_driver.matrices.description import STAGES
from vyre_driver.matrices.fragments import COLUMN_MAJOR, READ, ROW_MAJOR, USE_A, USE_B, USE_SUM, Fragments
from vyre_driver.matrices.operand import Edges, Operand, UnalignedOperand
from vyre_driver.matrices.tiles import Tile, TiledProduct
from vyre_driver.spirv.builder import ModuleBuilder
from vyre_driver.spirv.instructions import Ins, Scope
from vyre_driver.spirv.opcodes import BuiltIn, Capability, Op, StorageClass

if TYPE_CHECKING:
    from collections.abc import Callable

    from vyre_driver.matrices.description import Part, ProductDescription
    from vyre_driver.matrices.function import Index

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
        self._fragments = fragments = Fragments(f)
        self._of_a = fragments.kind(description.operand, rows, depth, USE_A)
        self._of_b = fragments.kind(description.operand, depth, columns, USE_B)
        self._of_sum = fragments.kind(result.accumulator, rows, columns, USE_SUM)
        self._of_out = fragments.kind(result.out, rows, columns, USE_SUM) if description.stores_matrices else None
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
        layout = COLUMN_MAJOR if is_transposed else ROW_MAJOR
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

    def _sum_pairs(self, tile: Tile, stop: Index, edges: Edges) -> None:
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

    def _sum_rest(self, tile: Tile, start: Index) -> None:
        """Sum from a depth on, which is two steps at most: zeros come after the end of k."""
        f, step = self.f, self.d.tiling.tile[2]
        with f.repeat(start, tile.stop, step) as depth:
            self._keep(self._fetch(tile, depth, Edges.ALL), 0)
            f.barrier()
            self._multiply(0)
            f.barrier()

    def _fetch(self, tile: Tile, depth: Index, edges: Edges) -> tuple[list[int], list[int]]:
        at_a, at_b = self.places(tile, depth)
        return self._a.fetch(self.lane, at_a, edges), self._b.fetch(self.lane, at_b, edges)

    def _keep(self, fetched: tuple[list[int], list[int]], stage: int) -> None:
        self._a.keep(self.lane, fetched[0], stage)
        self._b.keep(self.lane, fetched[1], stage)

    def _patch(self) -> tuple[Index, Index]:
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

    def _store_each(self, tile: Tile, store: Callable[[Tile, int, Index, Index], None]) -> None:
        (down, across), (rows, columns, _) = self.d.tiling.patch, self.d.tiling.fragment
        first_row, first_column = self._patch()
        for i in range(down):
            for j in range(across):
                found = self.f.load(self._of_sum.id, self._sums[i * across + j])
                store(tile, found, tile.row + first_row + i * rows, tile.column + first_column + j * columns)

    def _store_whole(self, tile: Tile, found: int, row: Index, column: Index) -> None:
        f, result = self.f, self.d.result
        assert self._of_out is not None  # noqa: S101 -- stores_matrices
        found = self.epilogue.scaled(self._of_sum.id, found)
        if result.out != result.accumulator:
            found = f.result(Ins.FConvert, self._of_out.id, found)
        self._fragments.write(self.epilogue.c.at(self.place(tile, row, column)), found, self.pushed["c_stride"])

    def _store_numbers(self, tile: Tile, found: int, row: Index, column: Index, *, unrolled: bool) -> None:
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

    def _store_number(self, tile: Tile, first: Index, one: Index, corner: tuple[Index, Index]) -> None:
        f, columns = self.f, self.d.tiling.fragment[1]
        y, x = corner[0] + one // columns, corner[1] + one % columns
        with f.when(f.both(f.is_below(y, self.pushed["m"]), f.is_below(x, self.pushed["n"]))):
            assert self._staged is not None  # noqa: S101 -- as above
            place = f.at(StorageClass.WORKGROUP, self._number, self._staged, first + one)
            value = f.load(self._number, place, READ, f.const(Scope.SUBGROUP))
            self.epilogue.write(self.place(tile, y, x), x, value)
