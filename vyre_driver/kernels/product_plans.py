"""The dispatches of a product: one, or parts of k side by side and their sum."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from vyre_driver.autotune.measure.definition import Operand, Plan, Step
from vyre_driver.errors import LimitExceeded
from vyre_driver.kernels.product_numbers import dtype_of
from vyre_driver.kernels.product_tilings import fragment_of, holds_sums, tiling_of
from vyre_driver.kernels.tiles import grid_of, least_parts
from vyre_driver.matrices.description import STAGES
from vyre_driver.matrices.elements import VECTOR_BYTES
from vyre_driver.matrices.product import INVOCATIONS, parts_module, product_module
from vyre_driver.spirv.module import SpirvModule
from vyre_driver.target.config import DispatchConfig

if TYPE_CHECKING:
    from vyre_driver.autotune.measure.definition import Call, DeviceFacts
    from vyre_driver.autotune.search.space import Candidate
    from vyre_driver.kernels.convolution_shapes import ConvolutionShape
    from vyre_driver.kernels.product_shapes import ProductShape
    from vyre_driver.matrices.description import ProductDescription, Result
    from vyre_driver.matrices.elements import ElementType

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
