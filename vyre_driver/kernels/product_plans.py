"""How a product runs on a device: its fragments, what may be tuned, what is taken before that, and the dispatches of a call."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_driver.autotune.measure.definition import Call, DeviceFacts, Operand, Plan, Step
from vyre_driver.autotune.search.space import Axis, Candidate, Limits, TuningSpace
from vyre_driver.errors import LimitExceeded
from vyre_driver.kernels.common import grid_of, least_parts, over_shared_memory
from vyre_driver.kernels.product_numbers import dtype_of, name_of
from vyre_driver.matrices.description import SCALAR, STAGES, ProductDescription, Result, Tiling
from vyre_driver.matrices.elements import VECTOR_BYTES, ElementType
from vyre_driver.matrices.product import INVOCATIONS, parts_module, product_module
from vyre_driver.spirv.module import SpirvModule
from vyre_driver.target.config import DispatchConfig
from vyre_driver.vulkan.matrices import FlexibleMatrixShape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vyre_driver.kernels.convolution import ConvolutionShape
    from vyre_driver.kernels.products import ProductShape
    from vyre_driver.vulkan.devices import PhysicalDevice

Fragment = tuple[int, int, int]

_FEATURES = frozenset({"cooperativeMatrix", "vulkanMemoryModel"})
_OF_TYPES = {
    "float16": {"shaderFloat16", "storageBuffer16BitAccess"},
    "bfloat16": {"shaderBFloat16Type", "shaderBFloat16CooperativeMatrix", "storageBuffer16BitAccess"},
    "sint8": {"shaderInt8", "storageBuffer8BitAccess"},
}
_FLEXIBLE = "cooperativeMatrixFlexibleDimensions"
_FRAGMENTS_OF_A_STEP = 2
_MOST_FRAGMENTS, _LEAST_FRAGMENTS = 16, 2  # of a subgroup's patch: more do not fit into registers
_MOST_FRAGMENTS_ON_A_CPU = 4  # whose compilers write every product of numbers out
_LEAST_PART = 512  # products of a sum that are worth a part of their own
_WORKGROUPS = 256  # that keep a large device busy
_SCALAR_DEPTH, _SCALAR_SPLIT = 16, 8


def fragment_of(description: ProductDescription, device: DeviceFacts) -> Fragment | None:
    """Return the fragment of a product; as ``fragment_for``."""
    return fragment_for(description.operand, description.result.accumulator, device)


def fragment_for(operand: ElementType, accumulator: ElementType, device: DeviceFacts) -> Fragment | None:
    """Return (m, n, k) of what the device's subgroups multiply at once, None if it has no such matrices or they are off."""
    if operand.name not in _OF_TYPES or not device.features >= _FEATURES | _OF_TYPES[operand.name]:
        return None
    types = (operand.name, operand.name, accumulator.name, accumulator.name)
    shapes = [
        one
        for one in device.physical.matrix_shapes(flexible=_FLEXIBLE in device.features)
        if (one.types, one.saturating, one.scope) == (types, False, "subgroup")
    ]
    least = operand.in_vector
    fixed = [one.sizes for one in shapes if not isinstance(one, FlexibleMatrixShape) and not any(x % least for x in one.sizes)]
    if fixed:
        return max(fixed, key=math.prod)
    # On a CPU none of those is a whole vector of int8 and small enough: its compiler works on a product for minutes.
    is_worth = not device.physical.is_software
    flexible = [one.sizes for one in shapes if is_worth and isinstance(one, FlexibleMatrixShape)]
    whole = [(max(m, least), max(n, least), max(k, least)) for m, n, k in flexible]
    found = [one for one, sizes in zip(whole, flexible, strict=True) if not any(x % y for x, y in zip(one, sizes, strict=True))]
    return found[0] if found else None


def lack_of(operand: ElementType, device: DeviceFacts) -> str:
    """Return that a device has no fragments of a type, as the beginning of a message."""
    return f"{device.physical.name!r} has no cooperative matrices of {name_of(operand)}, or is open without their features"


