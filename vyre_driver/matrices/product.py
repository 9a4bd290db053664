"""Matrix products on cooperative matrices.

A workgroup makes a tile of the result. A step's parts of the operands go through registers to shared memory, those of the next
step while this one is multiplied; a subgroup keeps the sums of its patch in fragments.

Source: SPV_KHR_cooperative_matrix; Vulkan 1.4, ``VK_KHR_cooperative_matrix``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from vyre_driver.errors import InvalidInput
from vyre_driver.matrices.description import STAGES
from vyre_driver.matrices.function import Function, ceil_div
from vyre_driver.matrices.interface import StorageBuffer, push_constants
from vyre_driver.matrices.operand import COLUMN_MAJOR, READ, ROW_MAJOR, WRITTEN, Operand, Place, UnalignedOperand
from vyre_driver.spirv.builder import ModuleBuilder
from vyre_driver.spirv.instructions import Ins, Scope
from vyre_driver.spirv.opcodes import BuiltIn, Capability, Decoration, Op, StorageClass

if TYPE_CHECKING:
    from vyre_driver.matrices.description import ProductDescription
    from vyre_driver.matrices.elements import ElementType
    from vyre_driver.matrices.function import Index, Word

PUSHED = ("m", "n", "k", "a_stride", "b_stride", "c_stride", "a_batch", "b_batch", "c_batch")
"""The push constants: sizes, elements from a line to the next one, and from a matrix to the next one of the batch."""
_TYPE_MATRIX, _STORE, _MUL_ADD = 4456, 4458, 4459
_USE_A, _USE_B, _USE_ACCUMULATOR = 0, 1, 2
_ALL_SIGNED = 0xF
_SPIRV_1_6, _VULKAN_MEMORY_MODEL = 0x0001_0600, 3


def product_module(description: ProductDescription) -> bytes:
    """Return the SPIR-V of a product.

    Its buffers are ``a``, ``b`` and ``c``, its push constants :data:`PUSHED`; a workgroup makes a tile of the result, those of
    one matrix along x and y of the grid, row by row of the grid, and matrices of the batch along z.

    Raises
    ------
    InvalidInput
        If there is no such kernel: ``description.problem()``.
    """
    problem = description.problem()
    if problem is not None:
        raise InvalidInput(
            f"there is no such product: {problem}", fix="choose a tile, a split and a fragment that divide each other"
        )
    return _Product(description).build()


class _Tile(NamedTuple):
    """Where a workgroup's tile begins in the result, where a subgroup's patch begins in the tile, and where in memory."""

    row: Index
    column: Index
    patch_row: Index
    patch_column: Index
    batch: Word


class _Product:
    def __init__(self, description: ProductDescription) -> None:
        self._d = description
        self._module = ModuleBuilder(_SPIRV_1_6)
        for one in (
            Capability.Shader,
            Capability.GroupNonUniform,
            Capability.VulkanMemoryModel,
            Capability.CooperativeMatrixKHR,
        ):
            self._module.capability(one)
        self._module.extension("SPV_KHR_cooperative_matrix")
        self._module.memory_model(0, _VULKAN_MEMORY_MODEL)
        self._f = f = Function(self._module)
        rows, columns, depth = description.tiling.fragment
        self._of_a = self._matrix(description.operand, rows, depth, _USE_A)
        self._of_b = self._matrix(description.operand, depth, columns, _USE_B)
        self._of_sum = self._matrix(description.accumulator, rows, columns, _USE_ACCUMULATOR)
        self._of_out = self._matrix(description.out, rows, columns, _USE_ACCUMULATOR)
        kind = Operand if description.is_aligned else UnalignedOperand
        invocations = description.tiling.invocations
        layouts = (
            COLUMN_MAJOR if description.a_transposed else ROW_MAJOR,
            COLUMN_MAJOR if description.b_transposed else ROW_MAJOR,
        )
        self._a = kind(f, "a", 0, description.a, invocations, layouts[0])
        self._b = kind(f, "b", 1, description.b, invocations, layouts[1])
        self._out = description.out.declared(self._module)
        self._c = StorageBuffer(f, "c", 2, self._out, description.out.byte_len, Decoration.NON_READABLE)
        self._pushed = push_constants(f, PUSHED)
        self._lane = f.built_in(BuiltIn.LOCAL_INVOCATION_INDEX)
        down, across = description.tiling.patch
        self._sums = [f.variable(self._of_sum) for _ in range(down * across)]
        self._edge = None if description.is_exact else f.shared(self._out, description.edge_bytes // description.out.byte_len)

    def _matrix(self, element: ElementType, rows: int, columns: int, use: int) -> int:
        const = self._f.const
        component = element.declared(self._module)
        return self._module.type(_TYPE_MATRIX, component, const(Scope.SUBGROUP), const(rows), const(columns), const(use))

    def build(self) -> bytes:
        f, tiling = self._f, self._d.tiling
        across, down = (ceil_div(self._pushed[name], size) for name, size in (("n", tiling.tile[1]), ("m", tiling.tile[0])))
        x, y, batch = f.built_in_vector(BuiltIn.WORKGROUP_ID)
        width, _, _ = f.built_in_vector(BuiltIn.NUM_WORKGROUPS)
        number = y * width + x
        with f.when(f.is_below(number, across * down)):
            tile = self._tile(number, across, down, batch)
            self._sum(tile)
            self._store(tile)
        f.finish((tiling.invocations, 1, 1))
        return self._module.build()

    def _tile(self, number: Index, across: Index, down: Index, batch: Word) -> _Tile:
        f, tiling = self._f, self._d.tiling
        tile_m, tile_n, _ = tiling.tile
        in_band = across * tiling.band
        above = number // in_band * tiling.band
        height = f.least(down - above, tiling.band)
        within = number % in_band
        subgroup = f.built_in(BuiltIn.SUBGROUP_ID)
        patch_row = subgroup // tiling.split[1] * (tile_m // tiling.split[0])
        patch_column = subgroup % tiling.split[1] * (tile_n // tiling.split[1])
        return _Tile((above + within % height) * tile_m, within // height * tile_n, patch_row, patch_column, batch)

    def _sum(self, tile: _Tile) -> None:
        """Sum all products of a patch; two steps in turn, so that each stage of shared memory is one array."""
        f, k, step = self._f, self._pushed["k"], self._d.tiling.tile[2]
        zeros = self._module.constant(Op.ConstantNull, self._of_sum)
        for one in self._sums:
            f.store(one, zeros)
        # Past the end of k exact kernels would read on: they load the last step again, which nothing multiplies.
        last = k - step if self._d.is_exact else k
        self._keep(self._fetch(tile, 0), 0)
        f.barrier()
        with f.repeat(0, k, STAGES * step) as depth:
            for stage in range(STAGES):
                fetched = self._fetch(tile, f.least(depth + (stage + 1) * step, last))
                self._multiply(tile, stage)
                self._keep(fetched, 1 - stage)
                f.barrier()

    def _fetch(self, tile: _Tile, depth: Index) -> tuple[list[int], list[int]]:
        found = []
        for name, operand, outer, size in (("a", self._a, tile.row, "m"), ("b", self._b, tile.column, "n")):
            ends = self._pushed[size], self._pushed["k"]
            (line, element), (lines, elements) = (
                ((outer, depth), ends) if operand.part.is_deep else ((depth, outer), ends[::-1])
            )
            base = tile.batch * self._pushed[f"{name}_batch"]
            at = Place(line, element, lines, elements, self._pushed[f"{name}_stride"], base)
            found.append(operand.fetch(self._lane, at, is_exact=self._d.is_exact))
        return found[0], found[1]

    def _keep(self, fetched: tuple[list[int], list[int]], stage: int) -> None:
        self._a.keep(self._lane, fetched[0], stage)
        self._b.keep(self._lane, fetched[1], stage)

    def _multiply(self, tile: _Tile, stage: int) -> None:
        f, tiling = self._f, self._d.tiling
        (down, across), (rows, columns, depth) = tiling.patch, tiling.fragment
        first_a, first_b = self._a.first(tile.patch_row), self._b.first(tile.patch_column)
        signs = () if self._d.operand.is_float else (_ALL_SIGNED,)
        for at in range(0, tiling.tile[2], depth):
            of_a = [self._a.fragment(self._of_a, stage, first_a, i * rows, at) for i in range(down)]
            for j in range(across):
                of_b = self._b.fragment(self._of_b, stage, first_b, j * columns, at)
                for i in range(down):
                    one = self._sums[i * across + j]
                    f.store(one, f.value(_MUL_ADD, self._of_sum, of_a[i], of_b, f.load(self._of_sum, one), *signs))

    def _store(self, tile: _Tile) -> None:
        f, tiling = self._f, self._d.tiling
        (down, across), (rows, columns, _) = tiling.patch, tiling.fragment
        for i in range(down):
            for j in range(across):
                row, column = tile.row + tile.patch_row + i * rows, tile.column + tile.patch_column + j * columns
                found = f.load(self._of_sum, self._sums[i * across + j])
                if self._d.out != self._d.accumulator:
                    found = f.value(Ins.FConvert, self._of_out, found)
                if self._d.is_exact:
                    self._store_whole(tile, found, row, column)
                    continue
                fits = [
                    f.is_below(at + size - 1, self._pushed[name])
                    for at, size, name in ((row, rows, "m"), (column, columns, "n"))
                ]
                is_whole = f.both(*fits)
                with f.when(is_whole):
                    self._store_whole(tile, found, row, column)
                with f.when(f.fails(is_whole)):
                    self._store_part(tile, found, row, column)

    def _place(self, tile: _Tile, row: Index, column: Index) -> Index:
        return tile.batch * self._pushed["c_batch"] + row * self._pushed["c_stride"] + column

    def _store_whole(self, tile: _Tile, found: int, row: Index, column: Index) -> None:
        pointer = self._c.at(self._place(tile, row, column))
        self._f.effect(_STORE, pointer, found, self._f.const(ROW_MAJOR), self._f.id_of(self._pushed["c_stride"]), 0)

    def _store_part(self, tile: _Tile, found: int, row: Index, column: Index) -> None:
        """Store what of a fragment is within the result, element by element from shared memory."""
        f, (rows, columns, _) = self._f, self._d.tiling.fragment
        assert self._edge is not None  # noqa: S101 -- exact kernels have no edges
        first = f.built_in(BuiltIn.SUBGROUP_ID) * (rows * columns)
        at = f.at(StorageClass.WORKGROUP, self._out, self._edge, first)
        f.effect(_STORE, at, found, f.const(ROW_MAJOR), f.const(columns), WRITTEN, f.const(Scope.SUBGROUP))
        f.barrier(Scope.SUBGROUP)
        with f.repeat(f.built_in(BuiltIn.SUBGROUP_LOCAL_INVOCATION_ID), rows * columns, self._d.tiling.subgroup_size) as one:
            y, x = row + one // columns, column + one % columns
            with f.when(f.both(f.is_below(y, self._pushed["m"]), f.is_below(x, self._pushed["n"]))):
                place = f.at(StorageClass.WORKGROUP, self._out, self._edge, first + one)
                value = f.load(self._out, place, READ, f.const(Scope.SUBGROUP))
                f.store(self._c.at(self._place(tile, y, x)), value)
        f.barrier(Scope.SUBGROUP)