def holds_sums(element: ElementType, fragment: Fragment, device: DeviceFacts) -> bool:
    """Whether the device has matrices of a type as large as the sums of a fragment, which may be stored as such then."""
    for one in device.physical.matrix_shapes(flexible=_FLEXIBLE in device.features):
        is_flexible = isinstance(one, FlexibleMatrixShape)
        fits = all(x % y == 0 if is_flexible else x == y for x, y in zip(fragment[:2], one.sizes[:2], strict=True))
        if fits and one.scope == "subgroup" and element.name in (one.c, one.result):
            return True
    return False


def tiling_of(fragment: Fragment | None, subgroup_size: int, candidate: Candidate) -> Tiling:
    """Return the tiling that a candidate stands for; without a fragment that of invocations."""
    across, down, _ = candidate.workgroup_size
    tile = candidate["TILE_Y"], candidate["TILE_X"]
    if fragment is None:
        return Tiling((*tile, _SCALAR_DEPTH), (down, across), SCALAR, 1)
    return Tiling((*tile, _FRAGMENTS_OF_A_STEP * fragment[2]), (down, across // subgroup_size), fragment, subgroup_size)


def space_of(description: ProductDescription, fragment: Fragment | None, device: PhysicalDevice) -> TuningSpace:
    """Return what may be tuned of a product on a device with these fragments."""
    subgroup_size, most = device.subgroup_size, _MOST_FRAGMENTS_ON_A_CPU if device.is_software else _MOST_FRAGMENTS
    parts = Axis("SPLIT_K", (1, 2, 4, 8, 16), "parts of k that are summed side by side")
    sizes: tuple[int, ...] = (64, 32)
    across: tuple[int, ...] = (_SCALAR_SPLIT,)
    down = across
    if fragment is not None:
        sizes = tuple(count * fragment[0] for count in (8, 4, 2, 16))
        across = tuple(count * subgroup_size for count in (2, 4, 1))
        down = (2, 1, 4)
    axes = (
        Axis("TILE_X", sizes, "columns of the result that a workgroup makes"),
        Axis("TILE_Y", sizes, "rows of the result that a workgroup makes"),
        parts,
        Axis("WORKGROUP_X", across, "invocations side by side", "x"),
        Axis("WORKGROUP_Y", down, "invocations or subgroups below each other", "y"),
    )
    return TuningSpace(axes, partial(_rule, description, fragment, subgroup_size, most))


def _rule(  # noqa: PLR0913 -- the first four are of the space
    description: ProductDescription,
    fragment: Fragment | None,
    subgroup_size: int,
    most_fragments: int,
    candidate: Candidate,
    limits: Limits,
) -> str | None:
    """Return why a product cannot be cut so, or is not worth trying."""
    one = replace(description, tiling=tiling_of(fragment, subgroup_size, candidate))
    problem = one.problem()
    if problem is not None:
        return problem
    if fragment is not None:
        count = math.prod(one.tiling.patch)
        if not _LEAST_FRAGMENTS <= count <= most_fragments:
            return f"a subgroup would make {count} fragments, and {_LEAST_FRAGMENTS} to {most_fragments} are worth trying"
    return over_shared_memory("its tiles take", one.shared_bytes, limits)


def untuned(candidates: Sequence[Candidate], size: tuple[int, ...]) -> Candidate:
    """Return what a product of (batch, m, n, k) is cut into when nothing was measured: enough for a large device.

    Of those that make enough workgroups the one with the fewest parts, then with the largest tile. Else what makes the most of
    them, of the smallest tile: no more of it than must be is beyond the result.
    """
    batch, m, n, k = size

    def area(one: Candidate) -> int:
        return one["TILE_X"] * one["TILE_Y"]

    def workgroups(one: Candidate) -> int:
        return batch * math.ceil(m / one["TILE_Y"]) * math.ceil(n / one["TILE_X"]) * one["SPLIT_K"]

    worth = [one for one in candidates if one["SPLIT_K"] == 1 or k >= one["SPLIT_K"] * _LEAST_PART]
    enough = [one for one in worth if workgroups(one) >= _WORKGROUPS]
    if not enough:
        return max(worth, key=lambda one: (workgroups(one), -area(one)), default=candidates[0])
    return min(enough, key=lambda one: (one["SPLIT_K"], -area(one)))


_PARTIAL = "partial"
_VECTORS, _HALVES, _BYTES = np.dtype((np.uint32, 4)), np.dtype(np.uint16), np.dtype(np.uint8)
_SUM_BYTES = 4
_SUBGROUPS = {"subgroupSizeControl", "computeFullSubgroups"}


@lru_cache(maxsize=256)
def module_of(description: ProductDescription) -> SpirvModule:
    """Return the module of a product; the same one for the same description."""
    return SpirvModule.from_bytes(product_module(description), name="product")


@lru_cache(maxsize=64)
def _sum_of(result: Result) -> SpirvModule:
    return SpirvModule.from_bytes(parts_module(result), name="product_parts")


def described(description: ProductDescription, device: DeviceFacts, candidate: Candidate) -> ProductDescription:
    """Return a product cut as a candidate has it, for matrices of any size and place."""
    fragment = fragment_of(description, device)
    tiling = tiling_of(fragment, device.physical.subgroup_size, candidate)
    return replace(description, tiling=tiling, is_aligned=False, is_direct=False)


@dataclass(frozen=True, slots=True)
class ProductPlan:
    """One call of a product: its arrays by name, a and b first, and what comes out; of a convolution the images."""

    call: Call
    description: ProductDescription
    shape: ProductShape
    inputs: tuple[str, ...]
    out: tuple[str, Operand]
    scale: float
    images: ConvolutionShape | None = None

    def plan(self) -> Plan:
        """Return the dispatches; raises LimitExceeded for too large a batch."""
        if 0 in (self.shape.k, self.parts):
            return self._in_parts((), 0)
        parts = self.parts
        if parts == 1:
            return Plan((self._product(self._cut(self.description.result), self.out[0], self.inputs[2:]),), dict([self.out]))
        accumulator = self.description.result.accumulator
        partial_result = replace(self.description.result, out=accumulator, has_bias=False, has_residual=False, activation=None)
        return self._in_parts((self._product(self._cut(partial_result), _PARTIAL, ()),), parts)

    @property
    def parts(self) -> int:
        """In how many parts k is summed: as the candidate has it, if none of them is empty then, and the device has room."""
        return math.ceil(self.shape.k / self._k_part)

    @property
    def _most_parts(self) -> int:
        """How many parts of all matrices the grid and a buffer have room for, 1 at least."""
        shape, limits = self.shape, self.call.device.physical.limits
        in_buffer = limits.max_storage_buffer_range // (shape.batch * shape.m * shape.n * _SUM_BYTES)
        return max(min(in_buffer, limits.max_compute_work_group_count[2] // shape.batch), 1)

    @property
    def _k_part(self) -> int:
        tiling = self._tiled.tiling
        depth, step = tiling.tile[2], STAGES * tiling.tile[2]
        # Ordinary units go over each depth of a step in a loop (matrices/scalar_product.py), matrices take two steps a turn.
        least = least_parts(self.shape.k, depth, depth + 2 if tiling.is_scalar else 1, self.call.device)
        parts = max(self.call.candidate["SPLIT_K"], least)
        parts = min(parts, self._most_parts)
        return max(math.ceil(self.shape.k / (parts * step)), 1) * step

    @property
    def _tiled(self) -> ProductDescription:
        return described(self.description, self.call.device, self.call.candidate)

    @property
    def _strides(self) -> tuple[int, int]:
        """Elements from a line of a and b to the next one; of images from a pixel."""
        shape, description = self.shape, self.description
        of_b = shape.k if description.b_transposed else shape.n
        if self.images is not None:
            return self.images.channels, of_b
        return shape.m if description.a_transposed else shape.k, of_b

    def _cut(self, result: Result) -> ProductDescription:
        """Return the product as this call needs it: with edges where there are, in vectors where all lines begin at one."""
        tiled = self._tiled
        if tiled.tiling.is_scalar:
            return replace(tiled, result=result)
        m, n, k = tiled.tiling.tile
        is_aligned = not any(stride % tiled.operand.in_vector for stride in self._strides)
        has_tiles, has_steps = not (self.shape.m % m or self.shape.n % n), not self.shape.k % (STAGES * k)
        is_direct = self.shape.n * result.out.byte_len % VECTOR_BYTES == 0
        is_direct = is_direct and holds_sums(result.out, tiled.tiling.fragment, self.call.device)
        return replace(
            tiled,
            result=result,
            is_aligned=is_aligned,
            is_direct=is_direct,
            has_whole_tiles=has_tiles,
            has_whole_steps=has_steps and is_aligned,
        )

    def _product(self, cut: ProductDescription, out: str, extra: tuple[str, ...]) -> Step:
        shape, limits, parts = self.shape, self.call.device.physical.limits, self.parts
        most = limits.max_compute_work_group_count[2]
        if shape.batch > most:
            raise LimitExceeded(
                f"{shape.batch} matrices were to be multiplied, and the device takes {most} at once",
                fix=f"multiply at most {most} matrices at once",
                requested=shape.batch,
                limit=most,
            )
        tile = cut.tiling.tile
        across, down, _ = grid_of(math.ceil(shape.m / tile[0]) * math.ceil(shape.n / tile[1]), limits)
        a_stride, b_stride = self._strides
        push = {"m": shape.m, "n": shape.n, "k": shape.k, "a_stride": a_stride, "b_stride": b_stride, "c_stride": shape.n}
        push |= {"a_batch": shape.a_step, "b_batch": shape.b_step, "c_batch": shape.m * shape.n}
        push |= {"parts": parts, "k_part": self._k_part}
        push |= {"scale": bits_of_float(self.scale if parts == 1 else 1.0)}
        if self.images is not None and cut.is_convolution:
            push |= self.images.pushed
        operand = _VECTORS if cut.is_aligned else _bits_of(cut)
        views = {name: operand for name in self.inputs[:2] if operand is not None}
        views |= _bfloat_views(cut.result.out, (out, *extra))
        config = None if cut.tiling.is_scalar else subgroup_config(self.call.device)
        names, grid = (*self.inputs[:2], out, *extra), (across, down, shape.batch * parts)
        return Step(module_of(cut), names, grid, {}, push, config, views)

    def _in_parts(self, steps: tuple[Step, ...], parts: int) -> Plan:
        """Return what sums parts after these steps; of none it makes sums of nothing."""
        shape, result, (name, out) = self.shape, self.description.result, self.out
        size = shape.m * shape.n
        push = {"n": shape.n, "size": size, "count": shape.batch * size, "parts": parts, "scale": bits_of_float(self.scale)}
        groups = grid_of(math.ceil(shape.batch * size / INVOCATIONS), self.call.device.physical.limits)
        names = (name, *self.inputs[2:])
        views = _bfloat_views(result.out, names)
        last = Step(_sum_of(result), (_PARTIAL, *names), groups, {}, push, None, views)
        partial = Operand((max(shape.batch * parts * size, 1),), dtype_of(result.accumulator))
        return Plan((*steps, last), {name: out}, {_PARTIAL: partial})


def subgroup_config(device: DeviceFacts) -> DispatchConfig | None:
    """Return that subgroups are of the device's size, which fragments are for, and whole, where the device can be asked."""
    return DispatchConfig(subgroup_size=device.physical.subgroup_size) if device.features >= _SUBGROUPS else None


def bits_of_float(number: float) -> int:
    """Return a number as the bits of a float32."""
    return int(np.float32(number).view(np.uint32))


def _bits_of(cut: ProductDescription) -> np.dtype[Any] | None:
    """Return how operands are read that are not aligned: as bits, or as what they are by ordinary units."""
    if cut.tiling.is_scalar:
        return _HALVES if cut.operand.is_bfloat else None
    return _HALVES if cut.operand.byte_len == _HALVES.itemsize else _BYTES


def _bfloat_views(element: ElementType, names: tuple[str, ...]) -> dict[str, np.dtype[Any]]:
    return dict.fromkeys(names, _HALVES) if element.is_bfloat else {}
